"""Nothing that is read can run code: no pickle, and YAML and arrays in their safe forms only."""

import ast
from pathlib import Path

import pytest

HOME = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    path
    for folder in ("voicesim", "benchmarks", "calibration")
    for path in (HOME / folder).rglob("*.py")
)
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal", "jsonpickle"}
CALLS = {
    "read_pickle", "to_pickle", "eval", "exec", "unsafe_load", "full_load", "UnsafeLoader",
    "FullLoader",
}  # fmt: skip


def offences(source: str):
    """What in a module would let a file run code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {(node.module or "").split(".")[-1], (node.module or "").split(".")[0]}
            names |= {alias.name for alias in node.names} & CALLS
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            names = {called} if called in CALLS else set()
            owner = getattr(getattr(node.func, "value", None), "id", "")
            if owner == "yaml" and called in ("load", "load_all"):
                names = {f"yaml.{called}"}
            for keyword in node.keywords:
                allowed = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                if keyword.arg == "allow_pickle" and not allowed:
                    names = {"allow_pickle"}
        else:
            continue
        yield from names & (MODULES | CALLS | {"yaml.load", "yaml.load_all", "allow_pickle"})


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(HOME)))
def test_no_file_that_is_read_runs_code(path):
    assert list(offences(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from pickle import load", "import numpy, dill", "import yaml; exec(x)",
        "pd.read_pickle('x')", "yaml.load(x, L)", "np.load(f, allow_pickle=True)", "eval('1')",
        "from yaml import unsafe_load",
    ],
)  # fmt: skip
def test_the_search_finds_them(source):
    assert list(offences(source))
