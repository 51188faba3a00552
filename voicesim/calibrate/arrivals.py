"""Per-token arrival traces to step samples.

Columns: run_id, stream_id, token_index, t_arrival_s (seconds since the run began),
prompt_tokens; optional concurrency (ignored) and token_budget (tokens per step; without it a
run_id that ends in ``-chunkN`` says N, else 2048).

One engine step gives one token to every running stream.  So a stream's n-th token belongs to the
step of its first token plus n, and only the step of each first token has to be found: the one
that puts the stream's arrivals nearest to those of the streams already placed.  This holds when
the client delivers the tokens of one step tens of milliseconds apart, where a rule on gaps alone
splits steps.  A step lasts as long as its streams felt it: the median, over streams, of the gap
to the token before.

A stream's first token ends its prompt.  Prompts fill the steps up to that one as a scheduler
with a token budget does: decodes first, then prompts in order of completion.
"""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.samples import LONGEST_S, SHORTEST_S, from_columns

REQUIRED = ["run_id", "stream_id", "token_index", "t_arrival_s", "prompt_tokens"]
DEFAULT_TOKEN_BUDGET = 2048
"""vLLM's default max_num_batched_tokens on small devices."""


@dataclass
class Placed:
    """A run with its steps found.

    Per token, by stream: step, arrival (s) and index.  Per stream: first and last step, prompt,
    and where its tokens begin.
    """

    step: np.ndarray
    t: np.ndarray
    index: np.ndarray
    first: np.ndarray
    last: np.ndarray
    prompt: np.ndarray
    starts: np.ndarray

    @property
    def steps(self) -> int:
        """Steps of the run."""
        return int(self.last.max()) + 1


def samples_of(table: pd.DataFrame, file: str) -> pd.DataFrame:
    """Sample table of tokens sorted by run, stream and index (with a column ``line``)."""
    parts = [_run_samples(str(run), rows, file) for run, rows in table.groupby("run_id", sort=True)]
    samples = pd.concat(parts, ignore_index=True)
    if samples.empty:
        message = "holds no step: no stream has two tokens at different instants"
        raise CalibrationError(file, None, message)
    return samples


def check_streams(table: pd.DataFrame, file: str) -> None:
    """Token indices count up from 0 in each stream and time does not run backwards."""
    new = (table["run_id"] != table["run_id"].shift()) | (
        table["stream_id"] != table["stream_id"].shift()
    )
    index, t = table["token_index"].to_numpy(), table["t_arrival_s"].to_numpy()
    start = new.to_numpy()
    before = np.concatenate(([-1.0], index[:-1]))
    expected = np.where(start, 0.0, before + 1)
    checks = [
        (index != expected, "token_index: repeated or missing in its stream"),
        (~start & (np.diff(t, prepend=t[:1]) < 0), "t_arrival_s: before the token before it"),
        (
            ~start & (np.diff(t, prepend=t[:1]) > LONGEST_S),
            "t_arrival_s: more than an hour after the token before it (seconds?)",
        ),
        (table["prompt_tokens"].to_numpy() < 1, "prompt_tokens: must be at least 1"),
    ]
    for bad, message in checks:
        if bad.any():
            raise CalibrationError(file, int(table["line"].to_numpy()[bad].min()), message)


def _run_samples(run: str, rows: pd.DataFrame, file: str) -> pd.DataFrame:
    line = int(rows["line"].min())
    placed = _place(rows, file, line)
    batch = _decoding(placed)
    prefill = _prefill(placed, budget_of(run, rows), batch)
    lengths = np.diff(placed.starts, append=len(placed.t))
    context = np.repeat(placed.prompt, lengths) + placed.index
    context = _decoding(placed, context)
    seconds = _felt(placed)
    keep = np.flatnonzero((batch > 0) & (np.nan_to_num(seconds) >= SHORTEST_S))
    batch, context, seconds = batch[keep], context[keep], seconds[keep]
    p_tokens, p_kv, p_pairs, p_streams = prefill[:, keep]
    return from_columns(
        {
            "stage": np.where(p_tokens > 0, "prefill", "decode"),
            "run": run,
            "batch": batch,
            "context": context / batch,
            "prefill_tokens": p_tokens,
            "tokens": batch + p_tokens,
            "kv_read": context + p_kv,
            "pairs": context + p_pairs,
            "streams": batch + p_streams,
            "seconds": seconds,
            "file": file,
            "line": line,
        }
    )


def _decoding(placed: Placed, weight: np.ndarray | None = None) -> np.ndarray:
    """Per step: streams that decode (all but those at their first token), or their weight."""
    later = placed.index > 0
    weights = None if weight is None else weight[later]
    return np.bincount(placed.step[later], weights, minlength=placed.steps).astype(float)


