"""Experiments: replicate and compare variants, with the uncertainty of every difference."""

from voicesim.experiment.compare import Comparison, compare
from voicesim.experiment.metrics import METRICS, ExperimentError

__all__ = ["METRICS", "Comparison", "ExperimentError", "compare"]
