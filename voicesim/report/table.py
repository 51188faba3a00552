"""The table of a study on a terminal: a row per variant, and the sentences below it.

At 120 columns it is one table.  Where that does not fit, intervals go under their values; where
that does not fit either, the columns are told in two tables, one below the other.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from voicesim.report import words
from voicesim.report.words import Summary

NAME_WIDTH = 24  # longer variant names are broken over lines
GOOD, BAD, DOUBT, FAINT = "bold green", "red", "yellow", "dim"


@dataclass
class Column:
    """One number per variant.  head: lines, the last one belongs to this column alone; columns
    next to each other under the same ``group`` stand closer, below that title."""

    head: Sequence[str]
    path: Sequence[str]
    show: Callable[..., str]
    style: Callable[[float], str] = lambda _: ""
    group: str = ""


COLUMNS = [
    Column(["offered"], ["offered"], words.count),
    Column(["refused"], ["refused"], words.count),
    Column(["abandoned"], ["abandoned"], words.count),
    Column(["CLEAN"], ["clean_share"], words.percent),
    Column(
        ["calls w.", "audible", "stall"],
        ["stalled_share"],
        words.percent,
        lambda v: BAD if v > 0 else "",
    ),
    Column(
        ["stall s", "per 1,000", "min audio"],
        ["stall_seconds_per_1000_audio_minutes"],
        words.amount,
        lambda v: BAD if v > 0 else "",
    ),
    Column(
        ["p99", "pace"],
        ["pace_p99"],
        words.times,
        lambda v: BAD if v < 1 else DOUBT if v < 1.2 else "",
    ),
    *(Column([q], [f"ttfa_{q}_s"], words.milliseconds, group="TTFA ms") for q in
      ("p50", "p95", "p99")),
    *(Column([s], ["busy_share", s], words.percent, group="busy share") for s in
      ("decode", "host", "codec")),
]  # fmt: skip


OPERATED = [
    Column(["calls", "cut"], ["cut"], words.count, lambda v: BAD if v > 0 else ""),
    Column(["first", "order", "min"], ["first_order_s"], lambda v: words.amount(v / 60.0)),
    Column(["replica", "hours"], ["replica_hours"], words.amount),
]
"""Of fleets whose replicas come and go."""


FAILED = Column(["failed"], ["failed"], words.count, lambda v: BAD if v > 0 else "")


def columns_of(summary: Summary) -> list[Column]:
    """The columns of a study: of one in which calls failed, how many; of one in which replicas
    came and went, what that did, too."""
    failed = any(words.mean(m, "failed") for m in summary.values())
    columns = [*COLUMNS[:3], FAILED, *COLUMNS[3:]] if failed else COLUMNS
    moved = any(
        words.mean(m, "first_order_s") is not None or words.mean(m, "cut") for m in summary.values()
    )
    return [*columns, *OPERATED] if moved else columns


def print_report(
    summary: Summary,
    context: Mapping[str, Any],
    console: Console,
    pools: Mapping[str, Summary] | None = None,
) -> None:
    """Print the table, the signals before the first stall, the verdict, warnings, assumptions.

    pools: of each variant's pools where there are several; they follow as a table of their own.
    """
    plain = console.options.ascii_only

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style), soft_wrap=False)

    say("")
    say(context["title"] or "voicesim", "bold")
    say(words.setting(context), FAINT)
    by_pool = {f"{v} {p}": m for v, each in (pools or {}).items() for p, m in each.items()}
    for rows in filter(None, (summary, by_pool)):
        for block in layout(rows, console.width, plain, rows is summary, columns_of(rows)):
            say("")
            for line in block:
                console.print(line, soft_wrap=True)
    say("")
    items(console, legend(summary, context, plain), FAINT)
    say("")
    many = context["replications"]
    items(
        console,
        [
            (f"{name}:", line)
            for name, m in summary.items()
            for line in (
                *words.signals(m, many),
                *words.causes(m),
                *words.degraded(m),
                *words.shadows(m),
            )
        ],
    )
    if more := [*notes(summary), *one_run(context)]:
        say("")
        items(console, more)
    say("")
    say(words.verdict(summary), "bold")
    if context["warnings"]:
        say("")
        found = words.groups(context["warnings"], list(summary))
        items(console, [("warning:", text) for text in found], DOUBT)
    if context["assumptions"]:
        say("")
        items(console, [("assumed:", text) for text in context["assumptions"]], FAINT)


def items(console: Console, items: Iterable[tuple[str, str]], style: str = "") -> None:
    """Lines "key text", the texts aligned and broken within their column."""
    items = list(items)
    indent = max(cell_len(key) for key, _ in items) + 1
    if indent > console.width / 2:
        indent = 4
    for key, text in items:
        body = " " * max(indent - cell_len(key), 1) + text
        wrapped = textwrap.wrap(
            key + body, console.width, subsequent_indent=" " * indent, break_on_hyphens=False
        )
        console.print(Text("\n".join(wrapped), style), soft_wrap=True)


def legend(summary: Summary, context: Mapping[str, Any], plain: bool) -> list[tuple[str, str]]:
    audible = words.duration(context["audible"])
    found = [
        ("CLEAN", f"{words.clean_rule(context)}; share of all offered calls"),
        ("stall", f"the sound stops for more than {audible} (audible); share of measured calls"),
        ("p99 pace", "audio of a chunk / gap before it, slowest 1 %; below 1x the buffer drains"),
        ("TTFA", "time to first audio of the utterances that were heard"),
    ]
    shown = [words.metric(m, *c.path) for m in summary.values() for c in COLUMNS]
    if any(words.half_width(one) is not None for one in shown):
        found.append(("+-" if plain else "±", "95 % interval over the replications"))
    if any(one["mean"] is None for one in shown):
        found.append((words.NOT_MEASURED, "not measured"))
    return found


def notes(summary: Summary) -> list[tuple[str, str]]:
    """What has no column because it is mostly nothing, and what a call costs."""
    found = []
    for name, title in [
        ("not_measured", "calls whose stalls could not be measured:"),
        ("preemptions", "preemptions:"),
    ]:
        if any(words.mean(m, name) for m in summary.values()):
            found.append((title, _each(summary, name, words.count)))
    if any(words.mean(m, "rolled_back_s") is not None for m in summary.values()):
        found.append(("taken back by the guard:", _each(summary, "rolled_back_s", _minute)))
    if any(words.mean(m, "gpu_cost") is not None for m in summary.values()):
        title = "GPU cost per 1,000 CLEAN calls:"
        found.append((title, _each(summary, "cost_per_1000_clean_calls", words.amount)))
    return found


def _minute(t: float) -> str:
    return f"at {words.amount(t / 60.0)} min"


def one_run(context: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How far CLEAN of a single steady run may be off."""
    found = {v: half for v, (_, half) in context.get("batch_means", {}).items()}
    if not found:
        return []
    text = ", ".join(f"{v} ±{100 * half:.1f} pt" for v, half in found.items())
    return [("CLEAN of this one run, by batch means:", f"{text}; replications tell more")]


