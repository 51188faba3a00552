"""The gate's statistics: hand-worked verdicts, and how often it errs over many synthetic gates."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from voicesim.experiment import method
from voicesim.experiment.decide import SAME, UNKNOWN, UNMEASURED
from voicesim.experiment.gate import DEFAULT
from voicesim.experiment.judge import BETTER, LOST, PAIRED, WITHIN, WORSE, Asked, asked_of, judge
from voicesim.experiment.metrics import METRICS, ExperimentError


def table(**columns):
    n = len(next(iter(columns.values())))
    return pd.DataFrame({"replication": range(n), **columns})


def one(a, b, metric="ttfa_p99_s", paired=True, margin=0.0):
    asked = asked_of(metric, METRICS[metric].better, table(**{metric: a}), table(**{metric: b}),
                     paired)  # fmt: skip
    (found,) = judge([asked], {metric: margin})
    return found


def test_paired_and_welch_are_the_textbook_tests():
    rng = np.random.default_rng(1)
    a, b = rng.normal(1, 0.1, 12), rng.normal(1.05, 0.3, 12)
    found = one(a, b)
    expected = stats.ttest_rel(b, a)
    assert found.p == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high))
    found = one(a, b, paired=False)
    expected = stats.ttest_ind(b, a, equal_var=False)
    assert found.p == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval()
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high))


def test_which_way_is_worse_depends_on_the_metric():
    low, high = [1.0, 1.1, 0.9, 1.0, 1.05], [2.0, 2.1, 1.9, 2.1, 2.0]
    assert one(low, high).verdict == WORSE
    assert one(high, low).verdict == BETTER
    assert one(low, high, "pace_p99").verdict == BETTER
    assert one(high, low, "pace_p99").verdict == WORSE


def test_a_margin_allows_what_it_says():
    """+10 ms with an interval of +-1.24 ms: worse than 0 and 8 ms, not than 9; within 12."""
    a = [0.100, 0.200, 0.150, 0.120, 0.180]
    b = [x + 0.010 + e for x, e in zip(a, (-0.001, 0, 0, 0, 0.001), strict=True)]
    half = stats.t.ppf(0.975, 4) * math.sqrt(2e-6 / 4 / 5)
    assert one(a, b).difference.half == pytest.approx(half)
    verdicts = [one(a, b, margin=m).verdict for m in (0.0, 0.008, 0.0095, 0.010 + half + 1e-6)]
    assert verdicts == [WORSE, WORSE, UNKNOWN, WITHIN]


def test_equal_replications_are_the_same_and_a_certain_rise_is_worse():
    assert one([3.0] * 5, [3.0] * 5, "gpu_cost").verdict == SAME
    found = one([3.0] * 5, [3.5] * 5, "gpu_cost")
    assert (found.verdict, found.p) == (WORSE, 0.0)
    assert one([3.0] * 5, [3.5] * 5, "gpu_cost", margin=0.5).verdict != WORSE


def test_holm_is_over_the_metrics_judged():
    """p of .02 and .04 alone: Holm makes .04 of both with two metrics, and neither fails at 3."""
    rng = np.random.default_rng(3)
    names = ("ttfa_p99_s", "ttfa_p95_s", "gpu_cost")
    a = {name: rng.normal(1, 0.1, 8) for name in names}
    b = {name: rng.normal(1, 0.1, 8) for name in names}
    sides = table(**a), table(**b)
    asked = [asked_of(m, -1, *sides, True) for m in names]
    found = judge(asked, {})
    assert [j.p_holm for j in found] == method.holm([j.p for j in found])
    unmeasured = asked_of("cost_per_1000_clean_calls", -1, *sides, True)
    again = judge([*asked, unmeasured], {})
    assert again[3].verdict == UNMEASURED
    assert [j.p_holm for j in again[:3]] == [j.p_holm for j in found]


def test_what_is_no_longer_measured_fails():
    a, nothing = [1.0, 1.1, 0.9, 1.0, 1.05], [np.nan] * 5
    found = one(a, nothing)
    assert found.verdict == LOST and found.failed  # 1 of C(10, 5) ways
    assert found.baseline == pytest.approx(1.01) and math.isnan(found.candidate)
    assert one(nothing, a).verdict == UNMEASURED
    now_and_then = [*a, *nothing]  # C(10, 5) / C(20, 5) = 1.6 %: may be an accident
    with pytest.raises(ExperimentError, match=r"in 5 of 10 .* none of the candidate's"):
        one(now_and_then, [np.nan] * 10)
    with pytest.raises(ExperimentError, match="measured in 4 replications"):
        one(a, [1.0, 1.0, np.nan, 1.0, 1.0])


def test_pairs_are_matched_by_replication():
    a, b = table(x=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), table(x=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    shuffled = b.sample(frac=1, random_state=1)
    assert judge([asked_of("x", -1, a, shuffled, True)], {})[0].verdict == SAME


# --- how often it errs ------------------------------------------------------------------------


def synthetic(rng, n, shared, worse=0.0):
    """Replications as runs leave them: correlated through a common load, p99s skewed, stalls
    mostly 0, the cost certain.  worse: shift of TTFA p99, in its own standard deviations."""
    load = shared + 0.5 * rng.normal(size=n)
    ttfa = np.exp(0.3 * load)
    return table(
        ttfa_p99_s=ttfa + worse * 0.33,
        pace_p99=1.5 - 0.1 * load + 0.05 * rng.normal(size=n),
        clean_share=1 / (1 + np.exp(load - 2)),
        stalled_share=np.maximum(0.0, 0.1 * (load - 1)),
        stall_seconds_per_1000_audio_minutes=np.maximum(0.0, 500 * (load - 1)) ** 1.5,
        gpu_cost=np.full(n, 4.0),
    )


def gates(count, n, paired, worse=0.0):
    """The verdicts of so many gates, of which nothing or only TTFA p99 got worse."""
    rng = np.random.default_rng(20261129)
    for _ in range(count):
        common = rng.normal(size=n)
        a = synthetic(rng, n, common)
        b = synthetic(rng, n, common if paired else rng.normal(size=n), worse)
        asked = [asked_of(m, METRICS[m].better, a, b, paired) for m in DEFAULT]
        yield {j.metric: j for j in judge(asked, {})}


@pytest.mark.parametrize(("n", "paired"), [(5, True), (10, True), (5, False), (10, False)])
def test_false_alarms_are_below_five_per_cent(n, paired):
    count = 300
    alarms = sum(any(j.failed for j in found.values()) for found in gates(count, n, paired))
    assert alarms <= 0.05 * count


@pytest.mark.parametrize(("n", "paired", "least"), [(10, True, 0.95), (20, False, 0.5)])
def test_a_real_worsening_is_found(n, paired, least):
    """TTFA p99 up by 1.3 of its standard deviations; the others are unchanged, so the chance
    that any of them is called worse stays below 5 %."""
    found = list(gates(100, n, paired, worse=1.3))
    power = np.mean([f["ttfa_p99_s"].failed for f in found])
    assert power >= least
    others = np.mean([any(j.failed for m, j in f.items() if m != "ttfa_p99_s") for f in found])
    assert others <= 0.08


def test_sees_is_the_worsening_found_in_eight_of_ten():
    """Normal pairs that worsened by exactly what the gate says it sees: power near 80 %."""
    n = 12
    known = method.Estimate(0.0, 1 / math.sqrt(n), n - 1, n)
    (gate,) = judge([Asked("ttfa_p99_s", -1, PAIRED, (n, n), 0.0, 0.0, known)], {})
    rng = np.random.default_rng(7)
    pairs = rng.normal(size=(2, 400, n))
    found = [one(a, a + noise + gate.sees).failed for a, noise in zip(*pairs, strict=True)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.06)
