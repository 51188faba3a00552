"""The numbers behind a conversation's laws: moments, hazards, shares."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from voicesim.scenario.dialogue import Images, Reply, Talk
from voicesim.workload.lengths import quantile

GRID = (np.arange(1 << 14) + 0.5) / (1 << 14)
"""Mid-points at which a law's moments are taken."""


def known(value: Any) -> Any:
    """What a whole ``Talk`` has; ValueError if a preset left it out."""
    if value is None:
        raise ValueError("a conversation's law is missing: build it over a preset (Talk.over)")
    return value


def moments(law: Any) -> tuple[float, float]:
    """Mean and variance of a law, from its quantiles."""
    values = quantile(law, GRID)
    return float(values.mean()), float(values.var())


def counts(law: Any) -> tuple[float, float]:
    """Mean and variance of a count, as it is drawn: rounded, at least 1."""
    values = np.maximum(1.0, np.rint(quantile(law, GRID)))
    return float(values.mean()), float(values.var())


def exceeds(law: Any, bound: float) -> float:
    """Probability that a draw is longer than ``bound``."""
    return float(np.mean(quantile(law, GRID) > bound))


def sentence_seconds(reply: Reply, u: np.ndarray) -> np.ndarray:
    """Speech of sentences (s) at the uniforms ``u``."""
    if reply.sentence_tokens is None:
        return quantile(known(reply.sentence), u)
    tokens = np.maximum(1.0, np.rint(quantile(reply.sentence_tokens, u)))
    return tokens / known(reply.tokens_per_second)


def pareto(least: float, most: float, alpha: float, u: np.ndarray) -> np.ndarray:
    """Pareto law from ``least`` on, cut at ``most``: what is longer has that length."""
    return np.minimum(most, least * (1.0 - u) ** (-1.0 / alpha))


@dataclass(frozen=True)
class Speech:
    """Mean and variance of the agent's speech in a turn and in a call (s)."""

    turn: float
    turn_variance: float
    call: float
    call_variance: float


def agent_speech(talk: Talk) -> Speech:
    """How long the agent speaks: a reply is a sum of sentences or a long one, a call of replies."""
    reply = known(talk.reply)
    n, n_variance = counts(known(reply.sentences))
    seconds = sentence_seconds(reply, GRID)
    s, s_variance = float(seconds.mean()), float(seconds.var())
    mean, variance = n * s, n * s_variance + n_variance * s**2
    if reply.tail is not None and known(reply.tail.share) > 0:
        tail = reply.tail
        long = pareto(known(tail.least), known(tail.most), known(tail.alpha), GRID)
        second = (1 - tail.share) * (variance + mean**2) + tail.share * float(np.mean(long**2))
        mean = (1 - tail.share) * mean + tail.share * float(long.mean())
        variance = second - mean**2
    turns, turns_variance = counts(known(talk.turns))
    return Speech(mean, variance, turns * mean, turns * variance + turns_variance * mean**2)


def barge_hazard(talk: Talk) -> float:
    """Interruptions per audible second; from the share p of calls that have one if that is given.

    With a gamma law for the agent's speech in a call, of its mean m and squared coefficient of
    variation c, a call goes without interruption with probability (1 + h m c)^(-1/c), so
    h = ((1 - p)^-c - 1) / (m c).  Were all calls alike, h = -ln(1 - p) / m.
    """
    rules = known(talk.barge_in)
    if rules.hazard is not None:
        return float(rules.hazard)
    share = float(known(rules.share))
    if share >= 1.0:
        return math.inf
    speech = agent_speech(talk)
    c = speech.call_variance / speech.call**2
    if c < 1e-9:
        return -math.log1p(-share) / speech.call
    return float(((1.0 - share) ** -c - 1.0) / (speech.call * c))


def false_hazard(talk: Talk, detect: float) -> float:
    """Noises and long backchannels taken for an interruption, per audible second."""
    rules = known(talk.barge_in)
    found = float(known(rules.false))
    back = rules.backchannel
    if back is not None and known(back.hazard) > 0:
        found += back.hazard * exceeds(known(back.length), detect)
    return found


def image_misses(images: Images) -> float:
    """Share of images that the encoder must read."""
    return 1.0 if images.cache is None else 1.0 - images.cache.hit_rate(images.tokens)
