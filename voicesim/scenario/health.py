"""Who notices that a replica has failed, and what is done about it."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_serializer

from .part import Part
from .units import Count, Fraction, PositiveDuration


class Liveness(Part):
    """A probe of the process: a replica that is gone is taken out; a silent one passes."""

    every: PositiveDuration = Field(
        default=10.0, description="Time between probes (s); default 10s (Kubernetes)."
    )
    failures: Count = Field(
        default=3, description="Failed probes in a row that count; default 3 (Kubernetes)."
    )


class Progress(Part):
    """A watchdog: a replica that holds streams and makes no step is restarted."""

    every: PositiveDuration = Field(default=5.0, description="Time between looks (s); default 5s.")
    after: PositiveDuration = Field(
        default=10.0, description="Time without a step that counts (s); default 10s."
    )
    restart: PositiveDuration = Field(
        default=60.0,
        description="Time until the replica is back (s); default 1min.  A fault that lasts is "
        "still there then.",
    )


class Ejection(Part):
    """Outlier ejection: a replica that loses stream after stream gets no more for a while."""

    consecutive: Count = Field(
        default=5, description="Lost streams in a row that count; default 5 (Envoy)."
    )
    every: PositiveDuration = Field(
        default=10.0, description="Time between looks (s); default 10s (Envoy)."
    )
    base: PositiveDuration = Field(
        default=30.0,
        description="How long it is out the first time (s), twice as long the second, and so on; "
        "default 30s (Envoy).",
    )
    longest: PositiveDuration = Field(
        default=300.0, description="How long at most (s); default 5min (Envoy)."
    )
    most: Fraction = Field(
        default=0.1,
        description="Share of a pool's replicas out at once, at least one; default 0.1 (Envoy).",
    )


class Breaker(Part):
    """A circuit breaker: a pool that fails too often gets no streams for a while."""

    window: PositiveDuration = Field(
        default=10.0, description="Time over which it counts (s); default 10s (Hystrix)."
    )
    share: Fraction = Field(
        default=0.5, description="Share of lost streams that opens it; default 0.5 (Hystrix)."
    )
    least: Count = Field(
        default=20, description="Streams that must have ended by then; default 20 (Hystrix)."
    )
    sleep: PositiveDuration = Field(
        default=5.0, description="How long it stays open (s); default 5s (Hystrix)."
    )


class Health(Part):
    """Who notices that a replica has failed, and what is done about it.

    Envoy: https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/outlier
    Hystrix: https://github.com/Netflix/Hystrix/wiki/Configuration
    Kubernetes: https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/
    """

    liveness: Liveness | None = Field(
        default=None,
        description="A probe of the process; default none: the router knows at once of a crash.",
    )
    progress: Progress | None = Field(
        default=None, description="A watchdog over the steps; default none."
    )
    ejection: Ejection | None = Field(default=None, description="Outlier ejection; default none.")
    breaker: Breaker | None = Field(default=None, description="A circuit breaker; default none.")

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is never read is not written either."""
        return {name: each for name, each in handler(self).items() if each is not None}
