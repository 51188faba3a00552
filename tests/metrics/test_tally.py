"""A run counted piece by piece has the numbers of the run with all its rows."""

import json
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests import small
from tests.test_fleet import FLEET
from voicesim.cli import app
from voicesim.engine.little import LittleError, stays
from voicesim.experiment.work import jobs_of, play
from voicesim.metrics import fleet
from voicesim.metrics.histogram import ERROR, LOWEST, Histogram
from voicesim.metrics.summary import flat, nearest_rank
from voicesim.scenario import load
from voicesim.simulation import simulate
from voicesim.study import run_study

RUNNER = CliRunner()
TABLES = ("sessions", "streams", "stalls")
CLOSED = "workload.arrivals={kind: closed, callers: 30, stagger: 1s}"
ENDLESS = small.SCENARIO.replace("  utterances_per_session: {geometric: {mean: 2}}\n", "")


@pytest.fixture
def in_small_pieces(monkeypatch):
    """Pieces of forty utterances, so that a small run has many."""
    monkeypatch.setattr("voicesim.simulation.AT_ONCE", 40)


@given(st.lists(st.floats(2.0**LOWEST, 1e5), min_size=1), st.floats(0.0, 1.0), st.integers(0, 9))
def test_a_quantile_is_off_by_half_a_bucket_at_most(values, q, at):
    """And a histogram of two parts is one of the whole."""
    found = Histogram()
    found.add(np.array(values[:at]))
    rest = Histogram()
    rest.add(np.array(values[at:]))
    found += rest
    assert len(found) == len(values)
    exact = nearest_rank(np.array(values), q)
    assert found.quantile(q) == pytest.approx(exact, rel=ERROR * (1 + 1e-9))


def test_what_is_too_short_to_tell_apart():
    found = Histogram()
    assert found.quantile(0.5) is None
    found.add(np.array([0.0, 0.0, 1e-9, 5.0]))
    assert found.quantile(0.5) <= 2.0**LOWEST * (1 + 2 * ERROR)
    assert found.quantile(1.0) == 5.0  # never beyond what was seen


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        (small.SCENARIO, []),
        (small.SCENARIO, ["workload.arrivals.rate=30/s", "warmup=20s"]),  # stalls, hang-ups
        (small.SCENARIO, ["workload.arrivals.rate=30/s", "drain=1s"]),  # calls live at the end
        (ENDLESS, [CLOSED]),
        (FLEET, ["workload.arrivals.rate=25/s"]),  # pools, each with its share of the callers
    ],
    ids=["calm", "overload", "cut off", "closed", "pools"],
)
def test_numbers_series_and_curves_are_those_of_the_rows(text, sets, tmp_path, in_small_pieces):
    file = load(small.write(tmp_path, text), sets=["horizon=40s", *sets])
    kept = run_study(file, tmp_path / "kept", workers=1)
    counted = run_study(file, tmp_path / "counted", workers=1, rows=False)
    for a, b in zip(kept.outcomes, counted.outcomes, strict=True):
        whole, pieces = flat(a.metrics), flat(b.metrics)
        assert list(whole) == list(pieces)
        for name, value in whole.items():
            near = ERROR * (1 + 1e-9) if name.startswith("ttfa") else 1e-12
            assert pieces[name] == (value if value is None else pytest.approx(value, rel=near)), (
                name
            )
        assert (a.callers, a.warnings, a.events) == (b.callers, b.warnings, b.events)
        pd.testing.assert_frame_equal(a.series, b.series)
        if CLOSED not in sets:  # of which batch means go by number instead of arrival
            assert a.clean == b.clean or len(a.pools) > 1
        for x, y in zip(a.exhibits, b.exhibits, strict=True):
            for name in ("heard", "stalled", "batch"):
                assert np.array_equal(getattr(x, name), getattr(y, name)), name
            near = 0.05 if CLOSED in sets else 1e-9  # its tape goes on after the run
            assert (x.max_batch, x.context) == (y.max_batch, pytest.approx(y.context, rel=near))
            assert not y.calls
    assert not any((tmp_path / "counted").rglob("*.parquet"))
    assert "histogram" in counted.context["assumptions"][-1]
    assert not any("histogram" in said for said in kept.context["assumptions"])


def test_it_is_taken_in_many_pieces(tmp_path, in_small_pieces):
    """Or the equality above would prove nothing."""
    scenario = load(small.write(tmp_path), sets=["horizon=5min"]).variants["admit_all"]
    sizes = []
    play = partial(simulate, scenario)
    fleet.tally_of(play, lambda part: sizes.append(len(part.streams)))
    assert len(sizes) > 20
    assert max(sizes) < 0.3 * sum(sizes)


