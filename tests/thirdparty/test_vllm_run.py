"""A real vLLM 0.19 run replayed from layer times (https://github.com/casys-kaist/LLMServingSim).

300 ShareGPT requests, Llama-3.1-8B in bf16 on one RTX 4090, 10 a second: far more than its KV cache
holds, so that most wait for a minute and many are preempted.
"""

import dataclasses
import json

import numpy as np
import pytest

from tests.engine.worlds import tape_of
from tests.thirdparty import data
from tests.thirdparty.layers import Requests, layer_profile, read_requests
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.engine.spec import PoolSpec

FILES = ("dense.csv", "attention.csv", "per_sequence.csv", "meta.json", "requests.jsonl")
LONG = 1e4


def replay(profile, real: Requests, meta: dict) -> tuple[Requests, dict[str, int]]:
    """The same requests through the model of the engine, each token logged; the counters."""
    engine, cache = meta["engine_kwargs"], meta["kv_cache"]
    scheduler = meta["resolved_config"]["scheduler_config"]
    step = profile.step_cost(engine["max_num_batched_tokens"])
    spec = PoolSpec(
        engines=1,
        step=step,
        schedule=(1,),
        max_num_seqs=engine["max_num_seqs"],
        budget=engine["max_num_batched_tokens"],
        block_size=cache["block_size"],
        blocks=cache["num_gpu_blocks"] - 1,  # vLLM V1 keeps one as its null block
        reserve=scheduler["scheduler_reserve_full_isl"],
        overlap=scheduler["async_scheduling"],
        horizon=LONG,
        end=LONG,
        resolution=LONG,
        record_chunks=True,
    )
    pool = Pool(spec, tape_of(real.queued, real.tokens, real.prompt))
    pool.advance(LONG)
    r = record(pool)
    order = np.lexsort((r.chunk_i[:, at.L_INDEX], r.chunk_i[:, at.L_UTT]))
    ready = np.split(r.chunk_f[order, at.M_READY], np.cumsum(real.tokens)[:-1])
    times = {
        "first_token": np.array([t[0] for t in ready]),
        "last_token": np.array([t[-1] for t in ready]),
    }
    return dataclasses.replace(real, **times), r.counters


def test_300_requests_from_layer_times():
    """casys-kaist/LLMServingSim at 5daddb2, RTX4090: a profile summed from layer times, no number
    of which knows the run, predicts mean TPOT within 5 %, mean latency within 8 %, p95 TTFT within
    20 %.  Times count from when the engine queued the request (its front end is not modelled).
    """
    paths = data(*(f"llmservingsim/RTX4090/{name}" for name in FILES))
    folder = paths[0].parent
    real, meta = read_requests(paths[-1]), json.loads((folder / "meta.json").read_text())
    assert len(real.queued) == meta["num_requests"] == 300
    played, counters = replay(layer_profile(folder), real, meta)
    assert counters["preemptions"] > 0  # memory was tight, as the run's KV gauge shows
    now, then = real.numbers(), played.numbers()
    assert then["tpot_mean"] == pytest.approx(now["tpot_mean"], rel=0.05)
    assert then["latency_mean"] == pytest.approx(now["latency_mean"], rel=0.08)
    assert then["ttft_p95"] == pytest.approx(now["ttft_p95"], rel=0.20)
    assert played.last_token.max() == pytest.approx(real.last_token.max(), rel=0.05)
