"""What a scenario may say: the listener, what is asked of a run, and the whole of it.

One class per mapping of the file; the larger parts are in ``workload``, ``arrivals``,
``cluster`` and ``policies``, the rules between fields in ``checks``.  All quantities are plain
numbers once read: seconds, events per second, bytes, money per hour.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Discriminator, Field, PrivateAttr, Tag, model_serializer, model_validator
from pydantic_core.core_schema import ValidationInfo

from .alarms import Alarm
from .cluster import Cluster
from .dialogue import Dialogue
from .errors import tag_of
from .faults import Fault
from .part import Part
from .pipeline import Pipeline
from .policies import Policies
from .prices import Prices
from .units import (
    Brief,
    Duration,
    PositiveBrief,
    PositiveDuration,
    Seed,
    UpTo10K,
)
from .workload import Workload


class Network(Part):
    """The way from the server to the listener."""

    delay: Brief = Field(default=0.0, description="One-way delay (s); default 0.")
    jitter: Brief = Field(
        default=0.0, description="Mean of the extra delay, a gamma law of shape 2 (s); default 0."
    )


class Player(Part):
    """The listener's playback buffer."""

    prebuffer: Brief = Field(
        default=0.0, description="Audio held before playing starts (s); default 0."
    )
    rebuffer: Brief = Field(
        default=0.0, description="Audio held before playing goes on after a stall (s); default 0."
    )
    max_wait: Brief | None = Field(
        default=None,
        description="Start anyway this long after the first chunk (s); default none: never.",
    )
    max_queue: PositiveDuration | None = Field(
        default=None,
        description="Audio held at most, beyond it is lost (s); default none: no bound.",
    )


class Listener(Part):
    """The network and the player at the caller's end."""

    network: Network = Field(default=Network(), description="Network; default perfect.")
    uplink: Network | None = Field(
        default=None, description="The way back, of a dialogue; default none: as `network`."
    )
    capture: Brief = Field(
        default=0.02,
        description="From the microphone to the network, of a dialogue (s); default 20ms (one "
        "Opus frame, RFC 7587).",
    )
    player: Player = Field(default=Player(), description="Player; default no buffering.")
    audible: Brief = Field(
        default=0.1, description="The shortest stall a listener notices (s); default 100ms."
    )


class Slo(Part):
    """When a call counts as clean."""

    start_within: PositiveBrief = Field(
        default=1.0, description="First audio at the latest (s); default 1s."
    )
    no_stall_over: Brief = Field(
        default=0.1, description="The longest stall forgiven (s); default 100ms."
    )


class Series(Part):
    """Time series of the run."""

    resolution: PositiveDuration = Field(
        default=1.0, description="Spacing of the points (s); default 1s."
    )


AnyWorkload = Annotated[
    Annotated[Workload, Tag("tts")] | Annotated[Dialogue, Tag("dialogue")],
    Discriminator(tag_of("kind", "tts")),
]


