"""Which of the speech that was made was heard: unit by unit, answer by answer.

An answer's units are heard in their order, so what was listened to (seconds) covers the first of
them; the rest of what an engine had decoded is waste, whether it had left the engine or not.
"""

import numpy as np
import pandas as pd

from voicesim.engine import layout as at
from voicesim.metrics.dialogue_run import Played
from voicesim.session import record as of


def units(run: Played) -> pd.DataFrame:
    """One row per unit of every answer that was asked for (and per answer of the omni pool).

    answer, turn, call: where it belongs.  stage: number of the pool in ``spec.pools``.
    unit: number in its answer.  cached: from the phrase cache.  tokens: decode steps that the whole
    unit is; generated_tokens: of these, what the engine has decoded (0 where cached).
    text_tokens: tokens of its text.  generated_s, heard_s, wasted_s: audio that was made or in the
    cache, was heard, was not; generated = heard + wasted.
    pool: the stage's name.  requested_s: when it came to the engine (NaN: never).
    """
    record = run.record
    spoken = _spoken(run)
    voiced = _omni(run)
    table = pd.concat([spoken, voiced], ignore_index=True) if len(voiced) else spoken
    table = table.sort_values(["answer", "unit", "stage"], ignore_index=True)
    made, rows = table["generated_s"].to_numpy(), table["answer"].to_numpy()
    fell_back = record.answer_i[rows, of.A_FELL_BACK] == 1
    silent = fell_back & (table["unit"].to_numpy() < 0)  # the omni pool's voice came too late
    there = np.where(silent, 0.0, made)
    starts = np.cumsum(there) - there
    offset = starts - starts[np.searchsorted(rows, rows)]  # within the answer
    live = record.answer_i[rows, of.A_OUTCOME] == of.PENDING  # it will be heard, for all we know
    listened = record.answer_f[rows, np.where(live, of.A_RECEIVED, of.A_LISTENED)]
    heard = np.clip(listened - offset, 0.0, there)
    table["heard_s"] = heard
    table["wasted_s"] = made - heard
    table.insert(1, "turn", run.turn[rows])
    table.insert(2, "call", run.call[run.turn[rows]])
    names = {s.pool: s.name for s in run.terms.stages}
    table.insert(4, "pool", table["stage"].map(names))
    asked = record.answer_f[rows, of.A_DECIDED] >= 0.0
    table = table[asked].reset_index(drop=True)
    return table


def _spoken(run: Played) -> pd.DataFrame:
    """Units at the TTS pools and from the phrase cache."""
    tape, record = run.tape, run.record
    answer = run.answer_of_unit
    number = np.arange(tape.units) - tape.unit[answer]
    sent = number < record.answer_i[answer, of.A_SENT_UNITS]
    cached = tape.unit_cached == 1
    pool = tape.tts[answer]
    begin = np.where(number == 0, 0, np.roll(tape.unit_end, 1))
    generated = np.zeros(tape.units, np.int64)
    audio = np.zeros(tape.units)
    requested = np.full(tape.units, np.nan)
    for k, spec in enumerate(run.spec.tts):
        mine = np.flatnonzero(pool == k)
        audio[mine] = spec.token_audio
        if not len(mine):
            continue
        i, f = rows_of(run, len(run.spec.llm) + k, mine)
        generated[mine] = i[:, at.R_GENERATED]
        requested[mine] = np.where(f[:, at.Z_REQUEST] > 0, f[:, at.Z_REQUEST], np.nan)
    there = np.where(cached & sent, tape.unit_tokens, generated)
    return pd.DataFrame(
        {
            "answer": answer,
            "stage": len(run.spec.llm) + pool,
            "unit": number,
            "cached": cached,
            "sent": sent,
            "tokens": tape.unit_tokens,
            "text_tokens": tape.unit_end - begin,
            "generated_tokens": generated,
            "generated_s": there * audio,
            "requested_s": requested,
        }
    )


def _omni(run: Played) -> pd.DataFrame:
    """Answers of the speech-to-speech pool, each as unit -1."""
    tape, spec = run.tape, run.spec.omni
    rows = np.flatnonzero(tape.omni == 1)
    if spec is None or not len(rows):
        return pd.DataFrame()
    i, f = rows_of(run, len(run.spec.pools) - 1, rows)
    generated = i[:, at.R_GENERATED]
    return pd.DataFrame(
        {
            "answer": rows,
            "stage": len(run.spec.pools) - 1,
            "unit": -1,
            "cached": False,
            "sent": True,
            "tokens": tape.omni_tokens[rows],
            "text_tokens": 0,
            "generated_tokens": generated,
            "generated_s": generated * spec.token_audio,
            "requested_s": np.where(f[:, at.Z_REQUEST] > 0, f[:, at.Z_REQUEST], np.nan),
        }
    )


def rows_of(run: Played, pool: int, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a pool's record that belong to answers or units of the tape, by their numbers."""
    record = run.record.pools[pool]
    return record.utterance_i[members], record.utterance_f[members]


def answers(run: Played, unit_table: pd.DataFrame) -> pd.DataFrame:
    """One row per answer of the tape: what was made for it and what was heard of that.

    units: sent to a voice.  tokens: of the TTS or omni engine; llm_tokens: of the LLM.
    generated_s, heard_s, wasted_s as in ``units``.  llm_wasted: tokens whose words were not heard
    (a unit heard in part counts in part); tts_wasted likewise, without what was cached.
    """
    n = run.tape.answers
    rows = unit_table["answer"].to_numpy()

    def total(column: str | np.ndarray) -> np.ndarray:
        values = unit_table[column].to_numpy() if isinstance(column, str) else column
        return np.bincount(rows, weights=values, minlength=n)

    made, heard = (unit_table[c].to_numpy() for c in ("generated_s", "heard_s"))
    share = np.divide(heard, made, out=np.zeros(len(made)), where=made > 0)
    llm = llm_tokens(run)
    words = total(share * unit_table["text_tokens"].to_numpy())
    return pd.DataFrame(
        {
            "units": total("sent").astype(np.int64),
            "cached_units": total((unit_table["sent"] & unit_table["cached"]).to_numpy()).astype(
                np.int64
            ),
            "tokens": total("generated_tokens").astype(np.int64),
            "tokens_wasted": total((1.0 - share) * unit_table["generated_tokens"].to_numpy()),
            "llm_tokens": llm,
            "llm_tokens_wasted": np.maximum(llm - words, 0.0),
            "generated_s": total("generated_s"),
            "heard_s": total("heard_s"),
            "wasted_s": total("wasted_s"),
        }
    )


def llm_tokens(run: Played) -> np.ndarray:
    """int64[R]: reply tokens that the LLM has made for each answer."""
    found = np.zeros(run.tape.answers, np.int64)
    for k in range(len(run.spec.llm)):
        mine = np.flatnonzero(run.tape.llm == k)
        found[mine] = rows_of(run, k, mine)[0][:, at.R_GENERATED]
    return found
