"""The codec stage is a queue: M/G/1, its Lindley recursion, and M/D/2.

One worker that vocodes one chunk at a time, on a GPU of its own; streams of one chunk; decoding
takes a nanosecond a token.  The codec's cost is proportional to the frames, so the service times
follow the token law.  Its waiting time must be Lindley's, chunk by chunk, and its mean
Pollaczek-Khinchine's, Wq / E[S] = rho (1 + c^2) / (2 (1 - rho)).
"""

import numpy as np
import pytest
from scipy import stats

from tests.engine.worlds import tape_of
from tests.oracles.runs import REPLICATIONS, interval, meets, play, spec_of, step_of
from voicesim.engine import layout as at
from voicesim.engine.spec import CodecSpec

RHO = 0.8
MEAN = {"constant": 1, "exponential": 20, "lognormal": 20}  # tokens; 1 s of codec on average
STEP = 1e-9
LIMIT = {"constant": 2.0, "exponential": 4.0, "lognormal": 2.866659}
CHUNKS = 40_000
BURN = 2_000


def exact_moments(law: str) -> tuple[float, float]:
    """Mean and squared coefficient of variation of the tokens as they are drawn (whole numbers)."""
    k = np.arange(1, 4000)
    if law == "constant":
        return 1.0, 0.0
    if law == "exponential":
        p = stats.geom.pmf(k, 1 / MEAN[law])
    else:
        p = np.diff(lognormal().cdf(np.arange(0, 4000)))
    mean = (k * p).sum()
    return mean, ((k - mean) ** 2 * p).sum() / mean**2


def lognormal():
    """sigma 0.6; rounding up adds half a token."""
    return stats.lognorm(0.6, scale=(MEAN["lognormal"] - 0.5) * np.exp(-0.18))


def simulate(law: str, seed: int, workers: int = 1):
    """(requests, service times, waits) of CHUNKS single-chunk streams at rho per worker = 0.8."""
    rng = np.random.default_rng(seed)
    if law == "constant":
        tokens = np.ones(CHUNKS, np.int64)
    elif law == "exponential":
        tokens = rng.geometric(1 / MEAN[law], CHUNKS)
    else:
        tokens = np.ceil(lognormal().ppf(rng.random(CHUNKS))).astype(np.int64)
    mean, _ = exact_moments(law)
    arrival = np.cumsum(rng.exponential(1 / (RHO * workers), CHUNKS))
    codec = CodecSpec(np.array([0.0, 0.0, 1 / mean]), workers=workers, shared=False)
    r = play(
        spec_of(step_of(lambda n: STEP), codec=codec), tape_of(arrival, tokens, np.ones(CHUNKS))
    )
    service = tokens / mean
    return arrival + tokens * STEP, service, r.utterance_f[:, at.Z_DONE]


@pytest.mark.parametrize("law", LIMIT)
def test_every_wait_is_lindleys(law):
    """W_1 = 0; W_{n+1} = max(0, W_n + S_n - A_n), to the rounding of clock times of 5e4 s."""
    ready, service, done = simulate(law, 0)
    order = np.argsort(ready, kind="stable")
    ready, service, done = ready[order], service[order], done[order]
    free = 0.0
    expected = np.empty(CHUNKS)
    for i in range(CHUNKS):
        free = max(free, ready[i]) + service[i]
        expected[i] = free
    # a chunk may wait for the step of another that joined in the same nanoseconds
    assert np.abs(done - expected).max() < 1e-6


@pytest.mark.parametrize("law", LIMIT)
def test_mean_wait_is_pollaczek_khinchines(law):
    """rho = 0.8: 2.0 constant, 4.0 exponential, 2.866659 lognormal(0.6), in units of E[S].

    Token counts are whole numbers; the value with the variance of the counts as drawn is exact,
    and the textbook value is its limit (1/20 away in c^2 at 20 tokens).
    """
    _, scv = exact_moments(law)
    value = RHO * (1 + scv) / (2 * (1 - RHO))
    assert value == pytest.approx(LIMIT[law], rel=1.3 / MEAN[law] if law != "constant" else 1e-12)
    waits = []
    for seed in range(REPLICATIONS):
        ready, service, done = simulate(law, seed)
        waits.append((done - ready - service)[BURN:].mean())
    assert meets(waits, value), interval(waits)


def test_the_textbook_lognormal():
    """c^2 = exp(0.36) - 1 = 0.433329: Wq = 2.866659 E[S]."""
    assert RHO * np.exp(0.36) / (2 * (1 - RHO)) == pytest.approx(2.866659, abs=5e-7)


def test_two_workers_share_the_gpu():
    """n batches at once each take n times as long: two workers are processor sharing of one GPU
    with at most two in service, so they finish no more work than one."""
    from dataclasses import replace

    tape = tape_of([0.0, 0.0, 0.0], [1, 1, 1], [1, 1, 1])
    one = spec_of(step_of(lambda n: STEP), codec=CodecSpec(np.array([1.0, 0, 0]), shared=False))
    assert one.codec is not None
    two = replace(one, codec=replace(one.codec, workers=2))
    assert play(one, tape).utterance_f[:, at.Z_DONE] == pytest.approx([1, 2, 3], abs=1e-6)
    # 0 and 1 together until 2 s, then 2 alone
    assert play(two, tape).utterance_f[:, at.Z_DONE] == pytest.approx([2, 2, 3], abs=1e-6)


def test_greedy_batches():
    """A batch of all that wait takes a + b n = 50 + 10 n ms, no cap: the batch sizes are the
    embedded chain X' ~ Poisson(lambda D(max(X, 1))); lambda = 40/s: mean batch 3.406759, wait
    0.0436627 s, sojourn 0.1385929 s."""
    rate, count = 40.0, 40_000
    batch, wait, sojourn = [], [], []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        arrival = np.cumsum(rng.exponential(1 / rate, count))
        codec = CodecSpec(np.array([0.05, 0.01, 0.0]), cap=1000, shared=False)
        spec = spec_of(step_of(lambda n: STEP), codec=codec, record_chunks=True)
        r = play(spec, tape_of(arrival, np.ones(count), np.ones(count)))
        c = r.counters
        batch.append(c["codec_rows"] / c["codec_batches"])
        stay = r.utterance_f[:, at.Z_DONE] - r.utterance_f[:, at.Z_REQUEST]
        rows = np.zeros(count)
        rows[r.chunk_i[:, at.L_UTT]] = r.chunk_i[:, at.L_ROWS]
        sojourn.append(stay[200:].mean())
        wait.append((stay - 0.05 - 0.01 * rows)[200:].mean())
    assert meets(batch, 3.406759), interval(batch)
    assert meets(wait, 0.0436627), interval(wait)
    assert meets(sojourn, 0.1385929), interval(sojourn)
