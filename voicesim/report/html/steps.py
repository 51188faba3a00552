"""The step-time curve of a profile, and where on it the run lived."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from voicesim.engine.cost import gpu_seconds, host_seconds, step_seconds
from voicesim.engine.profile import Profile
from voicesim.engine.spec import PoolSpec
from voicesim.metrics.exhibits import Exhibit
from voicesim.report import words
from voicesim.report.html.charts import Chart, axis, chart, mark, panel
from voicesim.report.html.page import Section, bullets, place
from voicesim.report.html.tags import join, tag
from voicesim.session.build import dialogue_spec
from voicesim.simulation import pool_spec, profile_of
from voicesim.study import StudyResult


@dataclass
class Lived:
    """Engines of the same step cost, of a dialogue those of one pool.

    name: of the profile, and of that pool.  speaks: they make audio.  seen: variant number -> what
    was noted of its pools.
    """

    name: str
    profile: Profile
    spec: PoolSpec
    speaks: bool
    seen: dict[int, list[Exhibit]] = field(default_factory=dict)

    @property
    def reached(self) -> int:
        """The largest step of the run (streams)."""
        return max((e.max_batch for each in self.seen.values() for e in each), default=0)


def profiles(result: StudyResult) -> list[str]:
    """Names of the profiles, each with its form."""
    found: dict[str, None] = {}
    for _, _, profile, _, _ in _pools(result):
        found[f"{profile.name} ({profile.form})"] = None
    return list(found)


def section(result: StudyResult, charts: list[Chart]) -> Section | None:
    """A chart for each step cost that was played; None if no folder was written."""
    found: dict[Any, Lived] = {}
    names = list(result.summary)
    for i, pool, profile, spec, speaks in _pools(result):
        name = f"{pool}: {profile.name}" if spec.stage else profile.name
        key = name, spec.step.params.tobytes(), spec.step.compute_s.tobytes()
        lived = found.setdefault(key, Lived(name, profile, spec, speaks))
        mine = [e for o in result.of(names[i]) for e in o.exhibits if e.pool == pool]
        if mine:
            lived.seen.setdefault(i, []).extend(mine)
    body = []
    for number, lived in enumerate(each for each in found.values() if each.seen):
        made = _chart(result, lived, f"step{number}")
        charts.append(made)
        said = _beyond(result, lived)
        loud = tag("div", join(tag("h3", "Extrapolated"), bullets(said)), class_="callout loud")
        body.append(place(made, loud if said else None))
    return Section("steps", "Step time, and where the run lived on it", body) if body else None


def _pools(result: StudyResult) -> Iterator[tuple[int, str, Profile, PoolSpec, bool]]:
    """Number of each variant that was played, its pools, their profiles, numbers, and whether they
    speak."""
    for i, name in enumerate(result.summary):
        whole = result.file.variants[name]
        if whole.dialogue is not None:
            spec = dialogue_spec(whole)
            engines = [*whole.cluster.of("llm").items(), *whole.cluster.of("tts").items(),
                       *whole.cluster.of("omni").items()]  # fmt: skip
            for (pool, of), numbers in zip(engines, spec.pools, strict=True):
                yield i, pool, profile_of(of), numbers, of.role != "llm"
            continue
        for part in whole.each_pool():
            profile = profile_of(part.cluster.pool)
            yield i, next(iter(part.cluster.pools)), profile, pool_spec(part, profile), True


def step_times(spec: PoolSpec, batch: np.ndarray, context: float) -> np.ndarray:
    """Seconds of a step of so many decoding streams of ``context`` KV tokens each, without noise,
    prompts or a codec beside it: the kernel's own arithmetic."""
    params, compute = spec.step.params, spec.step.compute_s
    return np.array(
        [
            step_seconds(
                params,
                gpu_seconds(params, float(compute[b]), b * context, b * context),
                host_seconds(params, float(b), 0.0),
            )
            for b in batch
        ]
    )


