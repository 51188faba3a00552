"""The knee where the data place it, points that a profile must meet, and the figure."""

import numpy as np
import pytest

from voicesim.calibrate import calibrate, describe
from voicesim.calibrate.figure import draw
from voicesim.calibrate.knee import crossing, falls
from voicesim.calibrate.levels import decode_levels, level_rows, level_seconds
from voicesim.engine.profile import DecodeCost, Profile, Quantity

BATCHES = (1, 32, 64, 96, 128, 256, 512)
A100_MS = (9.28, 9.54, 9.70, 11.78, 12.24, 17.81, 33.36)
H100_MS = (5.60, 5.79, 5.86, 7.30, 6.37, 9.15, 11.98)
"""Llama-2-7B, linear layers of one step, 32 layers, one card: per-operator medians summed, from
https://github.com/microsoft/vidur at 7d47513, data/profiling/compute (MIT)."""


def fit(folder, batches, milliseconds) -> tuple[Profile, object]:
    """The profile of a step CSV with a row per batch, and its samples."""
    rows = [f"{b},0,{float(ms) / 1e3!r}" for b, ms in zip(batches, milliseconds, strict=True)]
    (folder / "s.csv").write_text("batch,context_tokens,seconds\n" + "\n".join(rows) + "\n")
    return calibrate([folder / "s.csv"], "x")


def test_a100_linear_layers_bend_where_the_data_sheet_says(tmp_path):
    """312 Tflop/s over 2.039 TB/s at 2 bytes and 2 flop a weight: 153 tokens."""
    profile, _ = fit(tmp_path, BATCHES, A100_MS)
    knee = profile.fit.knee
    assert knee.low < 312e12 / 2.039e12 < knee.high
    assert knee.value == pytest.approx(153, rel=0.1)
    assert not any(text.startswith("knee") for text in profile.fit.unidentified)
    assert f"knee: batch {knee.value:.0f}" in describe(profile)


def test_h100_figures_do_not_place_a_knee_and_the_falling_step_is_named(tmp_path):
    """At 96 tokens another matrix kernel runs: no form predicts the others better than a line."""
    profile, _ = fit(tmp_path, BATCHES, H100_MS)
    assert profile.fit.knee is None
    assert any(text.startswith("knee: no norm") for text in profile.fit.unidentified)
    assert any("7.30 ms at batch 96, 6.37 ms at batch 128" in t for t in profile.fit.unidentified)
    assert "knee: batch" not in describe(profile)


def test_h100_figures_place_no_knee_without_the_odd_one_either(tmp_path):
    keep = [i for i, b in enumerate(BATCHES) if b != 96]
    profile, _ = fit(tmp_path, [BATCHES[i] for i in keep], [H100_MS[i] for i in keep])
    of = {k: v for k, v in profile.fit.compared.items() if k.startswith("norm")}
    assert min(of, key=of.__getitem__) == "norm 1" and profile.fit.knee is None


@pytest.mark.parametrize(("norm", "sigma"), [("inf", 0.0), (4, 0.01)])
def test_a_known_knee_is_found(tmp_path, norm, sigma):
    """6 ms of memory over 0.1 ms a token: 60 streams; exactly, or within the noise's share of it
    (1 % on each of a dozen points moves a crossing of two lines by a few per cent)."""
    parts = {"memory_s": Quantity(value=6e-3), "compute_per_token_s": Quantity(value=1e-4)}
    truth = Profile(name="t", form="fitted", decode=DecodeCost(norm=norm, **parts))
    batches = (1, 8, 16, 32, 48, 56, 64, 80, 96, 128, 192, 256)
    noise = np.exp(np.random.default_rng(5).normal(0, sigma, len(batches)))
    times = [truth.predict(b, 0) * 1e3 * n for b, n in zip(batches, noise, strict=True)]
    profile, _ = fit(tmp_path, batches, times)
    knee = profile.fit.knee
    assert knee.value == pytest.approx(60, rel=1e-3 + 5 * sigma)
    assert knee.low * 0.999 <= knee.value <= knee.high * 1.001
    assert (knee.high - knee.low) / 60 < 1e-2 + 20 * sigma


