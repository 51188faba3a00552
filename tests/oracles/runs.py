"""What the closed-form tests share: Poisson callers, step costs, and t-intervals.

Every statistical test runs REPLICATIONS fixed seeds and states a two-sided 99.9 % t-interval: a
right simulator fails one such comparison in a thousand choices of seeds.
"""

import numpy as np
from scipy import stats

from tests.engine.worlds import tape_of
from tests.trust import note
from voicesim.engine import layout as at
from voicesim.engine.cost import StepCost
from voicesim.engine.pool import Pool, record
from voicesim.engine.record import RunRecord
from voicesim.engine.spec import PoolSpec
from voicesim.workload.tape import Tape

REPLICATIONS = 10
ERROR_RATE = 0.001
WHOLE = (1 << 40,)  # a schedule of one chunk: the stream is heard when it is complete
LAWS = ("geometric", "lognormal", "constant")


def step_of(seconds, most: int = 4096) -> StepCost:
    """A step whose cost depends only on the tokens in it (= streams, for prompts of one token)."""
    return StepCost(np.zeros(9), np.array([seconds(n) for n in range(most + 1)], float))


def draw_tokens(law: str, mean: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Tokens of n streams, >= 1: geometric (the discrete exponential), lognormal with sigma 1 or
    constant, all of the same mean."""
    if law == "geometric":
        return rng.geometric(1 / mean, n)
    if law == "constant":
        return np.full(n, int(mean))
    # ceil adds half a token on average (to a density that is flat over one token)
    return np.ceil(np.exp(rng.normal(np.log(mean - 0.5) - 0.5, 1.0, n))).astype(np.int64)


def poisson_tape(seed: int, rate: float, horizon: float, law: str, mean: float, fine=1) -> Tape:
    """Poisson callers of one utterance each; ``fine`` multiplies the tokens of every stream."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1 / rate, int(rate * horizon)))
    tokens = draw_tokens(law, mean, len(arrival), rng) * fine
    return tape_of(arrival, tokens, np.ones(len(arrival), np.int64))


def spec_of(step: StepCost, **more) -> PoolSpec:
    """One engine without limits of its own, whole replies, a listener who takes no time."""
    fixed = {
        "schedule": WHOLE, "token_audio": 1e-12, "horizon": 1e9, "end": 1e9, "resolution": 1e9,
        "max_num_seqs": 4000, "budget": 4096,
    }  # fmt: skip
    return PoolSpec(engines=1, step=step, **{**fixed, **more})


def play(spec: PoolSpec, tape: Tape) -> RunRecord:
    pool = Pool(spec, tape)
    pool.advance(spec.end)
    return record(pool)


def settled(r: RunRecord, since: float) -> np.ndarray:
    """Rows of the utterances that asked at ``since`` or later and have an outcome."""
    asked = r.utterance_f[:, at.Z_REQUEST] >= since
    return asked & (r.utterance_i[:, at.R_OUTCOME] != at.PENDING)


def refused_share(r: RunRecord, since: float) -> float:
    rows = settled(r, since)
    return float((r.utterance_i[rows, at.R_OUTCOME] == at.REFUSED).mean())


def sojourns(r: RunRecord, since: float) -> np.ndarray:
    """Seconds from request to the last chunk of the completed streams."""
    rows = settled(r, since) & (r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED)
    return r.utterance_f[rows, at.Z_DONE] - r.utterance_f[rows, at.Z_REQUEST]


def interval(samples) -> tuple[float, float]:
    """The 99.9 % t-interval (low, high) for the mean of independent replications."""
    x = np.asarray(samples, float)
    half = stats.t.ppf(1 - ERROR_RATE / 2, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return float(x.mean() - half), float(x.mean() + half)


def meets(samples, low: float, high: float | None = None) -> bool:
    """Does the interval touch the value (or the stated bracket low..high)?"""
    a, b = interval(samples)
    high = low if high is None else high
    note("oracle", low=float(low), high=float(high), interval=(a, b))
    return a <= high and b >= low


def birth_death(ratios) -> np.ndarray:
    """Stationary law of a birth-death chain, ratios[n] = p[n + 1] / p[n]."""
    p = np.concatenate(([1.0], np.cumprod(ratios)))
    return p / p.sum()
