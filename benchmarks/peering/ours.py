"""voicesim on the shared work: tokens alone, or with everything that a voice call adds."""

import numpy as np

from peering.answers import Served, answers
from peering.meter import measure
from peering.work import Law, Work

WHOLE = 1 << 20  # tokens of a chunk that no reply fills


def text(work: Work) -> dict[str, float]:
    """Tokens alone; the first token and the rest are two chunks to a listener who takes no time."""
    from voicesim.engine import layout as at

    spec, tape = world(work, voice=False)
    found = measure(lambda: play(spec, tape), 25)
    ints, floats, _ = rows(play(spec, tape))
    assert (ints[:, at.R_OUTCOME] == at.COMPLETED).all()
    return found | answers(served(floats, work))


def served(floats, work: Work) -> Served:
    """Rows of a run; they lie in the order of the tape."""
    from voicesim.engine import layout as at

    assert (floats[:, at.Z_REQUEST] == work.arrival).all()
    return Served(
        asked=floats[:, at.Z_REQUEST],
        first=floats[:, at.Z_START],
        last=floats[:, at.Z_DONE],
        tokens=work.tokens,
    )


def voice(work: Work) -> dict[str, float]:
    """Chunks, codec, network, step noise and a listener besides; no text latencies."""
    from voicesim.engine import layout as at

    spec, tape = world(work, voice=True)
    found = measure(lambda: play(spec, tape), 25)
    ints, _, live = rows(play(spec, tape))
    assert (ints[:, at.R_OUTCOME] == at.COMPLETED).all()
    return found | {"live_streams": live / float(work.arrival[-1])}


def world(work: Work, voice: bool):
    """(spec, tape): one engine of the shared law; for a voice, 25 tokens a second of audio."""
    from voicesim.engine.spec import CodecSpec, PoolSpec
    from voicesim.workload.tape import Tape

    rng = np.random.default_rng(2)
    n = len(work.arrival)
    tape = Tape(
        work.arrival, np.arange(n + 1), work.tokens, work.prompt, np.zeros(n),
        np.full(n, np.inf), 0, False, 0,
    )  # fmt: skip
    last = float(work.arrival[-1])
    spec = PoolSpec(
        engines=1,
        step=step_cost(work.law),
        schedule=(10, 25) if voice else (1, WHOLE),
        codec=CodecSpec(np.array([0.003, 0.0005, 2e-5]), cap=8, shared=False) if voice else None,
        max_num_seqs=work.most,
        blocks=200_000,
        token_audio=0.04 if voice else 1e-12,
        noise=np.sort(rng.lognormal(-0.005, 0.1, 4096)) if voice else None,
        jitter=np.sort(rng.gamma(2.0, 0.005, 4096)) if voice else np.zeros(4096),
        horizon=last,
        end=last + max(600.0, n / work.capacity),
    )
    return spec, tape


def step_cost(law: Law):
    """The law as host time: streams of the step count, its tokens do not."""
    from voicesim.engine import cost

    params = np.zeros(cost.N_STEP_PARAMS)
    params[cost.NORM] = 1.0
    params[cost.HOST] = law.fixed_s
    params[cost.HOST_PER_STREAM] = law.per_stream_s
    return cost.StepCost(params, np.zeros(2049))


def play(spec, tape):
    """A run to its end; the pool."""
    from voicesim.engine.pool import Pool

    pool = Pool(spec, tape)
    pool.advance(spec.end)
    return pool


def rows(pool):
    """(int table, float table, stream-seconds) of a run."""
    from voicesim.engine.pool import record

    result = record(pool)
    return result.utterance_i, result.utterance_f, float(result.live_area.sum())
