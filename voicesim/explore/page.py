"""The page as one text: its HTML with style, script and state inside."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def page_of(state: Mapping[str, Any], nonce: str) -> str:
    """The page; nonce: of its Content-Security-Policy."""
    text = _part("page.html")
    data = json.dumps(state, allow_nan=False).replace("<", "\\u003c")
    filled = (
        ("/*style*/", _part("page.css")),
        ("/*script*/", _part("chart.js") + _part("page.js")),
        ("NONCE", nonce),
        ("{}<!--state-->", data),
    )
    for mark, content in filled:
        text = text.replace(mark, content)
    return text


def _part(name: str) -> str:
    return (files("voicesim.explore") / name).read_text(encoding="utf-8")
