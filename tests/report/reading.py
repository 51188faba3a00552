"""A page as a test reads it: its tables, its text, its data, its elements."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Page:
    """tables: caption -> rows of cells (the head first).  tags: name and attributes of every
    element.  text: what a reader sees, no scripts or styles.  data: the charts' JSON."""

    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""
    data: dict = field(default_factory=dict)

    def chart(self, name: str) -> dict:
        (found,) = [c for c in self.data["charts"] if c["id"] == name]
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page, self.inside, self.caption = Page(), [], ""

    def handle_starttag(self, name, attributes):
        self.page.tags.append((name, dict(attributes)))
        if name in ("meta", "img", "input", "br"):
            return
        self.inside.append((name, dict(attributes)))
        if name == "tr":
            self.page.tables.setdefault(self.caption, []).append([])
        if name in ("td", "th"):
            self.page.tables[self.caption][-1].append("")
        if name == "caption":
            self.caption = ""

    def handle_endtag(self, name):
        assert self.inside and self.inside[-1][0] == name, (name, self.inside[-3:])
        self.inside.pop()

    def handle_data(self, text):
        names = [name for name, _ in self.inside]
        if "script" in names:
            if self.inside[-1][1].get("id") == "data":
                self.page.data = json.loads(text)
        elif "style" not in names:
            self.page.text += text
            if names[-1:] == ["caption"]:
                self.caption += text
            elif "td" in names or "th" in names:
                self.page.tables[self.caption][-1][-1] += text


def read(html: str) -> Page:
    """Every element must be closed where it was opened."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.inside == []
    return reader.page
