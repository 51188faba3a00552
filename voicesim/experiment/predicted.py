"""What the simulator prints for the figures of a published ladder."""

from collections.abc import Sequence

import numpy as np

from voicesim.engine.profile import Point, Profile
from voicesim.experiment.published import Figure, Ladder
from voicesim.experiment.served import WITHIN, Served, serve
from voicesim.experiment.shape import digits

SEEDS = (0, 1, 2)


def predict(
    ladder: Ladder,
    profile: Profile,
    figures: Sequence[Figure],
    seeds: Sequence[int] = SEEDS,
    least: int = 400,
) -> np.ndarray:
    """What the simulator prints for these figures, mean over the seeds."""
    runs: dict[tuple[str, float, int], Served] = {}
    for f in figures:
        for seed in seeds:
            if (f.run, f.level, seed) not in runs:
                load = ladder.load(profile, f.run, f.level)
                runs[f.run, f.level, seed] = serve(
                    load, ladder.kind, f.level, seed, least, ladder.requests(f.run, f.level)
                )
    after = ladder.after_first
    return np.array(
        [
            np.mean([runs[f.run, f.level, s].value(f.metric, f.stat, after) for s in seeds])
            for f in figures
        ]
    )


def points(
    ladder: Ladder, profile: Profile, figures: Sequence[Figure], held_out: bool
) -> list[Point]:
    """Published figures beside predicted ones."""
    out = []
    for f, value in zip(figures, predict(ladder, profile, figures), strict=True):
        error = digits(value - f.value if f.metric in WITHIN else value / f.value - 1)
        out.append(
            Point(
                run=f.run or None,
                load=f.level,
                metric=f.metric,
                stat=f.stat,
                held_out=held_out,
                measured=f.value,
                predicted=digits(value),
                error=error,
            )
        )
    return out
