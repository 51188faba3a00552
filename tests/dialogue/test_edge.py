"""Recogniser and voice at the edge, the language model in the core: a round trip an answer."""

import numpy as np
import pandas as pd
import pytest

from tests.dialogue.test_marginal import SCENARIO
from tests.small import PROFILE
from voicesim.scenario import load
from voicesim.study import run_study

VARIANTS = "variants: {beside: {}, core: {pipeline.core: 60ms}}\n"


@pytest.mark.parametrize(("connection", "trips"), [("reused", 1), ("new", 3)])
def test_every_answer_comes_a_round_trip_later(tmp_path, connection, trips):
    """One for the request and its text; of a new connection two more for the handshake."""
    text = SCENARIO if connection == "new" else SCENARIO.replace(
        "connection: new, round_trips: 2, round_trip: 10ms, ", ""
    )  # fmt: skip
    scenario_file = tmp_path / "alone.yaml"
    (tmp_path / "small-profile.yaml").write_text(PROFILE)
    scenario_file.write_text(text + VARIANTS)
    run_study(load(scenario_file), tmp_path / "out", workers=1)
    turns = pd.read_parquet(tmp_path / "out" / "turns")
    total = {v: t.sort_values(["call", "turn"])["total_s"].to_numpy()
             for v, t in turns.groupby("variant", observed=True)}  # fmt: skip
    assert np.allclose(total["core"] - total["beside"], trips * 0.06, atol=1e-9)
