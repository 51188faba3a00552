"""What the site makes while it is built: the scenario's keys from its JSON Schema, the list of
Python functions, and a page of the notebook.  A page asks for a part by ``<!-- make: NAME -->``."""

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]
from scenario_keys import scenario_keys  # noqa: E402

from voicesim import API  # noqa: E402
from voicesim.scenario.editor import json_schema  # noqa: E402

NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
ABOVE = """\
!!! note
    This page is `docs/tutorial.ipynb` as it ran; [take the notebook](../tutorial.ipynb), or run it
    again with `make tutorial`.
"""


STYLED = r'(?s)<style.*?</style>\n?| border="1" class="dataframe"'
"""What a DataFrame's table has of its own looks."""


def functions() -> str:
    """A mkdocstrings directive for every function of ``import voicesim``, and what they give."""
    places = {**API, "calibrate": "voicesim.api"}
    given = [name for name in ("Answer", "Error") if places.pop(name, None)]
    names = [*(f"{places[name]}.{name}" for name in sorted(places)),
             *(f"voicesim.api.{name}" for name in given)]  # fmt: skip
    return "\n\n".join(f"::: {name}" for name in names) + "\n"


def notebook() -> tuple[str, dict[str, bytes]]:
    """The tutorial notebook as it was committed: its page and the figures beside it."""
    parts, figures = [], {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
            if "image/png" in data:
                name = f"notebook_{len(figures) + 1}.png"
                figures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![what the cell draws]({name})")
            elif "text/html" in data:
                parts.append(re.sub(STYLED, "", data["text/html"]))
            else:
                text = data.get("text/plain", "".join(output.get("text", ())))
                parts.append(f"```text\n{text.rstrip()}\n```")
    parts[0] = parts[0].replace("\n", f"\n\n{ABOVE}\n", 1)
    return "\n\n".join(parts) + "\n", figures


def make(name: str) -> str:
    """The part of that name."""
    if name == "scenario keys":
        return scenario_keys(json_schema())
    if name == "functions":
        return functions()
    raise ValueError(f"a page asks for {name!r}, which nothing makes")


def on_files(files: Any, config: Any) -> Any:
    """Add the notebook's page and its figures."""
    from mkdocs.structure.files import File

    text, figures = notebook()
    files.append(File.generated(config, "tutorials/notebook.md", content=text))
    for name, data in figures.items():
        files.append(File.generated(config, f"tutorials/{name}", content=data))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in what the page asks for."""
    return re.sub(r"<!-- make: (.+?) -->", lambda found: make(found[1]), markdown)
