"""Closed networks and tandems: callers who think, and calls that pass an LLM and then a TTS engine.

Product form (Baskett, Chandy, Muntz, Palacios 1975): a stage of continuous batching is processor
sharing whose speed depends on the batch, thinking is a stage without a queue, and only the means
of the lengths matter.  As everywhere the bracket is m to m + 1 tokens of each stream.
"""

from dataclasses import replace
from math import factorial

import numpy as np
import pytest

from tests.cases.calls import calls
from tests.engine.worlds import tape_of
from tests.oracles.runs import (
    REPLICATIONS,
    WHOLE,
    interval,
    meets,
    play,
    settled,
    sojourns,
    spec_of,
    step_of,
)  # fmt: skip
from tests.oracles.test_processor_sharing import affine
from voicesim.engine import layout as at
from voicesim.session import record as rec
from voicesim.session.dialogue import Dialogue, record
from voicesim.session.spec import DialogueSpec

SINCE = 60.0
THINK = 8.0
TOKENS, SPEECH = 60, 100  # of a reply, of its speech, on average
TTS = 0.050  # s of a synthesiser alone


def convolution(callers: int, stations) -> tuple[float, list[float]]:
    """(throughput, mean number at each station) of a closed network; station i has the factors
    f_i(n) = product of its mean work / speed over k <= n."""
    factors = [np.array([f(n) for n in range(callers + 1)]) for f in stations]

    def product(which):
        g = np.zeros(callers + 1)
        g[0] = 1.0
        for f in which:
            g = np.convolve(g, f)[: callers + 1]
        return g

    g = product(factors)
    throughput = g[callers - 1] / g[callers]
    numbers = []
    for i, f in enumerate(factors):
        others = product(factors[:i] + factors[i + 1 :])
        share = f * others[::-1] / g[callers]
        numbers.append(float((np.arange(callers + 1) * share).sum()))
    return float(throughput), numbers


def thinking(seconds):
    return lambda n: seconds**n / factorial(n)


def batching(m, step):
    """prod over k <= n of m T(k) / k."""
    return lambda n: float(np.prod([m * step(k) / k for k in range(1, n + 1)]))


def sharing(seconds):
    return lambda n: seconds**n


def test_worked_values():
    """40 callers, 8 s of thought: alone before the LLM X = 4.51283718143/s, T = 0.863603624925 s;
    with an ASR of 20 ms and a TTS of 50 ms, X = 4.47022035793/s and R = 0.0219057231956,
    0.862382249836, 0.0638167728656 s."""
    x, (_, llm) = convolution(40, [thinking(THINK), batching(TOKENS, affine)])
    assert (x, llm / x) == pytest.approx((4.51283718143, 0.863603624925), rel=1e-10)
    x, (_, asr, llm, tts) = convolution(
        40, [thinking(THINK), sharing(0.02), batching(TOKENS, affine), sharing(TTS)]
    )
    found = (x, asr / x, llm / x, tts / x)
    worked = (4.47022035793, 0.0219057231956, 0.862382249836, 0.0638167728656)
    assert found == pytest.approx(worked, rel=1e-10)


def closed_pool(callers, think, step, m, end=4000.0):
    """(throughput, mean sojourn) by replication of callers who think before each request."""
    xs, stays = [], []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        n = int(4 * callers * end / think) + 1000
        start = np.sort(rng.exponential(think, callers))
        tape = tape_of(
            start, rng.geometric(1 / m, n), np.ones(n), think=rng.exponential(think, n), closed=True
        )
        r = play(spec_of(step_of(step), horizon=end, end=end), tape)
        done = r.utterance_f[settled(r, SINCE), at.Z_DONE]
        xs.append((done <= end).sum() / (end - SINCE))
        stays.append(sojourns(r, SINCE).mean())
    return xs, stays


def test_callers_who_think():
    """N / X - Z agrees with T: X = 4.51283718143/s, T = 0.863603624925 s."""
    xs, stays = closed_pool(40, THINK, affine, TOKENS, 1500.0)
    (x, t), (x1, t1) = (
        (x, llm / x)
        for x, (_, llm) in (
            convolution(40, [thinking(THINK), batching(m, affine)]) for m in (TOKENS, TOKENS + 1)
        )
    )
    # whoever asked before SINCE and is served after it, and the other way round at the end
    edge = 40 / (1500.0 - SINCE)
    assert meets(xs, x1 - edge, x + edge), interval(xs)
    assert meets(stays, t, t1), interval(stays)


def mva(customers: int, g: float) -> float:
    """X(n) = n / (g (1 + Q(n-1)) + 1 - g), Q(n) = X(n) g (1 + Q(n-1)) (Reiser, Lavenberg 1980)."""
    q = x = 0.0
    for n in range(1, customers + 1):
        response = g * (1 + q)
        x = n / (response + 1 - g)
        q = x * response
    return x


