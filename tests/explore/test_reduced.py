"""How a scenario is shortened: figures worked out by hand."""

from pathlib import Path

import pytest

from tests import small, talk
from voicesim.explore.effort import AUDIO, TURNS, call, effort, speech
from voicesim.explore.reduced import share_of, short
from voicesim.explore.source import Source
from voicesim.scenario import load, loads

SCENARIOS = Path(__file__).parents[2] / "scenarios"
AT = "workload.arrivals."


@pytest.fixture
def changed(tmp_path):
    """The small scenario under other arrivals, horizon and warm-up."""

    def make(arrivals, horizon="60min", warmup="60s"):
        (tmp_path / "t.csv").write_text("t_s\n" + "".join(f"{t}\n" for t in TRACE))
        text = small.SCENARIO
        if "closed" in arrivals:
            text = text.replace("  utterances_per_session: {geometric: {mean: 2}}\n", "")
        path = small.write(tmp_path, text)
        sets = [f"workload.arrivals={arrivals}", f"horizon={horizon}", f"warmup={warmup}"]
        return loads(path.read_text(), path, sets).variants["cap"]

    return make


TRACE = [*range(0, 600, 20), *range(600, 720), *range(720, 1200, 20)]
"""Starts of sessions (s): one in 20 s, and from 600 to 720 one a second."""


def test_speech_of_a_run():
    """45/s for 20 of 40 min and 130/s for 10, half-way for 10 (the ramps): calls of three times
    4.3 s."""
    calls = 60 * (20 * 45 + 10 * 130 + 10 * (45 + 130) / 2)
    scenario = load(SCENARIOS / "holiday_peak.yaml").variants["cap"]
    assert speech(scenario) == pytest.approx(calls * 3 * 4.3)


def test_the_holiday_peak_is_squeezed():
    file = load(SCENARIOS / "holiday_peak.yaml")
    share = share_of(file.variants.values())
    assert 2400 * share == 660.0  # AUDIO / speech = 0.273 of 40 min, in whole minutes
    assert 660 <= 2400 * AUDIO / speech(file.variants["cap"]) < 720
    found = short(file.variants["cap"], share)
    assert found.overrides == {
        "horizon": 660.0, "warmup": 33.0, AT + "at": 198.0, AT + "rise": 82.5,
        AT + "hold": 165.0, AT + "fall": 82.5,
    }  # fmt: skip
    assert found.says.startswith("11 min of 40 min")


def test_a_surge_that_would_rise_within_two_calls_is_played_at_its_height():
    """Two calls are 2 x 3 x (4.3 + 4) s = 49.8 s; 20 % of a rise of 5 min are 60 s, 15 % 45 s."""
    scenario = load(SCENARIOS / "holiday_peak.yaml").variants["cap"]
    assert short(scenario, 0.2).overrides[AT + "rise"] == 60.0
    found = short(scenario, 0.15).overrides
    # as many calls as 360 s have on average: 360 x 74.4 / 130 = 206, in tens 210
    assert found == {
        "horizon": 210.0, "warmup": 52.5, AT + "at": 0.0, AT + "rise": 52.5, AT + "hold": 157.5,
        AT + "fall": 0.0,
    }  # fmt: skip


def test_steady_arrivals_play_fewer_minutes(changed):
    found = short(changed("{kind: poisson, rate: 6/s}"), 0.1)
    assert found.overrides == {"horizon": 360.0, "warmup": 60.0}
    found = short(changed("{kind: poisson, rate: 6/s}", warmup="10min"), 0.1)
    assert found.overrides == {"horizon": 360.0, "warmup": 90.0}
    assert "6 min of 60 min, of which 90 s are warm-up" in found.says


def test_a_closed_loop_lets_its_callers_in(changed):
    found = short(changed("{kind: closed, callers: 40, stagger: 5min}"), 0.1)
    assert found.overrides["horizon"] == 900.0


def test_a_day_plays_its_busiest_stretch(changed):
    hours = [1] * 24
    hours[2] = 5
    found = short(changed(f"{{kind: diurnal, rate: 1/s, profile: {hours}}}", "4h", "0s"), 0.25)
    assert found.overrides == {
        "horizon": 3600.0, "warmup": 30.0, AT + "start_hour": 2.0,
    }  # fmt: skip


