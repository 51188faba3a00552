"""Measured runs to replay: when each stream was sent, how long it was, when its tokens came.

The per-token trace is that of ``voicesim.calibrate.arrivals`` (run_id, stream_id, token_index,
t_arrival_s, prompt_tokens, optional token_budget).  Send times come from a sessions file (run_id,
stream_id, t_send_s, n_tokens, prompt_tokens) or, without one, are guessed: the arrival of the first
token minus the step that the profile predicts for the prompts that end there together.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from voicesim.calibrate.arrivals import budget_of
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers.arrival_trace import tokens_of
from voicesim.calibrate.readers.csv_file import header_of_file, parse_file
from voicesim.calibrate.table import require
from voicesim.engine.profile import Profile

SESSION_COLUMNS = ["run_id", "stream_id", "t_send_s", "n_tokens", "prompt_tokens"]


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """One run, its streams in order of their send times.

    sent: float64[S], s.  arrivals: of each stream, s.  prompt: int64[S], tokens.  budget: tokens
    of a step.  send_known: were the send times measured?
    """

    name: str
    sent: np.ndarray
    arrivals: list[np.ndarray]
    prompt: np.ndarray
    budget: int
    send_known: bool

    @property
    def tokens(self) -> np.ndarray:
        """Tokens of each stream."""
        return np.array([len(t) for t in self.arrivals], np.int64)

    @property
    def settings(self) -> tuple[int, ...]:
        """Equal for repeats: the budget, and the streams' lengths and prompts."""
        pairs = sorted(zip(self.tokens.tolist(), self.prompt.tolist(), strict=True))
        return self.budget, *(n for pair in pairs for n in pair)


def read_runs(trace: Path, sessions: Path | None, profile: Profile) -> list[MeasuredRun]:
    """The runs of a trace; raises CalibrationError with the line."""
    rows = read_trace(trace)
    sent = None if sessions is None else read_sessions(sessions, rows, trace)
    return [
        _run(str(name), of, profile, None if sent is None else sent.loc[[str(name)]])
        for name, of in rows.groupby("run_id", sort=True)
    ]


def runs_of_tokens(
    tokens: pd.DataFrame, requests: pd.DataFrame, profile: Profile
) -> list[MeasuredRun]:
    """The runs of a benchmark's token arrivals, sent when its requests were
    (``calibrate.readers.measured``)."""
    keys = {"run": requests["run"].astype(str), "request": requests["request"].astype(float)}
    send = pd.DataFrame({**keys, "t_send_s": requests["arrival_s"]}).set_index(list(keys))
    runs = []
    for name, rows in tokens.groupby("run_id", sort=False):
        rows = rows.sort_values(["stream_id", "token_index"], ignore_index=True)
        mine = [(str(name), stream) for stream in rows["stream_id"].unique()]
        runs.append(_run(str(name), rows, profile, send.loc[mine]))
    return runs


def read_trace(path: Path) -> pd.DataFrame:
    """Rows of a per-token trace, checked, sorted by run, stream and token."""
    return tokens_of(Path(path))


def read_sessions(path: Path, rows: pd.DataFrame, trace: Path) -> pd.DataFrame:
    """Send times by (run_id, stream_id), checked against the trace."""
    path, file = Path(path), Path(path).name
    require(header_of_file(path), SESSION_COLUMNS, file)
    table = parse_file(path, SESSION_COLUMNS[1:], ["run_id"])
    keys = ["run_id", "stream_id"]
    seen = rows.groupby(keys)["t_arrival_s"].agg(["size", "first"]).reset_index()
    found = table.merge(seen, how="left", on=keys)
    other = Path(trace).name
    checks = [
        (table.duplicated(keys), "stream_id: is there twice in its run"),
        (found["size"].isna(), f"stream_id: has no tokens in {other}"),
        (found["size"] != found["n_tokens"], f"n_tokens: {other} has another number of tokens"),
        (found["first"] < found["t_send_s"], f"t_send_s: after its first token in {other}"),
    ]
    for bad, message in checks:
        if bad.any():
            raise CalibrationError(file, int(table["line"].to_numpy()[bad.to_numpy()][0]), message)
    known = pd.MultiIndex.from_frame(table[keys])
    absent = ~pd.MultiIndex.from_frame(rows[keys]).isin(known)
    if absent.any():
        line = int(rows["line"].to_numpy()[absent].min())
        raise CalibrationError(other, line, f"stream_id: has no send time in {file}")
    return table.set_index(keys).sort_index()


def _run(name: str, rows: pd.DataFrame, profile: Profile, sent: pd.DataFrame | None) -> MeasuredRun:
    ids, times = rows["stream_id"].to_numpy(), rows["t_arrival_s"].to_numpy()
    starts = np.concatenate(([0], np.flatnonzero(np.diff(ids)) + 1))
    arrivals = np.split(times, starts[1:])
    prompt = rows["prompt_tokens"].to_numpy()[starts].astype(np.int64)
    if sent is None:
        send = guessed_send_times(arrivals, prompt, profile)
    else:
        send = sent["t_send_s"].to_numpy()  # sorted by stream_id, as the streams are
    order = np.argsort(send, kind="stable")
    return MeasuredRun(
        name, send[order], [arrivals[i] for i in order], prompt[order], int(budget_of(name, rows)),
        sent is not None,
    )  # fmt: skip


def guessed_send_times(
    arrivals: list[np.ndarray], prompt: np.ndarray, profile: Profile
) -> np.ndarray:
    """First token minus the predicted step of all prompts that end with it (s).

    First tokens less than half a typical token gap apart came from one step.
    """
    first = np.array([t[0] for t in arrivals])
    last = np.array([t[-1] for t in arrivals])
    gaps = np.concatenate([np.diff(t) for t in arrivals])
    near = 0.5 * float(np.median(gaps)) if len(gaps) else 0.0
    send = np.empty(len(first))
    order = np.argsort(first, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(first[order]) > near) + 1):
        t = first[group[0]]
        running = np.flatnonzero((first < t) & (last >= t))
        context = sum(prompt[j] + np.searchsorted(arrivals[j], t) for j in running)
        p = prompt[group].astype(float)
        loads = (
            len(running) + p.sum(), context + p.sum(), context + (p * (p + 1) / 2).sum(),
            len(running) + len(group),
        )  # fmt: skip
        send[group] = t - profile.predict_loads(*(np.array([float(v)]) for v in loads))[0]
    return send
