"""Fitting the step-cost form to decode and prefill steps.

The residual is the logarithm of predicted over measured under a soft-L1 loss, so a step counts
by its share, too short or too long alike, and an outlier counts little.  Runs differ by more
than steps within a run do (another tenant, another clock), so weight goes to runs, not to steps:
a run's decode steps weigh its reliability together, its prefill steps the same.

What the data cannot tell is not fitted: it stays 0 (assumed) or at a prior, and is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.optimize import least_squares, nnls

NAMES = (
    "memory_s",
    "memory_per_kv_token_s",
    "compute_per_token_s",
    "prefill_per_token_s",
    "attention_s",
    "host_s",
    "host_per_stream_s",
)
Priors = Mapping[str, float]
"""Parameters from data sheets, by name (s), for those that the samples cannot tell."""
NO_PRIORS: Priors = {}
NORMS = (1, 2, 4, 8, 0)
SOFT = 0.1
"""Residual (a share) beyond which the loss turns from squares to absolute values."""
ENOUGH = 20_000
"""Rows from which on a fit takes some of each run, stage and batch for all (``thin_out``)."""


@dataclass(frozen=True)
class Steps:
    """Columns of the samples that a fit reads, as arrays, and the weight of each."""

    tokens: np.ndarray
    kv_read: np.ndarray
    pairs: np.ndarray
    streams: np.ndarray
    seconds: np.ndarray
    weight: np.ndarray

    def where(self, keep: np.ndarray) -> Steps:
        return Steps(*(getattr(self, name)[keep] for name in self.__dataclass_fields__))


@dataclass
class DecodeFit:
    """Parameters by name (seconds), norm (0: maximum), knee in tokens, and which were free."""

    values: dict[str, float]
    norm: int
    knee: float
    free: tuple[str, ...]
    unidentified: list[str] = field(default_factory=list)

    def predict(self, steps: Steps) -> np.ndarray:
        return step_seconds(self.values, self.norm, self.knee, steps)


def thin_out(samples: pd.DataFrame) -> pd.DataFrame:
    """About ENOUGH rows that stand for all: a column ``stands_for`` says for how many each.

    Of every run, stage and batch, rows evenly spaced in the order of the table; at least 20 of
    each, or all there are.  So weights, levels and ranges stay; only noise averages less well.
    """
    if len(samples) <= ENOUGH:
        return samples.assign(stands_for=1.0)
    groups = samples.groupby(["run", "stage", "batch"])["seconds"]
    size = groups.transform("size").to_numpy()
    rank = groups.cumcount().to_numpy()
    take = np.minimum(size, max(20, ENOUGH // groups.ngroups))
    kept = rank * take // size != (rank - 1) * take // size
    return samples[kept].assign(stands_for=(size / take)[kept]).reset_index(drop=True)


def run_weights(samples: pd.DataFrame) -> np.ndarray:
    """The run's reliability over the number of samples of the same run and stage."""
    stands_for = samples.get("stands_for", pd.Series(1.0, samples.index))
    total = stands_for.groupby([samples["run"], samples["stage"]]).transform("sum")
    trust = samples["reliability"].to_numpy(dtype=float) if "reliability" in samples else 1.0
    return np.asarray(trust * stands_for / total, dtype=float)


def with_reliability(samples: pd.DataFrame, priors: Priors) -> pd.DataFrame:
    """Add a column ``reliability``: 1 / (scatter within the run squared + between runs squared).

    Scatter: of the logarithm of measured over predicted, from absolute deviations.  On a shared
    machine the run that somebody disturbed is the one whose steps scatter.  Mean 1 over runs;
    all 1 unless at least six runs hold twenty decode steps each.
    """
    out = thin_out(samples)
    decode = out[out["stage"] == "decode"]
    long = decode[decode.groupby("run")["seconds"].transform("size") >= 20]
    out["reliability"] = 1.0
    if long["run"].nunique() < 6:
        return samples.assign(reliability=1.0)
    for _ in range(2):
        fitted = fit_decode(out, 1, priors)
        log = pd.Series(np.log(long["seconds"].to_numpy() / fitted.predict(steps_of(long))))
        run = long["run"].to_numpy()
        speed = log.groupby(run).median()
        within = 1.4826 * (log - log.groupby(run).transform("median")).abs().groupby(run).median()
        between = max(1.4826 * float((speed - speed.median()).abs().median()), 1e-3)
        trust = 1.0 / (within**2 + between**2)
        by_run = trust / trust.mean()
        out["reliability"] = out["run"].map(by_run).fillna(1.0)
    return samples.assign(reliability=samples["run"].map(by_run).fillna(1.0))


