"""The ``profiles`` command: what ships, and the catalogue that priors are drawn from."""

from pathlib import Path

from rich import box
from rich.table import Table

import voicesim
from voicesim import terminal
from voicesim.catalogue import GPUS, MODELS
from voicesim.engine.profile import Profile, load_profile


def folder() -> Path:
    """Where the profiles lie: in the package once installed, else in the repository."""
    home = Path(voicesim.__file__).parent
    inside = home / "profiles"
    return inside if inside.is_dir() else home.parent / "calibration" / "profiles"


def profiles_command() -> int:
    """Print the lists; returns the exit code."""
    console = terminal.console()
    at = folder()
    found = [(file, load_profile(file)) for file in sorted(at.glob("*.yaml"))]
    table = Table(
        title=f"profiles in {at}", box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left"
    )
    for name in ("name", "model", "gpu", "form"):
        table.add_column(name, no_wrap=True)
    for name in ("streams", "held-out error"):
        table.add_column(name, justify="right")
    for file, profile in found:
        about = profile.about
        table.add_row(
            file.stem, (about and about.model) or "-", (about and about.gpu) or "-", profile.form,
            _range(profile), _error(profile),
        )  # fmt: skip
    console.print(table)
    console.print("sources:")
    for file, profile in found:
        console.print(f"  {file.stem}: {_source(profile)}", soft_wrap=True, highlight=False)
    console.print()
    console.print(_gpus())
    console.print(_models())
    return 0


def _range(profile: Profile) -> str:
    if profile.range is None:
        return "not measured"
    low, high = profile.range.batch
    return f"{low:g} to {high:g}"


def _error(profile: Profile) -> str:
    """Mean of the errors at what a fit had not seen: step times, or published figures."""
    if profile.fit is None:
        return "n/a"
    errors = [abs(p.error) for p in profile.fit.points if p.held_out]
    errors = errors or [abs(h.error) for h in profile.fit.held_out]
    return f"{sum(errors) / len(errors):.0%}" if errors else "n/a"


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