def _each(summary: Summary, name: str, show: Callable[..., str]) -> str:
    values = {v: words.mean(m, name) for v, m in summary.items()}
    return ", ".join(
        f"{v} {words.NOT_MEASURED if value is None else show(value)}" for v, value in values.items()
    )


# --- the grid of numbers ----------------------------------------------------------------------


@dataclass
class Strip:
    """A column ready to print: a head and a cell per variant, each a list of lines."""

    head: list[Text]
    cells: list[list[Text]]
    left: bool = False
    group: str = ""

    @property
    def width(self) -> int:
        return max(line.cell_len for lines in (self.head, *self.cells) for line in lines)

    def line(self, text: Text | None) -> Text:
        """A line of this strip at its full width."""
        text = text or Text()
        fill = Text(" " * (self.width - text.cell_len))
        return text + fill if self.left else fill + text


def layout(
    summary: Summary, width: int, plain: bool, rank: bool = True,
    columns: Sequence[Column] = COLUMNS, rows: str = "variant", names: int = NAME_WIDTH,
) -> list[list[Text]]:  # fmt: skip
    """The numbers as blocks of lines: one block if that fits, else as few as do.

    rank: whether the rows stand for one another, so that one of them is the best.
    rows: what they are called; names: cells of the longest name, others are broken.
    """
    best = words.best_variant(summary) if rank and len(summary) > 1 else None
    ways = [
        (strips, gap)
        for stacked in (False, True)
        for strips in [_strips(summary, stacked, plain, best, columns, rows, names)]
        for gap in (2, 1)
    ]
    packed = [(_pack(strips, width, gap), gap) for strips, gap in ways]
    blocks, gap = min(packed, key=lambda found: len(found[0]))
    return [_lines(block, gap, "-" if plain else "─") for block in blocks]