def _felt(placed: Placed) -> np.ndarray:
    """Seconds of each step: median over streams of the gap to their token before (else NaN)."""
    later = placed.index > 0
    step, gap = placed.step[later], np.diff(placed.t, prepend=0.0)[later]
    out = np.full(placed.steps, np.nan)
    order = np.lexsort((gap, step))
    step, gap = step[order], gap[order]
    begin = np.flatnonzero(np.diff(step, prepend=-1))
    size = np.diff(begin, append=len(step))
    if len(begin):
        low, high = gap[begin + (size - 1) // 2], gap[begin + size // 2]
        out[step[begin]] = (low + high) / 2
    return out


def _place(rows: pd.DataFrame, file: str, line: int) -> Placed:
    """Find each stream's first step (streams in order of their first token)."""
    ids, t = rows["stream_id"].to_numpy(), rows["t_arrival_s"].to_numpy()
    starts = np.concatenate(([0], np.flatnonzero(np.diff(ids)) + 1))
    ends = np.append(starts[1:], len(t))
    total, count, mean = (np.zeros(len(t) + 1) for _ in range(3))
    first = np.zeros(len(starts), dtype=np.int64)
    last, distances, weights = -1, [0.0], [1]
    typical = _Typical()
    for j in np.argsort(t[starts], kind="stable"):
        s = t[starts[j] : ends[j]]
        start, distance, overlap = _best_start(s, mean[: last + 1], typical)
        if overlap:
            distances.append(distance)
            weights.append(overlap)
        first[j] = start
        its = slice(start, start + len(s))
        total[its] += s
        count[its] += 1
        mean[its] = total[its] / count[its]
        last = max(last, start + len(s) - 1)
    lengths = ends - starts
    index = np.arange(len(t)) - np.repeat(starts, lengths)
    placed = Placed(
        np.repeat(first, lengths) + index,
        t,
        index,
        first,
        first + lengths - 1,
        rows["prompt_tokens"].to_numpy()[starts],
        starts,
    )
    felt = float(np.nanmedian(_felt(placed))) if last > 0 else 0.0
    if len(starts) > 1 and np.average(distances, weights=weights) > 0.5 * felt:
        message = "tokens do not arrive in common steps: one token per stream and step is assumed"
        raise CalibrationError(file, line, message)
    return placed


class _Typical:
    """Median step so far, found again when a fiftieth of the steps are new."""

    def __init__(self) -> None:
        self.at, self.value = 0, np.inf

    def __call__(self, mean: np.ndarray) -> float:
        if len(mean) > 1 and len(mean) > 1.02 * self.at:
            self.at, self.value = len(mean), float(np.median(np.diff(mean)))
        return self.value


def _best_start(s: np.ndarray, mean: np.ndarray, typical: _Typical) -> tuple[int, float, int]:
    """Step that fits a stream best; mean: arrival instants of the steps so far.

    Returns the step, the mean distance in seconds and the number of steps compared (0: the
    stream begins after all others ended).
    """
    near = int(np.searchsorted(mean, s[0]))
    best = (len(mean), np.inf, 0)
    for start in range(max(0, near - 4), min(len(mean), near + 4)):
        n = min(len(s), len(mean) - start)
        distance = float(np.mean(np.abs(s[:n] - mean[start : start + n])))
        if distance < best[1]:
            best = (start, distance, n)
    # Only the very last step overlaps: nearer to it, or a step of its own after it?
    alone = len(mean) > 0 and s[0] > mean[-1] and best[2] == 1
    if alone and best[1] > 0.5 * typical(mean):
        return len(mean), 0.0, 0
    return best


def budget_of(run: str, rows: pd.DataFrame) -> float:
    if "token_budget" in rows:
        return float(rows["token_budget"].iloc[0])
    found = re.search(r"-chunk(\d+)$", run)
    return float(found.group(1)) if found else float(DEFAULT_TOKEN_BUDGET)


def _prefill(placed: Placed, budget: float, decoding: np.ndarray) -> np.ndarray:
    """Prompt tokens, KV tokens read, query-key pairs and prompts of each step: float64[4, steps].

    First from the back: the latest steps that can hold the prompts say when each began; a prompt
    that began right after a full step was waiting in the same burst as the one before.  Then
    from the burst's first step forward, each step full before the next begins, but no prompt
    complete before the step of its first token.
    """
    room = budget - decoding
    order = np.lexsort((np.arange(len(placed.first)), placed.first))
    late = room.copy()
    begin = np.zeros(len(placed.first), dtype=int)
    for j in order[::-1]:
        left, k = placed.prompt[j], int(placed.first[j])
        while left > 0 and k >= 0:
            take = max(0.0, min(left, late[k]))
            late[k] -= take
            left -= take
            k -= 1
        begin[j] = k + 1
    out = np.zeros((4, placed.steps))
    burst, before = 0, -2
    for j in order:
        done, end = 0.0, int(placed.first[j])
        start = int(begin[j])
        waited = start > 0 and start <= before + 1 and late[start - 1] < 1
        burst = burst if waited else start
        before = end
        while burst < end and room[burst] <= 0:
            burst += 1  # full for good
        for k in range(burst, end + 1):
            left = placed.prompt[j] - done
            take = max(0.0, min(left if k == end else left - 1, room[k]))
            if take > 0:
                pairs = take * (done + (take + 1) / 2)
                out[:, k] += (take, done + take, pairs, 1.0)
                room[k] -= take
                done += take
    return out
