"""A profile: everything that is known about how fast one engine runs one model, as a YAML file.

A profile has one of three forms, which all answer the same question, "how long does a step take":

- ``fitted``: the step-cost form of ``voicesim.engine.cost`` with parameters fitted to measurements;
- ``table``: measured batches, joined by a curve that never falls, plus a linear KV term;
- ``roofline``: the form of ``fitted`` with parameters taken from data sheets (a prior).

Every number carries its interval and where it came from.  Units are in the names: ``_s`` seconds,
``_bytes`` bytes.  What a step holds is counted as follows (:class:`StepLoad`):

- tokens: decoding streams plus prompt tokens of this step;
- KV tokens read: the contexts of the decoding streams, and of a prompt chunk the tokens that
  came before it plus its own;
- query-key pairs: the contexts of the decoding streams, and p * (s + (p + 1) / 2) for p prompt
  tokens that follow s tokens already computed;
- streams: decoding streams, and one for each prompt in the step.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from scipy.interpolate import PchipInterpolator

from voicesim import schemas
from voicesim.engine import cost

SCHEMA = schemas.current("profile")

Origin = Literal["measured", "fitted", "prior", "assumed"]


BEGINS = f"a profile begins with `schema: {SCHEMA}`"


class ProfileError(ValueError):
    """A profile file that cannot be used, on one line.

    key: dotted, empty for the file as a whole.  found, allowed: in words, what stands there and
    what may stand there.  line: where known.
    """

    def __init__(self, file: str, key: str, found: str, allowed: str, line: int | None = None):
        self.file, self.key, self.found, self.allowed, self.line = file, key, found, allowed, line
        where = file if line is None else f"{file}:{line}"
        what = "; ".join(part for part in (found, allowed) if part)
        super().__init__(f"{where}: {key}: {what}" if key else f"{where}: {what}")

    def __reduce__(self) -> Any:
        """Survive the way back from a worker process."""
        return type(self), (self.file, self.key, self.found, self.allowed, self.line)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Quantity(_Model):
    """One number, its interval (5 % to 95 %, or null where unknown) and its origin.

    measured: read off the data as it stands.  fitted: estimated from the data.  prior: from data
    sheets or a paper.  assumed: the data cannot tell, and a plain choice (mostly 0) was made.
    """

    value: float
    low: float | None = None
    high: float | None = None
    origin: Origin = "assumed"


def _zero() -> Quantity:
    return Quantity(value=0.0)


class DecodeCost(_Model):
    """The step cost (see ``voicesim.engine.cost`` for the formula).

    compute_s, compute_per_token_s: the compute line over the tokens of a step.
    prefill_per_token_s: the line's slope above ``prefill_from_tokens`` tokens, where only prompts
    reach.  Null: one slope for all tokens.  The kernel sees a step's total of tokens, so a prompt
    token and a decoding stream cost the same compute below that bound.
    table: [[tokens, seconds], ...] of the form ``table``; it stands in place of the line.
    capture_sizes: CUDA graph sizes; a step is padded up to the next one.
    """

    norm: Literal[1, 2, 4, 8, "inf"] = 1
    memory_s: Quantity = Field(default_factory=_zero)
    memory_per_kv_token_s: Quantity = Field(default_factory=_zero)
    compute_s: Quantity = Field(default_factory=_zero)
    compute_per_token_s: Quantity = Field(default_factory=_zero)
    prefill_per_token_s: Quantity | None = None
    prefill_from_tokens: int | None = Field(default=None, ge=0)
    attention_s: Quantity = Field(default_factory=_zero)
    host_s: Quantity = Field(default_factory=_zero)
    host_per_stream_s: Quantity = Field(default_factory=_zero)
    host_per_chunk_s: Quantity = Field(default_factory=_zero)
    sync_s: Quantity = Field(default_factory=_zero)
    scheduling: Literal["synchronous", "overlapped"] = "synchronous"
    capture_sizes: list[int] | None = None
    table: list[tuple[float, float]] | None = None


class CodecCost(_Model):
    """Codec (vocoder) batch alone on the GPU: floor + per row + per frame, seconds."""

    floor_s: Quantity
    per_row_s: Quantity
    per_frame_s: Quantity


class Sharing(_Model):
    """How many times longer each stage takes while the other runs on the same GPU (>= 1)."""

    decode_slowdown: Quantity = Field(default_factory=lambda: Quantity(value=1.0))
    codec_slowdown: Quantity = Field(default_factory=lambda: Quantity(value=1.0))


class Noise(_Model):
    """Measured over predicted step time: 101 quantiles, 0 % to 100 %, of mean 1."""

    quantiles: list[float] = Field(min_length=101, max_length=101)

    @model_validator(mode="after")
    def _sorted(self) -> Noise:
        if self.quantiles[0] < 0 or any(np.diff(self.quantiles) < 0):
            raise ValueError("quantiles must not fall and must not be negative")
        return self


class Range(_Model):
    """What was measured; outside it a result is an extrapolation and must say so."""

    batch: tuple[float, float]
    context_tokens: tuple[float, float]
    prefill_tokens: tuple[float, float]


class Memory(_Model):
    """GPU memory: weights, one token of KV cache, and the rest (activations, graphs, codec)."""

    weight_bytes: Quantity
    kv_bytes_per_token: Quantity
    overhead_bytes: Quantity


class HeldOut(_Model):
    """One measured level beside its prediction: seconds; error = predicted/measured - 1.

    Of the median step where many were measured.
    """

    level: str
    measured_s: float
    predicted_s: float
    error: float


class Point(_Model):
    """One published figure beside what the simulator says of it.

    load: requests in flight, or per second in an open loop.  measured, predicted: SI units.
    held_out: predicted by a fit that saw no figure of this load; else by the profile as it is.
    """

    run: str | None = None
    load: float
    metric: str
    stat: str
    held_out: bool
    measured: float
    predicted: float
    error: float


class FitReport(_Model):
    """How the profile was made: errors, the choice of form, and what the data cannot tell.

    held_out: levels left out of the fit one at a time.  anchors: measured points against the
    final profile.  knee: the batch at which compute takes as long as reading memory, null where
    the data do not place it.  points: published figures against simulated runs.  run_spread:
    standard deviation of the runs' mean speed, as a share.
    """

    why: str
    knee: Quantity | None = None
    held_out: list[HeldOut] = []
    anchors: list[HeldOut] = []
    points: list[Point] = []
    compared: dict[str, float] = {}
    run_spread: float | None = None
    unidentified: list[str] = []


class PlayedAs(_Model):
    """How the load of a published ladder was asked, so that its profile is played alike.

    load: closed, burst or poisson.  reply_audio_s, reply_tokens: mean of a reply (tokens: of
    text).  chunks: tokens of the first chunk, the ramp and the steady one, null where replies came
    whole; of several settings the first that streams.  The others as in ``rung.Load``.
    """

    load: Literal["closed", "burst", "poisson"]
    reply_audio_s: float | None = Field(default=None, gt=0)
    reply_tokens: float | None = Field(default=None, gt=0)
    prompt_tokens: int | None = Field(default=None, ge=1)
    chunks: list[int] | None = None
    codec_cap: int | None = Field(default=None, ge=1)
    codec_queue: Literal["fifo", "window", "edf"] = "fifo"
    codec_window: int = Field(default=0, ge=0)
    left_context: int = Field(default=0, ge=0)
    step_tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> PlayedAs:
        if self.chunks is not None and min(self.chunks, default=0) < 1:
            raise ValueError("played.chunks must be tokens from 1 on, such as [4, 8, 25]")
        if (self.codec_queue == "window") != (self.codec_window > 0):
            raise ValueError("played.codec_window goes with codec_queue: window, and only with it")
        return self


class About(_Model):
    """What was measured: catalogue names of model and card, the serving stack, its version."""

    model: str | None = None
    gpu: str | None = None
    stack: str | None = None
    version: str | None = None


class Source(_Model):
    """A file that was read: its name, rows used, where it was measured or published, when."""

    file: str
    rows: int
    where: str | None = None
    date: str | None = None


@dataclass(frozen=True)
class StepLoad:
    """What one step holds (definitions above)."""

    tokens: float
    kv_read: float
    pairs: float
    streams: float


def step_load(batch: float, context: float, prefill_tokens: float = 0.0) -> StepLoad:
    """Load of ``batch`` streams at a mean context (tokens) and one fresh prompt (tokens)."""
    p = prefill_tokens
    return StepLoad(
        tokens=batch + p,
        kv_read=batch * context + p,
        pairs=batch * context + p * (p + 1) / 2,
        streams=batch + (1.0 if p > 0 else 0.0),
    )


def padded_tokens(tokens: np.ndarray, capture_sizes: list[int] | None) -> np.ndarray:
    """Tokens after padding up to the next capture size; unpadded above the largest."""
    if not capture_sizes:
        return tokens
    sizes = np.array(sorted(capture_sizes), dtype=np.float64)
    at = np.searchsorted(sizes, tokens, side="left")
    return np.where(at < len(sizes), sizes[np.minimum(at, len(sizes) - 1)], tokens)


class Profile(_Model):
    """One engine running one model on one kind of GPU.

    token_audio_s: seconds of audio that one decode step adds to each of its streams.
    request_s: what a request takes outside engine and codec (network stack, text processing),
    whatever the load; it comes before the first audio.
    played: how a published ladder was asked; what ``voicesim ladder`` plays unless told otherwise.
    """

    schema_: Literal["voicesim-profile/1"] = Field(default=SCHEMA, alias="schema")  # type: ignore[arg-type]
    name: str
    about: About | None = None
    form: Literal["fitted", "table", "roofline"]
    token_audio_s: float | None = Field(default=None, gt=0)
    request_s: Quantity | None = None
    notes: list[str] = []
    decode: DecodeCost
    codec: CodecCost | None = None
    sharing: Sharing = Field(default_factory=Sharing)
    noise: Noise | None = None
    range: Range | None = None
    memory: Memory | None = None
    played: PlayedAs | None = None
    fit: FitReport | None = None
    sources: list[Source] = []

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, populate_by_name=True)

    @model_validator(mode="after")
    def _consistent(self) -> Profile:
        table = self.decode.table
        if (self.form == "table") != (table is not None):
            raise ValueError("decode.table goes with form: table, and only with it")
        if table is not None:
            if not table:
                raise ValueError("decode.table is empty")
            tokens, seconds = np.array(table, dtype=float).T
            if any(np.diff(tokens) <= 0) or any(np.diff(seconds) < 0) or seconds[0] <= 0:
                raise ValueError("decode.table must rise in tokens and never fall in seconds")
        if min(self.sharing.decode_slowdown.value, self.sharing.codec_slowdown.value) < 1:
            raise ValueError("sharing slowdowns must be at least 1")
        return self

    def step_cost(
        self,
        max_tokens: int,
        capture_sizes: list[int] | None = None,
        scheduling: str | None = None,
    ) -> cost.StepCost:
        """Parameters and compute table for the kernel.

        capture_sizes and scheduling override the profile's own when not None ([] = no graphs).
        """
        d = self.decode
        sizes = d.capture_sizes if capture_sizes is None else capture_sizes
        mode = scheduling or d.scheduling
        if mode not in ("synchronous", "overlapped"):
            raise ValueError(f"scheduling: {mode!r}; allowed: synchronous, overlapped")
        table_form = d.table is not None
        params = np.zeros(cost.N_STEP_PARAMS)
        params[cost.MEMORY] = 0.0 if table_form else d.memory_s.value
        params[cost.MEMORY_PER_KV] = d.memory_per_kv_token_s.value
        params[cost.ATTENTION] = d.attention_s.value
        params[cost.NORM] = 1.0 if table_form else (0.0 if d.norm == "inf" else float(d.norm))
        params[cost.HOST] = d.host_s.value
        params[cost.HOST_PER_STREAM] = d.host_per_stream_s.value
        params[cost.HOST_PER_CHUNK] = d.host_per_chunk_s.value
        params[cost.SYNC] = d.sync_s.value
        params[cost.OVERLAP] = 1.0 if mode == "overlapped" else 0.0
        tokens = padded_tokens(np.arange(max_tokens + 1, dtype=np.float64), sizes)
        return cost.StepCost(params=params, compute_s=self.compute_seconds(tokens))

    def compute_seconds(self, tokens: np.ndarray) -> np.ndarray:
        """Compute seconds (before attention) of steps with these numbers of tokens."""
        d = self.decode
        knee = np.inf if d.prefill_from_tokens is None else float(d.prefill_from_tokens)
        steep = d.prefill_per_token_s.value if d.prefill_per_token_s else None
        low = tokens if steep is None else np.minimum(tokens, knee)
        if d.table is None:
            seconds = d.compute_s.value + d.compute_per_token_s.value * low
        else:
            seconds = interpolate_table(d.table, low)
        if steep is not None:
            seconds = seconds + steep * np.maximum(tokens - knee, 0.0)
        return np.asarray(seconds, dtype=np.float64)

    def codec_cost(self, override: dict[str, float] | None = None) -> np.ndarray:
        """float64[3] of the codec batch (floor, per row, per frame); ``override`` replaces some.

        override: {floor_s, per_row_s, per_frame_s}, seconds, any of them.
        """
        names = ("floor_s", "per_row_s", "per_frame_s")
        given = dict(override or {})
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise ValueError(f"codec: {unknown[0]!r}; allowed: {', '.join(names)}")
        if self.codec is None and len(given) < 3:
            raise ValueError(f"profile {self.name!r} has no codec cost; give {', '.join(names)}")
        own = {n: getattr(self.codec, n).value for n in names} if self.codec else {}
        return np.array([float(given.get(n, own.get(n, 0.0))) for n in names])

    def noise_table(self, n: int = 4096) -> np.ndarray:
        """Sorted inverse distribution of step noise at n mid-points, mean 1 (ones if unknown)."""
        if self.noise is None:
            return np.ones(n)
        at = (np.arange(n) + 0.5) / n
        values = np.interp(at, np.linspace(0.0, 1.0, 101), np.array(self.noise.quantiles))
        return values / values.mean()

    def predict(self, batch: float, context: float, prefill_tokens: float = 0.0) -> float:
        """Seconds of one step: ``batch`` streams at a mean context (tokens), one fresh prompt."""
        load = step_load(batch, context, prefill_tokens)
        return float(self.predict_loads(*(np.array([v]) for v in vars(load).values()))[0])

    def predict_loads(
        self, tokens: np.ndarray, kv_read: np.ndarray, pairs: np.ndarray, streams: np.ndarray
    ) -> np.ndarray:
        """Seconds of many steps, with the kernel's own arithmetic (loads need not be whole)."""
        params = self.step_cost(0).params
        compute = self.compute_seconds(padded_tokens(tokens, self.decode.capture_sizes))
        out = np.empty(len(tokens))
        for i in range(len(tokens)):
            gpu = cost.gpu_seconds(params, compute[i], kv_read[i], pairs[i])
            host = cost.host_seconds(params, streams[i], 0.0)
            out[i] = cost.step_seconds(params, gpu, host)
        return out


