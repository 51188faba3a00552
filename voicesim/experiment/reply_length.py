"""How long replies are, from points of a curve: their mean, and how they spread."""

import math

import pandas as pd

from voicesim.experiment.rung import SIGMA
from voicesim.scenario.units import duration, number

STATS = {"mean": "mean", "median": "p50", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
"""Statistics of a curve: what ``experiment.served`` calls them."""
Z = {"p90": 1.2816, "p95": 1.6449, "p99": 2.3263}
"""Of the normal distribution, for the spread of a lognormal length."""


def mean_reply(
    curve: pd.DataFrame, audio_s: float | None, given: str | None, where: str
) -> tuple[float, str]:
    """Mean of a reply (seconds of audio, or tokens), and where it comes from."""
    if given is not None:
        return _given(given, audio_s), "as given"
    if audio_s is None:
        tokens = mean(curve, "tokens") or _ratio(curve, "throughput_tokens", "throughput_requests")
        if tokens:
            return tokens, "of the files"
        raise ValueError(f"{where}: how long a reply is stands nowhere; give its mean, --reply 200"
                         " (tokens), or for speech --reply 4s --token-audio 80ms")  # fmt: skip
    found = (
        (mean(curve, "audio_s"), "of the files"),
        (_ratio(curve, "throughput_audio", "throughput_requests"), "audio over requests"),
        (_ratio(curve, "latency_s", "rtf_per_request"), "latency over real-time factor"),
    )
    for value, how in found:
        if value:
            return value, how
    tokens = mean(curve, "tokens") or _ratio(curve, "throughput_tokens", "throughput_requests")
    if tokens:
        return tokens * audio_s, "tokens of the files"
    raise ValueError(f"{where}: how long a reply is stands nowhere; give its mean, --reply 4s")


def _given(text: str, audio_s: float | None) -> float:
    try:
        tokens = not text.strip()[-1:].isalpha()
        value = number(text) if tokens else duration(text)
    except ValueError as problem:
        raise ValueError(f"--reply: {problem}") from None
    if not 0 < value < 1e6:
        raise ValueError(f"--reply: found {text!r}; allowed: 4s of speech, or 200 tokens")
    if tokens:
        return value if audio_s is None else value * audio_s
    if audio_s is None:
        raise ValueError("--reply: seconds are of speech: give the audio of a decode step, too"
                         " (--token-audio 80ms)")  # fmt: skip
    return value


def _rows(curve: pd.DataFrame, metric: str, stat: str = "mean") -> pd.DataFrame:
    names = [name for name, ours in STATS.items() if ours == stat] or [stat]
    return curve[(curve["metric"] == metric) & curve["stat"].isin(names)]


def mean(curve: pd.DataFrame, metric: str) -> float | None:
    """Of the means that the points state; None if they state none."""
    values = _rows(curve, metric)["value"]
    return float(values.mean()) if len(values) else None


def _ratio(curve: pd.DataFrame, above: str, below: str) -> float | None:
    """Mean over runs of one mean by another."""
    keys = ["place", "run", "level"]
    one = _rows(curve, above).groupby(keys, dropna=False)["value"].mean()
    other = _rows(curve, below).groupby(keys, dropna=False)["value"].mean()
    both = (one / other[other > 0]).dropna()
    return float(both.mean()) if len(both) else None


def spread(curve: pd.DataFrame) -> tuple[float, str]:
    """Of the logarithm of a reply's length.  In a closed loop latency goes with length, so at the
    least load its spread is that of the lengths."""
    for metric in ("audio_s", "tokens"):
        found = _sigma(curve, metric)
        if found is not None:
            return found, "of the files"
    least = _sigma(curve[curve["level"] == curve["level"].min()], "latency_s")
    if least is not None:
        return least, "of the latency at the least load"
    return SIGMA, "assumed"


def _sigma(curve: pd.DataFrame, metric: str) -> float | None:
    middle, std = mean(curve, metric), _rows(curve, metric, "std")["value"].mean()
    if middle and math.isfinite(std):
        return min(1.5, math.sqrt(math.log1p((std / middle) ** 2)))
    median = _rows(curve, metric, "p50")["value"].mean()
    for stat, z in Z.items():
        high = _rows(curve, metric, stat)["value"].mean()
        if median > 0 and math.isfinite(high):
            return min(1.5, math.log(max(high / median, 1.0)) / z)
        if middle and math.isfinite(high):  # ln(high / mean) = z s - s^2 / 2
            over = 2 * math.log(max(high / middle, 1.0))
            return min(1.5, z - math.sqrt(max(z * z - over, 0.0)))
    return None
