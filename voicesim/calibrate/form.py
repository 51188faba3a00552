"""Fitted form or table: which of the two says more of batches that it has not seen."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from voicesim.calibrate.decode import steps_of
from voicesim.calibrate.levels import (
    leave_out_of_table,
    make_table,
    mean_error,
    misfit,
    single_misfit,
)
from voicesim.calibrate.norms import SIMPLER, Norms
from voicesim.engine.profile import HeldOut

TABLE_GAIN = 0.8


@dataclass(frozen=True)
class Form:
    """The table, None where the fitted form is kept; its held-out batches, errors, and why."""

    table: list[tuple[float, float]] | None
    held: list[HeldOut]
    compared: dict[str, float]
    why: str


def choose_form(levels: dict[float, pd.DataFrame], norms: Norms) -> Form:
    """The form, unless a table (four batches or more) is clearly better or the form misses a batch.

    A miss counts if runs repeat and their noise cannot explain it.  With one figure a batch no
    noise is known: then it counts unless the table errs clearly more between the batches, held out.
    """
    best, held = norms.best, norms.held[norms.norm]
    if len(levels) < 4:
        return Form(None, held, norms.compared, norms.why)

    def predict(rows: pd.DataFrame) -> np.ndarray:
        return best.predict(steps_of(rows))

    kv_s = best.values["memory_per_kv_token_s"]
    of_table = leave_out_of_table(levels, kv_s)
    own, error = mean_error(held), mean_error(of_table)
    line = f"norm {best.norm or 'inf'}"
    missed, alone = misfit(levels, predict), single_misfit(levels, predict)
    take = True
    if error < TABLE_GAIN * own:
        why = f"the table errs less than {TABLE_GAIN:g} of that: table"
    elif missed:
        why = f"{line} misses a batch by {missed:.0%}, far beyond its noise: table"
    elif alone:
        inside = mean_error(of_table[1:-1])  # at the ends it is drawn on from two batches
        take = SIMPLER * inside <= mean_error(held[1:-1])
        why = (
            f"{line} misses a measured batch by {alone:.0%}, and with one figure a batch no noise "
            f"is known; the table errs {inside:.1%} between measured batches, {line} "
            f"{mean_error(held[1:-1]):.1%}: {'table' if take else f'form fitted, {line}'}"
        )
    else:
        take = False
        why = f"the table errs {error:.1%}: form fitted, {line}"
    table = make_table(levels, kv_s) if take else None
    compared = {**norms.compared, "table": error}
    return Form(table, of_table if take else held, compared, f"{norms.why}; {why}")
