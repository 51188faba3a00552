"""The tape: everything that callers bring to a run, drawn before it starts.

A *session* is one call: it starts, speaks a number of *utterances*, and ends.  An utterance is one
request to the cluster: a prompt, and speech of a given length, counted in decode steps (tokens).
A tape depends on the workload, the seed and the replication, never on a cluster or a policy.

Each column has its own generator and is drawn along the flat list of utterances.  Changing the
law of one column leaves the others as they were, to the bit; changing the number of utterances per
session regroups the same utterances into other sessions.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from voicesim.workload.arrivals import draw_arrivals
from voicesim.workload.lengths import draw_integers, integers, mean, quantile
from voicesim.workload.recorded import recorded_calls
from voicesim.workload.rng import Purpose, generator


class Recipe(NamedTuple):
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
    _recipe: Recipe | None = field(default=None, repr=False)
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

    def emptied(self, clipped: int) -> "Tape":
        """Nobody of it, but the callers of a closed tape with their first utterances."""
        n = self.callers
        return replace(
            self, arrival=self.arrival[:n], first=self.first[: n + 1], tokens=self.tokens[:n],
            prompt=self.prompt[:n], think=self.think[:n], patience=self.patience[:n],
            clipped=clipped, numbers=None if self.numbers is None else self.numbers[:n],
            row=None if self.row is None else self.row[:n],
        )  # fmt: skip

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
    recipe = Recipe(workload, horizon, seed, replication, token_audio_s, max_tokens)
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


def _closed(recipe: Recipe, start: np.ndarray, sessions: int) -> Tape:
    return _fill(recipe, start, np.arange(sessions + 1), {}, len(start))


def _first_guess(recipe: Recipe) -> int:
    """Sessions for a closed run in which no caller waits for anything but speech and thought."""
    cycle = cycle_s(recipe.workload, recipe.token_audio_s)
    each = min(recipe.horizon / max(cycle, 1e-9), 1e6) * 1.25
    callers = recipe.workload.arrivals.callers
    return max(4 * callers, min(math.ceil(callers * each), 1_000_000))


def cycle_s(workload: Any, token_audio_s: float) -> float:
    """Mean seconds of an utterance's speech and of the thought after it."""
    if workload.utterance.audio is not None:
        cycle = mean(workload.utterance.audio)
    else:
        cycle = mean(workload.utterance.tokens) * token_audio_s
    return cycle + (mean(workload.think) if workload.think is not None else 0.0)


def _fill(
    recipe: Recipe,
    start: np.ndarray,
    first: np.ndarray,
    given: dict[str, np.ndarray],
    callers: int,
) -> Tape:
    """Draw the columns of first[-1] utterances, taking those in ``given`` as they are."""
    return Columns(recipe).of(start, first, given, callers)


class Columns:
    """The columns of the flat list of utterances, each with its generator kept open: pieces drawn
    one after another are equal to the bit to the whole drawn at once."""

    def __init__(self, recipe: Recipe):
        self._recipe = recipe
        self._generators: dict[Purpose, np.random.Generator] = {}

    def draw(self, law: Any, n: int, purpose: Purpose) -> np.ndarray:
        """The next ``n`` draws of a law, float64[n]."""
        if purpose not in self._generators:
            at = self._recipe.seed, self._recipe.replication
            self._generators[purpose] = generator(*at, purpose)
        return quantile(law, self._generators[purpose].random(n))

    def of(
        self, start: np.ndarray, first: np.ndarray, given: dict[str, np.ndarray], callers: int
    ) -> Tape:
        """The tape of the next first[-1] utterances, taking the columns ``given`` as they are."""
        w, max_tokens = self._recipe.workload, self._recipe.max_tokens
        n = int(first[-1])
        steps = _given_steps(given, n, self._recipe.token_audio_s)
        unknown = np.isnan(steps)
        if unknown.any():
            steps = np.where(unknown, self._steps(n), steps)
        prompt = np.maximum(1.0, np.rint(given.get("prompt_tokens", np.full(n, np.nan))))
        if np.isnan(prompt).any():
            drawn = np.ones(n, dtype=np.int64)
            if w.utterance.prompt_tokens is not None:
                drawn = integers(self.draw(w.utterance.prompt_tokens, n, Purpose.PROMPT))
            prompt = np.where(np.isnan(prompt), drawn, prompt)
        prompt = prompt + w.utterance.shared_prefix
        think = given.get("think_s", np.full(n, np.nan))
        if np.isnan(think).any():
            drawn_think = np.zeros(n)
            if w.think is not None:
                drawn_think = self.draw(w.think, n, Purpose.THINK)
            think = np.where(np.isnan(think), drawn_think, think)
        patience = np.full(n, math.inf)
        if w.patience is not None:
            patience = self.draw(w.patience, n, Purpose.PATIENCE)
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
            _recipe=self._recipe,
        )

    def _steps(self, n: int) -> np.ndarray:
        """Decode steps by the workload's law, float64[n]."""
        utterance = self._recipe.workload.utterance
        if utterance.audio is not None:
            return _steps(self.draw(utterance.audio, n, Purpose.AUDIO), self._recipe.token_audio_s)
        if utterance.tokens is not None:
            return np.rint(self.draw(utterance.tokens, n, Purpose.AUDIO))
        raise ValueError("an utterance needs a law for its audio or for its tokens")


def _given_steps(given: dict[str, np.ndarray], n: int, token_audio_s: float) -> np.ndarray:
    """Decode steps that a trace gives, float64[n]; NaN where it does not."""
    if "tokens" in given:
        return np.rint(given["tokens"])
    if "audio_s" in given:
        return _steps(given["audio_s"], token_audio_s)
    return np.full(n, np.nan)


def _steps(audio: np.ndarray, token_audio_s: float) -> np.ndarray:
    """Decode steps for ``audio`` seconds; the 1e-9 forgives 0.56 / 0.08 = 7.000000000000001."""
    return np.ceil(audio / token_audio_s - 1e-9)
