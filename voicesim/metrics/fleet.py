"""Several pools as one run: each is played apart, and what they leave is put together.

Nothing couples the pools (``scenario.checks`` refuses what would), so their events never meet:
counts add up, gauges add up bin by bin, quantiles are taken over all streams together.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from voicesim.cluster.log import Log
from voicesim.engine.gauges import Gauges
from voicesim.engine.layout import B_WAITING_MAX
from voicesim.engine.record import RunRecord
from voicesim.metrics import stalls, tables
from voicesim.metrics.counted import NOBODY
from voicesim.metrics.summary import Value, busy_shares, fired_by, numbers, run_metrics
from voicesim.metrics.tally import StallError, Tally
from voicesim.scenario import Scenario
from voicesim.simulation import Run, profile_of, simulate, token_audio, without_rows
from voicesim.workload.pieces import expected_utterances

COLUMNS = {
    "calls": [
        "session", "arrival_s", "outcome", "accepted", "measured", "degraded", "clean",
        "audible_stalls",
    ],
    "streams": [
        "session", "utterance", "outcome", "requested_s", "admitted_s", "started_s", "chunks",
        "audio_s", "stall_largest_s", "stall_total_s", "rung", "filler",
    ],
}  # fmt: skip
"""What ``metrics.summary`` reads of the tables."""


@dataclass
class Part:
    """One pool's run with its tables.  calls, streams: as in ``metrics.tables``; stalls: as in
    ``metrics.stalls``, of a run that was asked for causes."""

    run: Run
    calls: pd.DataFrame
    streams: pd.DataFrame
    stalls: pd.DataFrame | None = None

    @property
    def pool(self) -> str:
        """Name of the pool."""
        return next(iter(self.run.scenario.cluster.pools))

    def light(self) -> "Part":
        """Without what metrics do not read: small enough to send between processes."""
        run = without_rows(self.run)
        rows = None if self.stalls is None else self.stalls.drop(columns="detail")
        return Part(run, self.calls[COLUMNS["calls"]], self.streams[COLUMNS["streams"]], rows)


def part_of(run: Run, only: Collection[str] | None = None) -> Part:
    """Tables of a run; the calls of a pool beside others keep their numbers in the whole.

    only: see ``tables.streams``.
    """
    streams = tables.streams(run, only)
    calls = tables.sessions(run, streams)
    if run.tape.numbers is not None:
        for table in (calls, streams):
            table["session"] = run.tape.numbers[table["session"]]
    return Part(run, calls, streams, stalls.stalls(run) if run.spec.blame else None)


OF_FLEET = tables.COUNTED | {"utterance", "replica"}
"""Columns of the streams that tell a fleet's pools apart, and those that are counted."""


def parts_of(run: Run, only: Collection[str] | None = None) -> tuple[Part, dict[str, Part]]:
    """A fleet's run: what is counted of `workload`, and each pool's part by name.

    A stream belongs to the pool that served it, or would have: of those that no engine took, the
    one its caller would rather have gone to.  A call belongs to the pool of its first stream.
    only: see ``tables.streams``; OF_FLEET at least.
    """
    whole = part_of(run, only)
    routes, names = run.spec.routes, list(run.scenario.cluster.pools)
    assert routes is not None
    first = run.tape.first
    streams, calls = whole.streams, whole.calls
    of_stream, own = streams["session"].to_numpy(), calls["session"].to_numpy()
    if run.tape.numbers is not None:  # a piece of a run
        of_stream = np.searchsorted(run.tape.numbers, of_stream)
        own = np.searchsorted(run.tape.numbers, own)
    rows = first[of_stream] + streams["utterance"].to_numpy()
    served = streams["replica"].to_numpy()
    pool = np.where(served >= 0, run.spec.pool_of[served], run.home(rows))
    of_call = run.home(first[own])
    begun = pd.Series(pool, index=streams["session"].to_numpy())
    begun = begun[~begun.index.duplicated()]
    known = calls["session"].map(begun)
    of_call = np.where(known.notna(), known.fillna(0), of_call).astype(np.int64)
    whole.streams = streams.assign(pool=pd.Categorical.from_codes(pool, pd.Index(names)))
    whole.calls = calls.assign(pool=pd.Categorical.from_codes(of_call, pd.Index(names)))
    aside = np.array([p.aside for p in run.spec.pools])
    found = {
        name: _of_pool(whole, number, pool == number, of_call == number)
        for number, name in enumerate(names)
    }
    counted = Part(run, whole.calls[~aside[of_call]], whole.streams[~aside[pool]], whole.stalls)
    return counted, found


