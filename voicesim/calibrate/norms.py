"""Which norm of the step's two parts (memory, compute) the data ask for, and which they allow."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from voicesim.calibrate.decode import NORMS, DecodeFit, Priors, fit_decode, refit, steps_of
from voicesim.calibrate.levels import Predict, leave_out, mean_error
from voicesim.engine.profile import HeldOut

SIMPLER = 0.9
"""A more elaborate form must bring the held-out error below this share of the simpler one's."""

ALIKE = 2.0
"""Held-out error over the best norm's, beyond which no scatter excuses it."""


@dataclass(frozen=True)
class Norms:
    """A fit at each norm tried (0: maximum), its held-out batches, and the norm taken."""

    fits: dict[int, DecodeFit]
    held: dict[int, list[HeldOut]]
    norm: int
    why: str

    @property
    def best(self) -> DecodeFit:
        return self.fits[self.norm]

    @property
    def compared(self) -> dict[str, float]:
        """Mean held-out error by the norm's name; empty if nothing was held out."""
        every = {f"norm {norm or 'inf'}": mean_error(held) for norm, held in self.held.items()}
        return {} if len(every) == 1 else every

    @property
    def alike(self) -> list[int]:
        """Norms that predict held-out batches as well as the one taken, which is among them.

        As well: within the share that decides for the simpler form; or at most ALIKE times the
        error, where the mean difference of the absolute errors, batch by batch, is within two of
        its standard errors (such a rule with one: Breiman et al., Classification and Regression
        Trees, 1984); or less than such a norm.  A line needs no company: its parameters are
        those of the line.
        """
        if self.norm == 1:
            return [1]
        own = np.array([abs(h.error) for h in self.held[self.norm]])
        furthest = own.mean()
        for held in self.held.values():
            every = np.array([abs(h.error) for h in held])
            more = every - own
            chance = more.mean() <= 2.0 * more.std(ddof=1) / np.sqrt(len(more))
            near = SIMPLER * every.mean() <= own.mean()
            if near or (chance and every.mean() <= ALIKE * own.mean()):
                furthest = max(furthest, every.mean())
        return [norm for norm, held in self.held.items() if mean_error(held) <= furthest]


def choose_norm(steps: pd.DataFrame, levels: dict[float, pd.DataFrame], priors: Priors) -> Norms:
    """The norm of least held-out error; norm 1 unless another is clearly better."""
    fits: dict[int, DecodeFit] = {}
    held: dict[int, list[HeldOut]] = {}
    for norm in NORMS if len(levels) >= 3 else (1,):
        fitted = fit_decode(steps, norm, priors)
        fits[norm] = fitted

        def without(rest: pd.DataFrame, fitted: DecodeFit = fitted) -> Predict:
            again = refit(fitted, rest)
            return lambda rows: again.predict(steps_of(rows))

        held[norm] = leave_out(steps, levels, without)
    norm = min(held, key=lambda n: mean_error(held[n]))
    if mean_error(held[norm]) > SIMPLER * mean_error(held[1]):
        norm = 1
    if len(held) == 1:
        why = f"{len(levels)} batch level(s): nothing can be held out; norm 1 (a line)"
    else:
        why = f"held-out batches: norm {norm or 'inf'} errs {mean_error(held[norm]):.1%} on average"
    return Norms(fits, held, norm, why)
