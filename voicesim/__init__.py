"""voicesim: discrete-event simulation of continuous-batching voice clusters.

The commands as functions: ``voicesim.run``, ``replay``, ``compare``, ``plan``, ``sweep``,
``tornado``, ``gate``, ``alarms``, ``calibrate``, ``ladder``, ``validate``, ``runs``, and ``load``
for a finished folder (docs/reference/python.md).
They are imported when first used, so that ``import voicesim`` and ``voicesim --help`` are
immediate.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voicesim.api import Answer as Answer
    from voicesim.api import Error as Error
    from voicesim.api import alarms as alarms
    from voicesim.api import calibrate as calibrate
    from voicesim.api import compare as compare
    from voicesim.api import gate as gate
    from voicesim.api import ladder as ladder
    from voicesim.api import load as load
    from voicesim.api import plan as plan
    from voicesim.api import run as run
    from voicesim.api import runs as runs
    from voicesim.api import sweep as sweep
    from voicesim.api import tornado as tornado
    from voicesim.api_recorded import replay as replay
    from voicesim.api_recorded import validate as validate

__version__ = "0.1.0"

API = {
    **dict.fromkeys(
        ("Answer", "Error", "alarms", "compare", "gate", "ladder", "load", "plan", "run", "runs",
         "sweep", "tornado"),
        "voicesim.api",
    ),
    **dict.fromkeys(("replay", "validate"), "voicesim.api_recorded"),
}  # fmt: skip
"""Names and their modules.  ``calibrate`` is beside them: the package of that name is called."""


def __getattr__(name: str) -> Any:
    import importlib

    if name == "calibrate":
        return importlib.import_module("voicesim.calibrate")
    if name in API:
        return getattr(importlib.import_module(API[name]), name)
    raise AttributeError(f"module 'voicesim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *API, "calibrate"])
