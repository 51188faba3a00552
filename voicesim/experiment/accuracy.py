"""How near the simulator comes to published ladders that it has not seen, ladder by ladder.

The rule, the same for all and older than any result: of the loads of a ladder every second one
between the first and the last is left out, the profile is fitted to the rest, and the simulator
then predicts the loads left out.  The profile that ships is fitted to all loads, and carries the
errors of that test.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from voicesim.engine.profile import Point, Profile
from voicesim.experiment.curve import fit_ladder
from voicesim.experiment.predicted import points
from voicesim.experiment.published import Ladder
from voicesim.experiment.served import WITHIN
from voicesim.schemas import current

MISS = 0.20
BARS = (
    ("RTF and throughput", ("rtf", "throughput"), 0.08, MISS),
    ("latency", ("latency",), None, None),
    ("first audio", ("ttfa",), 0.20, None),
    ("first audio, p95 only", ("ttfa p95",), 0.20, None),
    ("continuity", ("continuity",), None, None),
)
"""Name, metrics of the JSON (or as published), allowed median and greatest held-out error."""
KINDS = {
    "rtf": "rtf", "rtf_aggregate": "rtf", "itl": "rtf", "throughput": "throughput",
    "xrt": "throughput", "tokens_per_s": "throughput", "latency": "latency", "ttfa": "ttfa",
    "ttft": "ttfa", "ttfb": "ttfa", **dict.fromkeys(WITHIN, "continuity"),
}  # fmt: skip
"""Published metric: metric of the JSON.  A token's time is the RTF of text, a first token its
first audio."""


def calibrate_ladder(ladder: Ladder) -> Profile:
    """The profile of all loads, with the figures that it was and was not fitted to."""
    held, found = ladder.held_out, []
    if held:
        unseen = [f for f in ladder.figures if f.level in held]
        found = points(ladder, fit_ladder(ladder, held), unseen, held_out=True)
    profile = fit_ladder(ladder)
    found += points(ladder, profile, ladder.figures, held_out=False)
    assert profile.fit is not None
    report = profile.fit.model_copy(update={"points": found})
    return profile.model_copy(update={"fit": report})


def rows(ladder: Ladder, profile: Profile) -> list[dict[str, Any]]:
    """One row per figure: what was published, what the simulator says, and whether it had seen
    the load.  error: relative, of continuity the difference."""
    urls = {(f.run or None, f.level, f.metric, f.stat): f.url for f in ladder.figures}
    return [
        {
            "ladder": ladder.name,
            "source": urls[p.run, p.load, p.metric, p.stat],
            "model": ladder.text("model"),
            "gpu": ladder.text("gpu"),
            "stack": f"{ladder.text('stack')} ({ladder.text('version')})",
            "run": p.run,
            "metric": KINDS[p.metric],
            "published_as": f"{p.metric} {p.stat}",
            "load": p.load,
            "load_kind": ladder.kind,
            "held_out": p.held_out,
            "measured": p.measured,
            "predicted": p.predicted,
            "error": p.error,
            "why": ladder.setting("why", p.run or "", p.load) if missed(p) else None,
        }
        for p in (profile.fit.points if profile.fit else [])
    ]


def missed(point: Point) -> bool:
    """Is a held-out figure off by more than a fifth?"""
    return point.held_out and abs(point.error) > MISS


def summary(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Held-out errors by kind, beside what is asked of them."""
    out = []
    for name, kinds, median, most in BARS:
        errors = [
            abs(r["error"])
            for r in found
            if r["held_out"] and {r["metric"], r["published_as"]} & set(kinds)
        ]
        if errors:
            out.append(
                {
                    "kind": name,
                    "figures": len(errors),
                    "median": float(np.median(errors)),
                    "within_fifth": float(np.mean(np.array(errors) <= MISS)),
                    "worst": max(errors),
                    "median_bar": median,
                    "worst_bar": most,
                }
            )
    return out