class Scenario(Part):
    """One run: who calls, what serves them, what is asked."""

    title: str = Field(default="", description="Heading of the report; default none.")
    horizon: PositiveDuration = Field(description="Time for which sessions arrive (s).")
    warmup: Duration = Field(
        default=0.0,
        description="Time at the start that is not counted (s), under horizon; default 0.",
    )
    drain: Duration = Field(
        default=600.0,
        description="Longest time the run goes on after the horizon until empty (s); "
        "default 10min.",
    )
    seed: Seed = Field(default=0, description="Seed of all randomness; default 0.")
    replications: UpTo10K = Field(default=1, description="Independent runs; default 1.")
    workload: AnyWorkload = Field(description="Who calls, what they say, how long they wait.")
    beside: dict[str, Workload] = Field(
        default_factory=dict,
        description="Further loads on the same cards (a chat beside the speech), by a name of "
        "your own that a pool serves; the report's numbers are of `workload`, theirs stand by "
        "pool; default none.",
    )
    pipeline: Pipeline = Field(
        default=Pipeline(), description="What joins the stages of a dialogue; default as LiveKit."
    )
    cluster: Cluster = Field(description="The cards and what runs on them.")
    listener: Listener = Field(
        default=Listener(), description="The caller's end; default perfect, no buffering."
    )
    policies: Policies = Field(
        default=Policies(), description="Admission and routing; default admit_all, "
        "least_streams.",
    )  # fmt: skip
    slo: Slo = Field(default=Slo(), description="When a call is clean; default 1s and 100ms.")
    prices: Prices | None = Field(
        default=None,
        description="Money, of a dialogue, beyond cluster.gpus.NAME.price; default none.",
    )
    faults: list[Fault] = Field(
        default_factory=list, description="What breaks, and when; default none."
    )
    alarms: list[Alarm] = Field(default_factory=list, description="Signals to watch; default none.")
    series: Series = Field(default=Series(), description="Time series; default one point a second.")

    _home: Path = PrivateAttr(Path())
    _slice: tuple[float, float] = PrivateAttr((0.0, 1.0))
    _whole: Cluster | None = PrivateAttr(None)

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either, so that the result can be read back."""
        data: dict[str, Any] = handler(self)
        if self.prices is None:
            data.pop("prices", None)
        if not self.faults:
            data.pop("faults", None)
        if not self.beside:
            data.pop("beside", None)
        if self.dialogue is None:
            data.pop("pipeline", None)
            for name in ("uplink", "capture"):
                data.get("listener", {}).pop(name, None)
        elif not any(pool.engine.prefix_caching for pool in self.cluster.of("llm").values()):
            data.get("pipeline", {}).get("caches", {}).pop("history", None)
        return data

    @model_validator(mode="after")
    def _remember(self, info: ValidationInfo) -> Scenario:
        self._home = (info.context or {}).get("base", Path()).resolve()
        return self

    @property
    def home(self) -> Path:
        """Folder of the file: where a policy's module is looked for first."""
        return self._home

    @property
    def whole(self) -> Cluster:
        """The cluster of the file, be this all of the scenario or one pool's part of it."""
        return self._whole or self.cluster

    @property
    def slice(self) -> tuple[float, float]:
        """The callers that its pool serves: those whose uniform number lies in [low, high)."""
        return self._slice

    @property
    def dialogue(self) -> Dialogue | None:
        """The workload if it is one of whole calls."""
        return self.workload if isinstance(self.workload, Dialogue) else None

    @property
    def tts(self) -> Workload:
        """The workload if it is one of utterances; TypeError if not."""
        if not isinstance(self.workload, Workload):
            raise TypeError("a dialogue has no utterances of its own")
        return self.workload

    @property
    def fleet(self) -> bool:
        """Do its pools serve the same callers together, in one run?"""
        if self.dialogue is not None:
            return False
        pools = self.cluster.of("tts").values()
        several = len(pools) > 1 and all(pool.share is None for pool in pools)
        return several or bool(self.cluster.regions)

    def load_of(self, pool: str) -> str:
        """The load that a pool of a fleet serves: a name of ``beside``, or "" for `workload`."""
        served = self.cluster.of("tts")[pool].serves or ()
        return next((name for name in served if name in self.beside), "")

    def each_pool(self) -> list[Scenario]:
        """One scenario per pool of a scenario of utterances, with the load that it serves.

        What is read off a pool alone (its numbers, its memory) is read off these; a fleet is
        played whole, see ``apart``.
        """
        if not self.fleet:
            return self.apart()
        found = []
        for name, pool in self.cluster.of("tts").items():
            cluster = self.cluster.model_copy(update={"pools": {name: pool}})
            load = self.load_of(name)
            workload = self.beside[load] if load else self.workload
            part = self.model_copy(update={"cluster": cluster, "workload": workload, "beside": {}})
            part._home, part._whole = self._home, self.cluster
            found.append(part)
        return found

    def apart(self) -> list[Scenario]:
        """One scenario per pool, each with that pool's share of the same callers; mostly one.

        Pools share neither callers nor cards nor policies that remember, so they can be played
        one by one, in any order; ``checks`` refuses what would couple them.
        """
        if len(self.cluster.pools) == 1 or self.dialogue is not None or self.fleet:
            return [self]
        found, low = [], 0.0
        pools = self.cluster.of("tts")
        last = list(pools)[-1]
        for name, pool in pools.items():
            high = 1.0 if name == last else low + (pool.share or 0.0)
            cluster = self.cluster.model_copy(update={"pools": {name: pool}})
            part = self.model_copy(update={"cluster": cluster})
            part._home, part._slice, part._whole = self._home, (low, high), self.whole
            found.append(part)
            low = high
        return found

    def resolved(self) -> dict[str, Any]:
        """Everything with its defaults, as plain data that reads back to the same scenario."""
        return self.model_dump(mode="python")

    def written(self) -> dict[str, Any]:
        """As ``resolved``, without the defaults that were left to stand."""
        return self.model_dump(mode="python", exclude_unset=True)
