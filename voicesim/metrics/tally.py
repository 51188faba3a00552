"""A run's numbers taken piece by piece, for runs too large to keep a row for every stream.

What leaves a run (``simulate(..., leave=...)``) is counted and let go.  Counts are exact, sums are
to rounding, quantiles of waits come from a histogram (voicesim.metrics.histogram: 0.2 % off at
most).
"""

from hashlib import sha256

import numpy as np
import pandas as pd

from voicesim.metrics import stalls
from voicesim.metrics.counted import NOBODY, count
from voicesim.metrics.edges import curves
from voicesim.metrics.observed import waits
from voicesim.simulation import Run


class StallError(Exception):
    """A run has an audible stall, but nobody has looked for causes."""


class Tally:
    """Of one pool's run.  run: without rows, there when the run is over.

    counted, number and seconds (of stalls by cause), waited (for alarms, else None), heard and
    stalled: sums of what voicesim.metrics.counted.count, .stalls.causes, .observed.waits and
    .edges.curves give of the pieces.  callers: as voicesim.study.callers has it of the whole tape.
    longest_prompt, longest_stream: tokens.
    """

    run: Run
    callers: str

    def __init__(self, blamed: bool = True, calm: bool = False) -> None:
        self.blamed = blamed  # do the causes of its stalls belong to it?
        self.calm = calm  # nobody looked for causes; there must be nothing to have one
        self.counted = NOBODY
        self.number: stalls.Sums = {}
        self.seconds: stalls.Sums = {}
        self.waited: np.ndarray | None = None
        self.heard, self.stalled = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._clean: list[np.ndarray] = []
        self._late: list[int] = []
        self._sizes: list[np.ndarray] = []
        self._arrivals = sha256()
        self._tokens = self._prompts = self._utterances = 0
        self.longest_prompt = self.longest_stream = 0

    @property
    def pool(self) -> str:
        """Name of the pool."""
        return next(iter(self.run.scenario.cluster.pools))

    @property
    def half_way(self) -> float:
        """Mean KV tokens of a stream half way through."""
        n = self._utterances
        return self._prompts / n + self._tokens / n / 2 if n else 0.0

    def add(
        self, run: Run, calls: pd.DataFrame, streams: pd.DataFrame, rows: pd.DataFrame | None
    ) -> None:
        """Count what left: its tape and record, its tables; rows: its stalls, if known."""
        self._stays_calm(run)
        warmup, tape = run.scenario.warmup, run.tape
        self.counted += count(calls, streams, warmup).in_histogram()
        heard, stalled = curves(calls, streams, warmup)
        self.heard, self.stalled = _sum(self.heard, heard), _sum(self.stalled, stalled)
        late = calls["arrival_s"].to_numpy() >= warmup
        if rows is not None:
            number, seconds = stalls.causes(rows, calls["session"].to_numpy()[late])
            self.number = stalls.together((self.number, number))
            self.seconds = stalls.together((self.seconds, seconds))
        if run.scenario.alarms:
            waited = waits(run, streams)
            self.waited = waited if self.waited is None else self.waited + waited
        self._clean.append(np.packbits(calls["clean"].to_numpy()[late]))
        self._late.append(int(late.sum()))
        self._arrivals.update(tape.arrival.tobytes())
        sizes = np.diff(tape.first)
        self._sizes.append(sizes.astype(np.min_scalar_type(int(sizes.max(initial=0)))))
        self._utterances += tape.utterances
        self._tokens += int(tape.tokens.sum())
        self._prompts += int(tape.prompt.sum())
        self.longest_prompt = max(self.longest_prompt, int(tape.prompt.max(initial=0)))
        longest = int((tape.prompt + tape.tokens).max(initial=0))
        self.longest_stream = max(self.longest_stream, longest)

    def finish(self, run: Run) -> None:
        """The run is over; what is needed no more is let go."""
        self._stays_calm(run)
        if self.calm:
            self.number, self.seconds = stalls.causes(stalls.stalls(run), np.zeros(0, int))
        self.run, tape = run, run.tape
        arrivals, sizes = self._arrivals, self._sizes
        if tape.closed:
            arrivals, sizes = sha256(tape.arrival.tobytes()), [np.diff(tape.first)]
        for each in sizes:
            arrivals.update(each.astype(np.int64).tobytes())
        self.callers = arrivals.hexdigest()[:16]
        del self._arrivals, self._sizes

    def _stays_calm(self, run: Run) -> None:
        if self.calm and run.record.first_stall < np.inf:
            raise StallError

    @property
    def clean(self) -> np.ndarray:
        """bool[n]: was it clean? of the calls after the warm-up as they came (of a closed loop: by
        number)."""
        pieces = zip(self._clean, self._late, strict=True)
        return np.concatenate([np.unpackbits(x, count=n) for x, n in pieces]).astype(bool)


def _sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return b if not len(a) else a + b
