"""One continuous-batching engine as vLLM V1 schedules it, one SimPy event per step.

Engines of this family differ in four rules only, each a method of its own here and a function in
the kernel's ``batch.py``: ``admit_need`` (tokens whose blocks must be free to admit a stream),
``first_in_line`` (the order of admission), ``victim`` (who is preempted) and ``begin_step`` (the
mix of prefill and decode in a step).
"""

from collections import deque
from typing import Any

from voicesim.engine import cost
from voicesim.engine import layout as at
from voicesim.engine.reference.codec import Codec
from voicesim.engine.reference.stream import Stream
from voicesim.engine.reference.timeline import Work
from voicesim.workload.rng import hash_key_py, table_index_py


class Engine:
    """Replica ``number`` of the pool, with its codec stage on the same GPU or beside it."""

    def __init__(self, world: Any, number: int):
        self.world, self.spec, self.env, self.number = world, world.spec, world.env, number
        self.running: list[Stream] = []  # in order of admission
        self.waiting: deque[Stream] = deque()
        self.free_blocks = self.spec.blocks
        self.prefix_blocks = self.spec.prefix // self.spec.block_size
        self.prefix = self.prefix_blocks * self.spec.block_size  # tokens
        self.prefix_cached = False
        self.prefix_holders = 0
        self.steps = 0
        self.step: Work | None = None
        self.gpu = self.host = self.solo = 0.0
        self.stepping = False
        self.kicked = self.env.event()
        self.kick_pending = False
        self.chunks_emitted = 0
        self.boundary = 0.0
        self.stretch = 1.0
        self.busy_gpu = self.busy_host = 0.0
        self.waiting_gauge = 0
        self.live = 0
        self.live_since = self.live_area = 0.0
        self.open = True
        self.codec = Codec(self)
        self.env.process(self.serve())

    def serve(self) -> Any:
        """Step after step while there is work; else wait for a kick."""
        while True:
            yield self.kicked
            self.kicked = self.env.event()
            self.chunks_emitted = 0
            going = self.begin_step()
            self.codec.reshare()
            while going:
                assert self.step is not None
                yield self.step.done
                self.end_step()
                going = self.begin_step()
                self.codec.reshare()
                self.codec.dispatch()

    # --- streams come -------------------------------------------------------------------------

    def submit(self, stream: Stream) -> None:
        """A stream joins the waiting list; an idle engine looks up once this instant is over."""
        stream.engine = self
        stream.state = at.WAITING
        stream.admitted = self.env.now
        self.waiting.append(stream)
        if not self.stepping and not self.kick_pending:
            self.kick()

    def kick(self) -> None:
        """Wake the idle engine after everything else of this instant."""
        self.kick_pending = True
        kick = self.env.at(self.env.now, at.KICK, self.number)
        kick.callbacks.append(self._kicked)

    def _kicked(self, _: Any) -> None:
        self.kick_pending = False
        if not self.stepping:
            self.env.fire(self.kicked)

    # --- schedule() ---------------------------------------------------------------------------

    def begin_step(self) -> bool:
        """vLLM's schedule(): the running first, then the waiting.  False: nothing to do."""
        idle = not self.running
        budget = self.spec.budget
        chunks_emitted = self.chunks_emitted
        scheduled: list[tuple[Stream, int]] = []
        preempted = False
        i = 0
        while i < len(self.running):
            stream = self.running[i]
            n = min(stream.prompt + stream.generated - stream.computed, budget)
            while not self.allocate(stream, n):
                preempted = True
                if self.preempt(self.victim()) is stream:
                    break
            else:
                scheduled.append((stream, n))
                budget -= n
                i += 1
                continue
            break
        if not preempted:
            self.admit_waiting(scheduled, budget, idle)
        self.waiting_gauge = len(self.waiting)  # num_requests_waiting: set after scheduling
        if not scheduled:
            if preempted:
                self.kick()
            return False
        self.start(scheduled, chunks_emitted)
        return True

    def admit_waiting(self, scheduled: list[tuple[Stream, int]], budget: int, idle: bool) -> None:
        """Head of line: the first that does not fit stops admission."""
        while self.waiting and budget > 0 and len(self.running) < self.spec.max_num_seqs:
            stream = self.first_in_line()
            if self.spec.overlap and not idle and stream.admitted > self.boundary:
                break
            whole = stream.prompt + stream.generated
            shared = self.prefix if self.prefix_cached else 0
            hit = max(shared, stream.hit)
            n = min(whole - hit, budget)
            held = self.prefix_blocks if shared and self.prefix_holders else 0
            if self.blocks_for(self.admit_need(whole, hit + n)) - held > self.free_blocks:
                break
            self.waiting.remove(stream)
            self.running.append(stream)
            stream.state = at.PREFILLING
            if shared:
                self.hit_prefix(stream)
            self.hit_history(stream, hit)
            self.allocate(stream, n)
            scheduled.append((stream, n))
            budget -= n

    def first_in_line(self) -> Stream:
        """Order of admission: first come, first served; the preempted are at the head."""
        return self.waiting[0]

    def admit_need(self, whole: int, now: int) -> int:
        """Tokens whose KV blocks must be free: the whole current sequence, or this chunk."""
        return whole if self.spec.reserve else now

    def victim(self) -> Stream:
        """Who gives way when the KV cache is full: the most recently admitted."""
        return self.running[-1]

    def start(self, scheduled: list[tuple[Stream, int]], chunks_emitted: int) -> None:
        """The step's cost, and the step."""
        spec, counters = self.spec, self.world.counters
        tokens = kv = 0
        pairs = encode = 0.0
        for stream, n in scheduled:
            tokens += n
            kv += stream.computed + n
            if stream.decoding:
                pairs += stream.computed + n
                stream.computed += 1
                counters["stream_steps"] += 1
        for stream, n in scheduled:
            if not stream.decoding:
                pairs += n * (stream.computed + 0.5 * (n + 1))
                encode = encode + stream.encode  # images, before their prompt
                stream.encode = 0.0
                stream.planned = n
                counters["prefill_tokens"] += n
                again = stream.once_computed - stream.computed
                counters["recomputed_tokens"] += min(n, max(again, 0))
        counters["steps"] += 1
        counters["max_batch"] = max(counters["max_batch"], len(self.running))
        gpu = cost.gpu_seconds(spec.step.params, self.compute(tokens), float(kv), pairs) + encode
        host = cost.host_seconds(spec.step.params, float(len(self.running)), float(chunks_emitted))
        noise = 1.0
        if spec.noise is not None:
            key = hash_key_py(spec.seed, at.P_STEP_NOISE, self.number, self.steps)
            noise = float(spec.noise[table_index_py(key)])
        seconds = float(cost.step_seconds(spec.step.params, gpu, host)) * noise
        self.gpu, self.host, self.solo = gpu * noise, host * noise, seconds
        self.stepping = True
        self.step = Work(self.env, seconds, at.STEP_END, self.number)

    def compute(self, tokens: int) -> float:
        table = self.spec.step.compute_s
        return float(table[min(tokens, len(table) - 1)])

    # --- KV blocks ----------------------------------------------------------------------------

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.spec.block_size)

    def allocate(self, stream: Stream, n: int) -> bool:
        """Blocks for the next n tokens of the stream, all or nothing."""
        needed = self.blocks_for(stream.computed + n) - stream.blocks
        if needed > self.free_blocks:
            return False
        self.free_blocks -= needed
        stream.blocks += needed
        if self.prefix and not self.prefix_cached and stream.computed + n >= self.prefix:
            self.prefix_cached = True  # as vLLM: a block can be hit once it is allocated
            stream.shared = self.prefix_blocks
            self.prefix_holders = 1
        return True

    def hit_prefix(self, stream: Stream) -> None:
        """The prefix is computed and in the cache: its blocks are shared, not taken again."""
        if self.prefix_holders == 0:  # cached and unreferenced blocks count as free
            self.free_blocks -= self.prefix_blocks
        self.prefix_holders += 1
        stream.blocks = stream.shared = self.prefix_blocks
        stream.computed = self.prefix

    def hit_history(self, stream: Stream, hit: int) -> None:
        """The first ``hit`` tokens need no computing; beyond the prefix they take blocks."""
        if hit > stream.computed:
            more = self.blocks_for(hit) - stream.blocks
            self.free_blocks -= more
            stream.blocks += more
            stream.computed = hit
        self.world.counters["cached_tokens"] += hit

    def release(self, stream: Stream) -> None:
        """Everything goes back, the shared prefix only if nobody else holds it."""
        self.free_blocks += stream.blocks - stream.shared
        if stream.shared:
            self.prefix_holders -= 1
            if self.prefix_holders == 0:
                self.free_blocks += stream.shared
        stream.blocks = stream.shared = 0

    def preempt(self, victim: Stream) -> Stream:
        """The victim gives everything back and goes to the head of the line."""
        self.running.remove(victim)
        self.release(victim)
        if victim.state == at.ZOMBIE:
            victim.state = at.GENERATED
            if victim.fully_sent or victim.aborted:
                self.world.maybe_forget(victim)
            return victim
        victim.once_computed = max(victim.once_computed, victim.computed)
        victim.computed = 0
        victim.state = at.WAITING
        victim.preemptions += 1
        self.world.counters["preemptions"] += 1
        self.waiting.appendleft(victim)
        return victim

    # --- update_from_output() -----------------------------------------------------------------

    def end_step(self) -> None:
        """Tokens are sampled; chunks fill, streams end; cancelled streams leave."""
        assert self.step is not None
        self.account()
        self.steps += 1
        self.chunks_emitted = 0
        stepped = [s for s in self.running if s.decoding]
        over = [s for s in stepped if s.state == at.ZOMBIE]
        for stream in stepped:
            stream.generated += 1
        self.drop_aborted()
        for stream in stepped:
            if stream in over:
                self.leave(stream)
                if stream.fully_sent or stream.aborted:
                    self.world.maybe_forget(stream)
            elif stream.state == at.DECODING and stream.generated == stream.due:
                self.chunk_full(stream)
        for stream in [s for s in self.running if s.state == at.PREFILLING]:
            stream.computed += stream.planned
            stream.planned = 0
            if stream.computed == stream.prompt + stream.generated:
                self.prompt_done(stream)
        self.boundary = self.step.started
        self.stepping = False

    def prompt_done(self, stream: Stream) -> None:
        """The last prompt token is in: this step samples a token."""
        self.world.counters["stream_steps"] += 1
        stream.generated += 1
        stream.state = at.DECODING
        if stream.due == 0:
            stream.due = self.codec.chunk_tokens(stream, 0, 0)
        if stream.generated == stream.due:
            self.chunk_full(stream)

    def chunk_full(self, stream: Stream) -> None:
        """A chunk's worth of tokens is there, and perhaps the whole utterance."""
        if stream.due < stream.tokens:
            stream.due += self.codec.chunk_tokens(stream, stream.ready + 1, stream.due)
        elif self.spec.overlap:
            stream.state = at.ZOMBIE  # its end is seen one step late
        else:
            self.leave(stream)
        self.chunks_emitted += 1
        self.codec.chunk_ready(stream)

    def leave(self, stream: Stream) -> None:
        self.running.remove(stream)
        self.release(stream)
        stream.state = at.GENERATED

    def drop_aborted(self) -> None:
        """Cancelled streams leave; one that decodes is in the next step if that is planned."""
        for stream in [s for s in self.running if s.aborted and s.state != at.ZOMBIE]:
            self.world.counters["discarded_tokens"] += stream.generated
            if self.spec.overlap and stream.state == at.DECODING:
                stream.state = at.ZOMBIE
                continue
            self.leave(stream)
            self.world.maybe_forget(stream)

    def account(self) -> None:
        """Busy seconds inside the observed window, and how far sharing stretches a step."""
        assert self.step is not None
        wall = self.env.now - self.step.started
        if wall > 0.0:
            seen = self.world.observed(self.step.started, self.env.now) / wall
            self.busy_gpu += self.gpu * seen
            self.busy_host += self.host * seen
            self.stretch += 0.0625 * (wall / self.solo - self.stretch)

    def predicted_step(self, tokens: int, streams: int, kv: int) -> float:
        """Seconds of a step without noise."""
        params = self.spec.step.params
        gpu = cost.gpu_seconds(params, self.compute(tokens), float(kv), float(kv))
        return cost.step_seconds(params, gpu, cost.host_seconds(params, float(streams), 0.0))
