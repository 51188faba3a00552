"""Several pools as one run: each is played apart, and what they leave is put together.

Nothing couples the pools (``scenario.checks`` refuses what would), so their events never meet:
counts add up, gauges add up bin by bin, quantiles are taken over all streams together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from voicesim.engine.gauges import Gauges
from voicesim.engine.layout import B_WAITING_MAX
from voicesim.engine.record import RunRecord
from voicesim.metrics import stalls, tables
from voicesim.metrics.summary import busy_shares, run_metrics
from voicesim.scenario import Scenario
from voicesim.simulation import Run

COLUMNS = {
    "calls": ["session", "arrival_s", "outcome", "accepted", "measured", "clean", "audible_stalls"],
    "streams": [
        "session", "outcome", "requested_s", "admitted_s", "started_s", "chunks", "audio_s",
        "stall_largest_s", "stall_total_s",
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
        record, none = self.run.record, slice(0)
        record = replace(
            record,
            utterance_i=record.utterance_i[none], utterance_f=record.utterance_f[none],
            chunk_i=record.chunk_i[none], chunk_f=record.chunk_f[none],
            stall_i=record.stall_i[none], stall_f=record.stall_f[none],
        )  # fmt: skip
        tape = self.run.tape
        if not tape.closed:
            tape = tape.only(np.zeros(tape.sessions, dtype=bool))
        run = replace(self.run, tape=tape, record=record)
        rows = None if self.stalls is None else self.stalls.drop(columns="detail")
        return Part(run, self.calls[COLUMNS["calls"]], self.streams[COLUMNS["streams"]], rows)


def part_of(run: Run) -> Part:
    """Tables of a run; the calls of a pool beside others keep their numbers in the whole."""
    streams = tables.streams(run)
    calls = tables.sessions(run, streams)
    if run.tape.numbers is not None:
        for table in (calls, streams):
            table["session"] = run.tape.numbers[table["session"]]
    return Part(run, calls, streams, stalls.stalls(run) if run.spec.blame else None)


def metrics_of(parts: Sequence[Part], whole: Scenario) -> dict[str, Any]:
    """Metrics of a run (``metrics.summary.run_metrics``, and the causes of its stalls if they are
    known) from the parts of all its pools."""
    found = _metrics(parts, whole)
    blamed = [p.stalls for p in parts if p.stalls is not None]
    if blamed:
        calls = pd.concat([p.calls for p in parts], ignore_index=True)
        counted = calls["session"][calls["arrival_s"] >= whole.warmup].to_numpy()
        found |= stalls.metrics(pd.concat(blamed, ignore_index=True), counted)
    return found


def _metrics(parts: Sequence[Part], whole: Scenario) -> dict[str, Any]:
    if len(parts) == 1:
        return run_metrics(parts[0].run, parts[0].calls, parts[0].streams)
    calls = pd.concat([p.calls for p in parts], ignore_index=True)
    streams = pd.concat([p.streams for p in parts], ignore_index=True)
    found = run_metrics(together([p.run for p in parts], whole), calls, streams)
    engines = [p.run.spec.engines for p in parts]
    shares = [busy_shares(p.run) for p in parts]
    for stage in found["busy_share"]:
        known = [
            (x, n) for s, n in zip(shares, engines, strict=True) if (x := s[stage]) is not None
        ]
        total = sum(x * n for x, n in known)
        found["busy_share"][stage] = total / sum(n for _, n in known) if known else None
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
    return replace(runs[0], scenario=whole, spec=spec, record=record, gauges=gauges)