def tallies_of(
    play: Callable[..., Run], take: Callable[[Part], None] | None = None, calm: bool = False
) -> tuple[Tally, dict[str, Tally]]:
    """``parts_of`` of a fleet's run that keeps no rows; play, take, calm: see ``tally_of``."""
    whole, pools = Tally(calm=calm), dict[str, Tally]()

    def leave(run: Run) -> None:
        counted, found = parts_of(run, None if take is not None else OF_FLEET)
        whole.add(run, counted.calls, counted.streams, counted.stalls)
        for name, part in found.items():
            tally = pools.setdefault(name, Tally(blamed=False))
            tally.add(part.run, part.calls, part.streams, None)
        if take is not None:
            take(counted)

    run = play(leave=leave)
    whole.finish(run)
    for number, name in enumerate(run.scenario.cluster.pools):
        pools.setdefault(name, Tally(blamed=False)).finish(_run_of(run, number))
    return whole, pools


def _of_pool(whole: Part, number: int, streams: np.ndarray, calls: np.ndarray) -> Part:
    """What one pool of a fleet did."""
    return Part(_run_of(whole.run, number), whole.calls[calls], whole.streams[streams])


def _run_of(run: Run, number: int) -> Run:
    """A fleet's run as that of one of its pools; gaps are not told apart from the others'."""
    name = list(run.scenario.cluster.pools)[number]
    mine = run.spec.pool_of == number
    record = replace(
        run.record,
        gaps=np.zeros_like(run.record.gaps),
        gap_hist=np.zeros_like(run.record.gap_hist),
        busy={stage: seconds[mine] for stage, seconds in run.record.busy.items()},
        live_area=run.record.live_area[mine],
        first_stall=np.inf,
    )
    spec = replace(run.spec.pools[number], others=(), routes=None)
    cluster = run.scenario.cluster
    cluster = cluster.model_copy(update={"pools": {name: cluster.pools[name]}})
    scenario = run.scenario.model_copy(update={"cluster": cluster, "alarms": []})
    gauges = None if run.gauges is None else run.gauges.of(mine)
    return replace(run, scenario=scenario, spec=spec, record=record, gauges=gauges)


MOST_ROWS = 2_000_000
"""Expected streams of a pool beyond which a run keeps no rows unless asked: about 1.5 GB."""


def needs_rows(scenario: Scenario) -> bool:
    """Whether all rows are looked at, by shadow policies or by the guard of a rollout."""
    given = scenario.policies
    return bool(given.shadow) or getattr(given.rollout, "guard", None) is not None


def keeps_rows(scenario: Scenario) -> bool:
    """Whether a pool's or a fleet's run is small enough to have all its rows in memory, or needs
    them however large it is.

    Raises ProfileError, ModelError.
    """
    if needs_rows(scenario):
        return True
    if scenario.fleet:
        loads = (scenario.tts, *scenario.beside.values())
        return sum(expected_utterances(w, scenario.horizon, 0.0) for w in loads) <= MOST_ROWS
    workload, low, high = scenario.tts, *scenario.slice
    step = 0.0
    if workload.arrivals.kind == "closed" and workload.utterance.audio is None:
        step = token_audio(profile_of(scenario.cluster.pool))
    return expected_utterances(workload, scenario.horizon, step) * (high - low) <= MOST_ROWS


def played(scenario: Scenario, replication: int) -> "Part | Tally":
    """One replication of a scenario with one pool: its tables, or a tally where they are too
    large."""
    if keeps_rows(scenario):
        return part_of(simulate(scenario, replication))
    return tally_of(partial(simulate, scenario, replication))


T = TypeVar("T")


def with_causes(
    tally: Callable[..., T], play: Callable[..., Run], take: Callable[[Part], None] | None
) -> T:
    """A run that keeps no rows, with the causes of its stalls; tally: ``tally_of``, ``tallies_of``.

    To look for causes costs an eighth more at every step, so it is done only where something
    stalls: a run is played without, and anew from its start once it has an audible stall.  Rows
    that are wanted are written as the run goes, so such a run is played once, with causes.
    """
    if take is None:
        try:
            return tally(partial(play, blame=False), calm=True)
        except StallError:
            pass
    return tally(partial(play, blame=True), take)


def tally_of(
    play: Callable[..., Run], take: Callable[[Part], None] | None = None, calm: bool = False
) -> Tally:
    """Play a run of one pool and keep no rows of it.

    play: ``simulate`` but for its ``leave``.  take: gets the tables of the calls that are over, a
    piece at a time.  calm: raise StallError once there is an audible stall.
    """
    tally = Tally(calm=calm)

    def leave(run: Run) -> None:
        part = part_of(run, None if take is not None else tables.COUNTED)
        tally.add(run, part.calls, part.streams, part.stalls)
        if take is not None:
            take(part)

    tally.finish(play(leave=leave))
    return tally


