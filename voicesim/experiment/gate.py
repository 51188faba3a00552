"""May this candidate replace the baseline?  No, if a metric is shown to have got worse.

Either side is a finished folder or a scenario that is played now.  The judgement is that of
``experiment.judge``; this module finds the sides and says what was decided.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

import voicesim
from voicesim.experiment import judge as judging
from voicesim.experiment import sides
from voicesim.experiment.backends import backend as backend_of
from voicesim.experiment.backends import refuse
from voicesim.experiment.decide import ALPHA, UNMEASURED
from voicesim.experiment.judge import Asked, Judged
from voicesim.experiment.metrics import METRICS, ExperimentError, Metric, chosen
from voicesim.experiment.plan import SHARES, SHORT, TIMES, number_of
from voicesim.experiment.quality import QUALITY, quality_asked, read_quality
from voicesim.experiment.sides import Side
from voicesim.experiment.store import Store
from voicesim.files import finite, write_json, write_tables, write_whole
from voicesim.progress import Show, silent
from voicesim.scenario import ScenarioFile
from voicesim.schemas import current

GATE_SCHEMA = current("gate")
DEFAULT = (
    "ttfa_p99_s", "pace_p99", "clean_share", "stalled_share",
    "stall_seconds_per_1000_audio_minutes", "gpu_cost",
)  # fmt: skip
MEANINGS: dict[str, Metric] = {**METRICS, **QUALITY}
NAMES = {
    **{short: full for short, full in SHORT.items() if METRICS[full].better},
    **{name: name for name in (*SHARES, *METRICS) if METRICS[name].better},
}
"""What a metric may be called -> its name in the tables."""


@dataclass(frozen=True)
class Gate:
    """The answer.  paired: whether both sides met the same callers in every replication."""

    baseline: Side
    candidate: Side
    paired: bool
    judged: list[Judged]
    notes: list[str]

    @property
    def failed(self) -> list[Judged]:
        """The metrics that are shown to be worse."""
        return [j for j in self.judged if j.failed]

    @property
    def passed(self) -> bool:
        """True: nothing is shown to be worse (which is not: everything is shown to be as good)."""
        return not self.failed

    @property
    def table(self) -> pd.DataFrame:
        """One row per metric: means, difference with its 95 % interval, margin, p, verdict."""
        numbers = ("baseline", "candidate", "difference", "low", "high", "p", "p_holm", "sees")
        return pd.DataFrame(self.rows()).astype(dict.fromkeys(numbers, float))

    def rows(self) -> list[dict[str, Any]]:
        """``table`` as plain data; null: not measured, or no interval."""
        return [
            {
                "metric": j.metric, "verdict": j.verdict, "failed": j.failed,
                "baseline": finite(j.baseline), "candidate": finite(j.candidate),
                "difference": finite(j.difference.mean), "low": finite(j.difference.low),
                "high": finite(j.difference.high), "margin": j.margin,
                "p": j.p if j.tested else None, "p_holm": j.p_holm if j.tested else None,
                "sees": finite(j.sees), "how": j.how,
                "baseline_n": j.runs[0], "candidate_n": j.runs[1],
            }
            for j in self.judged
        ]  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """gate.json."""
        return {
            "schema": GATE_SCHEMA,
            "voicesim": voicesim.__version__,
            "title": self.candidate.title,
            "passed": self.passed,
            "variant": self.candidate.variant,
            "replications": len(self.candidate.table),
            "baseline": self.baseline.as_dict(),
            "candidate": self.candidate.as_dict(),
            "paired": self.paired,
            "familywise_error": ALPHA,
            "metrics": self.rows(),
            "notes": self.notes,
        }

    def write(self, folder: Path) -> None:
        """gate.json, gate.parquet, and the candidate as a baseline of later gates."""
        write_tables(folder, {"gate": self.table, "replications": self.candidate.table})
        variant = {self.candidate.variant: self.candidate.scenario}
        text = yaml.safe_dump(variant, sort_keys=False, allow_unicode=True)
        write_whole(folder / "scenario.yaml", text.encode())
        write_json(folder / "gate.json", self.as_dict())


def gate(
    baseline: Path | str,
    scenario: ScenarioFile | Path | str | None = None,
    candidate: Path | str | None = None,
    variant: str | None = None,
    baseline_variant: str | None = None,
    metrics: Sequence[str] = (),
    margins: Sequence[str] = (),
    quality: Path | str | None = None,
    model: str | None = None,
    baseline_model: str | None = None,
    replications: int | None = None,
    sets: Sequence[str] = (),
    seed: int | None = None,
    workers: int | None = None,
    backend: str = "processes",
    address: str | None = None,
    out: Path | str | None = None,
    progress: Show = silent,
) -> Gate:
    """Judge a candidate against a baseline.

    baseline: a finished folder (run, compare, gate) or a scenario file.  The candidate is a
    ``scenario`` played now, or another finished folder.  metrics: default DEFAULT, WER and MOS of
    ``quality`` beside them.  margins: METRIC=VALUE, a worsening that is allowed.  model: model
    version in the quality file, default the scenario's engine.model, else its profile's name.
    replications: of what is played now, default as many as the baseline has, else the file's, at
    least 10.  sets, seed: of the candidate's scenario.  out: folder for the answer, in which
    played runs are kept and found again.

    Raises ExperimentError (what was asked for), ScenarioErrors, ModelError, ProfileError,
    PolicyError, WorkerDied; KeyboardInterrupt passes through, finished runs are kept.
    """
    names = [_metric(m) for m in metrics] or list(DEFAULT)
    allowed = dict(_margin(text) for text in margins)
    refuse(backend, workers, address)
    if (scenario is None) == (candidate is None):
        raise ExperimentError("give either a scenario to play or the folder of a candidate")
    new = scenario or Path(str(candidate))
    _refuse_idle(new, Path(baseline), {"--set": sets, "--seed": seed}, {
        "--replications": replications, "--workers": workers, "--address": address,
        "--backend": None if backend == "processes" else backend,
    })  # fmt: skip
    for option, given in (("--model", model), ("--baseline-model", baseline_model)):
        if given is not None and quality is None:
            raise ExperimentError(f"{option} {given}: is looked up in --quality FILE, "
                                  "which is not given")  # fmt: skip
    grades = None if quality is None else read_quality(Path(quality))
    unused = [m for m in allowed if m not in names and (grades is None or m not in QUALITY)]
    if unused:
        raise ExperimentError(f"--margin {unused[0]}: that metric is not judged")
    store = Store(None if out is None else Path(out))
    find = sides.Finder(replications, store, lambda: backend_of(backend, workers, address),
                        progress)  # fmt: skip
    a, b = find.both(Path(baseline), new, baseline_variant, variant, sets, seed)  # fmt: skip
    paired = sides.same_callers(a, b)
    asked = [judging.asked_of(m, METRICS[m].better, a.table, b.table, paired) for m in names]
    notes = [*sides.notes(a, b, paired), *_partly(asked, len(a.table), len(b.table))]
    if grades is not None:
        versions = baseline_model or a.model, model or b.model
        graded = quality_asked(grades, Path(str(quality)), *versions)
        if not graded:
            notes.append(f"WER and MOS are not judged: both sides run {versions[0]}")
        asked += graded
    judged = judging.judge(asked, allowed)
    if all(j.verdict == UNMEASURED for j in judged):
        raise ExperimentError(f"nothing to judge: no side measured {', '.join(names)}")
    answer = Gate(a, b, paired, judged, notes)
    if store.folder is not None:
        answer.write(store.folder)
    return answer


def _refuse_idle(
    new: ScenarioFile | Path | str, old: Path, candidate: Mapping[str, Any],
    played: Mapping[str, Any],
) -> None:  # fmt: skip
    """Refuse options of a scenario where there is none: of the candidate's, or of either side's."""
    folder = not isinstance(new, ScenarioFile) and sides.is_folder(Path(new))
    idle = {**(candidate if folder else {}), **(played if folder and sides.is_folder(old) else {})}
    found = next((option for option, given in idle.items() if given not in (None, (), [])), None)
    if found is not None:
        raise ExperimentError(f"{found} is of a scenario that is played, not of a folder")


def _partly(asked: Sequence[Asked], *played: int) -> list[str]:
    """Metrics that some replications could not measure."""
    return [
        f"{each.metric}: measured in {n} of {most} replications of the {side}"
        for each in asked
        for side, n, most in zip(("baseline", "candidate"), each.runs, played, strict=True)
        if 0 < n < most
    ]


def _metric(name: str) -> str:
    return NAMES[chosen(name, list(NAMES), "metric")]


def _margin(text: str) -> tuple[str, float]:
    """METRIC=VALUE: shares and WER in points (0.5%), times with a unit, else plain numbers."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ExperimentError(f"--margin {text}: expected METRIC=VALUE such as ttfa_p99=20ms")
    known: Mapping[str, str] = {**NAMES, **{q: q for q in QUALITY}}
    metric = known[chosen(name.strip(), list(known), f"--margin {text}: metric")]
    unit = "share" if MEANINGS[metric].points else "s" if metric in TIMES else ""
    try:
        margin = number_of(value.strip(), unit)
        if not 0.0 <= margin < math.inf:
            raise ValueError(f"a margin is 0 or more; found {value.strip()!r}")
    except ValueError as problem:
        raise ExperimentError(f"--margin {text}: {problem}") from None
    return metric, margin
