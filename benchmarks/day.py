"""A day of a hundred cards on one core: how long `voicesim run` takes, and how much memory.

    python benchmarks/day.py [--hours 24] [--json FILE] [--rows]

The setting: 100 replicas of about 24 streams that decode at a time (2,400 in all), a talker of 25
tokens per second of audio, utterances of 8 s (lognormal), five to a call, 4 s of thought between;
codec on the same GPU (first chunk 10 tokens, then 25; up to 8 rows a batch), KV blocks, network
jitter, playback, step noise, a series of one row a second, causes of stalls, built-in policies.

Everything is counted that the command does, from reading the scenario to the report, in a process
of its own after a short run that compiles the kernel.  The aim: a day within four minutes of one
core, within 1 GB.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

HOUR = 3600.0
AUDIO_S, TURNS = 8.0, 5

SCENARIO = """\
title: A hundred cards
horizon: {hours}h
warmup: {warmup}s
drain: 5min
seed: 7
workload:
  arrivals: {{kind: poisson, rate: {rate}/s}}
  utterance:
    audio: {{lognormal: {{mean: {audio}s, sigma: 0.6}}}}
    prompt_tokens: 60
  utterances_per_session: {turns}
  think: {{exponential: {{mean: 4s}}}}
cluster:
  gpus:
    card: {{preset: h100-sxm, count: 100}}
  pools:
    tts:
      replicas: 100
      on: card
      engine:
        {{kind: vllm_v1, profile: talker.yaml, kv_blocks: 200000, max_num_seqs: 256}}
      codec: {{chunk: {{first: 10, steady: 25}}, batch: {{cap: 8}}, on: same_gpu}}
listener:
  network: {{delay: 40ms, jitter: 10ms}}
policies:
  admission: {{kind: cap, streams: 64}}
  routing: {{kind: least_streams}}
slo: {{start_within: 1s, no_stall_over: 100ms}}
variants:
  cap: {{}}
"""


def profile() -> dict:
    """The talker: the step of benchmarks/speed.py."""

    def q(value):
        return {"value": value, "origin": "assumed"}

    noise = np.random.default_rng(1).lognormal(0.0, 0.1, 100_000)
    quantiles = np.quantile(noise, np.linspace(0, 1, 101))
    return {
        "schema": "voicesim-profile/1",
        "name": "talker",
        "about": {"model": "talker", "gpu": "h100-sxm"},
        "form": "fitted",
        "token_audio_s": 0.04,
        "decode": {
            "norm": 2, "memory_s": q(0.006), "memory_per_kv_token_s": q(2e-8),
            "compute_s": q(0.003), "compute_per_token_s": q(6e-5), "host_s": q(0.001),
            "host_per_stream_s": q(2e-5),
        },
        "codec": {"floor_s": q(0.003), "per_row_s": q(0.0005), "per_frame_s": q(2e-5)},
        "sharing": {"decode_slowdown": q(1.5), "codec_slowdown": q(1.4)},
        "noise": {"quantiles": (quantiles / quantiles.mean()).tolist()},
        "range": {"batch": [1, 256], "context_tokens": [1, 4096], "prefill_tokens": [0, 2048]},
        "fit": {"why": "composed for the benchmark"},
    }  # fmt: skip


def measured(
    folder: Path, hours: float, rate: float, rows: bool, scenario: str = SCENARIO
) -> dict[str, float]:
    """One run of the command: its wall and CPU seconds, peak memory, and what it simulated."""
    text = scenario.format(
        hours=hours, warmup=min(300.0, 0.1 * hours * HOUR), rate=rate, audio=AUDIO_S, turns=TURNS
    )
    file = folder / "day.yaml"
    file.write_text(text, encoding="utf-8")
    (folder / "talker.yaml").write_text(yaml.safe_dump(profile()), encoding="utf-8")
    command = [
        sys.executable, "-m", "voicesim", "run", str(file), "--out", str(folder / "out"),
        "--workers", "1", "--rows" if rows else "--no-rows", "--json", "--quiet",
    ]  # fmt: skip
    one_thread = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | one_thread)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)  # of this process alone
    wall = time.perf_counter() - start
    if status:
        raise SystemExit("the run failed")
    found = json.loads(said)["variants"]["cap"]
    series = pd.read_parquet(folder / "out" / "series.parquet", columns=["t_s", "live"])
    inside = series["t_s"].between(min(300.0, 0.1 * hours * HOUR), hours * HOUR)
    return {
        "hours": hours,
        "calls": found["offered"]["mean"],
        "live_streams": float(series["live"][inside].mean()),
        "clean_share": found["clean_share"]["mean"],
        "wall_s": wall,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024.0,
    }


def main() -> None:
    """Measure, print, and write flat keys to --json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hours", type=float, default=24.0, help="simulated hours (default 24)")
    parser.add_argument("--rate", type=float, default=220.0, help="calls per second (default 220)")
    parser.add_argument("--rows", action="store_true", help="write a row for every call, too")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        measured(Path(name), 0.01, options.rate, options.rows)  # compiles
        found = measured(Path(name), options.hours, options.rate, options.rows)
    for key, value in found.items():
        print(f"{key:16} {value:16,.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
