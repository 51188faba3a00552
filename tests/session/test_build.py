"""A scenario of calls becomes the numbers of its stages."""

import math

import numpy as np
import pytest

from tests import talk
from voicesim.scenario import load
from voicesim.session.build import dialogue_spec
from voicesim.session.spec import CANCELS


@pytest.fixture
def spec(tmp_path):
    def built(*sets, text=talk.SCENARIO, replication=0):
        return dialogue_spec(load(talk.write(tmp_path, text), sets).variants["base"], replication)

    return built


def test_the_stages(spec):
    s = spec()
    assert (len(s.llm), len(s.tts), s.omni) == (1, 1, None)
    assert all(pool.stage for pool in s.pools)
    assert s.llm[0].prefix == 1200 and s.tts[0].prefix == 0
    assert s.tts[0].codec.cap == 8 and s.llm[0].codec is None
    assert s.tts[0].token_audio == 0.08
    assert s.asr.cost.tolist() == [0.01, 0.001, 0.0]
    assert s.end == 420.0 and s.warmup == 30.0
    assert s.capture == 0.02 and s.limit == 1 << 40
    assert (s.detect, s.cancel, s.flush, s.resume) == (0.5, CANCELS.index("immediate"), True, 2.0)
    assert math.isinf(s.ahead) and math.isinf(s.filler_after) and math.isinf(s.omni_timeout)
    large = spec(text=talk.LARGE)
    assert (len(large.llm), len(large.tts)) == (2, 2)
    assert large.omni is not None and large.omni_timeout == 1.0
    assert (large.filler_after, large.filler_audio, large.filler_cut) == (0.75, 0.5, False)


def test_the_client(spec):
    """Two round trips of 30 ms; the language model's requests take 2 ms of their own."""
    s = spec("pipeline.client={connection: new, round_trip: 30ms, read_chunk: 400ms, sleep: 100ms, "
             "resample: 5ms, consume: wait}", "listener.player={prebuffer: 100ms}")  # fmt: skip
    assert s.connect_llm == pytest.approx(0.062) and s.connect_tts == pytest.approx(0.06)
    assert (s.prebuffer, s.rebuffer) == (0.4, 0.4)
    assert (s.client_per_audio, s.client_per_chunk, s.wait_all) == (0.1, 0.005, True)
    assert spec().connect_llm == pytest.approx(0.002)


def test_the_way_up_is_the_way_down_unless_it_is_given(spec):
    s = spec("listener.network={delay: 40ms, jitter: 10ms}")
    assert s.uplink == s.delay == 0.04
    assert np.array_equal(s.jitter, s.uplink_jitter) and s.jitter.mean() == pytest.approx(
        0.01, 0.01
    )
    s = spec("listener={network: {delay: 40ms, jitter: 10ms}, uplink: {delay: 15ms}}")
    assert (s.uplink, s.uplink_jitter.max()) == (0.015, 0.0)


def test_tenants_with_different_system_prompts_share_no_prefix(spec):
    tenants = "workload.tenants=[{name: a, share: 0.5}, {name: b, share: 0.5, preset: companion}]"
    assert spec(tenants).llm[0].prefix == 0
    assert spec("cluster.pools.llm.engine.prefix_caching=false").llm[0].prefix == 0


def test_each_pool_and_replication_has_a_seed_of_its_own(spec):
    seeds = [pool.seed for r in range(3) for pool in spec(text=talk.LARGE, replication=r).pools]
    assert len(set(seeds)) == len(seeds) == 15


@pytest.mark.parametrize(
    ("asr", "kind", "found"),
    [
        ("{kind: windows, cost: {floor: 1s}}", 1, {"chunk": 1.0, "window": 15.0, "cap": 1}),
        ("{kind: slots, slots: 64, step: 27ms}", 2, {"slots": 64, "step": 0.027, "right": 0.48}),
        ("{kind: offline, cost: {floor: 1s}, cap: 4}", 3, {"cap": 4}),
    ],
)
def test_recognisers(spec, asr, kind, found):
    s = spec(f"cluster.pools.asr.asr={asr}").asr
    assert s.kind == kind
    assert {name: getattr(s, name) for name in found} == found


def test_the_recogniser_may_be_left_out(spec):
    assert spec(text=talk.SCENARIO.replace("    asr: {role", "    # asr: {role")).asr is None
