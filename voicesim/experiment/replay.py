"""Requests that somebody recorded become calls that a scenario can play.

A scenario reads calls from one kind of file (``arrivals: {kind: trace}``): t_s, session, audio_s,
prompt_tokens, think_s, one row per utterance.  Here every recorded format is turned into that, and
every gap in it is filled by an assumption that is put into words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import read
from voicesim.calibrate.readers.measured import Measured

WORD_S = 0.32
"""Seconds of speech of a word: 187 words a minute; the usual synthetic voices speak at 176-179
(https://community.openai.com/t/657893)."""
TOKENS_PER_WORD = 1.3
"""Text tokens of an English word: about 0.75 words to a token
(https://help.openai.com/en/articles/4936856)."""
SECONDS_PER_TOKEN = WORD_S / TOKENS_PER_WORD


@dataclass
class Calls:
    """Recorded calls, one row per utterance, the rows of a session together and in order.

    table: t_s, and as far as anything is known of them session (from 0), audio_s, prompt_tokens,
    think_s (NaN: not known).  notes: what was assumed, a sentence each.
    """

    table: pd.DataFrame
    notes: list[str] = field(default_factory=list)

    @property
    def sessions(self) -> int:
        return int(self.table["session"].nunique()) if "session" in self.table else len(self.table)


def recorded_calls(
    paths: Sequence[Path], seconds_per_token: float | None = None, run: str | None = None
) -> Calls:
    """The calls of recorded files of any format that holds requests.

    seconds_per_token: of speech, where a file counts text tokens.  run: of a folder or file that
    holds several; default the first.
    Several files are laid on one clock: that of the calendar if all are dated, else they begin
    together.  Raises CalibrationError.
    """
    if seconds_per_token is not None and not 0 < seconds_per_token < 60:
        text = f"found {seconds_per_token:g}; must be over 0 and under 60"
        raise CalibrationError("--seconds-per-token", None, text)
    found = [_read(path, run) for path in paths]
    _refuse_unknown(found, run)
    notes, parts = [], []
    epochs = [each.epoch_s for each in found]
    dated = len(found) > 1 and bool(np.isfinite(epochs).all())
    for i, each in enumerate(found):
        part, said = _rows(each, seconds_per_token or SECONDS_PER_TOKEN, run)
        part["file"] = i
        if dated:
            part["arrival_s"] += each.epoch_s - min(epochs)
        parts.append(part)
        notes += [*said, *_talk(each)]
    if len(found) > 1 and not dated:
        notes.append("not all traces are dated: they begin together")
    rows = pd.concat(parts, ignore_index=True)
    table, more = _in_sessions(rows)
    return Calls(table, [*notes, *more])


def _read(path: Path, run: str | None) -> Measured:
    if run is not None and path.is_dir():
        from voicesim.calibrate.readers import run_folder

        measured = run_folder.read(path, run)
    else:
        measured = read(path)
    if measured.requests is None:
        raise CalibrationError(measured.file, None, f"{measured.format}: holds no requests")
    return measured


def _refuse_unknown(found: Sequence[Measured], run: str | None) -> None:
    """Raise CalibrationError for a run that none of the traces holds."""
    if run is None:
        return
    held = {
        str(each): m.file
        for m in found
        for each in m.requests["run"].unique()  # type: ignore[index]
    }
    if run not in held:
        file = ", ".join(dict.fromkeys(held.values()))
        raise CalibrationError(file, None, f"holds no run {run!r}; it holds: {', '.join(held)}")


def _talk(measured: Measured) -> list[str]:
    """How the recorded conversation went, where the file says."""
    if measured.dialogue is None:
        return []
    by = measured.dialogue.groupby("measure")["value"]
    mean, median = by.mean(), by.median()
    words = [
        f"{text} {value[name] * factor:.3g}{unit}"
        for name, text, value, factor, unit in (
            ("talk_share", "the agent talks", mean, 100, " % of the time"),
            ("barge_in", "barge-in cuts", mean, 100, " % of its replies (played as long as heard)"),
            ("gap_s", "turn gap, median,", median, 1, " s"),
            ("user_turn_s", "caller's turn, median,", median, 1, " s"),
        )
        if name in mean
    ]
    return [f"{measured.file}: {'; '.join(words)}"] if words else []


def _rows(
    measured: Measured, seconds_per_token: float, run: str | None
) -> tuple[pd.DataFrame, list[str]]:
    """The usable requests of one file with their length as audio_s, and what was assumed."""
    rows, name = measured.requests.copy(), measured.file  # type: ignore[union-attr]
    notes = []
    runs = [str(each) for each in rows["run"].unique()]
    if len(runs) > 1:
        if run is not None and run not in runs:
            raise CalibrationError(name, None, f"holds no run {run!r}; it holds: {', '.join(runs)}")
        rows = rows[rows["run"].astype(str) == (run or runs[0])]
        notes.append(f"{name}: run {run or runs[0]} of {', '.join(runs)} is played")
    notes.append(f"{name}: {measured.format}, {len(rows):,} requests")
    from_tokens = rows["audio_s"].isna() & rows["tokens"].notna()
    rows["audio_s"] = rows["audio_s"].where(~from_tokens, rows["tokens"] * seconds_per_token)
    if from_tokens.any():
        notes.append(f"{name}: text tokens are spoken at {seconds_per_token:.4g} s a token" + (
            f" ({WORD_S:g} s a word, {TOKENS_PER_WORD:g} tokens a word)"
            if seconds_per_token == SECONDS_PER_TOKEN else ""))  # fmt: skip
    silent = (rows["audio_s"] == 0) | (rows["audio_s"].isna() & ~rows["ok"])
    if silent.any():
        notes.append(f"{name}: {silent.sum():,} requests without a reply (failed) are left out")
    rows = rows[~silent]
    if rows.empty:
        raise CalibrationError(name, None, "holds no usable request: none has a reply")
    lost = rows["arrival_s"].isna() & rows["session"].isna()
    if lost.any() or rows["arrival_s"].isna().all():
        raise CalibrationError(name, None, "does not say when its requests came")
    if rows["session"].isna().all():
        notes.append(f"{name}: no session ids, so each request is a call of its own")
    return rows, notes


def _in_sessions(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows sorted into sessions by their start, with pauses; and what was assumed."""
    own = rows["file"].astype(str) + "/" + rows["session"].astype(str)
    alone = pd.Series([f"/{i}" for i in range(len(rows))], rows.index)
    code = pd.factorize(own.where(rows["session"].notna(), alone))[0]
    start = rows.groupby(code)["arrival_s"].transform("first").to_numpy()
    order = np.lexsort((np.arange(len(rows)), code, start))
    rows, code = rows.iloc[order].reset_index(drop=True), code[order]
    if np.isnan(start).any():
        raise CalibrationError("trace", None, "a session does not say when it began")
    more = np.append(code[1:] == code[:-1], False)  # the session goes on after this row
    at = rows["arrival_s"].groupby(code).ffill().to_numpy()
    back = np.flatnonzero(more & (np.append(at[1:], np.inf) < at))
    if len(back):
        k = int(back[0])
        file, line = str(rows["run"].iloc[k + 1]), rows["line"].iloc[k + 1]
        text = f"goes back in time: {at[k + 1]:g} s after {at[k]:g} s in one session"
        raise CalibrationError(file, None if np.isnan(line) else int(line), text)
    think, notes = _pauses(rows, more)
    table = pd.DataFrame({"t_s": at})
    lengths = rows[["audio_s", "prompt_tokens"]]
    if more.any() or lengths.notna().any(axis=None):
        if more.any():
            table["session"] = np.cumsum(np.append(0, np.diff(code) != 0))
        for name, words in (("audio_s", "lengths"), ("prompt_tokens", "prompt lengths")):
            missing = int(lengths[name].isna().sum())
            if missing < len(rows):
                table[name] = lengths[name]
            if missing:
                notes.append(_by_law(words, missing, len(rows)))
        if more.any() and np.isfinite(think[more]).any():
            table["think_s"] = think
        unknown = int(np.isnan(think[more]).sum())
        if unknown:
            notes.append(_by_law("pauses", unknown, int(more.sum())))
    else:
        notes.append("nothing but start times: each starts a call of the scenario's laws")
    return table, notes


def _by_law(what: str, missing: int, of: int) -> str:
    share = "are" if missing == of else f"of {missing:,} of {of:,} utterances are"
    return f"{what} {share} not in the trace: drawn from the scenario's law"


def _pauses(rows: pd.DataFrame, more: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """float64[n] pauses after each row; NaN: not known, 0 after a session's last."""
    notes = []
    said = rows["think_s"].to_numpy()
    at = rows["arrival_s"].to_numpy()
    spoken = rows["audio_s"].to_numpy() + rows["ttfa_s"].fillna(0.0).to_numpy()
    gap = np.append(at[1:], np.nan) - at - spoken
    derived = more & np.isnan(said) & np.isfinite(gap)
    if derived.any():
        notes.append(
            "pauses: from the end of a reply (request, first audio where known, its length) to the "
            "next request of the session"
        )
        early = int((derived & (gap < 0)).sum())
        if early:
            notes.append(f"{early:,} requests came before the reply before was over: pause 0")
    think = np.where(np.isnan(said) & derived, np.maximum(gap, 0.0), said)
    return np.where(more, think, np.where(np.isnan(said), 0.0, said)), notes


def calls_csv(calls: Calls) -> bytes:
    """The file that a scenario reads; numbers to the last bit."""
    text: str = calls.table.to_csv(index=False, na_rep="unknown", lineterminator="\n")
    return text.encode()
