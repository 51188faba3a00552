"""A knob that nothing uses is refused, with its line; one that some variant uses is not."""

import pytest

from tests import small
from voicesim.scenario import ScenarioErrors, load
from voicesim.scenario.editor import json_schema
from voicesim.simulation import problems


def said(tmp_path, text):
    with pytest.raises(ScenarioErrors) as errors:
        load(small.write(tmp_path, text))
    return str(errors.value)


def test_a_card_that_no_pool_is_on(tmp_path):
    text = small.SCENARIO.replace("count: 2}}", "count: 2}, spare: {preset: l4}}")
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "spare" in row)
    assert f"small.yaml:{line}: cluster.gpus.spare: never used" in said(tmp_path, text)
    on_spare = "\n  other: {cluster.pools.tts.on: spare, cluster.pools.tts.replicas: 1}\n"
    load(small.write(tmp_path, text.rstrip() + on_spare))


def test_max_wait_without_a_prebuffer(tmp_path):
    text = small.SCENARIO.replace("listener:\n", "listener:\n  player: {max_wait: 1s}\n")
    assert "listener.player.max_wait: never used" in said(tmp_path, text)
    load(small.write(tmp_path, text.rstrip() + "\n  b: {listener.player.prebuffer: 1s}\n"))


def test_a_backoff_without_attempts(tmp_path):
    text = small.SCENARIO.replace("{attempts: 1, backoff: 1s}", "{attempts: 0, backoff: 1s}")
    assert "workload.refused.retry.backoff: never used" in said(tmp_path, text)


def test_a_model_preset_gives_memory_where_the_profile_has_none(tmp_path):
    """Orpheus-3B on 80 GB: (0.9 x 80e9 - 6e9) / (114,688 x 16) = 35,967 blocks, one is null."""
    from voicesim.engine.profile import load_profile
    from voicesim.kv import kv_blocks

    text = small.SCENARIO.replace("kv_blocks: 2000", "model: orpheus-3b")
    scenario = load(small.write(tmp_path, text)).variants["cap"]
    profile = load_profile(tmp_path / "small-profile.yaml")
    pool, gpu = scenario.cluster.pool, scenario.cluster.gpu
    assert kv_blocks(pool, gpu, profile) == (72_000_000_000 - 6_000_000_000) // (114_688 * 16) - 1
    both = small.SCENARIO.replace("kv_blocks: 2000", "kv_blocks: 2000, model: orpheus-3b")
    assert "'orpheus-3b' is never used" in problems(load(small.write(tmp_path, both)))[0]
    wrong = text.replace("orpheus-3b", "orfeus-3b")
    assert "did you mean 'orpheus-3b'" in said(tmp_path, wrong)


def test_every_property_of_the_schema_is_described():
    schema = json_schema()
    assert all("description" in p for p in schema["properties"].values())
