"""The parameters of a fit, and the profile that they make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from voicesim.engine.profile import CodecCost, DecodeCost, Profile, Quantity
from voicesim.experiment.published import Ladder

COMPUTE, PREFILL = "compute_per_token_s", "prefill_per_token_s"


@dataclass(frozen=True)
class Shape:
    """Which parameters a profile has: knots of a step table, or none (then flat and slope under
    ``norm``), and the names of the rest."""

    knots: tuple[float, ...]
    rest: tuple[str, ...]
    norm: int = 1

    @property
    def names(self) -> list[str]:
        """In the order of the parameters."""
        step = [f"step {k:g}" for k in self.knots] if self.knots else ["memory_s", COMPUTE]
        return [*step, *self.rest]


def profile_of(ladder: Ladder, shape: Shape, x: np.ndarray) -> Profile:
    """The profile of these parameters, to five digits (published figures have three)."""
    values = dict(zip(shape.names, np.exp(x), strict=True))
    q = {name: Quantity(value=digits(value), origin="fitted") for name, value in values.items()}
    table = None
    if shape.knots:
        seconds = np.cumsum(np.exp(x[: len(shape.knots)]))
        table = [(k, digits(s)) for k, s in zip(shape.knots, seconds, strict=True)]
    zero = Quantity(value=0.0)
    steep, knee = q.get(PREFILL), None
    if steep is not None:
        knee = int(max(ladder.levels)) if ladder.kind != "poisson" else None
    prior = ladder.prior
    known = {} if prior is None else prior.parameters
    decode = DecodeCost(
        norm="inf" if shape.norm == 0 else shape.norm,  # type: ignore[arg-type]
        memory_s=q.get("memory_s", zero),
        memory_per_kv_token_s=known.get("memory_per_kv_token_s", zero),
        compute_per_token_s=q.get(COMPUTE, zero),
        prefill_per_token_s=steep if knee is not None else None,
        prefill_from_tokens=knee,
        table=table,
    )
    codec = None
    if "per_frame_s" in q:
        codec = CodecCost(
            floor_s=q.get("floor_s", zero), per_row_s=zero, per_frame_s=q["per_frame_s"]
        )
    return Profile(
        name=ladder.name,
        form="table" if table else "fitted",
        token_audio_s=ladder.token_audio_s,
        decode=decode,
        codec=codec,
        request_s=q.get("request_s"),
        memory=None if prior is None else prior.memory,
    )


def digits(value: float) -> float:
    """Five of them: published figures have three."""
    return float(f"{value:.5g}")


def marked(
    profile: Profile, low: Mapping[str, float], high: Mapping[str, float], weak: Sequence[str]
) -> Profile:
    """Intervals on the fitted parameters; those that no figure moves with are assumed."""

    def mark(part: Any) -> Any:
        update = {}
        for name in type(part).model_fields:
            q = getattr(part, name)
            if not isinstance(q, Quantity) or q.origin != "fitted":
                continue
            if name in weak:
                update[name] = Quantity(value=q.value, origin="assumed")
            elif name in low:
                ends = {"low": digits(low[name]), "high": digits(high[name])}
                update[name] = q.model_copy(update=ends)
        return part.model_copy(update=update)

    profile = mark(profile)
    parts = {"decode": mark(profile.decode)}
    if profile.codec is not None:
        parts["codec"] = mark(profile.codec)
    return profile.model_copy(update=parts)
