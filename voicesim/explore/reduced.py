"""The scenario in short: what a move of a slider plays, so that the answer comes at once.

Rates, cards, policies and the habits of callers stay as they are; only time gets shorter.  A surge
is squeezed, base, rise, plateau and fall alike, so that its share of the calls stays; one that
would then rise within a call or two is played at its height alone.  Of a day or a trace the
busiest stretch is played; of steady arrivals fewer minutes.  A burst is played whole.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from voicesim.explore.effort import call, effort
from voicesim.report.words import duration
from voicesim.scenario import Scenario
from voicesim.scenario.arrivals import Surge

SHORTEST = 60.0
"""No short play is shorter (s): a few calls must fit in."""
SETTLING = 30.0
"""Least warm-up (s) of a stretch that begins in the middle: it starts with nobody on the line."""


@dataclass(frozen=True)
class Short:
    """length: simulated seconds in which callers come.  overrides: what makes the scenario so.
    says: a sentence on it."""

    length: float
    says: str
    overrides: dict[str, Any] = field(default_factory=dict)


def share_of(scenarios: Iterable[Scenario], length: float | None = None) -> float:
    """Share of its time that every variant is played for, the same for all of them.

    length: simulated seconds asked for; None: what ``effort`` allows the heaviest variant.
    """
    every = list(scenarios)
    longest = max(s.horizon for s in every)
    if length is not None:
        return min(1.0, length / longest)
    share = 1.0 / max(1.0, *map(effort, every))
    seconds = share * longest
    if share < 1.0 and seconds > SHORTEST:
        step = 60.0 if seconds > 600.0 else 10.0
        seconds = math.floor(seconds / step) * step
    return min(1.0, max(seconds, SHORTEST) / longest)


def short(scenario: Scenario, share: float) -> Short:
    """A variant, as written, played for a share of its time."""
    arrivals: Any = scenario.workload.arrivals
    whole, length = scenario.horizon, _decent(share * scenario.horizon)
    if arrivals.kind == "closed":
        length = max(length, min(whole, 3 * arrivals.stagger))
    if length >= whole or arrivals.kind == "burst":
        return Short(whole, f"the whole scenario, {duration(whole)}")
    if arrivals.kind == "surge":
        return _squeezed(scenario, length)
    start = _busiest(scenario, length) if arrivals.kind in ("diurnal", "trace") else 0.0
    warmup = max(scenario.warmup, SETTLING) if start else scenario.warmup
    overrides = {"horizon": length, "warmup": min(warmup, _most_warmup(scenario, length))}
    where = "the first"
    if arrivals.kind == "trace" and start:
        overrides["workload.arrivals.after"] = arrivals.after + start * arrivals.speed
    elif arrivals.kind == "diurnal" and start:
        overrides["workload.arrivals.start_hour"] = (arrivals.start_hour + start / 3600) % 24
        if arrivals.surge:
            overrides["workload.arrivals.surge.at"] = arrivals.surge.at - start
    if start:
        where = f"the busiest, from {duration(start)} on,"
    says = f"{where} {_of(length, whole)}"
    if overrides["warmup"]:
        says += f", of which {duration(overrides['warmup'])} are warm-up"
    return Short(length, says, overrides)


def _most_warmup(scenario: Scenario, length: float) -> float:
    """A quarter of a play; of whole calls, which last minutes, half of it."""
    return length / (4 if scenario.dialogue is None else 2)


def _squeezed(scenario: Scenario, length: float) -> Short:
    share = length / scenario.horizon
    arrivals = scenario.workload.arrivals
    assert isinstance(arrivals, Surge)
    if arrivals.rise * share < 2 * call(scenario) <= arrivals.rise:
        return _plateau(scenario, length)
    overrides = {"horizon": length, "warmup": _decent(scenario.warmup * share)}
    for part in ("at", "rise", "hold", "fall"):
        overrides[f"workload.arrivals.{part}"] = _decent(getattr(arrivals, part) * share)
    says = (
        f"{_of(length, scenario.horizon)}: warm-up, rise, plateau and fall of the surge squeezed "
        f"alike, the rise from {duration(arrivals.rise)} to {duration(arrivals.rise * share)}"
    )
    return Short(length, says, overrides)


def _plateau(scenario: Scenario, length: float) -> Short:
    """The height of a surge, a quarter of the time before it as warm-up; as many calls as the
    length has on average."""
    arrivals = scenario.workload.arrivals
    assert isinstance(arrivals, Surge)
    calls = arrivals.expected(scenario.horizon) / scenario.horizon
    length = _decent(max(round(length * calls / arrivals.peak, -1), SHORTEST))
    rise, hold = length / 4, 3 * length / 4
    times = {"at": 0.0, "rise": rise, "hold": hold, "fall": 0.0}
    says = (
        f"{duration(hold)} of the surge's plateau, of {duration(arrivals.hold)}, after a rise of "
        f"{duration(rise)} as warm-up: the figures are those of the plateau alone"
    )
    overrides = {"horizon": length, "warmup": rise}
    overrides |= {f"workload.arrivals.{part}": each for part, each in times.items()}
    return Short(length, says, overrides)


def _busiest(scenario: Scenario, length: float) -> float:
    """Where the stretch of this length begins that most callers come in (s), a whole minute.

    A surge on a day is not begun in its middle: the file cannot say that.
    """
    arrivals: Any = scenario.workload.arrivals
    last = scenario.horizon - length
    if arrivals.kind == "diurnal" and arrivals.surge:
        last = min(last, arrivals.surge.at)
    starts = [60.0 * i for i in range(int(last // 60) + 1)]
    if arrivals.kind == "trace":
        times = arrivals.starts()
        count = [bisect_left(times, t + length) - bisect_left(times, t) for t in starts]
    else:
        minutes = max(int(length // 60), 1)
        count = [sum(arrivals.rate_at(t + 60.0 * i) for i in range(minutes)) for t in starts]
    return starts[max(range(len(starts)), key=lambda i: (count[i], -i))]


def _of(length: float, whole: float) -> str:
    return f"{duration(length)} of {duration(whole)}"


def _decent(seconds: float) -> float:
    """Without the digits that a product brings."""
    return float(f"{seconds:.9g}")
