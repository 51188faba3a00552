"""From measurements to a profile: readers, fit, goodness of fit."""

from voicesim.calibrate.describe import describe
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.run import calibrate, run_calibrate

__all__ = ["CalibrationError", "calibrate", "describe", "run_calibrate"]
