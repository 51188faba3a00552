"""The commands as functions, for notebooks and scripts: ``voicesim.run``, ``voicesim.plan``, ...

A function takes what its command takes and calls what its command calls; there is no logic here.
It writes nothing unless ``out`` says where, and is quiet unless ``progress`` is True (then it
shows what the command shows, on stderr).  Each gives an ``Answer``.  What a command would print
as an error is raised as ``Error``, with the same text.

To add a command: a function here that returns an Answer, and its name in ``voicesim/__init__``.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console

from voicesim.calibrate import describe
from voicesim.calibrate.describe import quantities
from voicesim.engine.profile import Profile
from voicesim.experiment import ladder as ladders
from voicesim.experiment.alarms import Backtest, backtest
from voicesim.experiment.backends import refuse
from voicesim.experiment.compare import Comparison
from voicesim.experiment.compare import compare as compared
from voicesim.experiment.folders import ROW, listing
from voicesim.experiment.gate import Gate
from voicesim.experiment.gate import gate as gated
from voicesim.experiment.inputs import share_of
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.plan import Plan
from voicesim.experiment.plan import plan as planned
from voicesim.experiment.sweep import Sweep
from voicesim.experiment.sweep import sweep as swept
from voicesim.experiment.table import print_comparison
from voicesim.experiment.tornado import Tornado
from voicesim.experiment.tornado import tornado as blown
from voicesim.metrics.summary import summary_table
from voicesim.progress import Progress
from voicesim.report import alarms as alarm_report
from voicesim.report import compare_figure, loaded, studies, sweep_figure, tornado_figure
from voicesim.report import figure as peak
from voicesim.report import ladder as climbing
from voicesim.report import sweep as sweep_report
from voicesim.report import tornado as tornado_report
from voicesim.report.alarms_figure import draw as alarm_figure
from voicesim.report.calibrate import calibrated
from voicesim.report.compare import tell_comparison
from voicesim.report.dialogue_figure import draw as waterfall
from voicesim.report.gate import tell_gate
from voicesim.report.ladder_figure import draw as ladder_figure
from voicesim.report.plan import print_plan, tell_plan, teller
from voicesim.report.run import How, play, show
from voicesim.report.sides import print_gate
from voicesim.report.sweep import print_sweep
from voicesim.report.tornado import print_tornado, verdict
from voicesim.runfolder import RunFolder
from voicesim.scenario import ScenarioFile
from voicesim.scenario import load as load_scenario
from voicesim.simulation import checked
from voicesim.study import StudyResult

T = TypeVar("T")
Where = str | Path
Texts = str | Sequence[str]
"""Several, or one as it is."""


class Error(ValueError):
    """What was given is wrong; the text is what the command prints (a line per problem)."""


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What a command finds.

    found: the object that the command prints from, with everything in it.  table: the rows that
    the folder holds.  summary: the short of it.  ``print(answer)`` is what the command prints.
    Columns ending in _s are seconds, shares are 0 to 1, gpu_cost is the price's money.
    """

    found: T
    table: pd.DataFrame = field(repr=False)
    summary: pd.DataFrame = field(repr=False)
    _draw: Callable[[], Figure] = field(repr=False)
    _print: Callable[[Console], None] = field(repr=False)

    def figure(self) -> Figure:
        """A new figure of it, on no canvas: a notebook shows it, ``savefig`` writes it."""
        return self._draw()

    def __str__(self) -> str:
        text = io.StringIO()
        plain = Console(
            file=text, width=120, color_system=None, force_terminal=False, force_jupyter=False
        )
        self._print(plain)
        return "\n".join(line.rstrip() for line in text.getvalue().strip("\n").split("\n"))

    def _repr_html_(self) -> str:
        html: str = self.summary.to_html(index=False, na_rep="n/a", float_format="{:.4g}".format)
        return html


def run(
    file: ScenarioFile | Where,
    *,
    sets: Texts = (),
    seed: int | None = None,
    replications: int | None = None,
    workers: int | None = None,
    chunks: bool = False,
    engine: str = "kernel",
    backend: str = "processes",
    address: str | None = None,
    marginal: bool = False,
    rows: bool | None = None,
    out: Where | None = None,
    progress: bool = False,
) -> Answer[StudyResult]:
    """Run every variant of a scenario, as ``voicesim run``.

    file: a path, or what ``voicesim.scenario.load`` gives (then without sets, seed and
    replications).  sets: overrides such as "horizon=5min".  workers: processes, default one per
    core.  chunks: also write every chunk.  engine: kernel or reference.  marginal: dialogues also
    with one thing changed at a time.  rows: write a row for every call, stream and stall (True) or
    count them only (False); None: by size.  out: run folder.

    table: a row per variant and replication, every metric.  summary: a row per variant and
    metric: mean, low, high (95 %).  Raises Error.
    """
    with said(file):
        how = how_of(workers, chunks, engine, backend, address)
        how = replace(how, marginal=marginal, rows=rows)
        study = checked(_read(file, sets, seed, replications))
        folder = None if out is None else RunFolder(Path(out))
        found = play(study, folder, how, not progress)
        if folder is not None:
            folder.publish()
    return run_answer(found)


