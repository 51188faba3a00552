"""Little's law, checked in every run: the time-average of live streams is their rate x their stay.

The engines keep the area under the number of their live streams, event by event.  The rows of the
utterances say when each was admitted and when its last chunk arrived, and the time series what a
clock saw.  The three are kept apart from one another and must agree:

- a clock of period r sees every stay within r, so samples x r is the area within r per stream;
- a stay ends when the last chunk leaves, which is its arrival without the network: the delay and at
  most the largest jitter.  A cancelled stream holds its place until the step or the codec batch in
  flight ends; with overlapped scheduling every stream does for one more, which is planned by then.

Who is still there when the run stops has no row yet; then the area is only held from below.
"""

from dataclasses import dataclass

import numpy as np

from voicesim.engine import cost
from voicesim.engine import layout as at
from voicesim.engine.record import RunRecord
from voicesim.engine.spec import INF, PoolSpec

ROUNDING = 1e-9


class LittleError(RuntimeError):
    """A run that contradicts itself: a defect of the simulator, not of what it was asked."""


@dataclass(frozen=True)
class Stays:
    """Of rows of utterances.  low, high: float64[replicas], bounds of the stream seconds that they
    were live; settled, pending: how many rows."""

    low: np.ndarray
    high: np.ndarray
    settled: int
    pending: int

    def __add__(self, other: "Stays") -> "Stays":
        return Stays(
            self.low + other.low, self.high + other.high, self.settled + other.settled,
            self.pending + other.pending,
        )  # fmt: skip


def stays(spec: PoolSpec, run: RunRecord) -> Stays:
    """Of the rows of a record: all of a run's, or a piece of them; pieces add up."""
    outcome, engine = run.utterance_i[:, at.R_OUTCOME], run.utterance_i[:, at.R_ENGINE]
    settled = (outcome != at.PENDING) & (engine >= 0)
    stay = run.utterance_f[settled, at.Z_DONE] - run.utterance_f[settled, at.Z_ADMIT] - spec.delay
    done = outcome[settled] == at.COMPLETED
    least = np.where(done, stay - spec.jitter[-1], 0.0)
    steps = ~done + int(spec.overlap)  # that it may hold its place for beyond its stay
    late = longest_hold(spec) if steps.any() else 0.0
    most = np.where(done, stay, stay + spec.delay) + late * steps
    on = engine[settled]
    return Stays(
        np.bincount(on, np.maximum(least, 0.0), spec.replicas),
        np.bincount(on, np.maximum(most, 0.0), spec.replicas),
        len(stay),
        int((outcome == at.PENDING).sum()),
    )


def check_little(
    spec: PoolSpec, run: RunRecord, undisturbed: bool = True, rows: Stays | None = None
) -> None:
    """Raise LittleError if a run's areas, rows and samples cannot be of one run.

    undisturbed: nothing acted on the engines.  What a stay can be at most is known only of such a
    run on cards of one pool's own; of others the clock and the engines are compared.
    rows: of a run whose record has none left, the sum of ``stays`` of what it had.
    """
    found = stays(spec, run) if rows is None else rows
    low, high = found.low, found.high
    plain = undisturbed and spec.routes is None and spec.on_card is None
    there = found.pending if run.counters["live_calls"] or spec.stage else 0
    if there:
        high = np.full(spec.replicas, INF)
    if not plain:
        low, high = np.zeros(spec.replicas), np.full(spec.replicas, INF)
    area, slack = run.live_area, ROUNDING * (run.now + 1.0) * (found.settled + 1)
    for g in np.flatnonzero((area < low - slack) | (area > high + slack)):
        raise LittleError(
            f"Little's law does not hold on replica {g}: its live streams add up to {area[g]:g} "
            f"stream seconds, the stays of its callers to {low[g]:g}..{high[g]:g}; please report it"
        )
    samples = float(run.series[:, at.B_LIVE].sum()) * spec.resolution
    seen = found.settled + there + run.counters.get("lost", 0)
    if abs(samples - area.sum()) > spec.resolution * seen + slack:
        raise LittleError(
            f"Little's law does not hold: the clock saw {samples:g} stream seconds, the engines "
            f"{area.sum():g}; please report it"
        )


def longest_hold(spec: PoolSpec) -> float:
    """Seconds that a step or a codec batch takes at most, however full and however slowed."""
    tokens = min(spec.budget, len(spec.step.compute_s) - 1)
    kv = float(spec.blocks) * spec.block_size
    params = spec.step.params
    compute = float(spec.step.compute_s.max())
    gpu = cost.gpu_seconds(params, compute, kv, tokens * kv if params[cost.ATTENTION] else 0.0)
    host = cost.host_seconds(params, spec.max_num_seqs, spec.max_num_seqs)
    noise = 1.0 if spec.noise is None else float(spec.noise[-1])
    step = cost.step_seconds(params, gpu, host) * max(noise, 1.0) * spec.decode_slowdown
    codec = spec.codec
    if codec is None:
        return step
    frames = codec.cap * (max(spec.schedule) + codec.left_context)
    floor, per_row, per_frame = codec.cost.tolist()
    batch = cost.codec_seconds(floor, per_row, per_frame, codec.cap, frames)
    return max(step, batch * spec.codec_slowdown * codec.workers)
