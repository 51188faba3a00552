"""A step profile from per-layer times, and a recorded vLLM run: the files of LLMServingSim.

A folder holds dense.csv (layer, tokens, time_us), attention.csv (prefill_chunk, kv_prefill,
n_decode, kv_decode, time_us: one call with one prompt chunk of prefill_chunk tokens after
kv_prefill others, and n_decode streams of kv_decode tokens each), per_sequence.csv (layer,
sequences, time_us), meta.json (the engine's settings) and requests.jsonl (one finished request a
line, seconds on one monotone clock).  Times are those of one transformer layer.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from voicesim.engine.profile import DecodeCost, Profile, Quantity

LAYERS = 32  # https://huggingface.co/meta-llama/Llama-3.1-8B, config.json: num_hidden_layers
PER_LAYER = {
    "layernorm": 2, "qkv_proj": 1, "rotary_emb": 1, "o_proj": 1, "gate_up_proj": 1, "act_fn": 1,
    "down_proj": 1,
}  # fmt: skip
ONCE = ("embedding", "final_layernorm")


@dataclass(frozen=True)
class Requests:
    """Requests in the order in which they were queued; seconds after the first of them."""

    queued: np.ndarray
    first_token: np.ndarray
    last_token: np.ndarray
    prompt: np.ndarray
    tokens: np.ndarray

    def numbers(self) -> dict[str, float]:
        """Seconds: mean time per output token after the first, latency, time to first token."""
        wait = self.first_token - self.queued
        return {
            "tpot_mean": float(((self.last_token - self.first_token) / (self.tokens - 1)).mean()),
            "latency_mean": float((self.last_token - self.queued).mean()),
            "ttft_p50": float(np.quantile(wait, 0.5)),
            "ttft_p95": float(np.quantile(wait, 0.95)),
        }


def read_requests(path: Path) -> Requests:
    rows = pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    rows = rows.sort_values("queued_ts", kind="stable")
    start = rows["queued_ts"].iloc[0]
    return Requests(
        queued=(rows["queued_ts"] - start).to_numpy(),
        first_token=(rows["first_token_ts"] - start).to_numpy(),
        last_token=(rows["last_token_ts"] - start).to_numpy(),
        prompt=rows["input_toks"].to_numpy(np.int64),
        tokens=rows["output_toks"].to_numpy(np.int64),
    )


def layer_profile(folder: Path) -> Profile:
    """The step as a table over its tokens, and two slopes for attention.

    The language-model head and the sampler work on sequences, of which a step of n tokens holds
    n at most: they are priced at min(n, max_num_seqs), which is exact for a step without prompts.
    """
    meta = json.loads((folder / "meta.json").read_text())
    seats = meta["engine_kwargs"]["max_num_seqs"]
    dense = pd.read_csv(folder / "dense.csv").pivot(
        index="tokens", columns="layer", values="time_us"
    )
    heads = pd.read_csv(folder / "per_sequence.csv").groupby("sequences")["time_us"].sum()
    tokens = dense.index.to_numpy(float)
    each = sum(times * dense[name] for name, times in PER_LAYER.items())
    step = LAYERS * each + sum(dense[name] for name in ONCE)
    step = step + np.interp(np.minimum(tokens, seats), heads.index, heads)
    call, per_kv, per_pair = attention(folder / "attention.csv", meta["kv_cache"]["num_kv_tokens"])
    seconds = np.maximum.accumulate((step.to_numpy() + LAYERS * call) * 1e-6)
    return Profile(
        name="layers",
        form="table",
        decode=DecodeCost(
            table=list(zip(tokens.tolist(), seconds.tolist(), strict=True)),
            memory_per_kv_token_s=Quantity(value=LAYERS * per_kv * 1e-6, origin="measured"),
            attention_s=Quantity(value=LAYERS * per_pair * 1e-6, origin="measured"),
            capture_sizes=meta["resolved_config"]["compilation_config"]["cudagraph_capture_sizes"],
            scheduling="overlapped",
        ),
    )


def attention(path: Path, most: float) -> tuple[float, float, float]:
    """Microseconds of one layer's attention: per call, per KV token read, per query-key pair.

    The first two by least squares over the calls without a prompt whose KV fits in the cache
    (``most`` tokens), the third over the calls with nothing but a prompt, given the first two.
    """
    rows = pd.read_csv(path)
    chunk, before, streams = rows["prefill_chunk"], rows["kv_prefill"], rows["n_decode"]
    alone = rows[(chunk == 0) & (streams * rows["kv_decode"] <= most)]
    x = np.column_stack([np.ones(len(alone)), alone["n_decode"] * alone["kv_decode"]])
    (call, per_kv), *_ = np.linalg.lstsq(x, alone["time_us"].to_numpy(), rcond=None)
    only = (chunk > 0) & (streams == 0) & (before + chunk <= most)
    pairs = (chunk * (before + (chunk + 1) / 2))[only]
    rest = (rows["time_us"] - call - per_kv * (before + chunk))[only]
    return float(call), float(per_kv), float((pairs @ rest) / (pairs @ pairs))