def compare(
    file: ScenarioFile | Where,
    baseline: str | None = None,
    metrics: Texts = ("clean_share",),
    *,
    sets: Texts = (),
    seed: int | None = None,
    precision: float = 0.1,
    width: float | None = None,
    max_replications: int = 40,
    first: int | None = None,
    budget: float | None = None,
    workers: int | None = None,
    backend: str = "processes",
    address: str | None = None,
    out: Where | None = None,
    progress: bool = False,
) -> Answer[Comparison]:
    """Compare variants under the same callers, as ``voicesim compare``.

    budget: seconds of wall time.  The other parameters: experiment.compare.  table: a row per
    variant and metric: difference from the baseline with its interval, verdict.  summary: every
    metric's mean and interval.  Raises Error, WorkerDied.
    """
    with said(file), Progress(not progress) as bar:
        found = compared(
            _read(file, sets, seed), baseline, many(metrics), precision, width, max_replications,
            first,
            budget, workers, backend, address, out, bar.show,
        )  # fmt: skip
        if out is not None:
            tell_comparison(found, Path(out))
    return Answer(
        found,
        found.differences,
        found.summary,
        lambda: compare_figure.draw(found),
        lambda console: print_comparison(found, console),
    )


def gate(
    baseline: Where,
    scenario: ScenarioFile | Where | None = None,
    candidate: Where | None = None,
    *,
    progress: bool = False,
    **asked: Any,
) -> Answer[Gate]:
    """Judge a candidate against a baseline, as ``voicesim gate``.

    asked: the other parameters of experiment.gate.gate.  table: a row per metric.  summary:
    metric, verdict, failed.  ``found.passed`` is the decision.  Raises Error, WorkerDied.
    """
    with said(None), Progress(not progress) as bar:
        found = gated(baseline, scenario, candidate, progress=bar.show, **_lists(asked))
        if asked.get("out") is not None:
            tell_gate(found, Path(asked["out"]))
    table = found.table
    return Answer(
        found,
        table,
        table[list(loaded.SHORT["gate"])],
        lambda: loaded.gate_figure(table, found.candidate.variant),
        lambda console: print_gate(found, console),
    )


def plan(
    file: ScenarioFile | Where,
    slo: Texts,
    vary: Texts,
    *,
    sets: Texts = (),
    seed: int | None = None,
    variant: str | None = None,
    confidence: float = 0.95,
    max_replications: int = 40,
    workers: int | None = None,
    backend: str = "processes",
    address: str | None = None,
    out: Where | None = None,
    progress: bool = False,
) -> Answer[Plan]:
    """Find the cheapest setting that meets every SLO, as ``voicesim plan``.

    slo: such as "clean>=99%".  vary: such as "pools.tts.replicas=4..64".  table: a row per
    setting judged and SLO.  summary: a row per setting, the cheapest first.  ``found.answer`` is
    None if no setting was shown to meet.  Raises Error, WorkerDied.
    """
    with said(file), Progress(not progress) as bar:
        found = planned(
            _read(file, sets, seed), many(slo), many(vary), variant, confidence, max_replications,
            workers, backend, address, out, bar.show, teller(bar),
        )  # fmt: skip
    if out is not None:
        tell_plan(found, Path(out))
    table, data = found.table, found.as_dict()
    return Answer(
        found,
        table,
        loaded.plan_summary(table),
        lambda: loaded.plan_picture(table, data),
        lambda console: print_plan(found, console),
    )


def sweep(
    file: ScenarioFile | Where,
    vary: Texts = (),
    *,
    sets: Texts = (),
    seed: int | None = None,
    progress: bool = False,
    **asked: Any,
) -> Answer[Sweep]:
    """Play a grid, a hypercube or a list of settings, as ``voicesim sweep``.

    vary: such as "pools.tts.replicas=4..16:4".  asked: the other parameters of
    experiment.sweep.sweep (points, settings, metrics, ...).  table: a row per setting and
    replication.  summary: a row per setting and metric.  Raises Error, WorkerDied.
    """
    with said(file), Progress(not progress) as bar:
        read = _read(file, sets, seed)
        found = swept(read, many(vary), progress=bar.show, **_lists(asked))
        if asked.get("out") is not None:
            sweep_report.draw_and_tell(found, Path(asked["out"]))
    return Answer(
        found,
        found.runs,
        found.means,
        lambda: sweep_figure.figure_of(found, found.metrics[0]),
        lambda console: print_sweep(found, console),
    )