def interpolate_table(table: list[tuple[float, float]], tokens: np.ndarray) -> np.ndarray:
    """Monotone (PCHIP) interpolation; flat below the first point, last slope above the last."""
    x, y = np.array(table, dtype=float).T
    if len(x) == 1:
        return np.full(np.shape(tokens), y[0])
    slope = (y[-1] - y[-2]) / (x[-1] - x[-2])
    inside = PchipInterpolator(x, y)(np.clip(tokens, x[0], x[-1]))
    return inside + slope * np.maximum(tokens - x[-1], 0.0)


def load_profile(path: str | Path) -> Profile:
    """Read and check a profile; raises :class:`ProfileError` for the first thing wrong."""
    file = str(path)
    data = _read(Path(path), file)
    if not isinstance(data, dict):
        found = "is empty" if data is None else f"holds {_shown(data, text='plain text')}"
        raise ProfileError(file, "", found, BEGINS)
    if "schema" not in data:
        if "decode" in data:
            raise ProfileError(file, "schema", "is missing", BEGINS)
        what = "looks like a scenario" if {"cluster", "workload"} & set(data) else "is no profile"
        keys = _list(list(data)[:6]) + (", ..." if len(data) > 6 else "")
        raise ProfileError(file, "", f"{what} (its keys: {keys})", BEGINS)
    try:
        newer = schemas.understood(data["schema"], "profile")
    except schemas.SchemaError as error:
        raise ProfileError(file, "schema", "", str(error)) from None
    try:
        return Profile.model_validate({**data, "schema": SCHEMA})
    except ValidationError as error:
        problems = error.errors()
        unknown = [each for each in problems if each["type"] == "extra_forbidden"]
        key, found, allowed = _explain((unknown or problems)[0])
        allowed += f" ({newer})" if newer else ""
        raise ProfileError(file, key, found, allowed) from error


