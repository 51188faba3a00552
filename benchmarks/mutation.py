"""Would the tests notice?  Changes the model in small places and sees whether a test fails.

    python benchmarks/mutation.py [--sites 300] [--seed 2]

A site is an operator, a comparison, a number, a condition or a loop of voicesim/engine, listener
or policy; cosmic-ray knows what it may become.  Sites are drawn at random and one change of each
is played: the tests that run its line (by coverage, in the interpreted model) until one fails.  A
change that no test notices survives; so does one of a line that no test runs.  What was played is
kept in .mutation/, so that a run that was stopped goes on; with other sources or tests all begins
anew, and the sample is another where the number of places is.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import yaml

HOME = Path(__file__).parents[1]
PACKAGES = ("engine", "listener", "policy")
DECK = ("tests/engine", "tests/golden", "tests/listener", "tests/policy", "tests/session",
        "tests/cluster", "tests/oracles/test_laws.py", "tests/oracles/test_playback.py",
        "tests/oracles/test_starvation.py",
        "tests/cases/test_c27_playback_buffer.py")  # fmt: skip
NOT_OURS = ("voicesim/engine/kernel/jit.py",)
"""How numba is asked: the interpreted model stands in its place."""
PAGE = HOME / "docs" / "concepts" / "trust.md"
LIST = HOME / "docs" / "concepts" / "survivors.md"
BEGIN, END = "<!-- made by benchmarks/mutation.py: begin -->", "<!-- made by mutation: end -->"
REASONS = HOME / "tests" / "survivors.yaml"
IDENTITY = re.compile(r"Operator_(?!Is)[A-Za-z]+_Is(Not)?$")
"""``x is 3`` for ``x == 3``: the same, or not, as CPython pleases; no slip that anybody makes."""
LEAST = 60
"""Places of each package at least, if it has so many: of a small one few are among those."""
EQUALITY = "equal_to_the_last_bit"
MOST_SECONDS = 80.0
"""Of tests (as the map timed them, under the tracer) that one change is played against, the fastest
first; those of kernel and reference on random worlds always take part."""


def _folder() -> Path:
    """Where the map and what was played are kept, of these very sources and tests."""
    digest = hashlib.sha256()
    for place in (*(f"voicesim/{package}" for package in PACKAGES), "tests"):
        for path in sorted((HOME / place).rglob("*.py")):
            digest.update(path.read_bytes())
    return HOME / ".mutation" / digest.hexdigest()[:16]


FOLDER = _folder()


@dataclass(frozen=True)
class Site:
    """A place in a file, and what may be put there: (operator of cosmic-ray, occurrence)."""

    path: str
    start: tuple[int, int]
    end: tuple[int, int]
    changes: tuple[tuple[str, int], ...]


def sites() -> Iterator[Site]:
    """Every place that can be changed, in order of file and line."""
    for path in sorted((HOME / "voicesim").glob("*/**/*.py")):
        name = str(path.relative_to(HOME))
        if Path(name).parts[1] in PACKAGES and name not in NOT_OURS:
            yield from places(path, name)


def places(path: Path, name: str) -> Iterator[Site]:
    """Those of one file."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast_from_path

    nodes = list(ast_nodes(get_ast_from_path(path)))
    found: dict[tuple, list[tuple[str, int]]] = defaultdict(list)
    for operator in plugins.operator_names():
        kind = plugins.get_operator(operator)
        if kind.arguments() or operator.endswith("RemoveDecorator"):
            continue
        positions = ((node, at) for node in nodes for at in kind().mutation_positions(node))
        for occurrence, (node, at) in enumerate(positions):
            if not _only_a_type(node):
                found[at].append((operator, occurrence))
    for (start, end), changes in sorted(found.items()):
        yield Site(name, start, end, tuple(changes))


def _only_a_type(node: Any) -> bool:
    """Part of an annotation: nothing that runs."""
    while node.parent is not None:
        above = node.parent
        if above.type in ("annassign", "tfpdef") and node is not above.children[0]:
            return above.type == "tfpdef" or node is above.children[1]
        if above.type == "funcdef" and node is above.annotation:
            return True
        node = above
    return False


def changed(site: Site, change: tuple[str, int]) -> str | None:
    """The file's text after the change; None where it is no Python, or none."""
    from cosmic_ray import plugins
    from cosmic_ray.mutating import mutate_code

    operator, occurrence = change
    old = (HOME / site.path).read_text(encoding="utf-8")
    source = mutate_code(old, plugins.get_operator(operator)(), occurrence)
    try:
        same = ast.dump(ast.parse(source)) == ast.dump(ast.parse(old))  # 1e301 + 1 is 1e301
    except SyntaxError:
        return None
    return None if same else source


def shown(old: str, new: str) -> tuple[str, str]:
    """The first line that differs, before and after."""
    for before, after in zip(old.splitlines(), new.splitlines(), strict=False):
        if before != after:
            return before.strip(), after.strip()
    return "", ""


