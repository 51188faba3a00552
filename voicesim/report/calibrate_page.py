"""The page of a profile: how far it may be trusted, its numbers with interval and origin."""

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import voicesim
from voicesim.calibrate.describe import in_ms, knee_words, one_level, quantities
from voicesim.engine.profile import Profile, Quantity
from voicesim.files import write_whole
from voicesim.report import words
from voicesim.report.html.study import study_page
from voicesim.schemas import current


def write_page(path: Path, profile: Profile, files: Sequence[Path], picture: bytes | None) -> None:
    """A page about a profile fitted to ``files``; picture: PNG of points, curve and residuals."""
    data = {
        "schema": current("profile"),
        "name": profile.name,
        "form": profile.form,
        "file": ", ".join(file.name for file in files),
        "voicesim": voicesim.__version__,
    }
    pictures = {} if picture is None else {"What was measured, and what the profile says": picture}
    page = study_page(data, verdict(profile), lambda c: show(profile, c), pictures)
    write_whole(path, page.encode())


def verdict(profile: Profile) -> list[str]:
    """What kind of profile it is and how far off it is; where it was measured."""
    fit = profile.fit
    if profile.form == "roofline":
        found = [f"{profile.name} is a roofline: from data sheets, nothing of it was measured"]
    elif fit is None:
        found = [f"{profile.name} says nothing of how it was fitted"]
    else:
        errors = [abs(h.error) for h in fit.held_out] or [
            abs(p.error) for p in fit.points if p.held_out
        ]
        if errors:
            mean = sum(errors) / len(errors)
            found = [
                f"{profile.name} is {mean:.1%} off on average at the {len(errors)} figures that "
                "its fit had not seen"
            ]
        else:
            found = [f"{profile.name} was held to no figure that its fit had not seen"]
    if profile.range is not None:
        low, high = profile.range.batch
        found.append(
            f"It was measured from batch {low:g} to {high:g} and contexts up to "
            f"{profile.range.context_tokens[1]:.0f} tokens; beyond, everything is extrapolated"
        )
    if fit is not None and fit.knee is not None:
        found.append(f"Compute takes over from memory at {knee_words(fit.knee)}")
    return found


def show(profile: Profile, console: Console) -> None:
    """Parameters, errors, and what is to be known, as a terminal would have them."""
    console.print(_parameters(profile))
    fit = profile.fit
    rows = [] if fit is None else [
        *((h.level, "held out", in_ms(h.measured_s), in_ms(h.predicted_s), h.error)
          for h in fit.held_out),
        *((h.level, "fitted", in_ms(h.measured_s), in_ms(h.predicted_s), h.error)
          for h in fit.anchors),
        *((f"{p.run + ', ' if p.run else ''}{p.load:g}: {p.metric} {p.stat}",
           "held out" if p.held_out else "fitted", f"{p.measured:.4g}", f"{p.predicted:.4g}",
           p.error) for p in fit.points),
    ]  # fmt: skip
    if rows:
        console.print(_errors(rows))
    if fit is not None:
        console.print(Text(f"chosen because: {fit.why}"))
        for text in fit.unidentified:
            console.print(Text(f"the data cannot tell: {text}"))
        if fit.run_spread is not None:
            text = f"runs of one setting differ by {fit.run_spread:.0%} (standard deviation)"
            console.print(Text(text))
    alone = one_level(profile)
    if alone is not None:
        console.print(Text(alone, "yellow"))
    for note in profile.notes:
        if note != alone:
            console.print(Text(note, "yellow" if profile.form == "roofline" else ""))


def _parameters(profile: Profile) -> Table:
    table = Table(title="Parameters", box=box.SIMPLE_HEAD)
    for i, name in enumerate(("parameter", "value", "5 % to 95 %", "origin")):
        table.add_column(name, justify="left" if i in (0, 3) else "right")
    for name, q in quantities(profile):
        table.add_row(name, _value(name, q.value), _interval(name, q), q.origin)
    return table


def _errors(rows: Sequence[tuple[str, str, str, str, float]]) -> Table:
    table = Table(title="Measured against the profile", box=box.SIMPLE_HEAD)
    for i, name in enumerate(("level", "of the fit", "measured", "predicted", "error")):
        table.add_column(name, justify="left" if i < 2 else "right")
    for *cells, error in rows:
        table.add_row(*map(str, cells), f"{float(error):+.1%}")
    return table


def _interval(name: str, q: Quantity) -> str:
    if q.low is None or q.high is None:
        return words.NOT_MEASURED
    return f"{_value(name, q.low)} to {_value(name, q.high)}"


def _value(name: str, value: float) -> str:
    return in_ms(value) if name.endswith("_s") else f"x {value:.3f}"
