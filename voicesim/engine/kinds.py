"""The kinds of continuous-batching engine, and the arithmetic of their rules.

As in ``cost.py`` every function is plain Python that the kernel compiles as it is.  Sources: vLLM
``vllm/v1/core/sched/scheduler.py`` (https://github.com/vllm-project/vllm); SGLang
``managers/schedule_policy.py``, ``schedule_batch.py`` and ``scheduler.py``
(https://github.com/sgl-project/sglang); TensorRT-LLM ``batch_manager/capacityScheduler.cpp``
(https://github.com/NVIDIA/TensorRT-LLM); decode first: vLLM-Omni's unified decode graph
(https://github.com/vllm-project/vllm-omni/pull/6377).
"""

ENGINES = ("vllm_v1", "sglang", "trtllm_no_evict", "trtllm_max_utilization", "decode_first")
"""Engine kinds by number; kernel and reference unpack the same order."""

VLLM, SGLANG, NO_EVICT, MAX_UTILIZATION, DECODE_FIRST = range(len(ENGINES))

CLIP = 4096
"""Future tokens of a stream that SGLang reserves at most (CLIP_MAX_NEW_TOKENS)."""

INIT_RATIO, LEAST_SHARE, DECAY_STEPS, AHEAD = 0.7, 0.14, 600, 20
"""SGLang's new-token ratio: its start, its least value as a share of the start, the decode steps
from one to the other, and the steps that it looks ahead after a retraction."""


def mixes(kind: int, mixed_chunk: bool) -> bool:
    """Whether prompt chunks and decodes share a step; else each has steps of its own."""
    if kind == SGLANG:
        return mixed_chunk
    return kind != DECODE_FIRST


def holds_whole(kind: int) -> bool:
    """Whether a prompt's blocks are all taken with its first chunk (TensorRT-LLM)."""
    return kind in (NO_EVICT, MAX_UTILIZATION)


def must_fit(kind: int, prompt: int, tokens: int, max_new: int, overlap: bool) -> int:
    """KV tokens without which a request is refused for good.

    The last token is sampled but not computed, unless scheduling overlaps.  NO_EVICT reserves what
    is declared; SGLang cuts what is declared so that prompt and reply stay 2 under the cache.
    """
    if kind == NO_EVICT:
        return prompt + max_new
    if kind == SGLANG:
        return prompt + tokens + 2
    return prompt + tokens if overlap else prompt + tokens - 1


def declared(prompt: int, max_new: int, cache: int) -> int:
    """Tokens that SGLang lets a request take at most; cache: tokens of the KV cache."""
    return min(max_new, cache - 2 - prompt)


def future(declared_tokens: int, generated: int) -> int:
    """Tokens that SGLang expects a stream to add at most."""
    return max(0, min(declared_tokens - generated, CLIP))


def first_ratio(conservativeness: float) -> float:
    """SGLang's new-token ratio when the engine is idle."""
    return min(INIT_RATIO * conservativeness, 1.0)


def next_ratio(ratio: float, first: float) -> float:
    """The ratio after a decode step without a retraction."""
    least = LEAST_SHARE * first
    return max(least, ratio - (first - least) / DECAY_STEPS)


def ratio_after_retraction(generated: int, streams: int, declared_tokens: int) -> float:
    """The ratio once streams were sent back; sums over those that stay."""
    return min(1.0, (generated + AHEAD * streams) / (declared_tokens + 1))