def as_json(found: Sequence[dict[str, Any]]) -> str:
    """The numbers as a file."""
    data = {"schema": current("accuracy"), "summary": summary(found), "rows": list(found)}
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def dropped(file: Path) -> list[dict[str, str]]:
    """Ladders that were looked at and not taken: model, gpu, stack, loads, why, url."""
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def page(found: Sequence[dict[str, Any]], left_out: Sequence[dict[str, str]]) -> str:
    """docs/concepts/accuracy.md."""
    names = list(dict.fromkeys(r["ladder"] for r in found))
    tested = [n for n in names if any(r["held_out"] for r in found if r["ladder"] == n)]
    lines = [
        "# How near does it come?",
        "",
        "<!-- written by `python benchmarks/accuracy.py`; change data or code, not this page -->",
        "",
        f"{len(tested)} published ladders, each one model on one card with one version of one "
        "stack. Of each, every second load between the first and the last is left out; a profile "
        "is fitted to the others; the simulator predicts what was left out. That split is the same "
        "for all and was fixed before any result. The method was not: what is free in a fit, and "
        "when a table is taken, was settled while these ladders were looked at, so expect somewhat "
        "more on one of your own. The figures are other people's, and repeat to 3 to 10 %.",
        "",
        "| held out | figures | median error | within 20 % | worst | asked |",
        "|---|---|---|---|---|---|",
    ]
    for s in summary(found):
        asked = []
        if s["median_bar"] is not None:
            asked.append(f"median {s['median_bar']:.0%}: {_met(s['median'] <= s['median_bar'])}")
        if s["worst_bar"] is not None:
            asked.append(f"none over {s['worst_bar']:.0%}: {_met(s['worst'] <= s['worst_bar'])}")
        lines.append(
            f"| {s['kind']} | {s['figures']} | {s['median']:.1%} | {s['within_fifth']:.0%} "
            f"| {s['worst']:.0%} | {'; '.join(asked) or '-'} |"
        )
    lines += ["", *_misses(found), "", "## Every ladder", ""]
    for name in names:
        lines += [*_section([r for r in found if r["ladder"] == name]), ""]
    lines += _dropped(len(names), left_out)
    return "\n".join(lines) + "\n"


def _met(yes: bool) -> str:
    return "met" if yes else "missed"


def _misses(found: Sequence[dict[str, Any]]) -> list[str]:
    off = [r for r in found if r["held_out"] and abs(r["error"]) > MISS]
    if not off:
        return ["No held-out figure is off by more than 20 %."]
    lines = [
        "## Off by more than 20 %",
        "",
        "| ladder | load | figure | error | why |",
        "|---|---|---|---|---|",
    ]
    for r in off:
        why = r["why"] or "not explained"
        lines.append(
            f"| {r['ladder']} | {r['load']:g} | {r['published_as']} | {r['error']:+.0%} | {why} |"
        )
    return lines


LOADS = {"closed": "in flight", "burst": "at once", "poisson": "requests/s"}


def _section(found: Sequence[dict[str, Any]]) -> list[str]:
    first = found[0]
    held = sorted({r["load"] for r in found if r["held_out"]})
    every = sorted({r["load"] for r in found})
    fitted = [load for load in every if load not in held]
    split = f"fitted to {_list(fitted)}, left out {_list(held)}" if held else (
        f"{len(every)} loads ({_list(every)}): too few to leave any out, fitted whole"
    )  # fmt: skip
    pages = ", ".join(f"<{url}>" for url in dict.fromkeys(r["source"] for r in found))
    lines = [
        f"### {first['ladder']}",
        "",
        f"{first['model']} on {first['gpu']}, {first['stack']}; load: {LOADS[first['load_kind']]}; "
        f"{split}. {pages}",
        "",
        "| load | figure | published | predicted | error |",
        "|---|---|---|---|---|",
    ]
    for r in found if not held else (r for r in found if r["held_out"]):
        run = f"{r['run']}, " if r["run"] else ""
        lines.append(
            f"| {r['load']:g} | {run}{r['published_as']} | {r['measured']:.4g} "
            f"| {r['predicted']:.4g} | {r['error']:+.1%} |"
        )
    return lines


def _list(loads: Iterable[float]) -> str:
    return ", ".join(f"{load:g}" for load in loads)


def _dropped(taken: int, left_out: Sequence[dict[str, str]]) -> list[str]:
    lines = [
        "## Looked at and not taken",
        "",
        f"{taken} ladders are above; {len(left_out)} lines of others were looked at. Taken is what "
        "names its card, its stack and version, and gives at least four loads of one run on one "
        "replica (with fewer only where no better ladder of the model is public). None was taken "
        "or dropped by how well it is predicted.",
        "",
        "| model | card | stack | loads | why not |",
        "|---|---|---|---|---|",
    ]
    for r in left_out:
        lines.append(f"| {r['model']} | {r['gpu']} | {r['stack']} | {r['loads']} | {r['why']} |")
    return lines
