"""Does the model hold?  A measured run, replayed with its own send times, lengths and prompts.

Tokens go out one by one, as they are made; the KV cache is without bound and the network takes no
time.  Measured and predicted arrivals go through the same functions, so that a difference is the
profile's or the model's, not the metric's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.engine.profile import Profile
from voicesim.engine.spec import PoolSpec
from voicesim.experiment.traces import MeasuredRun
from voicesim.listener.player import ROUNDING
from voicesim.metrics.summary import nearest_rank
from voicesim.progress import Show, silent
from voicesim.schemas import current
from voicesim.workload.rng import run_seed
from voicesim.workload.tape import Tape

Numbers = dict[str, float | None]

METRICS = (
    "gap_p50_s", "gap_p90_s", "gap_p99_s", "pace_p50", "pace_p99", "ttft_p50_s", "ttft_p95_s",
    "stalled_share", "stall_total_s", "tokens_per_s",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """The runs of one setting (repeats of each other): numbers of each run, and of each replay.

    A run has a name, its send times, and whether they are known.
    """

    runs: list[Any]
    measured: list[Numbers]
    predicted: list[Numbers]
    most_running: int

    @property
    def name(self) -> str:
        """The first run's name, and how many repeats there are."""
        more = len(self.runs) - 1
        return self.runs[0].name + (f" (+{more})" if more else "")


def validate(
    profile: Profile,
    runs: Sequence[MeasuredRun],
    seeds: int = 5,
    buffer: int = 4,
    progress: Show = silent,
) -> list[Setting]:
    """Replay every run under every seed; repeats are gathered.

    buffer: tokens that the listener's player gathers before it starts.
    """
    settings: dict[tuple[int, ...], Setting] = {}
    for i, run in enumerate(runs):
        played = [replay(profile, run, seed) for seed in range(seeds)]
        now = numbers(run.arrivals, run.sent, run.send_known, profile.token_audio_s, buffer)
        then = [
            numbers(arrivals, run.sent, run.send_known, profile.token_audio_s, buffer)
            for arrivals, _ in played
        ]
        most = max(batch for _, batch in played)
        old = settings.get(run.settings, Setting([], [], [], 0))
        settings[run.settings] = Setting(
            [*old.runs, run], [*old.measured, now], [*old.predicted, *then],
            max(most, old.most_running),
        )  # fmt: skip
        progress("replaying", i + 1, len(runs), events=seeds * int(np.sum(run.tokens)))
    return list(settings.values())


def replay(profile: Profile, run: MeasuredRun, seed: int = 0) -> tuple[list[np.ndarray], int]:
    """Arrival times (s, on the run's own clock) of each stream's tokens; the largest batch."""
    streams, start = len(run.sent), float(run.sent[0])
    tape = Tape(
        arrival=run.sent - start,
        first=np.arange(streams + 1),
        tokens=run.tokens,
        prompt=run.prompt,
        think=np.zeros(streams),
        patience=np.full(streams, np.inf),
        clipped=0,
        closed=False,
        callers=0,
    )
    step = profile.step_cost(run.budget)
    word = run_seed(0, seed)
    spec = PoolSpec(
        engines=1,
        step=step,
        schedule=(1,),
        token_audio=profile.token_audio_s or 1.0,
        max_num_seqs=min(max(256, streams), run.budget),
        budget=run.budget,
        overlap=bool(step.params[8]),
        noise=profile.noise_table() if profile.noise else None,
        horizon=1e9,
        end=1e9,
        resolution=1e9,
        seed=word - (1 << 64) if word >= 1 << 63 else word,
        record_chunks=True,
    )
    pool = Pool(spec, tape)
    pool.advance(1e8)
    r = record(pool)
    order = np.lexsort((r.chunk_i[:, at.L_INDEX], r.chunk_i[:, at.L_UTT]))
    arrived = r.chunk_f[order, at.M_ARRIVE] + start
    return np.split(arrived, np.cumsum(run.tokens)[:-1]), r.counters["max_batch"]


# --- the same numbers of both -----------------------------------------------------------------


