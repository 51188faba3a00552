"""Two calls of each variant chunk by chunk: what the listener's buffer held, and every silence."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from voicesim.metrics.exhibits import CallShown, ReplyShown
from voicesim.report import words
from voicesim.report.html.charts import Chart, axis, chart, mark, number, panel
from voicesim.report.html.page import Section, folded, place
from voicesim.report.html.tags import Html, tag
from voicesim.study import StudyResult

LANES = ("waiting", "decode", "codec", "network")
MOST_STALLS = 20  # in the table of a call, the longest
NONE = (
    "No call was kept chunk by chunk: either none could be measured, or the run is too large "
    "(more than a million calls, or no rows kept)."
)
Causes = Mapping[tuple[int, int, int], str]


def section(result: StudyResult, folder: Path | None, charts: list[Chart]) -> Section | None:
    """The worst and the median call of each variant (and pool), in its first replication."""
    body: list[Html] = []
    for i, name in enumerate(result.summary):  # of an interrupted run some variants are missing
        for exhibit in (e for o in result.of(name)[:1] for e in o.exhibits):
            found = []
            for call in exhibit.calls:
                causes = told(folder, name, call.session)
                several = f" {exhibit.pool}" if len(result.of(name)[0].exhibits) > 1 else ""
                made = call_chart(call, f"call{len(charts)}", name + several, i, causes)
                charts.append(made)
                found.append(place(made, stall_table(made)))
            body += [tag("div", *found, class_="pair")] if found else []
    if not body:
        body = [tag("p", NONE)]
    text = (
        "Calls that heard something, ranked by seconds of stall and then by their slowest start, "
        "first replication. The curve is the audio that the listener holds: a chunk lifts it, "
        "playing drains it, and red is silence in the middle of speech. Choose a silence to see "
        "what made the chunk late."
    )
    return Section("calls", "What two callers heard", [tag("p", text, class_="faint"), *body])


def told(folder: Path | None, variant: str, session: int, of: str = "utterance") -> Causes:
    """What the run says caused the stalls of a call, by (session, ``of``, chunk that ended it):
    cause, detail, and which window of a trace shows it; from stalls/VARIANT-0*.parquet, empty
    where there is none.  of: what a chunk belongs to, "utterance" or "answer"."""
    if folder is None or not (folder / "stalls").is_dir():
        return {}
    columns = ["session", of, "chunk", "cause", "detail", "began_s", "length_s", "since_s"]
    at = [("variant", "==", variant), ("replication", "==", 0), ("session", "==", session)]
    rows = pd.read_parquet(folder / "stalls", columns=columns, filters=at)
    return {
        (session, int(row[of]), int(row["chunk"])): f"cause {row['cause']}: {row['detail']}"
        f" (step by step: {trace_of(row, variant)})"
        for row in rows.to_dict("records")
    }


def trace_of(row: Mapping[Any, Any], variant: str) -> str:
    """The option of ``run`` that shows what led to a stall: from when its buffer only lost, ten
    seconds before it at most, to its end."""
    begins = max(row["since_s"], row["began_s"] - 10.0, 0.0)
    ends = row["began_s"] + row["length_s"]
    window = f"{minutes(math.floor(begins))}..{minutes(math.ceil(ends + 1e-6))}"
    return f"--trace {window} --trace-of {variant}"


def minutes(seconds: float) -> str:
    """Whole seconds as m:ss."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def call_chart(call: CallShown, name: str, variant: str, number_of: int, causes: Causes) -> Chart:
    """The buffer above; below it waiting, decode, codec and network of each chunk."""
    start = call.replies[0].requested
    buffer = [mark("zone", "", x=number(a - start), x1=number(b - start), look="wait")
              for r in call.replies for a, b in [(r.requested, _first(r))]]  # fmt: skip
    curves = [r.buffer - [start, 0.0] for r in call.replies if len(r.buffer)]
    gap = np.array([[np.nan, np.nan]])
    points = np.concatenate([part for c in curves for part in (c, gap)]) if curves else gap
    known = np.where(np.isnan(points[:, 0]), np.roll(points[:, 0], 1), points[:, 0])
    buffer.append({**mark("area", "buffer, s", number_of, x=known, y=points[:, 1]), "exact": True})
    end = max([known[-1], *(r.settled - start for r in call.replies)])
    top = max(float(np.nanmax(points[:, 1], initial=0.0)), 0.1)
    heading = f"{variant}, {call.rank} of {call.of:,} calls."
    panels = [
        panel(axis("audio in the listener's buffer, s", 0, 1.1 * top, unit="s"), buffer, 120),
        panel(axis("chunks on their way", 0, len(LANES)), lanes(call, start), 84, LANES),
    ]
    x = axis("seconds since the call began", 0, end, unit="s")
    made = chart(name, heading, _said(call), x, panels, zoom=True, variant=number_of)
    made["stalls"] = [
        {
            "id": f"{name}-s{r.utterance}-{int(i)}",
            "x": number(a - start),
            "x1": number(b - start),
            "label": f"Silence of {words.duration(b - a)} in reply {r.utterance + 1}: "
            f"{cause(r, int(i), causes, call.session)}",
        }
        for r in call.replies
        for a, b, i in r.stalls
    ]
    return made


