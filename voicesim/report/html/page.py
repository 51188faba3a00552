"""A page of sections: headings, paragraphs, tables, charts, pictures; style and script inside."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from typing import Any

from voicesim.report.html.tags import Html, embedded, join, tag

SCRIPTS = ("script-scales.js", "script-plot.js", "script-marks.js", "script-start.js")
"""One script in parts, in order."""


@dataclass
class Section:
    """A part of a page under its own heading; name: its anchor."""

    name: str
    heading: str
    body: list[Html] = field(default_factory=list)


def document(
    title: str,
    about: str,
    sections: Sequence[Section],
    charts: Sequence[dict[str, Any]] = (),
    variants: Sequence[str] = (),
) -> str:
    """The page as text.

    about: a line below the title.  charts: of ``charts.chart``; each is drawn where ``place`` left
    room for it.  variants: get a switch each (no switches for fewer than two).
    """
    style, script = asset("style.css"), Html("\n".join(map(asset, SCRIPTS)))
    data = embedded({"charts": list(charts), "variants": list(variants)})
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", style),
    )
    body = join(
        tag("a", "Skip to the answer", href="#answer", class_="skip"),
        tag("header", tag("h1", title), about and tag("p", about, class_="about")),
        _contents(sections),
        _switches(variants) if len(variants) > 1 else None,
        tag("main", *(_section(s) for s in sections)),
        tag("noscript", tag("p", "The charts need scripts; every table stands without them.")),
        tag("script", data, type="application/json", id="data"),
        tag("script", script),
    )
    html = tag("html", tag("head", head), tag("body", body), lang="en")
    return f"<!DOCTYPE html>\n{html}\n"


def _policy(style: str, script: str) -> str:
    """Nothing is fetched, and no other script or style runs, whatever a scenario's names hold.

    https://www.w3.org/TR/CSP3/#grammardef-hash-source
    """
    digests = [base64.b64encode(sha256(t.encode()).digest()).decode() for t in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def asset(name: str) -> Html:
    """A style or script of ours, beside this file."""
    return Html(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _contents(sections: Sequence[Section]) -> Html:
    links = (tag("li", tag("a", s.heading, href=f"#{s.name}")) for s in sections)
    return tag("nav", tag("ul", *links), aria_label="Sections")


def _switches(variants: Sequence[str]) -> Html:
    """A check box per variant: it shows and hides the variant in every chart."""
    boxes = (
        tag(
            "label",
            tag("input", type="checkbox", checked=True, data_switch=i),
            tag("i", class_=f"key {colour(i)}", aria_hidden="true"),
            name,
        )
        for i, name in enumerate(variants)
    )
    return tag("fieldset", tag("legend", "Variants shown"), *boxes, class_="switches")


def _section(section: Section) -> Html:
    heading = tag("h2", section.heading, id=f"{section.name}-h")
    label = f"{section.name}-h"
    return tag("section", heading, *section.body, id=section.name, aria_labelledby=label)


COLOURS = 8


def colour(i: int) -> str:
    """Class of variant number i: its colour, and dashes where colours come round again."""
    return f"v{i % COLOURS}" + (" dashed" if i // COLOURS % 2 else "")


# --- what goes into a section -----------------------------------------------------------------


def table(
    caption: str, head: Sequence[Any], rows: Iterable[Sequence[Any]], names: int = 1,
    groups: Sequence[str] = (), text: Sequence[int] = (),
) -> Html:  # fmt: skip
    """A table; the first ``names`` cells of a row name it.  Wide ones scroll.

    groups: of each column the title over it and its neighbours of the same group, or "".  text:
    columns of words, which stand left.
    """
    top = join(
        _groups(groups) if any(groups) else None,
        tag("tr", *(tag("th", cell, scope="col", class_="text" if i in text else None)
                    for i, cell in enumerate(head))),
    )  # fmt: skip
    body = (
        tag("tr", *(tag("th", cell, scope="row") if i < names
                    else tag("td", cell, class_="text" if i in text else None)
                    for i, cell in enumerate(row)))
        for row in rows
    )  # fmt: skip
    inner = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *body))
    return tag("div", inner, class_="wide", tabindex=0, role="region", aria_label=caption)


def _groups(groups: Sequence[str]) -> Html:
    """The row of titles above a table's head."""
    cells = []
    for title, of in groupby(groups):
        n = len(list(of))
        cells.append(tag("th", title, colspan=n, scope="colgroup", class_="group") if title
                     else tag("td", colspan=n))  # fmt: skip
    return tag("tr", *cells)


def items(pairs: Iterable[tuple[str, Any]], class_: str = "") -> Html:
    """Terms and what is said of each; of a term of several lines the term stands once."""
    found: list[Html] = []
    previous = None
    for key, text in pairs:
        found += [] if key == previous else [tag("dt", key)]
        found.append(tag("dd", text))
        previous = key
    return tag("dl", *found, class_=class_ or None)


def bullets(lines: Iterable[Any], class_: str = "") -> Html:
    """A list of sentences."""
    return tag("ul", *(tag("li", line) for line in lines), class_=class_ or None)


def folded(summary: str, *inside: Html, paper: bool = False) -> Html:
    """What is shown on demand; paper: and in print."""
    return tag("details", tag("summary", summary), *inside, class_="paper" if paper else None)


def place(chart: dict[str, Any], *below: Any) -> Html:
    """Room for a chart, which the script draws: title, what it shows, then ``below``."""
    caption = tag("figcaption", tag("b", chart["title"]), " ", tag("span", chart["desc"]))
    room = tag("div", class_="chart", data_chart=chart["id"])
    return tag("figure", caption, room, *below, data_variant=chart.get("variant"))


def picture(png: bytes, alt: str) -> Html:
    """A PNG inside the page."""
    source = "data:image/png;base64," + base64.b64encode(png).decode()
    return tag("figure", tag("img", src=source, alt=alt), class_="picture")
