"""Cards and models by name, from their published figures: gpus.csv and models.csv beside this file.

These are priors: a profile fitted to measurements always wins over them.  ``confidence`` says
where a figure comes from: ``read`` in a published source, ``memory`` not looked up again.  Card
memory is the advertised figure in powers of ten, about 7 % under what an HBM card really has;
``memory:`` in the scenario gives the exact size.
"""

import csv
import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Gpu:
    """One card; None where nothing is known or it means nothing.

    memory_bytes: device memory.  bytes_per_s: of its memory.  bf16, fp8: dense FLOP per second.
    price: typical rent in USD per hour.
    """

    name: str
    title: str
    memory_bytes: int | None
    bytes_per_s: float | None
    bf16: float | None
    fp8: float | None
    price: float | None
    confidence: str
    source: str
    note: str


@dataclass(frozen=True)
class Model:
    """One model; None where it is not published.

    parameters: of the autoregressive part.  active_parameters: those that one token is multiplied
    with, fewer in a mixture of experts.  weights_bytes: them in memory.  overhead_bytes: what
    else the card must hold.  kv_bytes_per_token: keys and values of all layers for one token.
    token_audio_s: audio of one decode step.  sub_steps: sequential passes within a step.
    """

    name: str
    title: str
    kind: str
    parameters: float | None
    active_parameters: float | None
    weights_bytes: int | None
    overhead_bytes: int
    kv_bytes_per_token: int | None
    token_audio_s: float | None
    sub_steps: int | None
    confidence: str
    source: str
    note: str


def _rows(name: str) -> list[dict[str, str]]:
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _number(row: Mapping[str, str], name: str, scale: float = 1.0) -> float | None:
    return float(row[name]) * scale if row[name] else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _gpu(row: Mapping[str, str]) -> Gpu:
    return Gpu(
        name=row["name"],
        title=row["title"],
        memory_bytes=_whole(_number(row, "memory_gb", 1e9)),
        bytes_per_s=_number(row, "bandwidth_gb_s", 1e9),
        bf16=_number(row, "bf16_tflops", 1e12),
        fp8=_number(row, "fp8_tflops", 1e12),
        price=_number(row, "price_usd_per_h"),
        confidence=row["confidence"],
        source=row["source"],
        note=row["note"],
    )


def _model(row: Mapping[str, str]) -> Model:
    size, width = _number(row, "parameters"), _number(row, "bytes_per_parameter")
    layers, heads, head = (_number(row, n) for n in ("layers", "kv_heads", "head_dim"))
    kv = None
    if layers and heads and head and width:
        kv = 2 * layers * heads * head * width  # keys and values
    steps = _number(row, "steps_per_audio_s")
    return Model(
        name=row["name"],
        title=row["title"],
        kind=row["kind"],
        parameters=size,
        active_parameters=_number(row, "active_parameters") or size,
        weights_bytes=_whole(size * width) if size and width else None,
        overhead_bytes=_whole(_number(row, "overhead_gb", 1e9)) or 0,
        kv_bytes_per_token=_whole(kv),
        token_audio_s=1.0 / steps if steps else None,
        sub_steps=_whole(_number(row, "sub_steps")),
        confidence=row["confidence"],
        source=row["source"],
        note=row["note"],
    )


GPUS: dict[str, Gpu] = {row["name"]: _gpu(row) for row in _rows("gpus.csv")}
MODELS: dict[str, Model] = {row["name"]: _model(row) for row in _rows("models.csv")}

WITH_MEMORY = [m.name for m in MODELS.values() if m.weights_bytes and m.kv_bytes_per_token]
"""Models whose weights and KV cache are known: what a scenario may name for its memory."""

_ALIASES = {
    alias: row["name"] for row in _rows("gpus.csv") for alias in row["aliases"].split(";") if alias
}


def find_gpu(name: str) -> Gpu:
    """A card by its name in any case, or a short one (h100).  Raises ValueError, one line."""
    key = name.strip().lower().replace(" ", "-")
    return GPUS[_key("gpu", _ALIASES.get(key, key), name, GPUS)]


def find_model(name: str) -> Model:
    """A model by its name in any case.  Raises ValueError, one line."""
    return MODELS[_key("model", name.strip().lower(), name, MODELS)]


def _key(kind: str, key: str, name: str, known: Collection[str]) -> str:
    if key in known:
        return key
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"{kind}: found {name!r}; {hint}allowed: {', '.join(known)}")
