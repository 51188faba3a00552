"""A published ladder: what a stack was measured to do at rising load, and how it was asked.

One CSV per model, card, stack and version, never pooled: the same stack moves up to ten-fold
between commits.  Columns: run, load, metric, stat, value, url, note.  Rows without a load, or
with one of the names below in ``metric``, are settings of the run (all runs if it is empty);
the others are figures, each with the page that it stands on.
"""

import csv
import difflib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.prior import Prior
from voicesim.calibrate.readers.source import text_blocks
from voicesim.calibrate.table import header_of
from voicesim.catalogue import find_gpu, find_model
from voicesim.engine.profile import PlayedAs, Profile
from voicesim.experiment.rung import BUDGET, MOST_TOKENS, Load
from voicesim.experiment.served import LOADS, METRICS, STATS

COLUMNS = ["run", "load", "metric", "stat", "value", "url", "note"]
TEXTS = ("model", "gpu", "stack", "version", "load", "rtf", "codec_queue", "chunks", "why")
NUMBERS = (
    "token_audio_s", "reply_audio_s", "reply_tokens", "reply_sigma", "prompt_tokens", "codec_cap",
    "codec_window", "requests", "step_tokens",
)  # fmt: skip
SETTINGS = (*TEXTS, *NUMBERS)
NEEDED = ("model", "gpu", "stack", "version", "load", "chunks", "reply_sigma")
LEAST_LOADS = 4
FIRST = ("ttfa", "ttft", "ttfb")


@dataclass(frozen=True)
class Figure:
    """One published number, SI: requests and audio seconds per second, seconds, shares."""

    run: str
    level: float
    metric: str
    stat: str
    value: float
    url: str
    line: int


@dataclass(frozen=True)
class Ladder:
    """settings: by (run, load as written, name), most general first ("", "")."""

    file: str
    settings: Mapping[tuple[str, str, str], str]
    figures: tuple[Figure, ...]

    @property
    def name(self) -> str:
        return self.file.removesuffix(".csv")

    def setting(self, name: str, run: str = "", level: float | None = None) -> str | None:
        """A setting: of this load, else of the run, else of all."""
        at = "" if level is None else f"{level:g}"
        for key in ((run, at, name), ("", at, name), (run, "", name), ("", "", name)):
            if key in self.settings:
                return self.settings[key]
        return None

    def text(self, name: str) -> str:
        """A setting that is there (checked when the file was read)."""
        return self.setting(name) or ""

    @property
    def kind(self) -> str:
        """closed, burst or poisson."""
        return self.text("load")

    @property
    def free(self) -> list[str]:
        """What a fit may set beside the step, the same rule for all: with a codec its time per
        frame, and per batch if chunks differ in length; with a published first audio the time
        outside the engine; with a prompt length the time of a prompt token."""
        found = []
        if self.setting("codec_cap"):
            found.append("per_frame_s")
            every = {part for (_, _, name), value in self.settings.items() if name == "chunks"
                     for part in value.split(",")}  # fmt: skip
            if len(every) > 1:
                found.append("floor_s")
        if any(f.metric in FIRST for f in self.figures):
            found.append("request_s")
        if float(self.setting("prompt_tokens") or 1) > 1:
            found.append("prefill_per_token_s")
        return found

    @property
    def levels(self) -> list[float]:
        """The loads, rising."""
        return sorted({figure.level for figure in self.figures})

    @property
    def held_out(self) -> list[float]:
        """The loads that a test of the fit leaves out: every second one between the first and the
        last, from the second on; none of a ladder of fewer than four."""
        return self.levels[1:-1:2] if len(self.levels) >= LEAST_LOADS else []

    @property
    def token_audio_s(self) -> float | None:
        """Seconds of audio per decode step; None for text."""
        found = self.setting("token_audio_s")
        return float(found) if found else None

    @property
    def after_first(self) -> bool:
        """Does its RTF leave the first audio out?"""
        return self.setting("rtf") == "after_first"

    @property
    def prior(self) -> Prior | None:
        """What the data sheets say of its model and card; None if no model is named."""
        model, gpu = self.setting("model"), self.setting("gpu")
        return Prior(find_model(model), find_gpu(gpu) if gpu else None) if model else None

    @property
    def played(self) -> PlayedAs:
        """How it was asked, for its profile: of settings that differ by run or load the first;
        of chunks the first that are streamed (the last is not the whole rest of a reply)."""
        first: dict[str, str] = {}
        for (_, _, name), value in self.settings.items():
            rest = name == "chunks" and (value == "all" or int(value.split(",")[-1]) >= MOST_TOKENS)
            if not rest:
                first.setdefault(name, value)
        chunks = first.get("chunks")
        means = ("reply_audio_s", "reply_tokens")
        numbers: dict[str, float] = {name: float(first[name]) for name in means if name in first}
        for name in ("prompt_tokens", "codec_cap", "codec_window", "step_tokens"):
            if name in first:
                numbers[name] = int(float(first[name]))
        return PlayedAs(
            load=self.kind,  # type: ignore[arg-type]
            chunks=None if chunks is None else [int(part) for part in chunks.split(",")],
            codec_queue=first.get("codec_queue", "fifo"),  # type: ignore[arg-type]
            **numbers,  # type: ignore[arg-type]
        )

    @property
    def urls(self) -> list[str]:
        """The pages of the figures, as they come."""
        return list(dict.fromkeys(figure.url for figure in self.figures))

    @property
    def tokens(self) -> float:
        """Mean decode steps of a reply."""
        return self._load_audio() / (self.token_audio_s or 1.0)

    def requests(self, run: str, level: float) -> int:
        """Requests of a closed loop that ends; 0 if it goes on."""
        return int(float(self.setting("requests", run, level) or 0))

    def _load_audio(self) -> float:
        return float(self.setting("reply_audio_s") or self.setting("reply_tokens") or 0)

    def load(self, profile: Profile, run: str, level: float) -> Load:
        """How one run asked at one load.  Text counts as one second a token: its times do not
        depend on it, and no audio figure of it is published."""
        chunks = self.setting("chunks", run, level) or ""
        return Load(
            profile.model_copy(update={"token_audio_s": self.token_audio_s or 1.0}),
            audio=self._load_audio(),
            sigma=float(self.setting("reply_sigma", run) or 0),
            prompt=int(float(self.setting("prompt_tokens", run) or 1)),
            chunks=(MOST_TOKENS,) if chunks == "all" else tuple(map(int, chunks.split(","))),
            codec_cap=int(float(self.setting("codec_cap", run) or 1)),
            codec_queue=self.setting("codec_queue", run) or "fifo",
            codec_window=int(float(self.setting("codec_window", run) or 0)),
            budget=int(float(self.setting("step_tokens", run) or BUDGET)),
        )


