"""How long `voicesim explore` takes to answer a move, and how near its short form comes.

    python benchmarks/explore.py [FILE...]

For each scenario: wall seconds of a move (one replication, the moved side alone) over three
positions of every slider of the second variant, median and longest, then of both sides, of several
replications and of the whole; and for every variant CLEAN and refused of the short form beside
the whole's, one replication each.  The aim is a move within one second on an idle machine of two
cores.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

from voicesim.explore.explorer import Explorer
from voicesim.explore.player import Player
from voicesim.explore.source import Source

ROOT = Path(__file__).resolve().parents[1]
FILES = [
    ROOT / "scenarios" / name
    for name in ("holiday_peak.yaml", "regions.yaml", "support_line.yaml", "companion.yaml")
]


def timed(explorer, player, **asked):
    """Seconds of an answer, and it."""
    begin = time.perf_counter()
    found = explorer.answer({"beside": None, "values": {}, **asked}, player)
    return time.perf_counter() - begin, found


def moves(explorer, player, variant):
    """(seconds, slider, position) of every move."""
    for key, slider in explorer.sliders[variant].items():
        for share in (0.25, 0.75, 1.0):
            steps = round(share * (slider.high - slider.low) / slider.step)
            at = min(slider.low + steps * slider.step, slider.high)
            seconds, _ = timed(explorer, player, variant=variant, values={key: at}, play="once")
            yield seconds, key, at


def report(path):
    """Time and compare one scenario."""
    explorer = Explorer(Source(path))
    names = list(explorer.sliders)
    variant, beside = names[1], names[0]
    with Player(explorer.warm()) as player:
        player.ready()
        print(f"\n{path.name}: a move plays {explorer.shorts[variant].says}")
        found = sorted(moves(explorer, player, variant))
        print(f"  a move        {statistics.median(s for s, *_ in found):6.2f} s median, "
              f"{found[-1][0]:.2f} s longest ({found[-1][1]} = {found[-1][2]:g})")  # fmt: skip
        for play in ("both", "several", "whole"):
            seconds, _ = timed(explorer, player, variant=variant, beside=beside, play=play)
            print(f"  {play:<13} {seconds:6.2f} s")
        heads = ("variant", "CLEAN: short", "whole", "refused: short", "whole")
        print("  {:<20} {:>12} {:>8} {:>16} {:>8}".format(*heads))
        for name in names:
            rows = {
                play: {r["metric"]: r["sides"][0]["text"] for r in answer["rows"]}
                for play in ("once", "whole")
                for answer in [timed(explorer, player, variant=name, play=play)[1]]
            }
            line = [rows[p][m] for m in ("clean_share", "refused") for p in ("once", "whole")]
            print(f"  {name:<20} {line[0]:>12} {line[1]:>8} {line[2]:>16} {line[3]:>8}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, default=FILES)
    files = parser.parse_args().files
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{os.cpu_count()} cores, load {load:.1f}")
    for path in files:
        report(path)


if __name__ == "__main__":
    main()
