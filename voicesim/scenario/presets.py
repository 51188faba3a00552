"""Named hourly profiles of a day, and named kinds of conversation."""

from typing import Any

SERVEGEN_M_SMALL: tuple[float, ...] = (
    0.84, 0.71, 0.73, 0.68, 0.71, 0.66, 0.68, 0.85, 1.02, 1.05, 1.13, 1.09,
    1.06, 1.07, 1.06, 1.05, 1.09, 1.08, 1.01, 1.23, 1.46, 1.40, 1.27, 1.06,
)  # fmt: skip
"""Hour-of-day profile over its mean, hours 0 to 23, computed from the m-small trace of ServeGen
(Alibaba, Apache-2.0, arXiv 2505.09999): the cleanest day of its four models."""

PROFILES = {"servegen_m_small": SERVEGEN_M_SMALL}

_THINK: dict[str, Any] = {
    "mixture": [
        {"share": 0.8, "law": {"normal": {"mean": "200ms", "sd": "350ms"}}},
        {"share": 0.2, "law": {"lognormal": {"median": "1.5s", "sigma": 0.7}}},
    ]
}
_CALM: dict[str, Any] = {
    "speech": {"lognormal": {"median": "1.9s", "sigma": 0.75}},
    "think": _THINK,
    "pauses": {"share": 0.4, "longest": {"lognormal": {"median": "330ms", "sigma": 0.9}}},
    "reply": {
        "sentences": {"poisson": {"mean": 2}},
        "sentence": {"lognormal": {"median": "3.2s", "sigma": 0.55}},
        "tokens_per_second": 4.0,
        "tail": {"share": 0.03, "least": "12s", "alpha": 2.2, "most": "60s"},
    },
    "context": {"system": 1200, "per_turn": 70, "speech_tokens_per_second": 3.5},
    "patience": {"lognormal": {"median": "12s", "sigma": 0.6}},
    "barge_in": {
        "share": 0.2,
        "false": "0.001/s",
        "backchannel": {
            "hazard": "0.02/s", "length": {"lognormal": {"median": "300ms", "sigma": 0.4}}
        },
    },
}  # fmt: skip
CONVERSATIONS: dict[str, dict[str, Any]] = {
    "service": {**_CALM, "turns": {"negative_binomial": {"mean": 8, "cv": 0.6}}},
    "task": {
        **_CALM,
        "turns": {"negative_binomial": {"mean": 18, "cv": 0.6}},
        "reply": {**_CALM["reply"], "sentences": {"poisson": {"mean": 1.13}}},
        "context": {"system": 1200, "per_turn": 30, "speech_tokens_per_second": 3.5},
    },
    "companion": {
        **_CALM,
        "turns": {"negative_binomial": {"mean": 38, "cv": 0.8}},
        "speech": {"lognormal": {"median": "2.5s", "sigma": 0.75}},
        "reply": {
            **_CALM["reply"],
            "sentences": {"poisson": {"mean": 1.5}},
            "sentence": {"lognormal": {"median": "2.6s", "sigma": 0.55}},
        },
        "context": {"system": 800, "per_turn": 50, "speech_tokens_per_second": 3.5},
        "patience": {"lognormal": {"median": "20s", "sigma": 0.6}},
        "barge_in": {
            "hazard": "0.03/s",
            "false": "0.001/s",
            "backchannel": {**_CALM["barge_in"]["backchannel"], "hazard": "0.1/s"},
        },
    },
}
"""Kinds of conversation, as a scenario writes them; the source of each number is in
docs/howto/dialogue.md.

service: a phone agent's call.  task: many short turns (bookings, forms).  companion: free talk.
"""
