"""``voicesim tornado``: effects known by arithmetic, the profile's intervals, refusals."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from voicesim.cli import app
from voicesim.engine.profile import load_profile
from voicesim.experiment.bars import bars_of
from voicesim.experiment.inputs import Input, share_of
from voicesim.experiment.metrics import ExperimentError
from voicesim.experiment.perturb import moves, perturbed, quantities
from voicesim.experiment.tornado import Tornado, tornado
from voicesim.report.tornado_figure import figure_of

RUNNER = CliRunner()

PROFILE = """\
schema: voicesim-profile/1
name: known
form: fitted
token_audio_s: 0.08
decode:
  norm: inf
  memory_s: {value: 0.05, low: 0.04, high: 0.06, origin: fitted}
  compute_s: {value: 0.001, origin: measured}
  sync_s: {value: 0.0, origin: assumed}
codec:
  floor_s: {value: 0.006, low: 0.003, high: 0.02, origin: fitted}
  per_row_s: {value: 0.001, origin: prior}
  per_frame_s: {value: 0.0001, origin: assumed}
sharing:
  decode_slowdown: {value: 1.1, origin: assumed}
"""

SCENARIO = """\
title: Known
horizon: 100s
seed: 3
workload:
  kind: tts
  arrivals: {kind: constant, rate: 6/min}
  utterance: {audio: 2s, prompt_tokens: 40}
cluster:
  gpus: {card: {preset: h100-sxm}}
  pools:
    tts:
      on: card
      engine: {kind: vllm_v1, profile: known.yaml, max_num_seqs: 8, kv_blocks: 100}
