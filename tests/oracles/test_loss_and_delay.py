"""More loss and delay systems: patience, finitely many callers, no limit at all, memory blocks.

As in test_erlang a stream of m tokens lasts between m and m + 1 steps, so every value is met
between the closed form at S and at S (1 + 1/m).
"""

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from scipy import stats

from tests.engine.worlds import tape_of
from tests.oracles.runs import (
    LAWS,
    REPLICATIONS,
    birth_death,
    draw_tokens,
    interval,
    meets,
    play,
    poisson_tape,
    refused_share,
    settled,
    spec_of,
    step_of,
)  # fmt: skip
from tests.oracles.test_erlang import SINCE, STEP, M, erlang_b, erlang_c, runs
from voicesim.engine import layout as at
from voicesim.engine.kinds import NO_EVICT
from voicesim.engine.pool import Pool, record
from voicesim.policy.admission import ADMIT, CAP, CAP_QUEUE, REFUSE

UP = 1 + 1 / M


def waits_of(r) -> np.ndarray:
    """Seconds from request to admission of those admitted."""
    rows = settled(r, SINCE) & (r.utterance_i[:, at.R_ENGINE] >= 0)
    return r.utterance_f[rows, at.Z_ADMIT] - r.utterance_f[rows, at.Z_REQUEST]


@pytest.mark.parametrize(
    ("a", "c", "value", "horizon"),
    [
        (10, 10, 0.214582343107347, 600.0),
        (20, 28, 0.0187924006328244, 3000.0),
        (100, 117, 0.00979, 1500.0),
    ],
)
def test_erlang_b_at_other_loads(a, c, value, horizon):
    assert erlang_b(a, c) == pytest.approx(value, rel=1e-4)
    blocked = [
        refused_share(r, SINCE)
        for r in runs(float(a), "lognormal", horizon, admission=CAP, limit=c)
    ]
    assert meets(blocked, erlang_b(a, c), erlang_b(a * UP, c)), interval(blocked)


def test_erlang_c_and_its_tail():
    """a = 20, c = 24, in units of E[S]: C = 0.298072299793829, Wq = C / 4, the wait exceeds 20/180
    of a call (20 s of 180) with 0.191118112963."""
    assert erlang_c(20, 24) == pytest.approx(0.298072299793829, abs=1e-12)
    tail = erlang_c(20, 24) * np.exp(-4 * 20 / 180)
    assert tail == pytest.approx(0.191118112963, abs=1e-11)
    waits = [waits_of(r) for r in runs(20.0, "geometric", 3000.0, admission=CAP_QUEUE, limit=24)]
    c1, a1 = erlang_c(20 * UP, 24), 20 * UP
    assert meets([(w > 0).mean() for w in waits], erlang_c(20, 24), c1)
    assert meets([w.mean() for w in waits], erlang_c(20, 24) / 4, UP * c1 / (24 - a1))
    late = c1 * np.exp(-(24 - a1) / UP * 20 / 180)
    assert meets([(w > 20 / 180).mean() for w in waits], tail, late)


def erlang_a(a: float, c: int, theta: float) -> tuple[float, float, float]:
    """(P(wait), P(abandon), mean queue) of M/M/c+M, service rate 1, abandonment rate theta."""
    p = birth_death([a / (min(n + 1, c) + max(0, n + 1 - c) * theta) for n in range(c + 400)])
    queue = np.maximum(np.arange(len(p)) - c, 0)
    return float(p[c:].sum()), float(theta * (queue * p).sum() / a), float((queue * p).sum())


