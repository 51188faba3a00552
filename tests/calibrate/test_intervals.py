"""Intervals hold the truth or say why there is none; medians meet medians; noise is noise."""

import numpy as np
import pandas as pd
import pytest

from voicesim.calibrate import calibrate, describe
from voicesim.calibrate.chunks.robust import quantity
from voicesim.calibrate.figure import fit_figure
from voicesim.calibrate.levels import never_repeated, single_misfit
from voicesim.calibrate.noise import MIN_PER_RUN, split_noise
from voicesim.engine.profile import DecodeCost, Profile, Quantity


def truth(norm=1, **values) -> Profile:
    parts = {name: Quantity(value=value) for name, value in values.items()}
    return Profile(name="truth", form="fitted", decode=DecodeCost(norm=norm, **parts))


def write(path, of: Profile, batches, runs, steps, noise, spread=0.0, seed=1) -> None:
    """A step CSV: lognormal steps (sigma ``noise``, median 1) in runs of their own speed."""
    rng = np.random.default_rng(seed)
    rows = ["run_id,batch,context_tokens,seconds"]
    for run in range(runs):
        for b in batches:
            speed = np.exp(rng.normal(0.0, spread))
            times = of.predict(b, 50) * speed * np.exp(rng.normal(0.0, noise, steps))
            name = f"r{run}b{b}" if runs > 1 else "r"
            rows += [f"{name},{b},50,{t:.9f}" for t in times]
    path.write_text("\n".join(rows) + "\n")


# --- like with like ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def skewed(tmp_path_factory):
    """Sigma 0.5: the mean step is exp(0.125), 13 %, above the median one."""
    path = tmp_path_factory.mktemp("skewed") / "s.csv"
    write(path, truth(memory_s=8e-3, compute_per_token_s=2e-4), (1, 8, 16, 32, 64), 3, 150, 0.5)
    return calibrate([path], "x")


def test_skewed_steps_meet_the_prediction_at_every_measured_batch(skewed):
    """The median of 450 steps of sigma 0.5 has a standard error of 3 %."""
    profile, _ = skewed
    assert [h.level for h in profile.fit.anchors] == [f"batch {b}" for b in (1, 8, 16, 32, 64)]
    assert max(abs(h.error) for h in profile.fit.anchors) < 0.09
    assert abs(np.mean([h.error for h in profile.fit.anchors])) < 0.03


def test_the_cost_of_skewed_steps_is_still_the_mean_step(skewed):
    profile, _ = skewed
    assert profile.predict(16, 50) == pytest.approx(11.2e-3 * np.exp(0.125), rel=0.04)
    assert np.mean(profile.noise_table()) == pytest.approx(1.0, abs=1e-3)


def test_the_figure_draws_the_curve_through_the_points(skewed):
    above, below = fit_figure(*skewed).axes
    lines = {line.get_label(): line for line in above.lines}
    curve = next(line for label, line in lines.items() if "median step" in label)
    points = next(line for label, line in lines.items() if label.startswith("measured batch"))
    at = np.interp(points.get_xdata(), curve.get_xdata(), curve.get_ydata())
    assert points.get_ydata() / at == pytest.approx(np.ones(5), abs=0.09)
    assert np.median(below.lines[0].get_ydata()) == pytest.approx(1.0, abs=0.03)


def test_seconds_and_their_interval_never_fall_below_nothing():
    found = quantity(-1e-4, np.linspace(-3e-4, 1e-4, 101))
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(8e-5)


# --- noise ------------------------------------------------------------------------------------


def test_a_batch_that_the_form_misses_is_no_noise():
    """Steps of sigma 0.1 at two batches; the prediction is 40 % off at one, a run is 20 % off."""
    rng = np.random.default_rng(3)
    n = 2000
    rows = pd.DataFrame(
        {
            "run": np.repeat(["a", "b"], n),
            "batch": np.tile([4.0, 8.0], n),
            "seconds": np.exp(rng.normal(0.0, 0.1, 2 * n)) * np.repeat([1.0, 1.2], n),
            "reliability": 1.0,
        }
    )
    predicted = np.where(rows["batch"] == 8.0, 1.4, 1.0)
    noise, mean, spread = split_noise(rows, predicted)
    low, high = np.exp([-2.326 * 0.1, 2.326 * 0.1])
    assert noise.quantiles[1] * mean == pytest.approx(low, rel=0.04)
    assert noise.quantiles[99] * mean == pytest.approx(high, rel=0.04)
    assert mean == pytest.approx(np.exp(0.005), abs=0.01)
    assert spread > 0.08


def test_runs_of_few_steps_at_each_batch_are_taken_whole():
    """As many batches as a joining load makes: none has enough steps of its own."""
    rng = np.random.default_rng(4)
    batch = np.tile(np.arange(50.0), MIN_PER_RUN - 1)
    rows = pd.DataFrame(
        {"run": "a", "batch": batch, "seconds": np.exp(rng.normal(0.0, 0.1, len(batch)))}
    )
    noise, _, spread = split_noise(rows.assign(reliability=1.0), np.ones(len(rows)))
    assert noise.quantiles[95] / noise.quantiles[50] == pytest.approx(np.exp(0.1645), rel=0.03)
    assert spread is None


