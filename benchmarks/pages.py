"""Write what docs/ says of the program from the program itself: ``python benchmarks/pages.py``.

docs/reference/cli.md whole, the tables of metrics in results.md and ledger.md there, and
docs/concepts/field-cases.md from the tests of the cases.  A test holds them to this.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from voicesim.metrics import glossary
from voicesim.metrics.dialogue_glossary import DIALOGUES

DOCS = Path(__file__).parents[1] / "docs" / "reference"
TABLE = re.compile(r"\| metric \| unit \| meaning \|\n(\|.*\n)+")


def pages() -> dict[Path, str]:
    """The text of each page, as it should be."""
    sys.path.insert(0, str(Path(__file__).parent))
    import cases

    from voicesim.report.manual import manual

    results = DOCS / "results.md"
    ledger = DOCS / "ledger.md"
    table = glossary.table() + "\n"
    dialogues = glossary.table(DIALOGUES) + "\n"
    return {
        DOCS / "cli.md": manual(),
        cases.PAGE: cases.page(),
        results: TABLE.sub(lambda _: table, results.read_text(encoding="utf-8"), count=1),
        ledger: TABLE.sub(lambda _: dialogues, ledger.read_text(encoding="utf-8"), count=1),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
