"""A tape in pieces: for runs whose callers do not all fit into memory.

Put one after another the pieces are the tape of ``voicesim.workload.tape.draw_tape``, to the bit.
A piece is a Tape of its own: its ``first`` begins at 0, its sessions follow those of the piece
before.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from voicesim.workload.arrivals import arrivals_in_pieces, draw_arrivals
from voicesim.workload.lengths import integers, mean
from voicesim.workload.rng import Purpose
from voicesim.workload.tape import Columns, Recipe, Tape, cycle_s, draw_tape


def draw_in_pieces(
    utterances: int,
    workload: Any,
    horizon: float,
    seed: int,
    replication: int,
    token_audio_s: float,
    max_tokens: int,
) -> Iterator[Tape]:
    """The tape of one replication, about ``utterances`` of them a piece; at least one piece.

    The other parameters as in ``draw_tape``.  A trace is drawn whole and cut: it is in memory as
    it is.  Of closed arrivals there is no end: the caller stops when it needs no more.
    """
    recipe = Recipe(workload, horizon, seed, replication, token_audio_s, max_tokens)
    match workload.arrivals.kind:
        case "trace":
            yield from cut(draw_tape(*recipe), utterances)
        case "closed":
            yield from _closed(recipe, utterances)
        case _:
            yield from _open(recipe, utterances)


def _open(recipe: Recipe, utterances: int) -> Iterator[Tape]:
    columns, law = Columns(recipe), recipe.workload.utterances_per_session
    size = max(1, int(utterances / (1.0 if law is None else mean(law))))
    kept = recipe.workload.arrivals, recipe.horizon, recipe.seed, recipe.replication
    for start in arrivals_in_pieces(*kept, size):
        counts = np.ones(len(start), dtype=np.int64)
        if law is not None:
            counts = integers(columns.draw(law, len(start), Purpose.COUNTS))
        yield columns.of(start, np.concatenate(([0], np.cumsum(counts))), {}, 0)


def _closed(recipe: Recipe, utterances: int) -> Iterator[Tape]:
    columns = Columns(recipe)
    start = draw_arrivals(recipe.workload.arrivals, recipe.horizon, recipe.seed, recipe.replication)
    callers = len(start)
    n = max(utterances, 16 * callers)
    for _ in itertools.count():
        yield columns.of(start, np.arange(n + 1), {}, callers)
        start = start[:0]


def cut(tape: Tape, utterances: int) -> Iterator[Tape]:
    """An open tape in pieces of about ``utterances`` (whole sessions); what was clipped stays with
    the first."""
    if tape.closed:
        raise ValueError("the sessions of a closed tape are not known before it is played")
    wanted = np.arange(utterances, tape.utterances, utterances)
    ends = np.searchsorted(tape.first, wanted)
    bounds = np.unique(np.concatenate(([0], ends, [tape.sessions])))
    if len(bounds) == 1:
        bounds = np.array([0, 0])
    clipped = tape.clipped
    for a, b in itertools.pairwise(bounds.tolist()):
        rows = slice(int(tape.first[a]), int(tape.first[b]))
        yield replace(
            tape,
            arrival=tape.arrival[a:b],
            first=tape.first[a : b + 1] - tape.first[a],
            tokens=tape.tokens[rows],
            prompt=tape.prompt[rows],
            think=tape.think[rows],
            patience=tape.patience[rows],
            row=None if tape.row is None else tape.row[rows],
            clipped=clipped,
        )
        clipped = 0


def expected_utterances(workload: Any, horizon: float, token_audio_s: float) -> float:
    """About how many utterances a run will have; of a closed loop if nobody waits for anything but
    speech and thought."""
    if workload.arrivals.kind != "closed":
        law = workload.utterances_per_session
        each = 1.0 if law is None or workload.arrivals.kind == "trace" else mean(law)
        return float(workload.arrivals.expected(horizon) * each)
    return float(workload.arrivals.callers * horizon / max(cycle_s(workload, token_audio_s), 1e-9))
