"""From measurements to a profile: readers, fit, goodness of fit.

The package may be called: ``voicesim.calibrate(files)`` is ``voicesim.api.calibrate``.
"""

import sys
from types import ModuleType
from typing import Any

from voicesim.calibrate.describe import describe
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.run import calibrate, run_calibrate

__all__ = ["CalibrationError", "calibrate", "describe", "run_calibrate"]


class _Callable(ModuleType):
    """A package of the same name as a function beside the others of ``voicesim``."""

    def __call__(self, *files: Any, **asked: Any) -> Any:
        from voicesim.api import calibrate

        return calibrate(*files, **asked)


sys.modules[__name__].__class__ = _Callable
