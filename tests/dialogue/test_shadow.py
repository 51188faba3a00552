"""Another endpointing beside the one in charge: the same turns, and nothing changes."""

import numpy as np
import pytest

from tests import talk
from voicesim.scenario import ScenarioErrors, load
from voicesim.session.build import dialogue_tape
from voicesim.study import run_study

PAUSES = talk.SCENARIO.replace("horizon: 5min", "horizon: 2min") + (
    "policies: {shadow: {same: {endpointing: {kind: fixed, silence: 500ms}},"
    " long: {endpointing: {kind: fixed, silence: 1500ms}},"
    " short: {endpointing: {kind: fixed, silence: 200ms}}}}\n"
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    file = load(talk.write(tmp_path_factory.mktemp("shadow"), PAUSES))
    alone = load(talk.write(tmp_path_factory.mktemp("alone"), PAUSES.split("policies:")[0]))
    return file, run_study(file, workers=1), run_study(alone, workers=1)


def test_nothing_changes(study):
    _, watched, alone = study
    mine = {k: v for k, v in watched.summary["base"].items() if k != "shadow"}
    assert mine == alone.summary["base"]


def test_the_same_setting_says_what_happened(study):
    _, watched, _ = study
    summary = watched.summary["base"]
    same = {k: v["mean"] for k, v in summary["shadow"]["same"].items()}
    assert same["only_shadow"] == same["only_now"] == 0
    assert same["false_ends"] == same["false_ends_now"] > 0
    assert same["delay_mean_s"] == same["delay_mean_now_s"] == 0.5
    assert same["turns"] == pytest.approx(summary["spoken_turns"]["mean"])


def test_a_longer_silence_is_wrong_less_often_and_later(study):
    file, watched, _ = study
    found = {
        name: {k: v["mean"] for k, v in m.items()}
        for name, m in watched.summary["base"]["shadow"].items()
    }
    assert found["long"]["false_ends"] < found["same"]["false_ends"] < found["short"]["false_ends"]
    assert found["long"]["only_shadow"] == found["short"]["only_now"] == 0
    assert (found["long"]["delay_p95_s"], found["short"]["delay_p95_s"]) == (1.5, 0.2)
    tape = dialogue_tape(file.variants["base"], 0)
    whole = np.isfinite(tape.cut_at).mean()
    assert found["same"]["false_ends"] / found["same"]["turns"] == pytest.approx(whole, rel=0.3)


def test_of_a_dialogue_only_endpointing(tmp_path):
    text = PAUSES.replace("same: {endpointing: {kind: fixed, silence: 500ms}}",
                          "same: {admission: {kind: cap, streams: 3}}")  # fmt: skip
    with pytest.raises(ScenarioErrors) as errors:
        load(talk.write(tmp_path, text))
    assert "of a dialogue only endpointing has a shadow" in str(errors.value)
