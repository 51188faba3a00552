"""A small scenario on its own profile, for tests of the run from file to folder."""

from pathlib import Path

PROFILE = """\
schema: voicesim-profile/1
name: small
form: fitted
token_audio_s: 0.08
decode:
  norm: inf
  memory_s: {value: 0.007, origin: assumed}
  compute_per_token_s: {value: 0.0004, origin: assumed}
codec:
  floor_s: {value: 0.006, origin: assumed}
  per_row_s: {value: 0.001, origin: assumed}
  per_frame_s: {value: 0.0001, origin: assumed}
sharing:
  decode_slowdown: {value: 1.5, origin: assumed}
  codec_slowdown: {value: 1.4, origin: assumed}
"""

SCENARIO = """\
title: Small
horizon: 60s
warmup: 5s
drain: 2min
seed: 3
workload:
  kind: tts
  arrivals: {kind: poisson, rate: 6/s}
  utterance:
    audio: {lognormal: {mean: 3s, p99: 10s}}
    prompt_tokens: 40
  utterances_per_session: {geometric: {mean: 2}}
  think: {exponential: {mean: 1s}}
  patience: {lognormal: {median: 6s, sigma: 0.6}}
  refused: {retry: {attempts: 1, backoff: 1s}}
cluster:
  gpus: {card: {preset: h100-sxm, count: 2}}
  pools:
    tts:
      replicas: 2
      on: card
      engine: {kind: vllm_v1, profile: small-profile.yaml, max_num_seqs: 64, kv_blocks: 2000}
      codec:
        chunk: {first: 4, ramp: [8], steady: 25}
        batch: {cap: 8}
listener:
  network: {delay: 40ms, jitter: 10ms}
alarms:
  - {metric: chunk_gap_p99, over: 10s, above: 1.0x_chunk}
variants:
  admit_all: {}
  cap: {policies.admission: {kind: cap, streams: 6}}
"""


def write(folder: Path, text: str = SCENARIO) -> Path:
    """The scenario and its profile in ``folder``; returns the scenario's path."""
    (folder / "small-profile.yaml").write_text(PROFILE)
    path = folder / "small.yaml"
    path.write_text(text)
    return path
