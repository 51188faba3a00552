"""CLEAN, the wait for the first sound and stalls: how they are spread, with intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from voicesim.metrics.edges import EDGES
from voicesim.metrics.summary import interval
from voicesim.report import words
from voicesim.report.html.charts import Chart, axis, chart, mark, number, panel
from voicesim.report.html.page import Section, place
from voicesim.report.html.tags import tag
from voicesim.study import StudyResult

BOTTOM = 1e-3  # %, where the log axis of shares begins at the latest


def section(
    result: StudyResult, summary: words.Summary, context: Mapping[str, Any], charts: list[Chart]
) -> Section:
    """CLEAN by variant, and the curves of all replies where they were kept."""
    text = "Mean and 95 % interval over replications; small dots are the replications."
    if context["replications"] == 1:
        text = "One replication, so no interval."
    clean = ranges("clean", "CLEAN calls.", text, summary, {"": ("clean_share",)},
                   "of all offered calls, %", dots=_clean_by_run(result))  # fmt: skip
    found, slo = [clean], context["slo"]
    for what, title, places in (
        ("heard", "Wait for the first sound.", [("start limit of CLEAN", slo["start_within"])]),
        ("stalled", "Largest stall of a reply.",
         [("audible", context["audible"]), ("limit of CLEAN", slo["no_stall_over"])]),
    ):  # fmt: skip
        if sum(getattr(e, what)[1:].sum() for o in result.outcomes for e in o.exhibits):
            found.append(_curve(result, summary, what, title, places))
    charts += found
    body = [place(each) for each in found]
    if not any(each["id"] == "stalled" for each in found):
        body.append(tag("p", f"Stalls of more than {words.duration(EDGES[0])}: {_stalls(result)}."))
    return Section("spread", "How it is spread", body)


def _stalls(result: StudyResult) -> str:
    """Of a run without a curve of stalls: none, or not measured."""
    measured = sum(int(e.stalled.sum()) for o in result.outcomes for e in o.exhibits)
    return f"none in {measured:,} replies" if measured else words.NOT_MEASURED


def ranges(
    name: str, title: str, text: str, summary: words.Summary,
    stages: Mapping[str, Sequence[str]], label: str,
    dots: Mapping[str, Sequence[float]] | None = None,
) -> Chart:  # fmt: skip
    """Shares with their intervals, a row for each stage (name -> path of a metric) and variant."""
    marks: list[dict[str, Any]] = []
    rows: list[str] = []
    said: list[str] = []
    for what, path in stages.items():
        for i, (v, metrics) in enumerate(summary.items()):
            found = words.metric(metrics, *path)
            shown = words.with_interval(found, words.percent)
            each = f"{v} {what}".strip()
            said.append(f"{each} {shown}")
            row = len(rows)
            rows.append(f"{what} {v}".strip())
            if found["mean"] is None:
                continue
            x, x0, x1 = (number(None if found[k] is None else 100 * found[k])
                         for k in ("mean", "low", "high"))  # fmt: skip
            marks.append(mark("ranges", what, i, x=x, x0=x0, x1=x1, row=row,
                              label=f"{each}: {shown}"))  # fmt: skip
            if dots and len(dots.get(v, ())) > 1:
                marks.append(mark("dots", what, i, x=100 * np.array(dots[v]), row=row))
    body = panel(axis("", 0, len(rows)), marks, 20 * len(rows), rows)
    return chart(name, title, f"{text} {'; '.join(said)}.", axis(label, 0, 100, unit="%"), [body])


def _clean_by_run(result: StudyResult) -> dict[str, list[float]]:
    return {
        name: [c for o in result.of(name) if (c := o.metrics.get("clean_share")) is not None]
        for name in result.file.variants
    }


def share_over(counts: Sequence[np.ndarray]) -> np.ndarray:
    """float64[EDGES, 3]: share beyond each edge, mean, low and high over replications (NaN: one).

    counts: of each replication, int64[EDGES + 1].
    """
    known = [c for c in counts if c.sum()]
    if not known:
        return np.full((len(EDGES), 3), np.nan)
    shares = np.array([1.0 - np.cumsum(c)[:-1] / c.sum() for c in known])
    rows = [interval(list(column), 0.0, 1.0) for column in shares.T]
    return np.array([[r["mean"], r["low"], r["high"]] for r in rows], float)


def _curve(
    result: StudyResult, summary: words.Summary, what: str, title: str,
    places: Sequence[tuple[str, float]],
) -> Chart:  # fmt: skip
    marks: list[dict[str, Any]] = []
    least, said, ends = 1.0, [], [at for _, at in places if at]
    for i, name in enumerate(summary):
        counts = [sum(getattr(e, what) for e in o.exhibits) for o in result.of(name) if o.exhibits]
        share = 100 * share_over(counts)
        share[share <= 0] = np.nan  # a log axis has no zero
        if np.isfinite(share[:, 2]).any():
            low = np.where(np.isnan(share[:, 1]) & ~np.isnan(share[:, 2]), BOTTOM, share[:, 1])
            marks.append(mark("band", title, i, x=EDGES, y=share[:, 2], y0=low))
        marks.append(mark("line", "share beyond", i, x=EDGES, y=share[:, 0]))
        known = np.flatnonzero(np.isfinite(share[:, 0]) & (share[:, 0] < 100))
        if len(known):
            least = min(least, np.nanmin(share[:, 0]))
            ends += [EDGES[max(known[0] - 1, 0)], EDGES[min(known[-1] + 1, len(EDGES) - 1)]]
        said.append(f"{name} {_beyond(sum(counts), places[-1][1])}")
    x = axis("seconds (log scale)", min(ends, default=0.01), 1.2 * max(ends, default=1.0), log=True,
             unit="s")  # fmt: skip
    marks += [mark("place", text, x=at, low=j == 1) for j, (text, at) in enumerate(places) if at]
    y = axis("replies beyond it, % (log scale)", max(least, BOTTOM), 100, log=True, unit="%")
    limit = words.duration(places[-1][1])
    text = f"Share of replies that lie beyond each value. Beyond {limit}: {'; '.join(said)}."
    return chart(what, title, text, x, [panel(y, marks, 200)], zoom=True)


def _beyond(counts: Any, limit: float) -> str:
    """Share of replies over a limit, as far as the grid tells."""
    total = int(np.sum(counts))
    if not total:
        return words.NOT_MEASURED
    share = 1.0 - np.cumsum(counts)[:-1] / total
    return words.percent(float(np.interp(limit, EDGES, share)))
