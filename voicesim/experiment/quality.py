"""WER and MOS that the user measured for each model version: a small YAML file.

tts-2026-10:
  wer: {value: 3.1%, low: 2.8%, high: 3.4%}     # 95 % interval
  mos: {samples: [4.2, 4.5, 3.9, 4.4, 4.1, 4.6]}
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scipy.stats import norm

from voicesim.experiment import method
from voicesim.experiment.judge import GIVEN, LEAST, Asked
from voicesim.experiment.method import LEVEL, Estimate
from voicesim.experiment.metrics import ExperimentError, Metric
from voicesim.report import words
from voicesim.scenario.errors import Problem, ScenarioErrors, choices, shown, unknown
from voicesim.scenario.loader import read

QUALITY = {
    "wer": Metric("WER", -1, 0.0, words.percent, points=True),
    "mos": Metric("MOS", 1, 0.0, lambda x, of=None: f"{x:.2f}"),
}
RANGES = {"wer": (0.0, math.inf), "mos": (1.0, 5.0)}
"""Least and largest value.  A word error rate may exceed 1 (insertions); a mean opinion score runs
from 1 to 5 (ITU-T P.800, https://www.itu.int/rec/T-REC-P.800)."""

Quality = dict[str, dict[str, Estimate]]
"""Model version -> wer, mos -> estimate."""


def read_quality(path: Path) -> Quality:
    """Read the file; raises ScenarioErrors with everything that is wrong, by line."""
    try:
        tree = read(path.read_bytes(), path.name)
    except OSError as error:
        raise ScenarioErrors(
            [Problem(str(path), 0, "", f"cannot be read: {error.strerror}")]
        ) from None
    problems, found = list(tree.problems), Quality()
    for version, of in tree.data.items():
        if not isinstance(of, dict) or not of:
            problems.append(tree.problem((version,), f"expected wer and mos; found {shown(of)}"))
            continue
        found[version] = {}
        for name, given in of.items():
            try:
                found[version][name] = _estimate(name, given)
            except ValueError as error:
                problems.append(tree.problem((version, name), str(error)))
    if problems:
        raise ScenarioErrors(problems)
    return found


def quality_asked(found: Quality, path: Path, baseline: str, candidate: str) -> list[Asked]:
    """What the file says of the two model versions; raises ExperimentError for one it lacks."""
    for side, version in (("baseline", baseline), ("candidate", candidate)):
        if version not in found:
            option = "--baseline-model" if side == "baseline" else "--model"
            text = unknown(version, found, f"no model version {version!r} (the {side}'s)")
            raise ExperimentError(f"{path.name}: {text}; {option} names another")
    if baseline == candidate:
        return []
    a, b = found[baseline], found[candidate]
    for name in RANGES:
        if (name in a) != (name in b):
            lacks = baseline if name in b else candidate
            raise ExperimentError(f"{path.name}: {lacks}: lacks {name}, which the other has")
    return [
        Asked(name, QUALITY[name].better, GIVEN, (a[name].n, b[name].n), a[name].mean, b[name].mean,
              method.difference(a[name], b[name]))
        for name in QUALITY if name in a
    ]  # fmt: skip


def _estimate(name: str, given: Any) -> Estimate:
    if name not in RANGES:
        raise ValueError(unknown(name, RANGES))
    keys = set(given) if isinstance(given, Mapping) else set()
    if keys == {"samples"} and isinstance(given["samples"], list):
        values = [_number(name, x) for x in given["samples"]]
        if len(values) < LEAST:
            raise ValueError(f"{len(values)} samples; at least {LEAST} are needed")
        return method.estimate(values)
    if keys != {"value", "low", "high"}:
        raise ValueError(
            "expected {value, low, high} (a 95 % interval) or {samples: [...]}; found "
            + (choices(sorted(keys)) if keys else shown(given))
        )
    low, value, high = (_number(name, given[k]) for k in ("low", "value", "high"))
    if not low <= value <= high:
        raise ValueError(f"low <= value <= high does not hold: {low:g}, {value:g}, {high:g}")
    error = (high - low) / (2.0 * norm.ppf(0.5 + LEVEL / 2.0))
    return Estimate(value, float(error), math.inf, 1)


def _number(name: str, given: Any) -> float:
    least, most = RANGES[name]
    text = str(given).strip()
    percent = name == "wer" and text.endswith("%")
    try:
        value = float(text.removesuffix("%") if percent else text) / (100.0 if percent else 1.0)
    except ValueError:
        value = math.nan
    if isinstance(given, bool) or not least <= value <= most or math.isinf(value):
        limits = "a share such as 3.1% or 0.031" if name == "wer" else "a number from 1 to 5"
        raise ValueError(f"expected {limits}; found {shown(given)}")
    return value
