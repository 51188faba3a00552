import io

import pytest
from rich.console import Console

from tests.report.study import context, metrics, quiet, unmeasured
from voicesim.report.table import print_report

SUMMARY = {
    "admit_all": metrics(),
    "bigger_first_chunk": quiet(offered=178604.0, refused=18598.0),
    "slack": quiet(clean_share=0.75),
}


def report(summary, width=120, encoding="utf-8", **changes):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    print_report(summary, context(**changes), Console(file=file, width=width))
    file.flush()
    return raw.getvalue().decode(encoding)


def rows(text, name):
    return [line.split() for line in text.splitlines() if line.startswith(name + " ")]


def test_a_row_per_variant_in_one_table():
    text = report(SUMMARY)
    first, *_ = rows(text, "admit_all")
    assert first == ["admit_all", "178,604", "1,901", "77", "46.4%", "46.5%", "1,257", "1.32x",
                     "451", "2,316", "4,503", "67.9%", "2.0%", "79.9%"]  # fmt: skip
    assert len(rows(text, "slack")[0]) == len(first)
    head = text[: text.index("───")]
    for word in ("offered", "refused", "abandoned", "CLEAN", "audible", "TTFA ms", "p50", "p95",
                 "p99", "pace", "busy share", "decode", "host", "codec"):  # fmt: skip
        assert word in head


@pytest.mark.parametrize("relative", [None, 0.01])
@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_it_fits_the_width(width, relative):
    summary = {**SUMMARY, "admit_all": metrics(relative)}
    text = report(summary, width, warnings=["admit_all: " + "extrapolated " * 20],
                  assumptions=["long " * 50])  # fmt: skip
    assert max(map(len, text.splitlines())) <= width
    for value in ("178,604", "1.32x", "4,503", "79.9%"):
        assert value in text


def test_at_80_columns_the_numbers_are_told_in_two_tables():
    lines = report(SUMMARY, 80).splitlines()
    assert sum(line.startswith("variant ") for line in lines) == 2
    assert sum(line.startswith("variant ") for line in report(SUMMARY).splitlines()) == 1


def test_intervals_beside_the_value_or_below_it():
    one = {"a": metrics(0.01)}
    assert "46.4% ±0.5" in report(one, 200, replications=5)
    below = report(one, 120, replications=5)
    assert "±0.5" in below and "46.4% ±0.5" not in below
    assert "95 % interval" in below and "mean of 5 replications" in below
    assert "±" not in report(SUMMARY)


def test_not_measured_is_said_and_never_zero():
    text = report({"admit_all": metrics(), "a": unmeasured()})
    assert rows(text, "a")[0] == ["a", *["n/a"] * 13]
    assert "audible stalls n/a" in text
    assert "not measured" in text
    assert "n/a" not in report({"admit_all": metrics()})


def test_signals_verdict_warnings_assumptions():
    text = report(SUMMARY, warnings=["slack: beyond", "admit_all: beyond"], assumptions=["known"])
    flat = " ".join(text.split())
    assert "admit_all: first audible stall while the engine's waiting gauge read 0" in flat
    assert "admit_all: the p99 chunk gap had crossed its alarm 74 s before" in flat
    assert "slack: no audible stall" in flat
    assert "slack keeps 75.0% of all offered calls CLEAN, admit_all (baseline) 46.4%" in flat
    assert "warning: slack, admit_all: beyond" in flat
    assert "assumed: known" in flat
    assert "warning" not in report(SUMMARY)


def test_rare_things_are_said_only_when_they_happen():
    text = report(SUMMARY)
    assert "failed" not in text and "preemptions" not in text and "cost" not in text
    text = report({"a": metrics(failed=3.0, preemptions=12.0, not_measured=40.0, gpu_cost=14.1,
                                cost_per_1000_clean_calls=0.1706)})  # fmt: skip
    for line in ("failed", " 3 ", "a 12", "a 40", "a 0.17"):
        assert line in text


def test_names_are_text_not_markup():
    text = report({"[bold]x[/bold]": quiet(), "n" * 60: quiet()}, title="[red]peak[/red]")
    assert "[bold]x[/bold]" in text and "[red]peak[/red]" in text
    assert "n" * 24 in text and max(map(len, text.splitlines())) <= 120


def test_colours_only_on_a_terminal():
    assert "\x1b" not in report(SUMMARY)
    file = io.StringIO()
    console = Console(file=file, width=120, force_terminal=True, color_system="standard",
                      no_color=False, _environ={})  # fmt: skip
    print_report(SUMMARY, context(), console)
    assert "\x1b[" in file.getvalue()


def test_a_terminal_without_unicode():
    text = report({"a": metrics(0.01)}, encoding="ascii", replications=2)
    assert "+-0.5" in text
