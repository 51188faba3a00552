"""The same requests played here and by NVIDIA Dynamo's offline replay, on one core.

    pip install --no-deps ai-dynamo ai-dynamo-runtime && pip install typing_extensions
    python benchmarks/peers.py [--json FILE]

20,000 requests at 40 a second (Poisson) of 50 input and 250 output tokens on one worker: Dynamo's
``run_synthetic_trace_replay`` with its default engine (https://github.com/ai-dynamo/dynamo), which
also finds KV blocks again by their hashes; and the kernel with steps that keep as many streams
live, once with tokens alone and once with codec, network, step noise and listener.  CPU seconds of
all threads, the best of five runs (of 25 here) after a warm-up, tape and report aside.  Opt-in:
without the package it says so and measures nothing.
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

REQUESTS, RATE, PROMPT, TOKENS = 20_000, 40.0, 50, 250


def world(voice: bool):
    """(spec, tape): one replica; a step of n streams takes 4 + 0.06 n ms, for as many live."""
    from voicesim.engine.cost import StepCost
    from voicesim.engine.spec import CodecSpec, PoolSpec
    from voicesim.workload.tape import Tape

    rng = np.random.default_rng(1)
    n = REQUESTS
    arrival = np.cumsum(rng.exponential(1.0 / RATE, n))
    tape = Tape(
        arrival, np.arange(n + 1), np.full(n, TOKENS), np.full(n, PROMPT), np.zeros(n),
        np.full(n, np.inf), 0, False, 0,
    )  # fmt: skip
    spec = PoolSpec(
        engines=1,
        step=StepCost(
            np.array([0.0, 0.0, 0.0, 1.0, 0.001, 0.0, 0.0, 0.0, 0.0]),
            0.003 + 6e-5 * np.arange(2049),
        ),
        schedule=(10, 25) if voice else (TOKENS,),
        codec=CodecSpec(np.array([0.003, 0.0005, 2e-5]), cap=8, shared=False) if voice else None,
        blocks=200_000,
        token_audio=0.04,
        noise=np.sort(rng.lognormal(-0.005, 0.1, 4096)) if voice else None,
        jitter=np.sort(rng.gamma(2.0, 0.005, 4096)) if voice else np.zeros(4096),
        horizon=float(arrival[-1]),
        end=float(arrival[-1]) + 60.0,
    )
    return spec, tape


def ours(voice: bool) -> dict[str, float]:
    """CPU seconds of a run, and the streams live on average."""
    from voicesim.engine.layout import COMPLETED, R_OUTCOME
    from voicesim.engine.pool import Pool, record

    spec, tape = world(voice)

    def play() -> Pool:
        pool = Pool(spec, tape)
        pool.advance(spec.end)
        return pool

    result = record(play())
    assert (result.utterance_i[:, R_OUTCOME] == COMPLETED).all()
    assert result.counters["stream_steps"] >= REQUESTS * (TOKENS - 1)  # a prompt gives the first
    return {"cpu_s": best(play, 25), "live": float(result.live_area.sum()) / spec.horizon}


def best(play, runs: int) -> float:
    """CPU seconds (all threads) of the best of so many runs."""
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        play()
        seconds.append(time.process_time() - start)
    return min(seconds)


def dynamo() -> dict[str, float] | None:
    """CPU seconds of Dynamo's replay and how many streams lived in it; None without the package."""
    try:
        from dynamo.replay import run_synthetic_trace_replay
    except ImportError as error:
        print(f"skipped: dynamo.replay cannot be imported ({error}); see benchmarks/peers.py")
        return None

    def play():
        return run_synthetic_trace_replay(
            PROMPT, TOKENS, REQUESTS, request_rate=RATE, num_workers=1, replay_mode="offline"
        )

    summary = play().summary
    assert summary["completed_requests"] == REQUESTS
    assert summary["total_output_tokens"] == REQUESTS * TOKENS
    seconds = summary["mean_e2e_latency_ms"] / 1000.0
    return {"cpu_s": best(play, 5), "live": seconds * RATE}


def main() -> None:
    """Measure, print, and write flat keys to --json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    apart = ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1)
    with apart as pool:  # each in a process of its own: Dynamo's has threads
        peer = pool.submit(dynamo).result()
        if peer is None:
            return
        tokens, voice = pool.submit(ours, False).result(), pool.submit(ours, True).result()
    output = REQUESTS * TOKENS
    figures = {
        "dynamo_tokens_per_core_second": output / peer["cpu_s"],
        "tokens_per_core_second": output / tokens["cpu_s"],
        "voice_tokens_per_core_second": output / voice["cpu_s"],
        "dynamo_ratio": peer["cpu_s"] / tokens["cpu_s"],
        "voice_dynamo_ratio": peer["cpu_s"] / voice["cpu_s"],
        "dynamo_live_streams": peer["live"],
        "live_streams": tokens["live"],
        "voice_live_streams": voice["live"],
    }
    for name, value in figures.items():
        print(f"{name:46} {value:16,.2f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)


if __name__ == "__main__":
    main()
