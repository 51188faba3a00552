"""The forms of the files that voicesim reads and writes: their versions, and what changed.

A file says ``schema: voicesim-KIND/MAJOR.MINOR``; ``/1`` is short for ``/1.0``.  The major rises
when a name goes or changes its meaning, the minor when names are added.  Every reader asks
``understood``, so that an older or a newer file is told the same everywhere
(docs/reference/versions.md).
"""

import re
import warnings
from dataclasses import dataclass

import voicesim

VERSIONS = {
    "scenario": (1, 0),
    "profile": (1, 0),
    "measure": (1, 0),
    "summary": (1, 0),
    "comparison": (1, 0),
    "plan": (1, 0),
    "ladder": (1, 0),
    "gate": (1, 0),
    "sweep": (1, 0),
    "tornado": (1, 0),
    "alarms": (1, 0),
    "validation": (1, 0),
    "accuracy": (1, 0),
    "experiment-run": (2, 0),
}
"""KIND -> the version that is written, and the newest that can be read."""

MIGRATIONS: dict[str, dict[int, tuple[str, ...]]] = {
    "experiment-run": {
        2: ("live streams over the horizon are kept too; nothing to do, such runs are played anew",)
    },
}
"""KIND -> a major -> what it changed, each as what to write or do instead.

A major without an entry here fails a test: whoever raises one says how to migrate.
"""


class SchemaError(ValueError):
    """A file whose form this voicesim does not read; one line, without the file's name."""


class NewerWarning(UserWarning):
    """A file of a newer minor version is read; what that version added is not known here."""


@dataclass(frozen=True)
class Schema:
    """What a file says of its form."""

    kind: str
    major: int
    minor: int

    def __str__(self) -> str:
        return f"voicesim-{self.kind}/{self.major}" + (f".{self.minor}" if self.minor else "")


def current(kind: str) -> str:
    """The schema of what is written now."""
    return str(Schema(kind, *VERSIONS[kind]))


def parsed(text: object) -> Schema | None:
    """The schema that a file states; None if that is none of voicesim's."""
    found = re.fullmatch(
        r"voicesim-([a-z0-9_-]+)/(\d{1,6})(?:\.(\d{1,6}))?",
        text if isinstance(text, str) else "",
        re.ASCII,
    )
    return Schema(found[1], int(found[2]), int(found[3] or 0)) if found else None


def understood(text: object, kind: str | None = None) -> str | None:
    """None if a file with this schema can be read in full, a note if it is of a newer minor.

    kind: the one that is asked for; None: any, also one that is not in VERSIONS, of which nothing
    is known.  Raises SchemaError for what cannot be read, with what to do.
    """
    found = parsed(text)
    if found is None or (kind is not None and found.kind != kind):
        allowed = current(kind) if kind else "voicesim-KIND/VERSION"
        raise SchemaError(f"found {_shown(text)}; allowed: {allowed}")
    if found.kind not in VERSIONS:
        return None
    major, minor = VERSIONS[found.kind]
    reads = f"this voicesim ({voicesim.__version__}) reads {current(found.kind)}"
    if found.major > major:
        raise SchemaError(f"{found} was made by a newer voicesim; {reads}: upgrade voicesim")
    if found.major < 1:
        raise SchemaError(f"{found} is of no version of voicesim; {reads}")
    if found.major < major:
        steps = MIGRATIONS.get(found.kind, {})
        changed = "; ".join(
            f"{number}: {text}"
            for number in range(found.major + 1, major + 1)
            for text in steps.get(number, ())
        )
        raise SchemaError(
            f"{found} is older than what can be read; {reads}. To migrate, by the major that "
            f"changed it: {changed}. Then write {current(found.kind)}"
        )
    if found.minor > minor:
        return f"{found} is of a newer voicesim; {reads}: what was added since is not known here"
    return None


def warn(file: object, note: str | None) -> None:
    """Say the note that ``understood`` gave; the commands print it as a line on stderr."""
    if note is not None:
        warnings.warn(f"{file}: {note}", NewerWarning, stacklevel=3)


def _shown(text: object) -> str:
    if text is None or isinstance(text, bool):
        return {None: "nothing", True: "true", False: "false"}[text]
    words = repr(text) if isinstance(text, str | int | float) else f"a {type(text).__name__}"
    return words if len(words) <= 60 else words[:57] + "..."
