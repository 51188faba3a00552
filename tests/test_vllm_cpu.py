"""A real run that no fit has seen: 49 Poisson sessions against vLLM on a CPU, replayed.

Send times, lengths and prompts are the real ones; the profile was fitted to other runs.
"""

from pathlib import Path

import pandas as pd
import pytest

from voicesim.metrics import tables
from voicesim.scenario import load
from voicesim.simulation import simulate

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "calibration" / "measured" / "vllm_cpu"
TOKEN_AUDIO_S = 0.08


@pytest.fixture(scope="module", params=range(5))
def replay(request):
    scenario = load(ROOT / "scenarios" / "vllm_cpu_replay.yaml").variants["base"]
    return simulate(scenario, request.param, record_chunks=True)


def test_the_arrivals_are_the_real_ones():
    real = pd.read_csv(MEASURED / "poisson1_sessions.csv").sort_values("t_send_s")
    used = pd.read_csv(MEASURED / "poisson1_arrivals.csv")
    assert used["t_s"].tolist() == real["t_send_s"].tolist()
    assert used["tokens"].tolist() == real["n_tokens"].tolist()
    assert len(used) == 49


def test_median_pace_is_within_ten_percent_of_the_real_one(replay):
    real = pd.read_csv(MEASURED / "poisson1.csv.gz").sort_values(["stream_id", "token_index"])
    real_gap = real.groupby("stream_id")["t_arrival_s"].diff().median()
    chunks = tables.chunks(replay)
    gap = chunks.groupby("session")["arrived_s"].diff().median()
    assert (TOKEN_AUDIO_S / gap) == pytest.approx(TOKEN_AUDIO_S / real_gap, rel=0.10)


def test_nobody_stalls_as_in_reality(replay):
    assert (pd.read_csv(MEASURED / "poisson1_sessions.csv")["stalls_80ms"] == 0).all()
    streams = tables.streams(replay)
    assert len(streams) == 49
    assert (streams["stall_total_s"] == 0).all()
