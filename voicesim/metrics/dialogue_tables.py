"""Tables of a run of dialogues: one row per turn, per call, per bin."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from voicesim.engine import layout as at
from voicesim.engine.quantiles import quantile_rows
from voicesim.metrics.dialogue_audio import answers
from voicesim.metrics.dialogue_run import SEGMENTS, Played
from voicesim.metrics.tables import outcomes
from voicesim.session import record as of
from voicesim.workload.rng import hash_key

UNSPOKEN = len(of.ANSWERS)
OUTCOMES = (*of.ANSWERS, "unspoken")
"""What became of a turn: of its answer, or the caller never came to speak."""
NS = 1_000_000_000
P_HELLO = 121
"""Purpose of the counter hash (those below are the engine's)."""


def nanoseconds(seconds: np.ndarray) -> np.ndarray:
    """Instants as whole nanoseconds, so that their differences add up exactly."""
    return np.rint(np.asarray(seconds) * NS).astype(np.int64)


def segments(run: Played, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(int64[n, 8], bool[n, 8]) nanoseconds of each of SEGMENTS for these answers, and where known.

    Each is a difference of two instants in whole nanoseconds, so that they sum to START - SPOKEN
    exactly; capture is the scenario's.
    """
    f = run.record.answer_f[rows]
    columns = [of.A_SPOKEN, of.A_HEARD_END, of.A_DECIDED, of.A_TEXT, of.A_FIRST_UNIT,
               of.A_FIRST_SENT, of.A_ARRIVED, of.A_START]  # fmt: skip
    instants = f[:, columns]
    there = instants >= 0.0
    ns = nanoseconds(instants)
    capture = np.full(len(rows), nanoseconds(np.array(run.spec.capture)))
    first = ns[:, 1] - ns[:, 0] - capture
    gaps = np.column_stack([capture, first, np.diff(ns[:, 1:], axis=1)])
    pairs = there[:, 1:] & there[:, :-1]
    return gaps, np.column_stack([pairs[:, 0], pairs])


def turns(run: Played, units: pd.DataFrame) -> pd.DataFrame:
    """One row per turn of every call, spoken or not.

    outcome: of OUTCOMES.  spoken_s: when the caller had spoken; started_s: when the answer was
    heard (s from the start of the run, NaN: never).  The segments of the ledger and total_s, their
    sum: whole nanoseconds, so ``(x * 1e9).round()`` adds up exactly.  waited_s: total_s, or as long
    as the caller waited in vain.
    interrupt: what stopped or disturbed the answer.  stop_s: from the caller's voice to the
    answer's last sound; overtalk_s: both spoke, false starts of the agent included.
    paused_s: silence of the agent after a false interruption.
    reasked: a pause was taken for the end and an answer prepared (cut_in: it was even heard).
    late: the end was noticed ``terms.late`` after it or later.  reprompt: the caller has asked
    "hello?".
    units, tokens (decode steps), llm_tokens, generated_s, heard_s, wasted_s, ...: of the answer
    and of that to the half-heard turn together; generated_s = heard_s + wasted_s.
    measured: two chunks or more.  spoilt: the first of FAULTS, "" if none; clean: none.  good: none
    but unmeasured.
    """
    tape, record = run.tape, run.record
    rows = tape.answer
    i, f = record.answer_i[rows], record.answer_f[rows]
    spoke = f[:, of.A_SPOKEN] >= 0.0
    heard = f[:, of.A_START] >= 0.0
    gaps, known = segments(run, rows)
    measured = i[:, of.A_CHUNKS] >= 2
    total = np.where(heard, gaps.sum(axis=1) / NS, np.nan)

    def instant(column: int) -> np.ndarray:
        return np.where(f[:, column] >= 0.0, f[:, column], np.nan)

    made = answers(run, units)
    per_turn = {
        str(name): np.bincount(run.turn, weights=made[name], minlength=tape.turns) for name in made
    }
    codes = np.where(spoke, i[:, of.A_OUTCOME], UNSPOKEN).astype(np.int8)
    stop, overtalk = _talking_over(run)
    waited = _waited(run, total)
    names = [t.name for t in run.terms.tenants]
    table: dict[str, Any] = {
        "call": run.call,
        "turn": np.arange(tape.turns) - tape.first[run.call],
        "tenant": pd.Categorical.from_codes(tape.tenant[run.call].astype(np.int8), pd.Index(names)),
        "outcome": pd.Categorical.from_codes(codes, pd.Index(OUTCOMES)),
        "spoken_s": instant(of.A_SPOKEN),
        "started_s": instant(of.A_START),
        **{
            f"{name}_s": np.where(known[:, k], gaps[:, k] / NS, np.nan)
            for k, name in enumerate(SEGMENTS)
        },
        "total_s": total,
        "waited_s": waited,
        "chunks": i[:, of.A_CHUNKS],
        "stalls": i[:, of.A_STALLS],
        "audible_stalls": i[:, of.A_AUDIBLE],
        "stall_total_s": np.where(measured, f[:, of.A_STALL], np.nan),
        "stall_largest_s": np.where(measured, f[:, of.A_STALL_MAX], np.nan),
        "worst_pace": np.where(f[:, of.A_PACE] >= 0.0, f[:, of.A_PACE], np.nan),
        "lost_audio_s": f[:, of.A_LOST],
        "interrupt": pd.Categorical.from_codes(
            i[:, of.A_INTERRUPT].astype(np.int8), pd.Index(of.INTERRUPTS)
        ),
        "stop_s": stop,
        "overtalk_s": overtalk,
        "paused_s": f[:, of.A_PAUSED],
        "filler": i[:, of.A_FILLER] > 0,
        "overlap": i[:, of.A_OVERLAP] > 0,
        "reasked": _cut(run, of.A_DECIDED),
        "cut_in": _cut(run, of.A_START),
        "late": known[:, 2] & (gaps[:, 2] >= nanoseconds(np.array(min(run.terms.late, 1e6)))),
        "reprompt": spoke & (np.nan_to_num(waited) > hello(run)),
        "fell_back": i[:, of.A_FELL_BACK] == 1,
        **{n: v if n.endswith(("_s", "wasted")) else v.astype(int) for n, v in per_turn.items()},
        "measured": measured,
    }
    found = pd.DataFrame(table)
    wrong = faults(run, found)
    found["good"] = ~np.logical_or.reduce([wrong[name] for name in FAULTS if name != "unmeasured"])
    first = np.argmax([*wrong.values(), np.ones(tape.turns, bool)], axis=0)
    found["spoilt"] = pd.Categorical.from_codes(first.astype(np.int8), pd.Index([*FAULTS, ""]))
    found["clean"] = found["spoilt"] == ""
    return found


FAULTS = ("unsaid", "cut_in", "unanswered", "late", "broken_off", "stalled", "lost", "overlap",
          "unmeasured")  # fmt: skip
"""What keeps a turn from being CLEAN, in the order in which its caller meets it."""


def faults(run: Played, table: pd.DataFrame) -> dict[str, np.ndarray]:
    """bool[T] for each of FAULTS; of a turn several may be true.

    unsaid: the caller never came to it.  cut_in: the agent was heard answering half of it.
    unanswered: no answer was heard.  late: after the tenant's ``start_within``.  broken_off: noise,
    a hang-up or the run's end cost the rest of the answer, or noise a pause over the tenant's
    ``no_stall_over``.  stalled: over that.  lost: audio.  overlap: it spoke over a filler.
    unmeasured: answered in one chunk.
    """
    tenant = run.tape.tenant[run.call]
    within = np.array([t.start_within for t in run.terms.tenants])[tenant]
    over = np.array([t.no_stall_over for t in run.terms.tenants])[tenant]
    outcome, why, total = table["outcome"], table["interrupt"], table["total_s"]
    ended = (outcome == "played") | ((outcome == "cancelled") & (why == "barge_in"))
    found = (
        outcome == "unspoken",
        table["cut_in"],
        total.isna(),
        nanoseconds(total.fillna(1e6).to_numpy()) > nanoseconds(within),
        ~ended | (table["paused_s"] > over),
        table["stall_largest_s"] > over,
        table["lost_audio_s"] != 0.0,
        table["overlap"],
        ~table["measured"],
    )
    return {name: np.asarray(each) for name, each in zip(FAULTS, found, strict=True)}


def _cut(run: Played, column: int) -> np.ndarray:
    """bool[T]: the answer to the half-heard turn came as far as that instant."""
    cut = run.tape.cut
    return (cut >= 0) & (run.record.answer_f[cut, column] >= 0.0)


def _waited(run: Played, total: np.ndarray) -> np.ndarray:
    """float64[T]: total, else until the answer was given up, the caller left, the run ended."""
    f = run.record.answer_f[run.tape.answer]
    end = run.record.call_f[run.call, of.Q_END]
    until = np.where(f[:, of.A_DONE] >= 0.0, f[:, of.A_DONE], np.where(end >= 0.0, end, np.inf))
    vain = np.maximum(np.minimum(until, run.record.now) - f[:, of.A_SPOKEN], 0.0)
    return np.where(np.isnan(total), np.where(f[:, of.A_SPOKEN] >= 0.0, vain, np.nan), total)


def hello(run: Played) -> np.ndarray:
    """float64[T]: silence after which the caller of each turn says "hello?" (s).

    Nothing in the run depends on it, so it is drawn afterwards, from the run's seed and the turn.
    """
    turns = np.arange(run.tape.turns).astype(np.uint64)
    seed = np.full(len(turns), run.spec.seed & (1 << 64) - 1, np.uint64)
    key = hash_key(seed, np.full(len(turns), P_HELLO, np.uint64), turns, np.zeros_like(turns))
    u = ((key >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
    median, sigma = run.terms.hello
    return median * np.exp(sigma * ndtri(u))


def _talking_over(run: Played) -> tuple[np.ndarray, np.ndarray]:
    """(float64[T], float64[T]) seconds from the caller's voice to the last sound of the answer that
    it interrupts (NaN: not interrupted by its caller), and seconds in which both spoke."""
    tape, record = run.tape, run.record
    f = record.answer_f[tape.answer]
    why = record.answer_i[tape.answer, of.A_INTERRUPT]
    follows = np.zeros(tape.turns, bool)
    follows[:-1] = run.call[1:] == run.call[:-1]
    begun = np.where(tape.cut >= 0, tape.cut, tape.answer)  # the first answer to each turn
    voice, silent = (np.roll(record.answer_f[begun, c], -1) for c in (of.A_SPEAK, of.A_SPOKEN))
    barged = (why == of.CALLER) & follows & (voice >= 0.0) & (f[:, of.A_STOPPED] >= 0.0)
    stop = np.where(barged, np.maximum(f[:, of.A_STOPPED] - voice, 0.0), np.nan)
    until = np.where(silent >= 0.0, np.minimum(f[:, of.A_STOPPED], silent), f[:, of.A_STOPPED])
    both = np.where(barged, np.maximum(until - voice, 0.0), 0.0)
    cut = np.flatnonzero(_cut(run, of.A_START))
    c = record.answer_f[tape.cut[cut]]
    goes_on = c[:, of.A_SPEAK] + tape.cut_at[cut] + tape.cut_pause[cut]
    last = np.where(c[:, of.A_STOPPED] >= 0.0, c[:, of.A_STOPPED], c[:, of.A_PLAY_END])
    both[cut] += np.maximum(last - np.maximum(goes_on, c[:, of.A_START]), 0.0)
    return stop, both


def sessions(run: Played, turn_table: pd.DataFrame) -> pd.DataFrame:
    """One row per call.

    outcome: of voicesim.engine.layout.OUTCOMES.  turns: that the caller came to; planned: that the
    tape has.  start_s, end_s: NaN where it never came to that.
    measured: an answer of two chunks or more was played; without one stalls are not measured,
    and what is not measured is never clean.  clean: completed, measured, every turn good.
    """
    tape, record = run.tape, run.record
    n = tape.calls
    k = turn_table["call"].to_numpy()

    def total(values: Any) -> np.ndarray:
        return np.bincount(k, weights=np.asarray(values, float), minlength=n)

    outcome = record.call_i[:, of.Q_OUTCOME]
    planned = np.diff(tape.first)
    measured = total(turn_table["measured"]) > 0
    spans = record.call_f
    return pd.DataFrame(
        {
            "session": np.arange(n),
            "tenant": pd.Categorical.from_codes(
                tape.tenant.astype(np.int8), pd.Index([t.name for t in run.terms.tenants])
            ),
            "arrival_s": tape.arrival,
            "outcome": outcomes(outcome),
            "planned": planned,
            "turns": total(turn_table["outcome"] != "unspoken").astype(np.int64),
            "start_s": np.where(spans[:, of.Q_START] >= 0, spans[:, of.Q_START], np.nan),
            "end_s": np.where(spans[:, of.Q_END] >= 0, spans[:, of.Q_END], np.nan),
            "clean": (outcome == at.COMPLETED) & measured & (total(turn_table["good"]) == planned),
            "accepted": outcome != at.REFUSED,
            "measured": measured,
            "clean_turns": total(turn_table["clean"]).astype(np.int64),
            "audible_stalls": total(turn_table["audible_stalls"]).astype(np.int64),
            "stall_total_s": total(turn_table["stall_total_s"].fillna(0.0)),
        }
    )


def series(run: Played, offered: np.ndarray) -> pd.DataFrame:
    """One row per bin of series.resolution: gauges at its start, counts over it.

    offered: nominal calls per second.  live: calls; speaking: callers who speak; answering:
    agents who do.  running, waiting, codec_queue: of all pools together, and of each by name.
    gap_p99: of the chunks of answers, as in voicesim.metrics.tables.
    """
    rows = run.record.series
    found: dict[str, Any] = {
        "t_s": np.arange(len(rows)) * run.spec.resolution,
        "offered_per_s": offered,
        "calls": rows[:, of.D_CALLS],
        "refused": rows[:, of.D_REFUSED],
        "abandoned": rows[:, of.D_ABANDONED],
        "stalls": rows[:, of.D_STALLS],
        "live": rows[:, of.D_LIVE],
        "speaking": rows[:, of.D_SPEAKING],
        "answering": rows[:, of.D_ANSWERING],
    }
    pools = run.record.pools
    gauges = {"running": at.B_RUNNING, "waiting": at.B_WAITING, "waiting_max": at.B_WAITING_MAX,
              "codec_queue": at.B_QUEUED, "gateway": at.B_GATEWAY}  # fmt: skip
    for name, column in gauges.items():
        found[name] = np.sum([p.series[: len(rows), column] for p in pools], axis=0)
    found["gap_p99"] = quantile_rows(run.record.gaps[: len(rows)], 0.99)
    for stage in run.terms.stages:
        if stage.pool >= 0:
            for name in ("running", "waiting"):
                of_pool = pools[stage.pool].series[: len(rows), gauges[name]]
                found[f"{name}_{stage.name}"] = of_pool
    return pd.DataFrame(found)
