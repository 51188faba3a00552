"""The ladder of degradation: what callers get instead of a refusal when a pool fills up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from .cluster import Pool
from .dialogue import Dialogue
from .errors import Path, shown, unknown, wrong
from .part import Part
from .units import Duration, Fraction, Natural, PositiveDuration, UpTo100K, real

MOST_RUNGS = 31
SIGNALS = ("streams", "waiting", "chunk_gap_p99", "lag")

Number = Annotated[
    float, BeforeValidator(real(0)), WithJsonSchema({"type": "number", "minimum": 0})
]


def _name(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9][\w -]{0,63}", value):
        raise wrong(f"expected letters, digits, spaces, - and _; found {shown(value)}")
    return value


class Thresholds(Part):
    """Up at one value, down again at a lower one."""

    above: Number = Field(description="At this value or more the pool goes up to the rung.")
    below: Number = Field(description="At this value or less it may leave the rung.")


class When(Part):
    """Signals of which any one is enough to climb; to leave the rung all must be calm."""

    streams: Thresholds | None = Field(
        default=None, description="Live streams per open replica; default none: not looked at."
    )
    waiting: Thresholds | None = Field(
        default=None,
        description="Largest num_requests_waiting of a replica; default none: not looked at.",
    )
    chunk_gap_p99: Thresholds | None = Field(
        default=None,
        description="99 % point of gap / audio of the chunk before, over `window`; default none: "
        "not looked at.",
    )
    lag: Thresholds | None = Field(
        default=None,
        description="Largest codec lag of a replica (s); default none: not looked at.",
    )


class Chunks(Part):
    """Sizes of chunks at a rung, in frames; what is not given stays as below it."""

    first: UpTo100K | None = Field(default=None, description="First chunk; default as below.")
    ramp: list[UpTo100K] | None = Field(
        default=None, description="Chunks after it; default as below."
    )
    steady: UpTo100K | None = Field(
        default=None, description="Every later chunk; default as below."
    )


class QualityCost(Part):
    """What an utterance loses at this rung: your own numbers, carried to the report.  The model
    does not use them."""

    mos: Number = Field(default=0.0, description="Points of mean opinion score; default 0.")
    wer: Number = Field(default=0.0, description="Added word error rate; default 0.")
    words: Number = Field(default=0.0, description="Words left unsaid; default 0.")


class RungOfLadder(Part):
    """A step down in quality.  It keeps what the rungs below it have changed."""

    name: Annotated[str, BeforeValidator(_name), WithJsonSchema({"type": "string"})] = Field(
        description="What the report calls it: letters, digits, spaces, - and _."
    )
    when: When = Field(description="When the pool goes up to it.")
    chunk: Chunks | None = Field(
        default=None, description="Larger chunks; default as at the rung below."
    )
    codec_work: Fraction | None = Field(
        default=None,
        description="Codec seconds per frame, as a share of the whole (fewer codebooks or flow "
        "steps), 0 to 1; default as at the rung below.",
    )
    pool: str | None = Field(
        default=None,
        description="The pool that serves instead (a smaller model), if it serves such callers; "
        "default as at the rung below.",
    )
    prompt_fewer: Natural | None = Field(
        default=None,
        description="Prompt tokens less (no cloned voice); default as at the rung below.",
    )
    speech: Fraction | None = Field(
        default=None,
        description="Share of each reply that is spoken, 0 to 1; default as at the rung below.",
    )
    then: Literal["text", "filler", "refuse"] | None = Field(
        default=None,
        description="Nobody new is served: text at once, a filler at once, or a refusal; default "
        "none: served.",
    )
    filler: PositiveDuration | None = Field(
        default=None, description="Length of the filler (s), needed with it; default none."
    )
    hold: Duration | None = Field(
        default=None, description="Calm time before the pool leaves it (s); default the ladder's."
    )
    cost: QualityCost = Field(default=QualityCost(), description="What it costs; default nothing.")


class FirstAudio(Part):
    """What a caller hears who has waited too long for the first sound."""

    within: PositiveDuration = Field(description="Silence after which it begins (s).")
    then: Literal["filler"] = Field(
        default="filler",
        description="A filler sounds, and patience counts from its end; default filler.",
    )
    filler: PositiveDuration = Field(default=1.0, description="Its length (s); default 1s.")


class Degradation(Part):
    """Rungs in the order in which they are climbed, one at a time."""

    ladder: list[RungOfLadder] = Field(
        default_factory=list, description="Rungs, the least missed first; default none."
    )
    every: PositiveDuration = Field(
        default=1.0, description="How often each pool's signals are looked at (s); default 1s."
    )
    window: PositiveDuration = Field(
        default=10.0, description="Time over which chunk_gap_p99 is taken (s); default 10s."
    )
    hold: Duration = Field(
        default=30.0, description="Calm time before a pool leaves a rung (s); default 30s."
    )
    first_audio: FirstAudio | None = Field(
        default=None, description="When the first sound is late; default none: silence."
    )


# --- what is wrong with it --------------------------------------------------------------------

_SERVING = ("chunk", "codec_work", "pool", "prompt_fewer", "speech")


def degradation(s: Any) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for what is wrong with the ladder of a scenario."""
    given, at = s.policies.degradation, ("policies", "degradation")
    if not isinstance(given, Degradation):
        return
    if isinstance(s.workload, Dialogue):
        yield at, "never used: only utterances (workload.kind tts) have a ladder"
        return
    if not given.ladder and given.first_audio is None:
        yield at, "needs a ladder, first_audio, or both"
    if not given.ladder:
        for knob in ("every", "window", "hold"):
            if knob in given.model_fields_set:
                yield (*at, knob), "never used: there is no ladder"
    gaps = any(r.when.chunk_gap_p99 for r in given.ladder)
    if given.ladder and "window" in given.model_fields_set and not gaps:
        yield (*at, "window"), "never used: no rung looks at chunk_gap_p99"
    pools = s.cluster.pools if isinstance(s.cluster.pools, dict) else {}
    pools = {name: pool for name, pool in pools.items() if isinstance(pool, Pool)}
    if (rungs := len(list(given.ladder))) > MOST_RUNGS:
        yield (*at, "ladder"), f"has {rungs} rungs; {MOST_RUNGS} at most"
    nobody = ""
    names = ["as it is", *(rung.name for rung in given.ladder)]
    for i, rung in enumerate(given.ladder):
        where: Path = (*at, "ladder", i)
        if rung.name in names[: i + 1]:
            yield (*where, "name"), f"{rung.name!r} is the name of a rung below it"
        yield from _when(where, rung)
        yield from _rung(where, rung, s, pools)
        if nobody and rung.then is None:
            yield where, f"never used: {nobody!r} below it serves nobody"
        nobody = nobody or (rung.name if rung.then else "")


