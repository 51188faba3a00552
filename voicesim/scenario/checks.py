"""What is wrong between fields that are each fine.

``contradictions`` reads a scenario that may be whole or have ``HOLE`` where a field could not be
read; ``partial`` makes such a scenario.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from .alarms import Alarm, clashes, narrow
from .arrivals import WINDOW, Burst, Closed, Diurnal, Surge, Trace
from .asr import AsrPool
from .cluster import Chunk, Engine, Gpu
from .degradation import degradation
from .dialogue import Dialogue
from .dialogue_checks import dialogue
from .dialogue_checks import unused as unused_in_dialogue
from .engine_checks import unused as unused_of_engines
from .errors import Path, bare, chosen, is_model, meant, shown, unknown
from .faults import unused_routing, wrong_faults
from .fleet_checks import fleet
from .policies import AdmitAll, Custom
from .rollout import rollout
from .scaling import scaling
from .shadow import shadow
from .share_checks import coupled, shared
from .units import constant
from .workload import Refused, Retry, Workload

UNREAD = "\ue000\ue001"
"""How a hole is written: a sentence with it is about what nobody could read."""


class Hole:
    """Stands where a field could not be read: every question to it is answered with no."""

    def __getattr__(self, name: str) -> Hole:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Hole:
        return self

    def __getitem__(self, _: Any) -> Hole:
        return self

    def __contains__(self, _: Any) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __float__(self) -> float:
        return math.nan

    def __repr__(self) -> str:
        return UNREAD

    def __format__(self, _: str) -> str:
        return UNREAD

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def _no(self, other: Any) -> bool:
        return False

    def _hole(self, *_: Any) -> Hole:
        return self

    __lt__ = __le__ = __gt__ = __ge__ = _no
    __eq__ = __ne__ = _no
    __hash__ = object.__hash__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __abs__ = _hole
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __round__ = (
        _hole
    )


HOLE = Hole()
MOST_CALLS = 120_000_000
"""Utterances of one run at most: several minutes of a core."""
MOST_BINS = 1_000_000
"""Points of the time series, and windows of a dispersion, at most."""
MOST_ROWS = 10_000_000
"""Chunks in all codec calls at once at most."""
STEP = 0.01
"""Seconds of audio of a decode step where only the profile knows it: no model makes less."""


def partial(kind: Any, data: Any, context: dict[str, Any]) -> Any:
    """Read as much of ``data`` as can be read, with ``HOLE`` for the rest."""
    try:
        return TypeAdapter(kind).validate_python(data, context=context)
    except ValidationError:
        pass
    if not isinstance(data, dict):
        return HOLE
    kind = bare(kind)
    if get_origin(kind) is dict:
        return {name: partial(get_args(kind)[1], each, context) for name, each in data.items()}
    model: Any = chosen(kind, data)
    if not is_model(model):
        return HOLE
    slips = meant(data, model.model_fields)
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name in data:
            tag = Field(discriminator=field.discriminator)
            whole_type = Annotated[field.annotation, tag, *field.metadata]  # type: ignore
            values[name] = partial(whole_type, data[name], context)
        elif field.is_required() or name in slips:
            values[name] = HOLE
        else:
            values[name] = field.get_default(call_default_factory=True, validated_data=values)
    return model.model_construct(set(data) & set(values), **values)


def contradictions(s: Any) -> Iterator[tuple[Path, str]]:
    """(path, sentence) for everything wrong between the fields of one scenario."""
    for path, sentence in _contradictions(s):
        if not _of_a_hole(s, path) and not any(UNREAD in str(part) for part in (*path, sentence)):
            yield path, sentence


def _of_a_hole(found: Any, path: Path) -> bool:
    """Whether what is at the path, or above it, could not be read."""
    for key in path:
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list | tuple):
            found = found[key] if isinstance(key, int) and key < len(found) else None
        else:
            found = getattr(found, str(key), None)
        if found is HOLE:
            return True
    return False


def _contradictions(s: Any) -> Iterator[tuple[Path, str]]:
    if s.warmup >= s.horizon:
        yield ("warmup",), f"must be less than horizon ({s.horizon:g}s); found {s.warmup:g}s"
    bins = (s.horizon + s.drain) / s.series.resolution
    if bins > MOST_BINS:
        text = f"makes {bins:,.0f} points from the start to the end of drain; {MOST_BINS:,} at most"
        yield ("series", "resolution"), text
    yield from _arrivals(s.workload, s.horizon)
    yield from _cluster(s.cluster)
    yield from coupled(s)
    if isinstance(s.workload, Dialogue):
        yield from dialogue(s)
    else:
        yield from _workload(s.workload)
        yield from _crowd(s.workload, s.horizon)
        yield from _alone(s)
        if isinstance(s.workload, Workload):
            yield from _shares(("cluster", "pools"), _named(s.cluster.pools))
            yield from fleet(s)
        yield from _coupled(s)
    yield from scaling(s)
    yield from rollout(s)
    yield from degradation(s)
    yield from wrong_faults(s)
    yield from unused_routing(s)
    yield from shadow(s)
    yield from alarms(s.alarms, s)
    player = s.listener.player
    need = max((x for x in (player.prebuffer, player.rebuffer) if x is not HOLE), default=0.0)
    if player.max_queue is not None and player.max_queue < need:
        text = f"must hold at least prebuffer and rebuffer ({need:g}s), or nothing ever plays"
        yield ("listener", "player", "max_queue"), text


def alarms(rules: Any, s: Any) -> Iterator[tuple[Path, str]]:
    """What is wrong with rules in this scenario, be they its own or of a file beside it."""
    at: Path = ("alarms",)
    for i, name in clashes(rules):
        yield (*at, i), f"an earlier rule is named {name!r} too; give one of them another name"
    for i, alarm in enumerate(rules):
        if not isinstance(alarm, Alarm):
            continue
        if isinstance(s.series.resolution, float) and (text := narrow(alarm, s.series.resolution)):
            yield (*at, i, "over"), f"{text} (series.resolution)"
        if alarm.metric.startswith("ttfp") and s.listener.player.prebuffer > 0:
            text = (
                "with listener.player.prebuffer the first packet is not the first sound; use ttfa"
            )
            yield (*at, i, "metric"), text


def _named(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _given(part: Any, name: str) -> bool:
    return isinstance(part, BaseModel) and name in part.model_fields_set


def _workload(w: Any) -> Iterator[tuple[Path, str]]:
    at: Path = ("workload",)
    arrivals, said = w.arrivals, w.utterance
    known = arrivals.known if isinstance(arrivals, Trace) else set()
    lengths = sorted(known & {"tokens", "audio_s"})
    lawful = ("audio", "tokens") if said is not HOLE else ()
    both = [name for name in lawful if getattr(said, name) is not None]
    unread = arrivals is HOLE or (isinstance(arrivals, Trace) and not arrivals.columns)
    if lengths:
        for name in both:
            yield (*at, "utterance", name), f"never used: the trace gives {lengths[0]}"
    elif not unread and len(both) != 1 and said is not HOLE:
        found = "both" if both else "neither"
        yield (*at, "utterance"), f"give exactly one of audio and tokens; found {found}"
    if isinstance(arrivals, Trace):
        yield from _trace(w, arrivals, known)
        if arrivals.by_utterance:
            return
    if isinstance(arrivals, Closed):
        if _given(w, "utterances_per_session"):
            text = "never used: the callers of a closed loop speak for ever"
            yield (*at, "utterances_per_session"), text
    elif w.utterances_per_session == constant(1) and w.think not in (HOLE, constant(0)):
        text = "never used: utterances_per_session is 1, so nobody speaks twice"
        yield (*at, "think"), text


def _arrivals(w: Any, horizon: Any) -> Iterator[tuple[Path, str]]:
    at: Path = ("workload",)
    arrivals = w.arrivals
    if isinstance(arrivals, Surge) and arrivals.peak < arrivals.base:
        text = f"is less than base ({arrivals.base:g}/s); found {arrivals.peak:g}/s"
        yield (*at, "arrivals", "peak"), text
    if isinstance(arrivals, Burst) and arrivals.at >= horizon:
        yield (*at, "arrivals", "at"), f"comes after the horizon ({horizon:g}s): nobody would call"
    poisson = isinstance(arrivals, Surge | Diurnal) and arrivals.dispersion == 1
    if poisson and arrivals.dispersion_window not in (HOLE, WINDOW):
        yield (*at, "arrivals", "dispersion_window"), "never used: dispersion is 1"
    if horizon is HOLE or not _whole(arrivals) or getattr(arrivals, "dispersion", 1.0) <= 1:
        return
    windows = horizon / arrivals.dispersion_window
    if windows > MOST_BINS:
        text = f"makes {windows:,.0f} windows before the horizon; {MOST_BINS:,} at most"
        yield (*at, "arrivals", "dispersion_window"), text


def _trace(w: Any, arrivals: Trace, known: set[str]) -> Iterator[tuple[Path, str]]:
    """What a trace says itself, and what only its sessions make use of."""
    at: Path = ("workload",)
    if {"tokens", "audio_s"} <= set(arrivals.columns):
        yield (*at, "arrivals", "file"), "has both tokens and audio_s; keep one of them"
    if "prompt_tokens" in known and _given(w.utterance, "prompt_tokens"):
        yield (*at, "utterance", "prompt_tokens"), "never used: the trace gives prompt_tokens"
    if arrivals.by_utterance and _given(w, "utterances_per_session"):
        text = "never used: the rows of the trace are the utterances"
        yield (*at, "utterances_per_session"), text
    if "think_s" in known and _given(w, "think"):
        yield (*at, "think"), "never used: the trace gives think_s"
    alone = arrivals.by_utterance and not {"session", "think_s"} & set(arrivals.columns)
    if alone and w.think not in (HOLE, constant(0)):
        yield (*at, "think"), "never used: the trace has no session, so nobody speaks twice"


def _crowd(w: Any, horizon: Any) -> Iterator[tuple[Path, str]]:
    """What would not fit into memory."""
    at: Path = ("workload", "arrivals")
    arrivals, length = w.arrivals, w.utterances_per_session
    if horizon is HOLE or not _whole(arrivals):
        return
    if isinstance(arrivals, Closed) and arrivals.stagger >= horizon:
        text = f"must be less than horizon ({horizon:g}s); found {arrivals.stagger:g}s"
        yield (*at, "stagger"), text
    sessions = arrivals.expected(horizon)
    if isinstance(arrivals, Closed):
        each = _turns(w, horizon)
    elif isinstance(arrivals, Trace) and arrivals.by_utterance:
        each = len(arrivals.columns["t_s"]) / max(len(arrivals.starts()), 1)
    else:
        each = 0.0 if length is HOLE else length.mean()
    calls = sessions * each
    if calls > MOST_CALLS:
        text = (
            f"makes {_about(calls)} utterances in the {horizon:g}s of the horizon "
            f"({_about(sessions)} sessions of {_about(each)} each); {MOST_CALLS:,} at most"
        )
        yield at, text


def _turns(w: Any, horizon: float) -> float:
    """Utterances of one caller of a closed loop who waits for nothing; 0 if not known."""
    said, think = w.utterance, w.think
    if not _whole(said) or think is HOLE:
        return 0.0
    spoken = said.audio.mean() if said.audio else said.tokens.mean() * STEP if said.tokens else 0.0
    return horizon / (spoken + think.mean()) if spoken > 0 else 0.0


def _whole(part: Any) -> bool:
    """Whether a mapping was read without holes."""
    if not isinstance(part, BaseModel):
        return part is not HOLE
    return all(_whole(value) for value in vars(part).values())


def _about(number: float) -> str:
    return f"{number:,.0f}" if 100 <= number < 1e15 else f"{number:.3g}"


def _cluster(c: Any) -> Iterator[tuple[Path, str]]:
    at: Path = ("cluster",)
    gpus, pools = _named(c.gpus), _named(c.pools)
    for group, names in (("gpus", gpus), ("pools", pools)):
        for name in names:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                text = "a name is made of letters, digits, - and _"
                yield (*at, group, name), text
    if isinstance(c.gpus, dict) and not gpus:
        yield (*at, "gpus"), "needs at least one kind of card"
    if isinstance(c.pools, dict) and not pools:
        yield (*at, "pools"), "needs at least one pool"
    yield from shared(c)
    taken: dict[str, int] = {}
    for name, pool in pools.items():
        where = (*at, "pools", name)
        if pool is not HOLE and isinstance(pool.on, str) and gpus:
            if pool.on not in gpus:
                yield (*where, "on"), unknown(pool.on, gpus, f"unknown GPU {shown(pool.on)}")
            else:
                yield from _card(where, pool, gpus[pool.on], taken, _per_card(c, name))
        if pool is not HOLE and not isinstance(pool, AsrPool):
            yield from _pool(where, pool)


def _chunk(at: Path, pool: Any) -> Iterator[tuple[Path, str]]:
    """A ramp that streams share must be one, and only there is the first chunk padded."""
    chunk = pool.chunk if pool.codec is None else pool.codec.chunk
    if not isinstance(chunk, Chunk):
        return
    if _given(chunk, "pad") and chunk.shared_state is False:
        yield (*at, "pad"), "never used: shared_state is false; put it into first"
    if chunk.shared_state is True and not chunk.ramp and chunk.first == chunk.steady:
        yield (*at, "shared_state"), "never used: all chunks are of one size"


def _alone(s: Any) -> Iterator[tuple[Path, str]]:
    """What only a dialogue has."""
    if not isinstance(s.workload, Workload):
        return
    only = "never used: only a dialogue (workload.kind) has"
    for name, pool in _named(s.cluster.pools).items():
        if pool is not HOLE and pool.role != "tts":
            yield ("cluster", "pools", name, "role"), f"{only} a pool of role {pool.role}"
    if _given(s, "pipeline"):
        yield ("pipeline",), f"{only} a pipeline"
    if s.prices not in (None, HOLE):
        yield ("prices",), f"{only} prices; cluster.gpus.NAME.price is a card's"
    for name in ("uplink", "capture"):
        if _given(s.listener, name):
            yield ("listener", name), f"{only} a way from the caller to the server"


def _shares(at: Path, pools: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Several pools divide the callers; one pool has nobody to divide them with."""
    given = {name: getattr(pool, "share", HOLE) for name, pool in pools.items()}
    if any(share is HOLE for share in given.values()):
        return
    for name, share in given.items():
        if len(pools) == 1 and share is not None:
            yield (*at, name, "share"), "never used: the only pool serves all callers"
        if len(pools) > 1 and share is None and any(s is not None for s in given.values()):
            yield (*at, name), "needs its share of the callers: other pools have one"
    shares = [share for share in given.values() if isinstance(share, float)]
    if len(shares) == len(pools) > 1 and abs(sum(shares) - 1.0) > 1e-9:
        yield at, f"the shares must add up to 1; found {sum(shares):g}"


