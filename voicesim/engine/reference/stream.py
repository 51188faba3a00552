"""One stream: an utterance on its way from request to the listener's ear."""

from dataclasses import dataclass, field
from typing import Any

from voicesim.engine import layout as at
from voicesim.engine.reference.blame import Waits
from voicesim.listener import player


@dataclass(eq=False)
class Stream:
    """State of one utterance.  Times in s, lengths in tokens."""

    utterance: int
    session: int
    prompt: int
    tokens: int
    requested: float
    hit: int = 0  # prompt tokens whose KV the engine still has
    encode: float = 0.0  # GPU seconds before the prompt (images)
    ends: Any = None  # a dialogue's reply: tokens at the ends of its units
    settled: Any = None  # event: the value is the outcome
    state: int = at.FREE
    attempts: int = 0
    aborted: bool = False
    engine: Any = None
    home: Any = None  # the pool whose ladder it is on
    rung: Any = None  # of that ladder, and its row among those of all pools
    rung_row: int = 0
    filled: int = 0  # fillers heard
    admitted: float = -1.0
    delay: float = 0.0  # on the way to the listener, without jitter
    jitter: float = 1.0  # what the listener's jitter is multiplied by
    deadline: float = 0.0
    patient_from: float = 0.0  # its caller's patience counts from then
    # at the engine
    generated: int = 0
    computed: int = 0
    planned: int = 0
    once_computed: int = 0  # tokens that a preemption threw away
    blocks: int = 0
    shared: int = 0  # of them the blocks of the shared prefix
    kept: int = 0  # full blocks whose hashes stay when it is preempted
    mark: int = 0  # blocks that may be taken before they are
    preemptions: int = 0
    due: int = 0
    # at the codec
    ready: int = 0
    sent: int = 0
    sent_tokens: int = 0
    in_codec: int = 0  # 0 no, 1 queued, 2 in a batch
    active: bool = False
    queued_at: float = 0.0
    # at the listener
    mode: int = player.SILENT
    play_end: float = 0.0
    held: float = 0.0
    since: float = 0.0
    started: float = -1.0
    first_arrival: float = 0.0
    last_arrival: float = 0.0
    last_audio: float = 0.0
    received: float = 0.0
    lost: float = 0.0
    stalls: int = 0
    stall_total: float = 0.0
    stall_largest: float = 0.0
    audible: int = 0
    worst_a: float = 0.0
    worst_c: float = 0.0
    worst_pace: float = -1.0
    waits: Waits = field(default_factory=Waits)  # why it stalls
    lost_at: float | None = None  # when its replica failed for good

    def begin_again(self, prompt: int, tokens: int) -> None:
        """Its caller asks again, for all of it: nothing of what was done for it remains."""
        self.prompt, self.tokens = prompt, tokens
        self.home, self.rung, self.rung_row = None, None, 0
        self.engine, self.admitted, self.delay = None, -1.0, 0.0
        self.generated = self.computed = self.planned = self.once_computed = 0
        self.blocks = self.shared = self.kept = self.mark = self.due = self.ready = 0
        self.in_codec, self.active, self.queued_at = 0, False, 0.0
        self.home = self.rung = None
        self.rung_row = 0
        self.waits = Waits()

    @property
    def decoding(self) -> bool:
        """Takes one token a step."""
        return self.state in (at.DECODING, at.ZOMBIE)

    @property
    def done(self) -> bool:
        """Nobody waits for it: its caller has left, or has it all (its end is seen a step late)."""
        return self.aborted or self.fully_sent

    @property
    def fully_sent(self) -> bool:
        """The last chunk has left the server."""
        return self.sent_tokens == self.tokens
