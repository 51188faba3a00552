"""From samples to a profile: which norm, fitted form or table, intervals, noise, codec, range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from voicesim.calibrate.codec import fit_codec, fit_decode_slowdown, with_sharing
from voicesim.calibrate.decode import DecodeFit, Priors, thin_out, with_reliability
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.form import choose_form
from voicesim.calibrate.intervals import host_in_doubt, intervals, resample
from voicesim.calibrate.knee import falls, find_knee, without_knee
from voicesim.calibrate.levels import by_level, compare, level_seconds, never_repeated
from voicesim.calibrate.noise import median_share, split_noise
from voicesim.calibrate.norms import choose_norm
from voicesim.calibrate.prior import Prior
from voicesim.engine.profile import (
    DecodeCost,
    FitReport,
    HeldOut,
    Profile,
    Quantity,
    Range,
)


def fit_profile(
    samples: pd.DataFrame,
    name: str,
    token_audio_s: float | None = None,
    prior: Prior | None = None,
) -> Profile:
    """Fit everything the samples hold into a profile; ``prior`` where they cannot tell."""
    priors = _priors(prior)
    steps = samples[samples["stage"].isin(["decode", "prefill"])].reset_index(drop=True)
    if not (steps["stage"] == "decode").any():
        raise CalibrationError(str(samples["file"].iloc[0]), None, "no decode rows to fit")
    usable, aside = _usable_prefill(steps)
    usable = with_reliability(usable, priors)
    levels = by_level(usable)
    few = thin_out(usable)
    chosen = choose_norm(few, levels, priors)
    best, form = chosen.best, choose_form(levels, chosen)
    again, unsure = resample(few, chosen)
    knee = find_knee(best, again, usable, list(levels))
    ends = intervals(best, again)
    decode = _decode_cost(few, best, ends, form.table, priors)
    doubt = host_in_doubt(chosen, ends) if form.table is None else None
    if doubt:
        decode = decode.model_copy(
            update={"host_s": decode.host_s.model_copy(update={"origin": "assumed"})}
        )
    profile = Profile(
        name=name,
        about=prior.about if prior else None,
        form="table" if form.table else "fitted",
        token_audio_s=token_audio_s or (prior.model.token_audio_s if prior else None),
        decode=decode,
        range=_range(steps),
        memory=prior.memory if prior else None,
    )
    profile, noise_spread = _with_noise(profile, usable)
    codec, codec_slow, codec_cannot = fit_codec(samples)
    profile = profile.model_copy(update={"codec": codec})
    profile = with_sharing(profile, fit_decode_slowdown(samples, profile), codec_slow)
    cannot = [*_one_batch(steps), *best.unidentified, *aside, *unsure, *([doubt] if doubt else [])]
    if knee is None and chosen.compared:
        cannot.append(without_knee(best, chosen.compared))
    kv_s = best.values["memory_per_kv_token_s"]
    cannot += falls(list(levels), [level_seconds(of, kv_s) for of in levels.values()])
    if len(levels) > 1 and never_repeated(levels):
        cannot.append("noise: one figure a batch, so how far each is off by chance is not known")
    report = FitReport(
        why=form.why,
        knee=knee,
        held_out=form.held,
        anchors=anchors(samples, profile),
        compared={k: v for k, v in form.compared.items() if np.isfinite(v)},
        run_spread=noise_spread,
        unidentified=[*cannot, *codec_cannot],
    )
    return profile.model_copy(update={"fit": report})


def _priors(prior: Prior | None) -> Priors:
    """The prior's terms that a fit may lack: what a stream adds by its context and as a token."""
    names = ("memory_per_kv_token_s", "compute_per_token_s")
    known = prior.parameters if prior else {}
    return {name: known[name].value for name in names if name in known}


def _one_batch(steps: pd.DataFrame) -> list[str]:
    """A sentence if decode was measured at one batch only."""
    batches = steps.loc[steps["stage"] == "decode", "batch"].unique()
    if len(batches) > 1:
        return []
    return [f"growth with the batch: decode was measured at batch {batches[0]:g} only"]


