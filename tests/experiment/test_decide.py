"""Looks, settling and verdicts on numbers written by hand."""

from pathlib import Path

import numpy as np
import pytest

from voicesim.experiment.decide import Precision, differences, enough
from voicesim.experiment.looks import Looks, schedule
from voicesim.experiment.metrics import DIALOGUES, METRICS

ONE = Looks((8,))
RNG = np.random.default_rng(1)
NOISE = RNG.normal(0, 0.1, 8)


def judge(values, metrics=("clean_share",), looks=ONE, precision=None, final=True):
    found = differences(values, "base", metrics, looks, precision or Precision(), final)
    return {(d.variant, d.metric): d for d in found}


def shares(shift=0.0, noise=0.0):
    own = np.random.default_rng(2).normal(0, 1, 8)
    return {"clean_share": [float(x) for x in 0.5 + NOISE + shift + noise * own]}


@pytest.mark.parametrize(
    ("most", "first", "sizes"),
    [
        (40, 8, (8, 12, 18, 27, 40)),
        (8, 8, (8,)),
        (5, 8, (5,)),
        (28, 8, (8, 12, 18, 28)),  # a last step of one run would buy nothing
        (100, 20, (20, 30, 45, 68, 100)),
    ],
)
def test_looks_are_geometric_and_planned(most, first, sizes):
    looks = schedule(most, first)
    assert looks.sizes == sizes
    assert len(sizes) * (1 - looks.level) == pytest.approx(0.05)


def test_common_noise_cancels():
    found = judge({"base": shares(), "up": shares(0.05, 0.001), "down": shares(-0.05, 0.001)})
    up, down = found["up", "clean_share"], found["down", "clean_share"]
    assert (up.verdict, down.verdict) == ("better", "worse")
    assert up.difference.covers(0.05) and up.difference.half < 0.005
    assert up.correlation > 0.99 and up.runs_saved > 100
    assert up.settled


def test_noise_that_does_not_cancel_cannot_tell():
    found = judge({"base": shares(), "other": shares(0.02, 0.3)})["other", "clean_share"]
    assert found.verdict == "cannot tell"
    assert not found.settled


def test_less_is_better_of_what_hurts():
    values = {
        "base": {"refused": [9.0, 10, 11, 12], "offered": [10.0, 11, 12, 13]},
        "more": {"refused": [19.0, 20, 21, 23], "offered": [19.0, 20, 21, 23]},
    }
    found = judge(values, ("refused", "offered"))
    assert found["more", "refused"].verdict == "worse"
    assert found["more", "offered"].verdict == "higher"


def test_a_tight_interval_settles_without_a_sign():
    found = judge({"base": shares(), "twin": shares(0.0, 0.001)})["twin", "clean_share"]
    assert found.verdict == "cannot tell" and found.settled


def test_the_same_to_the_bit():
    found = judge({"base": shares(), "twin": shares()})["twin", "clean_share"]
    assert found.verdict == "the same" and found.settled and found.difference.half == 0


def test_precision_is_relative_or_a_width_in_the_metrics_unit():
    assert Precision(0.1).allows(0.05, -0.5, "clean_share")
    assert not Precision(0.1).allows(0.06, 0.5, "clean_share")
    assert Precision(0.1).allows(0.005, 0.0, "clean_share")  # the grain of a share
    assert not Precision(0.1, width=0.001).allows(0.005, 0.0, "clean_share")


def test_unmeasured_is_never_a_number():
    values = {
        "base": {"ttfa_p95_s": [1.0, 1.1, None, 1.2]},
        "refuses_all": {"ttfa_p95_s": [None, None, None, None]},
        "some": {"ttfa_p95_s": [1.0, None, 1.0, 1.3]},
    }
    found = judge(values, ("ttfa_p95_s",))
    nothing, some = found["refuses_all", "ttfa_p95_s"], found["some", "ttfa_p95_s"]
    assert nothing.verdict == "not measured" and nothing.measured == 0 and nothing.settled
    assert some.measured == 2 and some.replications == 4
    assert some.baseline == pytest.approx(1.1)  # of the pairs that count


def test_holm_counts_the_variants_and_the_looks_count_too():
    base = {"base": shares(), "odd": shares(0.05, 0.03)}
    alone = judge(base)["odd", "clean_share"]
    crowd = judge(base | {f"twin{i}": shares(0, 0.3) for i in range(20)})["odd", "clean_share"]
    looked = judge(base, looks=schedule(40))["odd", "clean_share"]
    assert alone.p == alone.p_holm == crowd.p
    assert crowd.p_holm == pytest.approx(21 * alone.p)
    assert looked.p == pytest.approx(5 * alone.p)
    assert looked.difference.half > alone.difference.half


def test_between_looks_nothing_is_decided():
    found = judge({"base": shares(), "up": shares(0.05, 0.001)}, final=False)["up", "clean_share"]
    assert found.verdict == "cannot tell" and not found.settled


def test_only_what_was_asked_for_must_settle():
    values = {
        "base": shares() | {"refused": [0.0] * 7 + [90.0]},
        "up": shares(0.05, 0.001) | {"refused": [90.0] + [0.0] * 7},
    }
    found = list(judge(values, ("clean_share", "refused")).values())
    assert enough(found, ["clean_share"]) and not enough(found, ["clean_share", "refused"])


def test_every_metric_of_a_run_that_is_listed_exists():
    from voicesim.metrics import summary

    text = Path(summary.__file__).read_text(encoding="utf-8")
    plain = METRICS.keys() - DIALOGUES.keys()  # those: tests/dialogue/test_glossary.py
    names = {n.partition(".")[0] for n in plain} - {"ttfa_p50_s", "ttfa_p95_s", "ttfa_p99_s"}
    assert [n for n in names if f'"{n}"' not in text] == []