@pytest.mark.parametrize(
    ("g", "values"), [(0.584, (1, 1.4914, 1.6614, 1.7033)), (0.8, (1, 1.2195, 1.2475))]
)
def test_few_customers_of_one_server(g, values):
    """n customers alternate between 1 - g on their own and g on a server they share:
    g = 0.584: 1, 1.4914, 1.6614, 1.7033."""
    m = 400
    for n, value in enumerate(values, 1):
        assert mva(n, g) == pytest.approx(value, abs=5e-5)
        xs, _ = closed_pool(n, 1 - g, lambda k: g / m * max(k, 1), m, 2000.0)
        # the work of m + 1 tokens on the server
        low = mva(n, g * (1 + 1 / m) / (1 + g / m)) / (1 + g / m)
        edge = n / (2000.0 - SINCE)
        assert meets(xs, low - edge, mva(n, g) + edge), (n, interval(xs), value)


def pools(end):
    fixed = {
        "schedule": WHOLE, "token_audio": 1e-12, "horizon": end, "end": end, "resolution": 1e3,
        "max_num_seqs": 4000, "budget": 4096, "stage": True,
    }  # fmt: skip
    llm = spec_of(step_of(affine), **fixed)
    tts = spec_of(step_of(lambda n: TTS / SPEECH * max(n, 1)), **fixed)
    return DialogueSpec(llm=(llm,), tts=(tts,), horizon=end, end=end, resolution=1e3)


def talk(seed, callers, turns, arrival, first_think):
    """Calls of ``turns`` turns; a reply is one unit; nobody takes time to speak or to listen."""
    rng = np.random.default_rng(seed)
    n = callers * turns
    text, steps = rng.geometric(1 / TOKENS, n), rng.geometric(1 / SPEECH, n)
    tape = calls([[(int(a), int(b))] for a, b in zip(text, steps, strict=True)])
    think = rng.exponential(THINK, n) if first_think else np.zeros(n)
    return replace(
        tape, arrival=arrival(rng), first=np.arange(0, n + 1, turns), speech=np.full(n, 1e-9),
        endpoint=np.zeros(n), think=think, tenant=np.zeros(callers, np.int64),
    )  # fmt: skip


def stays(run):
    """Seconds of the answers that were played: at the LLM, then at the TTS engine."""
    f = run.answer_f[run.answer_i[:, rec.A_OUTCOME] == rec.PLAYED]
    f = f[f[:, rec.A_ASKED] >= SINCE]
    llm = f[:, rec.A_FIRST_UNIT] - f[:, rec.A_ASKED]
    return llm.mean(), (f[:, rec.A_FIRST_SENT] - f[:, rec.A_FIRST_UNIT]).mean(), len(f)


def test_closed_llm_and_tts():
    """40 callers, 8 s of thought, an LLM and a TTS engine: throughput and the time at each."""
    end, found = 1000.0, []
    for seed in range(REPLICATIONS):
        tape = talk(seed, 40, 180, lambda rng: np.zeros(40), True)
        dialogue = Dialogue(pools(end), tape)
        dialogue.advance(end)
        llm, tts, n = stays(record(dialogue))
        found.append((n / (end - SINCE), llm, tts))
    (x, r1, r2), (x1, s1, s2) = (
        (x, llm / x, tts / x)
        for x, (_, llm, tts) in (
            convolution(
                40, [thinking(THINK), batching(TOKENS + d, affine), sharing(TTS * (1 + d / SPEECH))]
            )
            for d in (0, 1)
        )
    )
    xs, llms, ttss = (np.array(c) for c in zip(*found, strict=True))
    edge = 40 / (end - SINCE)
    assert meets(xs, x1 - edge, x + edge), (interval(xs), x1, x)
    assert meets(llms, r1, s1), (interval(llms), r1, s1)
    assert meets(ttss, r2, s2), (interval(ttss), r2, s2)


def test_open_tandem():
    """lambda = 2.5/s through both: 0.8108108108 s at the LLM, 0.0571428571 s at the TTS engine."""
    assert pytest.approx(0.8108108108, abs=1e-9) == TOKENS * 0.0125 / (1 - 0.075)
    assert pytest.approx(0.0571428571, abs=1e-9) == TTS / (1 - 2.5 * TTS)
    end, found = 2000.0, []
    for seed in range(REPLICATIONS):
        n = 4800
        tape = talk(seed, n, 1, lambda rng: np.cumsum(rng.exponential(1 / 2.5, 4800)), False)
        dialogue = Dialogue(pools(end), tape)
        dialogue.advance(end)
        found.append(stays(record(dialogue)))
    llms, ttss, _ = (np.array(c) for c in zip(*found, strict=True))
    high = (TOKENS + 1) * 0.0125 / (1 - 2.5 * (TOKENS + 1) * 0.0005)
    assert meets(llms, 0.8108108108, high), interval(llms)
    up = TTS * (1 + 1 / SPEECH)
    assert meets(ttss, 0.0571428571, up / (1 - 2.5 * up)), interval(ttss)
