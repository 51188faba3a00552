"""A published voice agent: stages fitted at some loads, the whole delay predicted at the others.

The page gives means of each stage and of the whole turn at so many parallel clients.  A client
speaks, waits for the answer, waits ``think_s`` more and speaks again.  Nothing is known of the
engines' steps, so each stage has one number: a recogniser's batch, an engine's step with one
stream; and a turn has what it takes outside the stages.  What a further stream adds to a step is
no fit but a prior: it is among the settings, with its reason.
"""

import csv
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from voicesim.engine.cost import MEMORY, N_STEP_PARAMS, NORM, StepCost
from voicesim.engine.spec import PoolSpec
from voicesim.experiment.published import COLUMNS
from voicesim.metrics.dialogue_run import SEGMENTS, Played, Terms
from voicesim.metrics.dialogue_tables import segments
from voicesim.scenario import loads
from voicesim.session.build import dialogue_spec, dialogue_tape
from voicesim.session.dialogue import Dialogue, record
from voicesim.session.record import A_SPOKEN
from voicesim.session.spec import DialogueSpec
from voicesim.session.tape import DialogueTape

WHOLE = "e2e_turn_latency"
METRICS = {
    WHOLE: "total_s",
    "asr_latency": "asr_s",
    "llm_first_sentence": "llm_s",
    "tts_ttfb": "tts_s",
}
"""Figures of the page and the columns of turns.parquet that are the same (LLM TTFT is a part)."""
SETTINGS = (
    "silence_s", "think_s", "window_s", "speech_s", "reply_s", "llm_more_s", "tts_more_s",
)  # fmt: skip
WINDOWS = 4
"""Observed windows that a predicted mean is taken over: it is the expected one, not one run's."""


@dataclass(frozen=True)
class Fitted:
    """Seconds.  asr: a batch; llm, tts: a step of one stream; rest: of every turn, outside the
    stages."""

    asr: float
    llm: float
    tts: float
    rest: float


START = (0.04, 0.01, 0.015)


Figures = Mapping[int, Mapping[str, float]]
World = tuple[DialogueSpec, DialogueTape]


