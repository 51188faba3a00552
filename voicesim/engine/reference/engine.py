"""One continuous-batching engine, one SimPy event per step.

The kinds of engine (``kinds.py``) differ in a few rules only, each a method of its own here and a
function in the kernel's ``batch.py``: ``admits`` (what must be free to start a stream),
``first_in_line`` and ``requeue`` (the order of admission), ``victim`` (who is preempted) and
``prompts_due`` (the mix of prefill and decode).
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from voicesim.engine import blame, cost, kinds, trace
from voicesim.engine import layout as at
from voicesim.engine.card import slowdown
from voicesim.engine.kinds import DECODE_FIRST, MAX_UTILIZATION, NO_EVICT, SGLANG
from voicesim.engine.reference.blame import Sums
from voicesim.engine.reference.codec import Codec
from voicesim.engine.reference.stream import Stream
from voicesim.engine.reference.timeline import Work
from voicesim.engine.spec import INF
from voicesim.listener.player import PLAYING
from voicesim.workload.rng import hash_key_py, table_index_py


class Card:
    """A GPU that several engines share: those with work on it slow each other."""

    def __init__(self, engines: list["Engine"]):
        self.engines = engines
        for engine in engines:
            engine.card = self

    def reshare(self) -> None:
        """Everything on the GPU goes at the pace that those who are there leave each other."""
        busy = [e for e in self.engines if (e.stepping and not e.in_host) or e.codec.batches]
        shares = [e.spec.on_card for e in busy]
        on = self.engines[0].spec.on_card
        slow = slowdown(
            on.mode, len(busy), sum(s.sm for s in shares), sum(s.bandwidth for s in shares),
            on.switching,
        )  # fmt: skip
        for engine in self.engines:
            engine.codec.go_at(slow)


class Engine:
    """Replica ``number`` of the pool, with its codec stage on the same GPU or beside it."""

    def __init__(self, world: Any, number: int, group: Any):
        self.world, self.group, self.env, self.number = world, group, world.env, number
        self.spec = group.spec
        self.running: list[Stream] = []  # in order of admission
        self.waiting: deque[Stream] = deque()
        self.free_blocks = self.spec.blocks
        self.prefix_blocks = self.spec.prefix // self.spec.block_size
        self.prefix = self.prefix_blocks * self.spec.block_size  # tokens
        self.prefix_cached = False
        self.prefix_holders = 0
        self.blocks_taken = 0  # all that ever left the free list
        self.mixes = kinds.mixes(self.spec.kind, self.spec.mixed_chunk)
        self.first_ratio = kinds.first_ratio(self.spec.conservativeness)
        self.ratio = self.first_ratio  # SGLang's new-token ratio
        self.full_at = 0  # SGLang: running streams when nobody else could start
        self.decodes_since_prompts = 0
        self.decoded = False  # whether the step in flight decodes
        self.steps = 0
        self.step: Work | None = None
        self.gpu = self.host = self.solo = 0.0
        self.stepping = self.in_host = False  # in_host: before its work comes to a shared GPU
        self.card: Card | None = None
        self.kicked = self.env.event()
        self.kick_at: float | None = None
        self.chunks_emitted = 0
        self.boundary = 0.0
        self.stretch = 1.0
        self.busy_gpu = self.busy_host = 0.0
        self.waiting_gauge = 0
        self.live = 0
        self.live_since = self.live_area = 0.0
        self.open = self.up = True
        self.served = self.failed = 0  # streams sent whole, lost here
        self.gray, self.drop_after = False, INF
        self.slowdown = 1.0
        self.epoch = 0  # halts so far
        self.sums = Sums(self)
        self.codec = Codec(self)
        self.env.process(self.serve(self.kicked))

    def serve(self, kicked: Any) -> Any:
        """Step after step while there is work; else wait for a kick."""
        while True:
            yield kicked
            self.kicked = kicked = self.env.event()
            self.chunks_emitted = 0
            self.drop_aborted()  # streams that were held
            going = self.begin_step()
            self.codec.reshare()
            while going:
                assert self.step is not None
                yield self.step.done
                if self.in_host:
                    self.to_gpu()
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
        stream.waits.submitted(self.env.now)
        self.world.note(trace.ADMITTED, stream.utterance, self.number)
        self.waiting.append(stream)
        if self.gray:
            self.world.drop_later(stream)
        elif not self.stepping:
            self.wake(self.env.now)

    @property
    def active(self) -> int:
        """Streams that take part in steps: the running but those that pause."""
        return sum(s.state != at.HELD for s in self.running)

    @property
    def queue_full(self) -> bool:
        """No further stream may wait."""
        return len(self.waiting) >= self.spec.max_engine_queue

    def wake(self, t: float) -> None:
        """Kick the idle engine at time t, after everything else of that instant, unless it gets a
        kick by then."""
        if self.kick_at is None or t < self.kick_at:
            self.kick_at = t
            kick, epoch = self.env.at(t, at.KICK, self.number), self.epoch
            kick.callbacks.append(lambda _: self._kicked() if epoch == self.epoch else None)

    def _kicked(self) -> None:
        if self.kick_at != self.env.now:  # overtaken
            return
        self.kick_at = None
        if not self.stepping:
            self.env.fire(self.kicked)

    def halt(self) -> list[Stream]:
        """The replica stops and forgets everything; returns the streams that were here: those that
        waited, the batch, those at the codec."""
        if self.step is not None:
            self.step.stop()
        for stream in self.running:
            if stream.aborted and stream.state != at.ZOMBIE:  # of others cancelled it is counted
                self.world.counters["discarded_tokens"] += stream.generated
        here = list(dict.fromkeys([*self.waiting, *self.running, *self.codec.halt()]))
        for stream in here:
            stream.state = at.WAITING
            stream.computed = stream.planned = stream.blocks = stream.shared = stream.kept = 0
            stream.in_codec, stream.active = 0, False
        self.running, self.waiting = [], deque()
        self.free_blocks = self.spec.blocks
        self.prefix_cached, self.prefix_holders = False, 0
        self.ratio, self.full_at, self.decodes_since_prompts = self.first_ratio, 0, 0
        self.stepping = self.in_host = self.decoded = False
        self.kick_at = None
        self.chunks_emitted, self.boundary, self.stretch = 0, 0.0, 1.0
        self.epoch += 1
        self.kicked = self.env.event()
        self.env.process(self.serve(self.kicked))
        self.codec.reshare()  # the others on a shared card go on without it
        return here

    # --- schedule() ---------------------------------------------------------------------------

    def begin_step(self) -> bool:
        """schedule(): who computes what in the next step.  False: nothing to do.

        Mixed: decodes first, prompts in what they leave of the budget.  Else a step has prompts
        alone when they are due and one can go on or start, and otherwise decodes alone.
        """
        self.pace()
        idle = not self.active
        if idle:
            self.full_at = 0
        decodes: list[tuple[Stream, int]] = []
        prompts: list[tuple[Stream, int]] = []
        preempted = False
        if not self.mixes and self.prompts_due():
            preempted = self.plan_prompts(prompts, self.spec.budget, False, idle)
        if not prompts:
            preempted = self.plan_decodes(decodes) or preempted
        if self.mixes:
            budget = self.spec.budget - len(decodes)
            preempted = self.plan_prompts(prompts, budget, preempted, idle)
        self.waiting_gauge = len(self.waiting)  # num_requests_waiting: set after scheduling
        self.note_step(bool(decodes), bool(prompts), preempted)
        if not decodes and not prompts:
            paused = [s for s in self.running if s.state == at.HELD]
            if preempted:
                self.wake(self.env.now)
            elif paused:
                self.wake(min(self.needed_from(s) for s in paused))
            return False
        self.decoded = bool(decodes)
        self.start(decodes + prompts, self.chunks_emitted)
        return True

    def plan_decodes(self, scheduled: list[tuple[Stream, int]]) -> bool:
        """A token for every decoding stream; True if somebody had to be preempted for it."""
        preempted = False
        if self.spec.kind == SGLANG:
            preempted = self.retract()
        i = 0
        while i < len(self.running) and self.running[i].state != at.PREFILLING:
            stream = self.running[i]
            if stream.state == at.HELD:
                i += 1
                continue
            while not self.allocate(stream, 1):
                preempted = True
                if self.preempt(self.victim()) is stream:
                    break
            else:
                scheduled.append((stream, 1))
                i += 1
                continue
            break
        return preempted

    def retract(self) -> bool:
        """SGLang: streams are sent back until the next token of all others fits."""
        retracted = False
        while True:
            decoding = [s for s in self.running if s.decoding]
            needed = sum(self.blocks_for(s.computed + 1) - s.blocks for s in decoding)
            if needed <= self.free_blocks:
                break
            self.preempt(self.victim())
            retracted = True
        if retracted:
            declared = sum(self.declared(s) for s in decoding)
            generated = sum(s.generated for s in decoding)
            self.ratio = kinds.ratio_after_retraction(generated, len(decoding), declared)
        return retracted

    def plan_prompts(
        self, scheduled: list[tuple[Stream, int]], budget: int, preempted: bool, idle: bool
    ) -> bool:
        """The unfinished prompt goes on first, then the waiting start; nobody does in a step that
        preempted.  True if somebody was preempted."""
        for stream in [s for s in self.running if s.state == at.PREFILLING]:  # one at most
            left = stream.prompt + stream.generated - stream.computed
            n = min(left, budget)
            if self.spec.kind == SGLANG:
                n = max(0, min(n, int(self.expected_free())))  # as far as there is room
            if not self.allocate(stream, n):
                self.preempt(self.victim())
                preempted = True
                break
            if n or self.spec.kind != SGLANG:
                scheduled.append((stream, n))
            budget = 0 if n < left else budget - n
        if not preempted:
            self.admit_waiting(scheduled, budget, idle)
        return preempted

    def admit_waiting(self, scheduled: list[tuple[Stream, int]], budget: int, idle: bool) -> None:
        """Head of line: the first that does not fit stops admission."""
        while self.waiting and budget > 0 and not self.full_at:
            if self.active >= self.spec.max_num_seqs:
                self.stay_full()
                break
            stream = self.first_in_line()
            if self.spec.overlap and not idle and stream.admitted > self.boundary:
                break
            whole = stream.prompt + stream.generated
            shared = self.prefix if self.prefix_cached else 0
            hit = max(shared, stream.hit)
            if stream.kept:
                hit = max(hit, shared + self.kept_blocks(stream) * self.spec.block_size)
            n = min(whole - hit, budget)
            if not self.admits(stream, shared, hit + n, scheduled):
                self.stay_full()
                break
            self.waiting.remove(stream)
            self.running.append(stream)
            stream.state = at.PREFILLING
            if shared:
                self.hit_prefix(stream)
            stream.kept = 0
            self.hit_history(stream, hit)
            stream.waits.found = hit
            if kinds.holds_whole(self.spec.kind):
                self.take(self.blocks_for(whole) - stream.blocks)
                stream.blocks = self.blocks_for(whole)
            self.allocate(stream, n)
            scheduled.append((stream, n))
            budget -= n

    def note_step(self, decodes: bool, prompts: bool, preempted: bool) -> None:
        """What a kind remembers of a step: how long ago prompts were in (decode_first), whether the
        batch has shrunk and how much of the future to reserve (SGLang)."""
        if prompts:
            self.decodes_since_prompts = 0
        elif decodes:
            self.decodes_since_prompts += 1
            if len(self.running) < self.full_at:
                self.full_at = 0
            if not preempted:
                self.ratio = kinds.next_ratio(self.ratio, self.first_ratio)
        elif not self.waiting and not self.running:
            self.ratio = self.first_ratio

    # --- lead pacing --------------------------------------------------------------------------

    def needed_from(self, stream: Stream) -> float:
        """When the listener has no more than ``pace`` seconds in hand, of the chunks that have left
        the server: the frames in the codec are no lead yet."""
        return stream.requested if stream.mode < PLAYING else stream.play_end - self.spec.pace

    def pace(self) -> None:
        """Streams that are ahead of their listeners pause: their KV stays, their slot is free.
        Those that are needed again go on, the nearest to silence first, but not in slots kept for
        starts (https://github.com/sgl-project/sglang-omni/pull/1903)."""
        if self.spec.pace == INF:
            return
        now = self.env.now
        for stream in self.running:
            if stream.state == at.DECODING and self.needed_from(stream) > now:
                stream.state = at.HELD
                stream.waits.paused(self.sums, now)
        paused = [s for s in self.running if s.state == at.HELD]
        for stream in sorted(paused, key=self.needed_from):
            full = self.active >= self.spec.max_num_seqs - self.spec.starts
            if full or self.needed_from(stream) > now:
                break
            stream.state = at.DECODING
            stream.waits.goes_on(self.sums)

    # --- the rules by which the kinds differ --------------------------------------------------

    def prompts_due(self) -> bool:
        """Where prompts have steps of their own: is the next step to be one?  SGLang: whenever one
        can start.  decode_first: when nobody decodes, or so many decode steps after the last."""
        if self.spec.kind == DECODE_FIRST:
            every = self.spec.interleave
            waited = every > 0 and self.decodes_since_prompts >= every
            return waited or not any(s.decoding for s in self.running)
        return True

    def first_in_line(self) -> Stream:
        """Order of admission: first come, first served."""
        return self.waiting[0]

    def requeue(self, stream: Stream) -> None:
        """A preempted stream waits at the head of the line; SGLang's goes to its end."""
        if self.spec.kind == SGLANG:
            self.waiting.append(stream)
        else:
            self.waiting.appendleft(stream)

    def victim(self) -> Stream:
        """Who gives way when the KV cache is full: the most recently admitted; SGLang's has the
        fewest generated tokens, of these the longest prompt, of these it is the most recent."""
        if self.spec.kind == SGLANG:
            return min(reversed(self.running), key=lambda s: (s.generated, -s.prompt))
        return self.running[-1]

    def admits(
        self, stream: Stream, shared: int, upto: int, scheduled: list[tuple[Stream, int]]
    ) -> bool:
        """Is there room in the KV cache to start the stream?

        vLLM wants blocks for the whole current sequence or ``upto`` this chunk; NO_EVICT for all
        that it and the running have declared; MAX_UTILIZATION for the whole current sequence;
        SGLang for the prompt, its declared tokens and a share of those of the running.
        """
        spec, whole = self.spec, stream.prompt + stream.generated
        held = self.prefix_blocks if shared and self.prefix_holders else 0
        if spec.kind == SGLANG:
            own = kinds.future(self.declared(stream), stream.generated)
            return whole - held * spec.block_size + own < self.expected_free(scheduled)
        if spec.kind == NO_EVICT:
            promised = sum(
                self.blocks_for(s.prompt + spec.max_new) - s.blocks for s in self.running
            )
            need = self.blocks_for(stream.prompt + spec.max_new) + promised
        elif spec.reserve or spec.kind == MAX_UTILIZATION:
            need = self.blocks_for(whole)
        else:
            need = self.blocks_for(upto)
        return need - held <= self.free_blocks

    # --- what these rules count ---------------------------------------------------------------

    def declared(self, stream: Stream) -> int:
        """Tokens that SGLang lets the stream take at most."""
        cache = self.spec.blocks * self.spec.block_size
        return kinds.declared(stream.prompt, self.spec.max_new, cache)

    def expected_free(self, scheduled: Sequence[tuple[Stream, int]] = ()) -> float:
        """KV tokens that SGLang expects to remain: of what the decoding streams declared only a
        ratio is reserved, of those whose prompt ends in this step everything."""
        ending = [s for s, n in scheduled if s.computed + n == s.prompt + s.generated]
        guessed = sum(
            kinds.future(self.declared(s), s.generated) for s in self.running if s.decoding
        )
        sure = sum(kinds.future(self.declared(s), s.generated) for s in ending if not s.decoding)
        return self.free_blocks * self.spec.block_size - sure - self.ratio * guessed

    def stay_full(self) -> None:
        """SGLang does not look at the waiting again before the batch has shrunk."""
        if self.spec.kind == SGLANG:
            self.full_at = len(self.running)

    def kept_blocks(self, stream: Stream) -> int:
        """Full blocks of a preempted stream that nobody has overwritten yet, beyond the prefix.

        Freed blocks queue for use behind those free before them, the last of a stream first."""
        return max(0, stream.kept - max(0, self.blocks_taken - stream.mark))

    # --- the step -----------------------------------------------------------------------------

    def start(self, scheduled: list[tuple[Stream, int]], chunks_emitted: int) -> None:
        """The step's cost, and the step."""
        spec, counters = self.spec, self.world.counters
        tokens = kv = decodes = context = 0
        pairs = encode = 0.0
        for stream, n in scheduled:
            tokens += n
            kv += stream.computed + n
            if stream.decoding:
                pairs += stream.computed + n
                decodes += 1
                context += stream.computed + n
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
        counters["max_batch"] = max(counters["max_batch"], self.active)
        streams = self.active if self.mixes else len(scheduled)
        gpu = cost.gpu_seconds(spec.step.params, self.compute(tokens), float(kv), pairs) + encode
        host = cost.host_seconds(spec.step.params, float(streams), float(chunks_emitted))
        noise = 1.0
        if spec.noise is not None:
            key = hash_key_py(spec.seed, at.P_STEP_NOISE, self.number, self.steps)
            noise = float(spec.noise[table_index_py(key)])
        noise = noise * self.slowdown
        full = float(cost.step_seconds(spec.step.params, gpu, host))
        seconds = full * noise
        if spec.blame:
            self.sums.step_begins(decodes, context, tokens - decodes, kv, full)
        self.gpu, self.host, self.solo = gpu * noise, host * noise, seconds
        self.stepping = True
        if self.card is None:
            self.step = Work(self.env, seconds, at.STEP_END, self.number)
        else:
            self.two_phases(gpu, host, noise)

    def two_phases(self, gpu: float, host: float, noise: float) -> None:
        """On a shared card: the step begins in the host, if it has work there, or on the GPU."""
        spec, on = self.spec, self.spec.on_card
        self.gpu = gpu * on.gpu_share * noise
        if spec.host_noise is not None:
            key = hash_key_py(self.world.spec.seed, at.P_HOST_NOISE, self.number, self.steps)
            noise = float(spec.host_noise[table_index_py(key)]) * self.slowdown
        moved_up = on.host_share * gpu  # of what the cost has on the GPU
        first = (cost.host_phase(spec.step.params, gpu, host) + moved_up) * noise
        self.host = (host + moved_up) * noise
        self.solo = first + self.gpu
        self.in_host = first > 0.0
        stretched = first * on.host_stretch
        seconds = stretched if self.in_host else self.gpu
        self.step = Work(self.env, seconds, at.STEP_END, self.number)
        self.step.lost = stretched - first

    def to_gpu(self) -> None:
        """On a shared card: the step's work comes to the GPU."""
        assert self.step is not None
        began, lost = self.step.started, self.step.lost
        self.in_host = False
        self.step = Work(self.env, self.gpu, at.STEP_END, self.number)
        self.step.started, self.step.lost = began, lost
        self.codec.reshare()

    def compute(self, tokens: int) -> float:
        table = self.spec.step.compute_s
        return float(table[min(tokens, len(table) - 1)])

    # --- KV blocks ----------------------------------------------------------------------------

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.spec.block_size)

    def allocate(self, stream: Stream, n: int) -> bool:
        """Blocks for the next n tokens of the stream, all or nothing."""
        needed = max(0, self.blocks_for(stream.computed + n) - stream.blocks)
        if needed > self.free_blocks:
            return False
        self.take(needed)
        stream.blocks += needed
        if self.prefix and not self.prefix_cached and stream.computed + n >= self.prefix:
            self.prefix_cached = True  # as vLLM: a block can be hit once it is allocated
            stream.shared = self.prefix_blocks
            self.prefix_holders = 1
        return True

    def take(self, blocks: int) -> None:
        """Blocks leave the free list."""
        self.free_blocks -= blocks
        self.blocks_taken += blocks

    def hit_prefix(self, stream: Stream) -> None:
        """The prefix is computed and in the cache: its blocks are shared, not taken again."""
        if self.prefix_holders == 0:  # cached and unreferenced blocks count as free
            self.take(self.prefix_blocks)
        self.prefix_holders += 1
        stream.blocks = stream.shared = self.prefix_blocks
        stream.computed = self.prefix

    def hit_history(self, stream: Stream, hit: int) -> None:
        """The first ``hit`` tokens need no computing; beyond the prefix they take blocks."""
        if hit > stream.computed:
            more = self.blocks_for(hit) - stream.blocks
            self.take(more)
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
        """The victim gives everything back and waits again."""
        if self.spec.keep_hashes:
            stays = (victim.computed - self.prefix) // self.spec.block_size
            victim.kept, victim.mark = max(0, stays), self.blocks_taken + self.free_blocks
        if victim.state == at.HELD:
            victim.waits.goes_on(self.sums)
        self.running.remove(victim)
        self.release(victim)
        if victim.state == at.ZOMBIE:
            victim.state = at.GENERATED
            if victim.fully_sent or victim.aborted:
                self.world.maybe_forget(victim)
            return victim
        victim.waits.preempted(self.sums, self.env.now)
        self.world.note(trace.PREEMPTED, victim.utterance, self.number)
        victim.once_computed = max(victim.once_computed, victim.computed)
        victim.computed = 0
        victim.state = at.WAITING
        victim.preemptions += 1
        self.world.counters["preemptions"] += 1
        self.requeue(victim)
        return victim

    # --- update_from_output() -----------------------------------------------------------------

    def end_step(self) -> None:
        """Tokens are sampled; chunks fill, streams end; cancelled streams leave."""
        assert self.step is not None
        self.step.lose(1.0)
        if self.spec.blame:
            self.sums.step_ends(self.step.started, self.solo, self.env.now, self.step.lost)
            row = self.sums.row
            what = [int(row[c]) for c in (blame.WIDTH, blame.DECODES, blame.PROMPTS, blame.KV)]
            self.world.note(
                trace.STEP, self.steps, self.number, what, self.step.started, self.env.now,
                self.gpu, self.host,
            )  # fmt: skip
        self.account()
        self.steps += 1
        self.chunks_emitted = 0
        over = [s for s in self.running if s.state == at.ZOMBIE]
        stepped = [s for s in self.running if s.decoding] if self.decoded else over
        for stream in stepped if self.decoded else ():
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
            if stream.planned:
                what = [stream.planned, stream.computed, 0, 0]
                start, now = self.step.started, self.env.now
                self.world.note(trace.PREFILL, stream.utterance, self.number, what, start, now)
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
        stream.waits.joined(stream, self.sums, self.env.now)
        if stream.due == 0:
            stream.due = self.codec.next_chunk(stream, 0, 0)
        if stream.generated == stream.due:
            self.chunk_full(stream)

    def chunk_full(self, stream: Stream) -> None:
        """A chunk's worth of tokens is there, and perhaps the whole utterance."""
        if stream.due < stream.tokens:
            stream.due += self.codec.next_chunk(stream, stream.ready + 1, stream.due)
        elif self.spec.overlap:
            stream.state = at.ZOMBIE  # its end is seen one step late
        else:
            self.leave(stream)
        self.chunks_emitted += 1
        self.codec.chunk_ready(stream)

    def leave(self, stream: Stream) -> None:
        """What the stream held is free, unless its caller left the session open (vLLM's streaming
        input: the KV stays until the idle timeout)."""
        self.running.remove(stream)
        stream.state = at.GENERATED
        uniform = self.world.uniform(at.P_LEFT_OPEN, stream.utterance, 0)
        if stream.aborted or uniform >= self.spec.left_open:
            self.release(stream)
        elif self.spec.idle_timeout < INF:
            number = (at.T_IDLE << 40) | stream.utterance
            timer = self.env.at(self.env.now + self.spec.idle_timeout, at.TIMER, number)
            epoch = self.epoch
            timer.callbacks.append(lambda _: self.idle_timeout(stream, epoch))

    def idle_timeout(self, stream: Stream, epoch: int) -> None:
        """A session that was left open is closed; who waits may start."""
        if epoch != self.epoch:  # the replica has lost its memory since
            return
        self.release(stream)
        if (self.waiting or self.active) and not self.stepping:
            self.wake(self.env.now)

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