def _read(path: Path, file: str) -> Any:
    """What a YAML file holds."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ProfileError(file, "", "is no file (a device or a pipe)", BEGINS)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except IsADirectoryError as error:
        raise ProfileError(file, "", "is a folder, not a file", BEGINS) from error
    except OSError as error:
        raise ProfileError(file, "", f"cannot be read: {error.strerror}", "") from error
    except UnicodeDecodeError as error:
        raise ProfileError(file, "", "is not text (a binary or packed file?)", BEGINS) from error
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        rest = "\n".join(text.split("\n")[mark.line :])[mark.column :] if mark else text
        if rest.strip():
            what = " ".join((error.problem or error.context or "cannot be read").split())
            what = f"{error.context}, {what}" if what.startswith("but ") else what
            raise ProfileError(file, "", f"is not valid YAML: {what}", "", line) from error
        last = max(1, len(text.rstrip().split("\n")))
        found = "ends in the middle of a value: is the file cut off?"
        raise ProfileError(file, "", found, "", last) from error
    except yaml.reader.ReaderError as error:
        found = "holds characters that are not text (a binary file?)"
        line = text[: error.position].count("\n") + 1
        raise ProfileError(file, "", found, BEGINS, line) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split())[:200]
        raise ProfileError(file, "", f"is not valid YAML: {what}", BEGINS) from error


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile as YAML."""
    Path(path).write_text(dump_profile(profile), encoding="utf-8")


