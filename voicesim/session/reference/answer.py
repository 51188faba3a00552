"""One answer: text in units, units to speech, speech in order to the listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

from voicesim.engine.layout import COARSE_PER_OCTAVE, FAILED_OUTCOME, FINE_PER_OCTAVE
from voicesim.engine.reference.world import ratio_bucket
from voicesim.engine.spec import INF
from voicesim.listener import player
from voicesim.session import layout as lay
from voicesim.session import record as rec
from voicesim.session.reference.blame import Why
from voicesim.session.spec import IMMEDIATE, NEXT_CHUNK, NONE
from voicesim.workload.rng import hash_key_py, table_index_py

if TYPE_CHECKING:
    from voicesim.session.reference.call import Call


class Answer:
    """Answer ``number`` of the tape, to turn ``turn`` (or, ``half``, to its first half)."""

    def __init__(self, call: Call, number: int, turn: int, half: bool):
        self.call, self.number, self.turn, self.half = call, number, turn, half
        cluster = self.cluster = call.cluster
        self.spec, self.env, tape = cluster.spec, cluster.env, cluster.tape
        self.omni = cluster.omni if tape.omni[number] else None
        self.llm = cluster.llm[int(tape.llm[number])]
        self.tts = cluster.tts[int(tape.tts[number])]
        first, end = int(tape.unit[number]), int(tape.unit[number + 1])
        self.units = range(first, end)
        self.held = dict.fromkeys(self.units, 0)  # tokens made and not yet sent, by unit
        self.made: set[int] = set()
        self.play_ends: list[float] = []  # of the units sent so far
        self.ready = self.asked = 0  # units with their text; with the TTS engine
        self.gate_set = False
        self.why = Why(self)
        self.cancelled = self.draining = self.being_made = False
        self.sent_all = False
        self.stop_at = self.filler_until = 0.0
        # at the listener
        self.mode = player.SILENT
        self.play_end = self.held_audio = self.since = 0.0
        self.last_arrival = self.client_free = self.ready_at = self.audio = 0.0
        # results: instants (s), -1 while unknown; lengths (s)
        self.speak = self.spoken = self.heard_end = self.decided_at = self.text_at = -1.0
        self.asked_at = self.first_unit = self.first_sent = self.arrived = self.started = -1.0
        self.played_until = self.done = self.stopped = -1.0
        self.stall = self.stall_largest = self.received = self.listened = 0.0
        self.lost = self.paused = 0.0
        self.pace = -1.0
        self.outcome, self.interrupt = rec.PENDING, rec.NOTHING
        self.chunks = self.stalls = self.audible = 0
        self.filler = self.overlap = self.fell_back = False

    # --- from the decision to the first text ----------------------------------------------------

    def decided(self) -> None:
        """The turn is taken to be over: its text is wanted now."""
        now = self.decided_at = float(self.env.now)
        self.call.speaks(False)
        self.being_made = True
        self.cluster.answering += 1
        if self.spec.filler_after < INF:
            self.timer(lay.D_FILLER, now + self.spec.filler_after, self.filler_due)
        if self.omni is not None:
            self.text_at = self.asked_at = self.first_unit = now
            taken = self.omni.ask(self.number)
            if self.spec.omni_timeout == INF:
                if not taken:
                    self.not_served()
            elif taken:
                self.timer(lay.D_FALLBACK, now + self.spec.omni_timeout, self.fall_back)
            else:
                self.fall_back()
        elif self.cluster.asr is not None:
            self.cluster.asr.flush(self.number, now)
        else:
            self.text_there()

    def text_there(self) -> None:
        """The words of the turn are known: the language model is asked."""
        if self.cancelled:
            return
        self.text_at = float(self.env.now)
        if self.spec.connect_llm > 0.0:
            self.timer(lay.D_LLM, self.text_at + self.spec.connect_llm, self.ask_llm)
        else:
            self.ask_llm()

    def ask_llm(self) -> None:
        if self.cancelled:
            return
        self.asked_at = float(self.env.now)
        if not self.llm.ask(self.number):
            self.not_served()

    def filler_due(self) -> None:
        """Nothing of the answer has left yet: a filler bridges the silence."""
        if not self.cancelled and self.first_sent < 0.0:
            self.filler = True
            self.filler_until = (self.env.now + self.spec.delay) + self.spec.filler_audio

    def fall_back(self) -> None:
        """No sound from the speech model in time, or refused by it: the three stages answer."""
        if self.cancelled or self.first_sent >= 0.0:
            return
        assert self.omni is not None
        self.omni.stop(self.number, False)
        self.omni = None
        self.fell_back = True
        self.text_at = self.asked_at = self.first_unit = -1.0
        if self.cluster.asr is not None:
            audio = self.spoken - self.speak
            self.cluster.asr.transcribe(self.number, self.call.number, audio, self.env.now)
        else:
            self.text_there()

    # --- units of text become streams of speech -------------------------------------------------

    def unit_of_text(self, last: bool) -> None:
        """The language model has completed a unit."""
        self.why.source(self.units[self.ready]).text_at = float(self.env.now)
        self.ready += 1
        if self.first_unit < 0.0:
            self.first_unit = float(self.env.now)
        if not self.cancelled or self.draining:
            self.go_on()
        elif self.spec.cancel == NEXT_CHUNK and not last:
            self.llm.stop(self.number, False)

    def chunk_of_speech(self, unit: int, tokens: int, last: bool) -> None:
        """The TTS engine has made a chunk of a unit."""
        self.held[unit] += tokens
        if last:
            self.made.add(unit)
        if not self.cancelled or self.draining:
            self.go_on()
        elif self.spec.cancel == NEXT_CHUNK and not last:
            self.tts.stop(unit, False)

    def chunk_of_omni(self, tokens: int, last: bool) -> None:
        """The speech-to-speech model has made a chunk."""
        assert self.omni is not None
        if not self.cancelled:
            self.why.waited_for(-1, False)
            self.send(tokens * self.omni.spec.token_audio, last)
        elif self.spec.cancel == NEXT_CHUNK and not last:
            self.omni.stop(self.number, False)

    def go_on(self) -> None:
        """Send what can be sent, ask for what may be asked for."""
        going = True
        while going:
            if not self.cancelled:
                self.send_held()
            going = self.submit_units()
        if self.draining and len(self.made) == len(self.units):
            self.draining = False
            self.call.draining -= 1
            self.call.socket_free()

    def submit_units(self) -> bool:
        """Units whose text is there go to the TTS engine; True if one came from the cache."""
        now = float(self.env.now)
        from_cache = False
        while self.asked < self.ready:
            at = self.gate(self.asked, now)
            if at > now:
                self.why.source(self.units[self.asked]).gated = True
                if at < INF and not self.gate_set:
                    self.gate_set = True
                    self.timer(lay.D_GATE, at, self.gate_opens)
                break
            unit = self.units[self.asked]
            self.asked += 1
            self.why.source(unit).asked_at = now
            if self.cluster.tape.unit_cached[unit]:
                self.held[unit] = int(self.cluster.tape.unit_tokens[unit])
                self.made.add(unit)
                from_cache = True
            elif self.spec.connect_tts > 0.0:
                at = now + self.spec.connect_tts
                self.timer(lay.D_TTS, at, lambda unit=unit: self.connected(unit), unit)
            else:
                self.ask_tts(unit)
        return from_cache

    def gate(self, i: int, now: float) -> float:
        """When unit i may go to the TTS engine; inf: not before something happens."""
        if self.cancelled:
            return now
        if self.call.draining:
            return INF  # an earlier answer still occupies the call's socket
        at = now
        before = i - 1 - self.spec.prefetch
        if before >= 0:
            if len(self.play_ends) <= before:
                return INF
            at = max(at, self.play_ends[before])
        if i > 0 and self.spec.ahead < INF:
            if len(self.play_ends) < i:
                return INF
            at = max(at, self.play_ends[i - 1] - self.spec.ahead)
        return at

    def gate_opens(self) -> None:
        self.gate_set = False
        if not self.cancelled:
            self.go_on()

    def connected(self, unit: int) -> None:
        if not self.cancelled or self.draining:
            self.ask_tts(unit)

    def ask_tts(self, unit: int) -> None:
        if not self.tts.ask(unit):
            self.not_served()

    # --- speech to the listener -----------------------------------------------------------------

    def send_held(self) -> None:
        """Chunks leave in the order of units; a later unit's speech waits at the server."""
        while len(self.play_ends) < len(self.units):
            unit = self.units[len(self.play_ends)]
            done = unit in self.made
            if self.held[unit] == 0 or (self.spec.wait_all and not done):
                break
            audio = self.held[unit] * self.tts.spec.token_audio
            self.held[unit] = 0
            self.why.waited_for(unit, unit != self.units[0])
            self.send(audio, done and unit == self.units[-1])
            if not done:
                break
            self.why.since = float(self.env.now)
            playing = self.mode == player.PLAYING
            self.play_ends.append(self.play_end if playing else float(self.env.now))

    def send(self, audio: float, last: bool) -> None:
        """A chunk leaves the server, travels, passes the client's code, and plays."""
        spec, now = self.spec, float(self.env.now)
        key = hash_key_py(spec.seed, lay.P_DOWN, self.number, self.chunks)
        arrive = now + (spec.delay + float(spec.jitter[table_index_py(key)]))
        first = self.chunks == 0
        self.chunks += 1
        if first:
            self.first_sent, self.arrived = now, arrive
        else:
            arrive = max(arrive, self.last_arrival)  # order is kept on the way
        self.last_arrival = arrive
        ready = max(arrive, self.client_free)
        ready = ready + (audio * spec.client_per_audio + spec.client_per_chunk)
        if first and self.filler_until > ready:
            if spec.filler_cut:
                self.overlap = True
            else:
                ready = self.filler_until
        self.client_free = ready
        if not first:
            self.count_gap(audio, ready)
        self.ready_at, self.audio = ready, audio
        if spec.record_chunks:
            self.cluster.chunks.append((self.number, self.chunks - 1, now, arrive, ready, audio))
        lead = self.play_end - ready
        (self.mode, self.play_end, self.held_audio, self.since, stall, started, lost) = (
            player.deliver(
                self.mode, self.play_end, self.held_audio, self.since, ready, audio, last,
                spec.prebuffer, spec.rebuffer, spec.max_wait, spec.max_queue,
            )
        )  # fmt: skip
        self.lost += lost
        self.received += audio - lost
        if started >= 0.0:
            self.started = started
        if stall > 0.0:
            self.count_stall(stall, ready)
        if spec.blame:
            late = arrive - (now + spec.delay)
            self.why.listened(late, arrive, ready, lead, stall, started)
        if self.mode == player.PLAYING:
            self.played_until = self.play_end
            self.expect_interruption()
        if last:
            self.all_sent()

    def count_gap(self, audio: float, ready: float) -> None:
        """Pace = audio of a chunk / the gap before it; the alarm's ratio is that gap / the audio
        that the chunk before had brought."""
        gap, cluster = ready - self.ready_at, self.cluster
        coarse = ratio_bucket(gap / self.audio) // (FINE_PER_OCTAVE // COARSE_PER_OCTAVE)
        cluster.gaps[cluster.bin(ready), coarse] += 1
        if self.spoken >= self.spec.warmup:
            cluster.gap_hist[ratio_bucket(gap / audio)] += 1
        if gap > 0.0 and (self.pace < 0.0 or audio / gap < self.pace):
            self.pace = audio / gap

    def count_stall(self, stall: float, ready: float) -> None:
        if stall > player.ROUNDING:
            self.stalls += 1
        self.stall += stall
        self.stall_largest = max(self.stall_largest, stall)
        if stall > self.spec.audible:
            began = ready - stall
            self.audible += 1
            cluster = self.cluster
            cluster.series[cluster.bin(began), rec.D_STALLS] += 1
            if self.spec.warmup <= began < cluster.first_stall:
                cluster.first_stall = began

    def expect_interruption(self) -> None:
        """Once it is known when the audio plays at which the caller breaks in, so is that
        instant."""
        if self.interrupt != rec.NOTHING or self.half:
            return
        tape, u, spec = self.cluster.tape, self.turn, self.spec
        barge, noise = float(tape.barge[u]), float(tape.false_barge[u])
        position = min(barge, noise)
        if position >= self.received:
            return
        heard = self.play_end - (self.received - position)
        self.stop_at = ((heard + spec.capture) + self.call.uplink(u)) + spec.detect
        self.interrupt = rec.CALLER if barge <= noise else rec.NOISE
        self.timer(lay.D_STOP, self.stop_at, self.stop)
        if self.interrupt == rec.CALLER:
            # who breaks in after the last turn hangs up, and the call ends once that is noticed
            last = u == self.call.last
            self.call.turn_ends(self.stop_at if last else heard, interrupted=True)

    def all_sent(self) -> None:
        """The last chunk has left: the turn ends with its playback, unless something breaks in."""
        self.done = float(self.env.now)
        self.listened = self.received
        self.outcome = rec.PLAYED
        self.no_longer_made()
        if self.half or self.interrupt == rec.CALLER:
            return
        if self.interrupt == rec.NOISE and self.stop_at < self.played_until:
            return  # the pause is still to come
        self.call.turn_ends(self.played_until)

    # --- interruptions --------------------------------------------------------------------------

    def stop(self) -> None:
        """The server has noticed that the caller broke in, or a noise, or that the turn goes on."""
        now = float(self.env.now)
        if self.cancelled or self.call.over:
            return
        if self.interrupt == rec.NOISE:
            if self.outcome == rec.PLAYED and self.played_until <= now:
                return  # it has been heard to its end before the noise was noticed
            if self.spec.resume < INF:
                self.stop_at = INF  # no pause is still to come
                self.fall_silent(now)
                return
        self.silence_player(now)
        self.outcome = rec.CANCELLED
        self.cancel(self.spec.cancel)
        if self.spec.cancel == NONE:
            self.go_on()
        if self.interrupt == rec.NOISE:
            self.call.turn_ends(max(self.stopped, now))

    def fall_silent(self, now: float) -> None:
        """A false interruption: the agent pauses, then goes on where it was."""
        if self.mode == player.PLAYING and self.play_end > now:
            self.play_end += self.spec.resume
            self.played_until = self.play_end
            self.paused += self.spec.resume
            if self.outcome == rec.PLAYED:
                self.call.turn_ends(self.played_until)

    def silence_player(self, now: float) -> None:
        """What has been heard when the player stops: flushed, or played to the buffer's end."""
        stopped = now + self.spec.delay
        flush = self.spec.flush
        if self.started < 0.0 or (flush and self.started >= stopped):
            self.started, self.listened, self.stopped = -1.0, 0.0, now
        elif flush and self.played_until > stopped:
            self.listened = max(0.0, self.received - (self.played_until - stopped))
            self.stopped = stopped
        else:
            self.listened, self.stopped = self.received, self.played_until

    def hung_up(self) -> None:
        """The caller is gone without having heard anything."""
        self.started, self.listened, self.stopped = -1.0, 0.0, float(self.env.now)
        self.interrupt = rec.NOTHING
        if not self.cancelled:
            self.outcome = rec.HUNG_UP
            self.cancel(self.spec.cancel)
            if self.spec.cancel == NONE:
                self.go_on()

    def not_served(self) -> None:
        """An engine could never hold a stream of this answer: the call ends."""
        if not self.cancelled:
            self.cancel(IMMEDIATE)
            self.outcome = rec.NOT_SERVED
        if not self.call.over:
            self.call.end(FAILED_OUTCOME)

    def cancel(self, mode: int) -> None:
        """Nothing more of this answer is sent; ``mode`` says what still runs."""
        self.cancelled = True
        self.no_longer_made()
        if self.done < 0.0:
            self.done = float(self.env.now)
        if self.text_at < 0.0 and self.cluster.asr is not None:
            self.cluster.asr.drop(self.number, self.env.now)
        if self.omni is not None:
            if mode != NONE:
                self.omni.stop(self.number, mode != IMMEDIATE)
            return
        if self.asked_at < 0.0:
            return
        if mode == NONE:
            if len(self.made) < len(self.units):
                self.draining = True
                self.call.draining += 1
            return
        self.llm.stop(self.number, mode != IMMEDIATE)
        for unit in self.units[: self.asked]:
            self.tts.stop(unit, mode != IMMEDIATE)

    # --- recording --------------------------------------------------------------------------------

    def no_longer_made(self) -> None:
        self.cluster.answering -= self.being_made
        self.being_made = False

    def timer(self, kind: int, t: float, then, number: int | None = None) -> None:
        """``then()`` at t; ties go by kind, then number (this answer's unless given)."""
        self.cluster.timer(kind, self.number if number is None else number, t, then)

    def row(self) -> tuple[list[int], list[float]]:
        """Columns of the record."""
        return [
            self.outcome, self.chunks, self.stalls, self.audible, len(self.play_ends),
            self.filler, self.overlap, self.interrupt, self.fell_back,
        ], [
            self.speak, self.spoken, self.heard_end, self.decided_at, self.text_at, self.asked_at,
            self.first_unit, self.first_sent, self.arrived, self.started, self.played_until,
            self.done, self.stall, self.stall_largest, self.received, self.listened, self.stopped,
            self.lost, self.paused, self.pace,
        ]  # fmt: skip
