"""The file a user writes: its schema, units, overrides, presets, and errors with line numbers."""

from .errors import Problem, ScenarioErrors
from .loader import ScenarioFile, load, load_rules, loads
from .schema import Scenario
from .units import Distribution

__all__ = [
    "Distribution",
    "Problem",
    "Scenario",
    "ScenarioErrors",
    "ScenarioFile",
    "load",
    "load_rules",
    "loads",
]
