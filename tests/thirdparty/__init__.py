"""Checks on data files of public projects, which are not part of this repository.

Skipped unless the environment variable VOICESIM_THIRDPARTY names a folder that holds them; the
README beside this file says which files, from which commits.
"""

import os
from pathlib import Path

import pytest


def data(*names: str) -> list[Path]:
    """Paths of these files under the folder; skips the test where there is no such folder."""
    folder = os.environ.get("VOICESIM_THIRDPARTY")
    if not folder:
        pytest.skip("VOICESIM_THIRDPARTY does not name a folder")
    paths = [Path(folder) / name for name in names]
    for path in paths:
        assert path.is_file(), f"VOICESIM_THIRDPARTY: no {path}"
    return paths
