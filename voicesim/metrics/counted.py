"""What the numbers of a run are made of: counts and sums of its calls and streams.

They add up, so a run can be counted piece by piece.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from voicesim.engine.layout import OUTCOMES
from voicesim.metrics.histogram import Histogram
from voicesim.scenario import degradation

LIMITS = (0.05, 0.1, 0.2)
"""Seconds of stall up to which a reply counts for c50, c100 and c200."""

MOST_RUNGS = 1 + degradation.MOST_RUNGS
"""Rungs of a ladder at most, with the one below it."""


@dataclass
class Counted:
    """calls by outcome, and of all: clean.  accepted: let in and never refused for good; of these
    measured, and of those stalled: with an audible one.

    timed: completed streams of two chunks or more; their audio_s and stall_s (s); within: int64[3],
    how many had no stall beyond each of LIMITS.  waits: request to first sound (s) of the streams
    that were heard, float64[n] or a histogram.  degraded, clean_degraded: of all calls; rungs:
    int64[MOST_RUNGS], utterances asked for by their rung.
    """

    calls: int
    outcomes: np.ndarray
    clean: int
    accepted: int
    measured: int
    stalled: int
    timed: int
    audio_s: float
    stall_s: float
    within: np.ndarray
    waits: Any
    degraded: int
    clean_degraded: int
    rungs: np.ndarray

    def outcome(self, name: str) -> int:
        """Calls of that outcome."""
        return int(self.outcomes[OUTCOMES.index(name)])

    def in_histogram(self) -> "Counted":
        """The same with its waits in a histogram."""
        found = Histogram()
        found.add(self.waits)
        return Counted(**{**vars(self), "waits": found})

    def __add__(self, other: "Counted") -> "Counted":
        """Both together; their waits are histograms."""
        return Counted(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )


def count(calls: pd.DataFrame, streams: pd.DataFrame, warmup: float) -> Counted:
    """Of the tables of voicesim.metrics.tables, without calls that arrived before the warm-up."""
    calls = calls[calls["arrival_s"] >= warmup]
    streams = streams[streams["session"].isin(calls["session"])]
    outcome = calls["outcome"].value_counts()
    accepted = calls[calls["accepted"] & (calls["outcome"] != "refused")]
    measured = accepted[accepted["measured"]]
    completed = streams[streams["outcome"] == "completed"]
    timed = completed[completed["chunks"] >= 2]  # the others have no timeline to stall in
    stall = timed["stall_largest_s"].to_numpy()
    return Counted(
        calls=len(calls),
        outcomes=np.array([int(outcome.get(name, 0)) for name in OUTCOMES]),
        clean=int(calls["clean"].sum()),
        accepted=len(accepted),
        measured=len(measured),
        stalled=int((measured["audible_stalls"] > 0).sum()),
        timed=len(timed),
        audio_s=float(timed["audio_s"].sum()),
        stall_s=float(timed["stall_total_s"].sum()),
        within=np.array([np.count_nonzero(stall <= limit) for limit in LIMITS]),
        waits=(streams["started_s"] - streams["requested_s"]).dropna().to_numpy(),
        degraded=int(calls["degraded"].sum()),
        clean_degraded=int((calls["degraded"] & calls["clean"]).sum()),
        rungs=np.bincount(streams["rung"], minlength=MOST_RUNGS),
    )


NOBODY = Counted(
    0,
    np.zeros(len(OUTCOMES), int),
    0,
    0,
    0,
    0,
    0,
    0.0,
    0.0,
    np.zeros(3, int),
    Histogram(),
    0,
    0,
    np.zeros(MOST_RUNGS, int),
)
