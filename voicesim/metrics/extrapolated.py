"""The words in which a warning says that a run left what its profile was measured at."""

MARKS = ("beyond what", "in what range", "where it was measured")
"""One of them is in every warning about a profile's range, and in no other."""


def beyond(what: str, profile: str, limit: float) -> str:
    """what: "prompts of up to {:g} tokens".  limit: the most that was measured, 0 for none."""
    most = f"{limit:g}" if limit else "none"
    return f"{what} are beyond what {profile} was measured at ({most})"
