"""How well an alert rule warns of audible stalls: counted in each run, put together over runs.

An *episode* is a row of audible stalls with less than the horizon between neighbours.  Of each
episode a rule has *warned* if it was raised within the horizon before its first stall; it was
*early* if it had been firing since before that, *late* if it was raised while the episode went on
(or within the horizon after), else it *missed*.  An alarm is *false* if no audible stall lies
within the horizon of its raising, on either side.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from voicesim.experiment.method import (
    bootstrap_ratio,
    poisson_interval,
    quantile_interval,
    wilson,
)
from voicesim.metrics.observed import Observed

WARNED, EARLY, LATE, MISSED = "warned", "early", "late", "missed"
OUTCOMES = (WARNED, EARLY, LATE, MISSED)

Range = tuple[float, float]


@dataclass(frozen=True)
class Tally:
    """One rule in one run.  outcomes: of each episode in order; leads (s): negative if late, -inf
    if there was none; false: of the ``raised`` alarms; hours observed."""

    outcomes: tuple[str, ...]
    leads: tuple[float, ...]
    raised: int
    false: int
    hours: float


def stall_times(seen: Observed) -> np.ndarray:
    """float64[n]: starts (s) of the bins in which an audible stall began after the warm-up; the
    first stall's own time where it is known."""
    bins = np.flatnonzero(seen.stalls)
    times = bins[bins * seen.bin_s >= seen.warmup] * seen.bin_s
    if len(times) and times[0] <= seen.first_stall < times[0] + seen.bin_s:
        times[0] = seen.first_stall
    return np.asarray(times, float)


def episodes(times: np.ndarray, horizon: float) -> np.ndarray:
    """float64[n, 2]: first and last stall of each episode."""
    if not len(times):
        return np.zeros((0, 2))
    cut = np.flatnonzero(np.diff(times) >= horizon)
    first = np.concatenate(([0], cut + 1))
    last = np.concatenate((cut, [len(times) - 1]))
    return np.column_stack((times[first], times[last]))


def tally(
    spells: np.ndarray, stalls: np.ndarray, horizon: float, since: float, until: float
) -> Tally:
    """Count one rule over one run.

    spells: float64[n, 2], from when to when it fired; stalls: when they began; all in s.  Alarms
    raised and episodes begun after ``until``, the end of arrivals, are not counted.
    """
    raised = spells[:, 0]
    found = [judge(spells, e[0], e[1], horizon) for e in episodes(stalls, horizon) if e[0] <= until]
    counted = raised[raised <= until]
    near = np.abs(counted[:, None] - stalls[None, :]) <= horizon
    return Tally(
        tuple(outcome for outcome, _ in found),
        tuple(lead for _, lead in found),
        len(counted),
        int((~near.any(axis=1)).sum()),
        (until - since) / 3600.0,
    )


def judge(spells: np.ndarray, first: float, last: float, horizon: float) -> tuple[str, float]:
    """(outcome, lead in s) of one episode."""
    raised, ended = spells[:, 0], spells[:, 1]
    before = raised[(raised >= first - horizon) & (raised <= first)]
    if len(before):
        return WARNED, float(first - before[0])
    if ((raised < first) & (ended > first)).any():
        return EARLY, -math.inf
    after = raised[(raised > first) & (raised <= last + horizon)]
    return (LATE, float(first - after[0])) if len(after) else (MISSED, -math.inf)


@dataclass(frozen=True)
class Finding:
    """One rule in one variant, over all its runs.

    first: outcomes of the first episodes; warned_range: of the share of runs with a stall whose
    first was warned of (Wilson).  lead: median over those runs (s), negative late, -inf where half
    had no alarm; lead_range needs six runs.  all: outcomes of all episodes; missed_range: of the
    share without an alarm before.  false_range: an hour.
    """

    variant: str
    rule: str
    runs: int
    first: Counter[str]
    warned_range: Range
    lead: float | None
    lead_range: Range | None
    all: Counter[str]
    missed_range: Range
    raised: int
    false: int
    hours: float
    false_range: Range
    leads: tuple[float, ...] = field(default=())

    @property
    def stalled(self) -> int:
        """Runs with an audible stall."""
        return self.first.total()

    @property
    def unwarned(self) -> int:
        """Episodes without an alarm raised in the horizon before them."""
        return self.all.total() - self.all[WARNED]

    @property
    def false_per_hour(self) -> float:
        return self.false / self.hours

    @property
    def verdict(self) -> str:
        """In a word or three."""
        noisy = ", with false alarms" if self.false else ""
        if not self.stalled:
            return "false alarms only" if self.false else "quiet"
        if self.first[WARNED] == self.stalled:
            return "warns" + noisy
        if self.first[WARNED]:
            return "warns at times" + noisy
        most = max((EARLY, LATE, MISSED), key=lambda outcome: self.first[outcome])
        return {EARLY: "on too early", LATE: "late", MISSED: "silent"}[most] + noisy

    @property
    def rank(self) -> tuple[float, ...]:
        """The best first: who warns of most first stalls, with fewest false alarms, soonest."""
        share = self.first[WARNED] / self.stalled if self.stalled else 0.0
        lead = -math.inf if self.lead is None else self.lead
        return -share, self.false_per_hour, -lead


def finding(variant: str, rule: str, tallies: Sequence[Tally]) -> Finding:
    """Put the runs of one rule together."""
    stalled = [t for t in tallies if t.outcomes]
    first = Counter(t.outcomes[0] for t in stalled)
    leads = tuple(t.leads[0] for t in stalled)
    every = Counter(outcome for t in tallies for outcome in t.outcomes)
    unwarned = [sum(o != WARNED for o in t.outcomes) for t in stalled]
    hours, false = sum(t.hours for t in tallies), sum(t.false for t in tallies)
    with np.errstate(invalid="ignore"):
        lead = float(np.median(leads)) if leads else None
    return Finding(
        variant, rule, len(tallies), first,
        wilson(first[WARNED], len(stalled)),
        lead if lead is None or not math.isnan(lead) else -math.inf,
        quantile_interval(leads, 0.5),
        every,
        _share(unwarned, [len(t.outcomes) for t in stalled]),
        sum(t.raised for t in tallies), false, hours,
        _rate([t.false for t in tallies], [t.hours for t in tallies]),
        leads,
    )  # fmt: skip


def _share(hits: Sequence[int], totals: Sequence[int]) -> Range:
    """Of a share of episodes: runs drawn again; Wilson over runs where they all say the same."""
    found = bootstrap_ratio(hits, totals)
    if found is not None:
        return found
    share = sum(hits) / sum(totals) if totals else 0.0
    return wilson(round(share * len(totals)), len(totals))


def _rate(counts: Sequence[int], hours: Sequence[float]) -> Range:
    """Of events an hour: the wider of Poisson's law and of runs drawn again."""
    total = sum(hours)
    low, high = (x / total for x in poisson_interval(sum(counts)))
    again = bootstrap_ratio(counts, hours) or (low, high)
    return min(low, again[0]), max(high, again[1])
