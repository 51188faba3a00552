"""How long an hour of 1,000 calls at once takes on 16 GPUs: draw the callers, play, count.

    python benchmarks/dialogue.py

One core.  The scenario is scenarios/support_line.yaml on more cards.  The first run compiles the
kernel and is not counted.
"""

import resource
import time
from itertools import pairwise
from pathlib import Path

from voicesim.metrics.dialogue import run_metrics
from voicesim.metrics.dialogue_study import tables_of
from voicesim.scenario import load
from voicesim.session.build import dialogue_spec, dialogue_tape
from voicesim.session.dialogue import Dialogue, record
from voicesim.session.play import DialogueRun
from voicesim.session.record import D_LIVE

SCENARIO = Path(__file__).parents[1] / "scenarios" / "support_line.yaml"
CARDS = {
    "cluster.gpus.h100.count": "14", "cluster.gpus.l4.count": "2",
    "cluster.pools.asr.replicas": "2", "cluster.pools.llm.replicas": "4",
    "cluster.pools.tts.replicas": "10", "workload.arrivals.rate": "10.4/s",
    "horizon": "1h", "warmup": "5min", "drain": "0s",
}  # fmt: skip


def main() -> None:
    file = load(SCENARIO, [f"{k}={v}" for k, v in CARDS.items()])
    scenario = file.variants[file.baseline]
    clock = [time.process_time()]
    spec, tape = dialogue_spec(scenario), dialogue_tape(scenario)
    clock.append(time.process_time())
    dialogue = Dialogue(spec, tape)
    dialogue.advance(0.0)  # compiles
    clock.append(time.process_time())
    dialogue.advance(spec.end)
    clock.append(time.process_time())
    left = record(dialogue)
    metrics = run_metrics(tables_of(DialogueRun(scenario, spec, tape, left, dialogue.events)))
    clock.append(time.process_time())
    draw, compiling, play, count = (b - a for a, b in pairwise(clock))
    live = left.series[300:, D_LIVE].mean()
    steps = sum(p.counters["steps"] for p in left.pools)
    stream_steps = sum(p.counters["stream_steps"] for p in left.pools)
    print(f"{live:,.0f} calls at once, {tape.turns:,} turns, {dialogue.events:,} events")
    print(
        f"draw {draw:.1f} s, play {play:.1f} s, count {count:.1f} s of CPU (load {compiling:.1f})"
    )
    print(f"{steps / play / 1e6:.2f} M steps, {stream_steps / play / 1e6:.1f} M stream-steps, "
          f"{tape.turns / play / 1e3:.0f} k turns a second")  # fmt: skip
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    print(f"CLEAN turns {metrics['clean_turn_share']:.1%}, p95 {metrics['ttfa_p95_s']:.3f} s")


if __name__ == "__main__":
    main()
