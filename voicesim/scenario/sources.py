"""Where knobs and their defaults come from, by the end of a key's dotted path."""

VLLM = "https://docs.vllm.ai/en/stable/configuration/engine_args/"
CATALOGUE = "voicesim/catalogue (voicesim profiles lists it)"

SOURCES: dict[str, str] = {
    "engine.max_num_seqs": f"vLLM's --max-num-seqs, {VLLM}",
    "engine.max_num_batched_tokens": f"vLLM's --max-num-batched-tokens, {VLLM}",
    "engine.block_size": f"vLLM's --block-size, {VLLM}",
    "engine.memory": f"vLLM's --gpu-memory-utilization, {VLLM}",
    "engine.kv_blocks": f"vLLM's --num-gpu-blocks-override, {VLLM}",
    "engine.prefix_caching": f"vLLM's --enable-prefix-caching, {VLLM}",
    "engine.scheduling": f"vLLM's --async-scheduling, {VLLM}; default the profile's",
    "engine.capture_sizes": "vLLM's cudagraph_capture_sizes, "
    "https://docs.vllm.ai/en/stable/design/cuda_graphs/; default the profile's",
    "engine.profile": "measured or published step times (docs/concepts/accuracy.md)",
    "engine.model": CATALOGUE,
    "gpus.NAME.preset": CATALOGUE,
    "gpus.NAME.price": CATALOGUE,
    "gpus.NAME.memory": CATALOGUE,
    "arrivals.profile": "servegen_m_small: https://github.com/alibaba/ServeGen",
    "codec.queue.streams": "https://github.com/vllm-project/vllm-omni/pull/3592",
    "alarms.NAME.metric": "https://github.com/vllm-project/vllm/blob/main/vllm/v1/metrics/"
    "loggers.py; docs/howto/alarms.md",
    "alarms.NAME.for": "Prometheus, "
    "https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/",
}

OWN = "voicesim's own choice"
"""Of every other default."""


def source_of(path: str, default: bool) -> str:
    """Where a key comes from; empty where it has no default and is nobody's knob."""
    for end, text in SOURCES.items():
        if path == end or path.endswith(f".{end}"):
            return text
    return OWN if default else ""
