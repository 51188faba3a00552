"""The profiles that ship, by name, wherever voicesim is installed."""

import difflib
from pathlib import Path

SHIPPED = "shipped:"
"""Before the name of one, where a file could stand too."""


def folder() -> Path:
    """Where the profiles lie: in the package once installed, else in the repository."""
    home = Path(__file__).parents[1]
    inside = home / "profiles"
    return inside if inside.is_dir() else home.parent / "calibration" / "profiles"


def names() -> list[str]:
    """Of all of them, in order."""
    return sorted(file.stem for file in folder().glob("*.yaml"))


def shipped_profile(name: str) -> Path:
    """The file of a profile that ships, ``shipped:`` before its name or not.

    Raises KeyError with a sentence that names the nearest.
    """
    plain = name.removeprefix(SHIPPED)
    known = names()
    if plain in known:
        return folder() / f"{plain}.yaml"
    close = difflib.get_close_matches(plain[:200], known, n=1, cutoff=0.4)
    hint = f"; did you mean {SHIPPED + close[0]!r}?" if close else ""
    raise KeyError(f"no profile {plain!r} ships{hint} (voicesim profiles lists them)")


def profile_file(given: Path) -> Path:
    """What a command line names: a file, else a profile that ships, else what was given."""
    try:
        return given if given.exists() else shipped_profile(str(given))
    except (KeyError, OSError, ValueError):
        return given
