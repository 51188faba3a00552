"""Why believe it?  Plays the tests that say so at length and writes docs/concepts/trust.md.

``make fuzz``: the oracles as they are, the fuzz and the properties fifty times as long as in CI
(an hour on two cores; --times N for another length).  The page is written if all of it passes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HOME = Path(__file__).parents[1]
PAGE = HOME / "docs" / "concepts" / "trust.md"
TESTS = ("tests/oracles", "tests/calibrate/test_fuzz.py", "tests/scenario/test_fuzz.py",
         "tests/properties")  # fmt: skip
BEGIN, END = "<!-- made by benchmarks/trust.py: begin -->", "<!-- end -->"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50, help="as many times as in CI")
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "found.jsonl"
        env = {**os.environ, "VOICESIM_TRUST": str(log), "VOICESIM_FUZZ": str(times)}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", "auto", *TESTS],
            cwd=HOME, env=env, check=False,
        )  # fmt: skip
        if done.returncode:
            return done.returncode
        found = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    found.sort(key=lambda each: each["test"])  # as they came from several processes
    text = PAGE.read_text(encoding="utf-8")
    made = "\n\n".join([BEGIN, oracles(found), fuzz(found), properties(found), END])
    text = re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: made, text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


def oracles(found: Sequence[dict[str, Any]]) -> str:
    """Every comparison that a statistical test makes: the exact value and the interval."""
    rows = ["### Closed forms, met", "", "Exact: the closed form, or its bracket of half a step a "
            "stream. Measured: the 99.9 % interval over replications.", "",
            "| test | exact | measured |", "|---|---|---|"]  # fmt: skip
    kept = [each for each in found if each["kind"] == "oracle"]
    for each in kept:
        low, high = each["low"], each["high"]
        if not (each["interval"][0] <= high and each["interval"][1] >= low):
            continue  # a comparison that must fail: that the interval is narrow enough to tell
        exact = f"{low:.5g}" if low == high else f"{low:.5g} to {high:.5g}"
        a, b = each["interval"]
        rows.append(f"| {_test(each['test'])} | {exact} | {a:.5g} to {b:.5g} |")
    return "\n".join(rows)


def fuzz(found: Sequence[dict[str, Any]]) -> str:
    """Cases and what came of them."""
    total: dict[str, Counter[str]] = defaultdict(Counter)
    for each in found:
        if each["kind"] == "fuzz":
            total[each["what"]] += Counter({k: v for k, v in each.items() if isinstance(v, int)})
    words = ("refused", "read", "loaded", "played", "broken")
    rows = [
        "### Broken files",
        "",
        "Refused: one clear line. Broken: a traceback, a hang or half a result.",
        "",
        f"| file | cases | {' | '.join(words)} |",
        "|---" * (2 + len(words)) + "|",
    ]
    total["all"] = sum(total.values(), Counter())
    for what, counts in total.items():
        cells = " | ".join(f"{counts[word]:,}" for word in words)
        rows.append(f"| {what} | {counts.total():,} | {cells} |")
    return "\n".join(rows)


def properties(found: Sequence[dict[str, Any]]) -> str:
    """Laws and how many scenarios each was held to."""
    rows = ["### Laws under random scenarios", "", "| law | scenarios |", "|---|---|"]
    kept = [each for each in found if each["kind"] == "property"]
    rows += [f"| {_test(each['test'])} | {each['examples']:,} |" for each in kept]
    rows.append(f"| all | {sum(each['examples'] for each in kept):,} |")
    return "\n".join(rows)


def _test(name: str) -> str:
    path, _, test = name.partition("::")
    return f"`{test.removeprefix('test_')}` ({Path(path).stem.removeprefix('test_')})"


if __name__ == "__main__":
    sys.exit(main())
