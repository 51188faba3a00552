"""Is it fit to be released?  ``make lock``, ``make audit``, ``make release``.

lock: writes locks/ anew, every dependency with its version and its hashes, for all Pythons that
pyproject.toml names; what still fits is kept, --newest takes what is newest.  audit: asks
pip-audit what is known to be unsafe in them.  build: makes sdist and wheel, holds them to what git
tracks, and tries both in an empty environment far from this folder, on every Python that can be
had.  Each runs with the tools of locks/release.txt alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HOME = Path(__file__).parents[1]
LOCKS = HOME / "locks"
DIST = HOME / "dist"
EDITABLE = "editables>=0.5"
"""What hatchling asks for beside itself where a folder is installed as it is."""


class Unfit(Exception):
    """What must not be released, and why."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("lock", "audit", "build"))
    parser.add_argument("--newest", action="store_true", help="lock: the newest of everything")
    parser.add_argument(
        "--python", action="append", metavar="PROGRAM",
        help="build: a Python to try it on; may be repeated; default: those pyproject.toml names",
    )  # fmt: skip
    asked = parser.parse_args()
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))
    try:
        if asked.what == "lock":
            lock(project, asked.newest)
        elif asked.what == "audit":
            audit()
        else:
            build(project, asked.python)
    except Unfit as problem:
        print(f"unfit: {problem}", file=sys.stderr)
        return 1
    return 0


def run(*words: object, **how: Any) -> str:
    """What a command printed; raises Unfit with all it said if it fails."""
    done = subprocess.run(
        [*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False, **how,
    )  # fmt: skip
    if done.returncode:
        raise Unfit(f"{Path(str(words[0])).name} {' '.join(map(str, words[1:4]))}: {done.stdout}")
    return done.stdout


# --- locks ------------------------------------------------------------------------------------


def pythons(project: Mapping[str, Any]) -> list[str]:
    """The Pythons that the project is for: 3.11, ..."""
    begin = "Programming Language :: Python :: 3."
    return [f"3.{c.removeprefix(begin)}" for c in project["project"]["classifiers"] if begin in c]


def wanted(project: Mapping[str, Any]) -> dict[str, list[str]]:
    """What each lock is made of.  run: a plain use.  dev: tests, lint and site.  release: the
    tools of this file, apart from what they try."""
    given, extras = project["project"], project["project"]["optional-dependencies"]
    plain = [*given["dependencies"], *project["build-system"]["requires"], EDITABLE]
    return {
        "run": plain,
        "dev": [*plain, *extras["dev"], *extras["docs"]],
        "release": extras["release"],
    }


def lock(project: Mapping[str, Any], newest: bool) -> None:
    """Write the locks: of one version everywhere, from wheels only, naming no place."""
    LOCKS.mkdir(exist_ok=True)
    for name, requirements in wanted(project).items():
        run(
            "uv", "pip", "compile", "-", "--universal", "--python-version", pythons(project)[0],
            "--fork-strategy", "fewest", "--generate-hashes", "--only-binary", ":all:",
            "--quiet", "--custom-compile-command", "make lock", "--output-file",
            f"locks/{name}.txt", *(["--constraint", "locks/run.txt"] if name == "dev" else []),
            *(["--upgrade"] if newest else []),
            cwd=HOME, input="\n".join(requirements) + "\n",
        )  # fmt: skip
        print(f"wrote locks/{name}.txt")
    if wrong := unfit(project, read_locks()):
        raise Unfit("\n".join(wrong))


def read_locks() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(LOCKS.glob("*.txt"))}


