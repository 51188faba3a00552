"""The recogniser's arenas, and what a run leaves in them."""

import numpy as np

from voicesim.engine import asr_layout as at
from voicesim.engine.asr_rules import frames_of_delay, inside
from voicesim.engine.asr_spec import SLOTS, WINDOWS, AsrSpec
from voicesim.engine.layout import N_FINE
from voicesim.engine.trace import MOST_OF_ASR, N_TRACE_F, N_TRACE_I


class AsrPool:
    """State of a pool of recognisers: the arenas F and I for the functions of kernel/asr.py.

    calls, rows: how many calls and segments of speech there will be, at most.
    warmup, horizon: the observed window (s).
    trace: log what happens between these instants (s; voicesim.engine.trace).

    Raises ValueError if no replica could ever work.
    """

    def __init__(
        self, spec: AsrSpec, calls: int, rows: int, warmup: float, horizon: float,
        trace: tuple[float, float] | None = None,
    ):  # fmt: skip
        check(spec)
        self.spec = spec
        slots = spec.kind == SLOTS
        rows = max(rows, 1)
        cap = 1 if slots else min(spec.cap, rows)
        workers = 1 if slots else spec.workers
        ends = spec.engines * workers
        items = ends + rows + spec.engines
        logged = 0 if trace is None else MOST_OF_ASR
        self.I = self._arena(
            np.zeros(at.N_INT_HEADER, np.int64),
            {
                at.O_SEGMENT: rows * at.NGI, at.O_CALL: max(calls, 1) * at.NCI,
                at.O_ENGINE: spec.engines * at.NEI, at.O_COUNT: ends, at.O_BATCH: ends * cap,
                at.O_HEAP: items, at.O_PLACE: items, at.O_OUT: rows,
                at.O_CHUNK_HIST: N_FINE, at.O_FINAL_HIST: N_FINE,
                at.O_TRACE: logged * N_TRACE_I,
            },
        )  # fmt: skip
        self.F = self._arena(
            np.zeros(at.N_FLOAT_HEADER),
            {
                at.OF_SEGMENT: rows * at.NYF, at.OF_ENGINE: spec.engines * at.NXF,
                at.OF_TIME: items, at.OF_TRACE: logged * N_TRACE_F,
            },
        )  # fmt: skip
        for entry, value in (
            (at.H_KIND, spec.kind), (at.H_ENGINES, spec.engines), (at.H_WORKERS, workers),
            (at.H_CAP, cap), (at.H_SLOTS, spec.slots), (at.H_ROWS, rows),
            (at.H_DELAY_FRAMES, frames_of_delay(spec.right, spec.chunk)),
            (at.H_TRACE, trace is not None),
        ):  # fmt: skip
            self.I[entry] = value
        for entry, number in (
            (at.K_CHUNK, spec.chunk), (at.K_RIGHT, spec.right), (at.K_LONGEST, spec.window),
            (at.K_FLOOR, spec.cost[0]), (at.K_PER_ROW, spec.cost[1]),
            (at.K_PER_AUDIO, spec.cost[2]), (at.K_STEP, spec.step), (at.K_WARMUP, warmup),
            (at.K_HORIZON, horizon), (at.K_TRACE_FROM, trace[0] if trace else 0.0),
            (at.K_TRACE_TO, trace[1] if trace else 0.0),
        ):  # fmt: skip
            self.F[entry] = number
        self._section(self.I, at.O_PLACE, items)[:] = -1
        self._section(self.I, at.O_CALL, max(calls, 1) * at.NCI)[at.C_ENGINE :: at.NCI] = -1
        engines = self._section(self.I, at.O_ENGINE, spec.engines * at.NEI)
        engines[at.E_HEAD :: at.NEI] = engines[at.E_TAIL :: at.NEI] = -1

    def _arena(self, header: np.ndarray, sizes: dict[int, int]) -> np.ndarray:
        """Header and sections in one array; their offsets go into the int header."""
        offsets = header if header.dtype == np.int64 else self.I
        position = len(header)
        for entry, size in sizes.items():
            offsets[entry] = position
            position += size
        return np.concatenate([header, np.zeros(position - len(header), header.dtype)])

    def _section(self, arena: np.ndarray, entry: int, size: int) -> np.ndarray:
        return arena[self.I[entry] : self.I[entry] + size]

    def record(self, now: float) -> dict[str, np.ndarray]:
        """The results up to ``now``: the names and units of ``results`` below."""
        ints, floats, n = self.I, self.F, self.spec.engines
        engines = self._section(ints, at.O_ENGINE, n * at.NEI).reshape(n, at.NEI)
        rows = self._section(floats, at.OF_ENGINE, n * at.NXF).reshape(n, at.NXF)
        window = floats[at.K_WARMUP], floats[at.K_HORIZON]
        noted = int(ints[at.H_NTRACE])
        return results(
            chunk_hist=self._section(ints, at.O_CHUNK_HIST, N_FINE),
            final_hist=self._section(ints, at.O_FINAL_HIST, N_FINE),
            chunk_delay=floats[at.K_CHUNK_SUM],
            final_delay=floats[at.K_FINAL_SUM],
            busy=rows[:, at.X_BUSY],
            calls=rows[:, at.X_AREA]
            + [e[at.E_CALLS] * inside(x[at.X_SINCE], now, *window)
               for e, x in zip(engines, rows, strict=True)],
            batches=ints[at.H_BATCHES],
            jobs=ints[at.H_JOBS],
            audio=floats[at.K_AUDIO],
            rejected=ints[at.H_REJECTED],
            backlog=floats[at.K_BACKLOG],
            trace_i=self._section(ints, at.O_TRACE, noted * N_TRACE_I).reshape(-1, N_TRACE_I),
            trace_f=self._section(floats, at.OF_TRACE, noted * N_TRACE_F).reshape(-1, N_TRACE_F),
        )  # fmt: skip


def results(**values) -> dict[str, np.ndarray]:
    """What kernel and reference leave behind, as arrays (those of one number have no axis).

    chunk_hist, final_hist: int64[3072], histograms (voicesim.engine.layout.quantile_edges, in
    seconds) of the delay of a chunk, from when its audio was there (right context not included)
    to when its words are, and of a text, from the flush; both of what came inside the observed
    window.  chunk_delay, final_delay: their sums (s).
    busy: float64[engines], seconds of batches inside the observed window, all workers together;
    calls: float64[engines], connected call seconds inside it.
    batches, jobs: int64; audio: float64, seconds of audio that jobs went over; rejected: int64,
    calls; all of the whole run.  backlog: float64, the most audio of a segment that waited (s).
    trace_i: int64[n, 7], trace_f: float64[n, 4], what happened in a window, if asked for.
    """
    return {name: np.array(value) for name, value in values.items()}


def check(spec: AsrSpec) -> None:
    """ValueError if no replica could ever work."""
    names = ["engines", "chunk"]
    names += ["slots", "step"] if spec.kind == SLOTS else ["cap", "workers"]
    names += ["window"] if spec.kind == WINDOWS else []
    for name in names:
        if not getattr(spec, name) > 0:
            raise ValueError(f"asr {name} is {getattr(spec, name)}; it must be above 0")