# --- host time --------------------------------------------------------------------------------

BENT = {"memory_s": 6.8e-3, "compute_per_token_s": 1e-4, "host_s": 1e-3}
"""A knee at 68 streams, and 1 ms in which the GPU does nothing."""


def test_host_time_is_told_where_a_sharp_bend_is_well_measured(tmp_path):
    batches = (1, 16, 32, 48, 56, 64, 72, 80, 96, 128, 192, 256)
    write(tmp_path / "s.csv", truth("inf", **BENT), batches, 3, 40, 0.05, 0.005)
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    host, knee = profile.decode.host_s, profile.fit.knee
    assert host.origin == "fitted" and host.low < 1e-3 < host.high < 2 * host.low
    assert knee.low < 68 < knee.high < 1.1 * knee.low
    assert not any(text.startswith("host_s") for text in profile.fit.unidentified)


def test_host_time_is_not_told_where_several_norms_predict_alike(tmp_path):
    """A gentle bend: a sharper norm with more host time draws nearly the same curve."""
    batches = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128)
    write(tmp_path / "s.csv", truth(2, **BENT), batches, 3, 40, 0.05, 0.02)
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    host, knee = profile.decode.host_s, profile.fit.knee
    assert host.origin == "assumed" and host.low < 1e-3 < host.high
    assert knee.low < 68 < knee.high
    (said,) = [text for text in profile.fit.unidentified if text.startswith("host_s")]
    assert "norm 2" in said and "norm 4" in said and "only its sum" in said


# --- few runs, single figures -----------------------------------------------------------------


def test_one_long_run_gives_intervals_from_blocks_and_says_what_they_lack(tmp_path):
    """250 steps of 5 % at each of five batches: the line at batch 1 is good to about half a %."""
    of = truth(memory_s=8e-3, compute_per_token_s=2e-4)
    write(tmp_path / "s.csv", of, (1, 8, 16, 32, 64), 1, 250, 0.05)
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    memory, slope = profile.decode.memory_s, profile.decode.compute_per_token_s
    assert memory.low < 8e-3 < memory.high and slope.low < 2e-4 < slope.high
    assert memory.high / memory.low < 1.02 and slope.high / slope.low < 1.04
    assert any(text.startswith("how runs differ: 1 run(s)") for text in profile.fit.unidentified)


def test_few_rows_have_no_interval_and_say_so(tmp_path):
    write(tmp_path / "s.csv", truth(memory_s=8e-3, compute_per_token_s=2e-4), (1, 8), 2, 5, 0.05)
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    assert profile.decode.memory_s.low is None
    (said,) = [text for text in profile.fit.unidentified if text.startswith("intervals")]
    assert "4 run(s); 6 would give them" in said


def test_one_figure_a_batch_says_that_its_noise_is_unknown(tmp_path):
    """The line is 9 % off in the middle; a table of the others errs more, so the line stays."""
    rows = zip((1, 16, 32, 48, 64), (8.0, 11.0, 15.5, 17.0, 20.0), strict=True)
    text = "batch,context_tokens,seconds\n" + "".join(f"{b},0,{ms / 1e3}\n" for b, ms in rows)
    (tmp_path / "s.csv").write_text(text)
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    worst = max(abs(h.error) for h in profile.fit.anchors)
    assert worst > 0.05 and f"misses a measured batch by {worst:.0%}" in profile.fit.why
    assert "one figure a batch no noise is known" in profile.fit.why
    assert "noise: one figure a batch" in describe(profile)


def test_a_staircase_of_single_figures_becomes_a_table_if_that_errs_no_more(tmp_path):
    batches, times = (1, 2, 4, 8, 16, 24, 32, 48, 64), (5, 6, 8, 8.2, 8.4, 11, 11.4, 16, 16.5)
    rows = [f"{b},0,{ms / 1e3}" for b, ms in zip(batches, times, strict=True)]
    (tmp_path / "s.csv").write_text("batch,context_tokens,seconds\n" + "\n".join(rows) + "\n")
    profile, _ = calibrate([tmp_path / "s.csv"], "x")
    assert profile.form == "table" and profile.fit.why.endswith(": table")
    assert "no noise is known" in profile.fit.why
    assert max(abs(h.error) for h in profile.fit.anchors) < 1e-9


def test_single_misfit_needs_single_rows_and_more_than_a_twentieth():
    def of(*seconds: float) -> pd.DataFrame:
        return pd.DataFrame({"run": [f"r{i}" for i, _ in enumerate(seconds)], "seconds": seconds})

    def flat(rows: pd.DataFrame) -> np.ndarray:
        return np.full(len(rows), 1.0)

    assert single_misfit({1.0: of(1.0), 2.0: of(0.8)}, flat) == pytest.approx(0.25)
    assert single_misfit({1.0: of(1.0), 2.0: of(0.96)}, flat) is None
    assert single_misfit({1.0: of(1.0), 2.0: of(0.8, 0.8)}, flat) is None
    assert never_repeated({1.0: of(1.0)}) and not never_repeated({1.0: of(1.0, 1.0)})
