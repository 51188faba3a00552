"""What the reference notes to say why a stall was heard (rules and rows: engine/blame.py).

The states are plain rows; what is told twice is when they are taken and of what.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from voicesim.engine import blame as b
from voicesim.engine import cost


class Sums:
    """What one engine's steps took beyond a lone stream's."""

    def __init__(self, engine: Any):
        self.engine = engine
        self.row = np.zeros(b.NEB)

    def step_begins(self, decodes: int, context: int, prompts: int, kv: int, full: float) -> None:
        """full: the step's cost before noise (s); context: KV tokens that its decoding streams
        read; prompts: its prompt tokens; kv: all KV tokens read."""
        row, engine, params = self.row, self.engine, self.engine.spec.step.params
        alone = bare = 0.0
        if decodes:
            one = context / decodes
            gpu = cost.gpu_seconds(params, engine.compute(1), one, one)
            alone = cost.step_seconds(params, gpu, cost.host_seconds(params, 1.0, 0.0))
            gpu = cost.gpu_seconds(params, engine.compute(decodes), float(context), float(context))
            host = cost.host_seconds(params, float(decodes), float(engine.chunks_emitted))
            bare = cost.step_seconds(params, gpu, host)
        row[b.ALONE] = alone
        row[b.BARE] = bare if prompts else full
        row[b.FULL] = full
        row[b.PROMPTS] = prompts
        row[b.WIDTH], row[b.DECODES], row[b.KV] = engine.active, decodes, kv

    def step_ends(self, start: float, seconds: float, now: float, lost: float) -> None:
        row, step = self.row, self.engine.steps + 1
        b.add_step(row, 0, seconds, now - start, lost)
        b.remember(row, 0, b.N_WIDEST, b.WIDEST, 2, step, row[b.WIDTH], start)
        if row[b.PROMPTS] > 0.0:
            b.remember(row, 0, b.N_LONGEST, b.LONGEST, 3, step, row[b.PROMPTS], start)


class Waits:
    """What one stream has waited for."""

    def __init__(self) -> None:
        self.now, self.base = np.zeros(b.N_STATE), np.zeros(b.N_STATE)
        self.margin = 0.0
        self.off, self.away = np.zeros(b.N_SUMS), np.zeros(b.N_SUMS)
        self.away_since = self.waited = self.thrown_out = 0.0
        self.is_away = False
        self.found = 0
        self.held_at = 0.0

    def submitted(self, now: float) -> None:
        self.away_since, self.is_away = now, True

    def preempted(self, sums: Sums, now: float) -> None:
        if not self.is_away:
            self.away_since, self.is_away = now, True
            self.away[:] = sums.row[: b.N_SUMS]

    def paused(self, sums: Sums, now: float) -> None:
        """The stream is ahead of its listener and pauses: the engine's steps are not its own."""
        self.held_at = now
        self.away[:] = sums.row[: b.N_SUMS]

    def goes_on(self, sums: Sums) -> None:
        self.off += sums.row[: b.N_SUMS] - self.away

    def joined(self, stream: Any, sums: Sums, now: float) -> None:
        """The stream's prompt is in: it decodes, for the first time or again."""
        engine = sums.engine
        if stream.generated == 1:
            params, found, n = engine.spec.step.params, self.found, stream.prompt - self.found
            pairs = n * (found + 0.5 * (n + 1.0))
            gpu = cost.gpu_seconds(params, engine.compute(n), float(stream.prompt), pairs)
            alone = cost.step_seconds(params, gpu, cost.host_seconds(params, 1.0, 0.0))
            self.waited = (now - self.away_since) - alone
            self.off[:] = sums.row[: b.N_SUMS]
        else:
            self.thrown_out += now - self.away_since
            self.off += sums.row[: b.N_SUMS] - self.away
        self.is_away = False

    def chunk_filled(self, sums: Sums, t: float) -> None:
        """A chunk is full and goes to the codec at once."""
        now, row = self.now, sums.row[: b.N_SUMS] - self.off
        now[b.PREFILL], now[b.PAUSE] = row[b.SUM_PREFILL], row[b.SUM_PAUSE]
        now[b.BATCH], now[b.SHARING] = row[b.SUM_BATCH], row[b.SUM_SHARING]
        now[b.NEIGHBOURS] = row[b.SUM_NEIGHBOURS]
        now[b.PREEMPTION], now[b.QUEUE], now[b.CODEC] = self.thrown_out, self.waited, 0.0
        now[b.C_TOKENS], now[b.C_STEPS] = row[b.SUM_TOKENS], row[b.SUM_STEPS]
        now[b.C_STEP] = sums.engine.steps
        now[b.C_BATCH], now[b.C_TIME] = sums.row[b.WIDTH], t

    def vocoded(self, waited: float, alone: float, lost: float) -> None:
        self.now[b.CODEC] += (waited - alone) - lost
        self.now[b.NEIGHBOURS] += lost

    def arrived(self, lead: float | None, anew: bool) -> None:
        """A chunk is at the listener; lead: seconds before a playing buffer was empty; anew: the
        playback begins with it, or goes on after a stall."""
        if anew:
            self.margin = 0.0
        elif lead is not None and lead >= self.margin:
            self.margin = lead
        else:
            return
        self.base[:] = self.now


@dataclass(frozen=True)
class Handed:
    """What a chunk has waited for when its stage, pool ``pool``, hands it to the dialogue."""

    state: np.ndarray
    pool: int
    sums: Sums


def stall_row(
    who: tuple[int, int, int, int, int], sums: Sums, base: np.ndarray, now: np.ndarray,
    began: float, stall: float, lost: float, rest: int, since: float | None = None,
) -> tuple[list[int], list[float]]:  # fmt: skip
    """A row of the log.  who: (stream or answer, chunk, unit, pool, engine); since: the engine's
    step number after which it is asked what it did, if it was another's at ``base``."""
    shares, parts = np.zeros(b.NC), np.zeros(2 * b.N_CHARGED)
    parts[: b.N_CHARGED] = (now - base)[: b.N_CHARGED]
    b.usual(sums.row, 0, now[b.C_STEPS] - base[b.C_STEPS], parts, b.N_CHARGED)
    cause = b.split(parts, 0, shares, 0, stall, lost, rest)
    row, step = sums.row, int(base[b.C_STEP] if since is None else since)
    widest = b.largest_since(row, 0, b.N_WIDEST, b.WIDEST, 2, step)
    longest = b.largest_since(row, 0, b.N_LONGEST, b.LONGEST, 3, step)
    return [
        *who, cause, int(base[b.C_BATCH]), int(now[b.C_BATCH]),
        int(row[widest + 1]) if widest >= 0 else int(now[b.C_BATCH]),
        int(now[b.C_TOKENS] - base[b.C_TOKENS]),
        int(row[longest + 1]) if longest >= 0 else 0, int(now[b.C_STEP]),
    ], [
        began, stall, float(base[b.C_TIME]),
        float(row[longest + 2]) if longest >= 0 else -1.0, *map(float, shares),
    ]  # fmt: skip