"""
"""One caller at a time, every 10 s: 25 tokens, each its own chunk; no codec stage."""

STEPS = 25


@pytest.fixture
def path(tmp_path):
    (tmp_path / "known.yaml").write_text(PROFILE)
    path = tmp_path / "known-scenario.yaml"
    path.write_text(SCENARIO)
    return path


def command(path, *more):
    return RUNNER.invoke(app, ["tornado", str(path), *map(str, more)], env={"COLUMNS": "160"})


def ends(found, name):
    """(low, high) differences of an input."""
    bar = next(bar for bar in found.bars if bar.input.name == name)
    return bar.low, bar.high


# --- effects known by arithmetic --------------------------------------------------------------


def test_busy_moves_by_the_ratio_and_an_unused_number_by_nothing(path):
    """A step takes memory_s whatever it holds, so busy is steps x memory_s / horizon.  There is no
    codec, so its cost moves nothing, to the bit."""
    found = tornado(path, metric="busy_share.decode", replications=3, workers=1)
    busy = found.mean["mean"]
    steps = busy * 100.0 / 0.05
    assert steps == pytest.approx(round(steps)) and round(steps) % STEPS == 0
    low, high = ends(found, "profile.decode.memory_s")
    assert low.difference.mean == pytest.approx(-0.2 * busy, rel=1e-9)
    assert high.difference.mean == pytest.approx(+0.2 * busy, rel=1e-9)
    assert (low.verdict, high.verdict) == ("lower", "higher")
    low, high = ends(found, "profile.codec.floor_s")
    assert (low.difference.mean, high.difference.mean) == (0.0, 0.0)
    assert low.difference.half == 0.0 and low.verdict == high.verdict == "the same"
    assert found.leader.input.name == "profile.decode.memory_s" and found.rivals == []
    assert found.calibration == pytest.approx((-0.2 * busy, 0.2 * busy), rel=1e-9)
    still = {each.key for each in found.still}
    assert {"codec.per_row_s", "sharing.decode_slowdown", "decode.sync_s"} <= still
    assert not still & {"decode.memory_s", "codec.floor_s"}


def test_no_header_without_a_row(path, tmp_path):
    """One caller at a time and no cap: nothing that moves refuses anybody."""
    words = ("--metric", "refused", "--replications", 2, "--workers", 1, "--out", tmp_path / "own")
    result = command(path, *words)
    assert result.exit_code == 0, result.output
    shown = result.stdout.partition("One input")[0]
    assert "moves nothing at all: profile." in shown
    assert "95 % interval" not in shown and "verdict" not in shown


def test_pace_is_the_audio_of_a_token_over_its_step(path):
    """0.08 s / 0.05 s, and / 0.04 and / 0.06 at the ends (histogram: within 0.8 %)."""
    found = tornado(path, metric="pace_p99", replications=2, workers=1)
    low, high = ends(found, "profile.decode.memory_s")
    assert found.mean["mean"] == pytest.approx(1.6, rel=0.008)
    assert low.mean == pytest.approx(2.0, rel=0.008)
    assert high.mean == pytest.approx(0.08 / 0.06, rel=0.008)
    assert (low.verdict, high.verdict) == ("better", "worse")


def test_given_ranges_beside_those_of_the_profile(path):
    """A range given for a number of the profile stands in for its own interval; a delay is an
    additive constant of TTFA; another rate means other callers."""
    found = tornado(
        path,
        ["listener.network.delay=10ms..30ms", "profile.decode.memory_s=45ms..50ms",
         "workload.arrivals.rate=3/min..6/min"],
        metric="ttfa_p50_s", replications=2, workers=1,
    )  # fmt: skip
    base = found.file.variants["base"].listener.network.delay
    low, high = ends(found, "listener.network.delay")
    assert low.difference.mean == pytest.approx(0.01 - base, abs=1e-9)
    assert high.difference.mean == pytest.approx(0.03 - base, abs=1e-9)
    low, high = ends(found, "profile.decode.memory_s")
    assert low.difference.mean == pytest.approx(-0.005, abs=1e-9)  # the first token: one step
    assert high.verdict == "the same"
    same = {bar.input.name: bar.same_callers for bar in found.bars}
    assert same == {
        "listener.network.delay": True, "profile.decode.memory_s": True,
        "workload.arrivals.rate": False, "profile.codec.floor_s": True,
    }  # fmt: skip
    assert [bar.span for bar in found.bars] == sorted((b.span for b in found.bars), reverse=True)
    assert found.calibration == (0.0, 0.0)  # what is left of the intervals moves nothing


# --- where numbers move -----------------------------------------------------------------------


def test_where_each_number_moves(path):
    profile = load_profile(path.parent / "known.yaml")
    moved, still = moves(profile, 0.2, {})
    at = {m.key: (m.low, m.high, m.why) for m in moved}
    assert at == {
        "decode.memory_s": (0.04, 0.06, "interval"),
        "codec.floor_s": (0.003, 0.02, "interval"),
        "codec.per_row_s": (pytest.approx(0.0008), pytest.approx(0.0012), "±20 % assumed"),
        "codec.per_frame_s": (pytest.approx(8e-5), pytest.approx(1.2e-4), "±20 % assumed"),
        "sharing.decode_slowdown": (1.0, pytest.approx(1.32), "±20 % assumed"),  # cut at 1
        "sharing.codec_slowdown": (1.0, pytest.approx(1.2), "±20 % assumed"),
    }
    kept = {each.key: each.origin for each in still}
    assert kept["decode.compute_s"] == "measured" and kept["decode.sync_s"] == "assumed"


def test_one_number_moves_and_nothing_else(path):
    profile = load_profile(path.parent / "known.yaml")
    other = perturbed(profile, "codec.per_row_s", 0.002)
    before, after = (dict(quantities(p)) for p in (profile, other))
    changed = [key for key in before if before[key] != after[key]]
    assert changed == ["codec.per_row_s"] and after["codec.per_row_s"].value == 0.002
    with pytest.raises(ExperimentError, match="slowdowns must be at least 1"):
        perturbed(profile, "sharing.decode_slowdown", 0.5)


def test_shares():
    assert share_of("20%") == pytest.approx(0.2) and share_of("0.05") == 0.05
    for text in ("20", "0", "100%", "-1%", "much"):
        with pytest.raises(ExperimentError, match="a share such as 20%"):
            share_of(text)


# --- the command ------------------------------------------------------------------------------


ASKED = ("--assume", "20%", "--vary", "listener.network.delay=10ms..30ms", "--replications", 2,
         "--metric", "ttfa_p50_s")  # fmt: skip


def test_the_command_and_its_files(path):
    one, two = path.parent / "one", path.parent / "two"
    result = command(path, *ASKED, "--workers", 1, "--out", one)
    assert result.exit_code == 0, result.output
    for word in ("is decided by", "listener.network.delay", "calibration uncertainty alone",
                 "shifts that were assumed", "moves nothing at all", "profile.codec.floor_s",
                 "zero without an interval", "decode.compute_s (measured)",
                 "Holm over all 14 ends"):  # fmt: skip
        assert word in result.output, result.output
    assert command(path, *ASKED, "--workers", 2, "--out", two, "--quiet").exit_code == 0
    for name in ("tornado.json", "tornado.parquet", "runs.parquet", "tornado.png", "report.html"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    table, runs = pd.read_parquet(one / "tornado.parquet"), pd.read_parquet(one / "runs.parquet")
    assert len(table) == 14 and len(runs) == (14 + 1) * 2
    found = json.loads((one / "tornado.json").read_text())
    row = table[(table["input"] == found["decided_by"]) & (table["end"] == "high")]
    base = runs[runs["input"] == "base"]["ttfa_p50_s"].mean()
    moved = runs[(runs["input"] == found["decided_by"]) & (runs["end"] == "high")]
    assert row["difference"].item() == pytest.approx(moved["ttfa_p50_s"].mean() - base, abs=1e-12)
    before = {p: p.stat().st_mtime_ns for p in (one / "runs").iterdir()}
    assert command(path, *ASKED, "--workers", 1, "--out", one).exit_code == 0
    assert before == {p: p.stat().st_mtime_ns for p in (one / "runs").iterdir()}


def test_the_figure_has_a_row_for_each_input_that_does_something(path):
    found = tornado(path, ["listener.network.delay=10ms..30ms"], metric="ttfa_p50_s",
                    replications=2, workers=1)  # fmt: skip
    axes = figure_of(found, "headline").axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0].startswith(found.bars[0].input.name)
    assert len(names) == 2 and all("codec.floor_s" not in name for name in names)
    widths = [abs(bar.get_width()) for bar in axes.patches[:2]]
    ends_of_top = [found.bars[0].low.difference.mean, found.bars[0].high.difference.mean]
    assert widths == pytest.approx([abs(x) for x in ends_of_top])


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--vary", "listener.network.dely=1ms..2ms"), "did you mean 'delay'?"),
        (("--vary", "listener.network.delay=2ms..1ms"), "the range is empty"),
        (("--vary", "listener.network.delay=2ms..2ms"), "the range is empty"),
        (("--vary", "listener.network.delay=1ms,2ms"), "both ends, no step"),
        (("--vary", "seed=1..9:2"), "both ends, no step"),
        (("--vary", "seed=1..2", "--vary", "seed=3..4"), "seed: given twice"),
        (("--vary", "profile.decode.memry_s=1ms..2ms"), "did you mean 'decode.memory_s'?"),
        (("--vary", "profile.sharing.decode_slowdown=0.5..2"), "must be at least 1"),
        (("--vary", "profile.sharing.decode_slowdown=1s..2s"), "is no time"),
        (("--vary", "pools.tts.engine.kv_blocks=1..50"), "one is the null block"),
        (("--assume", "20"), "a share such as 20%"),
        (("--metric", "claen_share"), "did you mean 'clean_share'?"),
    ],
)
def test_what_it_refuses(path, more, says):
    out = path.parent / "refused"
    result = command(path, *more, "--out", out)
    assert result.exit_code == 2
    assert says in result.stderr and result.stderr.strip().count("\n") == 0
    assert not out.exists()


def test_a_profile_without_intervals_says_so(path):
    profile = path.parent / "known.yaml"
    profile.write_text(
        PROFILE.replace("low: 0.04, high: 0.06, ", "").replace("low: 0.003, high: 0.02, ", "")
    )
    result = command(path)
    assert result.exit_code == 2 and "profile known has no intervals" in result.stderr
    result = command(path, "--vary", "listener.network.delay=10ms..30ms", "--replications", 2,
                     "--workers", 1, "--out", path.parent / "out")  # fmt: skip
    assert result.exit_code == 0
    assert "calibration uncertainty: unknown, profile known has no interval" in result.output
    assert "decode.memory_s (fitted)" in result.output


def test_what_is_not_measured_is_said(path):
    """Nobody stalls, so no first stall is moved."""
    result = command(path, "--metric", "first_stall_s", "--replications", 2, "--workers", 1,
                     "--out", path.parent / "out")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "is not measured in the base" in result.output and "n/a" in result.output
    assert "measured in 0 of 2 replications" in result.output
    assert (path.parent / "out" / "tornado.png").exists()


# --- who leads --------------------------------------------------------------------------------


def answer(base, **inputs):
    """A tornado of made-up values: base per replication, per input (low, high) per replication."""

    def runs(values):
        return [{"metrics": {"clean_share": x}, "callers": "same"} for x in values]

    made = [Input(name, "0", "1", "given", ([], [])) for name in inputs]
    ends = [[runs(low), runs(high)] for low, high in inputs.values()]
    bars = bars_of("clean_share", runs(base), made, ends)
    return Tornado(None, "base", "p", "clean_share", runs(base), bars, [], None, [], [])


def test_the_leader_must_be_ahead_of_every_other():
    """X, Y and Z move a noisy base by 0.10, 0.09 and 0.02.  Their own noise decides whether the
    lead of X is shown."""
    rng = np.random.default_rng(1)
    base = 0.5 + 0.1 * rng.standard_normal(12)
    quiet, loud = 0.001 * rng.standard_normal(12), 0.05 * rng.standard_normal(12)
    loud -= loud.mean()
    clear = answer(base, Z=(base, base + 0.02), Y=(base - 0.09, base), X=(base, base + 0.1 + quiet))
    assert [bar.input.name for bar in clear.bars] == ["X", "Y", "Z"]
    assert clear.leader.input.name == "X" and clear.rivals == []
    assert clear.bars[1].reach == pytest.approx((-0.09, 0.0))
    close = answer(base, Z=(base, base + 0.02), Y=(base - 0.09, base), X=(base, base + 0.1 + loud))
    assert close.leader.input.name == "X"
    assert [bar.input.name for bar in close.rivals] == ["Y"]
    none = answer(base, X=(base, base + loud), Y=(base, base))
    assert none.leader is None and none.rivals == []
    assert [bar.nothing for bar in none.bars] == [False, True]


def test_both_ends_below_the_base_span_from_it():
    """A setting at its best: the span reaches from the lower end to the base."""
    found = answer([0.5, 0.6], X=([0.3, 0.4], [0.4, 0.5]))
    assert found.bars[0].span == pytest.approx(0.2)
    assert found.bars[0].spans == pytest.approx([0.2, 0.2])


# --- several pools ----------------------------------------------------------------------------


def test_pools_of_one_profile_move_together_and_of_several_are_refused(path):
    """Two equal halves: a step's memory time moves the busy share of the whole by its ratio."""
    half = SCENARIO.replace("      on: card\n", "      share: 0.5\n      on: card\n")
    one = half[half.index("    tts:") :]
    two = one.replace("    tts:", "    other:")
    text = half.replace("{card: {preset: h100-sxm}}", "{card: {preset: h100-sxm, count: 2}}")
    path.write_text(text + two)
    found = tornado(path, metric="busy_share.decode", replications=2, workers=1)
    low, high = ends(found, "profile.decode.memory_s")
    busy = found.mean["mean"]
    assert low.difference.mean == pytest.approx(-0.2 * busy, rel=1e-9)
    assert high.difference.mean == pytest.approx(+0.2 * busy, rel=1e-9)
    (path.parent / "second.yaml").write_text(PROFILE.replace("name: known", "name: second"))
    path.write_text(text + two.replace("known.yaml", "second.yaml"))
    with pytest.raises(ExperimentError, match="several profiles: known, second"):
        tornado(path, replications=2, workers=1)
