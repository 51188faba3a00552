"""The knee: the batch at which compute takes as long as the reading of weights and KV.

Below it a step hardly grows with the batch, beyond it the step grows in proportion: it is where
the two asymptotes of the fitted form cross.  It shows only where the batches bracket it and some
norm other than 1 (a straight line) predicts batches that it was not fitted to clearly better.
"""

import numpy as np
import pandas as pd

from voicesim.calibrate.decode import DecodeFit
from voicesim.calibrate.intervals import Draws
from voicesim.engine.profile import Quantity


def crossing(values: dict[str, float], context: float) -> float:
    """Batch at which compute equals bandwidth (infinite: compute never catches up).

    values: parameters by name, seconds.  context: tokens of each stream.
    """
    slope = values["compute_per_token_s"] + (
        values["attention_s"] - values["memory_per_kv_token_s"]
    ) * max(context, 0.0)
    return values["memory_s"] / slope if slope > 0 else float("inf")


def find_knee(
    best: DecodeFit, again: Draws, steps: pd.DataFrame, levels: list[float]
) -> Quantity | None:
    """The knee and its interval over the refits, None where the batches do not bracket it.

    again: fits to resampled runs, by norm.  Of the norms that predict alike the interval takes the
    lowest and the highest end.  The context is the median of the decode steps.
    """
    if best.norm == 1 or not levels:
        return None
    context = float(steps.loc[steps["stage"] == "decode", "context"].median())
    at = crossing(best.values, context)
    if not levels[0] < at < levels[-1]:
        return None
    lows, highs = [], []
    for of in again.values():
        draws = np.sort([crossing(f.values, context) if f.norm != 1 else np.inf for f in of])
        lows.append(float(draws[int(0.05 * (len(draws) - 1))]))
        highs.append(float(draws[int(np.ceil(0.95 * (len(draws) - 1)))]))
    low, high = min(lows, default=None), max(highs, default=np.inf)
    finite = high if np.isfinite(high) else None
    return Quantity(value=at, low=low, high=finite, origin="fitted")


def without_knee(best: DecodeFit, compared: dict[str, float]) -> str:
    """Why there is no knee."""
    norms = [v for k, v in compared.items() if k.startswith("norm")]
    if best.norm == 1:
        return (
            "knee: no norm predicts held-out batches clearly better than a straight line "
            f"(errors {min(norms):.1%} to {max(norms):.1%}), so the data do not place the batch "
            "where compute takes over from memory"
        )
    return "knee: compute takes over from memory outside the measured batches"


def falls(levels: list[float], seconds: list[float], least: float = 0.05) -> list[str]:
    """A sentence for each level whose step is shorter than a smaller batch's by 5 % or more.

    seconds: of each level, without the reading of KV, which may differ.  No form here falls with
    the batch, so there the profile lies between the two.
    """
    out, top = [], 0
    for i in range(1, len(levels)):
        if seconds[i] >= seconds[top]:
            top = i
        elif seconds[i] < seconds[top] * (1.0 - least):
            out.append(
                f"a step that falls: {seconds[top] * 1e3:.2f} ms at batch {levels[top]:g}, "
                f"{seconds[i] * 1e3:.2f} ms at batch {levels[i]:g}; no form falls with the batch"
            )
    return out
