"""Is the new version worse than the old one?  A test that may be looked at again and again.

Look k = 1, 2, ... has the level error / (k (k + 1)); these add up to ``error``, so by Bonferroni a
version that is as good is stopped at any of the looks with at most this probability, however many
there are.  Both tests are one-sided and assume that calls do not depend on each other: a call is
judged on its first utterance alone, since the later ones of a call are no new evidence.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import hypergeom, mannwhitneyu


def level(look: int, error: float) -> float:
    """Level of the look-th look, counted from 1."""
    return error / (look * (look + 1))


def fewer(good: int, of: int, good_before: int, of_before: int) -> float:
    """p value of "the new version has a lower share of good calls": Fisher's exact test."""
    return float(hypergeom.cdf(good, of + of_before, good + good_before, of))


def longer(new: Sequence[float] | np.ndarray, old: Sequence[float] | np.ndarray) -> float:
    """p value of "the new version takes longer": the rank test of Mann and Whitney, by its normal
    approximation (ties corrected)."""
    if not len(new) or not len(old):
        return 1.0
    return float(mannwhitneyu(new, old, alternative="greater", method="asymptotic").pvalue)
