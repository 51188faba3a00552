"""A small peak for ``voicesim alarms``: the listener hears it, the waiting gauge does not."""

from pathlib import Path

from tests import small

SURGE = "{kind: surge, base: 3/s, peak: 40/s, at: 30s, rise: 100s, hold: 30s, fall: 20s}"
PEAK = (
    small.SCENARIO.replace("{kind: poisson, rate: 6/s}", SURGE)
    .replace("horizon: 60s", "horizon: 180s")
    .replace("max_num_seqs: 64", "max_num_seqs: 256, max_num_batched_tokens: 512")
    .replace("kv_blocks: 2000", "kv_blocks: 4000")
)
RULES = """\
alarms:
  - {name: Gap, metric: chunk_gap_p99, over: 10s, above: 0.75x_chunk}
  - {name: Waiting, metric: waiting, above: 0}
  - {name: Busy, metric: running, over: 10s, above: 60, for: 5s}
  - {name: Idle, metric: running, over: 10s, below: 1}
  - {name: Memory, metric: kv_cache, above: 0.15}
  - {name: Thrown, metric: preemptions, over: 20s, above: 6/min}
  - {name: First, metric: ttfp_p95, over: 15s, above: 300ms}
  - {name: Heard, metric: ttfa_p99, over: 15s, above: 500ms, for: 3s}
"""


def write(folder: Path) -> tuple[Path, Path]:
    """The scenario and the rules in ``folder``."""
    rules = folder / "rules-in.yaml"
    rules.write_text(RULES)
    return small.write(folder, PEAK), rules


def in_two_pools() -> str:
    """The scenario with a pool of one replica for either half of the callers."""
    head, rest = PEAK.split("    tts:\n")
    block, tail = rest.split("listener:\n")
    half = block.replace("replicas: 2", "replicas: 1\n      share: 0.5")
    return f"{head}    east:\n{half}    west:\n{half}listener:\n{tail}"
