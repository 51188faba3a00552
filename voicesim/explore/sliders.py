"""The numbers of a variant that a slider moves, each with a range taken from the file's value."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from voicesim.scenario import Scenario
from voicesim.scenario.asr import AsrPool
from voicesim.scenario.cluster import Cluster, Pool

CALLERS = "callers"
"""The group of sliders that say who calls: they move both sides of the page."""
STEPS = 100
"""About so many positions between the ends of a range."""


@dataclass(frozen=True)
class Slider:
    """A number of the scenario and where it may be moved.

    key: its dotted path.  value, low, high, step: in ``unit`` ("": a plain number), value being the
    file's; the step starts from it, so that it is one of the positions.  whole: takes no fraction.
    card, per: of replicas, the kind of card whose count follows, and the cards of each replica.
    """

    key: str
    label: str
    group: str
    value: float
    low: float
    high: float
    step: float
    unit: str = ""
    whole: bool = False
    card: str = ""
    per: int = 0

    def written(self, number: float) -> Any:
        """A position as the scenario file writes it."""
        if self.whole:
            return int(number)
        return format(Decimal(repr(float(number))), "f") + self.unit

    def wrong(self, number: Any) -> str:
        """Why a number is no position of this slider; empty if it is one."""
        about = f"{self.key}: expected a {'whole ' if self.whole else ''}number"
        where = f"from {self.low:g} to {self.high:g}{self.unit}"
        if isinstance(number, bool) or not isinstance(number, int | float):
            return f"{about} {where}"
        inside = math.isfinite(number) and self.low <= number <= self.high
        if not inside or (self.whole and number != int(number)):
            return f"{about} {where}; found {number:g}"
        return ""


def overrides(
    scenario: Scenario, sliders: Mapping[str, Slider], values: Mapping[str, float]
) -> dict[str, Any]:
    """Overrides that bring a variant's sliders to ``values``; where one stays, there is none.

    The count of a kind of card follows the replicas on it: spare cards stay spare.
    """
    found: dict[str, Any] = {}
    more: dict[str, int] = {}
    for key, slider in sliders.items():
        number = values.get(key, slider.value)
        if number == slider.value:
            continue
        found[key] = slider.written(number)
        if slider.card:
            extra = (int(number) - int(slider.value)) * slider.per
            more[slider.card] = more.get(slider.card, 0) + extra
    for card, extra in more.items():
        if extra:
            found[f"cluster.gpus.{card}.count"] = scenario.cluster.gpus[card].count + extra
    return found


def sliders_of(scenario: Scenario) -> dict[str, Slider]:
    """The sliders of a variant, by key: those that it has a number for."""
    found = [
        *_arrivals(scenario),
        *_admission(scenario),
        *(s for n, p in scenario.cluster.pools.items() for s in _pool(n, p, scenario.cluster)),
        *_endpointing(scenario),
        *_player(scenario),
    ]
    return {slider.key: slider for slider in found if slider.low < slider.high}


def _arrivals(scenario: Scenario) -> Iterator[Slider]:
    arrivals: Any = scenario.workload.arrivals
    at = "workload.arrivals."
    if arrivals.kind == "surge":
        yield _rate(at + "peak", "Surge, calls on the plateau", arrivals.peak, arrivals.base)
    elif arrivals.kind in ("poisson", "constant", "gamma", "diurnal"):
        daily = ", mean of the day" if arrivals.kind == "diurnal" else ""
        yield _rate(at + "rate", f"Calls{daily}", arrivals.rate)
        if arrivals.kind == "diurnal" and arrivals.surge is not None:
            times = arrivals.surge.times
            yield _real(at + "surge.times", "Surge, times the rate", CALLERS, times, 1, 2 * times)
    elif arrivals.kind == "burst":
        yield _whole(at + "size", "Callers at once", CALLERS, arrivals.size, 2, 1_000_000)
    elif arrivals.kind == "closed":
        yield _whole(at + "callers", "Callers in the loop", CALLERS, arrivals.callers, 2, 1_000_000)
    elif arrivals.kind == "trace":
        speed = arrivals.speed
        label = "Trace, times faster than recorded"
        yield _real(at + "speed", label, CALLERS, speed, speed / 2, 2 * speed)


def _admission(scenario: Scenario) -> Iterator[Slider]:
    admission: Any = scenario.policies.admission
    at, group = "policies.admission.", "admission"
    if scenario.dialogue is not None:
        if admission.kind == "cap":  # of a dialogue: calls at once in the whole cluster
            label = "Cap, calls at once"
            yield _whole(at + "streams", label, group, admission.streams, 4, 1_000_000)
        return
    if admission.kind in ("cap", "cap_queue"):
        seqs = min(pool.engine.max_num_seqs for pool in scenario.cluster.of("tts").values())
        label = "Cap, live streams per replica"
        yield _whole(at + "streams", label, group, admission.streams, 4, seqs)
    if admission.kind == "cap_queue":
        yield _time(at + "deadline", "Longest wait in the queue", group, admission.deadline)
    if admission.kind == "slack":
        yield _time(at + "lead", "Slack, lead of every stream", group, admission.lead, 0.25)


def _pool(name: str, pool: Pool | AsrPool, cluster: Cluster) -> Iterator[Slider]:
    at, group = f"cluster.pools.{name}.", f"pool {name}"
    per = pool.cards // pool.replicas
    more = " and its codec card" if isinstance(pool, Pool) else f", {per} each"
    label = f"Replicas ({pool.on}{more if per > 1 else ''})"
    if cluster.share_of(name) is None:  # replicas on shared cards come with their neighbours
        number = pool.replicas
        yield _whole(at + "replicas", label, group, number, 2, 10_000, card=pool.on, per=per)
    if isinstance(pool, AsrPool):
        if pool.asr.kind == "slots":
            label = "Slots, calls at once per replica"
            yield _whole(at + "asr.slots", label, group, pool.asr.slots, 4, 65_536)
        return
    if pool.role == "llm":
        return
    if pool.codec is not None or "chunk" in pool.model_fields_set:
        first = pool.chunks.first
        high = max(pool.chunks.steady, 2 * first)
        at += "codec.chunk.first" if pool.codec is not None else "chunk.first"
        yield Slider(at, "First chunk, frames", group, first, 1, high, 1, whole=True)


def _endpointing(scenario: Scenario) -> Iterator[Slider]:
    """How long silence must last; of two bounds neither passes where the file has the other."""
    if scenario.dialogue is None:
        return
    ends: Any = scenario.pipeline.endpointing
    at, group = "pipeline.endpointing.", "end of turn"
    if ends.kind == "fixed":
        yield _time(at + "silence", "Silence that ends a turn", group, ends.silence)
        return
    sure, unsure = ("waited for at least", "waited for at most")
    if ends.kind == "semantic":
        sure, unsure = "where the turn seems over", "where it does not"
    yield _time(at + "min", f"Silence {sure}", group, ends.min, most=ends.max)
    yield _time(at + "max", f"Silence {unsure}", group, ends.max, least=ends.min)


def _player(scenario: Scenario) -> Iterator[Slider]:
    player = scenario.listener.player
    if any(alarm.metric.startswith("ttfp") for alarm in scenario.alarms):
        return  # with a prebuffer the loader refuses such an alarm
    most = math.inf if player.max_queue is None else player.max_queue
    label, usual = "Prebuffer of the player", scenario.slo.start_within
    yield _time("listener.player.prebuffer", label, "listener", player.prebuffer, usual, most)


# --- ranges -----------------------------------------------------------------------------------


def _whole(
    key: str, label: str, group: str, value: int, times: int, most: int, **more: Any
) -> Slider:
    """From a ``times``-th of the value to twice it (4 at least), by whole numbers."""
    low, high = max(1, value // times), max(value, min(max(2 * value, 4), most))
    step = max(1, int(_nice((high - low) / STEPS)))
    low = value - (value - low) // step * step
    return Slider(key, label, group, value, low, high, step, whole=True, **more)


def _rate(key: str, label: str, value: float, least: float = 0.0) -> Slider:
    """From half the rate (of a surge its base) to twice it; per minute where it is low."""
    per, unit = (60, "/min") if value < 0.1 else (1, "/s")
    low = max(least, value / 2) * per if least == 0.0 else least * per
    return _real(key, label, CALLERS, value * per, low, 2 * value * per, unit)


def _time(
    key: str, label: str, group: str, seconds: float, usual: float = 0.0, most: float = math.inf,
    least: float = 0.0,
) -> Slider:  # fmt: skip
    """From 0 (where ``usual`` is what one would try) or a quarter to twice the time, in ms."""
    low = 0.0 if usual else max(seconds / 4, least)
    high = min(max(2 * seconds, usual), most)
    return _real(key, label, group, 1000 * seconds, 1000 * low, 1000 * high, "ms")


def _real(
    key: str, label: str, group: str, value: float, low: float, high: float, unit: str = ""
) -> Slider:
    """A range whose ends are a whole number of steps from the value."""
    shown, step = Decimal(f"{value:.6g}"), _nice((high - low) / STEPS)
    down = math.floor((value - low) / float(step) + 1e-9)
    up = math.floor((high - value) / float(step) + 1e-9)
    ends = (float(shown - down * step), float(shown + up * step))
    return Slider(key, label, group, float(shown), *ends, float(step), unit)


def _nice(step: float) -> Decimal:
    """1, 2 or 5 times a power of ten, the next above a step; 1 where there is none."""
    if step <= 0:
        return Decimal(1)
    ten = Decimal(1).scaleb(math.floor(math.log10(step)))
    return next(n * ten for n in (1, 2, 5, 10) if float(n * ten) >= step * (1 - 1e-9))