def _usable_prefill(steps: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Drop prompts that say nothing: all within the decode batches and fewer than three.

    The kernel's compute table sees only a step's tokens, so below the largest batch a prompt
    token costs what a stream costs; such rows are compared with the profile, not fitted.
    """
    prefill = steps["stage"] == "prefill"
    top = steps.loc[~prefill, "batch"].max()
    if prefill.any() and prefill.sum() < 3 and steps.loc[prefill, "tokens"].max() <= top:
        note = (
            f"prefill: {int(prefill.sum())} row(s) inside the decode batches (<= {top:g} tokens) "
            "cannot be told from decode by tokens per step; compared below, not fitted"
        )
        return steps[~prefill].reset_index(drop=True), [note]
    return steps, []


def _decode_cost(
    steps: pd.DataFrame,
    best: DecodeFit,
    ends: dict[str, tuple[float, float]],
    table: list[tuple[float, float]] | None,
    priors: Priors,
) -> DecodeCost:
    quantities: dict[str, Any] = {}
    for name, value in best.values.items():
        free = name in best.free
        prior = name in priors and not free
        quantities[name] = Quantity(
            value=value,
            low=ends[name][0] if name in ends else None,
            high=ends[name][1] if name in ends else None,
            origin="fitted" if free else ("prior" if prior else "assumed"),
        )
    steep = quantities.pop("prefill_per_token_s")
    knee = best.knee if np.isfinite(best.knee) else None
    if table is not None:
        slope = quantities["compute_per_token_s"]
        for name in ("memory_s", "compute_per_token_s", "host_s", "host_per_stream_s"):
            quantities[name] = Quantity(value=0.0)
        if (steps["stage"] == "prefill").any():
            steep, knee = (steep if knee is not None else slope), table[-1][0]
    return DecodeCost(
        norm="inf" if best.norm == 0 else best.norm,  # type: ignore[arg-type]
        prefill_per_token_s=steep if knee is not None else None,
        prefill_from_tokens=None if knee is None else int(knee),
        table=table,
        **quantities,
    )


def _with_noise(profile: Profile, steps: pd.DataFrame) -> tuple[Profile, float | None]:
    """Noise of mean 1; the cost is scaled to the mean step, so cost times noise is the data."""
    single = ~(steps["steps"] > 1)  # the mean of several steps scatters less than a step
    decode = steps[(steps["stage"] == "decode") & single]
    noise, mean, spread = split_noise(decode, _predict(profile, decode))
    return profile.model_copy(
        update={"decode": scaled(profile.decode, mean), "noise": noise}
    ), spread


def scaled(cost: DecodeCost, by: float) -> DecodeCost:
    """All times of a decode cost multiplied by a factor (every norm is homogeneous)."""
    update: dict[str, object] = {}
    for name in DecodeCost.model_fields:
        item = getattr(cost, name)
        if isinstance(item, Quantity):
            parts: dict[str, Any] = {
                k: None if (v := getattr(item, k)) is None else v * by for k in _PARTS
            }
            update[name] = Quantity(**parts, origin=item.origin)
    if cost.table is not None:
        update["table"] = [(t, s * by) for t, s in cost.table]
    return cost.model_copy(update=update)


_PARTS = ("value", "low", "high")


def _predict(profile: Profile, rows: pd.DataFrame) -> np.ndarray:
    loads = (rows[n].to_numpy(dtype=float) for n in ("tokens", "kv_read", "pairs", "streams"))
    return profile.predict_loads(*loads)


def anchors(samples: pd.DataFrame, profile: Profile) -> list[HeldOut]:
    """Measured points against the profile: each row of a small file, else each level's median.

    A median is compared with the median step, which the profile's noise tells from its mean one.
    """
    if len(samples) > 60:

        def usual(rows: pd.DataFrame) -> np.ndarray:
            return _predict(profile, rows) * median_share(profile, rows)

        return [compare(of, b, usual) for b, of in by_level(samples).items()]
    out = []
    sharing = profile.sharing
    for _, row in samples.iterrows():
        stage = str(row["stage"])
        if stage in ("codec", "codec_with_decode"):
            floor, per_row, per_frame = profile.codec_cost()
            predicted = floor + per_row * row["batch"] + per_frame * row["frames"]
            slow = sharing.codec_slowdown.value if stage == "codec_with_decode" else 1.0
            level = f"{stage}, rows {row['batch']:g}, frames {row['frames']:g}"
        else:
            predicted = float(_predict(profile, row.to_frame().T)[0])
            slow = sharing.decode_slowdown.value if stage == "decode_with_codec" else 1.0
            level = f"{stage}, batch {row['batch']:g}"
            if row["prefill_tokens"] > 0:
                level += f", prefill {row['prefill_tokens']:g}"
        measured, predicted = float(row["seconds"]), float(predicted * slow)
        error = predicted / measured - 1.0
        out.append(HeldOut(level=level, measured_s=measured, predicted_s=predicted, error=error))
    return out


def _range(steps: pd.DataFrame) -> Range:
    decode = steps[steps["stage"] == "decode"]
    prompt = steps["prefill_tokens"]
    return Range(
        batch=(float(decode["batch"].min()), float(decode["batch"].max())),
        context_tokens=(float(decode["context"].min()), float(decode["context"].max())),
        prefill_tokens=(0.0, float(prompt.max())),
    )