def test_it_is_held_to_littles_law_too(tmp_path, in_small_pieces, monkeypatch):
    """Rows that leave are added up: with other stays than the engines had, the run is refused."""
    scenario = load(small.write(tmp_path), sets=["alarms=[]"]).variants["cap"]
    fleet.tally_of(partial(simulate, scenario))

    def shorter(spec, run):
        found = stays(spec, run)
        return replace(found, high=0.9 * found.high)

    monkeypatch.setattr("voicesim.simulation.stays", shorter)
    with pytest.raises(LittleError, match="does not hold on replica"):
        fleet.tally_of(partial(simulate, scenario))


def test_rows_that_are_asked_for_are_written_piece_by_piece(tmp_path, in_small_pieces, monkeypatch):
    file = load(small.write(tmp_path), sets=["workload.arrivals.rate=30/s"])
    folders = {}
    for name, most in (("kept", 1_000_000), ("pieces", 0)):
        monkeypatch.setattr(fleet, "MOST_ROWS", most)
        folders[name] = tmp_path / name
        result = run_study(file, folders[name], workers=1, rows=True)
        assert result.outcomes[0].counted == (most == 0)
    for table in TABLES:
        whole, pieces = (pd.read_parquet(f / table) for f in folders.values())
        key = ["variant", "session", *(["utterance", "chunk"] if table == "stalls" else [])]
        whole, pieces = (t.sort_values(key, ignore_index=True) for t in (whole, pieces))
        assert len(whole) > 100
        pd.testing.assert_frame_equal(whole, pieces)


def test_studies_count_what_is_too_large(tmp_path, in_small_pieces, monkeypatch):
    scenario = load(small.write(tmp_path), sets=["horizon=20s"]).variants["cap"]
    (job,) = jobs_of("cap", scenario, 1)
    kept = play(job)
    monkeypatch.setattr(fleet, "MOST_ROWS", 0)
    counted = play(job)
    assert {k: v for k, v in kept.items() if k != "metrics"} == {
        k: v for k, v in counted.items() if k != "metrics"
    }
    assert counted["metrics"]["clean_share"] == kept["metrics"]["clean_share"]
    assert counted["metrics"]["ttfa_p99_s"] == pytest.approx(
        kept["metrics"]["ttfa_p99_s"], rel=ERROR
    )


@pytest.mark.parametrize(
    ("text", "sets", "streams"),
    [
        (small.SCENARIO, [], 6 * 60 * 2),
        (ENDLESS, [CLOSED], 30 * 60 / (3 + 1)),
        (small.SCENARIO, ["workload.arrivals={kind: burst, size: 50, at: 1s}"], 50 * 2),
    ],
)
def test_what_a_run_is_expected_to_hold(text, sets, streams, tmp_path, monkeypatch):
    scenario = load(small.write(tmp_path, text), sets=sets).variants["cap"]
    for most, small_enough in ((streams + 1, True), (streams - 1, False)):
        monkeypatch.setattr(fleet, "MOST_ROWS", most)
        assert fleet.keeps_rows(scenario) == small_enough


def test_the_command(tmp_path):
    """The folder is whole without the rows, its page too, and both say what is missing."""
    path, out = small.write(tmp_path), tmp_path / "out"
    found = RUNNER.invoke(
        app, ["run", str(path), "--out", str(out), "--no-rows", "--set", "horizon=20s"]
    )
    assert found.exit_code == 0, found.output
    assert "counted as they ended" in " ".join(found.output.split())
    assert sorted(p.name for p in out.iterdir()) == [
        "peak.png", "replications.parquet", "report.html", "scenario.yaml", "series.parquet",
        "summary.json",
    ]  # fmt: skip
    assert (
        "off by 0.2 % at most" in json.loads((out / "summary.json").read_text())["assumptions"][-1]
    )
    page = (out / "report.html").read_text()
    assert "or no rows kept" in page
    listed = RUNNER.invoke(app, ["runs", str(tmp_path)])
    assert "out" in listed.output
    assert listed.exit_code == 0


def test_a_run_whose_rows_are_looked_at_keeps_them(tmp_path, monkeypatch):
    path = small.write(tmp_path)
    monkeypatch.setattr(fleet, "MOST_ROWS", 0)
    shadow = "policies.shadow={other: {admission: {kind: admit_all}}}"
    assert fleet.keeps_rows(load(path, sets=[shadow]).variants["cap"])
    assert not fleet.keeps_rows(load(path).variants["cap"])
    guarded = SimpleNamespace(shadow={}, rollout=SimpleNamespace(guard=object()))
    assert fleet.needs_rows(SimpleNamespace(policies=guarded))
    found = RUNNER.invoke(app, ["run", str(path), "--no-rows", "--set", shadow])
    assert found.exit_code == 2
    assert "shadow policies and a rollout's guard look at the rows" in found.output


def test_what_cannot_be_left_out(tmp_path):
    path = small.write(tmp_path)
    found = RUNNER.invoke(app, ["run", str(path), "--no-rows", "--chunks"])
    assert found.exit_code == 2
    assert "--no-rows: --chunks asks for rows" in found.output
