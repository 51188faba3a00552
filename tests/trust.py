"""What the tests write down for docs/concepts/trust.md (benchmarks/trust.py), if they are asked to.

VOICESIM_TRUST: a file that takes a line of JSON per thing found.  VOICESIM_FUZZ: how many times as
many cases each fuzz test and each property tries (``make fuzz``); once without it.
"""

import json
import os


def note(kind: str, **found: object) -> None:
    """Add a line."""
    if log := os.environ.get("VOICESIM_TRUST"):
        test = os.environ["PYTEST_CURRENT_TEST"].split(" ")[0]
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "test": test, **found}) + "\n")


def examples(few: int) -> int:
    """How many cases to try."""
    return few * int(os.environ.get("VOICESIM_FUZZ", "1"))