def tornado(
    file: ScenarioFile | Where,
    vary: Texts = (),
    assume: str | float | None = None,
    *,
    sets: Texts = (),
    seed: int | None = None,
    progress: bool = False,
    **asked: Any,
) -> Answer[Tornado]:
    """Which input, moved over its interval, moves a metric most, as ``voicesim tornado``.

    vary: such as "workload.arrivals.rate=4/s..8/s".  assume: share by which what has no interval
    moves, "20%" or 0.2.  asked: the other parameters of experiment.tornado.tornado (metric, ...).
    table: a row per end of each input and replication.  summary: a row per end of each input.
    Raises Error, WorkerDied.
    """
    with said(file), Progress(not progress) as bar:
        share = share_of(assume) if isinstance(assume, str) else assume
        read = _read(file, sets, seed)
        found = blown(read, many(vary), share, progress=bar.show, **_lists(asked))
        if asked.get("out") is not None:
            tornado_report.draw_and_tell(found, Path(asked["out"]))
    return Answer(
        found,
        found.runs,
        found.table,
        lambda: tornado_figure.figure_of(found, verdict(found)[0]),
        lambda console: print_tornado(found, console),
    )


def alarms(
    file: ScenarioFile | Where,
    rules: str | None = None,
    *,
    sets: Texts = (),
    seed: int | None = None,
    out: Where | None = None,
    progress: bool = False,
    **asked: Any,
) -> Answer[Backtest]:
    """Back-test alert rules on simulated peaks, as ``voicesim alarms``.

    rules: a file of rules or "shipped"; None: the scenario's own, else the shipped ones.  asked:
    the other parameters of experiment.alarms.backtest (scrape, horizon, ...).  table and summary:
    a row per variant and rule.  Raises Error, WorkerDied.
    """
    with said(file), Progress(not progress) as bar:
        read, asked = _read(file, sets, seed), _lists(asked)
        chosen, source = alarm_report.rules_of(read, rules, asked.get("variants", ()))
        folder = None if out is None else Path(out)
        found = backtest(read, chosen, source, out=folder, progress=bar.show, **asked)
        if folder is not None:
            alarm_report.write(found, folder)
    return Answer(
        found,
        found.table,
        found.table[list(loaded.SHORT["alarms"])],
        lambda: alarm_figure(found),
        lambda console: alarm_report.print_alarms(found, console),
    )


def calibrate(
    files: Where | Sequence[Where],
    name: str | None = None,
    *,
    output: Where | None = None,
    token_audio_s: float | None = None,
    prior: str | None = None,
    reply: float | str | None = None,
    chunk: str | None = None,
    loads: str | None = None,
) -> Answer[Profile]:
    """Fit a profile to measured files, as ``voicesim calibrate``.

    name: of the profile, default from the output's, else the first file's.  output: profile to
    write (YAML).  token_audio_s: seconds of audio per decode step.  prior: gpu=NAME,model=NAME,
    for what the files cannot tell.  reply, chunk, loads: of aggregates, where the files do not say
    them: mean reply ("4s", or tokens), chunks ("4,8,25", "all"), loads ("1,2,4", "2.5/s").
    table: the samples, or figures, that were fitted.  summary: a row per
    parameter: value, low, high (5 % to 95 %), origin.  Raises Error.
    """
    paths = [Path(f) for f in many(files)]
    with said(None):
        about = dict(reply=None if reply is None else str(reply), chunk=chunk, loads=loads)
        target = None if output is None else Path(output)
        fitted = calibrated(paths, target, name, token_audio_s, prior, None, about)
    profile = fitted.profile
    rows = [
        {"parameter": n, "value": q.value, "low": q.low, "high": q.high, "origin": q.origin}
        for n, q in quantities(profile)
    ]
    return Answer(
        profile,
        fitted.table,
        pd.DataFrame(rows),
        fitted.draw,
        lambda console: console.print(describe(profile), markup=False, highlight=False),
    )


