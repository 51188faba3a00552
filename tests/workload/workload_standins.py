"""Plain objects with the attributes of a scenario's workload."""

from types import SimpleNamespace
from typing import Any


def law(kind: str, **params: Any) -> SimpleNamespace:
    return SimpleNamespace(kind=kind, params=params)


def arrivals(kind: str, **fields: Any) -> SimpleNamespace:
    return SimpleNamespace(kind=kind, **fields)


POISSON = arrivals("poisson", rate=20.0)
SURGE = {"base": 4.0, "peak": 20.0, "at": 100.0, "rise": 50.0, "hold": 100.0, "fall": 40.0}


def workload(**changes: Any) -> SimpleNamespace:
    fields: dict[str, Any] = {
        "arrivals": POISSON,
        "audio": law("lognormal", mean=4.3, p99=15.0),
        "tokens": None,
        "prompt_tokens": law("lognormal", mean=60.0, p99=200.0),
        "utterances_per_session": law("geometric", mean=3.0),
        "think": law("exponential", mean=4.0),
        "patience": law("exponential", mean=8.0),
    } | changes
    said = {k: fields.pop(k) for k in ("audio", "tokens", "prompt_tokens")}
    utterance = SimpleNamespace(**said, shared_prefix=0)
    return SimpleNamespace(utterance=utterance, **fields)
