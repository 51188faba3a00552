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
import warnings
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
    """A run with its steps found: arrivals[stream, step] (NaN where absent), first step, prompt."""

    arrivals: np.ndarray
    first: np.ndarray
    prompt: np.ndarray


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
    prefill = _prefill(placed, budget_of(run, rows))
    arrivals, steps = placed.arrivals, np.arange(placed.arrivals.shape[1])
    decoding = ~np.isnan(arrivals) & (steps[None, :] > placed.first[:, None])
    index = steps[None, :] - placed.first[:, None]
    context = np.where(decoding, placed.prompt[:, None] + index, 0.0).sum(axis=0)
    batch = decoding.sum(axis=0)
    seconds = _felt(arrivals)
    keep = np.flatnonzero((batch > 0) & (np.nan_to_num(seconds) >= SHORTEST_S))
    batch, context, seconds = batch[keep].astype(float), context[keep], seconds[keep]
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


def _felt(arrivals: np.ndarray) -> np.ndarray:
    """Seconds of each step: median over streams of the gap to their token before."""
    gaps = np.full(arrivals.shape, np.nan)
    gaps[:, 1:] = np.diff(arrivals, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(gaps, axis=0))


def _place(rows: pd.DataFrame, file: str, line: int) -> Placed:
    """Find each stream's first step (streams in order of their first token)."""
    ids, t = rows["stream_id"].to_numpy(), rows["t_arrival_s"].to_numpy()
    cuts = np.flatnonzero(np.diff(ids)) + 1
    streams = np.split(t, cuts)
    prompt = rows["prompt_tokens"].to_numpy()[np.concatenate(([0], cuts))]
    order = np.argsort([s[0] for s in streams], kind="stable")
    total = np.zeros(sum(len(s) for s in streams) + 1)
    count = np.zeros(len(total))
    first = np.zeros(len(streams), dtype=int)
    last, distances, weights = -1, [0.0], [1]
    for j in order:
        s = streams[j]
        mean = total[: last + 1] / count[: last + 1]
        start, distance, overlap = _best_start(s, mean)
        if overlap:
            distances.append(distance)
            weights.append(overlap)
        first[j] = start
        total[start : start + len(s)] += s
        count[start : start + len(s)] += 1
        last = max(last, start + len(s) - 1)
    arrivals = np.full((len(streams), last + 1), np.nan)
    for j, s in enumerate(streams):
        arrivals[j, first[j] : first[j] + len(s)] = s
    typical = float(np.nanmedian(_felt(arrivals))) if last > 0 else 0.0
    if len(streams) > 1 and np.average(distances, weights=weights) > 0.5 * typical:
        message = "tokens do not arrive in common steps: one token per stream and step is assumed"
        raise CalibrationError(file, line, message)
    return Placed(arrivals, first, prompt)


def _best_start(s: np.ndarray, mean: np.ndarray) -> tuple[int, float, int]:
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
    if len(mean) and s[0] > mean[-1] and best[2] == 1:
        # Only the very last step overlaps: nearer to it, or a step of its own after it?
        step = float(np.median(np.diff(mean))) if len(mean) > 1 else np.inf
        if best[1] > 0.5 * step:
            return len(mean), 0.0, 0
    return best


def budget_of(run: str, rows: pd.DataFrame) -> float:
    if "token_budget" in rows:
        return float(rows["token_budget"].iloc[0])
    found = re.search(r"-chunk(\d+)$", run)
    return float(found.group(1)) if found else float(DEFAULT_TOKEN_BUDGET)


def _prefill(placed: Placed, budget: float) -> np.ndarray:
    """Prompt tokens, KV tokens read, query-key pairs and prompts of each step: float64[4, steps].

    First from the back: the latest steps that can hold the prompts say when each began; a prompt
    that began right after a full step was waiting in the same burst as the one before.  Then
    from the burst's first step forward, each step full before the next begins, but no prompt
    complete before the step of its first token.
    """
    steps = placed.arrivals.shape[1]
    room = budget - _decoding_count(placed)
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
    out = np.zeros((4, steps))
    burst, before = 0, -2
    for j in order:
        done, end = 0.0, int(placed.first[j])
        start = int(begin[j])
        waited = start > 0 and start <= before + 1 and late[start - 1] < 1
        burst = burst if waited else start
        before = end
        for k in range(burst, end + 1):
            left = placed.prompt[j] - done
            take = max(0.0, min(left if k == end else left - 1, room[k]))
            if take > 0:
                pairs = take * (done + (take + 1) / 2)
                out[:, k] += (take, done + take, pairs, 1.0)
                room[k] -= take
                done += take
    return out


def _decoding_count(placed: Placed) -> np.ndarray:
    steps = np.arange(placed.arrivals.shape[1])
    running = ~np.isnan(placed.arrivals) & (steps[None, :] > placed.first[:, None])
    return np.asarray(running.sum(axis=0), dtype=float)
