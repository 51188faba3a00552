"""A scenario to start from: the design's own sketch, with an empty profile beside it."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from voicesim.scenario import ScenarioErrors, ScenarioFile, load

SKETCH = """\
title: Holiday peak on eight H100s
horizon: 40min
warmup: 2min
seed: 20261224
workload:
  kind: tts
  arrivals: {kind: surge, base: 45/s, peak: 230/s, at: 12min, rise: 5min, hold: 10min, \
fall: 5min, dispersion: 1.3}
  utterance: {audio: {lognormal: {mean: 4.3s, p99: 15s}}, \
prompt_tokens: {lognormal: {mean: 60, p99: 200}}}
  utterances_per_session: {geometric: {mean: 3}}
  think: {exponential: {mean: 4s}}
  patience: {exponential: {mean: 8s}}
  refused: {retry: {attempts: 3, backoff: 1s, factor: 2, jitter: full}, then: standby_voice}
cluster:
  gpus: {h100: {preset: h100-sxm, count: 8, price: 2.65/h}}
  pools:
    tts:
      replicas: 8
      on: h100
      engine: {kind: vllm_v1, profile: profile.yaml, max_num_seqs: 128, \
max_num_batched_tokens: 512, memory: 0.35}
      codec: {chunk: {first: 4, ramp: [4, 8, 16], steady: 25}, batch: {cap: 8, window: 2ms}, \
queue: {kind: fifo}, on: same_gpu}
listener: {network: {delay: 40ms, jitter: 10ms}, player: {prebuffer: 0ms}, audible: 100ms}
policies:
  admission: {kind: admit_all}
  routing: {kind: least_streams}
slo: {start_within: 1s, no_stall_over: 100ms}
alarms: [{metric: chunk_gap_p99, over: 10s, above: 1.0x_chunk}, \
{metric: waiting, over: 10s, above: 5}]
variants:
  admit_all: {}
  cap: {policies.admission: {kind: cap, streams: 40}}
  cap_queue: {policies.admission: {kind: cap_queue, streams: 40, deadline: 800ms}}
  slack: {policies.admission: {kind: slack, lead: 250ms}}
  bigger_first_chunk: {policies.admission: {kind: cap, streams: 40}, \
cluster.pools.tts.codec.chunk.first: 8}
"""

PLAIN = """\
horizon: 10min
workload:
  arrivals: {kind: poisson, rate: 2/s}
  utterance: {audio: 4s}
cluster:
  gpus: {card: {preset: l4, count: 2}}
  pools:
    tts:
      on: card
      engine: {profile: profile.yaml}
"""


PROFILE = """\
schema: voicesim-profile/1
name: test
form: fitted
token_audio_s: 0.08
decode: {memory_s: {value: 0.007, origin: assumed}}
codec:
  floor_s: {value: 0.006, origin: assumed}
  per_row_s: {value: 0.001, origin: assumed}
  per_frame_s: {value: 0.0001, origin: assumed}
memory:
  weight_bytes: {value: 3.4e+9, origin: assumed}
  kv_bytes_per_token: {value: 114688, origin: assumed}
  overhead_bytes: {value: 0, origin: assumed}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Write a scenario beside a small profile."""
    (tmp_path / "profile.yaml").write_text(PROFILE)

    def to_file(text: str) -> Path:
        path = tmp_path / "case.yaml"
        path.write_text(dedent(text))
        return path

    return to_file


@pytest.fixture
def read(write: Callable[[str], Path]) -> Callable[..., ScenarioFile]:
    """Load a scenario from text."""
    return lambda text, *sets, **more: load(write(text), sets, **more)


@pytest.fixture
def refused(read: Callable[..., ScenarioFile]) -> Callable[..., list[str]]:
    """The problems of a scenario that must not load, one line each."""

    def lines(text: str, *sets: str) -> list[str]:
        with pytest.raises(ScenarioErrors) as caught:
            read(text, *sets)
        assert str(caught.value).splitlines() == [str(p) for p in caught.value.problems]
        return [str(problem) for problem in caught.value.problems]

    return lines
