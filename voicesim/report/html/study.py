"""The page of a study: its verdict, what the terminal says, its figures, where it comes from."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from voicesim.files import write_whole
from voicesim.metrics.extrapolated import MARKS
from voicesim.report import words
from voicesim.report.html.heard import heard
from voicesim.report.html.page import Section, bullets, document, folded, items, picture
from voicesim.report.html.tags import Html, join, tag

REPORT = "report.html"
NAMES = (
    "title",
    "scenario",
    "profile",
    "trace",
    "url",
    "name",
)  # of a study's JSON: what it is about
EXTRAPOLATED = (*MARKS, "at which batches", "EXTRAPOLATED")
FACTS = (
    "schema", "scenario", "variant", "profile", "replications", "seeds", "seed", "horizon", "url",
    "protocol", "trace", "buffer_tokens", "file", "form", "began", "ended", "voicesim", "model",
)  # fmt: skip


def write_study(
    folder: Path, data: Mapping[str, Any], verdict: Sequence[str],
    show: Callable[[Console], None], pictures: Mapping[str, bytes],
) -> None:  # fmt: skip
    """report.html of a study whose other files are in the folder.

    data: its JSON.  verdict: sentences, the first is said first.  show: prints it on a terminal.
    pictures: what each shows -> PNG.
    """
    page = study_page(data, verdict, show, pictures, _text(folder / "scenario.yaml"))
    write_whole(folder / REPORT, page.encode())


def study_page(
    data: Mapping[str, Any], verdict: Sequence[str], show: Callable[[Console], None],
    pictures: Mapping[str, bytes], scenario: str | None = None,
) -> str:  # fmt: skip
    """The page as text; the same study gives the same bytes."""
    said = heard(show)
    title = said.title or next((str(data[n]) for n in NAMES if data.get(n)), "voicesim")
    first, *more = verdict or [words.NOT_MEASURED]
    answer = [tag("p", tag("b", _stop(first)), class_="verdict")]
    answer += [tag("p", _stop(s)) for s in more]
    if said.cautions:
        loud = any(mark in text for text in said.cautions for mark in EXTRAPOLATED)
        box = join(tag("h3", "Know before trusting this"), bullets(said.cautions))
        answer.append(tag("div", box, class_="callout loud" if loud else "callout", role="note"))
    sections = [
        Section("answer", "The answer", answer),
        Section("found", "What was found", said.body),
        Section("figures", "Figures", [picture(png, alt) for alt, png in pictures.items()]),
        Section("method", "How it was found", [tag("p", line) for line in said.method]),
        Section("provenance", "Where this comes from", _provenance(data, scenario)),
    ]
    return document(title, _about(data), [s for s in sections if s.body])


def _stop(sentence: str) -> str:
    text = sentence.strip()
    return text if text.endswith((".", "!")) else f"{text}."


def _about(data: Mapping[str, Any]) -> str:
    kind = str(data["schema"]).removeprefix("voicesim-").partition("/")[0]
    return f"voicesim {kind}"


def _provenance(data: Mapping[str, Any], scenario: str | None) -> list[Html]:
    settings = data.get("settings")
    known = {**settings, **data} if isinstance(settings, Mapping) else data
    facts = [(name, _fact(name, known[name])) for name in FACTS if _plain(known.get(name))]
    body = [items(facts)]
    if scenario is not None:
        yaml = tag("pre", scenario, tabindex=0)
        body.append(folded("The scenario, in full, with every default", yaml))
    return body


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _fact(name: str, value: Any) -> str:
    return words.duration(value) if name == "horizon" else str(value)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
