"""Cards that engines share: each knob used or refused, memory taken in the order of start."""

import pytest
import yaml

from tests import small
from voicesim.cluster.memory import GIB
from voicesim.engine.card import TIME_SLICED
from voicesim.kv import starts_said
from voicesim.scenario import ScenarioErrors, load
from voicesim.simulation import pool_spec, problems, profile_of
from voicesim.study import starts

MEMORY = """\
memory:
  weight_bytes: {value: 4294967296, origin: assumed}
  kv_bytes_per_token: {value: 65536, origin: assumed}
  overhead_bytes: {value: 2147483648, origin: assumed}
"""
TWO = """\
  gpus: {card: {memory: 85899345920, count: 2}}
  share:
    - mode: time_sliced
      pools: {a: {}, b: {}}
  pools:
    a: &pool
      replicas: 2
      on: card
      engine: {profile: small-profile.yaml, memory: 0.5}
    b: {<<: *pool, engine: {profile: small-profile.yaml, memory: 0.4}}
"""  # 80 GiB a card, an engine takes 6 GiB beside its KV cache


def text_of(cluster: str = TWO) -> str:
    head, rest = small.SCENARIO.split("cluster:\n")
    return f"{head}cluster:\n{cluster}listener:{rest.split('listener:')[1].split('variants:')[0]}"


def file(tmp_path, text):
    path = small.write(
        tmp_path, text.replace("  refused: {retry: {attempts: 1, backoff: 1s}}\n", "")
    )
    (tmp_path / "small-profile.yaml").write_text(small.PROFILE + MEMORY)
    return load(path)


def blocks(found) -> list[int]:
    (scenario,) = found.variants.values()
    return [pool_spec(s, profile_of(s.cluster.pool)).blocks for s in scenario.each_pool()]


def test_engines_take_their_memory_in_the_order_of_the_file(tmp_path):
    """0.5 and 0.4 of 80 GiB leave 34 and 26 GiB beside 6; a block of 16 tokens has 1 MiB, and one
    of them is the null block."""
    found = file(tmp_path, text_of())
    assert blocks(found) == [34 * 1024 - 1, 26 * 1024 - 1]
    shares, said = starts(found)
    assert shares == "engines on one card share its GPU, one process on the GPU at a time"
    assert said == (
        "KV caches on a shared card, started one after the other: a 34.00 GiB, 34,815 blocks of 16 "
        "tokens; b 26.00 GiB, 26,623 blocks of 16 tokens"
    )


def test_at_once_both_lose_what_the_other_needs(tmp_path):
    more = "mode: time_sliced\n      start: parallel"
    found = file(tmp_path, text_of(TWO.replace("mode: time_sliced", more)))
    assert blocks(found) == [28 * 1024 - 1, 20 * 1024 - 1]


def test_racing_is_decided_by_the_seed(tmp_path):
    text = text_of(TWO.replace("mode: time_sliced", "mode: mps\n      start: racing"))
    first = blocks(file(tmp_path, text))
    assert first == blocks(file(tmp_path, text)) != [34 * 1024 - 1, 26 * 1024 - 1]
    assert first != blocks(file(tmp_path, text.replace("seed: 3", "seed: 4")))


def test_one_that_does_not_start_is_named_with_its_words_and_what_would_do(tmp_path):
    text = text_of(TWO.replace("memory: 0.4", "memory: 0.9"))
    (said,) = problems(file(tmp_path, text))  # once, although both pools are on the card
    assert "on a card of a, b: b does not start: Free memory on device cuda:0 (40.00/80.00" in said
    assert "(32.00 GiB short); a share of 0.5 would start" in said and "small.yaml:" in said


def test_mig_gives_each_its_slice(tmp_path):
    """3 slices have 4 eighths, 40 GiB, 2 have 20: 0.5 of 40 - 6 and 0.4 of 20 - 6."""
    cluster = TWO.replace("time_sliced", "mig").replace(
        "{a: {}, b: {}}", "{a: {slices: 3}, b: {slices: 2}}"
    )
    assert blocks(file(tmp_path, text_of(cluster))) == [14 * 1024 - 1, 2 * 1024 - 1]


