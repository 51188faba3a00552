"""What benchmarks/mutation.py asks of pytest: which test runs which line, and an end that is quick.

``pytest -p tests.interpreted -p tests.watched`` under coverage makes the map: every test is a
context of its own and its seconds go to the file VOICESIM_MAP.  ``play`` runs chosen tests in this
process on a changed module.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import coverage
import pytest
from hypothesis import HealthCheck, Phase, settings

LONGEST = 300.0
"""Seconds (CPU) after which a test takes no part: the model is slow when interpreted."""
SLACK = 20.0
"""Seconds that a test may take beyond five times its own."""
MEMORY = 8 << 30


def pytest_collection(session) -> None:
    """One run is like the other, and a failure is as good as its smallest example."""
    settings.register_profile(
        "watched", deadline=None, database=None, derandomize=True, report_multiple_bugs=False,
        phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    settings.load_profile("watched")


class _TooLong(BaseException):
    pass


def _too_long(signum, frame):
    raise _TooLong


class Map:
    """A context of coverage a test, and the CPU seconds of those that passed."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        if tracer := coverage.Coverage.current():
            tracer.switch_context(item.nodeid)
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self.seconds[report.nodeid] = report.duration

    def pytest_sessionfinish(self):
        Path(os.environ["VOICESIM_MAP"]).write_text(json.dumps(self.seconds), encoding="utf-8")


if "VOICESIM_MAP" in os.environ:

    def pytest_configure(config) -> None:
        config.pluginmanager.register(Map())


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module, with another source than its file's."""

    def __init__(self, name: str, path: str, source: str) -> None:
        importlib.machinery.SourceFileLoader.__init__(self, name, path)
        self.source = source

    def find_spec(self, fullname, path=None, target=None):
        if fullname == self.name:
            return importlib.util.spec_from_file_location(fullname, self.path, loader=self)
        return None

    def get_code(self, fullname):
        return compile(self.source, self.path, "exec")


class _Watch:
    """Ends the process at the first test that fails or takes five times as long as it should."""

    def __init__(self, seconds: Mapping[str, float], say) -> None:
        self.seconds, self.say, self.now = seconds, say, ""

    def _end(self, word: str) -> None:
        self.say((word, self.now))
        os._exit(0)

    def pytest_runtest_logstart(self, nodeid, location):
        self.now = nodeid
        signal.signal(signal.SIGALRM, lambda *_: self._end("hangs"))
        signal.setitimer(signal.ITIMER_REAL, SLACK + 5.0 * self.seconds.get(nodeid, 0.0))

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._end("fails")


def play(module: str, path: str, source: str, tests: Sequence[str], seconds, say) -> None:
    """Run the tests with ``module`` made of ``source``; ``say`` gets (what came of it, test)."""
    os.setsid()
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.meta_path.insert(0, _Changed(module, path, source))
    try:
        importlib.import_module("tests.interpreted")

        watch = _Watch(seconds, say)
        code = pytest.main(
            ["-x", "-q", "-p", "no:cacheprovider", *tests],
            plugins=[sys.modules[__name__], watch],
        )
        say(("survives" if code == 0 else "fails", watch.now))
    except BaseException as error:
        say(("fails", repr(error)[:100]))
    os._exit(0)
