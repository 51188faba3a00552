"""A headless Chromium for the tests of a page; nothing is downloaded.

Skipped where chromium, its driver or selenium is not installed (Debian: apt-get install chromium
chromium-driver; pip install selenium); VOICESIM_CHROMIUM=1 makes its absence a failure.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1280,900",
)  # fmt: skip


def missing() -> str:
    """What is not installed; empty: all is there."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium"
    programs = {"chromium": _program(), "chromedriver": shutil.which("chromedriver")}
    return ", ".join(name for name, found in programs.items() if found is None)


def _program() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser() -> Iterator[Any]:
    """A selenium driver that keeps the console's and the network's log."""
    if lacking := missing():
        if os.environ.get("VOICESIM_CHROMIUM") == "1":
            pytest.fail(f"VOICESIM_CHROMIUM=1, and there is no {lacking}")
        pytest.skip(f"not installed: {lacking}")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    with TemporaryDirectory(ignore_cleanup_errors=True) as home:
        options = Options()
        options.binary_location = _program() or ""
        for switch in (*SWITCHES, f"--user-data-dir={home}"):
            options.add_argument(switch)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


def url(path: Path) -> str:
    """A page as a reader opens it, by double click."""
    return path.resolve().as_uri()