@pytest.mark.parametrize("c", [20, 22])
def test_erlang_a(c):
    """a = 20, patience 2/3 of a call (120 s of 180): c = 20 loses 0.0977109576717 of the callers,
    c = 22 0.0559953101336.

    Patience ends with the first sound, a step after the start at the earliest: of those served a
    share of at most theta x two steps leaves in that time.
    """
    wait, lost, queue = erlang_a(20, c, 1.5)
    worked = {
        20: (0.482758780586, 0.0977109576717, 1.30281276896),
        22: (None, 0.0559953101336, None),
    }
    for found, value in zip((wait, lost, queue), worked[c], strict=True):
        assert value is None or found == pytest.approx(value, abs=1e-11)
    m = 1000
    left, waited, live = [], [], []
    for seed in range(REPLICATIONS):
        tape = poisson_tape(seed, 20.0, 1000.0, "geometric", m)
        patience = np.random.default_rng((seed, 9)).exponential(1 / 1.5, len(tape.tokens))
        spec = spec_of(
            step_of(lambda n: 1 / m), schedule=(1, 1 << 40), admission=CAP_QUEUE, limit=c,
            resolution=0.25, horizon=1000.0, end=1000.0,
        )  # fmt: skip
        r = play(spec, replace(tape, patience=patience))
        rows = settled(r, SINCE)
        left.append((r.utterance_i[rows, at.R_OUTCOME] == at.ABANDONED).mean())
        live.append(r.series[80:-1, at.B_GATEWAY].mean())
        start = r.utterance_f[rows, at.Z_ADMIT] - r.utterance_f[rows, at.Z_REQUEST]
        never = r.utterance_i[rows, at.R_ENGINE] < 0
        waited.append((never | (start > 0)).mean())
    above = erlang_a(20 * (1 + 1 / m), c, 1.5)
    assert meets(waited, wait, above[0]), interval(waited)
    assert meets(left, lost, above[1] + 2 * 1.5 / m), interval(left)
    assert meets(live, queue, above[2]), interval(live)


def test_mmck_with_room_for_seven():
    """M/M/5/12, a = 4: blocks 0.0256232188526, Lq 1.21370606741, Wq = Lq / (4 (1 - block))."""

    def law(a):
        return birth_death([a / min(n + 1, 5) for n in range(12)])

    def queue(a):
        return float((np.arange(8) * law(a)[5:]).sum())

    assert law(4)[-1] == pytest.approx(0.0256232188526, abs=1e-12)
    assert queue(4) == pytest.approx(1.21370606741, abs=1e-10)
    blocked, waits = [], []
    for r in runs(4.0, "geometric", 4000.0, admission=CAP_QUEUE, limit=5, max_queued=7):
        blocked.append(refused_share(r, SINCE))
        waits.append(waits_of(r).mean())
    p, p1 = law(4)[-1], law(4 * UP)[-1]
    assert meets(blocked, p, p1), interval(blocked)
    assert meets(waits, queue(4) / 4 / (1 - p), queue(4 * UP) / 4 / (1 - p1)), interval(waits)


def engset(callers: int, alpha: float, servers: int) -> float:
    """p_c of p_k ~ C(N, k) alpha^k: with N the share of time full, with N - 1 that of calls."""
    p = np.array([comb(callers, k) * alpha**k for k in range(servers + 1)])
    return float(p[-1] / p.sum())


@pytest.mark.parametrize(
    ("callers", "time", "call"),
    [(40, 0.170132, 0.158998), (30, 0.0664829926931, 0.0579400692868)],
)
def test_engset(callers, time, call):
    """Callers who think 5 calls long (alpha = 0.2) before they ask again, 8 places: what the clock
    sees is not what the callers see."""
    assert engset(callers, 0.2, 8) == pytest.approx(time, abs=5e-7)
    assert engset(callers - 1, 0.2, 8) == pytest.approx(call, abs=5e-7)
    end, n = 1500.0, callers * 400
    refused, full = [], []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        start = np.sort(rng.exponential(5.0, callers))
        tokens = draw_tokens("geometric", M, n, rng)
        tape = tape_of(start, tokens, np.ones(n), think=rng.exponential(5.0, n), closed=True)
        spec = spec_of(
            step_of(lambda n: STEP), admission=CAP, limit=8, horizon=end, end=end, resolution=0.25
        )
        r = play(spec, tape)
        refused.append(refused_share(r, SINCE))
        full.append((r.series[80:-1, at.B_LIVE] == 8).mean())
    assert meets(refused, call, engset(callers - 1, 0.2 * UP, 8)), interval(refused)
    assert meets(full, time, engset(callers, 0.2 * UP, 8)), interval(full)


@pytest.mark.parametrize("law", LAWS)
def test_without_a_limit_the_live_streams_are_poisson(law):
    """M/G/infinity: lambda = 2/s, S = 7.5 s: N ~ Poisson(15), P(N > 24) = 0.011165, any law."""
    value = stats.poisson.sf(24, 15)
    assert value == pytest.approx(0.011165, abs=5e-7)
    m, end = 300, 4000.0
    over, mean = [], []
    for seed in range(REPLICATIONS):
        spec = spec_of(step_of(lambda n: 7.5 / m), horizon=end, end=end, resolution=0.5)
        live = play(spec, poisson_tape(seed, 2.0, end, law, m)).series[400:-200, at.B_LIVE]
        over.append((live > 24).mean())
        mean.append(live.mean())
    assert meets(mean, 15, 15 * (1 + 1 / m)), interval(mean)
    assert meets(over, value, stats.poisson.sf(24, 15 * (1 + 1 / m))), interval(over)


