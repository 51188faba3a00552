"""Laws of lengths, pauses and patience: quantile function, mean, and draws.

A law is any object with ``kind`` and ``params`` (a dict; durations in seconds):

========== ================================================ =========================
kind       params                                           support
========== ================================================ =========================
constant   value                                            one point
exponential mean                                            x >= 0
lognormal  mean, p99 | median, sigma | mean, sigma          x >= 0
geometric  mean                                             1, 2, 3, ...
poisson    mean (1 + Poisson of mean - 1)                   1, 2, 3, ...
negative_  mean, cv (1 + negative binomial)                 1, 2, 3, ...
binomial
gamma      mean, cv (standard deviation / mean)             x >= 0
normal     mean, sd (given that it is not negative)         x >= 0
uniform    low, high                                        low <= x < high
empirical  values (equally likely)                          the values
mixture    parts: (share, law)                              those of its parts
========== ================================================ =========================

Every draw is the quantile of ONE uniform number; of a mixture the uniform number picks the part
first, and what is left of it makes the draw.  So under common random numbers a law with a
larger scale gives a larger value caller by caller, and no law uses up another's numbers.
"""

import math
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri
from scipy.stats import nbinom, poisson

from voicesim.workload.rng import Purpose, generator

_Z99 = float(ndtri(0.99))


def lognormal_parameters(params: dict[str, Any]) -> tuple[float, float]:
    """(mu, sigma) of the logarithm, from whichever pair of parameters was given.

    With mean m and 99th percentile p, ln(p/m) = z sigma - sigma^2/2 where z = 2.326; the smaller
    root is taken.  It exists for 1 <= p/m <= exp(z^2/2) = 14.97; ValueError outside.
    """
    if "median" in params:
        _positive("lognormal median", params["median"])
        return math.log(params["median"]), float(params["sigma"])
    mean = float(params["mean"])
    _positive("lognormal mean", mean)
    if "sigma" in params:
        sigma = float(params["sigma"])
    else:
        ratio = params["p99"] / mean
        if not 1.0 <= ratio <= math.exp(_Z99**2 / 2):
            raise ValueError(
                f"no lognormal has p99/mean = {ratio:g}: the ratio must lie in [1, 14.97]"
            )
        sigma = _Z99 - math.sqrt(max(0.0, _Z99**2 - 2 * math.log(ratio)))
    return math.log(mean) - sigma**2 / 2, sigma


def quantile(law: Any, u: np.ndarray) -> np.ndarray:
    """Inverse distribution function of ``law`` at ``u`` in [0, 1); float64, the shape of u.

    Non-decreasing in u for every law but a mixture.  ValueError on parameters that define no law on
    x >= 0.
    """
    p = law.params
    match law.kind:
        case "constant":
            _not_negative("constant value", p["value"])
            return np.full(np.shape(u), float(p["value"]))
        case "exponential":
            _not_negative("exponential mean", p["mean"])
            return -p["mean"] * np.log1p(-u)
        case "lognormal":
            mu, sigma = lognormal_parameters(p)
            if sigma == 0.0:
                return np.full(np.shape(u), math.exp(mu))
            return np.exp(mu + sigma * ndtri(u))
        case "geometric":
            mean = float(p["mean"])
            if mean < 1.0:
                raise ValueError(f"geometric mean {mean:g}: the law lives on 1, 2, 3, ...")
            if mean == 1.0:
                return np.ones(np.shape(u))
            return np.maximum(1.0, np.ceil(np.log1p(-u) / math.log1p(-1.0 / mean)))
        case "gamma":
            mean, cv = float(p["mean"]), float(p["cv"])
            _not_negative("gamma mean", mean)
            _not_negative("gamma cv", cv)
            return mean * unit_gamma(cv**2, u)
        case "poisson" | "negative_binomial":
            return _counted(law.kind, p, u)
        case "normal":
            at = float(ndtr(-p["mean"] / p["sd"]))
            return np.maximum(0.0, p["mean"] + p["sd"] * ndtri(at + (1.0 - at) * u))
        case "mixture":
            return _mixed(p["parts"], np.asarray(u, dtype=np.float64))
        case "uniform":
            low, high = float(p["low"]), float(p["high"])
            _not_negative("uniform low", low)
            if high < low:
                raise ValueError(f"uniform high {high:g} is below low {low:g}")
            return low + (high - low) * u
        case "empirical":
            values = np.sort(np.asarray(p["values"], dtype=np.float64))
            if not len(values):
                raise ValueError("empirical law without values")
            _not_negative("empirical value", values[0])
            return values[np.minimum((u * len(values)).astype(np.int64), len(values) - 1)]
    raise ValueError(f"unknown law {law.kind!r}")


