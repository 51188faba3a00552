"""Write what docs/ says of the program from the program itself: ``python benchmarks/pages.py``.

docs/reference/cli.md whole, the tables of metrics in results.md and ledger.md and of versions in
versions.md there, and docs/concepts/field-cases.md from the tests of the cases.  A test holds them
to this.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from voicesim import schemas
from voicesim.metrics import glossary
from voicesim.metrics.dialogue_glossary import DIALOGUES

DOCS = Path(__file__).parents[1] / "docs" / "reference"
TABLE = re.compile(r"\| metric \| unit \| meaning \|\n(\|.*\n)+")
VERSIONS = re.compile(r"\| file \| version \| to migrate \|\n(\|.*\n)+")


def versions() -> str:
    """The forms of files, with what each major changed."""
    rows = ["| file | version | to migrate |", "|---|---|---|"]
    for kind in schemas.VERSIONS:
        steps = schemas.MIGRATIONS.get(kind, {})
        changed = "; ".join(f"{n}: {text}" for n in sorted(steps) for text in steps[n])
        rows.append(f"| {kind} | {schemas.current(kind)} | {changed or '–'} |")
    return "\n".join(rows) + "\n"


def pages() -> dict[Path, str]:
    """The text of each page, as it should be."""
    sys.path.insert(0, str(Path(__file__).parent))
    import cases

    from voicesim.report.manual import manual

    results = DOCS / "results.md"
    ledger = DOCS / "ledger.md"
    forms = DOCS / "versions.md"
    table = glossary.table() + "\n"
    dialogues = glossary.table(DIALOGUES) + "\n"
    return {
        DOCS / "cli.md": manual(),
        cases.PAGE: cases.page(),
        results: TABLE.sub(lambda _: table, results.read_text(encoding="utf-8"), count=1),
        forms: VERSIONS.sub(lambda _: versions(), forms.read_text(encoding="utf-8"), count=1),
        ledger: TABLE.sub(lambda _: dialogues, ledger.read_text(encoding="utf-8"), count=1),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
