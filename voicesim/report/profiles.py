"""The ``profiles`` command: what ships, and the catalogue that priors are drawn from."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from voicesim.catalogue import GPUS, MODELS
from voicesim.catalogue.profiles import folder
from voicesim.engine.profile import Profile, load_profile
from voicesim.report.studies import DONE, attempt, hand_over


def profiles_command(as_json: bool = False, quiet: bool = False) -> int:
    """Print the lists; returns the exit code."""
    found = attempt(lambda: [(f, load_profile(f)) for f in sorted(folder().glob("*.yaml"))])
    if isinstance(found, int):
        return found
    hand_over(lambda console: _print(found, console), lambda: as_data(found), "", folder(),
              as_json, quiet)  # fmt: skip
    return DONE


def as_data(found: Sequence[tuple[Path, Profile]]) -> dict[str, Any]:
    """Profiles, cards and models: the fields of their files (seconds, bytes, per second)."""
    rows = [
        {
            "name": file.stem, "file": str(file), "form": profile.form,
            "model": profile.about and profile.about.model,
            "gpu": profile.about and profile.about.gpu,
            "streams": profile.range and list(profile.range.batch),
            "held_out_error": _error(profile),
            "sources": [s.where or s.file for s in profile.sources],
        }
        for file, profile in found
    ]  # fmt: skip
    return {
        "profiles": rows,
        "cards": [_plain(gpu) for gpu in GPUS.values()],
        "models": [_plain(model) for model in MODELS.values()],
    }


def _plain(row: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(row).items() if not name.startswith("_")}


def _print(found: Sequence[tuple[Path, Profile]], console: Console) -> None:
    table = Table(
        title=f"profiles in {folder()}", box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left"
    )
    for name in ("name", "model", "gpu", "form"):
        table.add_column(name, no_wrap=True)
    for name in ("streams", "held-out error"):
        table.add_column(name, justify="right")
    for file, profile in found:
        about, error = profile.about, _error(profile)
        table.add_row(
            file.stem, (about and about.model) or "-", (about and about.gpu) or "-", profile.form,
            _range(profile), "n/a" if error is None else f"{error:.0%}",
        )  # fmt: skip
    console.print(table)
    console.print("sources:")
    for file, profile in found:
        console.print(f"  {file.stem}: {_source(profile)}", soft_wrap=True, highlight=False)
    console.print()
    console.print(_gpus())
    console.print(_models())


def _range(profile: Profile) -> str:
    if profile.range is None:
        return "not measured"
    low, high = profile.range.batch
    return f"{low:g} to {high:g}"


def _error(profile: Profile) -> float | None:
    """Mean of the errors at what a fit had not seen: step times, or published figures."""
    if profile.fit is None:
        return None
    errors = [abs(p.error) for p in profile.fit.points if p.held_out]
    errors = errors or [abs(h.error) for h in profile.fit.held_out]
    return sum(errors) / len(errors) if errors else None


def _source(profile: Profile) -> str:
    return ", ".join(s.where or s.file for s in profile.sources)


def _gpus() -> Table:
    table = Table(title="cards (gpu=)", box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for name in ("name", "GB", "GB/s", "bf16 TFLOPS", "USD/h", "confidence"):
        table.add_column(name, justify="left" if name in ("name", "confidence") else "right")
    for gpu in GPUS.values():
        table.add_row(
            gpu.name, _show(gpu.memory_bytes, 1e9), _show(gpu.bytes_per_s, 1e9),
            _show(gpu.bf16, 1e12), _show(gpu.price, 1, ".2f"), gpu.confidence,
        )  # fmt: skip
    return table


def _models() -> Table:
    table = Table(
        title="models (model=)", box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left"
    )
    for name in ("name", "kind", "parameters", "KV bytes/token", "ms audio/step", "confidence"):
        text = name in ("name", "kind", "confidence")
        table.add_column(name, justify="left" if text else "right")
    for model in MODELS.values():
        size = f"{model.parameters / 1e9:.3g}B" if model.parameters else "n/a"
        if model.active_parameters and model.active_parameters != model.parameters:
            size += f" ({model.active_parameters / 1e9:.3g}B active)"
        table.add_row(
            model.name, model.kind, size, _show(model.kv_bytes_per_token, 1, ",.0f"),
            _show(model.token_audio_s, 1e-3, ".3g"), model.confidence,
        )  # fmt: skip
    return table


def _show(value: float | None, unit: float, form: str = ",.4g") -> str:
    return "n/a" if value is None else format(value / unit, form)
