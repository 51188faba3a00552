"""What the page is told is what ``voicesim run`` and ``simulate`` give, to the bit; the newest
question wins."""

import threading
from concurrent.futures.process import BrokenProcessPool

import pandas as pd
import pytest

from tests import small, talk
from voicesim.explore.explorer import Explorer, Wrong
from voicesim.explore.player import Player, Side
from voicesim.explore.source import Source
from voicesim.explore.worker import Superseded
from voicesim.metrics import fleet, summary
from voicesim.scenario import load
from voicesim.simulation import simulate
from voicesim.study import run_study

SETTING = {"policies.admission.streams": 9, "cluster.pools.tts.replicas": 3}
TWO_POOLS = small.SCENARIO.replace("count: 2}", "count: 4}").replace(
    "    tts:\n", "    tts: &tts\n      share: 0.5\n"
).replace("listener:", "    other: {<<: *tts, replicas: 1}\nlistener:")  # fmt: skip


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    """The small scenario, twice where it is played whole, and 20 of its 60 s for a move."""
    text = small.SCENARIO.replace("seed: 3", "seed: 3\nreplications: 2")
    return Explorer(Source(small.write(tmp_path_factory.mktemp("small"), text)), length=20.0)


@pytest.fixture(scope="module")
def player(explorer):
    with Player(explorer.warm(), workers=2) as found:
        found.ready()
        yield found


def ask(explorer, player, play="once", variant="cap", beside="admit_all", values=SETTING):
    asked = {"variant": variant, "beside": beside, "values": values, "play": play}
    return explorer.answer(asked, player)


def means(answer, side):
    return {row["metric"]: row["sides"][side]["mean"] for row in answer["rows"]}


def test_the_whole_is_what_run_gives_with_the_copied_variant(explorer, player, tmp_path):
    answer = ask(explorer, player, "whole")
    small.write(tmp_path)
    pasted = tmp_path / "pasted.yaml"
    text = explorer.source.path.read_text() + answer["yaml"].removeprefix("variants:\n")
    pasted.write_text(text)
    run = run_study(load(pasted), workers=1).summary
    for side, variant in enumerate(("cap_explored", "admit_all")):
        for metric, found in means(answer, side).items():
            if metric in ("refused", "abandoned"):
                continue  # shares here
            assert found == run[variant][metric]["mean"], metric
    low = {r["metric"]: r["sides"][0]["low"] for r in answer["rows"]}
    assert low["clean_share"] == run["cap_explored"]["clean_share"]["low"]
    assert answer["played"] == "2 replications of the whole 60 s"


def test_an_outcome_is_that_of_run_to_the_bit(explorer, player):
    source = explorer.source
    found = player.outcomes([Side(("cap",), "cap", source.variants["cap"])], 2)[0]
    for mine, theirs in zip(found, run_study(source.file, workers=1).of("cap"), strict=True):
        assert mine.metrics == theirs.metrics
        assert (mine.callers, mine.warnings) == (theirs.callers, theirs.warnings)
        pd.testing.assert_frame_equal(mine.series, theirs.series, check_exact=True)


def test_a_move_is_what_simulate_gives_for_the_short_scenario(explorer, player):
    answer = ask(explorer, player, beside=None)
    # moved and cut by --set, the way of every other command
    sets = ["horizon=20s", "warmup=5s", "cluster.pools.tts.replicas=3", "cluster.gpus.card.count=3",
            "policies.admission={kind: cap, streams: 9}"]  # fmt: skip
    scenario = load(explorer.source.path, sets).variants["admit_all"]
    part = fleet.part_of(simulate(scenario))
    metrics = summary.run_metrics(part.run, part.calls, part.streams)
    shown = means(answer, 0)
    for name in ("clean_share", "stalled_share", "ttfa_p50_s", "ttfa_p99_s", "pace_p99"):
        assert shown[name] == metrics[name]
    assert shown["refused"] == metrics["refused"] / metrics["offered"]
    assert answer["played"] == (
        "one replication of the first 20 s of 60 s, of which 5 s are warm-up"
    )


