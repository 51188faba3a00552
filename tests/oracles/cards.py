"""One endless stream on each of several engines on a card, and what closed forms say of them."""

import numpy as np

from tests.engine.worlds import step_cost, tape_of
from voicesim.engine.pool import Pool, record
from voicesim.engine.spec import OnCard, PoolSpec

STEP = 0.01
STEPS = 40_000


def exponential() -> np.ndarray:
    """Inverse CDF of an exponential of mean 1."""
    u = (np.arange(4096) + 0.5) / 4096
    table = -np.log1p(-u)
    return table / table.mean()


def spec(engines: int, g: float, card: OnCard | None, **more) -> PoolSpec:
    """A stream on each engine that decodes for ever: g of a step on the GPU, the rest on a host."""
    given = dict(
        engines=engines, schedule=(1 << 40,), routing=0, max_new=1 << 40,
        step=step_cost(memory=g * STEP, base=0.0, per_token=0.0, per_kv=0.0, host=(1 - g) * STEP),
        noise=exponential(), host_noise=exponential(), horizon=1e9, end=STEPS * STEP,
        on_card=card, seed=7,
    )  # fmt: skip
    return PoolSpec(**(given | more))


def speed(engines: int, g: float, card: OnCard | None, **more) -> float:
    """Steps of all engines in the time in which one of them alone makes one."""
    s = spec(engines, g, card, **more)
    tape = tape_of(np.zeros(engines), np.full(engines, 1 << 30), np.ones(engines))
    pool = Pool(s, tape)
    pool.advance(s.end)
    return record(pool).counters["steps"] / STEPS


def mva(n: int, g: float) -> float:
    queue = speed = 0.0
    for k in range(1, n + 1):
        speed = k / (g * (1 + queue) + 1 - g)
        queue = speed * g * (1 + queue)
    return speed


def mps(n: int, g: float, sm: float) -> float:
    """Birth and death: of n engines k have work on the GPU and go at 1 / max(1, k sm) each."""
    weights = [1.0]
    for k in range(1, n + 1):
        come, go = (n - k + 1) / (1 - g), k / g / max(1.0, k * sm)
        weights.append(weights[-1] * come / go)
    p = np.array(weights) / sum(weights)
    return float(sum(p[k] * k / max(1.0, k * sm) for k in range(1, n + 1)) / g)