def dump_profile(profile: Profile) -> str:
    """The profile as YAML text; loading it gives the same profile back."""
    data = profile.model_dump(mode="json", by_alias=True)
    young = [(data, key) for key in ("about", "request_s", "played")]
    for part, key in (*young, (data["fit"] or {}, "points")):
        if not part.get(key, True):  # young keys: files without them stay as they are
            del part[key]
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Block style, but small leaves (a quantity, a point, a pair of numbers) on one line."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: Any = None) -> Any:
        flow = isinstance(mapping, dict) and bool({"origin", "stat"} & set(mapping))
        return super().represent_mapping(tag, mapping, flow_style=flow)

    def represent_sequence(self, tag: str, sequence: Any, flow_style: Any = None) -> Any:
        flow = all(isinstance(item, int | float) for item in sequence)
        return super().represent_sequence(tag, sequence, flow_style=flow)


def _explain(problem: Any) -> tuple[str, str, str]:
    """Key, what was found and what is allowed, in words, of one thing that pydantic found."""
    loc, kind, context = problem["loc"], problem["type"], problem.get("ctx", {})
    key = ".".join(str(part) for part in loc)
    if kind in ("extra_forbidden", "invalid_key"):
        return key, "unknown key", _choices(str(loc[-1]), _names(_type_at(loc[:-1])))
    if kind == "value_error":
        return key, "", str(context["error"])
    expected = _type_at(loc)
    if kind == "missing":
        return key, "is missing", f"needed: {_words(expected)}"
    value = problem["input"]
    found = f"found {_shown(value)}"
    if kind == "literal_error":
        return key, found, _choices(str(value), [str(each) for each in get_args(_bare(expected))])
    limit, name = _LIMITS.get(kind, ("", ""))
    if name.endswith("length"):
        found += f" of {len(value)}"
    return key, found, f"allowed: {_words(expected, limit.format(context.get(name)))}"


