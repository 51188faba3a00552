"""The words in which a warning says that a run left what its profile was measured at."""

from typing import Any

MARKS = ("beyond what", "in what range")
"""One of them is in every warning about a profile's range, and in no other."""


def beyond(what: str, profile: str, limit: float) -> str:
    """what: "prompts of up to {:g} tokens".  limit: the most that was measured, 0 for none."""
    most = f"{limit:g}" if limit else "none"
    return f"{what} are beyond what {profile} was measured at ({most})"


def unmeasured(
    profile: Any, batch: float, prompt: float, context: float
) -> list[tuple[str, float]]:
    """Where a run left its profile's range: texts with a place for a number, and it.

    batch: the most streams of a step; prompt, context: the most tokens of one.
    """
    measured = profile.range
    if measured is None:
        return [(f"profile {profile.name} does not say in what range it was measured", 0.0)]
    reached = (
        ("steps of up to {:g} streams", batch, measured.batch[1]),
        ("prompts of up to {:g} tokens", prompt, measured.prefill_tokens[1]),
        ("contexts of up to {:g} tokens", context, measured.context_tokens[1]),
    )
    return [
        (beyond(what, profile.name, limit), float(most))
        for what, most, limit in reached
        if most > limit
    ]


def still_live(drain: float) -> str:
    """drain: seconds that the run went on after its horizon."""
    return f"{{:g}} calls were still live {drain:g} s after the horizon, when it ended"
