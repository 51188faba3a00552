import pytest

from tests.report.study import interval, metrics, quiet, unmeasured
from voicesim.report import words


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (words.count, 178604.0, "178,604"),
        (words.count, 3.5, "3.5"),
        (words.count, 0.0, "0"),
        (words.percent, 0.719, "71.9%"),
        (words.percent, 0.0, "0%"),
        (words.percent, 0.000289, "0.03%"),
        (words.percent, 0.0000001, "<0.01%"),
        (words.percent, 0.99971, "99.97%"),
        (words.percent, 0.999999, ">99.99%"),
        (words.percent, 1.0, "100%"),
        (words.milliseconds, 1.9354, "1,935"),
        (words.times, 1.3216, "1.32x"),
        (words.amount, 1257.03, "1,257"),
        (words.amount, 5.0018, "5.0"),
        (words.amount, 0.11011, "0.11"),
        (words.amount, 0.0001, "<0.01"),
        (words.duration, 0.1, "100 ms"),
        (words.duration, 1.0, "1 s"),
        (words.duration, 74.2, "74 s"),
        (words.duration, 2400.0, "40 min"),
    ],
)
def test_numbers(show, value, text):
    assert show(value) == text


def test_intervals_share_the_decimals_of_their_mean():
    assert words.with_interval(interval(0.93, 0.01), words.percent) == "93.0% ±1.0"
    assert words.with_interval(interval(0.9997, 0.0002), words.percent) == "99.97% ±0.02"
    assert words.with_interval(interval(0.5, 0.0), words.percent) == "50.0% ±0"
    assert words.with_interval(interval(1.32, 0.012), words.times) == "1.32x ±0.01"
    assert words.with_interval(interval(178604.0, 1201.3), words.count) == "178,604 ±1,201"
    assert words.with_interval(interval(0.93, None), words.percent) == "93.0%"


@pytest.mark.parametrize("value", [None, float("nan")])
def test_what_was_not_measured_is_never_zero(value):
    found = words.metric({"clean_share": interval(value, None)}, "clean_share")
    assert words.with_interval(found, words.percent) == "n/a"


def test_a_metric_that_is_not_there_is_not_measured():
    assert words.mean({}, "busy_share", "codec") is None
    assert words.mean({"busy_share": {}}, "busy_share", "codec") is None


def test_signals():
    gauge = "first audible stall while the engine's waiting gauge read 0"
    assert words.signals(metrics()) == [
        gauge,
        "the p99 chunk gap had crossed its alarm 74 s before",
    ]
    assert words.signals(metrics(first_stall_s=987.9))[0].startswith(
        "first audible stall at 16.5 m"
    )
    silent = "the p99 chunk-gap alarm did not fire before the first stall"
    none = words.signals({**metrics(), "alarm_fired_s": {}})[1]
    assert none == "alarm on the p99 chunk gap n/a: the scenario has none"
    rules = {
        "chunk_gap_p99_over_10s_above_1": {"mean": 900.0},
        "waiting_over_10s_above_5": {"mean": 1200.0},
    }
    both = words.signals({**metrics(), "alarm_fired_s": rules})
    assert both[2] == "the alarm on waiting callers went off at 20.0 min"
    rules = {"kv_cache_above_0.9": {"mean": None}, "running: Many": {"mean": 90.0}}
    others = words.signals({**metrics(), "alarm_fired_s": rules})[2:]
    assert others == [
        "the alarm kv_cache_above_0.9 never went off",
        "the alarm running: Many went off at 1.5 min",
    ]
    assert words.signals(metrics(alarm_lead_s=None)) == [gauge, silent]
    late = words.signals(metrics(alarm_lead_s=-12.0))[1]
    assert late == "the p99 chunk-gap alarm fired too late, 12 s after the first stall"
    assert words.signals(quiet()) == ["no audible stall"]
    assert words.signals(unmeasured()) == ["audible stalls n/a: no stream could be measured"]
    unknown = words.signals(metrics(waiting_at_first_stall=None))
    assert unknown[0] == "first audible stall while the engine's waiting gauge read n/a"


def test_verdict_compares_the_best_with_the_first():
    summary = {"admit_all": metrics(), "cap": quiet(clean_share=0.6), "slack": quiet()}
    assert words.best_variant(summary) == "slack"
    assert words.verdict(summary) == (
        "slack keeps 71.9% of all offered calls CLEAN, admit_all (baseline) 46.4%: +25.5 points"
    )
    assert "no variant does better" in words.verdict({"slack": quiet(), "admit_all": metrics()})
    assert words.verdict({"slack": quiet()}) == "slack keeps 71.9% of all offered calls CLEAN"
    assert words.verdict({"a": unmeasured()}) == "CLEAN share not measured"
    assert words.verdict({"a": unmeasured(), "b": quiet()}).endswith("was not measured")
    assert words.best_variant({}) is None


def test_verdict_says_when_intervals_overlap():
    near = {"a": metrics(0.05), "b": metrics(0.05, clean_share=0.47)}
    far = {"a": metrics(0.05), "b": metrics(0.05, clean_share=0.9)}
    assert words.verdict(near).endswith("their 95 % intervals overlap")
    assert "overlap" not in words.verdict(far)


def test_lines_of_the_same_text_are_joined():
    lines = ["cap: beyond", "slack: beyond", "cap: cut", "note: as it is"]
    assert words.groups(lines, ["cap", "slack"]) == [
        "cap, slack: beyond", "cap: cut", "note: as it is",
    ]  # fmt: skip
