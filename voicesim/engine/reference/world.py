"""The run: sessions, the gateway that admits and routes, the network and the listeners."""

from collections import deque
from collections.abc import Callable, Sequence
from math import frexp
from typing import Any

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine import trace
from voicesim.engine.blame import C_TIME, N_STALL_F, N_STALL_I, NETWORK, PACING, SCHEDULE
from voicesim.engine.kinds import must_fit
from voicesim.engine.readings import Readings
from voicesim.engine.record import RunRecord
from voicesim.engine.reference.blame import stall_row
from voicesim.engine.reference.engine import Card, Engine
from voicesim.engine.reference.stream import Stream
from voicesim.engine.reference.timeline import Timeline
from voicesim.engine.spec import INF, MOST_AT_ONCE, NoProgressError, PoolSpec, Rung
from voicesim.listener import player
from voicesim.policy import admission, degradation, routing
from voicesim.policy.admission import ADMIT, QUEUE, REFUSE
from voicesim.policy.view import Request
from voicesim.workload.rng import hash_key_py, table_index_py, to_unit_py
from voicesim.workload.tape import Tape


class Group:
    """A pool of a fleet: a stretch of the engines, and whether it takes callers."""

    def __init__(self, spec: PoolSpec, all_engines: list[Engine]):
        self.spec, self.weight, self.takes, self.turn = spec, spec.weight, 1, 0
        self.first, self._all = 0, all_engines
        self.at_rung = self.first_row = 0

    @property
    def rung(self) -> Rung:
        """The rung it is at."""
        return self.spec.ladder[self.at_rung]

    @property
    def rung_row(self) -> int:
        """Its place among the rungs of all pools."""
        return self.first_row + self.at_rung

    @property
    def engines(self) -> list[Engine]:
        """Its replicas."""
        return self._all[self.first : self.first + self.spec.engines]

    @property
    def opened(self) -> int:
        """Open replicas."""
        return sum(e.open for e in self.engines)

    def spill(self) -> None:
        """It sends callers elsewhere when it fills up, until it has emptied (hysteresis)."""
        spec = self.spec
        if spec.spill_at < INF:
            live, places = sum(e.live for e in self.engines), self.opened * spec.limit
            args = float(live), float(places), spec.spill_at, spec.spill_back
            self.takes = routing.still_takes(self.takes, *args)


