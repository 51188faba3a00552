"""What callers bring to a run of dialogues: calls, turns, pauses, interruptions, replies.

Each column has its own generator, drawn along the flat list of calls, of turns or of sentences, and
is a function of its own law alone.  So the settings of engines and pipeline change only what
follows from them: another endpointing the columns ``endpoint`` and ``cut...`` and the answers to
half-heard turns (which come after all others), another segmenter the units, another cache the hits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from voicesim.scenario.dialogue import Dialogue, Talk
from voicesim.scenario.pipeline import Pipeline
from voicesim.session.tape import DialogueTape
from voicesim.workload.arrivals import draw_arrivals
from voicesim.workload.endpointing import Decisions, Ends, ends_of_turns
from voicesim.workload.lengths import quantile
from voicesim.workload.rng import Purpose, generator, hash_key, run_seed, to_unit
from voicesim.workload.talk import (
    barge_hazard,
    false_hazard,
    image_misses,
    known,
    pareto,
    sentence_seconds,
)
from voicesim.workload.units import Pieces, known_after, segmented


@dataclass(frozen=True)
class Stages:
    """What the tape must know of the engines.

    llm_tokens, tts_tokens: most decode steps of a request, by pool.  caching: whether a language
    model keeps prefixes, and its block_size, by pool.  token_audio: seconds of audio of a step, by
    TTS pool.  voices: share of the calls of each TTS pool.  small, large: numbers of the language
    models of a cascade.  omni_audio, omni_tokens: the same of the omni pool, 0: there is none.
    """

    llm_tokens: tuple[int, ...]
    caching: tuple[bool, ...]
    block_size: tuple[int, ...]
    tts_tokens: tuple[int, ...]
    token_audio: tuple[float, ...]
    voices: tuple[float, ...]
    small: int = 0
    large: int = 0
    omni_audio: float = 0.0
    omni_tokens: int = 0


class _Draws:
    """Uniform numbers by purpose, and laws by tenant."""

    def __init__(self, w: Dialogue, seed: int, replication: int) -> None:
        self.talks = w.talks()
        self.seed, self.replication = seed, replication
        self.who = np.zeros(0, dtype=np.int64)

    def uniform(self, purpose: Purpose, n: int) -> np.ndarray:
        return generator(self.seed, self.replication, purpose).random(n)

    def each(self, n: int, who: np.ndarray, value: Callable[[Talk, Any], Any]) -> np.ndarray:
        """float64[n]: ``value(talk, rows)`` for the rows (bool[n] or a slice) of each tenant."""
        if len(self.talks) == 1:
            return np.broadcast_to(np.asarray(value(self.talks[0], slice(None))), (n,)) + 0.0
        out = np.empty(n)
        for i, talk in enumerate(self.talks):
            rows = who == i
            out[rows] = value(talk, rows)
        return out


def ends_under(rule: Any, w: Dialogue, horizon: float, seed: int, replication: int) -> Decisions:
    """What another endpointer would make of the same turns; ``horizon`` in seconds."""
    draws = _Draws(w, seed, replication)
    calls = len(draw_arrivals(w.arrivals, horizon, seed, replication))
    tenant, first = _turns(draws, w, calls)
    call = np.repeat(np.arange(calls), np.diff(first))
    n, who = len(call), tenant[call]
    speech = _law(draws, Purpose.SPEECH, n, who, lambda talk: talk.speech)
    return ends_of_turns(rule, _pauses(draws, n, who, speech), first, np.arange(n) - first[call])


def _turns(draws: _Draws, w: Dialogue, calls: int) -> tuple[np.ndarray, np.ndarray]:
    """int64[S]: tenants of the calls; int64[S + 1]: where their turns begin."""
    tenant = _pick([t.share for t in w.tenants], draws.uniform(Purpose.TENANT, calls))
    u = draws.uniform(Purpose.TURNS, calls)
    turns = draws.each(calls, tenant, lambda talk, rows: quantile(known(talk.turns), u[rows]))
    count = np.maximum(1, np.rint(turns)).astype(np.int64)
    return tenant, np.concatenate(([0], np.cumsum(count)))


def draw_dialogue(
    w: Dialogue, pipeline: Pipeline, stages: Stages, horizon: float, seed: int, replication: int
) -> DialogueTape:
    """Draw the tape of one replication; ``horizon`` in seconds."""
    draws = _Draws(w, seed, replication)
    arrival = draw_arrivals(w.arrivals, horizon, seed, replication)
    calls = len(arrival)
    tenant, first = _turns(draws, w, calls)
    voice = _pick(list(stages.voices), draws.uniform(Purpose.VOICE, calls))
    call = np.repeat(np.arange(calls), np.diff(first))
    place = np.arange(len(call)) - first[call]
    who = tenant[call]
    n = len(call)
    speech = _law(draws, Purpose.SPEECH, n, who, lambda talk: talk.speech)
    ends = ends_of_turns(pipeline.endpointing, _pauses(draws, n, who, speech), first, place)
    cuts = np.flatnonzero(np.isfinite(ends.cut_at))
    turn = np.concatenate((np.arange(n), cuts))  # of each answer
    heard = np.concatenate((speech, ends.cut_at[cuts]))
    llm = _models(draws, pipeline, stages, place)
    sentences = _sentences(draws, n, who)
    clip = np.array(stages.llm_tokens)[llm]
    clipped = np.count_nonzero(_totals(sentences, n) > clip)
    sentences = sentences.shortened(clip)
    units = segmented(sentences, pipeline.segmenter, pipeline.client.stages == "serial")
    prompt, hit, encode = _prompts(draws, pipeline, stages, (turn, place, who, llm), heard)
    pieces, owner = _for_answers(units, n, turn)
    steps, over = _steps(pieces.seconds, voice[call[owner]], stages)
    spoken = np.bincount(units.reply, units.seconds, minlength=n)
    seconds = np.concatenate((spoken, spoken[cuts]))
    omni, omni_prompt, omni_tokens, far = _omni(
        draws, pipeline, stages, (turn, place, who), heard, seconds
    )
    barge, false_barge = _interruptions(draws, pipeline, n, who)
    cut = np.full(n, -1, dtype=np.int64)
    cut[cuts] = n + np.arange(len(cuts))
    sizes = np.bincount(pieces.reply, minlength=len(turn))
    return DialogueTape(
        arrival=arrival,
        first=first,
        tenant=tenant,
        think=_law(draws, Purpose.THINK, n, who, lambda talk: talk.think),
        speech=speech,
        endpoint=ends.endpoint,
        cut_at=ends.cut_at,
        cut_pause=ends.cut_pause,
        cut_endpoint=ends.cut_endpoint,
        patience=_law(draws, Purpose.PATIENCE, n, who, lambda talk: talk.patience),
        barge=barge,
        false_barge=false_barge,
        answer=np.arange(n),
        cut=cut,
        prompt=prompt,
        hit=hit,
        reply=_totals(units, n)[turn],
        encode=encode,
        llm=llm[turn],
        tts=voice[call[turn]],
        omni=omni,
        omni_prompt=omni_prompt,
        omni_tokens=omni_tokens,
        unit=np.concatenate(([0], np.cumsum(sizes))),
        unit_end=known_after(pieces, pipeline.segmenter.lookahead),
        unit_tokens=steps,
        unit_prompt=pieces.tokens + pipeline.voice_prompt,
        unit_cached=_cached(draws, pipeline.caches.phrases, owner, pieces.place),
        clipped=int(clipped + over + far),
    )


def _pick(shares: list[float], u: np.ndarray) -> np.ndarray:
    """int64[n]: which of the shares each uniform number falls in; all 0 for one or none."""
    return np.searchsorted(np.cumsum(shares)[:-1], u, side="right").astype(np.int64)


def _law(
    draws: _Draws, purpose: Purpose, n: int, who: np.ndarray, law: Callable[[Talk], Any]
) -> np.ndarray:
    u = draws.uniform(purpose, n)
    return draws.each(n, who, lambda talk, rows: quantile(known(law(talk)), u[rows]))


def _pauses(draws: _Draws, n: int, who: np.ndarray, speech: np.ndarray) -> Ends:
    """The longest pause in each turn, and the uniform numbers that judge it."""
    u = draws.uniform(Purpose.PAUSED, n)
    paused = draws.each(n, who, lambda t, rows: u[rows] < known(known(t.pauses).share)) > 0
    length = _law(draws, Purpose.PAUSE, n, who, lambda talk: known(talk.pauses).longest)
    return Ends(
        pause=np.where(paused, length, 0.0),
        at=speech * draws.uniform(Purpose.PAUSE_PLACE, n),
        false_end=draws.uniform(Purpose.FALSE_END, n),
        late_end=draws.uniform(Purpose.LATE_END, n),
    )


def _models(draws: _Draws, pipeline: Pipeline, stages: Stages, place: np.ndarray) -> np.ndarray:
    """int64[turns]: which language model answers."""
    cascade = pipeline.cascade
    if cascade is None:
        return np.zeros(len(place), dtype=np.int64)
    if cascade.first_turns is not None:
        small = place < cascade.first_turns
    else:
        small = draws.uniform(Purpose.CASCADE, len(place)) < known(cascade.small_share)
    return np.where(small, stages.small, stages.large).astype(np.int64)


def _sentences(draws: _Draws, n: int, who: np.ndarray) -> Pieces:
    """The sentences of all replies."""
    u = draws.uniform(Purpose.SENTENCES, n)
    usual = draws.each(n, who, lambda t, rows: quantile(known(known(t.reply).sentences), u[rows]))
    u_long, u_length = draws.uniform(Purpose.LONG, n), draws.uniform(Purpose.LONG_LENGTH, n)
    length = draws.each(n, who, lambda t, rows: _long(t, u_long[rows], u_length[rows]))
    long = length > 0.0
    mean = draws.each(n, who, lambda t, rows: _mean_sentence(t))
    count = np.maximum(1, np.rint(np.where(long, length / mean, usual))).astype(np.int64)
    reply = np.repeat(np.arange(n), count)
    v = draws.uniform(Purpose.SENTENCE, len(reply))
    by = who[reply]
    seconds = draws.each(len(reply), by, lambda t, rows: sentence_seconds(known(t.reply), v[rows]))
    total = np.bincount(reply, seconds, minlength=n)
    seconds = seconds * np.where(long, length / total, 1.0)[reply]
    pace = draws.each(n, who, lambda t, rows: known(known(t.reply).tokens_per_second))[reply]
    tokens = np.maximum(1, np.ceil(seconds * pace - 1e-9)).astype(np.int64)
    return Pieces(reply, tokens, seconds)


def _long(talk: Talk, u_long: np.ndarray, u_length: np.ndarray) -> np.ndarray:
    """Speech of the replies that run long (s); 0 for the others."""
    tail = known(talk.reply).tail
    if tail is None or known(tail.share) == 0.0:
        return np.zeros(len(u_long))
    length = pareto(known(tail.least), known(tail.most), known(tail.alpha), u_length)
    return np.where(u_long < tail.share, length, 0.0)


def _mean_sentence(talk: Talk) -> float:
    reply = known(talk.reply)
    if reply.sentence is not None:
        return float(reply.sentence.mean())
    return float(known(reply.sentence_tokens).mean() / known(reply.tokens_per_second))


def _totals(pieces: Pieces, n: int) -> np.ndarray:
    """int64[n]: tokens of each reply."""
    return np.bincount(pieces.reply, pieces.tokens, minlength=n).astype(np.int64)


def _prompts(
    draws: _Draws,
    pipeline: Pipeline,
    stages: Stages,
    where: tuple[np.ndarray, ...],
    heard: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prompt tokens, those found in the prefix cache, and image encoding (s) of each answer.

    The system prompt is found wherever prefixes are kept; the past turns by their hit rate, and
    only where the same model answered the turn before.  Whole blocks only.
    """
    turn, place, who, llm = where
    n = len(place)

    def context(name: str) -> np.ndarray:
        values = draws.each(n, who, lambda talk, rows: getattr(known(talk.context), name))
        return np.asarray(values[turn])

    images, encode = _images(draws, n, who)
    past = context("per_turn") * place[turn]
    words = np.maximum(1.0, np.ceil(heard * context("speech_tokens_per_second") - 1e-9))
    prompt = (context("system") + past + words + images[turn]).astype(np.int64)
    same = np.append(False, llm[1:] == llm[:-1]) & (place > 0)
    kept = same & (draws.uniform(Purpose.HISTORY, n) < pipeline.caches.history)
    caching = np.array(stages.caching)[llm][turn]
    block = np.array(stages.block_size)[llm][turn]
    cached = np.where(caching, context("system") + past * kept[turn], 0.0).astype(np.int64)
    return prompt, np.minimum(cached // block * block, prompt - 1), encode[turn]


def _images(draws: _Draws, n: int, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Prompt tokens and encoding seconds of the images of each turn."""
    if all(talk.images is None for talk in draws.talks):
        return np.zeros(n), np.zeros(n)
    u, v = draws.uniform(Purpose.IMAGES, n), draws.uniform(Purpose.IMAGE_COUNT, n)
    miss = draws.uniform(Purpose.IMAGE_MISS, n)

    def count(talk: Talk, rows: Any) -> Any:
        images = talk.images
        if images is None:
            return 0.0
        found = np.maximum(1.0, np.rint(quantile(images.count, v[rows])))
        return np.where(u[rows] < images.share, np.minimum(found, images.limit or np.inf), 0.0)

    shown = draws.each(n, who, count)

    def read(talk: Talk, rows: Any) -> Any:
        if talk.images is None:
            return 0.0
        read = binom.ppf(miss[rows], shown[rows], image_misses(talk.images))
        return np.maximum(read, 0.0) * talk.images.encode

    tokens = draws.each(n, who, lambda t, rows: t.images.tokens if t.images else 0.0)
    return shown * tokens, draws.each(n, who, read)


def _for_answers(units: Pieces, n: int, turn: np.ndarray) -> tuple[Pieces, np.ndarray]:
    """The units of all answers, those to half-heard turns being the turn's own again; and the
    turn of each."""
    sizes = np.bincount(units.reply, minlength=n)
    start = np.cumsum(sizes) - sizes
    more = turn[n:]
    again = np.repeat(start[more], sizes[more]) + _ranges(sizes[more])
    rows = np.concatenate((np.arange(len(units.reply)), again))
    answer = np.repeat(np.arange(len(turn)), sizes[turn])
    return Pieces(answer, units.tokens[rows], units.seconds[rows]), turn[answer]


def _ranges(sizes: np.ndarray) -> np.ndarray:
    """0..sizes[0]-1, 0..sizes[1]-1, ..."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def _steps(seconds: np.ndarray, pool: np.ndarray, stages: Stages) -> tuple[np.ndarray, int]:
    """Decode steps of the units at their TTS pool, and how many were cut to its max_tokens."""
    steps = np.ceil(seconds / np.array(stages.token_audio)[pool] - 1e-9)
    most = np.array(stages.tts_tokens)[pool]
    return np.clip(steps, 1, most).astype(np.int64), int(np.count_nonzero(steps > most))


def _omni(
    draws: _Draws,
    pipeline: Pipeline,
    stages: Stages,
    where: tuple[np.ndarray, ...],
    heard: np.ndarray,
    seconds: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Which answers the speech-to-speech pool gives, its prompt and steps, and those cut."""
    turn, place, who = where
    none = np.zeros(len(turn), dtype=np.int64)
    route = pipeline.omni
    if route is None or stages.omni_audio == 0.0:
        return none, none, none, 0
    n = len(place)
    chosen = (draws.uniform(Purpose.OMNI, n) < route.share)[turn]
    base = draws.each(n, who, lambda t, rows: known(known(t.context).system))
    base = base + draws.each(n, who, lambda t, rows: known(known(t.context).per_turn)) * place
    words = np.maximum(1.0, np.ceil(heard * route.speech_tokens_per_second - 1e-9))
    steps = np.ceil(seconds / stages.omni_audio - 1e-9)
    far = chosen & (steps > stages.omni_tokens)
    return (
        chosen.astype(np.int64),
        (base[turn] + words).astype(np.int64),
        np.clip(steps, 1, stages.omni_tokens).astype(np.int64),
        int(np.count_nonzero(far)),
    )


def _interruptions(
    draws: _Draws, pipeline: Pipeline, n: int, who: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Audible seconds of the answer until the caller interrupts, and until it only seems so."""
    detect = pipeline.barge_in.detect
    real = draws.each(n, who, lambda talk, rows: barge_hazard(talk))
    false = draws.each(n, who, lambda talk, rows: false_hazard(talk, detect))
    waits = [-np.log1p(-draws.uniform(p, n)) for p in (Purpose.BARGE_IN, Purpose.NOISE)]
    barge, noise = (
        np.divide(wait, hazard, out=np.full(n, math.inf), where=hazard > 0)
        for wait, hazard in zip(waits, (real, false), strict=True)
    )
    return barge, noise


def _cached(draws: _Draws, rate: float, turn: np.ndarray, place: np.ndarray) -> np.ndarray:
    """int64[N]: 1 where a unit's audio is in the phrase cache: by turn and number of the unit."""
    if rate == 0.0:
        return np.zeros(len(turn), dtype=np.int64)
    seed = run_seed(draws.seed, draws.replication)
    keys = hash_key(
        np.full(len(turn), seed, dtype=np.uint64),
        np.uint64(Purpose.PHRASES),
        turn.astype(np.uint64),
        place.astype(np.uint64),
    )
    return np.asarray(to_unit(keys) < rate).astype(np.int64)
