"""NVIDIA Dynamo's offline replay on the shared work (https://github.com/ai-dynamo/dynamo).

Its mock engine is told the law by a profile, as ``--planner-profile-data`` would: milliseconds of
a prompt by its tokens, and of a decode step by KV tokens and mean context, read between grid
points.  KV tokens over mean context are the streams, so the law fits; a step of prompts alone,
which only an empty engine makes, lacks the fixed part.
"""

import os
import tempfile
from pathlib import Path

import numpy as np

from peering.answers import Served, answers
from peering.meter import measure
from peering.work import Law, Work

FAR = 1e7  # tokens: the grid's last point; the law is a line up to there


def run(work: Work) -> dict[str, float]:
    """Figures of a replay; that with a record of each request is not the one that is timed."""
    os.environ.setdefault("DYN_LOG", "error")
    from dynamo.replay import run_trace_replay

    with tempfile.TemporaryDirectory() as folder:
        trace, grid = Path(folder) / "trace.jsonl", Path(folder) / "law.npz"
        work.write(trace)
        np.savez(grid, **profile(work.law, work.prompt, work.tokens))

        def play(each: bool = False):
            return run_trace_replay(
                str(trace),
                extra_engine_args=engine(work, grid),
                num_workers=1,
                replay_mode="offline",
                trace_block_size=512,
                capture_per_request=each,
            )

        found = measure(play, 5)
        report = play(each=True)
    assert report.summary["completed_requests"] == len(work.arrival)
    return found | answers(served(report.per_request))


def served(rows: list[dict]) -> Served:
    """Its record of each request, in ms."""

    def seconds(key: str) -> np.ndarray:
        return np.array([row[key] for row in rows], float) / 1000.0

    return Served(
        asked=seconds("arrival_time_ms"),
        first=seconds("first_token_ms"),
        last=seconds("last_token_ms"),
        tokens=np.array([row["output_length"] for row in rows]),
    )


def engine(work: Work, grid: Path) -> dict:
    """Engine settings: blocks for all, no blocks found again, as many slots as the work says."""
    return {
        "engine": {
            "num_gpu_blocks": 200_000,
            "max_num_seqs": work.most,
            "enable_prefix_caching": False,
            "timing_model": {
                "type": "external",
                "provider": "dynamo_profile",
                "config": {"path": str(grid)},
            },
        }
    }


def profile(law: Law, prompt: np.ndarray, tokens: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays of its profile (ms), exact for prompts of one length.

    The mean context arrives cut to a whole number of tokens, half a token less on average: a grid
    point holds the law half a token further on.
    """
    most = int(prompt.max() + tokens.max()) + 1
    kv, context = np.array([0.0, FAR]), np.arange(1.0, most + 1.0)
    streams = kv[:, None] / (context[None, :] + 0.5)
    per_prompt_token = law.per_stream_s / float(prompt.mean())
    return {
        "prefill_isl": np.array([0.0, FAR]),
        "prefill_ttft_ms": np.array([0.0, 1000.0 * per_prompt_token * FAR]),
        "decode_active_kv_tokens": kv,
        "decode_context_length": context,
        "decode_itl": 1000.0 * (law.fixed_s + law.per_stream_s * streams),
    }