def test_pools_are_played_apart_and_put_together(tmp_path, player):
    source = Source(small.write(tmp_path, TWO_POOLS))
    side = Side(("two",), "cap", source.variants["cap"])
    (found,) = player.outcomes([side], 1)[0]
    theirs = run_study(source.file, workers=1).of("cap")[0]
    assert found.metrics == theirs.metrics
    pd.testing.assert_frame_equal(found.series, theirs.series, check_exact=True)


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Whole calls, two variants of their endpointing."""
    text = talk.SCENARIO + (
        "variants:\n  silence: {}\n"
        "  semantic: {pipeline.endpointing: {kind: semantic, max: 1.5s}}\n"
    )
    path = talk.write(tmp_path_factory.mktemp("calls"), text)
    return Explorer(Source(path), length=60.0)


def test_a_move_of_whole_calls_is_what_run_gives_with_the_copied_variant(calls, player, tmp_path):
    values = {"cluster.pools.tts.replicas": 2, "pipeline.endpointing.max": 900.0}
    answer = ask(calls, player, "both", "semantic", "silence", values)
    talk.write(tmp_path)
    pasted = tmp_path / "pasted.yaml"
    pasted.write_text(calls.source.path.read_text() + answer["yaml"].removeprefix("variants:\n"))
    run = run_study(load(pasted, ["horizon=60s", "warmup=30s"]), workers=1)
    for side, variant in enumerate(("semantic_explored", "silence")):
        (theirs,) = run.of(variant)
        shown = means(answer, side)
        for name in ("clean_share", "clean_turn_share", "ttfa_p95_s", "pace_p99"):
            assert shown[name] == theirs.metrics[name]
        part = theirs.metrics["ledger"]["endpointing_p95_s"]
        assert shown["ledger.endpointing_p95_s"] == part
        cut = theirs.metrics["talk"]["cut_offs"] / theirs.metrics["spoken_turns"]
        assert shown["talk.cut_offs"] == cut
    assert means(answer, 0)["ledger.endpointing_p95_s"] == pytest.approx(0.9)
    assert "of which 30 s are warm-up" in answer["played"]


def test_a_newer_question_ends_a_run_of_whole_calls(calls, player):
    long = calls.source.moved("silence", {"horizon": "100min", "warmup": 0})
    ended = []

    def ask_long():
        try:
            player.outcomes([Side(("long calls",), "silence", long)], 8)
        except Superseded as problem:
            ended.append(problem)

    old = threading.Thread(target=ask_long)
    before = player._newest.value
    old.start()
    while player._newest.value == before:
        old.join(0.01)
    ask(calls, player, variant="silence", beside=None, values={})
    old.join()
    assert len(ended) == 1


def test_callers_are_the_same_on_both_sides_and_nothing_else(explorer, player):
    values = {"workload.arrivals.rate": 9.0, "cluster.pools.tts.replicas": 3}
    answer = ask(explorer, player, "both", values=values)
    assert answer["names"] == ["cap, moved", "admit_all, same callers"]
    sets = ["horizon=20s", "warmup=5s", "workload.arrivals.rate=9/s"]
    beside = load(explorer.source.path, sets).variants["admit_all"]
    part = fleet.part_of(simulate(beside))
    metrics = summary.run_metrics(part.run, part.calls, part.streams)
    assert means(answer, 1)["clean_share"] == metrics["clean_share"]


def test_a_move_answers_without_the_side_beside_it_unless_that_is_known(explorer, player):
    values = {"workload.arrivals.rate": 8.0}
    assert ask(explorer, player, values=values)["names"] == ["cap, moved"]
    assert len(ask(explorer, player, "both", values=values)["names"]) == 2
    answer = ask(explorer, player, values=values | {"policies.admission.streams": 8})
    assert answer["names"] == ["cap, moved", "admit_all, same callers"]


def test_several_replications_have_intervals_and_one_has_none(explorer, player):
    one, several = ask(explorer, player, "both"), ask(explorer, player, "several")
    assert all(side["low"] is None for row in one["rows"] for side in row["sides"])
    first = next(r for r in several["rows"] if r["metric"] == "ttfa_p95_s")["sides"][0]
    assert first["low"] < first["mean"] < first["high"]
    assert "±" in first["text"] and "5 replications" in several["played"]


def test_the_newest_question_wins(explorer, player):
    source = explorer.source
    long = source.moved("cap", {"horizon": "1000min"})  # minutes of work, were it not given up
    ended = []

    def ask_long():
        try:
            player.outcomes([Side(("long",), "cap", long)], 3)
        except Superseded as problem:
            ended.append(problem)

    old = threading.Thread(target=ask_long)
    before = player._newest.value
    old.start()
    while player._newest.value == before:
        old.join(0.01)
    short = source.moved("cap", {"horizon": "10s"})
    (found,) = player.outcomes([Side(("short",), "cap", short)], 1)[0]
    old.join()
    assert len(ended) == 1
    assert found.metrics == run_study(
        load(source.path, ["horizon=10s"], replications=1), workers=1
    ).of("cap")[0].metrics  # fmt: skip


def test_a_process_that_dies_costs_one_answer(explorer, player):
    values = {"workload.arrivals.rate": 6.5}
    for process in list(player._pool._processes.values()):
        process.kill()
        process.join()
    with pytest.raises(BrokenProcessPool):
        ask(explorer, player, values=values)
    assert ask(explorer, player, values=values)["names"] == ["cap, moved"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"variant": "no"}, "variant: unknown variant; allowed: admit_all, cap"),
        ({"beside": 3}, "beside: unknown variant"),
        ({"variant": ["cap"]}, "variant: unknown variant"),
        ({"play": "twice"}, "play: allowed: once, both, several, whole"),
        ({"values": {"seed": 4}}, "'seed' is no slider of cap"),
        ({"values": {"policies.admission.streams": 13}}, "from 1 to 12; found 13"),
        ({"values": {"policies.admission.streams": "9"}}, "expected a whole number"),
        ({"values": [1]}, "values: expected a mapping"),
        ({"more": 1}, "and nothing else"),
    ],
)
def test_what_cannot_be_answered_is_one_line(explorer, player, change, says):
    asked = {"variant": "cap", "beside": None, "values": {}, "play": "once", **change}
    with pytest.raises(Wrong, match=says.replace("(", "\\(")) as found:
        explorer.answer(asked, player)
    assert "\n" not in str(found.value)


def test_a_setting_that_the_loader_refuses_says_why(tmp_path, player):
    text = small.SCENARIO.replace("count: 2}", "count: 10000}").replace(
        "replicas: 2", "replicas: 9999"
    )
    explorer = Explorer(Source(small.write(tmp_path, text)))
    with pytest.raises(Wrong, match=r"cluster\.gpus\.card\.count: .*at most 10000"):
        ask(explorer, player, values={"cluster.pools.tts.replicas": 10000})
