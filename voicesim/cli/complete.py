"""What the shell offers after a Tab: files by what they hold, names and keys of the scenario.

Each function is asked with the words so far and gives what begins with ``incomplete``.  Nothing
here may fail or print: a shell would show it in the middle of a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import typer

HEAD = 4096  # bytes of a file that tell what it is
MOST = 200  # entries of a folder that are looked into


def scenarios(incomplete: str) -> list[str]:
    """Scenario files, and folders on the way to them."""
    return _paths(incomplete, lambda head: "\ncluster:" in head and "\nworkload:" in head)


def profiles(incomplete: str) -> list[str]:
    """Profiles that ship, by name; profile files, and folders on the way to them."""
    from voicesim.catalogue.profiles import names

    files = _paths(incomplete, lambda head: "\nschema: voicesim-profile" in head)
    return [*_fitting(names(), incomplete), *files]


def folders(incomplete: str) -> list[str]:
    """Folders of runs and studies: those that hold a JSON file; else folders on the way."""
    found = _entries(incomplete or "runs/")
    kept = [f"{shown}" for path, shown in found if path.is_dir() and any(path.glob("*.json"))]
    on_the_way = [f"{shown}/" for path, shown in found if path.is_dir()]
    return kept or on_the_way


def variants(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of the scenario's variants."""
    file = _scenario(ctx)
    return [] if file is None else _fitting(file.variants, incomplete)


def sets(ctx: typer.Context, incomplete: str) -> list[str]:
    """KEY=VALUE as the scenario has it now."""
    return [f"{key}={value}" for key, value in _values(ctx, incomplete) if value is not None]


def varied(ctx: typer.Context, incomplete: str) -> list[str]:
    """KEY=LOW..HIGH of the scenario's numbers: from what it has now to twice as much."""
    numbers = [(k, v) for k, v in _values(ctx, incomplete) if type(v) in (int, float) and v > 0]
    return [f"{key}={value:g}..{2 * value:g}" for key, value in numbers]


def metrics(incomplete: str) -> list[str]:
    """Metrics of a run."""
    from voicesim.metrics.dialogue_glossary import named
    from voicesim.metrics.glossary import ANY, METRICS

    names = (n for n in METRICS | named() if not {*n.split(".")} & {*ANY})
    return _fitting(names, incomplete)


def explained(incomplete: str) -> list[str]:
    """Whatever ``voicesim explain`` explains."""
    from voicesim.calibrate.fields import FIELDS
    from voicesim.scenario.keys import scenario_keys

    keys = dict.fromkeys(key.path for key in scenario_keys())
    return [*_fitting([*keys, *(f"profile.{f}" for f in FIELDS)], incomplete), *metrics(incomplete)]


def cards(incomplete: str) -> list[str]:
    """Cards of the catalogue."""
    from voicesim.catalogue import GPUS

    return _fitting(GPUS, incomplete)


def one_of(*names: str) -> Callable[[str], list[str]]:
    """These."""

    def offer(incomplete: str) -> list[str]:
        return _fitting(names, incomplete)

    return offer


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _scenario(ctx: typer.Context) -> Any:
    """The scenario that the line names so far, None if there is none that can be read."""
    from voicesim.scenario import ScenarioErrors, load

    # an option that waits for its value leaves the words of the line unread, in args
    words = [ctx.params.get("file"), ctx.params.get("scenario"), *ctx.args]
    given = next((w for w in words if w and str(w).endswith((".yaml", ".yml"))), None)
    try:
        return None if given is None else load(Path(given))
    except (ScenarioErrors, OSError, ValueError):
        return None


def _values(ctx: typer.Context, incomplete: str) -> list[tuple[str, Any]]:
    """Keys of the scenario with plain values, as it has them; of no scenario, of any."""
    file = _scenario(ctx)
    if file is not None:
        flat = dict(_flat(file.variants[file.baseline].resolved()))
    else:
        from voicesim.scenario.keys import NAME, scenario_keys

        flat = {k.path: k.example for k in scenario_keys() if k.leaf and NAME not in k.path}
    plain = (bool, int, float, str)
    return [(k, v) for k, v in flat.items() if k.startswith(incomplete) and isinstance(v, plain)]


def _flat(data: dict[str, Any], above: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        elif value != "":
            yield f"{above}{name}", value


def _entries(incomplete: str) -> list[tuple[Path, str]]:
    """What a folder holds that begins so: the path, and it as the user writes it."""
    folder, _, begin = incomplete.rpartition("/")
    place = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".").expanduser()
    try:
        names = sorted(p.name for p in place.iterdir() if p.name.startswith(begin))
    except OSError:
        return []
    prefix = incomplete[: len(incomplete) - len(begin)]
    shown = [n for n in names if not n.startswith(".") or begin.startswith(".")]
    return [(place / name, prefix + name) for name in shown[:MOST]]


def _paths(incomplete: str, told: Callable[[str], bool]) -> list[str]:
    """YAML files whose head tells that they are wanted, and folders."""
    found = []
    for path, shown in _entries(incomplete):
        if path.is_dir():
            found.append(f"{shown}/")
        elif path.suffix in (".yaml", ".yml") and told(_head(path)):
            found.append(shown)
    return found


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return "\n" + file.read(HEAD).decode("utf-8", "replace")
    except OSError:
        return ""
