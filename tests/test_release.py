"""What benchmarks/release.py holds a release to: the locks, the archives, one version."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import voicesim

HOME = Path(__file__).parents[1]
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))
SPEC = importlib.util.spec_from_file_location("release", HOME / "benchmarks" / "release.py")
assert SPEC is not None and SPEC.loader is not None
release = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(release)

HASH = f"    --hash=sha256:{'0' * 64}"


def test_the_locks_go_with_the_project():
    assert release.unfit(PROJECT, release.read_locks()) == []


def test_the_locks_name_no_place():
    for name, text in release.read_locks().items():
        assert not re.search(r"://|--(extra-)?index|--find-links|file:|/tmp|/home", text), name


def small(**changed):
    """A project of one dependency, and fit locks of it."""
    project = {
        "build-system": {"requires": ["builder>=1"]},
        "project": {
            "classifiers": ["Programming Language :: Python :: 3.11",
                            "Programming Language :: Python :: 3.12"],
            "dependencies": ["Some.Thing>=2,<3", "old; python_version < '3'"],
            "optional-dependencies": {"dev": ["tester==8.*"], "docs": [], "release": ["sender"]},
        },
    }  # fmt: skip
    plain = {"some-thing": "2.5", "builder": "1.1", "editables": "0.6", "below": "1.0+x"}
    locks = {"run": plain, "dev": {**plain, "tester": "8.1"}, "release": {"sender": "1"}}
    texts = {
        name: "# made\n" + "".join(f"{p}=={v} \\\n{HASH}\n    # via\n" for p, v in of.items())
        for name, of in locks.items()
    }
    return project, {**texts, **changed}


def test_fit_locks_are_fit():
    assert release.unfit(*small()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p, t: t.pop("dev"), "locks/dev.txt: is missing"),
        (lambda p, t: p["project"]["dependencies"].append("new>=1"), "new>=1: is not pinned"),
        (lambda p, t: p["project"]["dependencies"].append("Some.Thing>=2.6"), "found 2.5; make"),
        (lambda p, t: p["build-system"]["requires"].append("builder>=2"), "builder>=2: found 1.1"),
        (lambda p, t: t.update(run=t["run"].replace("2.5", "3.0")), ">=2,<3: found 3.0; make lock"),
        (lambda p, t: t.update(run=t["run"].replace("below==1.0+x", "below==2")), "below==2"),
        (lambda p, t: t.update(dev=t["dev"].replace("tester==8.1 \\\n" + HASH, "tester==8.1")),
         "locks/dev.txt: tester: has no hash"),
        (lambda p, t: t.update(run="--index-url https://a.b/simple\n" + t["run"]), "run.txt:1: "),
        (lambda p, t: t.update(run="thing @ file:///a/b.whl\n" + t["run"]), "found 'thing @ file"),
        (lambda p, t: t.update(run=f"loose>=1 \\\n{HASH}\n" + t["run"]), "found 'loose>=1'"),
        (lambda p, t: t.update(run=HASH + "\n" + t["run"]), "run.txt:1: found '--hash"),
        (lambda p, t: t.update(release=t["release"].replace(
            "sender==1", "sender==1 ; python_full_version < '3.12'")), "not pinned; make lock (Py"),
    ],
)  # fmt: skip
def test_unfit_locks_are_found(change, said):
    project, locks = small()
    change(project, locks)
    assert said in "\n".join(release.unfit(project, locks))


# --- archives ---------------------------------------------------------------------------------

TRACKED = ["pyproject.toml", "voicesim/a.py", "voicesim/py.typed", "calibration/profiles/p.yaml",
           "tests/test_a.py"]  # fmt: skip
WHEEL = [
    "voicesim/a.py", "voicesim/py.typed", "voicesim/profiles/p.yaml",
    *(f"voicesim-1.0.dist-info/{name}"
      for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")),
]  # fmt: skip


def test_archives():
    assert release.of_sdist([*TRACKED, "PKG-INFO"], TRACKED) == []
    assert release.of_wheel(WHEEL, TRACKED) == []
    junk = ["runs/a/summary.json", "voicesim/__pycache__/a.pyc", ".venv/pyvenv.cfg"]
    said = [f"sdist: holds {name}, which is not expected" for name in sorted(junk)]
    assert release.of_sdist([*TRACKED, *junk], TRACKED) == said
    assert release.of_sdist(TRACKED[1:], TRACKED) == ["sdist: lacks pyproject.toml"]
    for name in WHEEL:
        rest = [each for each in WHEEL if each != name]
        assert len(release.of_wheel(rest, TRACKED)) == 1
    assert release.of_wheel([*WHEEL, "tests/test_a.py"], TRACKED) != []
    without = [each for each in TRACKED if not each.endswith("py.typed")]
    assert release.of_wheel([w for w in WHEEL if not w.endswith("py.typed")], without) != []


def test_pythons_that_are_not_there_are_said(tmp_path):
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    program = sys.executable
    version = "{}.{}".format(*sys.version_info[:2])
    here, missing = release.had(PROJECT, [program, str(shim), "no-such-python", program])
    assert here == {version: program} and missing == [str(shim), "no-such-python"]


# --- one version ------------------------------------------------------------------------------


def test_the_version_is_the_same_everywhere():
    version = PROJECT["project"]["version"]
    assert voicesim.__version__ == version
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version)
    newest = re.search(r"^## (\S+)", (HOME / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest is not None and newest[1] == version


def test_the_script_says_in_a_line_what_is_unfit(tmp_path):
    """As make does it, in a copy whose locks are gone."""
    for name in ("pyproject.toml", "benchmarks/release.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((HOME / name).read_bytes())
    done = subprocess.run(
        [sys.executable, tmp_path / "benchmarks" / "release.py", "build"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("unfit: locks/run.txt: is missing")
