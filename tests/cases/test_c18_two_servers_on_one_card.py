"""C18: two servers on one card, and what their memory does to each other as they start.

A recogniser (share 0.35) and an aligner (0.20) of 32 and of 48 GB: one after the other and both at
once (https://github.com/vllm-project/vllm/issues/55827).  Two stages of a voice on 141 GB, of which
one takes some 15 GiB beyond its share (https://github.com/vllm-project/vllm-omni/pull/4934).  Two
small models under the older accounting (https://github.com/vllm-project/vllm/issues/14376, changed
by https://github.com/vllm-project/vllm/pull/18974).

Must show: shares that add up to one are not enough; started at once each pays for the other, and
who does not start says how many GiB it lacked.
"""

import pytest

from voicesim.cluster.memory import GIB, DoesNotStartError, Engine, start

CARDS = {"RTX 5090": 31.36, "RTX 6000 Ada": 47.38}  # GiB that the driver leaves to processes
ALONE = {"RTX 5090": (4.72, 2.82), "RTX 6000 Ada": (10.82, 6.50)}  # GiB of KV, one after the other
TOGETHER = {"RTX 5090": (1.84, -3.21), "RTX 6000 Ada": (9.01, -0.01)}
WEIGHTS = (2 * 1.7e9 / GIB, 2 * 0.6e9 / GIB)  # bf16
CONTEXT = 0.75  # GiB of each process outside its share: context and workspace


def pair(card: str, beyond: float = 0.0) -> list[Engine]:
    """The two engines, with what their KV caches say that they need beside them."""
    found = []
    for name, share, kv, weights in zip(
        ("asr", "aligner"), (0.35, 0.20), ALONE[card], WEIGHTS, strict=True
    ):
        rest = share * CARDS[card] - kv - weights
        found.append(Engine(name, share, weights * GIB, rest * GIB, beyond * GIB))
    return found


def fails(total: float, engines: list[Engine], **how) -> DoesNotStartError:
    with pytest.raises(DoesNotStartError) as error:
        start(total * GIB, engines, **how)
    return error.value


@pytest.mark.parametrize("card", CARDS)
def test_one_after_the_other_both_have_what_was_measured(card):
    found = start(CARDS[card] * GIB, pair(card, CONTEXT))
    assert [each.kv / GIB for each in found] == pytest.approx(ALONE[card])
    assert [each.booked for each in found] == [0.0, 0.0]


@pytest.mark.parametrize("card", CARDS)
def test_at_once_each_pays_for_the_other_and_the_smaller_does_not_start(card):
    """All that a neighbour takes before its KV cache is the most that can be booked; what was
    measured lies between that and nothing."""
    error = fails(CARDS[card], pair(card, CONTEXT), how="parallel")
    assert error.name == "aligner" and error.said.startswith("No available memory for the cache")
    assert "one after the other (start: sequential)" in error.remedy
    for i, engine in enumerate(pair(card, CONTEXT)):
        other = pair(card, CONTEXT)[1 - i]
        worst = ALONE[card][i] - (other.own + other.overshoot) / GIB
        assert worst - 1e-9 <= TOGETHER[card][i] < ALONE[card][i], engine.name
    short = (pair(card)[0].own / GIB + CONTEXT) - ALONE[card][1]
    assert error.short / GIB == pytest.approx(short)


def test_with_larger_shares_both_start_at_once_with_smaller_caches():
    """5090: the aligner needs 0.31 of the card to outlive what is booked to it."""
    asr, aligner = pair("RTX 5090")
    bigger = Engine("aligner", 0.32, aligner.weights, aligner.rest)
    total = CARDS["RTX 5090"] * GIB
    alone, at_once = start(total, [asr, bigger]), start(total, [asr, bigger], "parallel")
    for here, there, other in zip(at_once, alone, (bigger, asr), strict=True):
        assert here.booked == pytest.approx(other.own)
        assert here.kv == pytest.approx(there.kv - other.own) and here.kv > 0


def test_racing_starts_come_out_by_chance():
    """The later one sees the earlier one take its KV cache; the earlier one sees a part of the
    later one's weights.  Apart by a whole start, they see nothing."""
    asr, aligner = pair("RTX 6000 Ada")
    total = CARDS["RTX 6000 Ada"] * GIB
    bigger = Engine("aligner", 0.45, aligner.weights, aligner.rest)
    late, early = 0.25, 0.0
    first, second = start(total, [asr, bigger], "racing", instants=[early, late])
    assert first.booked == pytest.approx(bigger.own)  # all there, at 0.75 of its start
    assert second.booked == pytest.approx(first.held - asr.weights * 2 * late)
    first, second = start(total, [asr, bigger], "racing", instants=[0.0, 0.75])
    assert first.booked == pytest.approx(bigger.weights / 2)
    assert second.booked == pytest.approx(first.held - asr.own)
    kv = {start(total, [asr, bigger], "racing", instants=[0.0, x])[0].kv for x in (0.1, 0.6, 0.9)}
    assert len(kv) == 3


