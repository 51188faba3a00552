"""Whole-engine token times of splitwise-sim (https://github.com/Mutinifni/splitwise-sim)."""

import pandas as pd
import pytest

from tests.thirdparty import data
from voicesim.calibrate import calibrate
from voicesim.engine.profile import Profile


def fitted(up_to: int, folder) -> tuple[Profile, pd.Series]:
    """Profile of Llama-2-70B on eight H100s at batches up to ``up_to``; seconds by batch.

    Five repeats a batch, prompts of 512 and replies of 128 tokens, so a mean context of 576.
    """
    (path,) = data("splitwise-sim/perf_model.csv")
    rows = pd.read_csv(path)
    one = (rows["model"] == "llama2-70b") & (rows["hardware"] == "h100-80gb")
    one &= (rows["tensor_parallel"] == 8) & (rows["prompt_size"] == 512)
    rows = rows[one & (rows["token_size"] == 128)]
    seconds = (rows["token_time"] / 1e3).groupby(rows["batch_size"]).median()
    rows = rows[rows["batch_size"] <= up_to]
    lines = ["batch,context_tokens,seconds"]
    for batch, ms in zip(rows["batch_size"], rows["token_time"], strict=True):
        lines.append(f"{batch},576,{ms / 1e3!r}")
    (folder / "steps.csv").write_text("\n".join(lines) + "\n")
    return calibrate([folder / "steps.csv"], "x")[0], seconds


@pytest.mark.parametrize("up_to", [32, 64])
def test_a_sweep_that_cannot_place_the_knee_says_so(up_to, tmp_path):
    """Mutinifni/splitwise-sim at 8f99e7d, data/perf_model.csv.

    Up to 32 the step has hardly grown.  The step at 64 grows faster, but steadily so: no bend
    predicts the batches left out clearly better than a line, and the profile must not claim one.
    """
    profile, _ = fitted(up_to, tmp_path)
    line = profile.fit.compared["norm 1"]
    bends = [error for name, error in profile.fit.compared.items() if name.startswith("norm")]
    assert min(bends) > 0.9 * line
    assert any(text.startswith("knee:") for text in profile.fit.unidentified)


def test_the_batch_beyond_the_sweep_is_slower_than_its_line(tmp_path):
    """Mutinifni/splitwise-sim at 8f99e7d: batch 64 takes 50.2 ms; from batches up to 32 the profile
    says less, and says that it was not measured there."""
    profile, seconds = fitted(32, tmp_path)
    assert seconds[64] == pytest.approx(50.16e-3, abs=5e-6)
    assert profile.predict(64, 576) < 0.99 * seconds[64]
    assert profile.range.batch == (1, 32)
    assert any("above batch 32" in note for note in profile.notes)