def steps_of(samples: pd.DataFrame) -> Steps:
    names = ("tokens", "kv_read", "pairs", "streams", "seconds")
    columns = {name: samples[name].to_numpy(dtype=float) for name in names}
    return Steps(**columns, weight=run_weights(samples))


def step_seconds(v: dict[str, float], norm: int, knee: float, s: Steps) -> np.ndarray:
    """The form of ``voicesim.engine.cost`` over arrays."""
    bandwidth = v["memory_s"] + v["memory_per_kv_token_s"] * s.kv_read
    compute = (
        v["compute_per_token_s"] * np.minimum(s.tokens, knee)
        + v["prefill_per_token_s"] * np.maximum(s.tokens - knee, 0.0)
        + v["attention_s"] * s.pairs
    )
    if norm == 0:
        gpu = np.maximum(bandwidth, compute)
    elif norm == 1:
        gpu = bandwidth + compute
    else:
        a, b = bandwidth, compute
        for _ in range(norm.bit_length() - 1):
            a, b = a * a, b * b
        gpu = a + b
        for _ in range(norm.bit_length() - 1):
            gpu = np.sqrt(gpu)
    return np.asarray(gpu + v["host_s"] + v["host_per_stream_s"] * s.streams)


def choose_free(samples: pd.DataFrame, norm: int, priors: Priors) -> tuple[list[str], list[str]]:
    """Which parameters the samples can tell, and a sentence for each that they cannot."""
    decode = samples[samples["stage"] == "decode"]
    prefill = samples[samples["stage"] == "prefill"]
    free, cannot = ["memory_s"], []
    if samples["tokens"].nunique() > 1:
        free.append("compute_per_token_s")
    else:
        what = "the data-sheet prior is used" if "compute_per_token_s" in priors else "assumed 0"
        cannot.append(f"compute_per_token_s: only one batch size; {what}")
    context = decode.assign(level=decode["batch"].round()).groupby("level")["context"]
    spread = (context.max() / context.min().clip(lower=1.0)).max() if len(decode) else 1.0
    if len(decode) >= 4 and spread >= 1.5:
        free.append("memory_per_kv_token_s")
    else:
        what = "the data-sheet prior is used" if "memory_per_kv_token_s" in priors else "assumed 0"
        cannot.append(f"memory_per_kv_token_s: contexts hardly differ at any batch; {what}")
    if len(prefill):
        free.append("host_per_stream_s")
        if prefill["pairs"].max() >= 16 * prefill["pairs"].min() and len(prefill) >= 3:
            free.append("attention_s")
        else:
            cannot.append("attention_s: prompts of one length only; assumed 0")
    else:
        cannot.append("host_per_stream_s: without prompts, the same as compute_per_token_s; 0")
        cannot.append("attention_s: without prompts, the same as memory_per_kv_token_s; assumed 0")
    if norm == 1:
        cannot.append("host_s, compute_s: at norm 1 only their sum with memory_s shows; assumed 0")
    elif decode["batch"].nunique() >= 5:
        free.append("host_s")
    else:
        cannot.append("host_s: too few batch sizes to tell it from memory_s; assumed 0")
    return free, cannot


def fit_decode(samples: pd.DataFrame, norm: int, priors: Priors = NO_PRIORS) -> DecodeFit:
    """Fit one norm: choose what is free, then solve.

    If decoding streams turn out to cost no more than prompt tokens, the compute line gets a
    second slope above the largest decode batch, where only prompts reach.
    """
    steps = steps_of(samples)
    names, cannot = choose_free(samples, norm, priors)
    values = _solve(steps, norm, np.inf, names, priors)
    fitted = DecodeFit(values, norm, np.inf, tuple(names), cannot)
    top = float(samples.loc[samples["stage"] == "decode", "batch"].max())
    beyond = (samples["stage"] == "prefill") & (samples["tokens"] > top)
    pinned = values["host_per_stream_s"] < 1e-3 * values["compute_per_token_s"]
    if "host_per_stream_s" in names and pinned and beyond.any():
        names = [n for n in names if n != "host_per_stream_s"] + ["prefill_per_token_s"]
        cannot = [*cannot, "host_per_stream_s: decoding streams cost no more than prompt tokens; 0"]
        values = _solve(steps, norm, top, names, priors)
        fitted = DecodeFit(values, norm, top, tuple(names), cannot)
    return fitted


def refit(near: DecodeFit, samples: pd.DataFrame, times: np.ndarray | None = None) -> DecodeFit:
    """The same form fitted to other rows, starting from ``near``.

    times: how often each row counts (bootstrap).
    """
    steps = steps_of(samples)
    if times is not None:
        scaled = steps.weight * times
        steps = Steps(**{**vars(steps), "weight": scaled}).where(scaled > 0)
    values = _solve(steps, near.norm, near.knee, list(near.free), NO_PRIORS, near.values)
    return DecodeFit(values, near.norm, near.knee, near.free)