def _strips(
    summary: Summary, stacked: bool, plain: bool, best: str | None, columns: Sequence[Column],
    rows: str, width: int,
) -> list[Strip]:  # fmt: skip
    """The name and every group of columns; stacked: intervals below their values."""
    names = [[Text(part, GOOD if name == best else "bold")
              for part in chop_cells(name, width)] for name in summary]  # fmt: skip
    strips = [Strip([Text(rows, "bold")], names, left=True)]
    for column in columns:
        cells = [
            _cell(m, column, stacked, "+-" if plain else "±", name == best)
            for name, m in summary.items()
        ]
        head = [Text(line, "bold") for line in column.head]
        strip = Strip(head, cells, group=column.group)
        if column.group and column.group == strips[-1].group:
            strips[-1] = _beside(strips[-1], strip)
        else:
            strips.append(strip)
    for strip in strips:
        if strip.group:
            strip.head.insert(0, Text(strip.group.center(strip.width), "bold"))
    return strips


def _cell(
    metrics: Mapping[str, Any], column: Column, stacked: bool, sign: str, best: bool
) -> list[Text]:
    found = words.metric(metrics, *column.path)
    text = words.with_interval(found, column.show, sign)
    style = FAINT if found["mean"] is None else column.style(found["mean"])
    if best and column.path == ["clean_share"]:
        style = GOOD
    return [Text(line, style) for line in (text.split(" ") if stacked else [text])]


def _beside(left: Strip, right: Strip) -> Strip:
    """Two columns as one, a space between them."""

    def join(a: list[Text], b: list[Text]) -> list[Text]:
        pairs = zip_longest(a, b)
        return [Text(" ").join([left.line(x), right.line(y)]) for x, y in pairs]

    cells = [join(a, b) for a, b in zip(left.cells, right.cells, strict=True)]
    return Strip(join(left.head, right.head), cells, group=left.group)


def _pack(strips: list[Strip], width: int, gap: int) -> list[list[Strip]]:
    """Strips in blocks within the width, each block beginning with the variants' names."""
    names, *rest = strips
    blocks: list[list[Strip]] = []
    room = 0
    for strip in rest:
        need = gap + strip.width
        if not blocks or need > room:
            blocks.append([names])
            room = width - names.width
        blocks[-1].append(strip)
        room -= need
    return blocks


def _lines(block: list[Strip], gap: int, rule: str) -> list[Text]:
    space = Text(" " * gap)
    depth = max(len(s.head) for s in block)
    heads = [[None] * (depth - len(s.head)) + list(s.head) for s in block]
    head = [space.join(s.line(h[i]) for s, h in zip(block, heads, strict=True))
            for i in range(depth)]  # fmt: skip
    body = []
    for row in range(len(block[0].cells)):
        for parts in zip_longest(*(s.cells[row] for s in block)):
            body.append(space.join(s.line(p) for s, p in zip(block, parts, strict=True)))
    under = Text(rule * cell_len(head[0].plain), FAINT)
    for line in (*head, *body):
        line.rstrip()
    return [*head, under, *body]
