"""The search of ``plan``: pure statistics, no simulation.

The error 1 - confidence is split evenly over nodes (settings that are judged) and looks, so each
judgement has a one-sided level of error / (nodes x looks).  "Meets" needs every limit to be met at
that level: a setting that misses one of them passes only if that one is misjudged.  "Fails" needs
one limit out of S to be missed at level / S.  What is neither after the last look is undecided
and is treated as failing.

One dimension: settings in order of cost, taken to meet the limits from some setting k on.
Bisection of N settings judges at most D = ceil(log2(N + 1)) of them.  Below k every verdict but
"meets" leads up, from k on every "meets" leads down, so until the first undecided setting the
path is fixed by k alone; an undecided setting at or above k leads up, where all settings meet.
So "an answer that does not meet" and "an answer that is not k although nothing was undecided"
both lie in the D possible mistakes of one fixed path, error / D each: together at most the error.
Two dimensions: rows are cut short by the best so far, so the split is over all settings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2

import numpy as np
from scipy.stats import beta
from scipy.stats import t as student

from voicesim.experiment.looks import schedule

MEETS, FAILS, UNDECIDED = "meets", "fails", "cannot tell"
EARLY = 4  # replications of a first look that can only find failures


@dataclass(frozen=True)
class Limit:
    """An SLO on the mean over replications: at least, or at most, ``value`` (metric's unit)."""

    metric: str
    at_least: bool
    value: float


@dataclass(frozen=True)
class Sample:
    """One metric over replications: its value in each (None: not measured), and for shares of
    calls the number of calls in each."""

    values: Sequence[float | None]
    calls: Sequence[float] | None = None


@dataclass(frozen=True)
class Rule:
    """When a setting is judged and how surely.

    looks: numbers of replications.  least: fewest on which "meets" may be said: as many as a sign
    test at ``level`` needs, 2^-n <= level.
    """

    confidence: float
    nodes: int
    looks: tuple[int, ...]
    level: float
    least: int


@dataclass(frozen=True)
class Reading:
    """A limit at one look: the mean, the bounds on the side where it would break the limit
    (``worst``, one-sided at the level of "meets") and on the other (``best``, of "fails")."""

    limit: Limit
    mean: float | None
    worst: float | None
    best: float | None

    @property
    def met(self) -> bool:
        """Is it shown to be met?"""
        return self.worst is not None and _inside(self.worst, self.limit)

    @property
    def missed(self) -> bool:
        """Is it shown to be missed?"""
        return self.best is not None and not _inside(self.best, self.limit)

    @property
    def slack(self) -> float:
        """Distance of the mean inside its limit over the room that the limit leaves (1 - limit of
        a share to be reached, else the limit); negative outside, -inf if not measured."""
        if self.mean is None:
            return -np.inf
        up = self.limit.at_least
        gap = self.mean - self.limit.value if up else self.limit.value - self.mean
        room = 1.0 - self.limit.value if up and self.limit.value < 1.0 else self.limit.value
        return gap / (abs(room) or 1.0)


@dataclass(frozen=True)
class Node:
    """A setting judged: verdict, replications it took, and each limit at the last look."""

    verdict: str
    replications: int
    readings: tuple[Reading, ...]


def depth(settings: int) -> int:
    """Most settings that a bisection of so many judges."""
    return ceil(log2(settings + 1))


def rule_of(confidence: float, nodes: int, most: int) -> Rule:
    """The rule for this many nodes and ``most`` replications of each.

    Raises ValueError where ``most`` are fewer than any success needs.
    """
    for least in range(EARLY + 1, most + 1):
        looks = (EARLY, *schedule(most, least).sizes)
        level = (1.0 - confidence) / (nodes * len(looks))
        if 2.0**-least <= level:
            return Rule(confidence, nodes, looks, level, least)
    needs = next(n for n in range(EARLY, 200) if 2.0**-n <= (1.0 - confidence) / (2 * nodes))
    raise ValueError(
        f"{most} replications cannot show that an SLO is met with {100 * confidence:g} % "
        f"confidence over {nodes} settings; at least {max(needs, EARLY + 1)} are needed"
    )


def judge(limits: Sequence[Limit], draw: Callable[[int], Mapping[str, Sample]], rule: Rule) -> Node:
    """Judge a setting; ``draw(n)`` gives the metrics of its first n replications."""
    node = Node(UNDECIDED, 0, ())
    for n in rule.looks:
        samples = draw(n)
        readings = tuple(_reading(x, samples[x.metric], rule, len(limits)) for x in limits)
        node = Node(UNDECIDED, n, readings)
        if any(r.missed for r in readings):
            return Node(FAILS, n, readings)
        if n >= rule.least and all(r.met for r in readings):
            return Node(MEETS, n, readings)
    return node


def bisect(low: int, high: int, meets: Callable[[int], bool]) -> int | None:
    """The least index in low..high that meets, for a rising order; None: none does."""
    answer = None
    while low <= high:
        middle = (low + high) // 2
        if meets(middle):
            answer, high = middle, middle - 1
        else:
            low = middle + 1
    return answer


def scan(rows: int, settings: int, meets: Callable[[int, int], bool]) -> tuple[int, int] | None:
    """The least index over all rows, (row, index), the earlier row of equals.

    A row is asked first whether it meets at the last index of interest (one below the best so
    far); only then is it bisected.
    """
    best: tuple[int, int] | None = None
    for row in range(rows):
        top = settings - 1 if best is None else best[1] - 1
        if top < 0 or not meets(row, top):
            continue
        lower = bisect(0, top - 1, lambda i, row=row: meets(row, i))  # type: ignore[misc]
        best = row, top if lower is None else lower
    return best


def _inside(x: float, limit: Limit) -> bool:
    return x >= limit.value if limit.at_least else x <= limit.value


def _reading(limit: Limit, sample: Sample, rule: Rule, limits: int) -> Reading:
    """A metric that one replication could not measure is never met and never missed."""
    if any(v is None for v in sample.values):
        return Reading(limit, None, None, None)
    x = np.array(sample.values, float)
    mean, n = float(x.mean()), len(x)
    low = limit.at_least
    worst = _bound(x, sample.calls, rule.level, not low)
    best = _bound(x, sample.calls, rule.level / limits, low)
    if (x == x[0]).all() and n < rule.least:
        return Reading(limit, mean, None, None)  # nothing in equal values speaks of an error
    return Reading(limit, mean, worst, best)


def _bound(x: np.ndarray, calls: Sequence[float] | None, level: float, upper: bool) -> float:
    """One-sided bound of the mean: Student's over replications; of a share of calls the more
    careful of it and the exact binomial one over all calls, which few calls need."""
    sign = 1.0 if upper else -1.0
    n = len(x)
    spread = 0.0 if (x == x[0]).all() else float(x.std(ddof=1))
    bound = float(x.mean() + sign * student.ppf(1.0 - level, n - 1) * spread / np.sqrt(n))
    if calls is None:
        return bound
    weight = np.asarray(calls, float)
    total = float(weight.sum())
    hits = float(round(float((x * weight).sum())))
    if upper:
        exact = 1.0 if hits >= total else float(beta.ppf(1.0 - level, hits + 1, total - hits))
        return max(bound, exact)
    exact = 0.0 if hits <= 0 else float(beta.ppf(level, hits, total - hits + 1))
    return min(bound, exact)
