"""When to look at the results: a schedule fixed before the first run.

Looking again and again at a 95 % interval until it pleases covers less than 95 %.  So the numbers
of replications at which results are judged are fixed in advance, first, 1.5 x first, ... up to
the largest number, and the 5 % of error is split evenly over these K looks (Bonferroni): each
judges with intervals of 1 - 5 %/K.  Then the intervals of ALL looks hold at once with at least
95 %, so the one at which we stop does, whatever made us stop.  One look only (largest number <=
first) costs nothing.
"""

from dataclasses import dataclass
from math import ceil

from voicesim.experiment.method import LEVEL

FIRST = 8
FACTOR = 1.5


@dataclass(frozen=True)
class Looks:
    """Numbers of replications at which results are judged."""

    sizes: tuple[int, ...]

    @property
    def level(self) -> float:
        """Coverage of the interval of one look."""
        return 1.0 - (1.0 - LEVEL) / len(self.sizes)

    def adjust(self, p: float) -> float:
        """A p value that holds at whichever look we stop."""
        return min(1.0, len(self.sizes) * p)


def schedule(most: int, first: int = FIRST) -> Looks:
    """first, x 1.5, ..., most; a last step of less than a fifth is joined to the one before."""
    sizes = [min(first, most)]
    while sizes[-1] < most:
        sizes.append(min(ceil(FACTOR * sizes[-1]), most))
    if len(sizes) > 1 and sizes[-1] < 1.2 * sizes[-2]:
        del sizes[-2]
    return Looks(tuple(sizes))
