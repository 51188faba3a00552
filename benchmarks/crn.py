"""Common random numbers against independent seeds: replications for one half-width.

Plays --replications runs of every variant of a scenario under the same callers, and as many of
every variant but the first under callers of their own.  The replications that a half-width of a
difference needs are proportional to the variance of that difference, so the ratio of the two
variances is the ratio of the replications.  Under independent seeds that variance is the sum of
the two variants' own (the second from both its sets of runs).  half: 10 % of the baseline's mean,
halved until independent seeds need 20 replications, so that whole runs do not blur the ratio.

    python benchmarks/crn.py                             the whole holiday peak (minutes)
    python benchmarks/crn.py --set horizon=20min         shorter: ends with the surge under way
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import t as student

from voicesim.experiment import METRICS, method
from voicesim.experiment.metrics import value
from voicesim.experiment.work import jobs_of, play
from voicesim.scenario import load

PEAK = Path(__file__).parents[1] / "scenarios" / "holiday_peak.yaml"


def needed(deviation: float, half: float) -> int:
    """Replications whose 95 % t-interval has this half-width, given the standard deviation."""
    n = 2
    while student.ppf(0.975, n - 1) * deviation / math.sqrt(n) > half:
        n += 1
    return n


def main() -> None:
    """Measure, print, and write flat keys to --json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="?", default=PEAK, type=Path)
    parser.add_argument("--metric", default="clean_share", choices=list(METRICS))
    parser.add_argument("--replications", type=int, default=24)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--workers", type=int, default=-1)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()

    file, n = load(options.file, sets=options.set), options.replications
    base, *others = file.variants
    # variant i of the independent runs takes replications (i + 1) n .. (i + 2) n: fresh callers
    jobs = [job for v in file.variants for job in jobs_of(v, file.variants[v], n)]
    for i, v in enumerate(others):
        jobs += jobs_of(v, file.variants[v], (i + 2) * n)[(i + 1) * n :]
    results = Parallel(options.workers)(delayed(play)(job) for job in jobs)
    found = {
        job.id: value(result["metrics"], options.metric)
        for job, result in zip(jobs, results, strict=True)
    }

    def values(variant: str, start: int = 0) -> np.ndarray:
        return np.array([found[variant, r] for r in range(start, start + n)], float)

    figures: dict[str, float] = {"replications": n, "horizon_s": file.variants[base].horizon}
    a = values(base)
    print(f"{options.metric}, {n} replications, {base} {a.mean():.4f} (sd {a.std(ddof=1):.4f})")
    print(f"{'variant':20} {'diff':>9} {'sd same':>9} {'sd indep':>9} {'corr':>6} {'half':>8}"
          f" {'n same':>7} {'n indep':>8} {'ratio':>7}")  # fmt: skip
    ratios = []
    for i, v in enumerate(others):
        b, apart = values(v), values(v, (i + 1) * n)
        same = b - a
        sd = same.std(ddof=1)
        sd_apart = math.sqrt(a.var(ddof=1) + (b.var(ddof=1) + apart.var(ddof=1)) / 2)
        half = 0.1 * abs(a.mean())
        while needed(sd_apart, half) < 20:  # so fine that rounding to whole runs does not matter
            half /= 2
        few, many = needed(sd, half), needed(sd_apart, half)
        ratio = float(sd**2 / sd_apart**2)
        ratios.append(ratio)
        correlation = method.correlation(a, b)
        print(f"{v:20} {same.mean():+9.4f} {sd:9.5f} {sd_apart:9.5f} {correlation or 0:6.3f}"
              f" {half:8.5f} {few:7d} {many:8d} {ratio:7.3f}")  # fmt: skip
        figures |= {
            f"{v}_ratio": ratio, f"{v}_replications_same_callers": few,
            f"{v}_replications_independent": many, f"{v}_half_width": half,
            f"{v}_correlation": correlation or 0.0,
        }  # fmt: skip
    figures["crn_ratio"] = float(np.median(ratios))
    figures["crn_ratio_worst"] = max(ratios)
    print(f"replications, same callers / independent: median {figures['crn_ratio']:.3f}, "
          f"worst {figures['crn_ratio_worst']:.3f} (target <= 0.25)")  # fmt: skip
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(figures, out, indent=2)


if __name__ == "__main__":
    main()
