"""From a published ladder to a profile: the simulator is turned until it prints the figures.

Nothing is inverted by hand.  The free parameters go through the same runs that a user makes
(``experiment.served``), by least squares on the logarithm of predicted over published; the first
figures of a ladder only say where to begin.

- step: a table over the loads that were fitted (a closed loop of c keeps about c streams in the
  batch), or a p-norm of a flat time and a line, whichever errs less on an inner load that it has
  not seen; with a second stage, or in an open loop, always a line, since the figures show the sum;
- codec: per frame, and per batch where chunks of several lengths were measured;
- request: time outside the engine, where a first audio is published.

A weak pull towards the starting value decides what the figures do not; such parameters say so.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from voicesim.engine.profile import (
    About,
    FitReport,
    Profile,
    Range,
    Source,
    interpolate_table,
)
from voicesim.experiment.predicted import predict
from voicesim.experiment.published import FIRST, Figure, Ladder
from voicesim.experiment.served import WITHIN
from voicesim.experiment.shape import COMPUTE, PREFILL, Shape, marked, profile_of

REPLIES = 100
"""Replies of a run of the fit."""
STEP = 0.03
"""Step of the derivatives, in the logarithm of a parameter."""
PULL = 0.03
"""Weight of the starting value, against 1 for a published mean."""
NOISE = 0.03
"""Least scatter that a published mean has (the sources' repeats differ by 3 to 10 %)."""
SHOWS = 0.1
"""A parameter whose change of 1 % moves no figure by a tenth of that is not identified."""
NORMS = (1, 2, 4, 8, 0)
SIMPLER = 0.9
"""A table must bring the error of inner loads below this share of the form's."""


def fit_ladder(ladder: Ladder, without: Collection[float] = ()) -> Profile:
    """The profile of a ladder, fitted to the loads that are not in ``without``."""
    levels = [c for c in ladder.levels if c not in without]
    figures = [f for f in ladder.figures if f.level in levels and f.metric not in WITHIN]
    start = _start(ladder, levels)
    rest = tuple(ladder.free)
    if "per_frame_s" in rest:
        beginnings = [start, {**start, **_by_the_codec(start, levels)}]
        tries = [_solve(ladder, Shape((), rest), figures, begin) for begin in beginnings]
        best, why = min(tries, key=lambda t: t.cost), "two stages: a line in streams, and the codec"
    elif len(levels) == 1:
        best = _solve(ladder, Shape(tuple(levels), rest), figures, start)
        why = "one load: how the step grows cannot be told; the same time at every batch"
    elif ladder.kind == "poisson" or len(levels) < 3 or None in {_step(ladder, c) for c in levels}:
        norms = NORMS if len(levels) >= 3 else (1,)
        tries = [_solve(ladder, Shape((), rest, norm), figures, start) for norm in norms]
        best = min(tries, key=lambda t: t.cost)
        why = f"{len(levels)} loads: the norm that misses their figures least"
    else:
        best = _solve(ladder, Shape(tuple(levels), rest), figures, start)
        form, why = _form(best.shape.knots, np.cumsum(np.exp(best.x[: len(levels)])))
        if form is not None:
            best = _solve(ladder, Shape((), rest, form[0]), figures, {**start, **form[1]})
    return _finish(ladder, best, levels, figures, why)


def _start(ladder: Ladder, levels: Sequence[float]) -> dict[str, float]:
    """Where to begin, from the first figure of each load that gives a time per step."""
    known = {c: s for c in levels if (s := _step(ladder, c)) is not None}
    step = {c: known[min(known, key=lambda k: abs(k - c))] for c in levels}
    low, high = levels[0], levels[-1]
    streams = {c: c if ladder.kind != "poisson" else c * step[c] * ladder.tokens for c in levels}
    rise = (step[high] - step[low]) / max(streams[high] - streams[low], 1e-9)
    start = {f"step {c:g}": step[c] for c in levels}
    start |= {"memory_s": step[low], COMPUTE: max(rise, 0.01 * step[low])}
    start |= {"per_frame_s": 0.1 * step[low], "floor_s": step[low]}
    first = [f.value for f in ladder.figures if f.level == low and f.metric in FIRST]
    start["request_s"] = 0.5 * first[0] if first else 0.01
    prompt = float(ladder.setting("prompt_tokens") or 1)
    start[PREFILL] = max(first[0] - step[low] if first else 0.0, 0.2 * step[low]) / prompt
    return start


def _by_the_codec(start: Mapping[str, float], levels: Sequence[float]) -> dict[str, float]:
    """Another beginning: the last load is the codec's, most of the first the decoder's."""
    share = start[f"step {levels[-1]:g}"] / levels[-1]
    low = start[f"step {levels[0]:g}"]
    return {
        "memory_s": max(low - share, 0.3 * low), COMPUTE: 0.01 * low,
        "per_frame_s": 0.9 * share, "floor_s": 2.5 * share,
    }  # fmt: skip


def _step(ladder: Ladder, level: float) -> float | None:
    """Seconds per decode step of a stream, as one figure of this load has it."""
    per = {f.metric: f.value for f in reversed(ladder.figures) if f.level == level}
    audio = ladder.token_audio_s or 1.0
    for metric, time in (
        ("rtf", lambda v: v * audio),
        ("itl", lambda v: v),
        ("latency", lambda v: v / ladder.tokens),
        ("rtf_aggregate", lambda v: v * audio * level),
        ("throughput", lambda v: level / v / ladder.tokens),
    ):
        if metric in per:
            return float(time(per[metric]))
    return None


@dataclass(frozen=True)
class Solved:
    """x: logarithms of the parameters (of a table: of its rises).  slopes: of the weighted figures.
    scatter: of those about the fit, at least what their sources' repeats have."""

    shape: Shape
    x: np.ndarray
    slopes: np.ndarray
    cost: float
    scatter: float


def _solve(
    ladder: Ladder, shape: Shape, figures: Sequence[Figure], start: Mapping[str, float]
) -> Solved:
    begin = np.array([start[name] for name in shape.names])
    steps = len(shape.knots)
    if steps:
        risen = np.maximum.accumulate(begin[:steps])
        begin[:steps] = np.maximum(np.diff(risen, prepend=0.0), 1e-3 * risen[0])
    x0 = np.log(begin)
    weight = np.array([_weight(f) for f in figures])
    published = np.log([f.value for f in figures])

    def residual(x: np.ndarray) -> np.ndarray:
        found = predict(ladder, profile_of(ladder, shape, x), figures, (0,), REPLIES)
        off = np.log(np.maximum(found, 1e-12)) - published
        return np.concatenate((weight * off, PULL * (x - x0)))

    found = least_squares(
        residual, x0, diff_step=STEP / np.maximum(np.abs(x0), 1e-3), max_nfev=8,
        ftol=1e-3, xtol=1e-3, loss="soft_l1", f_scale=0.2,
    )  # fmt: skip
    off = residual(found.x)[: len(figures)]
    scatter = max(NOISE, float(np.sqrt(np.mean(off**2))))
    return Solved(shape, found.x, found.jac[: len(figures)], float(found.cost), scatter)


def _weight(figure: Figure) -> float:
    """A mean counts once, a percentile or a first audio half: they repeat less well."""
    tail = figure.stat not in ("mean", "p50")
    return (0.5 if tail else 1.0) * (0.5 if figure.metric in FIRST else 1.0)


def _form(
    knots: tuple[float, ...], seconds: np.ndarray
) -> tuple[tuple[int, dict[str, float]] | None, str]:
    """Norm, flat and slope if a form errs no more than the table on inner loads left out."""
    if len(knots) < 4:
        return None, "three loads: too few to leave one out and compare forms; table"
    c = np.array(knots)
    errors: dict[int, float] = {}
    inner = range(1, len(c) - 1)
    for norm in NORMS:
        off = []
        for i in inner:
            flat, slope = _flat_and_slope(norm, np.delete(c, i), np.delete(seconds, i))
            off.append(abs(_norm(norm, flat, slope, c[i]) / seconds[i] - 1))
        whole = _flat_and_slope(norm, c, seconds)
        seen = [abs(_norm(norm, *whole, n) / s - 1) for n, s in zip(c, seconds, strict=True)]
        errors[norm] = max(float(np.mean(off)), float(np.mean(seen)))
    off = []
    for i in inner:
        rest = list(zip(np.delete(c, i), np.delete(seconds, i), strict=True))
        off.append(abs(float(interpolate_table(rest, c[i : i + 1])[0]) / seconds[i] - 1))
    table = float(np.mean(off))
    norm = min(errors, key=lambda n: errors[n])
    shown = f"inner loads left out: table {table:.1%}, norm {norm or 'inf'} {errors[norm]:.1%}"
    if table < SIMPLER * errors[norm]:
        return None, f"{shown}: table"
    flat, slope = _flat_and_slope(norm, c, seconds)
    return (norm, {"memory_s": flat, COMPUTE: slope}), f"{shown}: form"


def _norm(norm: int, flat: float, slope: float, c: float) -> float:
    return max(flat, slope * c) if norm == 0 else (flat**norm + (slope * c) ** norm) ** (1 / norm)


def _flat_and_slope(norm: int, c: np.ndarray, seconds: np.ndarray) -> tuple[float, float]:
    def off(x: np.ndarray) -> np.ndarray:
        flat, slope = np.exp(x)
        return np.array([_norm(norm, flat, slope, n) for n in c]) / seconds - 1

    begin = np.log([seconds[0], max(seconds[-1] - seconds[0], 0.05 * seconds[-1]) / c[-1]])
    flat, slope = np.exp(least_squares(off, begin).x)
    return float(flat), float(slope)


def _intervals(solved: Solved) -> tuple[dict[str, float], dict[str, float]]:
    """5 % and 95 % of the parameters, from how the figures move with them and how they scatter."""
    if len(solved.slopes) <= len(solved.x):
        return {}, {}
    curve = solved.slopes.T @ solved.slopes + PULL**2 * np.eye(len(solved.x))
    spread = 1.645 * solved.scatter * np.sqrt(np.diag(np.linalg.inv(curve)))
    names = solved.shape.names
    low = dict(zip(names, np.exp(solved.x - spread), strict=True))
    return low, dict(zip(names, np.exp(solved.x + spread), strict=True))


def _notes(ladder: Ladder) -> list[str]:
    """What a user of the profile must know of how it was asked."""
    if float(ladder.setting("prompt_tokens") or 1) > 1:
        return []
    return [
        "what a prompt costs was not published: fitted with prompts of 1 token, and longer ones "
        "are priced as so many more streams in their step, which is far too much; play it with "
        "prompts of 1 token (voicesim ladder --prompt 1)"
    ]


def _finish(
    ladder: Ladder,
    solved: Solved,
    levels: Sequence[float],
    figures: Sequence[Figure],
    why: str,
) -> Profile:
    """Range, intervals, what is not identified, and where it comes from."""
    profile = profile_of(ladder, solved.shape, solved.x)
    streams = levels
    if ladder.kind == "poisson":
        timed = [f for f in figures if f.metric == "latency"] or [
            replace(f, metric="latency", stat="mean") for f in figures
        ]
        each = predict(ladder, profile, timed)
        late = {f.level: v * f.level for f, v in zip(timed, each, strict=True)}
        streams = sorted(round(v, 1) for v in late.values())
    weak = [
        name
        for name, column in zip(solved.shape.names, solved.slopes.T, strict=True)
        if np.abs(column).max() < SHOWS and not name.startswith("step ")
    ]
    low, high = _intervals(solved)
    profile = marked(profile, low, high, weak)
    return profile.model_copy(
        update={
            "about": About(**{n: ladder.setting(n) for n in ("model", "gpu", "stack", "version")}),
            "range": Range(
                batch=(max(streams[0], 1.0), streams[-1]),
                context_tokens=(0.0, 0.0),
                prefill_tokens=(0.0, 0.0),
            ),
            "fit": FitReport(
                why=why, unidentified=[f"{name}: the figures hardly move with it" for name in weak]
            ),
            "notes": _notes(ladder),
            "played": ladder.played,
            "sources": [
                Source(file=ladder.file, rows=len(ladder.figures), where=", ".join(ladder.urls))
            ],
        }
    )
