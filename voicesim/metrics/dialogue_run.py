"""A run of dialogues with what its numbers are judged by: budgets, stages, prices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from voicesim.scenario.prices import Prices
from voicesim.session.record import DialogueRecord
from voicesim.session.spec import DialogueSpec
from voicesim.session.tape import DialogueTape

SEGMENTS = ("capture", "uplink", "endpointing", "asr", "llm", "tts", "downlink", "playback")
"""Where the time between the caller's last word and the answer's first sound goes, in order."""
PARTS = {**{name: (name,) for name in SEGMENTS}, "network": ("uplink", "downlink"),
         "total": SEGMENTS}  # fmt: skip
"""What a budget may speak of: segments and sums of them."""

HELLO = (4.0, 0.5)
"""An assumption; nobody has published when callers ask whether anybody is there."""


@dataclass(frozen=True)
class Allowance:
    """What a segment may take (s), and who answers for it."""

    limit: float
    owner: str = ""


@dataclass(frozen=True)
class Tenant:
    """A group of callers and what they were promised.

    start_within, no_stall_over: when a turn of theirs is CLEAN (s).
    budget: allowances by name of ``PARTS``.
    """

    name: str = "all"
    start_within: float = 1.0
    no_stall_over: float = 0.1
    budget: Mapping[str, Allowance] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """What does one part of the work.

    kind: asr, llm, tts or omni.  pool: its number in ``spec.pools``; -1 of the recogniser.
    card, cards: the kind and the number of GPUs; per_hour: the scenario's price of one (None: it
    has none).  wer: a recogniser's word error rate as stated (None: it is not).
    """

    name: str
    kind: str
    pool: int = -1
    card: str = ""
    cards: float = 0
    per_hour: float | None = None
    wer: float | None = None


@dataclass(frozen=True)
class Terms:
    """What a scenario says beside the spec and the tape.

    tenants: by the tape's numbers.  stages: the recogniser, then the spec's pools in order.
    late: an end of turn noticed so late is late (s); inf: none is.
    hello: median (s) and sigma of the lognormal silence after which a caller says "hello?".
    prices: None: those of the stages.
    stated: what the scenario says of its engines' quality, for the report, a sentence each.
    """

    tenants: Sequence[Tenant] = (Tenant(),)
    stages: Sequence[Stage] = ()
    late: float = np.inf
    hello: tuple[float, float] = HELLO
    prices: Prices | None = None
    stated: Sequence[str] = ()


@dataclass(frozen=True)
class Played:
    """One finished run of dialogues."""

    terms: Terms
    spec: DialogueSpec
    tape: DialogueTape
    record: DialogueRecord

    @cached_property
    def call(self) -> np.ndarray:
        """int64[T], the call of each turn."""
        return np.repeat(np.arange(self.tape.calls), np.diff(self.tape.first))

    @cached_property
    def turn(self) -> np.ndarray:
        """int64[R], the turn that each answer belongs to."""
        found = np.empty(self.tape.answers, np.int64)
        cut = self.tape.cut >= 0
        found[self.tape.answer] = np.arange(self.tape.turns)
        found[self.tape.cut[cut]] = np.flatnonzero(cut)
        return found

    @cached_property
    def answer_of_unit(self) -> np.ndarray:
        """int64[N], the answer that each unit is part of."""
        return np.repeat(np.arange(self.tape.answers), np.diff(self.tape.unit))

    @property
    def window(self) -> float:
        """Seconds that are counted."""
        return self.spec.horizon - self.spec.warmup
