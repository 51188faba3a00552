"""The tape: everything that callers bring to a run, drawn before it starts.

A *session* is one call: it starts, speaks a number of *utterances*, and ends.  An utterance is one
request to the cluster: a prompt, and speech of a given length, counted in decode steps (tokens).
A tape depends on the workload, the seed and the replication, never on a cluster or a policy.

Each column has its own generator and is drawn along the flat list of utterances.  Changing the
law of one column leaves the others as they were, to the bit; changing the number of utterances per
session regroups the same utterances into other sessions.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from voicesim.workload.arrivals import draw_arrivals
from voicesim.workload.lengths import draw, draw_integers, mean
from voicesim.workload.recorded import recorded_calls
from voicesim.workload.rng import Purpose


class _Recipe(NamedTuple):
    workload: Any
    horizon: float
    seed: int
    replication: int
    token_audio_s: float
    max_tokens: int


@dataclass(frozen=True, eq=False)
class Tape:
    """S sessions and their U utterances; session k owns rows first[k]:first[k+1].

    Open arrivals: all S sessions start at ``arrival``.  Closed arrivals: only the first
    ``callers`` have a start time; session k >= callers starts when a caller has finished one and
    thought, and takes the next unused session.  A closed run that uses up all S sessions asks for
    `extend`.
    """

    arrival: np.ndarray  #: float64[S], or [callers] when closed; seconds, sorted, in [0, horizon)
    first: np.ndarray  #: int64[S+1], offsets into the columns below
    tokens: np.ndarray  #: int64[U], decode steps, 1..max_tokens
    prompt: np.ndarray  #: int64[U], prompt tokens, >= 1
    think: np.ndarray  #: float64[U], pause after the utterance has been played, seconds
    patience: np.ndarray  #: float64[U], wait for first audio before hanging up, s; inf: forever
    clipped: int  #: utterances cut to max_tokens
    closed: bool
    callers: int  #: closed arrivals: how many at once; 0 when open
    numbers: np.ndarray | None = None  #: int64[S], of a share of a tape: numbers in the whole
    _recipe: _Recipe | None = field(default=None, repr=False)
    row: np.ndarray | None = None  #: int64[U], of a fleet: kind of caller (engine.spec.Routes)
    # of the stages of a dialogue only
    hit: np.ndarray | None = None  #: int64[U], prompt tokens whose KV the engine still has
    encode: np.ndarray | None = None  #: float64[U], GPU seconds before the prompt, images
    ends: tuple[np.ndarray, np.ndarray] | None = None
    """Chunks of each stream's own: int64[U+1] offsets into int64[...] tokens at their ends."""

    @property
    def sessions(self) -> int:
        return len(self.first) - 1

    @property
    def utterances(self) -> int:
        return len(self.tokens)

    def only(self, keep: np.ndarray) -> "Tape":
        """The sessions of an open tape for which ``keep`` (bool[S]) holds, numbered anew.

        ``clipped`` stays that of the whole.
        """
        if self.closed:
            raise ValueError("the sessions of a closed tape are not known before it is played")
        sizes = np.diff(self.first)
        rows = np.repeat(keep, sizes)
        return Tape(
            arrival=self.arrival[keep],
            first=np.concatenate(([0], np.cumsum(sizes[keep]))),
            tokens=self.tokens[rows],
            prompt=self.prompt[rows],
            think=self.think[rows],
            patience=self.patience[rows],
            clipped=self.clipped,
            closed=False,
            callers=0,
            numbers=np.flatnonzero(keep),
            row=None if self.row is None else self.row[rows],
        )

    def extend(self) -> "Tape":
        """A tape of twice the sessions that begins with this one; closed arrivals only."""
        if not self.closed:
            raise ValueError("an open tape is complete: its sessions are those before the horizon")
        if self._recipe is None:
            raise ValueError("a tape written by hand has no law to extend it by")
        return _closed(self._recipe, self.arrival, 2 * self.sessions)


