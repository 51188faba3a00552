"""A scenario of dialogues on profiles of its own, for tests."""

from pathlib import Path

from tests import small

LLM = """\
schema: voicesim-profile/1
name: small-llm
form: fitted
decode:
  norm: inf
  memory_s: {value: 0.006, origin: assumed}
  compute_per_token_s: {value: 0.00003, origin: assumed}
memory:
  weight_bytes: {value: 16.0e+9, origin: assumed}
  kv_bytes_per_token: {value: 131072, origin: assumed}
  overhead_bytes: {value: 0, origin: assumed}
request_s: {value: 0.002, origin: assumed}
"""

SCENARIO = """\
horizon: 5min
warmup: 30s
drain: 2min
seed: 3
workload:
  kind: dialogue
  arrivals: {kind: poisson, rate: 1/s}
cluster:
  gpus: {card: {preset: h100-sxm, count: 8}}
  pools:
    asr: {role: asr, on: card, asr: {kind: streaming, cost: {floor: 10ms, per_row: 1ms}}}
    llm: {role: llm, on: card, engine: {profile: small-llm.yaml}}
    tts:
      on: card
      engine: {profile: small-profile.yaml, kv_blocks: 20000}
      codec: {chunk: {first: 4, steady: 25}, batch: {cap: 8}}
"""

LARGE = (
    SCENARIO.replace(
        "    llm: {role",
        """\
    small: {role: llm, on: card, engine: {profile: small-llm.yaml}}
    omni: {role: omni, on: card, engine: {profile: small-profile.yaml, kv_blocks: 20000}}
    voice: {share: 0.25, on: card, engine: {profile: small-profile.yaml, kv_blocks: 20000}}
    llm: {role""",
    ).replace("    tts:\n", "    tts:\n      share: 0.75\n")
    + """\
pipeline:
  cascade: {small: small, large: llm, small_share: 0.3}
  omni: {share: 0.2, timeout: 1s}
  filler: {after: 750ms, audio: 500ms}
"""
)
"""With every kind of stage."""


def write(folder: Path, text: str = SCENARIO) -> Path:
    """The scenario and its profiles in ``folder``; returns the scenario's path."""
    (folder / "small-profile.yaml").write_text(small.PROFILE)
    (folder / "small-llm.yaml").write_text(LLM)
    path = folder / "talk.yaml"
    path.write_text(text)
    return path