def unfit(project: Mapping[str, Any], locks: Mapping[str, str]) -> list[str]:
    """What in the locks does not go with pyproject.toml, one line each."""
    found: list[str] = []
    pinned: dict[str, dict[str, Requirement]] = {}
    for name, requirements in wanted(project).items():
        if name not in locks:
            found.append(f"locks/{name}.txt: is missing")
            continue
        pinned[name] = pins(name, locks[name], found)
        for text in requirements:
            for python in pythons(project):
                if (why := _unmet(Requirement(text), pinned[name], python)) is not None:
                    found.append(f"locks/{name}.txt: {text}: {why} (Python {python})")
    for package, pin in pinned.get("run", {}).items():
        other = pinned.get("dev", {}).get(package)
        if "dev" in pinned and (other is None or other.specifier != pin.specifier):
            found.append(f"locks/dev.txt: {package}: found {other}; locks/run.txt has {pin}")
    return list(dict.fromkeys(found))


def pins(name: str, text: str, found: list[str]) -> dict[str, Requirement]:
    """package==version of a lock; anything else in it, and a pin without a hash, is found."""
    pinned: dict[str, Requirement] = {}
    hashes: dict[str, int] = {}
    package = ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip().removesuffix("\\").strip()
        if not bare or bare.startswith("#"):
            continue
        if re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", bare) and package:
            hashes[package] += 1
        elif re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._!+-]+( ; [^/\\]+)?", bare):
            pin = Requirement(bare)
            package = canonicalize_name(pin.name)
            pinned[package] = pin
            hashes[package] = 0
        else:
            found.append(f"locks/{name}.txt:{number}: found {bare!r}; allowed: a pin or its hash")
    found += [f"locks/{name}.txt: {each}: has no hash" for each, n in hashes.items() if not n]
    return pinned


def _unmet(need: Requirement, pinned: Mapping[str, Requirement], python: str) -> str | None:
    """Why a lock does not satisfy a requirement on this Python; None if it does."""
    where = {"python_version": python, "python_full_version": f"{python}.0"}
    if need.marker is not None and not need.marker.evaluate(where):
        return None
    pin = pinned.get(canonicalize_name(need.name))
    if pin is None or (pin.marker is not None and not pin.marker.evaluate(where)):
        return "is not pinned; make lock"
    version = str(pin.specifier).removeprefix("==")
    if not need.specifier.contains(version, prereleases=True):
        return f"found {version}; make lock"
    return None


def audit() -> None:
    """Ask for known vulnerabilities of every pin; raises Unfit where there is one, and where a
    pin could not be judged: what was not looked up is not safe."""
    for name in read_locks():
        print(f"locks/{name}.txt")
        said = run("pip-audit", "--requirement", f"locks/{name}.txt", "--require-hashes",
                   "--disable-pip", "--strict", "--progress-spinner", "off", cwd=HOME)  # fmt: skip
        print(said.rstrip())


# --- sdist and wheel --------------------------------------------------------------------------


def build(project: Mapping[str, Any], asked: Sequence[str] | None) -> None:
    """Make both, look into them, try them."""
    if wrong := unfit(project, read_locks()):
        raise Unfit("\n".join(wrong))
    shutil.rmtree(DIST, ignore_errors=True)
    # the wheel is made from the sdist, so whatever the sdist lacks is missed at once; the
    # backend is the locked one, not whatever is newest today
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, HOME)
    [sdist], [wheel] = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    said = run("twine", "--no-color", "check", "--strict", sdist, wheel)
    print(said.replace(f"{DIST}/", "").rstrip())
    tracked = run("git", "ls-files", "-z", cwd=HOME).split("\0")[:-1]
    wrong = [*of_sdist(names_in(sdist), tracked), *of_wheel(names_in(wheel), tracked)]
    if wrong:
        raise Unfit("\n".join(wrong))
    print("sdist: all that git tracks and nothing else; wheel: the package, profiles, licence")
    here, missing = had(project, asked)
    for python, program in here.items():
        with tempfile.TemporaryDirectory(prefix="voicesim-release-") as folder:
            print(f"Python {python}: {tried(program, wheel, sdist, Path(folder).resolve())}")
    for name in missing:
        print(f"{name}: not found, not tried")
    if not here:
        raise Unfit("no Python to try it on")


