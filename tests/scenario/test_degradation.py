"""A ladder that is wrong is refused in one line; one that is right becomes the engine's rungs."""

import pytest

from tests import small
from voicesim.cluster.degradation import rungs
from voicesim.engine.spec import Rung
from voicesim.policy.degradation import STAND_IN
from voicesim.scenario import ScenarioErrors, load

LADDER = """\
  ladder:
    policies.degradation:
      ladder:
        - {name: bigger, when: {streams: {above: 8, below: 6}}, chunk: {first: 8}}
        - {name: short, when: {lag: {above: 2, below: 1}}, speech: 0.5, codec_work: 0.75}
        - {name: filler, when: {streams: {above: 20, below: 12}}, then: filler, filler: 2s}
"""
TEXT = small.SCENARIO.rstrip() + "\n" + LADDER


def test_each_rung_keeps_what_those_below_it_changed(tmp_path):
    scenario = load(small.write(tmp_path, TEXT)).variants["ladder"]
    pool = scenario.cluster.pool
    found = rungs(scenario.policies.degradation, pool.chunks, ["tts"], "tts")
    chunks = (8, 8, 25)
    assert found == (
        Rung(schedule=chunks),
        Rung(schedule=chunks, speech=0.5, codec=0.75),
        Rung(schedule=chunks, speech=0.5, codec=0.75, then=STAND_IN, filler=2.0),
    )


def test_it_reads_back_from_what_is_written(tmp_path):
    file = load(small.write(tmp_path, TEXT))
    assert "degradation" not in file.resolved()["cap"]["policies"]
    assert len(file.resolved()["ladder"]["policies"]["degradation"]["ladder"]) == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("below: 6", "below: 8", "when.streams.below: must be less than above (8); found 8"),
        ("chunk: {first: 8}", "", "changes nothing; give one of chunk, codec_work"),
        ("{streams: {above: 8, below: 6}}", "{}", "when: needs at least one of streams, waiting"),
        ("then: filler, filler: 2s", "then: filler", "filler: needs its length: then is filler"),
        ("speech: 0.5", "speech: 0.5, filler: 2s", "filler: never used: then is not filler"),
        ("then: filler", "then: filler, speech: 0.2", "speech: never used: then is filler"),
        ("name: short", "name: bigger", "'bigger' is the name of a rung below it"),
        ("name: short", "name: a.b", "expected letters, digits, spaces"),
        ("speech: 0.5", "pool: tss", "unknown pool 'tss'; did you mean 'tts'?"),
        ("speech: 0.5", "pool: tts", "pool: never used: pools that serve the same callers"),
        ("chunk: {first: 8}", "then: text", "never used: 'bigger' below it serves nobody"),
        ("      ladder:", "      window: 5s\n      ladder:", "no rung looks at chunk_gap_p99"),
        ("speech: 0.5", "speeech: 0.5", "did you mean 'speech'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, old, new, said):
    assert old in TEXT
    with pytest.raises(ScenarioErrors) as errors:
        load(small.write(tmp_path, TEXT.replace(old, new)))
    assert said in str(errors.value)


def test_an_empty_ladder_and_knobs_of_none(tmp_path):
    text = small.SCENARIO.rstrip() + "\n  none: {policies.degradation: {every: 2s}}\n"
    with pytest.raises(ScenarioErrors) as errors:
        load(small.write(tmp_path, text))
    assert "needs a ladder, first_audio, or both" in str(errors.value)
    assert "every: never used: there is no ladder" in str(errors.value)