def test_replicas_of_one_pool_and_the_smallest_of_their_caches(tmp_path):
    """SGLang: 0.5 of 80, then of 40 GiB; a block is a token."""
    cluster = """\
  gpus: {card: {memory: 85899345920, count: 2}}
  share: [{mode: mps, pools: {tts: {per_card: 2}}}]
  pools:
    tts: {replicas: 4, on: card, engine: {kind: sglang, profile: small-profile.yaml, memory: 0.5}}
"""
    found = file(tmp_path, text_of(cluster))
    assert blocks(found) == [14 * GIB // 65536]
    (scenario,) = found.variants.values()
    assert scenario.cluster.cards_of("tts") == 2 and scenario.cluster.price_per_hour is None
    assert "34.00 and 14.00 GiB" in starts_said(scenario, profile_of)[1]
    assert scenario.cluster.cards_needed({"tts": 6}) == {"card": 3}


def test_overshoot_and_the_longest_request(tmp_path):
    cluster = TWO.replace("{a: {}, b: {}}", "{a: {overshoot: 10737418240}, b: {}}")
    assert "(2.00 GiB short); a share of 0.37" in problems(file(tmp_path, text_of(cluster)))[0]
    long = TWO.replace("{a: {}, b: {}}", "{a: {}, b: {max_model_len: 500000}}")
    assert "max seq len (500000), 30.52 GiB" in problems(file(tmp_path, text_of(long)))[0]


@pytest.mark.parametrize("mode", ["time_sliced", "mps", "mig"])
def test_it_reads_back(tmp_path, mode):
    cluster = TWO.replace("time_sliced", mode)
    if mode == "mig":
        cluster = cluster.replace("{a: {}, b: {}}", "{a: {slices: 4}, b: {slices: 3}}")
    found = file(tmp_path, text_of(cluster))
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(found.resolved()["base"]))
    assert load(tmp_path / "again.yaml").resolved() == found.resolved()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("mode: time_sliced", "mode: mps\n      switch: 1ms", "switch: never used: only time"),
        ("mode: time_sliced", "mode: mps\n      quantum: 1ms", "have it; mode is mps"),
        ("mode: time_sliced", "mode: time_sliced\n      quantum: 1ms", "never used: switch is 0"),
        ("mode: time_sliced", "mode: time_sliced\n      cores: 2", "never used: 2 processes have"),
        ("a: {}, b", "a: {sm: 0.3}, b", "pools.a.sm: never used: only mps has it"),
        ("a: {}, b", "a: {slices: 3}, b", "only mig has it; mode is time_sliced"),
        ("mode: time_sliced", "mode: mig", "needs slices"),
        ("mode: time_sliced", "mode: mgi", "mig"),
        ("a: {}, b: {}", "a: {}", "one engine has the card to itself"),
        ("a: {}, b: {}", "a: {}, c: {}", "unknown pool 'c'"),
        ("a: {}, b: {}", "a: {per_card: 2}, b: {}", "as many cards as each other; found a 1, b 2"),
        ("a: {}, b: {}", "a: {per_card: 3}, b: {}", "2 replicas do not fill cards of 3"),
        ("count: 2", "count: 1", "2 replicas, 1 on a card, need 2 cards; there are 1"),
        ("memory: 0.4", "kv_blocks: 500", "give all of them or none"),
        ("memory: 0.5", "kv_blocks: 9", "give all of them or none"),
    ],
)  # fmt: skip
def test_what_is_wrong_or_never_used_is_refused(tmp_path, before, after, said):
    assert before in TWO
    with pytest.raises(ScenarioErrors) as errors:
        file(tmp_path, text_of(TWO.replace(before, after)))
    assert said in str(errors.value)


def test_slices_must_fit(tmp_path):
    cluster = TWO.replace("time_sliced", "mig")
    for slices, said in (("4}, b: {slices: 4", "8 sevenths"), ("3}, b: {slices: 3", None)):
        text = text_of(cluster.replace("{a: {}, b: {}}", f"{{a: {{slices: {slices}}}}}"))
        if said is None:
            file(tmp_path, text)
            continue
        with pytest.raises(ScenarioErrors) as errors:
            file(tmp_path, text)
        assert said in str(errors.value)


def test_pools_that_meet_on_a_gpu_are_played_in_one_run(tmp_path):
    """With a share of the callers each they would be played apart, and not meet."""
    apart = TWO.replace("a: &pool\n", "a: &pool\n      share: 0.5\n")
    with pytest.raises(ScenarioErrors) as errors:
        file(tmp_path, text_of(apart))
    assert "pools with a share of the callers are played apart; leave share out" in str(
        errors.value
    )
    sliced = apart.replace("time_sliced", "mig").replace("a: {}, b", "a: {slices: 4}, b")
    assert file(tmp_path, text_of(sliced.replace("b: {}", "b: {slices: 3}")))


def numbers(tmp_path, mode: str, members: str, more: str = ""):
    cluster = TWO.replace("mode: time_sliced", f"mode: {mode}{more}")
    found = file(tmp_path, text_of(cluster.replace("{a: {}, b: {}}", members)))
    (scenario,) = found.variants.values()
    return [pool_spec(s, profile_of(s.cluster.pool)) for s in scenario.each_pool()]


def test_what_the_engines_do_to_each_other_reaches_them(tmp_path):
    a, b = numbers(
        tmp_path, "time_sliced", "{a: {host: 0.4}, b: {}}",
        "\n      switch: 0.1ms\n      quantum: 1ms\n      cores: 1",
    )  # fmt: skip
    assert (a.on_card.card, b.on_card.card, a.on_card.mode) == (0, 0, TIME_SLICED)
    assert (a.on_card.host_share, a.on_card.gpu_share, b.on_card.gpu_share) == (0.4, 0.6, 1.0)
    assert a.on_card.switching == pytest.approx(1.1) and a.on_card.host_stretch == 2.0
    a, b = numbers(tmp_path, "mps", "{a: {sm: 0.3}, b: {sm: 0.5, bandwidth: 0.8}}")
    assert (a.on_card.sm, a.on_card.bandwidth, b.on_card.bandwidth) == (0.3, 0.3, 0.8)


def test_a_slice_is_slower_by_its_sevenths_and_eighths(tmp_path):
    """4 slices: 4 of 8 eighths of the bandwidth, 4 of 7 sevenths of the SMs."""
    a, b = numbers(tmp_path, "mig", "{a: {slices: 4, host: 0.4}, b: {slices: 3}}")
    assert a.on_card.card != b.on_card.card  # nobody beside it
    assert a.step.params[0] == pytest.approx(0.007 * 2)
    assert a.step.compute_s[10] == pytest.approx(0.004 * 7 / 4)
    assert b.step.compute_s[10] == pytest.approx(0.004 * 7 / 3)
    assert (a.on_card.host_share, a.on_card.gpu_share) == (0.2, 0.6)