def names_in(archive: Path) -> list[str]:
    """The files of an archive; of an sdist without the folder that holds them all."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return [name for name in file.namelist() if not name.endswith("/")]
    with tarfile.open(archive) as tar:
        return [m.name.partition("/")[2] for m in tar.getmembers() if not m.isdir()]


def of_sdist(names: Iterable[str], tracked: Iterable[str]) -> list[str]:
    """What an sdist has too much or too little: it is what git tracks, and its own metadata."""
    return _differences("sdist", set(names) - {"PKG-INFO"}, set(tracked))


def of_wheel(names: Iterable[str], tracked: Iterable[str]) -> list[str]:
    """The same of a wheel: the package with the profiles that ship, and the licence."""
    here, ships = "calibration/profiles/", "voicesim/profiles/"
    files = {f for f in tracked if f.startswith("voicesim/")}
    files |= {f.replace(here, ships, 1) for f in tracked if f.startswith(here)}
    files |= {"dist-info/METADATA", "dist-info/RECORD", "dist-info/WHEEL",
              "dist-info/entry_points.txt", "dist-info/licenses/LICENSE"}  # fmt: skip
    files |= {"voicesim/py.typed"}
    plain = {re.sub(r"^voicesim-[^/]+\.dist-info/", "dist-info/", name) for name in names}
    return _differences("wheel", plain, files)


def _differences(what: str, found: set[str], expected: set[str]) -> list[str]:
    more = [f"{what}: holds {name}, which is not expected" for name in sorted(found - expected)]
    return more + [f"{what}: lacks {name}" for name in sorted(expected - found)]


def had(
    project: Mapping[str, Any], asked: Sequence[str] | None
) -> tuple[dict[str, str], list[str]]:
    """version -> program of the Pythons that run, and the names of those that do not."""
    here: dict[str, str] = {}
    missing = []
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    for name in asked or [f"python{version}" for version in pythons(project)]:
        try:
            version = run(name, "-I", "-c", ask).strip()
        except (OSError, Unfit):  # a shim of a version that is not installed fails too
            version = ""
        if version not in pythons(project):
            missing.append(name)
        else:
            here.setdefault(version, name)
    return here, missing


def tried(program: str, wheel: Path, sdist: Path, folder: Path) -> str:
    """Install the wheel into an empty environment and play a new scenario, then the sdist."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VOICESIM"))}
    env = {**kept, "VOICESIM_CACHE": str(folder / "cache"), "PYTHONNOUSERSITE": "1"}
    place = folder / "env"
    run(program, "-m", "venv", place, cwd=folder, env=env)
    python, command = place / "bin" / "python", place / "bin" / "voicesim"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")

    def played(name: str) -> bytes:
        where = run(python, "-c", "import voicesim; print(voicesim.__file__)", cwd=away, env=env)
        if not Path(where.strip()).resolve().is_relative_to(place):
            raise Unfit(f"{name}: voicesim is taken from {where.strip()}")
        run(command, "new", "mine.yaml", "--yes", "--force", cwd=away, env=env)
        run(command, "check", "mine.yaml", cwd=away, env=env)
        run(command, "run", "mine.yaml", "--set", "horizon=60s", "--set", "warmup=0s",
            "--workers", "1", "--quiet", "--out", name, cwd=away, env=env)  # fmt: skip
        return (away / name / "summary.json").read_bytes()

    away = folder / "away"
    away.mkdir()
    run(*pip, wheel, cwd=away, env=env)
    run(python, "-m", "pip", "check", cwd=away, env=env)
    first = played("wheel")
    run(*pip, "--force-reinstall", "--no-deps", sdist, cwd=away, env=env)
    if played("sdist") != first:
        raise Unfit(f"{program}: wheel and sdist give other numbers")
    calls = next(iter(json.loads(first)["variants"].values()))["offered"]["mean"]
    return f"wheel and sdist installed, mine.yaml played from both alike ({calls:,.0f} calls)"


if __name__ == "__main__":
    sys.exit(main())
