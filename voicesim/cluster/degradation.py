"""The ladder of a scenario: its rungs as numbers, and the process that climbs it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from voicesim.cluster.log import Log
from voicesim.engine.quantiles import quantile_rows
from voicesim.engine.spec import PoolSpec, Rung
from voicesim.policy.degradation import REFUSE, SERVE, STAND_IN, Ladder, Trigger
from voicesim.scenario.cluster import Chunk
from voicesim.scenario.degradation import SIGNALS, Degradation

THEN = {None: SERVE, "text": STAND_IN, "filler": STAND_IN, "refuse": REFUSE}


def rungs(given: Degradation, chunk: Chunk, pools: Sequence[str], own: str) -> tuple[Rung, ...]:
    """The ladder of pool ``own`` for the engine.  Each rung keeps what those below it changed.

    chunk: the pool's own sizes.  pools: all pools of the run, by number.
    """
    found, rung = [], Rung()
    first, ramp, steady = chunk.first, list(chunk.ramp), chunk.steady
    for step in given.ladder:
        if step.chunk is not None:
            first = step.chunk.first or first
            ramp = ramp if step.chunk.ramp is None else step.chunk.ramp
            steady = step.chunk.steady or steady
            rung = replace(rung, schedule=(first, *ramp, steady))
        changed: dict[str, Any] = {
            "speech": step.speech, "prompt": step.prompt_fewer, "codec": step.codec_work,
        }  # fmt: skip
        rung = replace(rung, **{k: v for k, v in changed.items() if v is not None})
        if step.pool is not None:
            rung = replace(rung, to=-1 if step.pool == own else list(pools).index(step.pool))
        rung = replace(rung, then=THEN[step.then], filler=step.filler or 0.0)
        found.append(rung)
    return tuple(found)


def numbers(given: Degradation, chunk: Chunk, pools: Sequence[str], own: str) -> dict[str, Any]:
    """The ladder and the filler of pool ``own``, by the names of PoolSpec."""
    found: dict[str, Any] = {"rungs": rungs(given, chunk, pools, own)}
    if given.first_audio is not None:
        found |= {"fill_after": given.first_audio.within, "filler": given.first_audio.filler}
    return found


def ladder(given: Degradation) -> Ladder:
    """The rule that climbs it."""
    triggers = [
        [
            Trigger(name, levels.above, levels.below)
            for name in SIGNALS
            if (levels := getattr(step.when, name)) is not None
        ]
        for step in given.ladder
    ]
    return Ladder(triggers, [given.hold if r.hold is None else r.hold for r in given.ladder])


def signals(spec: PoolSpec, pool: Any, now: float, number: int, window: float) -> dict[str, float]:
    """What is known of pool ``number`` of a run, by the names of ``SIGNALS``.

    pool: kernel's or reference's.  The gaps are those of the whole run, in the bins that ended
    within the last ``window`` seconds.
    """
    read, mine = pool.readings(), spec.pool_of == number
    open_ = mine & (read.open != 0)
    last = int(now / spec.resolution)
    first = max(last - max(round(window / spec.resolution), 1), 0)
    counts = pool.gap_counts()[first:last].sum(axis=0)
    return {
        "streams": float(read.live[mine].sum()) / max(int(open_.sum()), 1),
        "waiting": float(read.waiting[mine].max()),
        "chunk_gap_p99": float(quantile_rows(counts[None, :], 0.99)[0]) if counts.any() else 0.0,
        "lag": float(pool.codec_lag()[mine].max()),
    }


def climbing(given: Degradation, spec: PoolSpec, names: Sequence[str], log: Log) -> Any:
    """The control process: every ``every`` seconds each pool's rule looks at its signals."""

    def climb(env: Any, pool: Any) -> Any:
        rules = [ladder(given) if p.rungs else None for p in spec.pools]
        while True:
            yield env.timeout(given.every)
            for number, rule in enumerate(rules):
                if rule is None:
                    continue
                before = rule.rung
                rung = rule.look(env.now, signals(spec, pool, env.now, number, given.window))
                if rung != before:
                    pool.set_rung(number, rung)
                    what = given.ladder[rung - 1].name if rung else "as it is"
                    log.note(env.now, f"rung: {what}", names[number], value=rung)

    return climb