def _solve(
    steps: Steps,
    norm: int,
    knee: float,
    free: list[str],
    priors: Priors,
    near: dict[str, float] | None = None,
) -> dict[str, float]:
    fixed = dict.fromkeys(NAMES, 0.0)
    fixed.update({name: value for name, value in priors.items() if name not in free})
    if near is not None:
        fixed.update({name: value for name, value in near.items() if name not in free})
    root = np.sqrt(steps.weight / steps.weight.sum())
    scale = _scale(steps, free)
    tol = 1e-14 if near is None else 1e-7

    def weighted(x: np.ndarray) -> np.ndarray:
        # sqrt(w) * sqrt(rho(r)) makes least squares minimise the weighted soft-L1 loss.
        values = {**fixed, **dict(zip(free, x * scale, strict=True))}
        predicted = np.maximum(step_seconds(values, norm, knee, steps), 1e-12)
        r = np.log(predicted / steps.seconds) / SOFT
        return root * r / np.sqrt(0.5 * (np.sqrt(1.0 + r * r) + 1.0))

    if near is None:
        starts = _starts(_robust_line(steps, knee, free, fixed, scale), free, norm)
    else:
        starts = [np.maximum([near[name] for name in free] / scale, 1e-3)]
    best = None
    for start in starts:
        found = least_squares(weighted, start, bounds=(0.0, np.inf), xtol=tol, ftol=tol, gtol=tol)
        if best is None or found.cost < best.cost:
            best = found
    assert best is not None
    x = np.where(best.x < 1e-9, 0.0, best.x)
    return {**fixed, **dict(zip(free, (float(v) for v in x * scale), strict=True))}


def _starts(line: np.ndarray, free: list[str], norm: int) -> list[np.ndarray]:
    """Where to begin: near the straight line's answer; other norms also with host time."""
    near = np.maximum(line, 1e-3)
    if norm == 1 or "host_s" not in free:
        return [near]
    m, h = free.index("memory_s"), free.index("host_s")
    halves = near.copy()
    halves[m], halves[h] = 0.5 * near[m], 0.5 * near[m]
    mostly = near.copy()
    mostly[m], mostly[h] = near[m], 0.05 * near[m]
    return [halves, mostly]


def _robust_line(
    steps: Steps, knee: float, free: list[str], fixed: dict[str, float], scale: np.ndarray
) -> np.ndarray:
    """A good straight line (norm 1) by reweighted linear fits, to start from.

    Errors are shares of the measured step, or of half the usual one where a step looks shorter.
    """
    usual = np.array(pd.Series(steps.seconds).groupby(steps.tokens).transform("median"))
    size_of = np.maximum(steps.seconds, 0.5 * usual)

    def column(name: str, size: float) -> np.ndarray:
        alone = {**dict.fromkeys(NAMES, 0.0), name: size}
        return step_seconds(alone, 1, knee, steps) / size_of

    one = [n for n in free if n != "host_s"]
    sizes = dict(zip(free, scale, strict=True))
    design = np.column_stack([column(name, sizes[name]) for name in one])
    target = (steps.seconds - step_seconds(fixed, 1, knee, steps)) / size_of
    weight = steps.weight.copy()
    x = np.zeros(len(one))
    for _ in range(30):
        root = np.sqrt(weight)
        both = np.column_stack((design, target)) * root[:, None]
        upper = np.asarray(np.linalg.qr(both, mode="r"))
        x = nnls(upper[:, :-1], upper[:, -1])[0]
        r = (design @ x - target) / SOFT
        weight = steps.weight / np.sqrt(1.0 + r * r)
    found = dict(zip(one, x, strict=True))
    return np.array([found.get(name, 0.0) for name in free])


def _scale(steps: Steps, free: list[str]) -> np.ndarray:
    """A scale for each free parameter, from the size of the steps."""
    typical = float(np.median(steps.seconds))
    reach = {
        "memory_s": 1.0,
        "host_s": 4.0,
        "memory_per_kv_token_s": float(np.max(steps.kv_read)),
        "compute_per_token_s": float(np.max(np.minimum(steps.tokens, 256))),
        "prefill_per_token_s": float(np.max(steps.tokens)),
        "attention_s": float(np.max(steps.pairs)),
        "host_per_stream_s": 4.0 * float(np.max(steps.streams)),
    }
    return np.array([0.5 * typical / max(reach[name], 1.0) for name in free])
