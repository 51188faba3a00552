"""Quantization and offload: what they do to a profile, by hand, and to an engine's memory."""

import pytest

from tests import talk
from voicesim.engine.profile import (
    DecodeCost,
    Memory,
    Profile,
    ProfileError,
    Quantity,
)
from voicesim.engine.transform import transformed
from voicesim.scenario import load
from voicesim.scenario.cluster import Transform
from voicesim.session.build import dialogue_spec
from voicesim.simulation import problems


def known(**changes):
    memory = Memory(
        weight_bytes=Quantity(value=16e9),
        kv_bytes_per_token=Quantity(value=131072.0),
        overhead_bytes=Quantity(value=1e9),
    )
    decode = DecodeCost(
        norm="inf",
        memory_s=Quantity(value=0.006, origin="fitted"),
        memory_per_kv_token_s=Quantity(value=5e-8),
        compute_per_token_s=Quantity(value=3e-5),
        host_s=Quantity(value=0.001),
    )
    return Profile(name="known", form="fitted", decode=decode, memory=memory, **changes)


def test_none_is_the_profile_itself():
    profile = known()
    assert transformed(profile, None) is profile


def test_fewer_bits_by_hand():
    """Half the weights and KV, arithmetic in 0.6 of the time; host time and overhead stay."""
    found = transformed(
        known(), Transform.model_validate({"weights": 0.5, "kv": 0.5, "compute": 0.6})
    )
    d, m = found.decode, found.memory
    assert d.memory_s.value == pytest.approx(0.003)
    assert d.memory_per_kv_token_s.value == pytest.approx(2.5e-8)
    assert d.compute_per_token_s.value == pytest.approx(1.8e-5)
    assert d.host_s.value == 0.001
    assert (m.weight_bytes.value, m.kv_bytes_per_token.value) == (8e9, 65536.0)
    assert m.overhead_bytes.value == 1e9
    assert d.memory_s.origin == "assumed"
    assert "weights x 0.5, kv x 0.5, compute x 0.6" in found.notes[-1]


def test_offload_by_hand():
    """A quarter of 16 GB away: the rest is read in 0.75 x 6 ms, and half of the 4 GB comes at
    25 GB/s in 80 ms."""
    change = {"offload": {"share": 0.25, "touched": 0.5, "bytes_per_s": "25GB"}}
    found = transformed(known(), Transform.model_validate(change))
    assert found.decode.memory_s.value == pytest.approx(0.0045 + 0.08)
    assert found.memory.weight_bytes.value == 12e9


def test_quality_is_what_the_user_states():
    change = Transform.model_validate({"weights": 0.5, "quality": {"mos": -0.05, "wer": 0.003}})
    assert "MOS -0.05, as stated, WER +0.3%, as stated" in transformed(known(), change).name


def test_what_cannot_be_transformed():
    table = known().model_copy(
        update={"form": "table", "decode": DecodeCost(table=[(1.0, 0.005), (64.0, 0.009)])}
    )
    with pytest.raises(ProfileError, match=r"cannot change a table of whole steps"):
        transformed(table, Transform.model_validate({"weights": 0.5}))
    assert transformed(table, Transform.model_validate({"kv": 0.5})).decode.table
    bare = known().model_copy(update={"memory": None})
    away = Transform.model_validate({"offload": {"share": 0.5, "bytes_per_s": "25GB"}})
    with pytest.raises(ProfileError, match=r"needs the bytes of the weights"):
        transformed(bare, away)


def test_the_memory_that_is_freed_holds_more_streams(tmp_path):
    """(0.9 x 80 GB - weights) / (KV of a token x 16) blocks, less the null block."""
    path = talk.write(tmp_path)
    plain = dialogue_spec(load(path).variants["base"]).llm[0]
    sets = ["cluster.pools.llm.engine.transform={weights: 0.5, kv: 0.5}"]
    small = dialogue_spec(load(path, sets).variants["base"]).llm[0]
    assert plain.blocks == (72_000_000_000 - 16_000_000_000) // (131072 * 16) - 1
    assert small.blocks == (72_000_000_000 - 8_000_000_000) // (65536 * 16) - 1
    assert small.step.params[0] == pytest.approx(0.5 * plain.step.params[0])


def test_a_transform_without_effect_on_a_table_is_refused_with_its_line(tmp_path):
    path = talk.write(tmp_path)
    profile = tmp_path / "small-llm.yaml"
    profile.write_text(profile.read_text().replace("form: fitted", "form: table").replace(
        "  norm: inf\n", "  norm: 1\n  table: [[1.0, 0.005], [64.0, 0.009]]\n"))  # fmt: skip
    sets = ["cluster.pools.llm.engine.transform={weights: 0.5}"]
    (line,) = problems(load(path, sets))
    assert "talk.yaml:12" in line and "cannot change a table of whole steps" in line