def test_a_rate_that_swings():
    """Mt/M/infinity: the live streams follow lambda(t) = 90 + 45 sin(g t), g = 2 pi / 20 of a mean
    stay: amplitude 45 / sqrt(1 + g^2) = 42.9313, atan(g) / g late (.5 and .25 calls/s of 180 s with
    a period of an hour: 174.406 s late)."""
    g = 2 * np.pi / 20
    assert 45 / np.hypot(1, g) == pytest.approx(42.9313, abs=5e-5)
    assert 180 * np.arctan(g) / g == pytest.approx(174.406, abs=5e-4)
    end = 1000.0
    inphase, quadrature = [], []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        t = np.sort(rng.uniform(0, end, rng.poisson(135 * end)))
        t = t[rng.random(len(t)) * 135 < 90 + 45 * np.sin(g * t)]
        tokens = draw_tokens("geometric", M, len(t), rng)
        spec = spec_of(step_of(lambda n: STEP), horizon=end, end=end, resolution=0.25)
        live = play(spec, tape_of(t, tokens, np.ones(len(t)))).series[:-1, at.B_LIVE]
        clock = np.arange(len(live)) * 0.25
        whole = clock >= 20.0  # 49 periods, once the start is forgotten
        late = g * clock[whole] - np.arctan(g)
        inphase.append(2 * (live[whole] * np.sin(late)).mean())
        quadrature.append(2 * (live[whole] * np.cos(late)).mean())
    assert meets(inphase, 42.9313, UP * 42.9313), interval(inphase)
    # half a step more of a stay makes it that much later
    assert meets(quadrature, -42.9313 * g / M, 0.0), interval(quadrature)


def test_kv_blocks_are_kaufman_roberts():
    """64 KV blocks, streams of 1 block (a = 20) and of 4 (a = 6), refused if their blocks are not
    free: j g_j = sum_i a_i b_i g_(j - b_i): 0.00703729877092 and 0.035030603639 (any length law).

    The engine reserves what a request declares (TensorRT-LLM's NO_EVICT); the policy refuses.
    """
    block, value = 256, (0.00703729877092, 0.035030603639)

    def law(up=1.0):
        g = np.zeros(65)
        g[0] = 1.0
        for j in range(1, 65):
            g[j] = sum(a * up * b * g[j - b] for a, b in ((20, 1), (6, 4)) if j >= b) / j
        return g[-1:].sum() / g.sum(), g[-4:].sum() / g.sum()

    assert law() == pytest.approx(value, abs=1e-11)
    refused = []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        n = 26 * 1500
        prompt = np.where(rng.random(n) < 6 / 26, 3 * block + 1, 1)
        tape = tape_of(np.cumsum(rng.exponential(1 / 26, n)), np.full(n, M), prompt)
        spec = spec_of(
            step_of(lambda n: STEP, 1 << 15), kind=NO_EVICT, max_new=M, block_size=block, blocks=64,
            budget=1 << 15,
        )  # fmt: skip
        pool = Pool(spec, tape, _only_if_free(block))
        pool.advance(spec.end)
        r = record(pool)
        since = r.utterance_f[:, at.Z_REQUEST] >= SINCE
        no = r.utterance_i[:, at.R_OUTCOME] == at.REFUSED
        refused.append([no[since & (prompt == 1)].mean(), no[since & (prompt > 1)].mean()])
    for shares, low, high in zip(zip(*refused, strict=True), law(), law(UP), strict=True):
        assert meets(shares, low, high), interval(shares)


def _only_if_free(block):
    """ADMIT if the blocks of the request are free, those promised to waiting streams counted."""
    promised: list[int] = []

    def decide(view):
        need = -(-(view.request().prompt_tokens + M) // block)
        waiting = int(view.waiting[0])
        promised[:] = promised[len(promised) - waiting :]
        if need > view.free_blocks[0] - sum(promised):
            return REFUSE, 0
        promised.append(need)
        return ADMIT, 0

    return decide