def _chart(result: StudyResult, lived: Lived, name: str) -> Chart:
    profile, spec = lived.profile, lived.spec
    limits = profile.range.batch if profile.range else None
    top = max(lived.reached, int(limits[1]) if limits else 1)
    end = min(int(1.08 * top) + 1, len(spec.step.compute_s) - 1)
    batch = np.arange(1, end + 1)
    contexts = [e.context for each in lived.seen.values() for e in each]
    context = float(np.mean(contexts))
    alone = 1000 * step_times(spec, batch, context)
    beside = alone * spec.decode_slowdown if spec.codec and spec.codec.shared else None
    highest = float(np.max(alone if beside is None else beside))
    marks = _zones(limits, end)
    marks.append(mark("line", "step alone", x=batch.astype(float), y=alone))
    if beside is not None:
        line = mark("line", "beside a codec batch", x=batch.astype(float), y=beside)
        marks.append({**line, "look": "second"})
    marks += _measured(profile)
    real_time = 1000 * spec.token_audio
    if lived.speaks and real_time < 1.5 * highest:
        marks.append(mark("level", "speech keeps up below", y=real_time))
        highest = max(highest, real_time)
    y = axis("step, ms (dashed: beside a codec batch)", 0, 1.12 * highest, unit="ms")
    where = [panel(y, marks, 190)]
    if shares := _shares(lived):
        peak = max(float(s.max()) for _, s in shares)
        bars = [mark("step", "share of time", i, x=np.arange(len(s)).astype(float), y=s)
                for i, s in shares]  # fmt: skip
        label = "share of a busy replica's time at this batch, %"
        where.append(panel(axis(label, 0, 1.1 * peak or 1, unit="%"), _zones(limits, end) + bars))
    return chart(
        name,
        f"Step time of {lived.name}, by streams in the batch.",
        _said(lived, limits, context),
        axis("streams on a replica", 0, end, unit="streams"),
        where,
        zoom=True,
    )


def _zones(limits: tuple[float, float] | None, end: int) -> list[dict[str, Any]]:
    if limits is None:
        return [mark("zone", "range not stated", x=0, x1=end, look="out")]
    found = [mark("zone", "measured", x=limits[0], x1=min(limits[1], end))]
    if limits[1] < end:
        found.append(mark("zone", "not measured", x=limits[1], x1=end, look="out"))
    return found


def _measured(profile: Profile) -> list[dict[str, Any]]:
    """The measured steps of which the profile says the batch."""
    found = [
        (float(at[1]), 1000 * a.measured_s)
        for a in (profile.fit.anchors if profile.fit else ())
        if (at := re.fullmatch(r"decode, batch (\d+)", a.level))
    ]
    if not found:
        return []
    label = [f"measured: {t:.2f} ms at {b:g} streams" for b, t in found]
    x, y = np.array(found).T
    return [mark("dots", "measured", x=x, y=y, label=label)]


def _shares(lived: Lived) -> list[tuple[int, np.ndarray]]:
    """Variant number, and % of a busy replica's samples by batch (from 0, which is left out)."""
    found = []
    for i, exhibits in lived.seen.items():
        counts = _counts(exhibits)
        if counts[1:].sum():
            found.append((i, 100 * np.where(np.arange(len(counts)), counts, 0) / counts[1:].sum()))
    return found


def _counts(exhibits: list[Exhibit]) -> np.ndarray:
    n = max((len(e.batch) for e in exhibits), default=0)
    total = np.zeros(max(n, 1))
    for e in exhibits:
        total[: len(e.batch)] += e.batch
    return total


def _said(lived: Lived, limits: tuple[float, float] | None, context: float) -> str:
    where = "does not say where it was measured"
    if limits is not None:
        where = f"was measured from {limits[0]:g} to {limits[1]:g} streams"
    text = (
        f"At {context:.0f} KV tokens a stream, without prompts and noise. The profile {where}; the "
        f"largest step of this run held {lived.reached}."
    )
    if not lived.speaks:
        return text
    real_time = 1000 * lived.spec.token_audio
    return f"{text} A step of {real_time:g} ms is as long as the audio that it makes."


def _beyond(result: StudyResult, lived: Lived) -> list[str]:
    """Variants that left the measured range, and for how much of the time."""
    names = list(result.summary)
    limits = lived.profile.range.batch if lived.profile.range else None
    if limits is None:
        return [f"{lived.name} does not say in what range it was measured"]
    found = []
    for i, exhibits in lived.seen.items():
        most = max(e.max_batch for e in exhibits)
        if most <= limits[1]:
            continue
        text = f"{names[i]}: steps of up to {most} streams, measured up to {limits[1]:g}"
        counts = _counts(exhibits)
        busy = counts[1:].sum()
        if busy:
            share = float(counts[int(limits[1]) + 1 :].sum() / busy)
            text += f"; {words.percent(share)} of a busy replica's time lies beyond"
        found.append(text)
    return found