def metrics_of(parts: Sequence[Part | Tally], whole: Scenario) -> dict[str, Any]:
    """Metrics of a run (``metrics.summary.run_metrics``, and the causes of its stalls if they are
    known) from the parts of all its pools: tables, or tallies of them all."""
    if tallies := [p for p in parts if isinstance(p, Tally)]:
        return _of_tallies(tallies, whole)
    kept = [p for p in parts if isinstance(p, Part)]
    found = _metrics(kept, whole)
    blamed = [p.stalls for p in kept if p.stalls is not None]
    if blamed:
        calls = pd.concat([p.calls for p in kept], ignore_index=True)
        counted = calls["session"][calls["arrival_s"] >= whole.warmup].to_numpy()
        found |= stalls.metrics(pd.concat(blamed, ignore_index=True), counted)
    return found


def _metrics(parts: Sequence[Part], whole: Scenario) -> dict[str, Any]:
    if len(parts) == 1:
        return run_metrics(parts[0].run, parts[0].calls, parts[0].streams)
    calls = pd.concat([p.calls for p in parts], ignore_index=True)
    streams = pd.concat([p.streams for p in parts], ignore_index=True)
    found = run_metrics(together([p.run for p in parts], whole), calls, streams)
    return found | {"busy_share": _busy([p.run for p in parts])}


def _of_tallies(parts: Sequence[Tally], whole: Scenario) -> dict[str, Any]:
    runs = [p.run for p in parts]
    run = together(runs, whole)
    waited = [p.waited for p in parts if p.waited is not None]
    fired = fired_by(run, np.sum(waited, axis=0)) if waited else {}
    found = numbers(run, sum((p.counted for p in parts), NOBODY), fired)
    found["busy_share"] = _busy(runs)
    if parts[0].calm or (runs[0].spec.blame and parts[0].blamed):
        number = stalls.together(p.number for p in parts)
        seconds = stalls.together(p.seconds for p in parts)
        found |= stalls.told(number, seconds)
    return found


def _busy(runs: Sequence[Run]) -> dict[str, Value]:
    """Busy shares of pools together: each weighs as many replicas as it has."""
    if len(runs) == 1:
        return busy_shares(runs[0])
    engines = [r.spec.engines for r in runs]
    shares = [busy_shares(r) for r in runs]
    found: dict[str, Value] = {}
    for stage in shares[0]:
        known = [
            (x, n) for s, n in zip(shares, engines, strict=True) if (x := s[stage]) is not None
        ]
        total = sum(x * n for x, n in known)
        found[stage] = total / sum(n for _, n in known) if known else None
    return found


def together(runs: Sequence[Run], whole: Scenario) -> Run:
    """The record of several pools as one, but for its rows of utterances and chunks.

    Profile, tape and codec are the first pool's: nothing that is read of the whole depends on
    them.
    """
    if len(runs) == 1:
        return runs[0]
    records = [r.record for r in runs]
    series = np.sum([r.series for r in records], axis=0)
    series[:, B_WAITING_MAX] = np.max([r.series[:, B_WAITING_MAX] for r in records], axis=0)
    first = min(records, key=lambda r: r.first_stall)
    record = RunRecord(
        utterance_i=records[0].utterance_i, utterance_f=records[0].utterance_f,
        series=series,
        gaps=np.sum([r.gaps for r in records], axis=0),
        gap_hist=np.sum([r.gap_hist for r in records], axis=0),
        chunk_i=records[0].chunk_i, chunk_f=records[0].chunk_f,
        busy={stage: np.concatenate([r.busy[stage] for r in records]) for stage in records[0].busy},
        live_area=np.concatenate([r.live_area for r in records]),
        counters={
            name: (max if name == "max_batch" else sum)(r.counters.get(name, 0) for r in records)
            for name in records[0].counters
        },
        first_stall=first.first_stall, first_stall_waiting=first.first_stall_waiting,
        now=max(r.now for r in records),
    )  # fmt: skip
    spec = replace(runs[0].spec, engines=sum(r.spec.engines for r in runs))
    watched = [r.gauges for r in runs if r.gauges is not None]
    gauges = Gauges.beside(watched, spec) if watched else None
    log = Log([row for r in runs for row in r.log.rows])
    return replace(runs[0], scenario=whole, spec=spec, record=record, gauges=gauges, log=log)
