"""Engines of several pools, or several of one pool, on one card."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, model_serializer

from .part import Part
from .units import Count, Duration, Fraction, PositiveDuration, Size, UpTo1Mi, UpTo10K
from .units import Share as ShareOfOne

EIGHTHS = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
"""MIG: eighths of memory and bandwidth that come with so many sevenths of the SMs
(https://docs.nvidia.com/datacenter/tesla/mig-user-guide/)."""

KNOBS_OF = {
    "start": ("time_sliced", "mps"),
    "legacy_profile": ("time_sliced", "mps"),
    "switch": ("time_sliced",),
    "quantum": ("time_sliced",),
}
"""Knobs of a shared card that only some modes have."""

KNOBS_OF_MEMBER = {"sm": ("mps",), "bandwidth": ("mps",), "slices": ("mig",)}
"""The same of what stands on it."""

AT_START = ("overshoot", "max_model_len")
"""Knobs of a pool that matter only where memory decides about its KV cache."""


class Member(Part):
    """Engines of one pool on a shared card."""

    per_card: UpTo10K = Field(default=1, description="Replicas of it on each card; default 1.")
    sm: Fraction | None = Field(
        default=None,
        description="MPS: share of the SMs that its kernels fill while they run, 0 to 1; "
        "default 1.",
    )
    bandwidth: Fraction | None = Field(
        default=None,
        description="MPS: share of the memory bandwidth that they use, 0 to 1; default as sm.",
    )
    slices: Literal[1, 2, 3, 4, 7] | None = Field(
        default=None,
        description="MIG: sevenths of the card that each replica has, required there; default "
        "none.",
    )
    host: ShareOfOne = Field(
        default=0.0,
        description="Share of a step's GPU time, as the profile has it, that the host spends: a "
        "fit of their sum cannot tell them apart; 0 to 1, default 0.",
    )
    overshoot: Size = Field(
        default=0, description="Memory that each takes beyond its share (bytes); default 0."
    )
    max_model_len: UpTo1Mi | None = Field(
        default=None,
        description="Tokens of the longest request, which the KV cache must hold or the engine "
        "does not start; default none: not checked.",
    )

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What is not given where its mode lacks it is not written either."""
        data: dict[str, Any] = handler(self)
        zero = ("overshoot", "host")
        return {k: v for k, v in data.items() if v is not None and (k not in zero or v)}


class Share(Part):
    """What stands on each card of a group, and how its engines share it."""

    mode: Literal["time_sliced", "mps", "mig"] = Field(
        description="One process on the GPU at a time, kernels side by side, or hard slices."
    )
    start: Literal["sequential", "parallel", "racing"] = Field(
        default="sequential",
        description="Engines start one after the other in the order of `pools`, all at once, or "
        "at drawn instants that overlap; default sequential.",
    )
    legacy_profile: bool = Field(
        default=False,
        description="Neighbours' memory counts as an engine's own, as in vLLM before mid-2025; "
        "default false.",
    )
    switch: Duration = Field(
        default=0.0,
        description="Time sliced: time lost when the GPU goes from one process to another (s); "
        "default 0.",
    )
    quantum: PositiveDuration = Field(
        default=0.002,
        description="Time sliced: how long a process has it at a time (s); default 2ms.",
    )
    cores: Count | None = Field(
        default=None,
        description="Host cores for the processes of one card: with fewer than processes, host "
        "time grows; default none: enough.",
    )
    pools: dict[str, Member] = Field(description="Pools on the card, in the order they start.")

    @model_serializer(mode="wrap")
    def _only_used(self, handler: Any) -> dict[str, Any]:
        """What the mode does not have is not written either."""
        data: dict[str, Any] = handler(self)
        for name, modes in KNOBS_OF.items():
            if self.mode not in modes:
                data.pop(name, None)
        if self.switch == 0:
            data.pop("quantum", None)
        if self.cores is None:
            data.pop("cores", None)
        return data

    @property
    def engines(self) -> int:
        """Engines on one card."""
        return sum(member.per_card for member in self.pools.values())

    def cards(self, replicas: dict[str, int]) -> int:
        """Cards that so many replicas of its pools need."""
        return max(math.ceil(replicas[n] / m.per_card) for n, m in self.pools.items())
