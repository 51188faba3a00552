"""An hour of a hundred cards in three regions, with faults and scaling, on one core.

    python benchmarks/fleet.py [--hours 1] [--json FILE]

The setting is that of benchmarks/day.py (about 2,400 live streams on 100 replicas), but the
replicas stand in three regions whose callers overflow into each other, crash every five hours on
average for six minutes, are watched by health checks, and are scaled on the calls that live on
them with a cold start of 85 s.  The aim: an hour within 60 s of one core, within 1 GB.
"""

import argparse
import json
import tempfile
from pathlib import Path

from day import SCENARIO, measured

REGIONS = """\
  regions:
    eu: {{near: 20ms, to: {{us: {{rtt: 90ms}}, asia: {{rtt: 160ms}}}}}}
    us: {{to: {{asia: {{rtt: 140ms}}}}}}
    asia: {{}}
  pools:
    eu: &pool
      region: eu
      replicas: 50
      on: card
      engine:
        {{kind: vllm_v1, profile: talker.yaml, kv_blocks: 200000, max_num_seqs: 256}}
      codec: {{chunk: {{first: 10, steady: 25}}, batch: {{cap: 8}}, on: same_gpu}}
    us: {{<<: *pool, region: us, replicas: 30}}
    asia: {{<<: *pool, region: asia, replicas: 20}}
"""
OPERATIONS = """\
policies:
  admission: {{kind: cap, streams: 64}}
  routing: {{kind: least_streams, pinned: true}}
  overflow: {{at: 0.9, back: 0.7}}
  health: {{progress: {{after: 5s}}}}
  scaling:
    pools: {{eu: {{min: 30, start: 45}}, us: {{min: 20, start: 27}}, asia: {{min: 12, start: 18}}}}
    signal: {{kind: sessions, target: 32}}
    cold_start: {{node: 45s, image: 20s, weights: 20s}}
faults:
  - {{kind: crash, pool: eu, mtbf: 5h, mttr: 6min}}
  - {{kind: crash, pool: us, mtbf: 5h, mttr: 6min}}
  - {{kind: crash, pool: asia, mtbf: 5h, mttr: 6min}}
"""


def scenario() -> str:
    """The day's scenario with regions, faults and scaling in place of its pool and policies."""
    head, _, rest = SCENARIO.partition("  pools:\n")
    rest = rest[rest.index("listener:") :]
    listener, _, tail = rest.partition("policies:\n")
    tail = tail[tail.index("slo:") :]
    head = head.replace("workload:\n", "workload:\n  origins: {{eu: 0.5, us: 0.3, asia: 0.2}}\n")
    return head + REGIONS + listener + OPERATIONS + tail


def main() -> None:
    """Measure, print, and write flat keys to --json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0, help="simulated hours (default 1)")
    parser.add_argument("--rate", type=float, default=220.0, help="calls per second (default 220)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        measured(Path(name), 0.01, options.rate, False, scenario())  # compiles
        found = measured(Path(name), options.hours, options.rate, False, scenario())
    for key, value in found.items():
        print(f"{key:16} {value:16,.2f}")
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