def read_cascade(path: Path) -> tuple[dict[str, float], Figures]:
    """(settings, figures by load and metric) of a file of the form of a published ladder.

    Raises ValueError for a header that is not its own, or a number that is none.
    """
    given: dict[str, float] = {}
    figures: dict[int, dict[str, float]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise ValueError(f"{path.name}: columns: allowed: {', '.join(COLUMNS)}")
        for row in reader:
            if row["metric"] in SETTINGS:
                given[row["metric"]] = float(row["value"])
            elif row["load"] and row["metric"] in METRICS:
                figures.setdefault(int(row["load"]), {})[row["metric"]] = float(row["value"])
    return given, figures


PROFILE = """\
schema: voicesim-profile/1
name: stage
form: fitted
token_audio_s: 0.08
decode: {norm: 1, memory_s: {value: 0.01, origin: assumed}}
"""
SCENARIO = """\
horizon: {settle}s
drain: {window}s
workload:
  kind: dialogue
  arrivals: {{kind: burst, size: {clients}, spread: {clients}s}}
  turns: 1000
  speech: {{lognormal: {{median: {speech_s}s, sigma: 0.4}}}}
  think: {think_s}s
  pauses: {{share: 0}}
  patience: 1h
  reply: {{sentences: 2, sentence: {sentence}s, tail: {{share: 0}}}}
  context: {{system: 1, per_turn: 0, speech_tokens_per_second: 0.001}}
  barge_in: {{hazard: 0/s, false: 0/s, backchannel: {{hazard: 0/s}}}}
cluster:
  gpus: {{card: {{count: 3}}}}
  pools:
    asr: {{role: asr, on: card, asr: {{kind: streaming, chunk: 160ms, cost: {{floor: 1ms}}}}}}
    llm: {{role: llm, on: card, engine: {{profile: stage.yaml, kv_blocks: 100000}}}}
    tts: {{role: tts, on: card, engine: {{profile: stage.yaml, kv_blocks: 100000}},
           chunk: {{first: 5, steady: 5}}}}
pipeline: {{endpointing: {{kind: fixed, silence: {silence_s}s}}}}
listener: {{capture: 0s}}
"""


def played_by(settings: Mapping[str, float], clients: int) -> World:
    """The page's benchmark at so many clients, its stages still without numbers."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "stage.yaml").write_text(PROFILE)
        text = SCENARIO.format(
            **settings, clients=clients, sentence=settings["reply_s"] / 2,
            settle=clients + 1, window=WINDOWS * settings["window_s"],
        )  # fmt: skip
        scenario = loads(text, Path(folder) / "cascade.yaml").variants["base"]
        return dialogue_spec(scenario), dialogue_tape(scenario)


def with_numbers(spec: DialogueSpec, fitted: Fitted, settings: Mapping[str, float]) -> DialogueSpec:
    """The spec with these stages; ``settings`` say what a further stream adds to a step."""

    def pool(of: PoolSpec, one: float, more: float) -> PoolSpec:
        params = np.zeros(N_STEP_PARAMS)
        params[MEMORY], params[NORM] = one - more, 1.0
        return replace(of, step=StepCost(params, more * np.arange(len(of.step.compute_s))))

    assert spec.asr is not None
    return replace(
        spec,
        asr=replace(spec.asr, cost=np.array([fitted.asr, 0.0, 0.0])),
        llm=(pool(spec.llm[0], fitted.llm, settings["llm_more_s"]),),
        tts=(pool(spec.tts[0], fitted.tts, settings["tts_more_s"]),),
        delay=fitted.rest,
    )


def predicted(world: World, fitted: Fitted, settings: Mapping[str, float]) -> dict[str, float]:
    """Means of METRICS over the turns that were answered once all clients were there."""
    spec, tape = world
    dialogue = Dialogue(with_numbers(spec, fitted, settings), tape)
    dialogue.advance(spec.end)
    found = record(dialogue)
    gaps, known = segments(Played(Terms(), spec, tape, found), tape.answer)
    rows = known.all(axis=1) & (found.answer_f[tape.answer, A_SPOKEN] >= spec.horizon)
    seconds = gaps[rows].mean(axis=0) / 1e9
    named = dict(zip(SEGMENTS, seconds, strict=True))
    parts = {"asr_latency": "asr", "llm_first_sentence": "llm", "tts_ttfb": "tts"}
    return {WHOLE: float(seconds.sum()), **{m: float(named[s]) for m, s in parts.items()}}


def fit(
    settings: Mapping[str, float], figures: Figures, at: Iterable[int],
    start: Sequence[float] = START,
) -> Fitted:  # fmt: skip
    """The stages from their own figures at these loads, the rest from what the whole turn leaves.

    Least squares of the logarithms of predicted / published.  start: asr, llm, tts (s).
    """
    worlds = {n: played_by(settings, n) for n in at}
    parts = [m for m in METRICS if m != WHOLE]

    def said(logs: np.ndarray) -> dict[int, dict[str, float]]:
        fitted = fitted_of(logs, 0.0)
        return {n: predicted(world, fitted, settings) for n, world in worlds.items()}

    def errors(logs: np.ndarray) -> np.ndarray:
        return np.array([np.log(of[m] / figures[n][m]) for n, of in said(logs).items()
                         for m in parts])  # fmt: skip

    found = least_squares(errors, np.log(start), diff_step=0.05, max_nfev=20).x
    whole = {n: of[WHOLE] for n, of in said(found).items()}  # rest adds to it and changes nothing
    rest = least_squares(
        lambda x: [np.log((t + x[0]) / figures[n][WHOLE]) for n, t in whole.items()], [0.0]
    ).x[0]
    return fitted_of(found, max(float(rest), 0.0))


def fitted_of(logs: np.ndarray, rest: float) -> Fitted:
    """The stages from the logarithms of their seconds."""
    asr, llm, tts = map(float, np.exp(logs))
    return Fitted(asr, llm, tts, rest)


def table(settings: Mapping[str, float], figures: Figures, fitted: Fitted) -> pd.DataFrame:
    """One row per load and metric: published, predicted, error (share of the published)."""
    rows = []
    for clients, given in figures.items():
        said = predicted(played_by(settings, clients), fitted, settings)
        rows += [
            {"clients": clients, "metric": m, "published": given[m], "predicted": said[m],
             "error": said[m] / given[m] - 1.0}
            for m in METRICS
        ]  # fmt: skip
    return pd.DataFrame(rows)