class Covered:
    """Which tests run a line, and how long each takes."""

    def __init__(self) -> None:
        import coverage

        data, seconds = FOLDER / "map.data", FOLDER / "map.json"
        if not seconds.exists():
            self._make(data, seconds)
        self.seconds: dict[str, float] = json.loads(seconds.read_text(encoding="utf-8"))
        self.data = coverage.CoverageData(str(data))
        self.data.read()
        self._file: tuple[str, dict[int, list[str]]] = ("", {})

    def _make(self, data: Path, seconds: Path) -> None:
        print("mapping tests to lines", flush=True)
        env = {**os.environ, "VOICESIM_MAP": str(seconds)}
        subprocess.run(
            [sys.executable, "-m", "coverage", "run", "--branch", f"--include={_patterns()}",
             f"--data-file={data}", "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "-p", "tests.interpreted", "-p", "tests.watched", *DECK],
            cwd=HOME, env=env, check=False,
        )  # fmt: skip

    def tests_of(self, site: Site) -> list[str]:
        """Those that run its lines, the fastest first; of a line that runs at import, those that
        run anything of the file, or of the model if the file has names alone."""
        if self._file[0] != site.path:
            self._file = (site.path, self.data.contexts_by_lineno(str(HOME / site.path)))
        lines = self._file[1]
        here = {t for n in range(site.start[0], site.end[0] + 1) for t in lines.get(n, ())}
        if here == {""}:
            here = {t for tests in lines.values() for t in tests}
            here = set(self.seconds) if here == {""} else here
        tests = sorted((t for t in here if t in self.seconds), key=lambda t: self.seconds[t])
        total = np.cumsum([self.seconds[t] for t in tests])
        return [
            test for test, so_far in zip(tests, total, strict=True)
            if so_far <= MOST_SECONDS or EQUALITY in test
        ]  # fmt: skip


def _patterns() -> str:
    return ",".join(f"{HOME}/voicesim/{p}/*" for p in PACKAGES)


def drawn(all_sites: Sequence[Site], n: int, seed: int) -> list[tuple[Site, tuple[str, int]]]:
    """Sites at random, and a change of each; a longer draw begins with the shorter."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(all_sites))
    pick = rng.random(len(all_sites))
    chosen = []
    for k in order[:n]:
        site = all_sites[int(k)]
        changes = sorted(site.changes)
        change = changes[int(pick[k] * len(changes))]
        if not IDENTITY.search(change[0]):
            chosen.append((site, change))
    return chosen


def _preload() -> None:
    """What every test needs and no change touches, once for all forks."""
    for name in (
        "hypothesis", "matplotlib.figure", "numba", "pandas", "pyarrow", "pydantic", "pytest",
        "scipy.optimize", "scipy.stats", "simpy", "typer", "yaml",
    ):  # fmt: skip
        importlib.import_module(name)


def play_all(chosen: Sequence[tuple[Site, tuple[str, int]]], jobs: int, log: Path) -> None:
    """Play what the log does not have yet, ``jobs`` at a time; a line of JSON for each."""
    covered = Covered()
    done = {(e["path"], e["operator"], e["occurrence"]) for e in _read(log)}
    todo = [(s, c) for s, c in chosen if (s.path, *c) not in done]
    _preload()
    fork = multiprocessing.get_context("fork")
    killers: dict[str, Counter[str]] = defaultdict(Counter)
    playing: dict[Any, tuple[Any, float, dict[str, Any]]] = {}
    print(f"{len(done)} played before, {len(todo)} to play", flush=True)

    def begin(site: Site, change: tuple[str, int]) -> None:
        source = changed(site, change)
        if source is None:
            return
        before, after = shown((HOME / site.path).read_text(encoding="utf-8"), source)
        entry = {"path": site.path, "line": site.start[0], "operator": change[0],
                 "occurrence": change[1], "before": before, "after": after}  # fmt: skip
        tests = covered.tests_of(site)
        if not tests:
            finish(entry, ("not run", ""), 0.0)
            return
        known = killers[site.path]
        tests.sort(key=lambda t: (-known[t], covered.seconds[t]))
        ours, theirs = fork.Pipe(duplex=False)
        module = site.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        from tests.watched import play

        child = fork.Process(
            target=play,
            args=(module, str(HOME / site.path), source, tests, covered.seconds, theirs.send),
        )
        child.start()
        theirs.close()
        playing[ours] = (child, time.monotonic(), entry)

    def finish(entry: dict[str, Any], said: tuple[str, str], seconds: float) -> None:
        entry |= {"outcome": said[0], "by": said[1], "seconds": round(seconds, 1)}
        if killed(entry):
            killers[entry["path"]][said[1]] += 1
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        print(f"{entry['outcome']:9} {entry['seconds']:6.1f} s  {entry['path']}:{entry['line']}  "
              f"{entry['before']}  ->  {entry['after']}", flush=True)  # fmt: skip

    while todo or playing:
        while todo and len(playing) < jobs:
            begin(*todo.pop(0))
        for pipe in wait(list(playing), timeout=1.0) if playing else ():
            child, start, entry = playing.pop(pipe)
            try:
                said = pipe.recv()
            except EOFError:  # the process died: out of memory, or a crash of the interpreter
                said = ("fails", "died")
            _end(child)
            finish(entry, said, time.monotonic() - start)


def _end(child: Any) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.join()


def _read(log: Path) -> list[dict[str, Any]]:
    return (
        [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    )


def _package(path: str) -> str:
    return Path(path).parts[1]


def killed(entry: Mapping[str, Any]) -> bool:
    return entry["outcome"] in ("fails", "hangs")


def interval(k: int, n: int) -> str:
    """A share and its 95 % interval (Wilson), in per cent."""
    from scipy.stats import binomtest

    if n == 0:
        return "-"
    low, high = binomtest(k, n).proportion_ci(method="wilson")
    return f"{100 * k / n:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def branches() -> dict[str, Counter[str]]:
    """Lines and branches of each package, and those that the deck runs in the interpreted model."""
    import coverage

    out = FOLDER / "coverage.json"
    measured = coverage.Coverage(data_file=str(FOLDER / "map.data"), branch=True)
    measured.load()
    measured.json_report(outfile=str(out), omit=[str(HOME / name) for name in NOT_OURS])
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, file in json.loads(out.read_text(encoding="utf-8"))["files"].items():
        package = Path(name).parts[1]
        found[package] += Counter({k: v for k, v in file["summary"].items() if isinstance(v, int)})
    return found


def table(played: Sequence[Mapping[str, Any]], every: Sequence[Site]) -> str:
    """What docs/concepts/trust.md shows, a row a package."""
    rows = [
        "### Changes that no test notices", "",
        "One change (cosmic-ray's) at each of so many places of the model, drawn at random; a test "
        "must fail. Killed in per cent, with the 95 % interval of a sample; branches and lines "
        "that the same tests take.", "",
        "| package | places | changed | killed | hangs | not noticed | not run | killed, % | "
        "branches, % | lines, % |", "|---" * 10 + "|",
    ]  # fmt: skip
    covered = branches()
    for package in PACKAGES:
        mine = [e for e in played if _package(e["path"]) == package]
        places = sum(_package(s.path) == package for s in every)
        n, c = Counter(e["outcome"] for e in mine), covered[package]
        rows.append(
            f"| {package} | {places:,} | {len(mine):,} | {n['fails'] + n['hangs']:,} | "
            f"{n['hangs']:,} | {n['survives']:,} | {n['not run']:,} | "
            f"{interval(sum(map(killed, mine)), len(mine))} | "
            f"{100 * c['covered_branches'] / c['num_branches']:.1f} | "
            f"{100 * c['covered_lines'] / c['num_statements']:.1f} |"
        )
    return "\n".join(rows)


def survivors(played: Sequence[Mapping[str, Any]]) -> str:
    """docs/concepts/survivors.md: the changes that were not noticed, with the reasons of
    tests/survivors.yaml."""
    reasons = {
        (r["file"], r["before"], r["after"]): r["why"]
        for r in yaml.safe_load(REASONS.read_text(encoding="utf-8"))
    }
    rows = [
        "# Changes that no test notices", "",
        "Of the sample behind [the table](trust.md#changes-that-no-test-notices), with the reason "
        "why each went unnoticed. Made by `make mutants`.",
    ]  # fmt: skip
    file = ""
    for e in sorted(played, key=lambda e: (e["path"], e["line"])):
        if killed(e):
            continue
        if e["path"] != file:
            file = e["path"]
            rows += ["", f"## {file.removeprefix('voicesim/')}", "", "| line | becomes | why |",
                     "|---|---|---|"]  # fmt: skip
        why = reasons.get((file, e["before"], e["after"]), "**not explained yet**")
        cells = (_code(e["before"]), _code(e["after"]), why)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _code(line: str) -> str:
    return "`" + line.replace("|", "\\|") + "`"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sites", type=int, default=300, help="how many places of all")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    every = list(sites())
    chosen = drawn(every, options.sites, options.seed)
    for package in PACKAGES:
        mine = [s for s in every if _package(s.path) == package]
        if sum(_package(s.path) == package for s, _ in chosen) < LEAST:
            chosen += [each for each in drawn(mine, LEAST, options.seed) if each not in chosen]
    log = FOLDER / f"played-{options.seed}.jsonl"
    play_all(chosen, options.jobs, log)
    here = {(s.path, *c) for s, c in chosen}
    played = [e for e in _read(log) if (e["path"], e["operator"], e["occurrence"]) in here]
    made = "\n\n".join([BEGIN, table(played, every), END])
    text = PAGE.read_text(encoding="utf-8")
    text = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: made, text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")
    LIST.write_text(survivors(played), encoding="utf-8")
    print(f"wrote {PAGE} and {LIST}")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(HOME))
    sys.exit(main())