_LIMITS = {
    "greater_than": (" above {:g}", "gt"),
    "greater_than_equal": (" of at least {:g}", "ge"),
    "too_short": (" with {} entries", "min_length"),
    "too_long": (" with {} entries", "max_length"),
}


def _choices(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name[:100], names, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}allowed: {', '.join(names)}"


def _names(kind: Any) -> list[str]:
    kind = _bare(kind)
    if not isinstance(kind, type) or not issubclass(kind, BaseModel):
        return []
    return [field.alias or name for name, field in kind.model_fields.items()]


def _bare(kind: Any) -> Any:
    """A type without ``| None``."""
    rest = [each for each in get_args(kind) if each is not type(None)]
    return rest[0] if get_origin(kind) in (Union, types.UnionType) and len(rest) == 1 else kind


def _type_at(loc: Iterable[int | str]) -> Any:
    """The type at a place in the file, None where it is not known."""
    kind: Any = Profile
    for part in loc:
        kind = _bare(kind)
        if get_origin(kind) is list:
            kind = get_args(kind)[0]
        elif get_origin(kind) is tuple and isinstance(part, int):
            kind = get_args(kind)[min(part, len(get_args(kind)) - 1)]
        elif get_origin(kind) is dict:
            kind = get_args(kind)[1]
        else:
            fields = getattr(kind, "model_fields", {})
            by_key = {field.alias or name: field.annotation for name, field in fields.items()}
            kind = by_key.get(str(part))
    return kind


def _words(kind: Any, limit: str = "") -> str:
    """A type in words, with what more is asked of it."""
    kind, none = _bare(kind), limit + (" or null" if type(None) in get_args(kind) else "")
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(map(str, inner)) + none
    if origin is list:
        return f"a list{none}, each {_words(inner[0])}"
    if origin is tuple:
        return f"a list of {len(inner)} numbers"
    names = _names(kind)
    if names:
        return f"a mapping with the keys {', '.join(names)}{none}"
    plain = {float: "a finite number", int: "a whole number", str: "text", dict: "a mapping"}
    return plain.get(origin or kind, "something else") + none


def _shown(value: Any, text: str = "") -> str:
    """A value as the reader wrote it, cut short.  text: what to call a string instead."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    if text and isinstance(value, str):
        return text
    try:
        shown = repr(value) if isinstance(value, str) else str(value)
    except ValueError:  # an integer too long to print
        return "a very long number"
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _list(names: Iterable[Any]) -> str:
    return ", ".join(_shown(str(name)).strip("'\"") for name in names)