def numbers(
    arrivals: Sequence[np.ndarray],
    sent: np.ndarray,
    send_known: bool,
    token_audio: float | None,
    buffer: int,
) -> Numbers:
    """Numbers by name (METRICS); None where not measured.

    gap: between a stream's tokens, all of them pooled.  pace: audio of a token / gap, p99 the
    slowest 1 %.  ttft: send to first token.  stalled_share, stall_total_s: a player that starts
    with ``buffer`` tokens, and all its pauses.  tokens_per_s: from the first token to the last.
    """
    gaps = np.concatenate([np.diff(t) for t in arrivals])
    first = np.array([t[0] for t in arrivals])
    seconds = max(t[-1] for t in arrivals) - first.min()
    found: Numbers = dict.fromkeys(METRICS)
    for q in (50, 90, 99):
        found[f"gap_p{q}_s"] = nearest_rank(gaps, q / 100)
    if send_known:
        for q in (50, 95):
            found[f"ttft_p{q}_s"] = nearest_rank(first - sent, q / 100)
    if token_audio is not None:
        for q in (50, 99):
            gap = found[f"gap_p{q}_s"]
            found[f"pace_p{q}"] = token_audio / gap if gap else None
        several = [t for t in arrivals if len(t) > 1]
        if several:
            stall = np.array([stalled(t, token_audio, buffer) for t in several])
            found["stalled_share"] = float((stall > ROUNDING).mean())
            found["stall_total_s"] = float(stall.sum())
    if seconds > 0:
        found["tokens_per_s"] = sum(map(len, arrivals)) / float(seconds)
    return found


def stalled(arrivals: np.ndarray, token_audio: float, buffer: int) -> float:
    """Seconds of silence in a stream: the player starts with ``buffer`` tokens and pauses when
    empty; the sum of its pauses is the largest lateness against a clock that never pauses."""
    begin = min(buffer, len(arrivals)) - 1
    late = arrivals[begin:] - arrivals[begin] - token_audio * np.arange(begin, len(arrivals))
    late[0] = 0.0
    return float(max(late.max(), 0.0))


# --- measured against predicted ---------------------------------------------------------------


def compared(setting: Setting, name: str) -> dict[str, float | None]:
    """measured, predicted: means; _low, _high: their extremes over runs and over replays; error:
    predicted / measured - 1 (None where measured is 0); spread: standard deviation of the
    measured runs over their mean (None for one run)."""
    found: dict[str, float | None] = {}
    for side, of in (("measured", setting.measured), ("predicted", setting.predicted)):
        known = np.array([v for n in of if (v := n[name]) is not None])
        some = len(known) > 0
        found[side] = float(known.mean()) if some else None
        found[f"{side}_low"] = float(known.min()) if some else None
        found[f"{side}_high"] = float(known.max()) if some else None
        if side == "measured":
            several = len(known) > 1 and known.mean() > 0
            found["spread"] = float(known.std(ddof=1) / known.mean()) if several else None
    measured, predicted = found["measured"], found["predicted"]
    found["error"] = predicted / measured - 1 if measured and predicted is not None else None
    return found


def as_data(
    profile: Profile,
    settings: Sequence[Setting],
    trace: str,
    seeds: int,
    buffer: int,
    metrics: Sequence[str] = METRICS,
    assumed: Sequence[str] = (),
) -> dict[str, Any]:
    """The validation as JSON: a flat row per setting, METRIC_measured, METRIC_predicted and so on
    (see ``compared``).  assumed: what the replay takes for granted, in words."""
    return {
        "schema": current("validation"),
        "profile": profile.name,
        "trace": trace,
        "token_audio_s": profile.token_audio_s,
        "buffer_tokens": buffer,
        "seeds": seeds,
        **({"assumed": list(assumed)} if assumed else {}),
        "settings": [
            {
                "setting": setting.name,
                "runs": len(setting.runs),
                "streams": len(setting.runs[0].sent),
                "most_running": setting.most_running,
                "send_times_known": setting.runs[0].send_known,
                **{
                    f"{name}_{side}": value
                    for name in metrics
                    for side, value in compared(setting, name).items()
                },
            }
            for setting in settings
        ],
    }
