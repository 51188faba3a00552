"""A moved setting is what its copied YAML says: the loader reads both to the same scenario."""

from pathlib import Path

import pytest

from tests import small
from voicesim.explore.source import Source
from voicesim.scenario import ScenarioErrors, load

MOVES = {
    "cap": {
        "policies.admission.streams": 9,
        "cluster.pools.tts.replicas": 3,
        "cluster.gpus.card.count": 3,
        "workload.arrivals.rate": "7.5/s",
        "listener.player.prebuffer": "120ms",
    },
    "admit_all": {"cluster.pools.tts.codec.chunk.first": 6},
}


def with_variant(path: Path, block: str, alone: bool) -> Path:
    """The file with the block's variant added to its own, or the block in place of them."""
    text, mark = path.read_text(), "variants:\n"
    pasted = text[: text.index(mark)] + block if alone else text + block.removeprefix(mark)
    copy = path.with_name("pasted.yaml")
    copy.write_text(pasted)
    return copy


def test_unmoved_is_the_variant_of_the_file(tmp_path):
    source = Source(small.write(tmp_path))
    for name, scenario in load(source.path).variants.items():
        assert source.moved(name).resolved() == scenario.resolved()


@pytest.mark.parametrize("variant", MOVES)
def test_the_block_added_to_the_file_is_the_moved_setting(tmp_path, variant):
    source = Source(small.write(tmp_path))
    pasted = load(with_variant(source.path, source.block(variant, MOVES[variant]), alone=False))
    made = pasted.variants[f"{variant}_explored"]
    assert made.resolved() == source.moved(variant, MOVES[variant]).resolved()
    assert made.resolved() != source.variants[variant].resolved()


def test_the_block_in_place_of_the_others_is_the_moved_setting(tmp_path):
    source = Source(small.write(tmp_path))
    pasted = load(with_variant(source.path, source.block("cap", MOVES["cap"]), alone=True))
    assert list(pasted.variants) == ["cap_explored"]
    assert pasted.variants["cap_explored"] == source.moved("cap", MOVES["cap"])


def test_the_block_is_short_and_whole(tmp_path):
    source = Source(small.write(tmp_path))
    moves = {"policies.admission.streams": 9, "workload.arrivals.rate": "7.5/s"}
    assert source.block("cap", moves) == (
        "variants:\n"
        "  cap_explored:\n"
        "    policies.admission: {kind: cap, streams: 9}\n"
        "    workload.arrivals.rate: 7.5/s\n"
    )


def test_a_block_of_plain_values_and_one_of_none(tmp_path):
    source = Source(small.write(tmp_path))
    key = "cluster.pools.tts.codec.chunk.first"
    assert source.block("admit_all", {key: 6, "seed": 5}) == (
        f"variants:\n  admit_all_explored:\n    {key}: 6\n    seed: 5\n"
    )
    assert source.block("admit_all", {}) == "variants:\n  admit_all_explored: {}\n"


def test_what_the_command_line_set_is_in_the_block(tmp_path):
    path = small.write(tmp_path)
    sets = ["horizon=30s", "policies.admission={kind: cap, streams: 5}"]
    source = Source(path, sets, seed=11)
    block = source.block("admit_all", {"policies.admission.streams": 7})
    made = load(with_variant(path, block, alone=False)).variants["admit_all_explored"]
    assert (made.horizon, made.seed) == (30.0, 11)
    assert made.policies.admission.streams == 7
    moved = source.moved("admit_all", {"policies.admission.streams": 7})
    assert made.resolved() == moved.resolved()


def test_a_variant_that_was_explored_before_keeps_its_name(tmp_path):
    text = small.SCENARIO + "  cap_explored: {}\n"
    source = Source(small.write(tmp_path, text))
    assert source.name_of("cap") == "cap_explored_2"


def test_later_moves_do_not_reach_the_file(tmp_path):
    source = Source(small.write(tmp_path))
    source.moved("cap", {"policies.admission.streams": 9})
    assert source.moved("cap").policies.admission.streams == 6


def test_a_wrong_file_is_refused_with_everything_in_it(tmp_path):
    text = small.SCENARIO.replace("horizon: 60s", "horizn: 60s").replace("cap, str", "cap, stir")
    with pytest.raises(ScenarioErrors) as found:
        Source(small.write(tmp_path, text))
    assert len(found.value.problems) >= 2
