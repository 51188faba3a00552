"""Fewer bytes: the memory that a language model's weights leave holds more streams.

Weights, KV cache and card of the shipped scenario: Llama 3.1 8B in 16.06 GB, 131,072 bytes a token
(https://huggingface.co/meta-llama/Llama-3.1-8B), on an L4 of 24 GB
(https://www.nvidia.com/en-us/data-center/l4/), of which the engine takes 0.9.

Must show: blocks = (0.9 x 24 GB - weights) / (16 tokens x bytes a token), by hand; so many more
streams run at once; a step that reads fewer bytes is shorter in proportion.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.cases.calls import calls, play, pool, stages
from voicesim.engine.layout import B_RUNNING
from voicesim.scenario import load
from voicesim.session.build import dialogue_spec

FILE = Path(__file__).resolve().parents[2] / "scenarios" / "quantization.yaml"
CARD, WEIGHTS, TOKEN = 24e9, 16.06e9, 131072.0
BY_HAND = {  # GB left of 21.6, tokens of KV that it holds
    "bf16": (21.6 - 16.06, 42_266),
    "fp8": (21.6 - 8.03, 207_062),
    "int4_weights": (21.6 - 4.4968, 130_487),
    "offload": (21.6 - 8.03, 103_531),
}


@pytest.fixture(scope="module")
def specs():
    return {name: dialogue_spec(s) for name, s in load(FILE, []).variants.items()}


@pytest.mark.parametrize("variant", BY_HAND)
def test_the_blocks_by_hand(specs, variant):
    left, tokens = BY_HAND[variant]
    per_token = TOKEN / 2 if variant == "fp8" else TOKEN
    assert int(left * 1e9 / per_token) == pytest.approx(tokens, abs=1)
    assert specs[variant].llm[0].blocks == int(left * 1e9 / (16 * per_token)) - 1


@pytest.mark.parametrize(("variant", "streams"), [("bf16", 26), ("fp8", 129), ("int4_weights", 81)])
def test_so_many_more_streams_run_at_once(specs, variant, streams):
    """Prompts of 1,590 tokens and replies of 10: a hundred blocks each, 150 callers at once."""
    n = 150
    blocks = specs[variant].llm[0].blocks
    assert blocks // 100 == streams
    llm = pool(0.1, blocks=blocks, budget=1 << 20, resolution=0.1)
    llm = dataclasses.replace(llm, step=dataclasses.replace(llm.step, compute_s=np.zeros(300_001)))
    spec = stages(0.0, pool(0.02, resolution=0.1), llm=(llm,), resolution=0.1)
    tape = calls([[(10, 10)]] * n, prompt=np.full(n, 1590))
    run = play(spec, tape)
    assert run.pools[0].series[:, B_RUNNING].max() == streams
    assert run.pools[0].counters["preemptions"] == 0


def test_a_step_that_reads_fewer_bytes(specs):
    """66.9 ms in bf16 at 240 GB/s; KV 0.55 us a token."""
    memory, per_kv = ({name: s.llm[0].step.params[i] for name, s in specs.items()} for i in (0, 1))
    assert memory["bf16"] == pytest.approx(WEIGHTS / 240e9)
    assert memory["fp8"] == pytest.approx(memory["bf16"] / 2)
    assert memory["int4_weights"] == pytest.approx(0.28 * memory["bf16"])
    assert memory["offload"] == pytest.approx(memory["bf16"] / 2 + WEIGHTS / 2 / 25e9)
    assert per_kv["fp8"] == pytest.approx(per_kv["bf16"] / 2)
    assert per_kv["int4_weights"] == per_kv["bf16"] == pytest.approx(TOKEN / 240e9)