def test_batches_on_one_side_of_the_knee_do_not_place_it(tmp_path):
    """Up to half of it, a step hardly grows."""
    parts = {"memory_s": Quantity(value=6e-3), "compute_per_token_s": Quantity(value=1e-4)}
    truth = Profile(name="t", form="fitted", decode=DecodeCost(norm=2, **parts))
    batches = (1, 4, 8, 12, 16, 24, 30)
    profile, _ = fit(tmp_path, batches, [truth.predict(b, 0) * 1e3 for b in batches])
    assert profile.fit.knee is None
    assert any(text.startswith("knee") for text in profile.fit.unidentified)


def test_crossing_by_hand():
    """Each stream adds 0.1 ms of compute and, at 100 tokens, 0.02 ms of KV reading: 8 / 0.08."""
    values = {
        "memory_s": 8e-3,
        "compute_per_token_s": 1e-4,
        "attention_s": 0.0,
        "memory_per_kv_token_s": 2e-7,
    }
    assert crossing(values, 100.0) == pytest.approx(100.0)
    assert crossing(values, 600.0) == np.inf


STAIRS = (5.0, 5.0, 5.1, 9.0, 9.1, 9.1, 14.0, 14.1, 14.2, 20.0)
STAIR_BATCHES = (1, 4, 8, 9, 12, 16, 17, 24, 32, 33)


def test_a_table_meets_every_measured_batch_of_a_staircase(tmp_path):
    """Padded batches: flat, then a jump.  Exact at each of them, and nothing falls in between.

    Three runs agree to a per mille, so that no smooth form can be right.
    """
    batches = np.repeat(STAIR_BATCHES, 3)
    times = np.repeat(STAIRS, 3) * np.tile([0.999, 1.0, 1.001], len(STAIRS))
    profile, samples = fit(tmp_path, batches, times)
    assert profile.form == "table"
    for batch in decode_levels(samples):
        assert profile.predict(batch, 0) == pytest.approx(
            level_seconds(level_rows(samples, batch), 0.0)
        )
    steps = [profile.predict(b, 0) for b in np.linspace(1, 60, 300)]
    assert (np.diff(steps) >= -1e-15).all()


def test_a_table_over_noisy_runs_errs_by_no_more_than_the_noise_of_its_batches(tmp_path):
    """Neighbours disagree by chance (2 % a run, 5 runs): each batch within 3 standard errors of
    its own mean, a pooled pair between its two."""
    rng = np.random.default_rng(11)
    rows = ["batch,context_tokens,seconds"]
    for batch, ms in zip(STAIR_BATCHES, STAIRS, strict=True):
        rows += [f"{batch},0,{ms / 1e3 * (1 + float(rng.normal(0, 0.02)))!r}" for _ in range(5)]
    (tmp_path / "s.csv").write_text("\n".join(rows) + "\n")
    profile, samples = calibrate([tmp_path / "s.csv"], "x")
    assert profile.form == "table"
    for batch in decode_levels(samples):
        rows_of = samples.loc[samples["batch"] == batch, "seconds"]
        error = 3 * rows_of.std() / np.sqrt(len(rows_of))
        assert abs(profile.predict(batch, 0) - rows_of.mean()) < error, batch


@pytest.mark.parametrize("times", [A100_MS, H100_MS])
def test_no_step_falls_with_the_batch_where_the_data_rise_by_two_thirds(tmp_path, times):
    profile, _ = fit(tmp_path, BATCHES, times)
    steps = np.array([profile.predict(b, 0) for b in range(1, 1025)])
    assert (np.diff(steps) >= 0).all()
    for i, a in enumerate(BATCHES):
        for j in range(i + 1, len(BATCHES)):
            if times[j] > times[i] * 5 / 3:
                assert steps[BATCHES[j] - 1] > steps[a - 1]


def test_falls_names_pairs_of_five_per_cent():
    assert falls([1, 2, 4], [10e-3, 9.6e-3, 12e-3]) == []
    found = falls([1, 2, 4], [10e-3, 9e-3, 12e-3])
    assert found == [
        "a step that falls: 10.00 ms at batch 1, 9.00 ms at batch 2; no form falls with the batch"
    ]


def test_the_figure_is_drawn_with_and_without_a_knee(tmp_path):
    for times in (A100_MS, H100_MS):
        assert draw(*fit(tmp_path, BATCHES, times)).startswith(b"\x89PNG")
