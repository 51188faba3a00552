"""Which numbers a variant lets one move, and how far; every end of a range is a scenario."""

from pathlib import Path

import pytest

from tests import small, talk
from voicesim.explore.sliders import overrides, sliders_of
from voicesim.explore.source import Source

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FILES = [
    "holiday_peak.yaml", "regions.yaml", "vllm_cpu_replay.yaml", "studies/ceiling.yaml",
    "studies/half_used_gpu.yaml", "support_line.yaml", "companion.yaml", "llm_speed.yaml",
    "asr_right_context.yaml",
]  # fmt: skip


def ranges(path, variant):
    sliders = sliders_of(Source(path).variants[variant])
    return {
        s.key.rpartition(".")[2]: (s.low, s.value, s.high, s.step, s.unit) for s in sliders.values()
    }


def test_the_holiday_peak_by_hand():
    """Surge: from its base to twice its peak, by 5 calls/s (215 calls/s in about 100 positions);
    cap: from a quarter to twice, the engine's max_num_seqs at most."""
    path = SCENARIOS / "holiday_peak.yaml"
    shared = {
        "peak": (45, 130, 260, 5, "/s"),
        "replicas": (4, 8, 16, 1, ""),
        "first": (1, 4, 25, 1, ""),
        "prebuffer": (0, 0, 1000, 10, "ms"),
    }
    assert ranges(path, "admit_all") == shared
    assert ranges(path, "cap") == shared | {"streams": (16, 64, 128, 2, "")}
    queue = {"streams": (16, 64, 128, 2, ""), "deadline": (160, 600, 1200, 20, "ms")}
    assert ranges(path, "cap_queue") == shared | queue
    assert ranges(path, "slack") == shared | {"lead": (0, 50, 250, 5, "ms")}


def test_the_support_line_by_hand():
    """The replicas of each stage, the first chunk of the voice alone; a fixed silence, of the
    other variant its two bounds, neither of which passes the other."""
    path = SCENARIOS / "support_line.yaml"

    def found(variant):
        sliders = sliders_of(Source(path).variants[variant]).values()
        return {s.key: (s.low, s.value, s.high, s.unit) for s in sliders}

    pools = "cluster.pools."
    shared = {
        "workload.arrivals.rate": (1.2, 2.4, 4.8, "/s"),
        pools + "asr.replicas": (1, 1, 4, ""),
        pools + "llm.replicas": (1, 1, 4, ""),
        pools + "tts.replicas": (1, 2, 4, ""),
        pools + "tts.codec.chunk.first": (1, 4, 25, ""),
        "listener.player.prebuffer": (0, 0, 1000, "ms"),
    }
    silence = {"pipeline.endpointing.silence": (130, 500, 1000, "ms")}
    assert found("silence") == shared | silence
    low, high = "pipeline.endpointing.min", "pipeline.endpointing.max"
    bounds = {low: (80, 300, 600, "ms"), high: (400, 1500, 3000, "ms")}
    assert found("semantic") == shared | bounds


def test_the_cap_of_whole_calls_bounds_the_cluster_and_slots_the_recogniser(tmp_path):
    slots = "{kind: slots, slots: 24, step: 60ms}"
    text = (
        talk.SCENARIO.replace("{kind: streaming, cost: {floor: 10ms, per_row: 1ms}}", slots)
        + "policies: {admission: {kind: cap, streams: 200}}\n"
    )
    (scenario,) = Source(talk.write(tmp_path, text)).variants.values()
    found = {s.key: (s.low, s.value, s.high) for s in sliders_of(scenario).values()}
    assert found["policies.admission.streams"] == (50, 200, 400)
    assert found["cluster.pools.asr.asr.slots"] == (6, 24, 48)


def test_the_cards_of_two_stages_on_one_kind_add_up(tmp_path):
    source = Source(talk.write(tmp_path))
    (variant,) = source.variants
    scenario = source.variants[variant]
    values = {f"cluster.pools.{name}.replicas": 3 for name in ("llm", "tts")}
    moves = overrides(scenario, sliders_of(scenario), values)
    assert moves["cluster.gpus.card.count"] == 8 + 2 + 2
    source.moved(variant, moves)


@pytest.mark.parametrize("name", FILES)
def test_every_end_of_every_range_is_a_scenario(name):
    source = Source(SCENARIOS / name)
    for variant, scenario in list(source.variants.items())[:2]:
        sliders = sliders_of(scenario)
        assert sliders
        for key, slider in sliders.items():
            assert slider.low <= slider.value <= slider.high
            assert (slider.value - slider.low) / slider.step == pytest.approx(
                round((slider.value - slider.low) / slider.step), abs=1e-6
            )
            for end in (slider.low, slider.high):
                assert slider.wrong(end) == ""
                source.moved(variant, overrides(scenario, sliders, {key: end}))


def test_cards_follow_the_replicas_and_spare_ones_stay(tmp_path):
    text = small.SCENARIO.replace("count: 2}", "count: 5}")
    source = Source(small.write(tmp_path, text))
    scenario = source.variants["cap"]
    key = "cluster.pools.tts.replicas"
    for replicas, cards in ((1, 4), (4, 7)):
        moves = overrides(scenario, sliders_of(scenario), {key: replicas})
        assert moves == {key: replicas, "cluster.gpus.card.count": cards}
        assert source.moved("cap", moves).cluster.gpus["card"].count == cards
    assert overrides(scenario, sliders_of(scenario), {key: 2}) == {}


def test_a_codec_on_a_card_of_its_own_takes_two():
    source = Source(SCENARIOS / "regions.yaml", ["cluster.pools.west.codec.on=other_gpu",
                                                "cluster.gpus.h100.count=60"])  # fmt: skip
    scenario = source.variants["as_bought"]
    values = {"cluster.pools.west.replicas": 9, "cluster.pools.east.replicas": 23}
    moves = overrides(scenario, sliders_of(scenario), values)
    assert moves["cluster.gpus.h100.count"] == 60 + 2 - 1


def test_a_prebuffer_stays_within_the_queue_and_off_where_an_alarm_forbids_it(tmp_path):
    text = small.SCENARIO.replace(
        "alarms:", "  player: {prebuffer: 100ms, max_queue: 400ms}\nalarms:"
    )
    assert ranges(small.write(tmp_path, text), "cap")["prebuffer"] == (0, 100, 400, 5, "ms")
    text = small.SCENARIO.replace("chunk_gap_p99, over: 10s, above: 1.0x_chunk",
                                  "ttfp_p99, over: 10s, above: 1s")  # fmt: skip
    assert "prebuffer" not in ranges(small.write(tmp_path, text), "cap")


def test_positions_are_written_as_a_file_has_them(tmp_path):
    sliders = sliders_of(Source(small.write(tmp_path)).variants["cap"])
    assert sliders["workload.arrivals.rate"].written(7.5) == "7.5/s"
    assert sliders["listener.player.prebuffer"].written(1e-05) == "0.00001ms"
    assert sliders["policies.admission.streams"].written(9.0) == 9


@pytest.mark.parametrize("number", [2.5, 65, 0, -1, float("nan"), float("inf"), True, "9", None])
def test_no_position(tmp_path, number):
    slider = sliders_of(Source(small.write(tmp_path)).variants["cap"])["policies.admission.streams"]
    assert (slider.low, slider.high) == (1, 12)
    text = slider.wrong(number)
    assert text.startswith("policies.admission.streams: expected a whole number from 1 to 12")
    assert "\n" not in text