def ladder(
    profile: Where,
    levels: Sequence[int] | int | str = (1, 2, 4, 8, 16, 32, 64, 128),
    *,
    seeds: int = 10,
    limit: float = 1.2,
    audio: float | str | None = None,
    prompt: int | None = None,
    chunk: Sequence[int] | int | str | None = None,
    codec_cap: int | None = None,
    codec_queue: str | None = None,
    left_context: int | None = None,
    token_audio: float | str | None = None,
    workers: int = 1,
    out: Where | None = None,
    progress: bool = False,
) -> Answer[ladders.Ladder]:
    """Find the largest concurrency of one replica that keeps the pace, as ``voicesim ladder``.

    levels: requests in flight.  limit: least p99 pace.  audio: mean of a reply, token_audio: of
    a decode step, seconds or with a unit.  prompt, chunk, left_context: tokens and frames.  None:
    as the profile's published figures were measured, else the usual: 8 s, 60 tokens (1 if the
    profile measured no prompt), 4,8,16,25, batches of 8, fifo, 0.  table: a row per level.
    summary: the figures of the ladder.  Raises Error.
    """

    def text(value: float | str | None) -> str | None:
        return value if value is None or isinstance(value, str) else f"{value}s"

    asked = dict(
        levels=",".join(map(str, many(levels))), prompt=prompt, audio=text(audio),
        chunk=None if chunk is None else ",".join(map(str, many(chunk))), codec_cap=codec_cap,
        codec_queue=codec_queue, left_context=left_context, token_audio=text(token_audio),
    )  # fmt: skip
    with said(None):
        load, steps = climbing.read(Path(profile), asked)
        folder = None if out is None else RunFolder(Path(out), climbing.FILES, ())
        with Progress(not progress) as bar:
            found = ladders.climb(load, steps, seeds, limit, workers, bar.show)
        if folder is not None:
            climbing.write_ladder(found, folder)
            folder.publish()
    data = ladders.as_data(found)
    return Answer(
        found,
        pd.DataFrame(data["levels"]),
        loaded.ladder_summary(data),
        lambda: ladder_figure(found),
        lambda console: climbing.print_ladder(found, console),
    )


def load(folder: Where) -> Answer[loaded.Study]:
    """Read a finished folder of any command, as ``voicesim runs`` does.

    found: its kind, schema and JSON (``found.data``).  table and summary: as the command's
    function gives them, from the folder's files.  Raises Error.
    """
    with said(None):
        found = loaded.open_study(Path(folder))

    def draw() -> Figure:
        with said(None):
            return found.figure()

    return Answer(found.study, found.table, found.summary, draw, found.show)


def runs(folder: Where = "runs") -> pd.DataFrame:
    """What the folders under ``folder`` hold, as ``voicesim runs``.

    A row per study, the latest first, with the fields of ``--json`` (written: a UTC time);
    folders that cannot be read are last, each with its ``problem``.  Raises Error.
    """
    with said(None):
        table = pd.DataFrame(listing(Path(folder)), columns=list(ROW))
    return table.assign(written=pd.to_datetime(table["written"].astype(float), unit="s", utc=True))


# --- shared -----------------------------------------------------------------------------------


def run_answer(found: StudyResult) -> Answer[StudyResult]:
    """The answer of a run or a replay."""
    return Answer(
        found,
        found.replications,
        summary_table(found.summary),
        lambda: (
            waterfall(found.summary, found.context)
            if found.of_dialogues
            else peak.draw(found.series, found.summary, found.context)
        ),
        lambda console: show(found, console),
    )


def how_of(
    workers: int | None, chunks: bool, engine: str, backend: str, address: str | None
) -> How:
    """How a run is played; raises ExperimentError for an unknown engine or an idle knob."""
    if engine not in ("kernel", "reference"):
        raise ExperimentError(f"engine: found {engine!r}; allowed: kernel, reference")
    refuse(backend, workers, address)
    return How(workers, chunks, engine, backend, address)


def many(given: Any) -> Sequence[Any]:
    """A list, or one of what it would hold."""
    one = isinstance(given, str) or not isinstance(given, Iterable)
    return [given] if one else list(given)


def _lists(asked: dict[str, Any]) -> dict[str, Any]:
    """The parameters that are lists of texts, as lists."""
    names = {"metrics", "margins", "variants", "sets"}
    return {name: many(value) if name in names else value for name, value in asked.items()}


def _read(
    file: ScenarioFile | Where, sets: Texts, seed: int | None,
    replications: int | None = None,
) -> ScenarioFile:  # fmt: skip
    if not isinstance(file, ScenarioFile):
        return load_scenario(file, many(sets), seed, replications)
    if sets or seed is not None or replications is not None:
        raise ExperimentError("sets, seed and replications go to voicesim.scenario.load instead")
    return file


@contextmanager
def said(file: object) -> Iterator[None]:
    """Errors as the commands say them: with the scenario's path where that is not in the text."""
    path = file.path if isinstance(file, ScenarioFile) else file
    try:
        yield
    except (*studies.SAID, *studies.OF_FILE, OSError) as problem:
        raise Error(studies.said(problem, path)) from problem
