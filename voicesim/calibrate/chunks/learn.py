"""From a chunk timeline to what it tells: cadence, steps, codec, prompts, network, demand."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from voicesim.calibrate.chunks.batches import Batches, find_batches
from voicesim.calibrate.chunks.demand import Demand, demands_of
from voicesim.calibrate.chunks.first import firsts_of, overhead, prefill_per_token
from voicesim.calibrate.chunks.gaps import codec_per_frame, gaps_of, jitter_of, prompt_in_gaps
from voicesim.calibrate.chunks.load import one_clock
from voicesim.calibrate.chunks.robust import less
from voicesim.calibrate.chunks.schedule import MOSTLY, Cadence, find_cadence, frames_of
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.samples import SHORTEST_S, from_columns
from voicesim.engine.profile import CodecCost, Quantity

ENOUGH = 20
"""Gaps between chunks of one size that a run needs, else all its gaps are used."""
GROWS = 1.5
"""Ratio of large to small batches (95 % to 5 %) from which growth with the batch shows."""
SATURATED = 0.9
"""Share of the time that the codec is busy beyond which gaps are the codec's, not decoding's."""
MOST = 20_000
"""Gaps that are fitted at most."""
PARTS = 6
"""Runs that a bootstrap over runs needs; fewer are cut into as many parts of time."""
MEDIAN_OF_JITTER = 0.8392
"""Median over mean of a gamma distribution of shape 2."""


@dataclass
class Learned:
    """What one file of chunks tells; None is what it cannot.

    steps: sample rows, each a mean over ``steps`` engine steps.  codec: cost of a batch.
    prefill: s per prompt token.  overhead: s of the first
    chunk that nothing else explains (gateway, network and, if ``codec`` does not hold it, the
    codec's floor).  jitter: mean extra delay (s).  cannot: a sentence for each thing not known.
    """

    file: str
    token_audio_s: float
    cadence: Cadence
    steps: pd.DataFrame | None = None
    codec: CodecCost | None = None
    batches: Batches | None = None
    prefill: Quantity | None = None
    overhead: Quantity | None = None
    jitter: Quantity | None = None
    jitter_batch: float = 1.0
    demands: list[Demand] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)

    @property
    def delay(self) -> Quantity | None:
        """One-way delay (s) of a listener: the overhead less the median jitter."""
        if self.overhead is None:
            return None
        return less(self.overhead, MEDIAN_OF_JITTER * (self.jitter.value if self.jitter else 0.0))


def learn(chunks: pd.DataFrame, token_audio_s: float, file: str) -> Learned:
    """Everything that a chunks table (``readers.measured.CHUNKS``) tells.

    token_audio_s: seconds of audio of a frame.  Raises CalibrationError where the table cannot
    be used (a wrong frame duration, no stream of two chunks).
    """
    order = ["run", "request", "chunk"]
    table = chunks.assign(run=chunks["run"].astype(str), request=chunks["request"].astype(str))
    table = table.sort_values(order, kind="stable", ignore_index=True)
    for name in ("concurrency", "prompt_tokens"):
        if name not in table:
            table[name] = np.nan
    table["frames"] = frames_of(table, token_audio_s, file)
    out = Learned(file, token_audio_s, find_cadence(table))
    if out.cadence.follow < MOSTLY:
        out.cannot.append(
            "one chunk schedule: streams keep to different ones; what is printed is the most usual"
        )
    out.demands = demands_of(table)
    gaps = thin(gaps_of(table))
    if gaps.empty:
        message = "no stream has three chunks: nothing but its first chunk and its end can be read"
        raise CalibrationError(file, None, message)
    if not all(one_clock(rows) for _, rows in table.groupby("run", sort=False)):
        out.cannot.append(
            "arrivals, codec batches and prompts that joined: every stream's time begins at its "
            "own request, so streams cannot be laid side by side"
        )
    _learn_costs(out, table, gaps)
    out.jitter, out.jitter_batch = jitter_of(gaps, _value(_frame(out)), _value(out.prefill))
    if out.jitter is None:
        out.cannot.append("network jitter: too few chunks in a row at a light load")
    _learn_overhead(out, table, gaps)
    out.steps = _step_samples(out, gaps)
    if out.steps is not None and (out.steps["steps"] > 1).all():
        out.cannot.append("step noise: every gap is a mean over several steps")
    out.cannot.append(
        "sharing of one GPU: what the codec costs decoding is inside the steps, so both slowdowns "
        "stay as they are"
    )
    return out


def thin(gaps: pd.DataFrame) -> pd.DataFrame:
    """At most about MOST gaps: those of every so many streams."""
    every = -(-len(gaps) // MOST)
    return gaps[gaps["stream"] % every == 0].reset_index(drop=True) if every > 1 else gaps


def _learn_costs(out: Learned, table: pd.DataFrame, gaps: pd.DataFrame) -> None:
    """Prompts from first chunks, else from gaps; the codec from its batches, else from the ramp."""
    out.batches = find_batches(table)
    out.prefill = prefill_per_token(firsts_of(table))
    if out.batches is not None and out.batches.cost is not None:
        floor, row, frame = out.batches.cost
        out.codec = CodecCost(floor_s=floor, per_row_s=row, per_frame_s=frame)
        out.cannot += out.batches.merged
        if out.batches.window is None:
            out.cannot.append(
                "codec gather window: too few full batches to show it; it is inside floor_s"
            )
    else:
        frame_s = codec_per_frame(gaps, _value(out.prefill))
        if frame_s is None:
            one = not out.cadence.varied
            why = "every chunk has one size" if one else "too few chunks of different sizes"
            out.cannot.append(
                f"codec: {why} and no batches stand back to back, so its cost cannot be told from "
                "decoding; give it in the scenario or in a step CSV"
            )
        else:
            most = out.batches.spacing_s if out.batches is not None else None
            low = None if most is None else 0.0
            zero = Quantity(value=0.0, low=low, high=most)
            out.codec = CodecCost(floor_s=zero, per_row_s=zero, per_frame_s=frame_s)
            out.cannot.append(
                "codec floor_s and per_row_s: no batches stand back to back; assumed 0 (both are "
                "inside the overhead of the first chunk), so a ceiling set by the codec is too high"
            )
    if out.prefill is None:
        out.prefill = prompt_in_gaps(gaps, _value(_frame(out)))
    if out.prefill is None:
        out.cannot.append(
            "prefill per token: prompts hardly differ and no gap shows one that joined; what "
            "prompts cost is inside the steps and the overhead"
        )


def _learn_overhead(out: Learned, table: pd.DataFrame, gaps: pd.DataFrame) -> None:
    pure = (_own_seconds(out, gaps) / gaps["frames"]).groupby(gaps["run"]).median()
    names = list(dict.fromkeys(table["run"]))
    steps = {names.index(str(run)): float(step) for run, step in pure.items()}
    out.overhead = overhead(firsts_of(table), out.prefill, _value(_frame(out)), steps)
    if out.overhead is None:
        out.cannot.append("network delay: no request has its time of sending")
        return
    if out.batches is not None and out.batches.cost is not None:
        window = _value(out.batches.window)
        fixed = window + sum(q.value for q in out.batches.cost[:2])
        out.overhead = less(out.overhead, fixed)
    out.cannot.append(
        "network delay and gateway: only their sum shows"
        + ("" if out.batches and out.batches.cost else ", with the codec's floor in it")
    )


def _own_seconds(out: Learned, gaps: pd.DataFrame) -> pd.Series:
    """Seconds of decoding in each gap: without prompts that joined and without the codec."""
    change = gaps["frames"] - gaps["before"]
    prompts = _value(out.prefill) * gaps["joined"].fillna(0.0)
    return gaps["seconds"] - prompts - _value(_frame(out)) * change


def _step_samples(out: Learned, gaps: pd.DataFrame) -> pd.DataFrame | None:
    """Mean steps as sample rows; None where the batch is not known."""
    same = gaps["frames"] == gaps["before"]
    enough = same.groupby(gaps["run"]).transform("sum") >= ENOUGH
    keep = (same | (~enough & (out.codec is not None))) & gaps["batch"].notna()
    busy = out.batches.busy if out.batches is not None else {}
    full = sorted(run for run, share in busy.items() if share > SATURATED)
    if full:
        out.cannot.append(
            f"steps of {', '.join(full)}: the codec is busy more than {SATURATED:.0%} of the time, "
            "so its pace is what the gaps show"
        )
    rows = gaps[keep & ~gaps["run"].isin(full) & ~_draining(out, gaps)]
    seconds = (_own_seconds(out, rows) / rows["frames"]).to_numpy()
    rows, seconds = rows[seconds >= SHORTEST_S], seconds[seconds >= SHORTEST_S]
    if rows.empty:
        out.cannot.append("decode steps: no gap between chunks of one size at a known concurrency")
        return None
    load = _load(rows)
    small, large = np.quantile(load, [0.05, 0.95])
    if large < GROWS * small:
        out.cannot.append(
            f"growth with the batch: {small:.1f} to {large:.1f} streams decoded; taken as one level"
        )
        load = np.full(len(load), max(float(np.rint(load.mean())), 1.0))
    context = rows["context"].to_numpy(dtype=float)
    return from_columns(
        {
            "stage": "decode",
            "run": _parts(rows),
            "batch": np.maximum(np.rint(load), 1.0),
            "context": context,
            "prefill_tokens": 0.0,
            "tokens": load,
            "kv_read": load * context,
            "pairs": load * context,
            "streams": load,
            "seconds": seconds,
            "steps": rows["frames"].to_numpy(),
            "file": out.file,
        }
    )


def _draining(out: Learned, gaps: pd.DataFrame) -> pd.Series:
    """Gaps of a closed loop after its last request was sent, when the streams die away."""
    last = {d.run: d.last_sent for d in out.demands if d.kind == "closed"}
    return gaps["at"] > gaps["run"].map(last).fillna(np.inf)


def _load(rows: pd.DataFrame) -> np.ndarray:
    """Decoding streams of each gap; where a run keeps to one number, that number.

    Which gap a prompt or a leaving stream falls into is less certain than how many there are.
    """
    load = rows["batch"].to_numpy(dtype=float).copy()
    usual = rows.groupby("run")["batch"].transform("median").to_numpy()
    near = np.abs(np.log(load / usual)) < 0.5 * np.log(GROWS)
    run = rows["run"].to_numpy(dtype=str)
    for name in np.unique(run):
        mine = run == name
        if near[mine].mean() >= MOSTLY:
            load[mine & near] = load[mine & near].mean()
    return load


def _parts(rows: pd.DataFrame) -> np.ndarray:
    """Names of the runs; few runs are cut into parts of time, so that intervals can be drawn."""
    run = rows["run"].to_numpy(dtype=str)
    count = len(np.unique(run))
    if count >= PARTS:
        return run
    each = -(-PARTS // count)
    rank = rows.groupby("run")["at"].rank(pct=True).to_numpy()
    part = np.minimum((rank * each).astype(int), each - 1) + 1
    return np.array([f"{name} part {i}" for name, i in zip(run, part, strict=True)])


def _frame(out: Learned) -> Quantity | None:
    return None if out.codec is None else out.codec.per_frame_s


def _value(quantity: Quantity | None) -> float:
    return 0.0 if quantity is None else quantity.value
