"""The audible stalls of a run and their causes (voicesim.engine.blame): one row each."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from voicesim.engine import blame as b
from voicesim.engine.spec import INF
from voicesim.simulation import Run

OF_CALLS = (b.CLIENT, b.QUEUE, b.TEXT, b.PACING)
"""Causes that only a dialogue knows, or an engine whose streams pause."""
EVIDENCE = {
    "batch_before": b.L_BATCH_THEN,
    "batch": b.L_BATCH,
    "batch_most": b.L_BATCH_MOST,
    "prefill_tokens": b.L_TOKENS,
    "prefill_largest": b.L_LONGEST,
    "step": b.L_STEP,
}

Sums = dict[str, float]


def stalls(run: Run) -> pd.DataFrame:
    """Of a pool's run.  began_s, length_s; cause, detail (a sentence); {cause}_s: what of the
    length is charged to each cause; since_s: from when on it is reckoned, when a chunk was
    generated after which the listener's buffer only lost.

    From there to the late chunk: batch_before, batch (running streams at both ends), batch_most,
    prefill_tokens of others, prefill_largest (in one step, begun at prefill_largest_s); step: the
    engine's number of the step that filled the late chunk.
    """
    ints, floats = run.record.stall_i, run.record.stall_f
    tape = run.tape
    u = ints[:, b.L_WHO]
    session = np.searchsorted(tape.first, u, side="right") - 1
    who = {
        "session": session if tape.numbers is None else tape.numbers[session],
        "utterance": u - tape.first[session],
        "chunk": ints[:, b.L_CHUNK],
        "replica": ints[:, b.L_ENGINE],
    }
    return table(who, ints, floats, False, run.spec.pace < INF)


def table(
    who: dict[str, np.ndarray], ints: np.ndarray, floats: np.ndarray, calls: bool,
    paced: bool = False,
) -> pd.DataFrame:  # fmt: skip
    """The rows of a log behind the columns that say whose they are; calls: of dialogues; paced: of
    streams that pause."""
    shares = floats[:, b.L_SHARES :]
    cause = pd.Categorical.from_codes(ints[:, b.L_CAUSE].astype(np.int8), pd.Index(b.CAUSES))
    at = floats[:, b.L_LONGEST_AT]
    return pd.DataFrame(
        {
            **who,
            "began_s": floats[:, b.L_BEGAN],
            "length_s": floats[:, b.L_LENGTH],
            "cause": cause,
            "detail": pd.Series(
                [detail(i, f) for i, f in zip(ints.tolist(), floats.tolist(), strict=True)],
                dtype="str",
            ),
            **{
                f"{name}_s": shares[:, c]
                for c, name in enumerate(b.CAUSES)
                if calls or c not in OF_CALLS or (c == b.PACING and paced)
            },
            "since_s": floats[:, b.L_SINCE],
            **{name: ints[:, column] for name, column in EVIDENCE.items()},
            "prefill_largest_s": np.where(at >= 0, at, np.nan),
        }
    )


def metrics(rows: pd.DataFrame, counted: np.ndarray) -> dict[str, Any]:
    """stall_causes: share of the audible stalls by their main cause (None: there are none);
    stall_cause_seconds: seconds of them charged to each cause.  counted: sessions that count."""
    return told(*causes(rows, counted))


def causes(rows: pd.DataFrame, counted: np.ndarray) -> tuple[Sums, Sums]:
    """How many stalls there are by main cause, and their seconds by the cause they are charged to.

    Of pieces of a run both add up (``together``).
    """
    rows = rows[rows["session"].isin(counted)]
    names = [name for name in b.CAUSES if f"{name}_s" in rows]
    n = rows["cause"].value_counts()
    return (
        {x: int(n.get(x, 0)) for x in names},
        {x: float(rows[f"{x}_s"].sum()) for x in names},
    )


def together(pieces: Iterable[Sums]) -> Sums:
    """Sums of sums by cause."""
    found: Sums = {}
    for piece in pieces:
        found |= {x: found.get(x, 0) + n for x, n in piece.items()}
    return found


def told(number: Sums, seconds: Sums) -> dict[str, Any]:
    """``metrics`` from the sums of ``causes``."""
    total = sum(number.values())
    return {
        "stall_causes": {x: n / total if total else None for x, n in number.items()},
        "stall_cause_seconds": dict(seconds),
    }


def clock(t: float) -> str:
    """Seconds from the start of the run as h:mm:ss.s."""
    tenths = int(t * 10 + 0.5)
    s, tenth = divmod(tenths, 10)
    return f"{s // 3600}:{s // 60 % 60:02}:{s % 60:02}.{tenth}"


def detail(ints: list[int], floats: list[float]) -> str:
    """What happened before a stall, in a sentence; times count from the start of the run."""
    cause = ints[b.L_CAUSE]
    late = f"{floats[b.L_SHARES + cause]:.2f} s"
    before, now, most = ints[b.L_BATCH_THEN], ints[b.L_BATCH], ints[b.L_BATCH_MOST]
    batch = f"batch {before} -> {now}" if before != now else f"batch {now}"
    if most > max(before, now):
        batch += f" (up to {most})"
    longest = ints[b.L_LONGEST]
    prefill = ""
    if longest:
        prefill = f"prefill of {longest:,} tokens at {clock(floats[b.L_LONGEST_AT])}"
    beside = ", ".join(filter(None, (batch, prefill)))
    since = clock(floats[b.L_SINCE])
    began = clock(floats[b.L_BEGAN])
    unit = ints[b.L_UNIT]
    return {
        b.NETWORK: f"the chunk was {late} longer on the way than usual at {began}",
        b.CLIENT: f"the client's code took {late} more than before at {began}",
        b.PREEMPTION: f"preempted, {late} until it was back; {beside}",
        b.PREFILL: f"{prefill}; {ints[b.L_TOKENS]:,} tokens since {since}; {batch}",
        b.PAUSE: f"steps {late} longer than usual since {since}; {beside}",
        b.CODEC: f"codec {late} longer than for this stream alone; {beside}",
        b.QUEUE: f"unit {unit} waited {late} for its turn at the TTS engine; {beside}",
        b.TEXT: f"text of unit {unit} came {late} after the speech before it",
        b.BATCH: f"{batch} at {began}" + (f", {prefill}" if prefill else ""),
        b.SHARING: f"the codec stretched the steps by {late} since {since}; {beside}",
        b.NEIGHBOURS: f"other engines on the card took {late} since {since}; {beside}",
        b.PACING: f"unit {unit} was held back until {since}, {late} too long"
        if unit >= 0
        else f"paused because it was ahead, then {late} late; {beside}",
        b.SCHEDULE: f"chunk {ints[b.L_CHUNK]} is {late} late even for a stream alone; {beside}",
    }[cause]