def _coupled(s: Any) -> Iterator[tuple[Path, str]]:
    """What lets one pool feel another, so that they cannot be played apart."""
    pools = _named(s.cluster.pools).values()
    if len(pools) < 2 or all(getattr(pool, "share", None) is None for pool in pools):
        return
    apart = "several pools are played apart, in parallel"
    for name in ("admission", "routing"):
        policy = getattr(s.policies, name)
        if isinstance(policy, Custom):
            text = f"{apart}; {policy.policy} would see all of them and couple them"
            yield ("policies", name), f"{text}: give one pool, or a built-in policy"
    if isinstance(s.workload.arrivals, Closed):
        text = f"{apart}; the callers of a closed loop go on to whichever pool is free"
        yield ("workload", "arrivals", "kind"), f"{text}: give one pool, or open arrivals"


def _pool(at: Path, pool: Any) -> Iterator[tuple[Path, str]]:
    engine, codec = pool.engine, pool.codec
    if pool.role == "llm" and _given(pool, "token_audio"):
        yield (*at, "token_audio"), "never used: what a language model of a dialogue says is spoken"
    if codec is not None and _given(pool, "chunk") and pool.chunk is not None:
        yield (*at, "chunk"), "never used: codec.chunk is given; keep one of them"
    yield from _chunk((*at, "codec", "chunk") if codec is not None else (*at, "chunk"), pool)
    share = _given(engine, "memory") and engine.memory is not None
    if share and engine.kv_blocks not in (HOLE, None):
        yield (*at, "engine", "memory"), "never used: kv_blocks is given; keep one of them"
    mixes = not isinstance(engine, Engine) or engine.kind != "sglang" or engine.mixed_chunk
    if mixes and engine.max_num_batched_tokens < engine.max_num_seqs:
        yield (
            (*at, "engine", "max_num_batched_tokens"),
            f"{engine.max_num_batched_tokens} is less than max_num_seqs ({engine.max_num_seqs})",
        )
    if codec is not None:
        rows = pool.replicas * codec.workers * codec.batch.cap
        if rows > MOST_ROWS:
            text = f"replicas x workers x batch.cap is {rows:,}; {MOST_ROWS:,} at most"
            yield (*at, "codec", "batch", "cap"), text
    pacing = getattr(engine, "pacing", None)
    if pacing is not None and pacing.reserve_slots >= engine.max_num_seqs:
        text = f"{pacing.reserve_slots} is not less than max_num_seqs ({engine.max_num_seqs})"
        yield (*at, "engine", "pacing", "reserve_slots"), f"{text}: nobody could go on"
    if codec is not None and codec.batch.cap == 1 and codec.batch.window > 0:
        yield (*at, "codec", "batch", "window"), "never used: batch.cap is 1"


