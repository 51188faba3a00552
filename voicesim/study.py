"""A study: every variant and replication of a scenario file, run in parallel.

Each run is one job; a job writes its own tables.  When interrupted, what is finished is kept.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from voicesim import terminal
from voicesim.engine.profile import Profile
from voicesim.kv import starts_said
from voicesim.metrics import (
    dialogue_context,
    dialogue_marginal,
    dialogue_study,
    fleet,
    tables,
    warmup,
)
from voicesim.metrics import summary as metrics
from voicesim.metrics.dialogue import run_metrics as dialogue_metrics
from voicesim.metrics.dialogue_exhibits import exhibits_of
from voicesim.metrics.dialogue_shadow import endpointing_shadows
from voicesim.metrics.dialogue_shown import keeps_talks
from voicesim.metrics.dialogue_terms import terms
from voicesim.metrics.exhibits import Exhibit, exhibit, exhibits_of_fleet, keeps_chunks
from voicesim.metrics.extrapolated import still_live, unmeasured
from voicesim.metrics.histogram import ERROR
from voicesim.metrics.tally import Tally
from voicesim.progress import Show, silent
from voicesim.scenario import ScenarioFile
from voicesim.session.build import dialogue_spec
from voicesim.session.play import simulate_dialogue
from voicesim.simulation import Run, profile_of, simulate
from voicesim.tablefiles import TableFiles, stem
from voicesim.workers import started

COUNTED = (
    f"calls were counted as they ended, not kept: ttfa_p50 to ttfa_p99 come from a histogram and "
    f"are off by {100 * ERROR:.1f} % at most; counts and shares are exact"
)


@dataclass
class Outcome:
    """What one job sends back: metrics and series of a run, not its rows."""

    variant: str
    replication: int
    metrics: dict[str, Any]
    series: pd.DataFrame
    warnings: list[tuple[str, float]]
    events: int
    callers: str
    pools: dict[str, dict[str, Any]] = field(default_factory=dict)  # of several: metrics of each
    clean: tuple[float, float] | None = None  # of a steady run: CLEAN and half-width, batch means
    exhibits: list[Exhibit] = field(default_factory=list)  # one a pool, where a folder is written
    counted: bool = False  # no rows were kept: see voicesim.metrics.tally


@dataclass
class StudyResult:
    """Results of a study, complete or (interrupted) in part.

    notes: what was assumed before it began, beside the model's assumptions.
    """

    file: ScenarioFile
    outcomes: list[Outcome] = field(default_factory=list)
    complete: bool = False
    notes: Sequence[str] = ()
    trace: str = ""  # what was written of a window, in a sentence

    @property
    def of_dialogues(self) -> bool:
        """Is it a study of whole calls?"""
        return self.file.variants[self.file.baseline].dialogue is not None

    @property
    def summary(self) -> dict[str, Any]:
        """Variant -> metric -> {mean, low, high}."""
        return {
            name: metrics.aggregate([o.metrics for o in of])
            for name in self.file.variants
            if (of := self.of(name))
        }

    @property
    def pools(self) -> dict[str, dict[str, Any]]:
        """Variant -> pool -> metric -> {mean, low, high}; empty where there is one pool."""
        return {
            name: {
                pool: metrics.aggregate([o.pools[pool] for o in of])
                for pool in self.file.variants[name].cluster.pools
            }
            for name in self.file.variants
            if (of := self.of(name)) and of[0].pools
        }

    def of(self, variant: str) -> list[Outcome]:
        """The finished runs of a variant, by replication."""
        found = [o for o in self.outcomes if o.variant == variant]
        return sorted(found, key=lambda o: o.replication)

    @property
    def replications(self) -> pd.DataFrame:
        """One row per variant and replication: its callers and every metric."""
        return replication_table(
            (o.variant, o.replication, o.callers, o.metrics)
            for name in self.file.variants
            for o in self.of(name)
        )

    @property
    def series(self) -> pd.DataFrame:
        """Time series of all runs, with columns variant and replication."""
        frames = [
            o.series.assign(variant=o.variant, replication=o.replication)
            for name in self.file.variants
            for o in self.of(name)
        ]
        return pd.concat(frames, ignore_index=True)

    @property
    def context(self) -> dict[str, Any]:
        """What the report says around the numbers."""
        base = self.file.variants[self.file.baseline]
        ordered = [o for name in self.file.variants for o in self.of(name)]
        warnings = merged(w for o in ordered for w in o.warnings)
        for name, scenario in self.file.variants.items():
            resolution, horizon = scenario.series.resolution, scenario.horizon
            live = [
                warmup.thinned(o.series["live"].to_numpy(), resolution, horizon)
                for o in self.of(name)
            ]
            if said := warmup.advice(scenario, live):
                warnings.append(f"{name}: {said}")
        return {
            "title": base.title,
            "slo": {
                "start_within": base.slo.start_within,
                "no_stall_over": base.slo.no_stall_over,
            },
            "audible": base.listener.audible,
            "replications": base.replications,
            "batch_means": {
                o.variant: list(o.clean) for o in ordered if o.clean and base.replications == 1
            },
            "horizon": base.horizon,
            "seed": base.seed,
            "warnings": warnings,
            "assumptions": [
                *self.notes,
                *assumptions(base),
                *starts(self.file),
                *([COUNTED] if any(o.counted for o in ordered) else []),
            ],
            **({} if base.dialogue is None else dialogue_context.context(terms(base))),
        }


Elsewhere = Callable[[Sequence[tuple[str, int, Any]]], Iterator["Piece"]]
"""Plays runs (variant, replication, scenario of one pool) and gives their pieces in any order."""


def run_study(
    file: ScenarioFile,
    folder: Path | None = None,
    workers: int | None = None,
    chunks: bool = False,
    engine: str = "kernel",
    progress: Show = silent,
    elsewhere: Elsewhere | None = None,
    marginal: bool = False,
    rows: bool | None = None,
) -> StudyResult:
    """Run every variant and replication.

    folder: where job tables are written (variant/replication by file name), None for nowhere.
    workers: processes, default one per core.  elsewhere: plays the runs instead of them.
    marginal: dialogues also with one thing changed at a time (metrics.dialogue_marginal).
    rows: see ``job``.
    KeyboardInterrupt leaves a partial result with ``complete`` False.  Results do not depend on
    where the runs are played.
    """
    runs = [(name, r) for name, s in file.variants.items() for r in range(s.replications)]
    jobs = [(name, r, part) for name, r in runs for part in file.variants[name].apart()]
    count = min(workers or os.cpu_count() or 1, len(jobs))
    result = StudyResult(file)
    calls = (
        delayed(job)(part, name, r, folder, chunks, engine, marginal, rows=rows)
        for name, r, part in jobs
    )
    parts: dict[tuple[str, int], list[Piece]] = defaultdict(list)
    try:
        done: Iterator[Piece]
        if elsewhere is not None:
            done = elsewhere(jobs)
        elif count == 1:
            done = (call[0](*call[1], **call[2]) for call in calls)
        else:
            done = started(Parallel(n_jobs=count, return_as="generator_unordered"), calls)
        for piece in done:
            terminal.stop_if_told()
            whole = file.variants[piece.variant]
            held = parts[piece.variant, piece.replication]
            held.append(piece)
            if len(held) < len(whole.apart()):
                continue
            outcome = outcome_of(parts.pop((piece.variant, piece.replication)), whole)
            result.outcomes.append(outcome)
            name = f"{outcome.variant} {outcome.replication}"
            progress(name, len(result.outcomes), len(runs), events=outcome.events)
        result.complete = True
    except KeyboardInterrupt:
        if not result.outcomes:
            raise
        if folder is not None:
            finished = {(o.variant, o.replication) for o in result.outcomes}
            for name, r, part in jobs:
                if (name, r) not in finished:
                    for table in folder.glob(f"*/{stem(name, r, part)}.parquet"):
                        table.unlink()
    return result


@dataclass
class Piece:
    """What one job sends back: the run of one pool; of the only pool, its outcome as well."""

    variant: str
    replication: int
    part: fleet.Part | Tally | None
    outcome: Outcome | None
    warnings: list[tuple[str, float]]
    events: int
    callers: str
    exhibit: Exhibit | None = None


def job(
    scenario: Any,
    variant: str,
    replication: int,
    folder: Path | None,
    chunks: bool,
    engine: str,
    marginal: bool = False,
    processes: Sequence[Callable[[Any, Any], Any]] = (),
    rows: bool | None = None,
) -> Piece:
    """One run of one pool, its tables written to ``folder``.

    processes: see ``simulate`` and ``simulate_dialogue``.  The first replication of a folder also
    keeps, for its page, the chunks of two calls and the batches of its engines: neither changes
    the run.
    rows: of calls, streams and stalls; None: only of a run that is small enough to have them all
    in memory.  Otherwise what is over is counted (voicesim.metrics.tally), and written if asked
    for, piece by piece.
    """
    if scenario.dialogue is not None:
        return _dialogue_job(
            scenario, variant, replication, folder, chunks, engine, marginal, processes
        )
    if scenario.fleet:
        return _fleet_job(scenario, variant, replication, folder, chunks, engine, processes, rows)
    part, _ = _played(scenario, variant, replication, folder, chunks, engine, processes, rows)
    shown = None if folder is None else exhibit(part, with_calls=replication == 0)
    piece = Piece(
        variant,
        replication,
        part if isinstance(part, Tally) else part.light(),
        None,
        warnings_of(part, variant),
        part.run.record.counters.get("events", 0),
        callers_of(part),
        shown,
    )
    if scenario.slice == (0.0, 1.0):  # the only pool: the numbers are made here, in parallel
        piece.outcome, piece.part = outcome_of([piece], scenario), None
    return piece


def _played(
    scenario: Any, variant: str, replication: int, folder: Path | None, chunks: bool, engine: str,
    processes: Sequence[Callable[[Any, Any], Any]], rows: bool | None,
) -> tuple[fleet.Part | Tally, Mapping[str, fleet.Part | Tally]]:  # fmt: skip
    """A run with its tables written: all of it and, of a fleet, each pool; see ``job``."""
    closely = folder is not None and replication == 0
    small = (rows is not False or fleet.needs_rows(scenario)) and fleet.keeps_rows(scenario)
    kept = chunks or (small and closely and keeps_chunks(scenario))
    play = partial(
        simulate, scenario, replication, engine, processes, record_chunks=kept, watch=closely
    )
    files = None if folder is None else TableFiles(folder, variant, replication, scenario)
    made: Any
    if small:
        made = (fleet.parts_of if scenario.fleet else fleet.part_of)(play(blame=True))
    else:
        wanted = files is not None and (bool(rows) or chunks)
        take = partial(_write, write=files.add, chunks=chunks) if files and wanted else None
        tally: Callable[..., Any] = fleet.tallies_of if scenario.fleet else fleet.tally_of
        try:
            made = fleet.with_causes(tally, play, take)
        finally:
            if files is not None:
                files.close()
    whole, pools = made if scenario.fleet else (made, {})
    if files is not None and small:
        _write(whole, files.write, chunks)
    if files is not None and whole.run.log.rows:
        files.write("operations", tables.operations(whole.run))
    return whole, pools


def _write(part: fleet.Part, write: Callable[[str, pd.DataFrame], None], chunks: bool) -> None:
    """The tables of a folder, whole or a piece of them."""
    write("sessions", part.calls)
    write("streams", part.streams)
    if part.stalls is not None:
        write("stalls", part.stalls)
    if chunks:
        write("chunks", tables.chunks(part.run))
    for name, table in part.run.shadows.items():
        write(f"shadow-{name}", table)


def _dialogue_job(
    scenario: Any, variant: str, replication: int, folder: Path | None, chunks: bool, engine: str,
    marginal: bool, processes: Sequence[Callable[[Any, Any], Any]],
) -> Piece:  # fmt: skip
    """``job`` of a scenario of dialogues: all its pools are one run."""
    kept = chunks or (folder is not None and replication == 0 and keeps_talks(scenario))
    run = simulate_dialogue(
        scenario, replication, engine, processes, record_chunks=kept, blame=True
    )
    made = dialogue_study.tables_of(run)
    if folder is not None:
        files = TableFiles(folder, variant, replication, scenario)
        for name, table in dialogue_study.written(run, made, chunks).items():
            files.write(name, table)
    warnings = dialogue_study.warnings_of(run, variant)
    found = {**dialogue_metrics(made), **dialogue_study.stall_metrics(run, made)}
    found |= endpointing_shadows(scenario, replication, made.turns, run.tape.arrival)
    if marginal:
        found["marginal"] = dialogue_marginal.marginal(scenario, replication, made.run)
    outcome = Outcome(
        variant, replication, found, dialogue_study.series_of(run, made),
        warnings, run.events, callers(run.tape),
        exhibits=[] if folder is None else exhibits_of(run, made),
    )  # fmt: skip
    return Piece(variant, replication, None, outcome, warnings, run.events, outcome.callers)


def _fleet_job(
    scenario: Any, variant: str, replication: int, folder: Path | None, chunks: bool, engine: str,
    processes: Sequence[Callable[[Any, Any], Any]], rows: bool | None,
) -> Piece:  # fmt: skip
    """``job`` of a scenario whose pools serve the same callers: all are one run."""
    whole, pools = _played(scenario, variant, replication, folder, chunks, engine, processes, rows)
    run, counted = whole.run, isinstance(whole, Tally)
    exhibits = []
    if folder is not None:
        exhibits = exhibits_of_fleet(run, whole, pools, replication == 0)
    warnings = warnings_of(whole if counted else run, variant)
    outcome = Outcome(
        variant, replication, fleet.metrics_of([whole], scenario), tables.series(run), warnings,
        run.record.counters.get("events", 0), callers_of(whole),
        {name: fleet.metrics_of([p], p.run.scenario) for name, p in pools.items()},
        exhibits=exhibits, counted=counted,
    )  # fmt: skip
    return Piece(variant, replication, None, outcome, warnings, outcome.events, outcome.callers)


def outcome_of(pieces: Sequence[Piece], whole: Any) -> Outcome:
    """A run from the runs of its pools, in the order of the file whatever order they came in."""
    first = pieces[0]
    if first.outcome is not None:
        return first.outcome
    order = list(whole.cluster.pools)
    pieces = sorted(pieces, key=lambda p: order.index(p.part.pool) if p.part else 0)
    parts = [p.part for p in pieces if p.part]
    return Outcome(
        first.variant,
        first.replication,
        fleet.metrics_of(parts, whole),
        tables.series(fleet.together([p.run for p in parts], whole)),
        [w for p in pieces for w in p.warnings],
        sum(p.events for p in pieces),
        "-".join(p.callers for p in pieces),
        {p.pool: fleet.metrics_of([p], whole) for p in parts} if len(parts) > 1 else {},
        _steady_clean(parts, whole),
        [p.exhibit for p in pieces if p.exhibit],
        any(isinstance(p, Tally) for p in parts),
    )


def _steady_clean(parts: Sequence[fleet.Part | Tally], whole: Any) -> tuple[float, float] | None:
    """CLEAN of this run alone with its half-width by batch means, where arrivals settle."""
    if whole.workload.arrivals.kind not in warmup.STATIONARY:
        return None
    if tallies := [p for p in parts if isinstance(p, Tally)]:  # pools are not merged by arrival
        return warmup.stretches(tallies[0].clean) if len(parts) == 1 else None
    calls = pd.concat([p.calls for p in parts if isinstance(p, fleet.Part)]).sort_values(
        "arrival_s"
    )
    return warmup.stretches(calls.loc[calls["arrival_s"] >= whole.warmup, "clean"])


def callers_of(part: fleet.Part | Tally) -> str:
    """``callers`` of a run."""
    return part.callers if isinstance(part, Tally) else callers(part.run.tape)


def callers(tape: Any) -> str:
    """Hash of the calls of a tape: when each starts and how many utterances it has.

    Equal under common random numbers unless a variant changes the workload.
    """
    sizes = np.diff(tape.first)[: len(tape.arrival)].astype(np.int64)
    return hashlib.sha256(tape.arrival.tobytes() + sizes.tobytes()).hexdigest()[:16]


def replication_table(runs: Iterable[tuple[str, int, str, dict[str, Any]]]) -> pd.DataFrame:
    """replications.parquet, from (variant, replication, callers, metrics) of each run.

    Metrics under dotted names, unrounded; NaN: not measured.
    """
    rows = [
        {"variant": v, "replication": r, "callers": c,
         **{name: np.nan if x is None else float(x) for name, x in metrics.flat(of).items()}}
        for v, r, c, of in runs
    ]  # fmt: skip
    return pd.DataFrame(rows)


def warnings_of(part: Run | fleet.Part | Tally, variant: str) -> list[tuple[str, float]]:
    """What a reader must know before trusting this run: texts with a place for a number, and it.

    ``merged`` puts together what several replications have to say.
    """
    found: list[tuple[str, float]] = []
    run = part if isinstance(part, Run) else part.run
    tape = run.tape
    for profile, prompt, stream in _longest(part):
        outside = unmeasured(profile, run.record.counters["max_batch"], prompt, stream)
        found += [(f"{variant}: {text}", most) for text, most in outside]
    if tape.clipped:
        found.append((f"{variant}: {{:g}} utterances were cut to engine.max_tokens", tape.clipped))
    live = run.record.counters["live_calls"]
    if live:
        found.append((f"{variant}: {still_live(run.scenario.drain)}", live))
    return found


def _longest(part: Run | fleet.Part | Tally) -> Iterator[tuple[Profile, int, int]]:
    """Of each pool that callers would rather go to: its profile, its longest prompt and stream
    (tokens)."""
    if isinstance(part, Tally):
        yield part.run.profile, part.longest_prompt, part.longest_stream
        return
    run = part if isinstance(part, Run) else part.run
    tape = run.tape
    home = run.home(np.arange(tape.utterances))
    for number, profile in enumerate(run.profiles or [run.profile]):
        mine = home == number
        if mine.any():  # else served, if at all, as the others that overflow into it
            prompt, tokens = tape.prompt[mine], tape.tokens[mine]
            yield profile, int(prompt.max()), int((prompt + tokens).max())


def merged(warnings: Iterable[tuple[str, float]]) -> list[str]:
    """Each text once, with the largest of its numbers."""
    most: dict[str, float] = {}
    for text, number in warnings:
        most[text] = max(number, most.get(text, number))
    return [text.format(number) for text, number in most.items()]


def assumptions(scenario: Any) -> list[str]:
    """What the model takes for granted in this scenario."""
    if scenario.dialogue is not None:
        return dialogue_assumptions(scenario)
    pools = scenario.cluster.pools.values()
    found = [
        *dict.fromkeys(
            f"step times from profile {pool.engine.profile} (see its origins and intervals)"
            for pool in pools
        ),
        "a caller's patience covers the silence before the first sound, not later stalls",
        "one-way network jitter is gamma distributed of shape 2; packets keep their order",
    ]
    found += fault_assumptions(scenario)
    if scenario.policies.scaling is not None:
        found.append(
            "a replica that is ordered always comes, and starts empty; the engine's thread keeps "
            "one core of its host busy while steps run"
        )
    if scenario.fleet:
        found += fleet_assumptions(scenario)
    elif len(pools) > 1:
        found.append("a caller stays in one pool, drawn by its share; pools share nothing")
    if any(pool.codec is not None and pool.codec.on == "same_gpu" for pool in pools):
        found.append(
            "decoder and codec on one GPU stretch each other by the profile's fixed factors"
        )
    return found


def fault_assumptions(scenario: Any) -> list[str]:
    """What the model takes for granted about failures."""
    if not scenario.faults:
        return []
    found = [
        "what a failed replica has sent still arrives; all else that it held is lost at once, and "
        "it comes back with an empty KV cache",
        "nobody asks again for an utterance of which a chunk has left the server: it has failed",
    ]
    if scenario.tts.lost is None:
        found.append("callers whose utterance failed hang up (workload.lost)")
    health = scenario.policies.health
    gone = any(fault.kind in ("crash", "gpu_loss") for fault in scenario.faults)
    if gone and (health is None or health.liveness is None):
        found.append("the router knows at once that a replica is gone")
    return found


def fleet_assumptions(scenario: Any) -> list[str]:
    """What the model takes for granted between the pools of a fleet."""
    found = []
    if scenario.cluster.regions:
        found.append(
            "a caller far from the cards waits a round trip longer for the first sound, and the "
            "sound of every chunk comes that much later; the way is the same all the time"
        )
        found.append("a pool is chosen at every request, by what the router knows at that instant")
    if scenario.beside:
        names = ", ".join(scenario.beside)
        found.append(f"CLEAN, stalls and TTFA are those of `workload`; {names}: by pool")
    return found


def starts(file: ScenarioFile) -> list[str]:
    """What engines on shared cards found when they started, with the variants where it is so."""
    found: dict[str, list[str]] = {}
    for name, scenario in file.variants.items():
        for text in starts_said(scenario, profile_of):
            found.setdefault(text, []).append(name)
    every = len(file.variants)
    return [t if len(v) == every else f"{t} ({', '.join(v)})" for t, v in found.items()]


def dialogue_assumptions(scenario: Any) -> list[str]:
    """What the model takes for granted in a scenario of dialogues."""
    engines = (pool.engine for pool in scenario.cluster.pools.values() if hasattr(pool, "engine"))
    return [
        *dict.fromkeys(
            f"step times from profile {engine.profile} (see its origins and intervals)"
            for engine in engines
        ),
        "one-way network jitter is gamma distributed of shape 2; packets keep their order",
        *dialogue_context.assumptions(terms(scenario), dialogue_spec(scenario)),
    ]