def _when(at: Path, rung: RungOfLadder) -> Iterator[tuple[Path, str]]:
    given = {name: getattr(rung.when, name) for name in SIGNALS}
    if not any(given.values()):
        yield (*at, "when"), f"needs at least one of {', '.join(SIGNALS)}"
    for name, levels in given.items():
        if levels is not None and levels.below >= levels.above:
            text = f"must be less than above ({levels.above:g}); found {levels.below:g}"
            yield (*at, "when", name, "below"), text


def _rung(at: Path, rung: RungOfLadder, s: Any, pools: Any) -> Iterator[tuple[Path, str]]:
    serving = [name for name in _SERVING if getattr(rung, name) is not None]
    if not serving and rung.then is None:
        yield at, f"changes nothing; give one of {', '.join((*_SERVING, 'then'))}"
    for name in serving if rung.then is not None else ():
        yield (*at, name), f"never used: then is {rung.then}, so nobody is served"
    if (rung.filler is None) == (rung.then == "filler"):
        text = "needs its length: then is filler" if rung.filler is None else "never used: then"
        yield (*at, "filler"), text if rung.filler is None else f"{text} is not filler"
    if rung.chunk is not None:
        if not rung.chunk.model_fields_set:
            yield (*at, "chunk"), "needs first, ramp or steady"
        for name, pool in pools.items():
            if pool.chunks.shared_state:
                text = f"never used: the ramp of pool {name!r} is shared by its streams"
                yield (*at, "chunk"), text
    if rung.codec_work is not None and all(pool.codec is None for pool in pools.values()):
        yield (*at, "codec_work"), "never used: no pool has a codec"
    if rung.pool is not None:
        if rung.pool not in pools:
            text = unknown(rung.pool, pools, f"unknown pool {shown(rung.pool)}")
            yield (*at, "pool"), text
        elif not s.fleet:
            yield (*at, "pool"), "never used: pools that serve the same callers have no share"