def _text(path: Path) -> str:
    return "".join(block for _, block in text_blocks(path))


def is_ladder(path: Path) -> bool:
    """Is it a file of this kind, by its header?"""
    try:
        text = _text(path)
    except CalibrationError:
        return False
    return bool(text.strip()) and header_of(text, path.name) == COLUMNS


def read_ladder(path: Path) -> Ladder:
    """Read and check; CalibrationError with file and line for the first thing wrong."""
    text = _text(path)
    header = header_of(text, path.name)
    if header != COLUMNS:
        raise CalibrationError(
            path.name, 1, f"columns: found {', '.join(header)}; allowed: {', '.join(COLUMNS)}"
        )
    settings: dict[tuple[str, str, str], str] = {}
    figures: list[Figure] = []
    reader = csv.reader(io.StringIO(text))
    next(reader)
    for cells in reader:
        line = reader.line_num
        if len(cells) != len(COLUMNS):
            raise CalibrationError(
                path.name, line, f"row has {len(cells)} of {len(COLUMNS)} fields"
            )
        row = dict(zip(COLUMNS, (cell.strip() for cell in cells), strict=True))
        if not row["url"].startswith("http"):
            raise CalibrationError(path.name, line, f"url: found {row['url']!r}; give its page")
        if row["metric"] in SETTINGS and not row["stat"]:
            settings[row["run"], row["load"], row["metric"]] = _setting(row, path.name, line)
        else:
            figures.append(_figure(row, path.name, line))
    for name in NEEDED:
        if not any(key[2] == name for key in settings):
            raise CalibrationError(path.name, None, f"{name}: is missing")
    if not figures:
        raise CalibrationError(path.name, None, "has settings but no figures")
    return Ladder(path.name, settings, tuple(figures))


def _setting(row: Mapping[str, str], file: str, line: int) -> str:
    name, value = row["metric"], row["value"]
    if name in NUMBERS:
        _number(row, file, line)
    if name in ("model", "gpu"):
        try:
            (find_model if name == "model" else find_gpu)(value)
        except ValueError as problem:
            raise CalibrationError(file, line, str(problem)) from None
    allowed = {"load": LOADS, "codec_queue": ("fifo", "window", "edf"), "rtf": ("after_first",)}
    if name in allowed and value not in allowed[name]:
        _refuse(name, value, allowed[name], file, line)
    if name == "chunks" and value != "all":
        for part in value.split(","):
            if not part.strip().isdigit() or int(part) < 1:
                raise CalibrationError(file, line, f"chunks: found {value!r}; allowed: all, 4,8,25")
    return value


def _figure(row: Mapping[str, str], file: str, line: int) -> Figure:
    if row["metric"] not in METRICS:
        _refuse("metric", row["metric"], METRICS, file, line)
    if row["stat"] not in STATS:
        _refuse("stat", row["stat"], tuple(STATS), file, line)
    level = _number({**row, "metric": "load", "value": row["load"]}, file, line)
    value = _number(row, file, line)
    return Figure(row["run"], level, row["metric"], row["stat"], value, row["url"], line)


def _number(row: Mapping[str, str], file: str, line: int) -> float:
    try:
        value = float(row["value"])
    except ValueError:
        value = float("nan")
    if not 0 <= value < float("inf") or (value == 0 and row["metric"] != "reply_sigma"):
        raise CalibrationError(
            file, line, f"{row['metric']}: found {row['value']!r}; allowed: a number above 0"
        )
    return value


def _refuse(name: str, found: str, allowed: tuple[str, ...], file: str, line: int) -> None:
    near = difflib.get_close_matches(found, allowed, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise CalibrationError(
        file, line, f"{name}: found {found!r}; {hint}allowed: {', '.join(allowed)}"
    )
