"""Models whose memory and bandwidth terms are known without a measurement.

Asked for as ``name`` or ``name@gpu``.  The GPU gives a prior for the KV read time:
bytes per token / (0.8 * bandwidth), 0.8 being the share of the data-sheet bandwidth that
aiconfigurator and InferSim both use.
"""

from dataclasses import dataclass

BANDWIDTH_SHARE = 0.8


@dataclass(frozen=True)
class KnownModel:
    """weight_bytes, overhead_bytes: whole; kv_bytes_per_token: all layers; token_audio_s."""

    weight_bytes: float
    kv_bytes_per_token: float
    overhead_bytes: float
    token_audio_s: float
    about: str


MODELS = {
    "qwen3-tts-1.7b": KnownModel(
        weight_bytes=3.4e9,
        kv_bytes_per_token=114688.0,
        overhead_bytes=2.0e9,
        token_audio_s=0.08,
        about="weights 1.7e9 x 2 bytes; KV 2 x 28 layers x 8 heads x 128 x 2 bytes (config); "
        "code predictor, codec and graphs 2 GB is a guess",
    ),
    "vllm-cpu-22m": KnownModel(
        weight_bytes=8.8e7,
        kv_bytes_per_token=12288.0,
        overhead_bytes=0.0,
        token_audio_s=0.08,
        about="random Llama of 22M parameters in fp32; KV 2 x 6 layers x 4 heads x 64 x 4 bytes; "
        "80 ms of audio per token by convention",
    ),
}

GPU_BYTES_PER_S = {
    "h100-sxm": 3.35e12,
    "h200-sxm": 4.8e12,
    "a100-sxm-80gb": 2.039e12,
}
"""HBM bandwidth, vendor data sheets."""


def known_model(name: str | None) -> tuple[KnownModel | None, float | None]:
    """The model and the prior of its KV read time (s per KV token), either None if unknown."""
    if name is None:
        return None, None
    model, _, gpu = name.partition("@")
    if model not in MODELS:
        raise ValueError(f"model: {model!r}; allowed: {', '.join(MODELS)}")
    known = MODELS[model]
    if not gpu:
        return known, None
    if gpu not in GPU_BYTES_PER_S:
        raise ValueError(f"model: GPU {gpu!r}; allowed: {', '.join(GPU_BYTES_PER_S)}")
    return known, known.kv_bytes_per_token / (BANDWIDTH_SHARE * GPU_BYTES_PER_S[gpu])