def draw_tape(
    workload: Any,
    horizon: float,
    seed: int,
    replication: int,
    token_audio_s: float,
    max_tokens: int,
) -> Tape:
    """Draw the tape of one replication.

    ``horizon`` is the length of the run in seconds; ``token_audio_s`` the seconds of audio that
    one decode step makes; ``max_tokens`` the engine's limit on the steps of one utterance.

    An utterance of a seconds takes ceil(a / token_audio_s) steps.  The rows of a trace are
    utterances (``voicesim.workload.recorded``); what it does not give is drawn.  A trace of bare
    start times is a list of sessions.
    """
    recipe = _Recipe(workload, horizon, seed, replication, token_audio_s, max_tokens)
    arrivals = workload.arrivals
    if arrivals.kind == "trace":
        start, first, given = recorded_calls(arrivals, horizon, seed, replication)
        if given or len(first) - 1 != first[-1]:
            return _fill(recipe, start, first, given, 0)
    else:
        start = draw_arrivals(arrivals, horizon, seed, replication)
    if arrivals.kind == "closed":
        return _closed(recipe, start, _first_guess(recipe))
    counts = np.ones(len(start), dtype=np.int64)
    if workload.utterances_per_session is not None:
        counts = draw_integers(
            workload.utterances_per_session, len(start), seed, replication, Purpose.COUNTS
        )
    return _fill(recipe, start, np.concatenate(([0], np.cumsum(counts))), {}, 0)


def _closed(recipe: _Recipe, start: np.ndarray, sessions: int) -> Tape:
    return _fill(recipe, start, np.arange(sessions + 1), {}, len(start))


def _first_guess(recipe: _Recipe) -> int:
    """Sessions for a closed run in which no caller waits for anything but speech and thought."""
    w = recipe.workload
    if w.utterance.audio is not None:
        cycle = mean(w.utterance.audio)
    else:
        cycle = mean(w.utterance.tokens) * recipe.token_audio_s
    cycle += mean(w.think) if w.think is not None else 0.0
    each = min(recipe.horizon / max(cycle, 1e-9), 1e6) * 1.25
    callers = w.arrivals.callers
    return max(4 * callers, min(math.ceil(callers * each), 1_000_000))


def _fill(
    recipe: _Recipe,
    start: np.ndarray,
    first: np.ndarray,
    given: dict[str, np.ndarray],
    callers: int,
) -> Tape:
    """Draw the columns of first[-1] utterances, taking those in ``given`` as they are."""
    w, _, seed, replication, token_audio_s, max_tokens = recipe
    n = int(first[-1])
    steps = _given_steps(given, n, token_audio_s)
    unknown = np.isnan(steps)
    if unknown.any():
        steps = np.where(unknown, _drawn_steps(recipe, n), steps)
    prompt = np.maximum(1.0, np.rint(given.get("prompt_tokens", np.full(n, np.nan))))
    if np.isnan(prompt).any():
        drawn = np.ones(n, dtype=np.int64)
        if w.utterance.prompt_tokens is not None:
            drawn = draw_integers(w.utterance.prompt_tokens, n, seed, replication, Purpose.PROMPT)
        prompt = np.where(np.isnan(prompt), drawn, prompt)
    prompt = prompt + w.utterance.shared_prefix
    think = given.get("think_s", np.full(n, np.nan))
    if np.isnan(think).any():
        drawn_think = np.zeros(n)
        if w.think is not None:
            drawn_think = draw(w.think, n, seed, replication, Purpose.THINK)
        think = np.where(np.isnan(think), drawn_think, think)
    patience = np.full(n, math.inf)
    if w.patience is not None:
        patience = draw(w.patience, n, seed, replication, Purpose.PATIENCE)
    return Tape(
        arrival=start,
        first=first.astype(np.int64),
        tokens=np.clip(steps, 1, max_tokens).astype(np.int64),
        prompt=prompt.astype(np.int64),
        think=think,
        patience=patience,
        clipped=int(np.count_nonzero(steps > max_tokens)),
        closed=callers > 0,
        callers=callers,
        _recipe=recipe,
    )


def _given_steps(given: dict[str, np.ndarray], n: int, token_audio_s: float) -> np.ndarray:
    """Decode steps that a trace gives, float64[n]; NaN where it does not."""
    if "tokens" in given:
        return np.rint(given["tokens"])
    if "audio_s" in given:
        return _steps(given["audio_s"], token_audio_s)
    return np.full(n, np.nan)


def _drawn_steps(recipe: _Recipe, n: int) -> np.ndarray:
    """Decode steps by the workload's law, float64[n]."""
    w, _, seed, replication, token_audio_s, _ = recipe
    if w.utterance.audio is not None:
        audio = draw(w.utterance.audio, n, seed, replication, Purpose.AUDIO)
        return _steps(audio, token_audio_s)
    if w.utterance.tokens is not None:
        return np.rint(draw(w.utterance.tokens, n, seed, replication, Purpose.AUDIO))
    raise ValueError("an utterance needs a law for its audio or for its tokens")


def _steps(audio: np.ndarray, token_audio_s: float) -> np.ndarray:
    """Decode steps for ``audio`` seconds; the 1e-9 forgives 0.56 / 0.08 = 7.000000000000001."""
    return np.ceil(audio / token_audio_s - 1e-9)
