"""Cards and speech models by name, from their published figures.

These are priors: a profile fitted to measurements always wins over them.  ``confidence`` says
where a figure comes from: ``read`` in a published source, ``memory`` not looked up again.  Card
memory is the advertised figure in powers of ten, about 7 % under what an HBM card really has;
``memory:`` in the scenario gives the exact size.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuSpec:
    """One card.

    memory_bytes: device memory, None where it means nothing.
    price: typical rent in USD per hour, None if unknown.
    """

    memory_bytes: int | None
    price: float | None
    confidence: str


def _card(memory_gb: int, price: float | None, confidence: str) -> GpuSpec:
    return GpuSpec(memory_gb * 10**9, price, confidence)


GPUS: dict[str, GpuSpec] = {
    "h200-sxm": _card(141, 3.20, "read; rents 2.50-7.00"),
    "h100-sxm": _card(80, 2.65, "read; rents 1.99-5.00, blended 2.65"),
    "a100-80gb": _card(80, None, "read; bandwidth 2000-2048; rents 0.80-3.00"),
    "a100-40gb": _card(40, None, "read"),
    "l40s": _card(48, 0.86, "bandwidth and price read; flops from memory"),
    "l40": _card(48, None, "memory"),
    "l20": _card(48, None, "memory"),
    "h20": _card(96, None, "memory; the H20-3e has 141 GB"),
    "l4": _card(24, None, "memory"),
    "a10g": _card(24, None, "bandwidth read; flops from memory"),
    "rtx-4090": _card(24, 0.34, "read"),
    "rtx-3090": _card(24, None, "read"),
    # For profiles measured on a CPU: nothing about the card is known or needed.
    "cpu": GpuSpec(None, None, "no figures: give kv_blocks or memory"),
}


@dataclass(frozen=True)
class ModelSpec:
    """Memory of one autoregressive speech model in bf16, for profiles that do not state it.

    weights_bytes: parameters of the autoregressive part, two bytes each.
    kv_bytes_per_token: keys and values of all layers for one token.
    """

    weights_bytes: int
    kv_bytes_per_token: int
    confidence: str
    source: str


_QWEN = "qwen3-asr-swift docs/tts-model.md; sglang-omni qwen3_tts_r20_vocoder_study.md"
_ORPHEUS = "phoonnx-orpheus; silares.com targets"
_COSY = "CosyVoice runtime/triton_trtllm; sglang-omni fun_cosyvoice3.md"

MODELS: dict[str, ModelSpec] = {
    "qwen3-tts-1.7b": ModelSpec(3_400_000_000, 114_688, "read", _QWEN),
    "qwen3-tts-0.6b": ModelSpec(1_200_000_000, 114_688, "read", _QWEN),
    "orpheus-3b": ModelSpec(6_000_000_000, 114_688, "mixed; layers from memory", _ORPHEUS),
    "cosyvoice2-0.5b": ModelSpec(1_000_000_000, 12_288, "read", _COSY),
}

SERVEGEN_M_SMALL: tuple[float, ...] = (
    0.84, 0.71, 0.73, 0.68, 0.71, 0.66, 0.68, 0.85, 1.02, 1.05, 1.13, 1.09,
    1.06, 1.07, 1.06, 1.05, 1.09, 1.08, 1.01, 1.23, 1.46, 1.40, 1.27, 1.06,
)  # fmt: skip
"""Hour-of-day profile over its mean, hours 0 to 23, computed from the m-small trace of ServeGen
(Alibaba, Apache-2.0, arXiv 2505.09999): the cleanest day of its four models."""

PROFILES = {"servegen_m_small": SERVEGEN_M_SMALL}
