"""Two whole calls of each variant: who speaks, where every answer's time goes, what the caller's
buffer holds, and every silence in the middle of speech."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from voicesim.metrics.dialogue_exhibits import OfTurns
from voicesim.metrics.dialogue_shown import AnswerShown, TalkShown
from voicesim.report import words
from voicesim.report.html.calls import Causes, minutes, stall_table, told
from voicesim.report.html.charts import Chart, axis, chart, mark, number, panel
from voicesim.report.html.page import Section, place
from voicesim.report.html.tags import Html, tag
from voicesim.study import StudyResult

LANES = ("caller", "end of turn", "recogniser", "language model", "voice", "network, client")
Span = tuple[float, float, str]
"""From, to (s), and what it is."""


def section(result: StudyResult, folder: Path | None, charts: list[Chart]) -> Section:
    """The worst and the median call of each variant, in its first replication."""
    body: list[Html] = []
    for i, name in enumerate(result.summary):
        exhibits = (e for o in result.of(name)[:1] for e in o.exhibits if isinstance(e, OfTurns))
        found = []
        for talk in (t for e in exhibits for t in e.talks):
            causes = told(folder, name, talk.session, "answer")
            made = talk_chart(talk, f"call{len(charts)}", name, i, causes)
            charts.append(made)
            found.append(place(made, stall_table(made)))
        body += [tag("div", *found, class_="pair")] if found else []
    if not body:
        said = "No call was kept chunk by chunk: none could be measured, or the run is too large."
        body = [tag("p", said)]
    text = (
        "Calls whose stalls can be measured, ranked by seconds of stall and then by their longest "
        "wait, first replication. Above, the audio that the caller's player holds: a chunk lifts "
        "it, playing drains it, yellow is waiting for an answer, red is silence in the middle of "
        "one. Below, who is at work. Zoom in for a turn; choose a silence to see what caused it."
    )
    return Section("calls", "What two callers heard", [tag("p", text, class_="faint"), *body])


def talk_chart(talk: TalkShown, name: str, variant: str, number_of: int, causes: Causes) -> Chart:
    """The buffer above; below it the caller and each stage."""
    start = talk.begins
    buffer = [
        mark("zone", "", x=number(a - start), x1=number(b - start), look="wait")
        for x in talk.answers if not x.half for a, b in [(x.at["spoken"], _first(x))] if b > a
    ]  # fmt: skip
    points = _curve(talk) - [start, 0.0]
    known = np.where(np.isnan(points[:, 0]), np.roll(points[:, 0], 1), points[:, 0])
    buffer.append({**mark("area", "buffer, s", number_of, x=known, y=points[:, 1]), "exact": True})
    top = max(float(np.nanmax(points[:, 1], initial=0.0)), 0.1)
    end = max(float(np.nanmax(known, initial=0.0)), talk.ends - start)
    spans = [[span for x in talk.answers for span in of(x)] for of in OF]
    lanes = [
        mark("spans", lane, x=np.array([s[0] - start for s in found]), row=i,
             x1=np.array([s[1] - start for s in found]), label=[s[2] for s in found],
             look="wait" if lane == "end of turn" else "")
        for i, (lane, found) in enumerate(zip(LANES, spans, strict=True))
    ]  # fmt: skip
    panels = [
        panel(axis("audio in the caller's player, s", 0, 1.1 * top, unit="s"), buffer, 120),
        panel(axis("who is at work", 0, len(LANES)), lanes, 126, LANES),
    ]
    x = axis(f"seconds since the call began, at {minutes(start)}", 0, end, unit="s", short="s")
    heading = f"{variant}, {talk.rank} of {talk.of:,} calls."
    made = chart(name, heading, _said(talk), x, panels, zoom=True, variant=number_of)
    made["stalls"] = [
        {
            "id": f"{name}-s{x.number}-{int(i)}",
            "x": number(a - start),
            "x1": number(b - start),
            "label": f"Silence of {words.duration(b - a)} in {_whose(x)}: "
            + causes.get((talk.session, x.number, int(i)), _gap(x, int(i))),
        }
        for x in talk.answers
        for a, b, i in x.stalls
    ]
    return made


def _curve(talk: TalkShown) -> np.ndarray:
    """The buffers of all answers, one after another, a gap between them."""
    gap = np.array([[np.nan, np.nan]])
    parts = [part for x in talk.answers if len(x.buffer) for part in (x.buffer, gap)]
    return np.concatenate(parts) if parts else np.concatenate([[[talk.begins, 0.0]], gap])


def _first(x: AnswerShown) -> float:
    """When the first sound came, or the wait ended without one (s)."""
    if np.isfinite(x.at["start"]):
        return x.at["start"]
    ends = [t for t in (x.at["done"], x.at["stopped"]) if np.isfinite(t)]
    return min(ends, default=x.at["spoken"])


def _whose(x: AnswerShown) -> str:
    return f"the answer to {'a pause of ' if x.half else ''}turn {x.turn + 1}"


def _gap(x: AnswerShown, i: int) -> str:
    """Of a stall too short to be logged: where its chunk stood."""
    gap = x.chunks[i][2] - x.chunks[i - 1][2]
    held = x.chunks[i - 1][3]
    return (
        f"chunk {i} came {words.duration(gap)} after the one before, which held "
        f"{words.duration(held)} of audio (too short to be heard, so no cause is logged)"
    )


# --- the lanes ----------------------------------------------------------------------------------


def _between(begin: float, end: float, text: str) -> Iterator[Span]:
    """A span that came to its end; {}: how long it took."""
    if np.isfinite(begin) and np.isfinite(end) and end >= begin:
        yield begin, end, text.format(words.duration(end - begin))


def _caller(x: AnswerShown) -> Iterator[Span]:
    pause = ", then pauses" if x.half else ""
    yield from _between(x.at["speak"], x.at["spoken"], f"turn {x.turn + 1}: speaks for {{}}{pause}")


def _end_of_turn(x: AnswerShown) -> Iterator[Span]:
    what = "a pause taken for its end" if x.half else "noticed"
    way = words.duration(x.at["heard_end"] - x.at["spoken"])
    text = f"turn {x.turn + 1}: {what} {{}} after the last word ({way} of them on the way)"
    yield from _between(x.at["spoken"], x.at["decided"], text)


def _recogniser(x: AnswerShown) -> Iterator[Span]:
    text = f"turn {x.turn + 1}: its text is final {{}} after that"
    yield from _between(x.at["decided"], x.at["text"], text)


def _model(x: AnswerShown) -> Iterator[Span]:
    name, written = x.model
    who = f"turn {x.turn + 1}, {name}"
    yield from _between(x.at["text"], x.at["first_unit"], f"{who}: first piece of text after {{}}")
    yield from _between(x.at["first_unit"], written, f"{who}: the rest of the text, {{}}")


def _voice(x: AnswerShown) -> Iterator[Span]:
    for (asked, begun, done, i), voice in zip(x.units.tolist(), x.voices, strict=True):
        piece = "speech to speech" if i < 0 else f"piece {int(i) + 1}"
        waited = words.duration(begun - asked) if np.isfinite(begun) else "as long"
        text = f"turn {x.turn + 1}, {piece}, {voice}: {{}}, of which {waited} waiting to begin"
        yield from _between(asked, done, text)


def _network(x: AnswerShown) -> Iterator[Span]:
    for i, (sent, arrived, heard, audio) in enumerate(x.chunks.tolist()):
        client = f", client {words.duration(heard - arrived)}" if heard > arrived else ""
        text = f"turn {x.turn + 1}, chunk {i}, {words.duration(audio)} of audio: {{}}{client}"
        yield from _between(sent, heard, text)


OF = (_caller, _end_of_turn, _recogniser, _model, _voice, _network)
"""What makes the spans of each lane."""


def _said(talk: TalkShown) -> str:
    """The call in a sentence."""
    whole = [x for x in talk.answers if not x.half]
    stalls = np.concatenate([x.stalls for x in talk.answers] or [np.zeros((0, 3))])
    total = float((stalls[:, 1] - stalls[:, 0]).sum())
    heard = "no stall" if not len(stalls) else (
        f"{len(stalls)} stall{'s' if len(stalls) > 1 else ''}, {words.duration(total)} in all"
    )  # fmt: skip
    waits = [x.at["start"] - x.at["spoken"] for x in whole if np.isfinite(x.at["start"])]
    longest = words.duration(max(waits)) if waits else words.NOT_MEASURED
    more = []
    if cut := len(talk.answers) - len(whole):
        more.append(f"{cut} cut off in a pause")
    if broken := sum(x.interrupt == "barge_in" for x in whole):
        more.append(f"{broken} interrupted by the caller")
    turns = "one turn" if len(whole) == 1 else f"{len(whole)} turns"
    turns += f" ({', '.join(more)})" if more else ""
    return f"Call {talk.session}: {turns}, longest wait {longest}, {heard}."
