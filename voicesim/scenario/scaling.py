"""How a pool grows and shrinks: on which signal, how fast, and how long a start takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_serializer

from .cluster import Pool
from .errors import Path, shown, unknown
from .part import Part
from .units import Count, Duration, Natural, Positive, PositiveDuration, Share, constant
from .workload import TimeLaw

STAGES = ("node", "image", "weights", "compile", "graphs", "warm_up")


class ColdStart(Part):
    """What passes before a replica serves, one stage after another; each is drawn per start."""

    node: TimeLaw = Field(
        default=constant(0),
        description="Until there is a machine (s): 60 to 90 s from Karpenter, 5 to 10 min from a "
        "cluster autoscaler; default 0: one stands ready.",
    )
    image: TimeLaw = Field(
        default=constant(0), description="Pulling the container image (s); default 0: it is there."
    )
    weights: TimeLaw = Field(default=constant(0), description="Loading the weights (s); default 0.")
    compile: TimeLaw = Field(
        default=constant(0),
        description="Compiling the model (s): 39 to 60 s by vLLM, almost none if cached; default "
        "0.",
    )
    graphs: TimeLaw = Field(
        default=constant(0), description="Capturing CUDA graphs (s): 15 to 20 s; default 0."
    )
    warm_up: TimeLaw = Field(
        default=constant(0),
        description="Profiling and the first request, before which it is not ready (s); default 0.",
    )

    @property
    def mean(self) -> float:
        """Seconds from order to ready on average."""
        return sum(getattr(self, stage).mean() for stage in STAGES)


AnyColdStart = ColdStart | Literal["none"]


class Signal(Part):
    """What the autoscaler looks at, averaged over the replicas that are ready."""

    kind: Literal["sessions", "streams", "running", "waiting", "gap", "kv", "cpu"] = Field(
        description="sessions: calls that live on a replica; streams: live streams; running: "
        "streams in its batch; waiting: vLLM's num_requests_waiting; gap: p99 chunk gap / the "
        "audio of the chunk before; kv: share of KV blocks in use; cpu: share of the host's cores."
    )
    target: Positive = Field(
        description="What each replica should have of it: calls, streams, a ratio, a share."
    )
    cores: Count | None = Field(
        default=None,
        description="Of cpu: cores of a replica's host, of which the engine's thread keeps one "
        "busy while steps run; default 8.",
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either."""
        data: dict[str, Any] = handler(self)
        if self.cores is None:
            data.pop("cores", None)
        return data


class Scaled(Part):
    """Between how many replicas a pool is scaled; cluster.pools.NAME.replicas are the most."""

    min: Count = Field(description="Replicas at least.")
    start: Count | None = Field(
        default=None, description="Replicas that are ready at the start; default min."
    )


class Up(Part):
    """How fast a pool grows."""

    step: Count | None = Field(
        default=None,
        description="Replicas more at a time; default as Kubernetes: 4 or twice as many, "
        "whichever is more.",
    )


class Down(Part):
    """How fast a pool shrinks, and what becomes of the calls on a replica that goes."""

    after: Duration = Field(
        default=300.0,
        description="It shrinks to the most that was wanted in this time (s); default 5min, as "
        "Kubernetes.",
    )
    step: Count | None = Field(
        default=None, description="Replicas fewer at a time; default none: no limit."
    )
    grace: Duration | None = Field(
        default=None,
        description="A replica that goes takes no new calls; those that are still on it after "
        "this time are cut (s); default none: it waits for the last.",
    )


class Planned(Part):
    """A known peak."""

    at: Duration = Field(description="From when on (s).")
    replicas: Natural = Field(description="Replicas at least, until the next entry.")


