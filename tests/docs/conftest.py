"""A copy of the repository's files for each page, in which its commands run."""

import re
import shutil
import sys

import matplotlib
import pytest

from tests.docs.blocks import ROOT, of_page


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """``copy(page)`` makes the folder: scenarios copied (shortened as the page says), measurements
    linked; it is the working folder until the test ends."""
    matplotlib.use("Agg")
    modules = set(sys.modules)

    def make(page):
        shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
        for name in ("calibration", "benchmarks", "docs"):
            (tmp_path / name).symlink_to(ROOT / name)
        for short in of_page(page, "short"):
            file, *pairs = short.split()
            text = (tmp_path / file).read_text()
            for key, value in (pair.split("=", 1) for pair in pairs):
                text, found = re.subn(rf"(?m)^{key}: .*$", f"{key}: {value}", text)
                assert found == 1, f"{page}: {file} has no key {key!r} at its top"
            (tmp_path / file).write_text(text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "120")
        return tmp_path

    yield make
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