@pytest.mark.parametrize(
    ("shares", "starts"), [((0.5, 0.45), False), ((0.5, 0.4), False), ((0.35, 0.5), True)]
)
@pytest.mark.parametrize("beyond", [(15.0, 0.0), (0.0, 15.0)])
def test_shares_that_add_up_to_one_are_not_enough(shares, starts, beyond):
    """141 GB (139.8 GiB to processes): whichever stage it is that lands 15 GiB above its share."""
    stages = [
        Engine(name, share, 4 * GIB, 6 * GIB, more * GIB)
        for name, share, more in zip(("talker", "code2wav"), shares, beyond, strict=True)
    ]
    if starts:
        held = start(139.8 * GIB, stages)
        assert sum(each.held for each in held) / GIB == pytest.approx(0.85 * 139.8 + 15)
        return
    error = fails(139.8, stages)
    short = sum(shares) * 139.8 + 15 - 139.8
    assert error.short / GIB == pytest.approx(short) and error.name == "code2wav"
    early = beyond[0] > 0
    assert ("Free memory on device" if early else "CUDA out of memory") in error.said


def test_the_first_takes_all_and_the_second_says_so_in_the_engines_words():
    """Two engines at vLLM's 0.9 on 80 GiB."""
    twins = [Engine(name, 0.9, 4 * GIB, 2 * GIB) for name in ("a", "b")]
    error = fails(80, twins)
    assert error.said == (
        "Free memory on device cuda:0 (8.00/80.00 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 72.00 GiB). Decrease GPU memory utilization or reduce GPU memory used "
        "by other processes."
    )
    assert error.short == 64 * GIB and error.remedy == "a share of 0.1 would start"
    start(80 * GIB, [twins[0], Engine("b", 0.1, 4 * GIB, 2 * GIB)])
    error = fails(80, [twins[0], Engine("b", 0.9, 8 * GIB, 2 * GIB)])
    assert "no share would do: it needs more than 10.00 GiB" in error.remedy


def test_the_longest_request_must_fit():
    """131,072 bytes a token (Llama-3-8B): 32,768 tokens are 4 GiB."""
    engine = Engine("llm", 0.5, 15 * GIB, 2 * GIB, per_token=131_072, max_model_len=32_768)
    assert start(42.2 * GIB, [engine])[0].kv / GIB == pytest.approx(4.1)
    error = fails(40, [engine])
    assert "(32768), 4.00 GiB KV cache is needed" in error.said
    assert "(3.00 GiB)" in error.said and error.said.endswith("length is 24576.")
    assert error.short == GIB and error.remedy == "it needs a share of at least 0.53"


@pytest.mark.parametrize(
    ("second", "starts"), [((0.2, 0.2), False), ((0.2, 0.3), True), ((0.3, 0.3), False)]
)
def test_older_builds_counted_the_neighbour(second, starts):
    """TinyLlama twice on an L40S (44.4 GiB): 0.2 and 0.2 fail, 0.2 and 0.3 start, 0.3 and 0.3
    fail; counted apart, all of them start."""
    engines = [
        Engine(name, share, 2.05 * GIB, 0.9 * GIB) for name, share in zip("ab", second, strict=True)
    ]
    assert len(start(44.4 * GIB, engines)) == 2
    if starts:
        assert start(44.4 * GIB, engines, legacy=True)[1].kv / GIB == pytest.approx(4.44 - 2.95)
    else:
        assert "No available memory" in fails(44.4, engines, legacy=True).said


def test_a_share_of_what_is_free_shrinks_from_replica_to_replica():
    """SGLang's fraction is of the memory free at the start
    (https://github.com/sgl-project/sglang-omni/issues/1037): 0.4 of 80, of 48, of 28.8."""
    replicas = [Engine(f"r{i}", 0.4, 8 * GIB, 0.0, of_free=True) for i in range(3)]
    kv = [each.kv / GIB for each in start(80 * GIB, replicas)]
    assert kv == pytest.approx([24.0, 11.2, 3.52])