class World:
    """Everything of one reference run."""

    def __init__(self, spec: PoolSpec, tape: Tape, decide: Any = None, env: Any = None):
        self.spec, self.tape, self.decide = spec, tape, decide
        self.env = Timeline() if env is None else env
        self.counters = dict.fromkeys(
            ("steps", "stream_steps", "prefill_tokens", "recomputed_tokens", "cached_tokens",
             "preemptions", "discarded_tokens", "failed", "lost", "cut", "live_calls",
             "max_batch"), 0,
        )  # fmt: skip
        self.first_stall, self.first_stall_waiting = INF, 0
        self.series = np.zeros((spec.bins, at.NBI), np.int64)
        self.gaps = np.zeros((spec.bins, at.N_COARSE), np.int64)
        self.gap_hist = np.zeros(at.N_FINE, np.int64)
        self.chunks: list[tuple[Any, ...]] = []
        self.stalls: list[tuple[list[int], list[float]]] = []
        self.noted: list[tuple[list[int], list[float]]] = []
        self.rows_i: dict[int, list[int]] = {}
        self.rows_f: dict[int, list[float]] = {}
        self.live: dict[int, Stream] = {}
        self.generated: dict[int, int] = {}
        self.gateway: deque[Stream] = deque()
        self.retries_left = spec.retry_burst
        self.seen = [0] * spec.replicas  # live streams as the router last read them
        self.asked_at, self.at_once = -1.0, 0
        self.asking: Stream | None = None
        self.next_utterance = tape.callers
        self.homes: dict[int, tuple[int, int]] = {}  # session: replica (-1: none), utterance
        self.engines: list[Engine] = []
        self.pools = [Group(p, self.engines) for p in spec.pools]
        rows = 0
        for group in self.pools:
            group.first = len(self.engines)
            group.first_row = rows
            rows += len(group.spec.ladder)
            for _ in range(group.spec.engines):
                self.engines.append(Engine(self, len(self.engines), group))
        for card in spec.cards():
            Card([self.engines[g] for g in card])
        self.env.process(self.sampler())
        for k in range(len(tape.arrival)):
            self.env.process(self.session(k))

    # --- sessions -----------------------------------------------------------------------------

    def session(self, k: int) -> Any:
        """One caller: utterance after utterance, with pauses to think."""
        t = float(self.tape.arrival[k])
        yield self.env.at(t, at.ARRIVAL, k)
        self.counters["live_calls"] += 1
        self.series[self.bin(t), at.B_CALLS] += 1
        u, last = int(self.tape.first[k]), int(self.tape.first[k + 1]) - 1
        while True:
            stream = self.begin(u, u if self.tape.closed else k)
            goes_on_at = yield from self.utterance(stream)
            if goes_on_at is None:
                break
            t = goes_on_at
            if self.tape.closed:
                if t > self.spec.horizon:
                    break
                u = self.next_utterance
                self.next_utterance += 1
                if u >= len(self.tape.tokens):
                    self.tape = self.tape.extend()
            elif u == last:
                break
            else:
                u += 1
                self.homes[k] = self.homes.get(k, (-1, u))[0], u
            yield self.env.at(t, at.TIMER, (at.T_START << 40) | u)
            if u in self.rows_i:  # cut
                return
            if self.tape.closed:
                self.series[self.bin(t), at.B_CALLS] += 1
        self.end_call(k)

    def end_call(self, session: int) -> None:
        self.counters["live_calls"] -= 1
        self.homes.pop(session, None)

    def begin(self, u: int, session: int) -> Stream:
        now = self.env.now
        tape = self.tape
        stream = Stream(u, session, int(tape.prompt[u]), int(tape.tokens[u]), now)
        stream.patient_from = now
        self.live[u] = stream
        self.retries_left = min(self.retries_left + self.spec.retry_budget, self.spec.retry_burst)
        patience = float(tape.patience[u])
        if patience < INF:
            timer = self.env.at(now + patience, at.TIMER, (at.T_PATIENCE << 40) | u)
            timer.callbacks.append(lambda _: self.patience_ends(stream))
        if self.spec.fill_after < INF:
            timer = self.env.at(now + self.spec.fill_after, at.TIMER, (at.T_FILLER << 40) | u)
            timer.callbacks.append(lambda _: self.filler_plays(stream))
        return stream

    def utterance(self, stream: Stream) -> Any:
        """From request to the end of playback; returns when the caller asks for the next one after
        their pause, or None."""
        spec, u = self.spec, stream.utterance
        think = float(self.tape.think[u])
        stream.settled = self.env.event()
        self.request(stream)
        outcome, t = yield stream.settled
        if self.tape.closed:
            self.homes.pop(stream.session, None)
        if outcome == at.FAILED_OUTCOME and stream.lost_at is not None:
            if spec.reconnect is not None:
                return t + spec.reconnect * self.uniform(at.P_RECONNECT, u, 0)
            return t + think if self.tape.closed else None
        if outcome == at.REFUSED and spec.standby:
            return t + stream.tokens * self.serving(stream)[0].spec.token_audio + think
        if outcome in (at.REFUSED, at.ABANDONED, at.CUT) and not self.tape.closed:
            return None
        return t + think

    # --- the gateway --------------------------------------------------------------------------

    def request(self, stream: Stream) -> None:
        """Ask the policies; act on their answer."""
        self.at_once = self.at_once + 1 if self.env.now == self.asked_at else 1
        self.asked_at = float(self.env.now)
        if self.at_once > MOST_AT_ONCE:
            raise NoProgressError(self.env.now)
        if not self.can_fit(stream):
            self.counters["failed"] += 1
            self.settle(stream, at.FAILED_OUTCOME, self.env.now)
            self.maybe_forget(stream)
            return
        if self.decide is not None:
            self.asking = stream
            action, g = self.decide(ReferenceView(self))
            stream.home = self.engines[g].group
        else:
            action, g = self.built_in(stream)
        then = degradation.SERVE if stream.home is None else stream.home.rung.then
        if then == degradation.STAND_IN:
            self.stand_in(stream)
        elif then == degradation.REFUSE:
            self.refuse(stream)
        elif action == ADMIT and self.engines[g].queue_full:
            self.refuse(stream)  # by the engine itself (SGLang's max_queued_requests)
        elif action == ADMIT:
            self.admit(stream, self.engines[g])
        elif action == QUEUE:
            stream.state = at.AT_GATEWAY
            self.gateway.append(stream)
            stream.deadline = self.env.now + self.spec.deadline
            if self.spec.deadline < INF:
                number = (at.T_DEADLINE << 40) | stream.utterance
                timer = self.env.at(stream.deadline, at.TIMER, number)
                timer.callbacks.append(lambda _: self.deadline_passes(stream))
        else:
            self.refuse(stream)

    def can_fit(self, stream: Stream) -> bool:
        """Could the KV cache of every pool that serves it ever hold the whole stream?"""
        for spec in (group.spec for group in self.serving(stream)):
            tokens = must_fit(spec.kind, stream.prompt, stream.tokens, spec.max_new, spec.overlap)
            if -(-tokens // spec.block_size) > spec.blocks:
                return False
        return True

    def row(self, stream: Stream) -> int:
        """The kind of caller that it is of."""
        return 0 if self.tape.row is None else int(self.tape.row[stream.utterance])

    def serving(self, stream: Stream) -> list["Group"]:
        """The pools that serve it, in order of preference."""
        if self.spec.routes is None:
            return self.pools
        return [self.pools[p] for p in self.spec.routes.prefs[self.row(stream)] if p >= 0]

    def choose_pool(self, stream: Stream) -> int:
        """The pool of a fleet that the stream goes to; -1: nobody takes it."""
        routes = self.spec.routes
        if routes is None:
            return 0
        row = self.row(stream)
        return routing.pool_for(
            routes.prefs[row], routes.tiers[row], [g.weight for g in self.pools],
            [g.takes for g in self.pools], [g.opened for g in self.pools],
            self.uniform(at.P_POOL, stream.session, 0),
        )  # fmt: skip

    def waiting_for(self, group: "Group") -> list[Stream]:
        """Streams in the gateway's queue that the pool could take."""
        return [s for s in self.gateway if group in self.serving(s)]

    def sent_on(self, stream: Stream, group: "Group") -> int:
        """The pool that serves instead of one whose rung names it, if it is one of the caller's,
        has an open replica and takes callers."""
        to = group.rung.to
        if to >= 0 and self.pools[to] in self.serving(stream):
            other = self.pools[to]
            if other.opened > 0 and other.takes:
                return to
        return self.pools.index(group)

    def built_in(self, stream: Stream) -> tuple[int, int]:
        spec = self.spec
        home = self.home_of(stream)
        p = self.pools.index(self.engines[home].group) if home >= 0 else self.choose_pool(stream)
        stream.home = self.pools[p] if p >= 0 else None
        if home < 0 and spec.routes is not None and p >= 0:
            p = self.sent_on(stream, self.pools[p])
        may_queue = spec.admission == admission.CAP_QUEUE
        if p < 0:
            return (QUEUE if may_queue and len(self.gateway) < spec.max_queued else REFUSE), 0
        group = self.pools[p]
        queued = len(self.waiting_for(group)) if may_queue else 0
        may_queue = may_queue and queued < spec.max_queued
        first, limit = group.first, group.spec.limit
        live = self.known_live()[first : first + group.spec.engines]
        open_ = [int(e.open) for e in group.engines]
        turn, group.turn = group.turn, group.turn + (home < 0)
        if home >= 0:
            g = home - first
        elif spec.routing == routing.LEAST_STREAMS:
            g = routing.least_streams(live, open_)
        elif spec.routing == routing.LEAST_CALLS:
            g = routing.least_streams([self.calls_on(e.number) for e in group.engines], open_)
        elif spec.routing == routing.ROUND_ROBIN:
            g = routing.round_robin(live, open_, turn)
        elif spec.routing == routing.BOUNDED_HASH:
            own = self.uniform(at.P_AFFINITY, stream.session, 0)
            g = routing.bounded_hash(live, open_, own, spec.epsilon)
        elif spec.routing == routing.INVERSE_PROB:
            u1 = self.uniform(at.P_ROUTE, stream.utterance, 2 * stream.attempts)
            g = routing.inverse_prob(live, open_, u1)
        elif spec.routing == routing.PACK:
            g = routing.pack(live, open_, limit)
        else:
            u, a = stream.utterance, stream.attempts
            u1, u2 = (self.uniform(at.P_ROUTE, u, 2 * a + i) for i in (0, 1))
            g = routing.power_of_two(live, open_, u1, u2)
        if g < 0:  # nothing is open
            return (QUEUE if may_queue else REFUSE), 0
        if spec.admission == admission.CAP:
            return admission.cap(live[g], limit), first + g
        if spec.admission == admission.CAP_QUEUE:
            if home < 0:
                g = admission.place_with_room(live, open_, g, limit)
            return admission.cap_queue(live[g], limit, queued, spec.max_queued), first + g
        g = first + g
        if spec.admission == admission.SLACK and not self.has_slack(stream, self.engines[g]):
            return REFUSE, g
        return ADMIT, g

    def has_slack(self, stream: Stream, engine: Engine, lead: float | None = None) -> bool:
        """Does every playing stream keep its lead under the batch to come?  That batch holds the
        decoding streams, those whose prompts are still to be computed, and the one that asks.
        Its step must not be longer than the audio of a token, or all would fall behind."""
        decoding = [s for s in engine.running if s.decoding]
        prompts = [s for s in engine.running if s.state == at.PREFILLING]
        entering = [stream, *engine.waiting, *prompts]
        pending = sum(s.prompt + s.generated - s.computed for s in entering)
        n = len(decoding) + len(entering)
        kv = sum(s.computed for s in decoding) + pending + n
        if engine.prefix_cached:
            pending -= (1 + len(engine.waiting)) * engine.prefix
        step = engine.predicted_step(n, n, kv)
        room = max(engine.spec.budget - n, 1)
        rounds, rest = divmod(pending, room)
        joining = rounds * engine.predicted_step(n + room, n, kv)
        joining = joining + engine.predicted_step(n + rest, n, kv)
        step = step * engine.stretch
        if n > 1 and step > engine.spec.token_audio:
            return False
        lag = engine.codec.lag
        queue = engine.codec.queue
        if queue:
            lag = max(lag, self.env.now - queue[0].queued_at)
        lag = lag + joining * engine.stretch
        in_codec = [*queue, *(s for _, batch in engine.codec.batches.values() for s in batch)]
        generated = [s for s in in_codec if s.state == at.GENERATED]
        for s in [*generated, *engine.running, *engine.waiting]:
            if s.mode < player.PLAYING or s.state == at.ZOMBIE or s.aborted:
                continue
            missing = s.due - s.generated if s.ready == s.sent else 0
            slack = admission.slack_of(s.play_end, self.env.now, missing, step, lag)
            if slack < (self.spec.lead if lead is None else lead):
                return False
        return True

    def known_live(self) -> list[int]:
        """Live streams by replica, as the policies know them."""
        return self.seen if self.spec.stale else [e.live for e in self.engines]

    def admit(self, stream: Stream, engine: Engine) -> None:
        if self.spec.stale and self.spec.reserves:
            self.seen[engine.number] += 1
        self.count_live(engine, 1)
        if self.spec.pinned:
            self.homes[stream.session] = engine.number, stream.utterance
        self.take_rung(stream, engine)
        stream.delay = engine.spec.delay
        if self.spec.routes is not None:
            way = self.row(stream), self.pools.index(engine.group)
            stream.delay += float(self.spec.routes.delay[way])
            stream.jitter = float(self.spec.routes.jitter[way])
        engine.submit(stream)

    def take_rung(self, stream: Stream, engine: Engine) -> None:
        """It is served at the rung of the engine's pool, or of the pool that sent it there."""
        pool, home = engine.group, stream.home
        if home is None or home.rung.to < 0 or self.pools[home.rung.to] is not pool:
            home = pool
        rung = stream.rung = home.rung
        stream.rung_row = home.rung_row
        if home.at_rung > 0:
            u, tape = stream.utterance, self.tape
            stream.tokens = degradation.spoken(int(tape.tokens[u]), rung.speech)
            whole = int(tape.prompt[u])
            stream.prompt = degradation.prompt_left(whole, rung.prompt, engine.prefix)
            self.series[self.bin(self.env.now), at.B_DEGRADED] += 1

    def stand_in(self, stream: Stream) -> None:
        """No GPU: the caller gets text or hears a filler at once, and goes on after it."""
        now = self.env.now
        stream.rung_row = stream.home.rung_row
        self.series[self.bin(now), at.B_DEGRADED] += 1
        self.settle(stream, at.STOOD_IN, now, now + stream.home.rung.filler)
        self.maybe_forget(stream)

    def filler_plays(self, stream: Stream) -> None:
        """Nothing heard so far: a filler sounds, and the caller's patience counts from its end."""
        now = float(self.env.now)
        if self.live.get(stream.utterance) is not stream or stream.utterance in self.rows_i:
            return
        if player.heard_by(stream.mode, stream.since, stream.started, now, self.spec.max_wait):
            return
        stream.filled, stream.patient_from = 1, now + self.spec.filler

    def refuse(self, stream: Stream) -> None:
        now = self.env.now
        if self.asks_again(stream):
            return
        self.series[self.bin(now), at.B_REFUSED] += 1
        self.note(trace.REFUSED, stream.utterance, -1)
        self.settle(stream, at.REFUSED, now)
        self.maybe_forget(stream)

    def asks_again(self, stream: Stream) -> bool:
        """Will a caller who was turned away try again?  Not beyond the attempts that they make, nor
        when the budget of retries is spent."""
        spec, attempt = self.spec, stream.attempts
        stream.attempts += 1
        if attempt >= spec.retries:
            return False
        if spec.retry_burst < INF:
            if self.retries_left < 1.0:
                return False
            self.retries_left -= 1.0
        delay = spec.backoff
        for _ in range(attempt):
            delay = delay * spec.factor
        if spec.full_jitter:
            delay = delay * self.uniform(at.P_RETRY, stream.utterance, attempt)
        stream.state = at.BACKING_OFF
        number = (at.T_RETRY << 40) | stream.utterance
        timer = self.env.at(self.env.now + delay, at.TIMER, number)
        timer.callbacks.append(lambda _: None if stream.aborted else self.request(stream))
        return True

    def deadline_passes(self, stream: Stream) -> None:
        if stream.state == at.AT_GATEWAY and stream.deadline == self.env.now:
            self.gateway.remove(stream)
            self.refuse(stream)

    def patience_ends(self, stream: Stream) -> None:
        """Nothing heard in time: the caller hangs up, the stream is cancelled everywhere."""
        now = self.env.now
        if self.live.get(stream.utterance) is not stream or stream.utterance in self.rows_i:
            return
        if player.heard_by(stream.mode, stream.since, stream.started, now, self.spec.max_wait):
            return
        if now < self.gone_by(stream):  # a filler has sounded
            number = (at.T_PATIENCE << 40) | stream.utterance
            timer = self.env.at(self.gone_by(stream), at.TIMER, number)
            timer.callbacks.append(lambda _: self.patience_ends(stream))
            return
        self.cancel(stream)
        self.hang_up(stream, now)
        self.maybe_forget(stream)

    def cancel(self, stream: Stream) -> None:
        """The stream stops: at once where it waits, else at the engine's next boundary."""
        stream.aborted = True
        if stream.state == at.AT_GATEWAY:
            self.gateway.remove(stream)
        elif stream.state == at.WAITING:
            stream.engine.waiting.remove(stream)
            self.counters["discarded_tokens"] += stream.generated
        elif stream.state in (at.GENERATED, at.ZOMBIE):
            self.counters["discarded_tokens"] += stream.tokens
        elif stream.state == at.HELD and not stream.engine.stepping:
            stream.engine.wake(self.env.now)
        if stream.active:
            stream.engine.codec.deactivate(stream)
        if stream.in_codec == 1:
            stream.engine.codec.queue.remove(stream)
            stream.in_codec = 0

    def hang_up(self, stream: Stream, t: float) -> None:
        """The caller leaves at t without having heard anything."""
        self.series[self.bin(t), at.B_ABANDONED] += 1
        stream.started, stream.play_end = -1.0, 0.0
        stream.stalls = stream.audible = 0
        stream.stall_total = stream.stall_largest = 0.0
        self.settle(stream, at.ABANDONED, t)

    def gone_by(self, stream: Stream) -> float:
        """When the caller's patience for silence ends (s)."""
        return stream.patient_from + float(self.tape.patience[stream.utterance])

    def maybe_forget(self, stream: Stream) -> None:
        """Once engine, codec and listener have let go of it, its place is free."""
        if stream.state in (at.PREFILLING, at.DECODING, at.ZOMBIE, at.HELD):
            return
        if stream.in_codec == 2:
            return
        self.live.pop(stream.utterance, None)
        self.generated[stream.utterance] = min(stream.generated, stream.tokens)
        stream.state = at.FREE
        engine = stream.engine
        if engine is None:
            return
        self.count_live(engine, -1)
        self.move_up(engine)

    def move_up(self, engine: Engine) -> None:
        """The gateway's queue fills the free places of a replica (cap_queue)."""
        room = engine.spec.limit
        while engine.live < room and not engine.queue_full:
            stream = next((s for s in self.gateway if self.may_move_to(s, engine)), None)
            if stream is None:
                break
            self.gateway.remove(stream)
            self.admit(stream, engine)

    def may_move_to(self, stream: Stream, engine: Engine) -> bool:
        """Out of the gateway's queue: where its call lives, or else to any open replica of a pool
        that serves it."""
        home = self.home_of(stream)
        if home >= 0:
            return home == engine.number
        return engine.open and engine.group in self.serving(stream)

    # --- calls that stay with a replica -------------------------------------------------------

    def home_of(self, stream: Stream) -> int:
        """The replica that its call lives on; -1: none, or calls are not pinned."""
        home = self.homes.get(stream.session, (-1, 0))[0] if self.spec.pinned else -1
        return home if home >= 0 and self.engines[home].up else -1

    def calls_on(self, replica: int) -> int:
        """Calls that live on a replica (PoolSpec.pinned)."""
        return sum(self.spec.pinned and g == replica for g, _ in self.homes.values())

    def set_weight(self, pool: int, weight: float) -> None:
        """Give a pool of a fleet another share of the callers of its tier."""
        self.pools[pool].weight = weight

    def cut_calls(self, replica: int) -> int:
        """End the calls that live on a replica (not pinned: that have a stream on it); what they
        are being sent is lost.  How many there were."""
        found = 0
        for u in range(len(self.tape.tokens)):
            session = int(np.searchsorted(self.tape.first, u, side="right")) - 1
            stream = None if u in self.rows_i else self.live.get(u)
            if self.spec.pinned:
                lives = self.homes.get(session) == (replica, u)
            else:
                lives = bool(stream and stream.engine and stream.engine.number == replica)
            if lives:
                self.cut(u, session, stream, replica)
                found += 1
        return found

    def cut(self, u: int, session: int, stream: Stream | None, replica: int) -> None:
        """The call of utterance u, which a replica serves now or will serve next, ends."""
        now = float(self.env.now)
        if stream is None:  # between two utterances
            self.rows_i[u] = [-1, at.CUT, 0, 0, 0, 0, 0, replica, 0, 0]
            self.rows_f[u] = [now, -1.0, -1.0, now, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0]
            self.end_call(session)
            return
        if stream.started > now:  # the first sound is still on its way
            stream.started = -1.0
        self.settle(stream, at.CUT, now)
        self.cancel(stream)
        self.maybe_forget(stream)

    def count_live(self, engine: Engine, change: int) -> None:
        now = self.env.now
        engine.live_area += engine.live * (now - engine.live_since)
        engine.live_since = now
        engine.live += change
        engine.group.spill()

    # --- the network and the listener ---------------------------------------------------------

    def send(self, stream: Stream, new: int, rows: int) -> None:
        """A chunk of ``new`` tokens travels and reaches the player."""
        spec, index = self.spec, stream.sent
        stream.sent += 1
        stream.sent_tokens += new
        last = stream.fully_sent
        audio = new * stream.engine.spec.token_audio
        key = hash_key_py(spec.seed, at.P_NETWORK, stream.utterance, index)
        jitter = stream.jitter * float(spec.jitter[table_index_py(key)])
        arrive = self.env.now + (stream.delay + jitter)
        if index == 0:
            stream.first_arrival = arrive
        else:
            arrive = max(arrive, stream.last_arrival)  # order is kept on the way
        gap, before = arrive - stream.last_arrival, stream.last_audio
        stream.last_arrival = arrive
        stream.last_audio = audio
        stream.worst_a = max(stream.worst_a, (arrive - stream.first_arrival) - stream.received)
        stream.received += audio
        stream.worst_c = max(stream.worst_c, (arrive - stream.first_arrival) - stream.received)
        lead = stream.play_end - arrive
        (stream.mode, stream.play_end, stream.held, stream.since, stall, started, lost) = (
            player.deliver(
                stream.mode, stream.play_end, stream.held, stream.since, arrive, audio, last,
                spec.prebuffer, spec.rebuffer, spec.max_wait, spec.max_queue,
            )
        )  # fmt: skip
        stream.lost += lost
        if started >= 0.0:
            stream.started = started
        heard = stream.started <= self.gone_by(stream)  # else they hang up before the first sound
        if heard and index > 0:
            self.count_gap(stream, gap, before, audio, arrive)
        if heard and stall > 0.0:
            self.count_stall(stream, stall, arrive)
        if spec.blame:
            self.blame(stream, index, arrive, stall if heard else 0.0)
            anew = index == 0 or stall > 0.0 or started >= 0.0
            playing = stream.mode == player.PLAYING
            stream.waits.arrived(lead if playing else None, anew)
            self.note_chunk(stream, index, rows, new, arrive, audio)
        if spec.record_chunks:
            self.chunks.append(
                (stream.utterance, index, stream.engine.number, rows,
                 stream.queued_at, self.env.now, arrive, audio)
            )  # fmt: skip
        if last:
            stream.in_codec = 0
            if heard:
                self.settle(stream, at.COMPLETED, arrive, stream.play_end)
            else:
                self.counters["discarded_tokens"] += stream.tokens
                self.hang_up(stream, self.gone_by(stream))
            self.maybe_forget(stream)

    def count_gap(
        self, stream: Stream, gap: float, before: float, audio: float, arrive: float
    ) -> None:
        """Pace = audio of a chunk / the gap before it; the alarm's ratio is that gap / the audio
        that the chunk before had brought."""
        if not stream.engine.spec.aside:
            coarse = ratio_bucket(gap / before)
            coarse //= at.FINE_PER_OCTAVE // at.COARSE_PER_OCTAVE
            self.gaps[self.bin(arrive), coarse] += 1
            if stream.requested >= self.spec.warmup:
                self.gap_hist[ratio_bucket(gap / audio)] += 1
        if gap > 0.0 and (stream.worst_pace < 0.0 or audio / gap < stream.worst_pace):
            stream.worst_pace = audio / gap

    def count_stall(self, stream: Stream, stall: float, arrive: float) -> None:
        if stall > player.ROUNDING:
            stream.stalls += 1
        stream.stall_largest = max(stream.stall_largest, stall)
        stream.stall_total += stall
        if stall > self.spec.audible:
            began = arrive - stall
            stream.audible += 1
            if stream.engine.spec.aside:
                return
            self.series[self.bin(began), at.B_STALLS] += 1
            if stream.requested >= self.spec.warmup and began < self.first_stall:
                self.first_stall = began
                self.first_stall_waiting = stream.engine.waiting_gauge

    def blame(self, stream: Stream, index: int, arrive: float, stall: float) -> None:
        """Note what the chunk has waited for; an audible stall goes into the log."""
        waits = stream.waits
        waits.now[NETWORK] = arrive - (self.env.now + stream.delay)
        if stall > self.spec.audible:
            who = (stream.utterance, index, -1, 0, stream.engine.number)
            held = waits.held_at > 0.0 and waits.held_at >= waits.base[C_TIME]
            row = stall_row(
                who, stream.engine.sums, waits.base, waits.now, arrive - stall, stall,
                stall + waits.margin, PACING if held else SCHEDULE,
            )  # fmt: skip
            self.stalls.append(row)

    def note_chunk(
        self, stream: Stream, index: int, rows: int, new: int, arrive: float, audio: float
    ) -> None:
        """A chunk has left."""
        self.note(
            trace.CHUNK, stream.utterance, stream.engine.number, [index, rows, new, 0],
            stream.queued_at, self.env.now, arrive, audio,
        )  # fmt: skip

    def note(
        self, kind: int, who: int, engine: int, what: Sequence[int] = (0, 0, 0, 0),
        start: float | None = None, end: float | None = None, x: float = 0.0, y: float = 0.0,
    ) -> None:  # fmt: skip
        """A row of the log of a window, if it meets it; by default an instant, now."""
        window, now = self.spec.trace, float(self.env.now)
        start, end = now if start is None else start, now if end is None else end
        if window is None or not self.spec.blame or end < window[0] or start > window[1]:
            return
        if len(self.noted) < trace.MOST_EVENTS:
            self.noted.append(([kind, who, engine, *what], [start, end, x, y]))

    # --- recording ----------------------------------------------------------------------------

    def bin(self, t: float) -> int:
        return min(int(t / self.spec.resolution), self.spec.bins - 1)

    def observed(self, a: float, b: float) -> float:
        return max(0.0, min(b, self.spec.horizon) - max(a, self.spec.warmup))

    def uniform(self, purpose: int, i: int, j: int) -> float:
        return to_unit_py(hash_key_py(self.spec.seed, purpose, i, j))

    def settle(self, s: Stream, outcome: int, t: float, goes_on_at: float | None = None) -> None:
        """Write the stream's row and tell its session (which may go on from then)."""
        self.write(s, outcome, t)
        self.env.fire(s.settled, (outcome, t if goes_on_at is None else goes_on_at))

    def write(self, s: Stream, outcome: int, t: float) -> None:
        engine = -1 if s.engine is None else s.engine.number
        if outcome == at.COMPLETED:
            s.engine.served += 1
        self.rows_i[s.utterance] = [
            -1, outcome, s.sent, s.stalls, s.audible, s.preemptions, s.attempts, engine,
            s.rung_row, s.filled,
        ]  # fmt: skip
        self.rows_f[s.utterance] = [
            s.requested, s.admitted, s.started, t, s.play_end, s.stall_total,
            s.stall_largest, s.worst_a, s.worst_c, s.worst_pace, s.lost,
        ]  # fmt: skip

    def sampler(self) -> Any:
        """Gauges at the edge of every bin, before anything else of that instant."""
        for k in range(self.spec.bins):
            yield self.env.at(k * self.spec.resolution, -1, 0)
            waiting = [len(e.waiting) for e in self.engines]
            row = self.series[k]
            row[at.B_LIVE] = sum(e.live for e in self.engines)
            row[at.B_RUNNING] = sum(e.active for e in self.engines)
            row[at.B_WAITING] = sum(waiting)
            row[at.B_WAITING_MAX] = max(waiting)
            row[at.B_QUEUED] = sum(len(e.codec.queue) for e in self.engines)
            row[at.B_GATEWAY] = len(self.gateway)

    def gauges(self) -> tuple[list[int], list[int], np.ndarray, int]:
        """Running, num_requests_waiting and free KV blocks by engine; preemptions so far."""
        return (
            [e.active for e in self.engines],
            [e.waiting_gauge for e in self.engines],
            np.array([e.free_blocks for e in self.engines]),
            self.counters["preemptions"],
        )

    def readings(self) -> Readings:
        """What an operator's tools read from the replicas now."""
        engines = self.engines
        counts = [
            (int(e.up), int(e.open), e.live, e.active, e.waiting_gauge, e.free_blocks,
             e.steps, e.served, e.failed) for e in engines
        ]  # fmt: skip
        busy = (np.array([getattr(e, name) for e in engines]) for name in ("busy_gpu", "busy_host"))
        return Readings(*np.array(counts, np.int64).T, *busy)

    # --- faults -------------------------------------------------------------------------------

    def crash(self, replica: int) -> bool:
        """The replica is gone until it is restored, and every stream there is lost; False if it
        was not there."""
        engine = self.engines[replica]
        if not engine.up:
            return False
        engine.up = engine.gray = engine.open = False
        engine.waiting_gauge = 0
        engine.group.spill()
        for stream in engine.halt():
            self.lose(stream)
        return True

    def restore(self, replica: int) -> None:
        """The replica starts anew and is open; one that was silent loses what it holds."""
        engine = self.engines[replica]
        engine.slowdown = 1.0
        if engine.gray:
            self.crash(replica)
        engine.up = True
        self.set_open(replica, True)

    def set_slow(self, replica: int, factor: float) -> None:
        """Steps and codec calls that begin from now on take ``factor`` times as long."""
        self.engines[replica].slowdown = factor

    def set_gray(self, replica: int, drop_after: float | None) -> None:
        """The replica takes streams and does nothing with them, until it is restored; each is
        dropped ``drop_after`` s after it came (None: never)."""
        engine = self.engines[replica]
        if not engine.up:
            return
        engine.gray, engine.drop_after = True, INF if drop_after is None else drop_after
        here = engine.halt()
        engine.waiting.extend(s for s in here if not s.done)
        for stream in engine.waiting:
            self.drop_later(stream)
        for stream in here:
            if stream.done:
                self.maybe_forget(stream)

    def drop_later(self, stream: Stream) -> None:
        """A silent replica keeps the stream for a while and drops it then."""
        stream.deadline = self.env.now + stream.engine.drop_after
        if stream.deadline < INF:
            number = (at.T_DROP << 40) | stream.utterance
            timer = self.env.at(stream.deadline, at.TIMER, number)
            timer.callbacks.append(lambda _: self.dropped(stream))

    def dropped(self, stream: Stream) -> None:
        """A silent replica lets go of the stream."""
        hangs = stream.state == at.WAITING and stream.engine.gray
        if hangs and not stream.aborted and stream.deadline == self.env.now:
            stream.engine.waiting.remove(stream)
            self.lose(stream)

    def lose(self, stream: Stream) -> None:
        """A stream, set aside, is lost.  Before any of its audio was sent its caller may ask again,
        as the refused do; after that never: the utterance has failed."""
        engine, now = stream.engine, self.env.now
        if stream.done:
            self.maybe_forget(stream)
            return
        self.counters["lost"] += 1
        engine.failed += 1
        self.counters["discarded_tokens"] += min(stream.generated, stream.tokens)
        if stream.sent:
            self.counters["cut"] += 1
        elif self.asks_again(stream):
            u, tape = stream.utterance, self.tape
            stream.begin_again(int(tape.prompt[u]), int(tape.tokens[u]))
            self.count_live(engine, -1)
            self.move_up(engine)
            return
        stream.lost_at = now
        self.settle(stream, at.FAILED_OUTCOME, now)
        self.maybe_forget(stream)

    def refresh_readings(self) -> None:
        """The router learns how many streams each replica has now (PoolSpec.stale)."""
        self.seen = [e.live for e in self.engines]

    def gap_counts(self) -> np.ndarray:
        """int64[bins, buckets]: gap before a chunk / audio of the chunk before it, so far."""
        return self.gaps

    def set_open(self, replica: int, is_open: bool) -> None:
        """Let a replica take new streams, or not (drain); one that is not there stays closed."""
        self.engines[replica].open = is_open and self.engines[replica].up
        self.engines[replica].group.spill()
        self.move_up(self.engines[replica])

    def codec_lag(self) -> np.ndarray:
        """float64[replicas]: moving average of the codec's queue and service time (s)."""
        return np.array([e.codec.lag for e in self.engines])

    def set_rung(self, pool: int, rung: int) -> None:
        """From now on the pool admits at this rung of its ladder.  Raises IndexError."""
        if not 0 <= rung < len(self.pools[pool].spec.ladder):
            raise IndexError(rung)
        self.pools[pool].at_rung = rung

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """Integers and floats of every utterance so far, as in RunRecord."""
        utterances = len(self.tape.tokens)
        ints = np.zeros((utterances, at.NRI), np.int64)
        floats = np.zeros((utterances, at.NRF))
        ints[:, at.R_SLOT] = -1
        for u, row in self.rows_i.items():
            ints[u] = [*row, self.generated.get(u, 0)]
            floats[u] = self.rows_f[u]
        return ints, floats

    def record(self) -> RunRecord:
        ints, floats = self.results()
        engines = self.engines
        for engine in engines:
            self.count_live(engine, 0)
        chunks = self.chunks
        return RunRecord(
            ints, floats, self.series, self.gaps, self.gap_hist,
            np.array([c[:4] for c in chunks], np.int64).reshape(-1, 4),
            np.array([c[4:] for c in chunks], float).reshape(-1, 4),
            {
                "decode": np.array([e.busy_gpu for e in engines]),
                "host": np.array([e.busy_host for e in engines]),
                "codec": np.array([e.codec.busy for e in engines]),
            },
            np.array([e.live_area for e in engines]),
            {
                **self.counters,
                "codec_batches": sum(e.codec.batches_done for e in engines),
                "codec_rows": sum(e.codec.rows_done for e in engines),
            },
            self.first_stall, self.first_stall_waiting, float(self.env.now),
            np.array([i for i, _ in self.stalls], np.int64).reshape(-1, N_STALL_I),
            np.array([f for _, f in self.stalls], float).reshape(-1, N_STALL_F),
            np.array([i for i, _ in self.noted], np.int64).reshape(-1, trace.N_TRACE_I),
            np.array([f for _, f in self.noted], float).reshape(-1, trace.N_TRACE_F),
        )  # fmt: skip


def ratio_bucket(ratio: float) -> int:
    """Bucket of the fine histogram for gap / audio (layout.quantile_edges)."""
    if ratio <= 0.0:
        return 0
    m, e = frexp(ratio)
    octave = e - at.LOWEST_EXPONENT
    i = octave * at.FINE_PER_OCTAVE + int((m - 0.5) * (2.0 * at.FINE_PER_OCTAVE))
    return min(max(i, 0), at.N_FINE - 1)


class ReferenceView:
    """The policies' view of a reference run (see voicesim.policy.view.View)."""

    def __init__(self, world: World):
        self._world = world
        engines = world.engines
        self.now = float(world.env.now)
        self.live = np.array(world.known_live())
        self.open = np.array([int(e.open) for e in engines])
        self.running = np.array([e.active for e in engines])
        self.waiting = np.array([len(e.waiting) for e in engines])
        self.queued = np.array([len(e.codec.queue) for e in engines])
        self.free_blocks = np.array([e.free_blocks for e in engines])
        self.lag = np.array([e.codec.lag for e in engines])
        self.gateway = len(world.gateway)

    def request(self) -> Request:
        s = self._world.asking
        assert s is not None
        audio = s.tokens * self._world.spec.token_audio
        return Request(self.now, s.session, s.utterance, s.prompt, audio, s.attempts)

    def has_slack(self, replica: int, lead: float | None = None) -> bool:
        assert self._world.asking is not None
        return self._world.has_slack(self._world.asking, self._world.engines[replica], lead)

    def uniform(self, draw: int) -> float:
        s = self._world.asking
        assert s is not None
        return self._world.uniform(at.P_ROUTE, s.utterance, 2 * s.attempts + draw)

    def affinity(self) -> float:
        s = self._world.asking
        assert s is not None
        return self._world.uniform(at.P_AFFINITY, s.session, 0)


def run_reference(
    spec: PoolSpec,
    tape: Tape,
    decide: Any = None,
    processes: Sequence[Callable[..., Any]] = (),
) -> RunRecord:
    """Play a whole run on plain SimPy; processes are generator functions of (env, world)."""
    world = World(spec, tape, decide)
    for process in processes:
        world.env.process(process(world.env, world))
    world.env.run(until=world.env.at(spec.end, 12, 0))
    return world.record()
