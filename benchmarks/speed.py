"""How fast the model runs: stream-steps per core-second, on one core.

    python benchmarks/speed.py [--json FILE] [--hours 0.25]

The setting: 16 replicas of about 30 live streams, a talker of 25 tokens per second of audio,
utterances of 8 s (lognormal, sigma 0.6), five to a call, 4 s of thought between; codec on the
same GPU (first chunk 10 tokens, then 25; up to 8 rows a batch), KV blocks, network jitter,
playback, step noise, time series and per-stream results, and a SimPy control process that reads
the pool at 1 Hz.  Each figure comes from its own process, the best of five runs after a
warm-up; a stream-step is one token of one stream.

compiled: built-in policies in the kernel.  python: the same cap and least_streams as Python
classes, asked once per utterance.  reference: plain SimPy against the kernel on one and
the same shorter world.
bare kernel: the same engines with streams that never end and no codec: the distance to the limit.
"""

import argparse
import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np


def world(hours: float, bare: bool = False):
    """(spec, tape) of the setting; imports here, so that each process measures its own."""
    from voicesim.engine.cost import StepCost
    from voicesim.engine.spec import CodecSpec, PoolSpec
    from voicesim.workload.tape import Tape

    rng = np.random.default_rng(1)
    seconds = hours * 3600.0
    calls = int(seconds * 42.0)
    per = 1 if bare else 5
    n = calls * per
    tokens = np.ceil(25.0 * rng.lognormal(np.log(8.0) - 0.18, 0.6, n)).clip(1, 2000)
    arrival = np.sort(rng.uniform(0.0, seconds, calls))
    if bare:
        calls = n = 480
        arrival, tokens = np.zeros(n), np.full(n, 20_000)
    tape = Tape(
        arrival, np.arange(calls + 1) * per, tokens.astype(np.int64), np.full(n, 60, np.int64),
        rng.exponential(4.0, n), np.full(n, np.inf), 0, False, 0,
    )  # fmt: skip
    params = np.array([0.006, 2e-8, 0.0, 2.0, 0.001, 2e-5, 0.0, 0.0, 0.0])
    spec = PoolSpec(
        engines=16,
        step=StepCost(params, 0.003 + 6e-5 * np.arange(2049)),
        schedule=(30_000,) if bare else (10, 25),
        codec=None if bare else CodecSpec(np.array([0.003, 0.0005, 2e-5]), cap=8),
        token_audio=0.04,
        blocks=200_000,
        noise=None if bare else np.sort(rng.lognormal(-0.005, 0.1, 4096)),
        jitter=np.sort(rng.gamma(2.0, 0.005, 4096)),
        delay=0.04,
        decode_slowdown=1.5,
        codec_slowdown=1.4,
        horizon=seconds,
        end=seconds if bare else seconds + 300.0,
        admission=1,
        limit=64,
        seed=7,
    )
    return spec, tape


def watch(env, pool):
    """A control process: look at the pool once a second."""
    while True:
        yield env.timeout(1.0)
        pool.view.live.sum()


def play(spec, tape, mode: str):
    """One run under SimPy; returns the pool."""
    from voicesim.engine.pool import Pool, PoolEnvironment
    from voicesim.policy.python import Cap, LeastStreams, decider

    pool = Pool(spec, tape, decider(LeastStreams(), Cap(64)) if mode == "python" else None)
    env = PoolEnvironment(pool)
    if mode != "bare":
        env.process(watch(env, pool))
    env.run(until=env.at(spec.end))
    return pool


def kernel(hours: float, mode: str) -> dict[str, float]:
    """Rate in this process: the best of five runs after a warm-up."""
    from voicesim.engine.pool import record

    play(*world(0.003, mode == "bare"), mode)
    spec, tape = world(hours, mode == "bare")
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        pool = play(spec, tape, mode)
        best = min(best, time.perf_counter() - start)
    result = record(pool)
    return {
        "rate": result.counters["stream_steps"] / best,
        "wall_s": best,
        "sim_s": spec.horizon,
        "live": float(result.live_area.sum() / spec.horizon / spec.engines),
        "batch": result.counters["stream_steps"] / result.counters["steps"],
    }


def memory(hours: float) -> dict[str, float]:
    """Peak memory of one run in this process, tape and results included, per session."""
    from voicesim.engine.pool import record

    play(*world(0.003), "compiled")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spec, tape = world(hours)
    result = record(play(spec, tape, "compiled"))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert result.counters["live_calls"] == 0
    return {"bytes": (after - before) * 1024.0 / len(tape.arrival)}


def against_reference(hours: float) -> dict[str, float]:
    """Kernel and plain SimPy reference on one and the same world, in one process."""
    from voicesim.engine.reference import run_reference

    play(*world(0.003), "compiled")
    spec, tape = world(hours)
    start = time.perf_counter()
    result = run_reference(spec, tape)
    plain = time.perf_counter() - start
    fast = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        play(spec, tape, "compiled")
        fast = min(fast, time.perf_counter() - start)
    return {"rate": result.counters["stream_steps"] / plain, "ratio": plain / fast}


def main() -> None:
    """Measure, print, and write flat keys to --json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--hours", type=float, default=0.25, help="simulated hours (default 0.25)")
    options = parser.parse_args()

    def apart(function, *args):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(function, *args).result()

    compiled = apart(kernel, options.hours, "compiled")
    asked = apart(kernel, options.hours, "python")
    bare = apart(kernel, options.hours, "bare")
    plain = apart(against_reference, 0.05)
    held = apart(memory, options.hours)
    figures = {
        "stream_steps_per_core_second": compiled["rate"],
        "python_policy_stream_steps_per_core_second": asked["rate"],
        "reference_stream_steps_per_core_second": plain["rate"],
        "reference_ratio": plain["ratio"],
        "kernel_stream_steps_per_core_second": bare["rate"],
        "bytes_per_session": held["bytes"],
        "wall_s": compiled["wall_s"],
        "sim_s": compiled["sim_s"],
        "live_streams_per_replica": compiled["live"],
        "streams_per_step": compiled["batch"],
    }
    for name, value in figures.items():
        print(f"{name:46} {value:16,.2f}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)


if __name__ == "__main__":
    main()