def _first(reply: ReplyShown) -> float:
    """When the first sound came, or the caller's wait ended without one (s)."""
    return reply.started if np.isfinite(reply.started) else reply.settled


def lanes(call: CallShown, start: float) -> list[dict[str, object]]:
    """A row of spans for each stage that a chunk goes through."""
    spans: dict[str, list[tuple[float, float, str]]] = {lane: [] for lane in LANES}
    for r in call.replies:
        what = f"reply {r.utterance + 1} on replica {r.replica}"
        let_in = r.admitted if np.isfinite(r.admitted) else r.settled
        spans["waiting"].append((r.requested, let_in, f"{what}: {r.outcome}"))
        before = let_in
        for i, (queued, sent, arrived, audio, rows) in enumerate(r.chunks.tolist()):
            chunk = f"chunk {i}, {words.duration(audio)} of audio"
            spans["decode"].append((before, queued, f"{chunk}: {words.duration(queued - before)}"))
            took = words.duration(sent - queued)
            batch = f"{took}, batch of {rows:g}" if rows else "no codec"
            spans["codec"].append((queued, sent, f"{chunk}: {batch}"))
            spans["network"].append((sent, arrived, f"{chunk}: {words.duration(arrived - sent)}"))
            before = queued
    return [
        mark("spans", lane, x=np.array([s[0] - start for s in found]), row=i,
             x1=np.array([s[1] - start for s in found]), label=[s[2] for s in found],
             look="wait" if lane == "waiting" else "")
        for i, (lane, found) in enumerate(spans.items())
    ]  # fmt: skip


def cause(reply: ReplyShown, i: int, causes: Causes, session: int) -> str:
    """What made chunk ``i`` late: as the run tells it, and where its time went.

    The gap before a chunk is the time to decode it (queued after the one before) and what codec
    and network took longer than for the one before; the three add up to it.
    """
    said = causes.get((session, reply.utterance, i))
    before, mine = reply.chunks[i - 1], reply.chunks[i]
    gap, held = mine[2] - before[2], before[3]
    parts = {
        "decode": mine[0] - before[0],
        "codec": (mine[1] - mine[0]) - (before[1] - before[0]),
        "network": (mine[2] - mine[1]) - (before[2] - before[1]),
    }
    worst = max(parts, key=lambda k: parts[k])
    changed = ", ".join(f"{k} {_more(x)}" for k, x in parts.items() if k != "decode")
    text = (
        f"chunk {i} came {words.duration(gap)} after the one before, which held "
        f"{words.duration(held)} of audio: {words.duration(parts['decode'])} to decode, {changed}; "
        f"mostly {worst}"
    )
    return text if said is None else f"{said} ({text})"


def _more(x: float) -> str:
    if abs(x) < 0.0005:
        return "as before"
    return f"{words.duration(abs(x))} {'longer' if x > 0 else 'shorter'} than before"


def _said(call: CallShown) -> str:
    stalls = np.concatenate([r.stalls for r in call.replies])
    total = float((stalls[:, 1] - stalls[:, 0]).sum())
    heard = "no stall" if not len(stalls) else (
        f"{len(stalls)} stall{'s' if len(stalls) > 1 else ''}, {words.duration(total)} in all"
    )  # fmt: skip
    waits = [r.started - r.requested for r in call.replies if np.isfinite(r.started)]
    slowest = words.duration(max(waits)) if waits else words.NOT_MEASURED
    n = len(call.replies)
    replies = "one reply" if n == 1 else f"{n} replies"
    return f"Call {call.session}: {replies}, slowest start {slowest}, {heard}."


def stall_table(made: Chart) -> Html | None:
    """The stalls as a table, the longest first; each is a button that shows it in the chart."""
    found = sorted(made["stalls"], key=lambda s: (s["x"] - s["x1"], s["x"]))
    if not found:
        return None
    rows = [
        tag("tr",
            tag("td", tag("button", "show", type="button")),
            tag("td", f"{s['x']:.2f} s"),
            tag("td", words.duration(s["x1"] - s["x"])),
            tag("td", s["label"].partition(": ")[2], class_="text"),
            id=s["id"], data_chart=made["id"], data_from=s["x"], data_to=s["x1"]
            )
        for s in found[:MOST_STALLS]
    ]  # fmt: skip
    left = len(found) - len(rows)
    caption = "The longest silences" + (f"; {left} shorter ones are left out" if left else "")
    head = tag(
        "tr",
        tag("td"),
        *(tag("th", h, scope="col") for h in ("at", "lasted")),
        tag("th", "what made it", scope="col", class_="text"),
    )
    inside = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *rows))
    line = tag("p", "Choose a silence.", id=f"{made['id']}-cause", class_="cause",
               aria_live="polite")  # fmt: skip
    title = "One silence" if len(found) == 1 else f"{len(found)} silences"
    return tag("div", line, folded(title, tag("div", inside, class_="wide"), paper=True))
