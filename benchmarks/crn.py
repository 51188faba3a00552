"""Common random numbers against independent seeds: replications for one half-width.

Plays --replications runs of every variant of a scenario under the same callers, and as many of
every variant but the first under callers of their own.  The replications that a half-width of a
difference needs are proportional to the variance of that difference, so the ratio of the two
variances is the ratio of the replications.  Under independent seeds that variance is the sum of
the two variants' own.

Rows: every pair of variants, those with the baseline first.  half: 10 % of the first one's mean,
halved until independent seeds need 20 replications, so that whole runs do not blur the ratio.
low..high: the middle 90 % of the ratio over resampled replications.

    python benchmarks/crn.py                             the whole holiday peak (minutes)
    python benchmarks/crn.py --set horizon=20min         shorter: ends with the surge under way
"""

import argparse
import itertools
import json
import math
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import t as student

from voicesim.experiment import METRICS, method
from voicesim.experiment.metrics import value
from voicesim.experiment.work import jobs_of, play
from voicesim.scenario import ScenarioFile, load

PEAK = Path(__file__).parents[1] / "scenarios" / "holiday_peak.yaml"
Runs = dict[str, np.ndarray]


def measure(file: ScenarioFile, metric: str, n: int, workers: int) -> tuple[Runs, Runs]:
    """Values of the metric per variant: under the same callers, and under callers of its own."""
    jobs = [job for v in file.variants for job in jobs_of(v, file.variants[v], n)]
    for i, v in enumerate(file.variants):  # callers of its own: replications no one else has
        jobs += jobs_of(v, file.variants[v], (i + 1) * n)[i * n :] if i else []
    results = Parallel(workers)(delayed(play)(job) for job in jobs)
    found = {
        job.id: value(result["metrics"], metric) for job, result in zip(jobs, results, strict=True)
    }

    def values(variant: str, start: int) -> np.ndarray:
        return np.array([found[variant, r] for r in range(start, start + n)], float)

    same = {v: values(v, 0) for v in file.variants}
    return same, {v: values(v, i * n) for i, v in enumerate(file.variants)}


def needed(deviation: float, half: float) -> int:
    """Replications whose 95 % t-interval has this half-width, given the standard deviation."""
    n = 2
    while student.ppf(0.975, n - 1) * deviation / math.sqrt(n) > half:
        n += 1
    return n


def ratio_of(a: np.ndarray, b: np.ndarray) -> float:
    """Var(b - a) / (Var a + Var b), paired; NaN where nothing varies."""
    apart = a.var(ddof=1) + b.var(ddof=1)
    return float((b - a).var(ddof=1) / apart) if apart > 0 else math.nan


def pair(a: str, b: str, same: Runs, apart: Runs) -> dict[str, float]:
    """What one pair of variants needs."""
    x, y = same[a], same[b]
    own = [(same[v].var(ddof=1) + apart[v].var(ddof=1)) / 2 for v in (a, b)]  # of both its sets
    sd, sd_apart = float((y - x).std(ddof=1)), math.sqrt(sum(own))
    if sd_apart == 0.0 or math.isnan(sd_apart):
        return {"ratio": math.nan}
    half = 0.1 * abs(float(x.mean())) or sd_apart
    while needed(sd_apart, half) < 20:
        half /= 2
    draws = np.random.default_rng(1).integers(0, len(x), (1000, len(x)))
    low, high = np.nanquantile([ratio_of(x[d], y[d]) for d in draws], [0.05, 0.95])
    return {
        "ratio": sd**2 / sd_apart**2, "ratio_low": float(low), "ratio_high": float(high),
        "difference": float((y - x).mean()), "half_width": half,
        "deviation_same_callers": sd, "deviation_independent": sd_apart,
        "replications_same_callers": needed(sd, half),
        "replications_independent": needed(sd_apart, half),
        "correlation": method.correlation(x, y) or 0.0,
    }  # fmt: skip


def main() -> None:
    """Measure, print, and write flat keys to --json."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="?", default=PEAK, type=Path)
    parser.add_argument("--metric", default="clean_share", choices=list(METRICS))
    parser.add_argument("--replications", type=int, default=40)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--workers", type=int, default=-1)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()

    file = load(options.file, sets=options.set)
    same, apart = measure(file, options.metric, options.replications, options.workers)
    horizon = file.variants[file.baseline].horizon
    figures: dict[str, float] = {"replications": options.replications, "horizon_s": horizon}
    print(f"{options.metric}, {options.replications} replications of {horizon:g} s")
    print(f"{'pair':32} {'diff':>8} {'corr':>6} {'half':>8} {'n same':>6} {'n indep':>7}"
          f" {'ratio':>6}  low..high")  # fmt: skip
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for a, b in itertools.combinations(file.variants, 2):
        got = pair(a, b, same, apart)
        if math.isnan(got["ratio"]):
            print(f"{a + ' ' + b:32} does not vary")
            continue
        print(f"{a + ' ' + b:32} {got['difference']:+8.4f} {got['correlation']:6.3f}"
              f" {got['half_width']:8.5f} {got['replications_same_callers']:6d}"
              f" {got['replications_independent']:7d} {got['ratio']:6.3f}"
              f"  {got['ratio_low']:.2f}..{got['ratio_high']:.2f}")  # fmt: skip
        ratios[a == file.baseline].append(got["ratio"])
        figures |= {f"{a}_{b}_{name}": number for name, number in got.items()}
    if ratios[True]:
        figures["crn_ratio"] = float(np.median(ratios[True]))
        figures["crn_ratio_all_pairs"] = float(np.median(ratios[True] + ratios[False]))
        print(f"replications, same callers / independent: median {figures['crn_ratio']:.3f} "
              f"against {file.baseline}, {figures['crn_ratio_all_pairs']:.3f} of all pairs "
              "(target <= 0.25)")  # fmt: skip
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