class Scaling(Part):
    """An autoscaler after Kubernetes' HorizontalPodAutoscaler."""

    pools: dict[str, Scaled] = Field(
        description="The pools it scales, by name; their `replicas` become the maximum."
    )
    signal: Signal = Field(description="What it looks at.")
    every: PositiveDuration = Field(
        default=15.0, description="How often it looks (s); default 15s, as Kubernetes."
    )
    tolerance: Share = Field(
        default=0.1,
        description="It leaves a pool alone while the signal is this close to its target, as a "
        "share; default 0.1, as Kubernetes.",
    )
    spare: Natural = Field(
        default=0, description="Replicas more than the signal asks for; default 0."
    )
    cold_start: AnyColdStart = Field(
        description="Seconds from order to ready, by stage; `none` for a start in no time."
    )
    up: Up = Field(default=Up(), description="Growing; default as Kubernetes.")
    down: Down = Field(default=Down(), description="Shrinking; default as Kubernetes, no cuts.")
    schedule: list[Planned] = Field(
        default_factory=list, description="Known peaks, in order; default none."
    )


def pinned(s: Any) -> Iterator[tuple[Path, str]]:
    """Where calls that stay with a replica mean nothing."""
    if getattr(s.policies.routing, "pinned", False) is not True:
        return
    at: Path = ("policies", "routing")
    if not hasattr(s.workload, "utterance"):
        yield at, "a dialogue routes within each stage by round_robin, least_streams, power_of_two"
    elif s.policies.admission.kind == "custom":
        yield at, "an admission policy of your own chooses among all replicas; calls cannot stay"


def scaling(s: Any) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for everything wrong between policies.scaling and the rest."""
    yield from pinned(s)
    found = s.policies.scaling
    if not isinstance(found, Scaling):
        return
    at: Path = ("policies", "scaling")
    if not hasattr(s.workload, "utterance"):
        yield at, "never used: a dialogue's pools keep their replicas"
        return
    pools = {n: p for n, p in s.cluster.pools.items() if isinstance(p, Pool)}
    for name, of in found.pools.items():
        where: Path = (*at, "pools", name)
        if name not in pools:
            yield where, unknown(name, pools, f"no pool is named {shown(name)}")
            continue
        most = pools[name].replicas
        start = of.min if of.start is None else of.start
        if not of.min <= start <= most:
            yield (
                where,
                f"min {of.min} <= start {start} <= replicas {most} does not hold "
                f"(cluster.pools.{name}.replicas is the maximum)",
            )
    yield from cold((*at, "cold_start"), found.cold_start)
    yield from _signal((*at, "signal"), found.signal, s)
    last = -1.0
    for i, planned in enumerate(found.schedule):
        if planned.at <= last:
            yield (*at, "schedule", i, "at"), f"must be later than {last:g}s; found {planned.at:g}s"
        last = planned.at
        most = min((pools[n].replicas for n in found.pools if n in pools), default=planned.replicas)
        if planned.replicas > most:
            text = f"more than cluster.pools.NAME.replicas ({most}); found {planned.replicas}"
            yield (*at, "schedule", i, "replicas"), text
        if planned.at >= s.horizon:
            yield (*at, "schedule", i, "at"), f"never used: the horizon is {s.horizon:g}s"


def cold(at: Path, start: Any) -> Iterator[tuple[Path, str]]:
    """A start in no time must be meant."""
    if isinstance(start, ColdStart) and start.mean == 0.0:
        text = "a replica takes no time to start; give its stages, or `none` if that is meant"
        yield at, text


def _signal(at: Path, signal: Signal, s: Any) -> Iterator[tuple[Path, str]]:
    if signal.kind == "sessions" and not getattr(s.policies.routing, "pinned", False):
        yield at, "needs policies.routing.pinned: true (only then does a call live on a replica)"
    if signal.kind in ("kv", "cpu") and signal.target > 1.0:
        yield (*at, "target"), f"is a share, at most 1; found {signal.target:g}"
    if signal.cores is not None and signal.kind != "cpu":
        yield (*at, "cores"), "never used: only the signal cpu counts cores"
    if signal.kind == "gap" and len(s.cluster.pools) > 1:
        yield (*at, "kind"), "the gaps of several pools are not told apart; take another signal"
