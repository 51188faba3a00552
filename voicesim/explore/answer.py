"""What the page shows of a question's outcomes: verdict, figures, series; plain data for JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from voicesim.experiment.metrics import METRICS, value
from voicesim.metrics import summary
from voicesim.report import words
from voicesim.report.figure import bin_width, smooth
from voicesim.scenario import Scenario
from voicesim.study import Outcome, merged

ROWS = (
    "clean_share", "clean_turn_share", "stalled_share", "refused", "abandoned", "talk.cut_offs",
    "ttfa_p50_s", "ttfa_p95_s", "ttfa_p99_s", "ledger.endpointing_p95_s", "ledger.asr_p95_s",
    "ledger.llm_p95_s", "ledger.tts_p95_s", "pace_p99", "cost_per_1000_clean_calls",
)  # fmt: skip
TITLES = {
    "clean_share": "CLEAN, of all offered calls",
    "stalled_share": "hear a stall, of the accepted",
    "refused": "refused, of all offered",
    "abandoned": "hung up, of all offered",
    "clean_turn_share": "CLEAN, of all their turns",
    "talk.cut_offs": "cut off in a pause, of turns spoken",
    "ledger.endpointing_p95_s": "waiting for the end of the turn, p95",
    "ledger.asr_p95_s": "recogniser, p95",
    "ledger.llm_p95_s": "language model to its first words, p95",
    "ledger.tts_p95_s": "voice to its first sound, p95",
}
PARTS_OF = {"refused": "offered", "abandoned": "offered", "talk.cut_offs": "spoken_turns"}
"""Counts that are shown as shares, and of what."""
SERIES = ("offered", "refused", "live", "gap", "stalls")


def figures(sides: Sequence[Sequence[Outcome]]) -> list[dict[str, Any]]:
    """A row per figure: title, which way is better (1, -1), and of each side {text, mean, low,
    high}.  What is a count elsewhere (``PARTS_OF``) is a share here."""
    found = []
    for name in ROWS:
        values = [_figure(outcomes, name) for outcomes in sides]
        if any(one["mean"] is not None for one in values):
            title = TITLES.get(name, METRICS[name].title)
            row = {"metric": name, "title": title, "better": METRICS[name].better}
            found.append({**row, "sides": values})
    return found


def _figure(outcomes: Sequence[Outcome], name: str) -> dict[str, Any]:
    many = [value(outcome.metrics, name) for outcome in outcomes]
    show, bounds = METRICS[name].show, summary.bounds(name)
    if name in PARTS_OF:
        whole = [value(outcome.metrics, PARTS_OF[name]) for outcome in outcomes]
        pairs = zip(many, whole, strict=True)
        many = [None if x is None or not n else x / n for x, n in pairs]
        show, bounds = words.percent, (0.0, 1.0)
    found = summary.interval(many, *bounds)
    return {**found, "text": words.with_interval(words.metric({name: found}, name), show)}


def verdict(names: Sequence[str], sides: Sequence[Sequence[Outcome]]) -> str:
    """How much of the calls the moved setting keeps CLEAN, against the one beside it."""
    clean = [_figure(outcomes, "clean_share") for outcomes in sides]
    if clean[0]["mean"] is None:
        return "CLEAN share not measured"
    text = f"{names[0]} keeps {words.percent(clean[0]['mean'])} of all offered calls CLEAN"
    if len(sides) < 2 or clean[1]["mean"] is None:
        return text
    points = 100 * (clean[0]["mean"] - clean[1]["mean"])
    text += f", {names[1]} {words.percent(clean[1]['mean'])}: {points:+.1f} points"
    if len(sides[0]) > 1:
        apart = clean[0]["low"] > clean[1]["high"] or clean[0]["high"] < clean[1]["low"]
        text += "" if apart else "; their 95 % intervals overlap"
    return text


def series(sides: Sequence[Sequence[Outcome]], scenarios: Sequence[Scenario]) -> dict[str, Any]:
    """minutes: starts of the bins.  sides: of each its columns (``SERIES``), a number per bin,
    None where nothing was measured.  bin_s: their width; rates are per second, stalls per bin."""
    horizon = max(scenario.horizon for scenario in scenarios)
    tables = [
        pd.concat([o.series.assign(replication=o.replication) for o in outcomes], ignore_index=True)
        for outcomes in sides
    ]
    width = bin_width(tables[0], horizon)
    drawn = [smooth(table, width) for table in tables]
    last = max(_last(rows, horizon, width) for rows in drawn)
    drawn = [rows.iloc[:last] for rows in drawn]
    return {
        "bin_s": width,
        "minutes": [round(x, 6) for x in max(drawn, key=len)["minutes"]],
        "sides": [{name: _plain(rows[name]) for name in SERIES} for rows in drawn],
    }


def _last(rows: pd.DataFrame, horizon: float, width: float) -> int:
    """Bins until callers come no more and hardly anybody is on the line."""
    few = max(0.01 * rows["live"].max(), 0.5)
    busy = np.flatnonzero((rows["live"] > few) | (rows["stalls"] > 0))
    return max(int(np.ceil(horizon / width)), int(busy[-1]) + 2 if len(busy) else 0)


def _plain(column: "pd.Series[float]") -> list[float | None]:
    return [None if pd.isna(x) else float(f"{x:.5g}") for x in column]


def warnings(sides: Sequence[Sequence[Outcome]], variants: Sequence[str]) -> list[str]:
    """What must be known before the figures are trusted; variants: the names in the file."""
    found = merged(w for outcomes in sides for outcome in outcomes for w in outcome.warnings)
    return words.groups(found, variants)
