"""Every command and snippet of README.md and docs/ does what its page says.

A page's blocks run in order in one folder, so that later ones use what earlier ones wrote.  Shell:
each command exits with 0 (or as the page says).  A ``text`` block after one shows lines that it
printed, in their order, if the command ran as the page has it.  Python shares a namespace.  YAML
is read by the scenario's reader, or by that of its own form.
"""

import re
import shlex

import pytest
import yaml

from tests.docs import commands
from tests.docs.blocks import FULL, Block, blocks, inline, of_page, pages
from voicesim.engine.profile import load_profile
from voicesim.experiment.quality import read_quality
from voicesim.scenario import load
from voicesim.scenario.loader import read as read_yaml
from voicesim.scenario.units import SHAPES

FORMS = {"profile": load_profile, "quality": read_quality}
BASE = "scenarios/tutorial.yaml"
FOREIGN = {
    "--save-detailed", "--omni", "--output-details", "--sharing", "--model", "--batches",
    "--contexts", "--prefill", "--codec-rows", "--codec-frames", "--runs", "--repeats", "--device",
}  # fmt: skip
"""Options of other programs (vllm bench serve, sglang, calibration/kit) that pages speak of."""


@pytest.mark.parametrize("page", pages())
def test_page(page, copy):
    folder = copy(page)
    each = shlex.split(" ".join(of_page(page, "each")))
    names: dict[str, object] = {"__name__": "page"}
    printed: str | None = None
    for block in blocks(page):
        if block.kind == "text":
            if printed is not None:
                shows(block, printed)
            continue
        printed = None
        if "file" in block.orders:
            (folder / block.orders["file"]).write_text(block.text)
        if block.kind == "sh":
            printed = shell(block, folder, each)
        elif "skip" in block.orders:
            compile(block.text, block.where, "exec") if block.kind == "python" else None
        elif block.kind == "python":
            exec(compile(block.text, block.where, "exec"), names)
        else:
            read(block, folder)


def shell(block: Block, folder, each: list[str]) -> str | None:
    """Run the block's commands; what they printed, None where it is not to be compared."""
    orders = block.orders
    looked = "skip" in orders
    more = [*each, *shlex.split("" if FULL else orders.get("with", ""))]
    text, found = "", None
    lines = commands.split(block.text)
    for words in lines:
        if looked:
            commands.looked_at(words)
            continue
        found = commands.run(words, more, folder)
        if found is not None:
            wanted = int(orders.get("exit", 0)) if words is lines[-1] else 0
            assert found.code == wanted, f"{block.where}: {shlex.join(words)}\n{found.text}"
            text += found.text
    return None if looked or more else text


def shows(block: Block, printed: str) -> None:
    """Assert that the lines of a text block were printed, in that order."""
    at, lines = 0, [" ".join(line.split()) for line in printed.splitlines()]
    for line in block.text.splitlines():
        wanted = " ".join(line.split())
        if not wanted:
            continue
        hits = [i for i in range(at, len(lines)) if lines[i].startswith(wanted)]
        assert hits, f"{block.where}: not printed (here or later): {line}\n{printed}"
        at = hits[0] + 1


def read(block: Block, folder) -> None:
    """Have a YAML block read by whoever reads it."""
    file = folder / block.orders.get("file", "snippet.yaml")
    file.write_text(block.text)
    if "form" in block.orders:
        FORMS[block.orders["form"]](file)
        return
    data = read_yaml(block.text.encode(), block.where).data
    if not {"workload", "cluster"} <= set(data):
        base = block.orders.get("of", BASE)
        whole = read_yaml((folder / base).read_bytes(), base).data
        whole.pop("variants")
        at = block.orders.get("at", block.orders.get("instead", ""))
        for key in reversed([key for key in at.split(".") if key]):
            data = {key: data}
        if "instead" in block.orders:
            whole.pop(at)  # a key at the top
        file = folder / "scenarios" / "snippet.yaml"
        file.write_text(yaml.safe_dump(merged(whole, data)))
    load(file)


def merged(whole: dict, part: dict) -> dict:
    """A scenario with a piece of one in it; a law, or what has a kind, is replaced as one."""
    found = dict(whole)
    for key, value in part.items():
        old = found.get(key)
        as_one = not (isinstance(old, dict) and isinstance(value, dict))
        as_one = as_one or bool({"kind", "policy", "constant", *SHAPES} & set(value))
        found[key] = value if as_one else merged(old, value)
    return found


@pytest.mark.parametrize("page", pages())
def test_commands_and_options_in_the_text_exist(page):
    every = {o for name in commands.PROGRAM.commands for o in commands.options(name)}
    for line, span in inline(page):
        words = span.split()
        if words[0] == "voicesim" and len(words) > 1 and not words[1].startswith("--"):
            names = [w for w in re.split(r"[^a-z]", words[1]) if w]
            if words[1] == "COMMAND":
                continue
            assert set(names) <= set(commands.PROGRAM.commands), f"{page}:{line}: {span}"
            allowed = commands.options(names[0])
        else:
            allowed = every | FOREIGN | commands.COMPLETION
        if words[0] in ("voicesim", "gate", "replay", "plan") or words[0].startswith("--"):
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", span):
                assert option in allowed, f"{page}:{line}: {span}: no option {option}"
