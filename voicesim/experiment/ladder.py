"""Where is the ceiling?  A ladder of concurrencies on one replica, climbed under several seeds.

The CEILING of a seed is the largest concurrency up to which its slowest 1 % of chunks keep the
pace (``limit``): the first level of the ladder that fails is refined by bisection over the
integers.  Seeds differ, so the ceiling is a probability: around it every seed plays every
concurrency, and ``share`` says how many pass.

Beside it stand three figures that say something else:

- naive: 1 / RTF of a caller alone, what a benchmark at batch 1 suggests (no batching, no queue);
- naive_throughput: most audio seconds per second on the ladder, which would feed so many
  listeners if each second came to the listener who is about to need it (it does not);
- knee: the smallest concurrency whose doubling adds less than 10 % of audio per second.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from voicesim.catalogue import MODELS, find_model
from voicesim.engine.profile import Profile
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.rung import BUDGET, Load, Rung, play
from voicesim.metrics.summary import interval
from voicesim.progress import Show, silent
from voicesim.schemas import current
from voicesim.workers import started

GAIN = 1.1
"""Below this factor a doubling of the concurrency no longer pays: the knee."""
KNEE_SEEDS = 3
AROUND = 25
"""Concurrencies around the ceiling that every seed plays, at most."""
BEYOND = 8
"""How many times the highest level the searches for ceiling and knee go, at most."""
OFF = 0.05
"""Latency x throughput may miss the concurrency by this share (replies cut by the window)."""


@dataclass
class Ladder:
    """A climbed ladder.  rungs: by (concurrency, seed).  ceilings: of each seed; 0: even a single
    caller is too slow.  censored: some seed still passed at the highest concurrency tried."""

    load: Load
    levels: list[int]
    seeds: int
    limit: float
    rungs: dict[tuple[int, int], Rung] = field(default_factory=dict)
    ceilings: list[int] = field(default_factory=list)
    around: list[int] = field(default_factory=list)
    censored: bool = False
    knee: int | None = None

    def values(self, name: str, callers: int) -> list[float | None]:
        """A number of one concurrency, by seed."""
        found = (self.rungs.get((callers, seed)) for seed in range(self.seeds))
        return [rung[name] for rung in found if rung is not None]

    def mean(self, name: str, callers: int) -> float | None:
        """Mean over the seeds that could measure it."""
        return interval(self.values(name, callers))["mean"]

    def passes(self, callers: int, seed: int) -> bool:
        """Does the slowest 1 % of chunks keep the pace?  Not measured is a no."""
        pace = self.rungs[callers, seed]["pace_p99"]
        return pace is not None and pace >= self.limit

    def share(self, callers: int) -> float:
        """Share of the seeds that pass at this concurrency."""
        return float(np.mean([self.passes(callers, seed) for seed in range(self.seeds)]))

    def ceiling(self, probability: float) -> int:
        """The largest concurrency (of those that all seeds played around the ceiling) up to which
        at least this share of the seeds pass; 0 if there is none."""
        best = min(self.around) - 1
        for callers in self.around:
            if self.share(callers) < probability - 1e-9:
                break
            best = callers
        return best

    @property
    def naive(self) -> float:
        """1 / RTF of a caller alone."""
        return 1.0 / (self.mean("rtf", 1) or np.inf)

    @property
    def peak(self) -> int:
        """The level that makes most audio per second."""
        return max(self.levels, key=lambda c: self.mean("xrt", c) or 0.0)

    @property
    def naive_throughput(self) -> float:
        """Listeners that the most audio per second of any level would feed."""
        return self.mean("xrt", self.peak) or 0.0

    @property
    def measured_to(self) -> float | None:
        """Largest batch that the profile was measured at; None if it does not say."""
        return None if self.load.profile.range is None else self.load.profile.range.batch[1]

    def extrapolated(self, callers: int) -> bool:
        """Does this concurrency lie beyond what was measured?"""
        return self.measured_to is not None and callers > self.measured_to

    def off(self) -> list[int]:
        """Levels at which latency x throughput is not the concurrency: distrust them."""
        return [c for c in self.levels if abs((self.mean("in_flight", c) or 0.0) / c - 1) > OFF]


def climb(
    load: Load,
    levels: Sequence[int],
    seeds: int = 10,
    limit: float = 1.2,
    workers: int = 1,
    progress: Show = silent,
) -> Ladder:
    """Climb the ladder; the result depends on the load, the levels and the seeds alone.

    workers: processes; a ladder takes seconds, so that starting more than one pays only for long
    ones.  Raises ExperimentError where nothing can be measured.
    """
    check(load, levels, seeds, limit)
    ladder = Ladder(load, sorted(set(levels)), seeds, limit)
    with Parallel(workers, return_as="generator_unordered") as pool:

        def run(what: str, wanted: Iterable[tuple[int, int]]) -> None:
            todo = [each for each in dict.fromkeys(wanted) if each not in ladder.rungs]
            todo.sort(reverse=True)  # the long ones first
            calls = (delayed(play)(load, callers, seed) for callers, seed in todo)
            done = started(pool, calls) if workers > 1 else (call[0](*call[1]) for call in calls)
            for n, rung in enumerate(done, 1):
                ladder.rungs[int(rung["callers"]), int(rung["seed"])] = rung
                events = int(rung.pop("events") or 0)
                progress(what, n, len(todo), events=events, runs=len(ladder.rungs))

        every = range(seeds)
        run("levels", [(c, s) for c in {1, *ladder.levels} for s in every])
        if all(p is None for p in ladder.values("pace_p99", ladder.levels[0])):
            raise ExperimentError("no reply has two chunks, so no pace: give longer --audio")
        _find_ceilings(ladder, run)
        _find_knee(ladder, run)
    return ladder


def check(load: Load, levels: Sequence[int], seeds: int, limit: float) -> None:
    """Refuse what cannot be played."""
    if load.profile.token_audio_s is None:
        raise ExperimentError(_no_audio(load.profile))
    if not levels or min(levels) < 1:
        raise ExperimentError("levels: whole numbers from 1 on")
    if max(levels) > BUDGET:
        raise ExperimentError(f"levels: {max(levels)}; at most {BUDGET}, the tokens of a step")
    if seeds < 1 or not limit > 0:
        raise ExperimentError("seeds: 1 or more; limit: above 0")
    if not load.chunks or min(load.chunks) < 1:
        raise ExperimentError("chunk: tokens of the first chunk, the ramp and the steady one")
    if load.prompt < 1 or load.codec_cap < 1 or load.left_context < 0:
        raise ExperimentError("prompt, codec_cap: 1 or more; left_context: 0 or more")
    if not load.audio >= load.profile.token_audio_s:
        raise ExperimentError(f"audio: {load.audio:g} s is shorter than one token")


def _no_audio(profile: Profile) -> str:
    """Why a profile whose tokens are no audio has no ladder, and what to do."""
    about = profile.about
    kind = find_model(about.model).kind if about and about.model in MODELS else None
    of = "" if kind is None else f" of a model of kind {kind} ({about.model if about else ''})"
    return (
        f"profile {profile.name!r}{of} has no token_audio_s: its tokens are text, which nobody "
        "plays, so there is no pace and no ceiling to find. If they are spoken or are audio, say "
        "how much each: --token-audio 250ms (in Python token_audio)"
    )


# --- the ceiling ------------------------------------------------------------------------------


def _find_ceilings(ladder: Ladder, run: Callable[..., None]) -> None:
    """Bracket each seed's ceiling on the ladder, go on beyond it if need be, then bisect."""
    every = range(ladder.seeds)
    tried = sorted({1, *ladder.levels})
    low, high = [0] * ladder.seeds, [0] * ladder.seeds  # passes, fails (0: not yet)
    for seed in every:
        for callers in tried:
            if not ladder.passes(callers, seed):
                high[seed] = callers
                break
            low[seed] = callers
    most = min(BEYOND * tried[-1], BUDGET)
    while waiting := [s for s in every if not high[s] and low[s] < most]:
        wanted = {s: min(2 * low[s], most) for s in waiting}
        run("beyond the ladder", [(c, s) for s, c in wanted.items()])
        for seed, callers in wanted.items():
            side = low if ladder.passes(callers, seed) else high
            side[seed] = callers
    ladder.censored = not all(high)
    while waiting := [s for s in every if high[s] - low[s] > 1]:
        wanted = {s: (low[s] + high[s]) // 2 for s in waiting}
        run("ceiling", [(c, s) for s, c in wanted.items()])
        for seed, callers in wanted.items():
            side = low if ladder.passes(callers, seed) else high
            side[seed] = callers
    ladder.ceilings = low
    ladder.around = _around(low)
    run("around the ceiling", [(c, s) for c in ladder.around for s in every])


def _around(ceilings: list[int]) -> list[int]:
    """Concurrencies from the lowest seed's ceiling to one above the highest's, thinned."""
    first, last = max(1, min(ceilings)), max(ceilings) + 1
    few = np.unique(np.linspace(first, last, min(AROUND, last - first + 1)).round().astype(int))
    return [int(c) for c in few]


# --- the knee ---------------------------------------------------------------------------------


def _find_knee(ladder: Ladder, run: Callable[..., None]) -> None:
    """Bisect for the smallest c of which 2 c callers get less than GAIN times as much audio."""
    few = range(min(KNEE_SEEDS, ladder.seeds))

    def pays(callers: int) -> bool:
        run("knee", [(c, s) for c in (callers, 2 * callers) for s in few])
        before, after = (
            sum(ladder.rungs[c, s]["xrt"] or 0.0 for s in few) for c in (callers, 2 * callers)
        )
        return after >= GAIN * before

    low, high = 0, max(ladder.levels)
    most = min(BEYOND * high, BUDGET // 2)
    while high <= most and pays(high):
        low, high = high, 2 * high
    if high > most:
        return
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if pays(middle) else (low, middle)
    ladder.knee = high


# --- as data ----------------------------------------------------------------------------------

SHOWN = (
    "pace_p99", "decoded_p50_s", "ttfa_p50_s", "ttfa_p95_s", "e2e_s", "rtf", "xrt",
    "requests_per_s", "stalled_share", "c100", "busy_decode", "busy_host", "busy_codec",
    "in_flight",
)  # fmt: skip


def as_data(ladder: Ladder) -> dict[str, Any]:
    """The ladder as JSON: flat numbers, a flat row per level and per concurrency around the
    ceiling.  NAME, NAME_low, NAME_high: mean over seeds and its 95 % interval (null for one)."""
    load = ladder.load
    return {
        "schema": current("ladder"),
        "profile": load.profile.name,
        "audio_s": load.audio,
        "prompt_tokens": load.prompt,
        "chunks": ",".join(map(str, load.chunks)),
        "codec_cap": load.codec_cap,
        "codec_queue": load.codec_queue,
        "left_context": load.left_context,
        "as_measured": ",".join(load.as_measured),
        "seeds": ladder.seeds,
        "limit": ladder.limit,
        "ceiling_p50": ladder.ceiling(0.5),
        "ceiling_p90": ladder.ceiling(0.9),
        "ceiling_p100": ladder.ceiling(1.0),
        "ceiling_censored": ladder.censored,
        "ceiling_extrapolated": ladder.extrapolated(ladder.ceiling(0.5)),
        "naive": ladder.naive,
        "naive_throughput": ladder.naive_throughput,
        "knee": ladder.knee,
        "peak": ladder.peak,
        "measured_to": ladder.measured_to,
        "levels": [level_row(ladder, c) for c in ladder.levels],
        "around": [{"concurrency": c, "share": ladder.share(c)} for c in ladder.around],
    }


def level_row(ladder: Ladder, callers: int) -> dict[str, Any]:
    """One level as a flat row."""
    row: dict[str, Any] = {"concurrency": callers, "extrapolated": ladder.extrapolated(callers)}
    for name in SHOWN:
        found = interval(ladder.values(name, callers))
        row |= {name: found["mean"], f"{name}_low": found["low"], f"{name}_high": found["high"]}
    row["pass_share"] = ladder.share(callers)
    return row