def _counted(kind: str, p: dict[str, Any], u: np.ndarray) -> np.ndarray:
    """1 + Poisson or negative binomial: the place of u in the table of the distribution."""
    extra = float(p["mean"]) - 1.0
    if extra < 0.0:
        raise ValueError(f"{kind} mean {p['mean']:g}: the law lives on 1, 2, 3, ...")
    if extra == 0.0:
        return np.ones(np.shape(u))
    if kind == "poisson":
        law = poisson(extra)
    else:
        variance = (p["mean"] * p["cv"]) ** 2
        if variance <= extra:
            raise ValueError(f"negative_binomial cv {p['cv']:g}: narrower than 1 + Poisson")
        law = nbinom(extra**2 / (variance - extra), extra / variance)
    table = law.cdf(np.arange(int(law.isf(2.0**-53)) + 2))
    return 1.0 + np.searchsorted(table, u, side="right")


def _mixed(parts: list[tuple[float, Any]], u: np.ndarray) -> np.ndarray:
    out = np.empty(np.shape(u))
    low = 0.0
    for i, (share, law) in enumerate(parts):
        high = 1.0 if i == len(parts) - 1 else low + share
        here = (low <= u) & (u < high)
        out[here] = quantile(law, np.minimum((u[here] - low) / share, 1.0 - 2.0**-53))
        low = high
    return out


def unit_gamma(variance: float | np.ndarray, u: np.ndarray) -> np.ndarray:
    """Quantile at u of the gamma law with mean 1 and ``variance``; 1 where variance is 0."""
    variance = np.asarray(variance, dtype=np.float64)
    spread = variance > 0
    shape = 1.0 / np.where(spread, variance, 1.0)
    return np.where(spread, gammaincinv(shape, u) / shape, 1.0)


def mean(law: Any) -> float:
    """Expected value of ``law``, in its own unit."""
    p = law.params
    match law.kind:
        case "constant":
            return float(p["value"])
        case "exponential" | "geometric" | "gamma" | "poisson" | "negative_binomial":
            return float(p["mean"])
        case "lognormal":
            mu, sigma = lognormal_parameters(p)
            return math.exp(mu + sigma**2 / 2)
        case "uniform":
            return (p["low"] + p["high"]) / 2
        case "empirical":
            return float(np.mean(p["values"]))
        case "normal" | "mixture":
            return float(law.mean())
    raise ValueError(f"unknown law {law.kind!r}")


def draw(law: Any, n: int, seed: int, replication: int, purpose: Purpose) -> np.ndarray:
    """The first ``n`` draws of ``law`` for one purpose, float64[n].

    A longer draw begins with the shorter one.
    """
    return quantile(law, generator(seed, replication, purpose).random(n))


def draw_integers(law: Any, n: int, seed: int, replication: int, purpose: Purpose) -> np.ndarray:
    """As ``draw``, rounded to the nearest integer and at least 1; int64[n]."""
    return integers(draw(law, n, seed, replication, purpose))


def integers(values: np.ndarray) -> np.ndarray:
    """Rounded to the nearest integer and at least 1; int64."""
    return np.maximum(1, np.rint(values)).astype(np.int64)


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} must be above 0, not {value:g}")


def _not_negative(name: str, value: float) -> None:
    if not value >= 0:
        raise ValueError(f"{name} must not be negative: {value:g}")
