"""The gateway's queue (cap_queue) never holds a caller while there is a place for them."""

import dataclasses

import numpy as np

from tests.engine.worlds import differences, step_cost, tape_of
from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, PoolEnvironment, record
from voicesim.engine.reference import run_reference
from voicesim.engine.spec import CodecSpec, PoolSpec
from voicesim.policy.admission import ADMIT_ALL, CAP_QUEUE, SLACK
from voicesim.policy.routing import ROUND_ROBIN

# one step takes 10 ms whatever is in it
BASE = PoolSpec(
    engines=1, step=step_cost(memory=0.01, base=0.0, per_token=0.0), schedule=(10,),
    end=1000.0, horizon=900.0, admission=CAP_QUEUE, limit=1,
)  # fmt: skip


def outcomes(spec, tape, processes=()):
    """Outcome of every utterance, kernel and reference agreeing to the bit; and the record."""
    pool = Pool(spec, tape)
    env = PoolEnvironment(pool)
    for process in processes:
        env.process(process(env, pool))
    env.run(until=env.at(spec.end))
    kernel = record(pool)
    assert differences(kernel, run_reference(spec, tape, processes=processes)) == []
    return kernel.utterance_i[:, at.R_OUTCOME].tolist(), kernel


def test_a_request_that_can_never_fit_does_not_block_the_others():
    """10 blocks of 16: the second stream (516 tokens) fails when made, the rest are served."""
    tape = tape_of([0.0, 0.01, 0.02, *range(2, 12)], [50, 500, 50] + [50] * 10)
    found, _ = outcomes(dataclasses.replace(BASE, blocks=10), tape)
    assert found == [at.COMPLETED, at.FAILED_OUTCOME] + [at.COMPLETED] * 11


def test_the_last_token_needs_no_block():
    """One prompt token, one sampled: that one is never computed, one block of one is enough."""
    spec = dataclasses.replace(BASE, block_size=1, blocks=1)
    assert outcomes(spec, tape_of([0.0], [1], prompt=[1]))[0] == [at.COMPLETED]


def test_a_reopened_replica_takes_from_the_queue():
    def close_for_ten_seconds(env, pool):
        yield env.timeout(0.1)
        pool.set_open(0, False)
        yield env.timeout(10.0)
        pool.set_open(0, True)

    tape = tape_of([0.0, 0.05, *range(1, 11)], [50] * 12)
    found, run = outcomes(BASE, tape, [close_for_ten_seconds])
    assert found == [at.COMPLETED] * 12
    assert run.utterance_f[1, at.Z_ADMIT] == 10.1


def test_nobody_queues_while_another_replica_has_room():
    """Round robin names a full replica; the gateway knows that the other one is free."""
    spec = dataclasses.replace(BASE, engines=2, routing=ROUND_ROBIN)
    tape = tape_of([0.0, 0.1, 3.0, *(4.0 + 0.1 * np.arange(200))], [500, 20, 50] + [50] * 200)
    found, run = outcomes(spec, tape)
    assert set(found) == {at.COMPLETED}
    assert run.live_area[1] > 0.8 * run.live_area[0]


def test_slack_sees_streams_that_wait_at_the_codec_only():
    """A codec of 1 s a chunk of 1.2 s and replies of five chunks: one stream at a time keeps up,
    two do not, and all tokens are generated in half a second.  Slack refuses most of them."""
    codec = CodecSpec(np.array([1.0, 0.0, 0.0]), cap=1, shared=False)
    spec = dataclasses.replace(
        BASE, admission=SLACK, lead=0.5, codec=codec, token_audio=0.12, end=400.0
    )
    found, run = outcomes(spec, tape_of(np.arange(20) * 1.5, [50] * 20))
    assert found.count(at.REFUSED) >= 10
    spec = dataclasses.replace(spec, admission=ADMIT_ALL)
    _, everybody = outcomes(spec, tape_of(np.arange(20) * 1.5, [50] * 20))
    stalls = run.utterance_f[:, at.Z_STALL].sum()
    assert stalls < 0.05 * everybody.utterance_f[:, at.Z_STALL].sum()


def test_patience_counts_until_the_sound_is_heard():
    """The reply is on its way (500 ms) when the caller's 200 ms are over: they hear nothing."""
    spec = dataclasses.replace(BASE, delay=0.5)
    found, run = outcomes(spec, tape_of([0.0], [10], patience=[0.2]))
    assert found == [at.ABANDONED]
    assert run.utterance_f[0, at.Z_DONE] == 0.2
    assert run.utterance_f[0, at.Z_START] == -1.0


def test_who_hung_up_hears_no_stalls():
    """Chunks sent before they hung up arrive late at nobody: no stall, no first stall."""
    spec = dataclasses.replace(BASE, delay=0.5, token_audio=0.001, audible=0.05)
    found, run = outcomes(spec, tape_of([0.0], [100], patience=[0.45]))
    assert found == [at.ABANDONED]
    assert run.utterance_i[0, at.R_STALLS] == 0
    assert run.series[:, at.B_STALLS].sum() == 0
    assert run.first_stall == np.inf


def test_a_stream_that_is_live_to_the_end_counts_to_the_end():
    spec = dataclasses.replace(BASE, end=10.0, horizon=10.0)
    _, run = outcomes(spec, tape_of([0.0], [5000]))
    assert run.live_area[0] == 10.0
