"""How long a large arrival trace takes to become a profile, and how much memory.

    python benchmarks/calibrate.py [--json FILE] [--rows 1000000] [--trace FILE]

The trace: closed loops of 1 to 64 callers, as many tokens at each, replies of 250 tokens on
average, prompts of 16 to 256 tokens that share a step with the running streams, steps of 6 ms
plus 0.1 ms per stream with 10 % noise, 1 ms of jitter at the client.  Each figure comes from its
own process: seconds from the file to the profile (imports excluded), the reader's share, the
processor's seconds (all threads), and the peak resident memory of the whole process, imports
included.  --trace keeps the trace there.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

CALLERS = (1, 2, 4, 8, 16, 32, 64)
RUNS = 3


def write_trace(path: Path, rows: int) -> None:
    """An arrival trace of about ``rows`` tokens."""
    rng = np.random.default_rng(1)
    with path.open("w", encoding="utf-8") as file:
        file.write("run_id,stream_id,token_index,t_arrival_s,prompt_tokens\n")
        for callers in CALLERS:
            for repeat in range(RUNS):
                file.write(_run(rng, f"c{callers}-r{repeat}", callers, rows // (7 * RUNS)))


def _run(rng: np.random.Generator, name: str, callers: int, tokens: int) -> str:
    """Rows of one closed loop: a stream that ends is followed by the next within its step."""
    now, stream, out = 0.0, 0, []
    live: list[list[int]] = []  # stream, index, length, prompt
    while len(out) < tokens:
        fresh = 0
        while len(live) < callers:
            live.append([stream, 0, int(rng.exponential(240)) + 10, int(rng.integers(16, 256))])
            fresh += live[-1][3]
            stream += 1
        now += (0.006 + 1e-4 * len(live) + 5e-5 * fresh) * rng.lognormal(0.0, 0.1)
        jitter = 1e-3 * rng.random(len(live))
        for one, late in zip(live, jitter, strict=True):
            out.append(f"{name},{one[0]},{one[1]},{now + late:.6f},{one[3]}\n")
            one[1] += 1
        live = [one for one in live if one[1] < one[2]]
    return "".join(out)


def measure(path: str) -> dict[str, float]:
    """One calibration in this process."""
    from voicesim.calibrate import fit, readers, run  # noqa: F401  (imports are not measured)

    start, cpu = time.perf_counter(), time.process_time()
    samples = readers.read_samples(path)
    read = time.perf_counter()
    profile = fit.fit_profile(samples, "large")
    end = time.perf_counter()
    return {
        "seconds": end - start,
        "reader_s": read - start,
        "cpu_s": time.process_time() - cpu,
        "steps": float(len(samples)),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
        "memory_ms": profile.decode.memory_s.value * 1e3,
        "per_token_ms": profile.decode.compute_per_token_s.value * 1e3,
        "per_stream_ms": profile.decode.host_per_stream_s.value * 1e3,
    }


def main() -> None:
    """Measure, print, and write flat keys to --json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trace", metavar="FILE", help="write the trace here and keep it")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the command does; for the spawned process
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.trace or f"{folder}/trace.csv")
        if not path.exists():
            write_trace(path, options.rows)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            figures = pool.submit(measure, str(path)).result()
        figures["file_mb"] = path.stat().st_size / 1e6
    for name, value in figures.items():
        print(f"{name:16} {value:14,.3f}")
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