def test_a_surge_on_a_day_is_not_begun_in_its_middle(changed):
    surge = "{times: 3, at: 30min, rise: 5min, hold: 60min, fall: 5min}"
    day = f"{{kind: diurnal, rate: 1/s, profile: {[1] * 24}, surge: {surge}}}"
    found = short(changed(day, "4h", "0s"), 0.125)
    assert found.overrides[AT + "start_hour"] == 0.5
    assert found.overrides[AT + "surge.at"] == 0.0


def test_a_trace_plays_its_busiest_stretch(changed):
    found = short(changed("{kind: trace, file: t.csv}", "20min"), 0.1)
    assert found.overrides == {"horizon": 120.0, "warmup": 30.0, AT + "after": 600.0}
    twice = short(changed("{kind: trace, file: t.csv, speed: 2}", "10min"), 0.1)
    assert twice.overrides == {"horizon": 60.0, "warmup": 15.0, AT + "after": 600.0}


def test_bursts_and_short_scenarios_are_played_whole(changed):
    assert short(changed("{kind: burst, size: 30}"), 0.1).overrides == {}
    found = short(changed("{kind: poisson, rate: 6/s}"), 1.0)
    assert found.overrides == {}
    assert found.says == "the whole scenario, 60 min"


def test_the_share_is_one_for_all_variants_or_what_was_asked(changed):
    light, heavy = changed("{kind: poisson, rate: 6/s}"), changed("{kind: poisson, rate: 600/s}")
    assert share_of([light]) == 1.0
    # 600/s x 2 x 3 s = 3,600 s of speech a second: 194 s, in tens
    assert share_of([light, heavy]) * 3600 == pytest.approx(190.0)
    assert share_of([light], 90.0) == 90 / 3600
    assert share_of([light], 1e9) == 1.0


def test_whole_calls_play_fewer_minutes_with_half_of_them_as_warm_up(tmp_path):
    """20 calls/s of 8 turns for 5 min are 48,000 turns: of 300 s 15,000 / 48,000, in tens."""
    sets = ["workload.arrivals.rate=20/s", "workload.turns=8", "warmup=2min"]
    (scenario,) = load(talk.write(tmp_path), sets).variants.values()
    assert effort(scenario) == pytest.approx(48_000 / TURNS)
    share = share_of([scenario])
    assert 300 * share == pytest.approx(90.0)
    found = short(scenario, share)
    assert found.overrides == {"horizon": 90.0, "warmup": 45.0}
    assert "the first 90 s of 5 min, of which 45 s are warm-up" in found.says


def test_how_long_a_call_is(tmp_path):
    """4 turns: speech of 2 s, a thought of 1 s, two sentences of 3 s; of a fifth of the callers,
    who say less, 2 turns."""
    said = [
        "workload.turns=4", "workload.speech=2s", "workload.think=1s",
        "workload.reply={sentences: 2, sentence: 3s}",
    ]  # fmt: skip
    path = talk.write(tmp_path)
    (scenario,) = load(path, said).variants.values()
    assert call(scenario) == pytest.approx(4 * (2 + 1 + 6))
    tenants = "workload.tenants=[{name: a, share: 0.8}, {name: b, share: 0.2, turns: 2}]"
    (scenario,) = load(path, [*said, tenants]).variants.values()
    assert call(scenario) == pytest.approx(0.8 * 36 + 0.2 * 18)
    assert effort(scenario) == pytest.approx(300 * (0.8 * 4 + 0.2 * 2) / TURNS)
    tokens = "workload.reply={sentences: 2, sentence_tokens: 10, tokens_per_second: 5}"
    (scenario,) = load(path, [*said[:3], tokens]).variants.values()
    assert call(scenario) == pytest.approx(4 * (2 + 1 + 4))


def test_the_loader_takes_every_short_form():
    for name in ("holiday_peak.yaml", "regions.yaml"):
        source = Source(SCENARIOS / name)
        share = share_of(source.variants.values())
        for variant, scenario in source.variants.items():
            cut = source.moved(variant, short(scenario, share).overrides)
            assert cut.cluster == scenario.cluster and cut.policies == scenario.policies
            assert cut.tts.arrivals.peak == scenario.tts.arrivals.peak


@pytest.mark.parametrize("name", ["support_line.yaml", "companion.yaml"])
def test_the_loader_takes_the_short_form_of_whole_calls(name):
    source = Source(SCENARIOS / name)
    share = share_of(source.variants.values())
    assert share < 1
    for variant, scenario in source.variants.items():
        cut = source.moved(variant, short(scenario, share).overrides)
        assert cut.horizon < scenario.horizon
        assert cut.cluster == scenario.cluster and cut.pipeline == scenario.pipeline
        assert cut.workload == scenario.workload