def _per_card(c: Any, name: str) -> int | None:
    """Replicas of a pool on each shared card; 0: an earlier pool has counted the cards already;
    None: it has its own cards, or nobody can tell."""
    for share in c.share if isinstance(c.share, list) else ():
        pools = share.pools if isinstance(getattr(share, "pools", None), dict) else {}
        if name in pools:
            first = name == next(iter(pools))
            per = getattr(pools[name], "per_card", None)
            return per if first and isinstance(per, int) else 0
    return None


def _card(
    at: Path, pool: Any, gpu: Any, taken: dict[str, int], per: int | None
) -> Iterator[tuple[Path, str]]:
    """taken: cards of each kind that the pools before it occupy; its own are added.  per: its
    replicas on a shared card (see ``_per_card``)."""
    hears = isinstance(pool, AsrPool)
    other = not hears and pool.codec is not None and pool.codec.on == "other_gpu"
    before = taken.get(pool.on, 0)
    cards = pool.cards if hears else pool.replicas * (2 if other else 1)
    if per is not None:
        cards = -(-pool.replicas // per) if per and isinstance(pool.replicas, int) else 0
    if before + cards > gpu.count:
        extra = " with a second card each for the codec" if other else ""
        extra = f", {per} on a card," if per else extra
        if hears and cards > pool.replicas:
            extra = f" of {pool.asr.workers} workers each"
        text = f"{pool.replicas} replicas{extra} need {cards} cards; there are {gpu.count}"
        text += f" (cluster.gpus.{pool.on}.count)"
        yield (
            (*at, "replicas"),
            text + (f", {before} of them taken by other pools" if before else ""),
        )
    elif isinstance(cards, int):
        taken[pool.on] = before + cards
    known = gpu.preset is not HOLE and gpu.memory is not HOLE and isinstance(gpu, Gpu)
    if not hears and pool.engine.kv_blocks is None and known and gpu.memory_bytes is None:
        text = f"the memory of {pool.on!r} is not known; "
        yield (*at, "engine"), f"{text}give cluster.gpus.{pool.on}.memory or engine.kv_blocks"


def unused(scenarios: Sequence[Any]) -> Iterator[tuple[Path, str]]:
    """Knobs that are given although no variant uses them."""
    if any(_refused(s) for s in scenarios) and all(
        _refuses_nobody(s) for s in scenarios if not isinstance(s.workload, Dialogue)
    ):
        yield ("workload", "refused"), "never used: no variant's admission refuses"
    retries = [s.workload.refused.retry for s in scenarios if _refused(s)]
    if retries and all(isinstance(r, Retry) and r.attempts == 0 for r in retries):
        for name in ("backoff", "factor", "jitter"):
            if any(name in r.model_fields_set for r in retries):
                yield ("workload", "refused", "retry", name), "never used: attempts is 0"
    players = [s.listener.player for s in scenarios]
    waits = any(p.max_wait is not None and p.max_wait is not HOLE for p in players)
    if waits and all(p.prebuffer == 0 for p in players):
        yield ("listener", "player", "max_wait"), "never used: prebuffer is 0, so nothing waits"
    yield from unused_of_engines(scenarios)
    yield from unused_in_dialogue(scenarios)
    kinds = {name: None for s in scenarios for name in _named(s.cluster.gpus)}
    used = [pool.on for s in scenarios for pool in _named(s.cluster.pools).values()]
    if used and all(isinstance(on, str) and on in kinds for on in used):
        for name in kinds:
            if name not in used:
                yield ("cluster", "gpus", name), "never used: no pool is on it"


def _refused(s: Any) -> bool:
    return not isinstance(s.workload, Dialogue) and isinstance(s.workload.refused, Refused)


def _refuses_nobody(s: Any) -> bool:
    pools = _named(s.cluster.pools).values()
    engines = [p.engine for p in pools if p is not HOLE and not isinstance(p, AsrPool)]
    full = any(isinstance(e, Engine) and e.max_queued is not None for e in engines)
    return _refused(s) and isinstance(s.policies.admission, AdmitAll) and not full
