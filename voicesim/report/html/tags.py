"""HTML as nested function calls: whatever is not Html already is escaped."""

import json
from html import escape
from typing import Any


class Html(str):
    """Text that is HTML: made by ``tag`` and ``join``, or written by us."""

    __slots__ = ()


def tag(name: str, /, *inside: Any, **attributes: Any) -> Html:
    """An element.  inside: Html, or anything else as text; None and False are left out.

    attributes: ``class_`` is class, ``aria_label`` aria-label; True stands without a value, None
    and False are left out.
    """
    written = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(*inside)}</{name}>")


VOID = ("meta", "img", "input", "br")


def join(*parts: Any) -> Html:
    """Parts one after the other; text among them is escaped."""
    shown = (part for part in parts if part is not None and part is not False)
    return Html("".join(p if isinstance(p, Html) else escape(str(p)) for p in shown))


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def embedded(data: Any) -> Html:
    """JSON for a script element: no text in it can end that element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return Html(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
