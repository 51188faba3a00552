"""When calls begin: the offered rate, and start times drawn from it.

Kinds with a rate (``poisson``, ``gamma``, ``surge``, ``diurnal``; rates in sessions per second,
times in seconds) have a nominal rate that is piecewise linear, a `Curve`.  Starts are the points
of a Poisson process with that rate, by inversion: the k-th start is where the cumulative rate
reaches the sum of k unit exponentials.  One uniform per call, so a higher rate moves every call
earlier and never reshuffles them.

Real counts vary more than Poisson counts (Azure 2023 conversations: variance / mean 1.4 at 1 s,
16 at 60 s; gaps near-exponential all the same).  ``dispersion`` D over ``dispersion_window`` w
multiplies the rate in each window [iw, (i+1)w) by an independent gamma "busyness" factor of mean 1
and variance (D - 1)/m, m the window's nominal mean count.  Counts in a window are then negative
binomial with variance / mean = D.  D = 1 is Poisson.

Kinds without one (``burst``, ``closed``, ``trace``) place calls directly; ``constant`` places
them at k / rate, k = 0, 1, ...
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from voicesim.workload.lengths import unit_gamma
from voicesim.workload.recorded import recorded_calls
from voicesim.workload.rng import Purpose, generator

HOUR = 3600.0


@dataclass(frozen=True)
class Curve:
    """A piecewise-linear function of time t >= 0, jumps allowed, continuous from the right.

    On [begin[i], begin[i+1]) it is value[i] + slope[i] (t - begin[i]); the last piece never ends.
    Arrays are float64[n]; begin[0] = 0 and begin increases strictly.
    """

    begin: np.ndarray
    value: np.ndarray
    slope: np.ndarray

    @classmethod
    def flat(cls, value: float) -> "Curve":
        return cls.steps(np.zeros(1), np.array([value], dtype=np.float64))

    @classmethod
    def steps(cls, begin: np.ndarray, value: np.ndarray) -> "Curve":
        return cls(begin, value, np.zeros(len(value)))

    @classmethod
    def through(cls, times: list[float], values: list[float]) -> "Curve":
        """Linear between the points, flat before and after; of equal times the last one counts."""
        points = sorted(zip([0.0, *times], [values[0], *values], strict=True), key=lambda p: p[0])
        begin, value, slope = [], [], []
        for (t, v), (t_next, v_next) in zip(
            points, [*points[1:], (math.inf, points[-1][1])], strict=True
        ):
            if t_next > t:
                begin.append(t)
                value.append(v)
                slope.append((v_next - v) / (t_next - t))
        return cls(np.array(begin), np.array(value), np.array(slope))

    def _piece(self, t: np.ndarray) -> np.ndarray:
        return np.maximum(np.searchsorted(self.begin, t, side="right") - 1, 0)

    def __call__(self, t: np.ndarray) -> np.ndarray:
        i = self._piece(t)
        return self.value[i] + self.slope[i] * (t - self.begin[i])

    def __mul__(self, other: "Curve") -> "Curve":
        """The product; on every piece one of the two must be flat, so that it stays linear."""
        begin = np.union1d(self.begin, other.begin)
        a, b = self(begin), other(begin)
        a_slope, b_slope = self.slope[self._piece(begin)], other.slope[other._piece(begin)]
        if np.any(a_slope * b_slope):
            raise ValueError("the product of two sloping pieces is not piecewise linear")
        return Curve(begin, a * b, a * b_slope + b * a_slope)

    def _cumulative_at_begin(self) -> np.ndarray:
        width = np.diff(self.begin)
        area = (self.value[:-1] + self.slope[:-1] * width / 2) * width
        return np.concatenate(([0.0], np.cumsum(area)))

    def cumulative(self, t: np.ndarray) -> np.ndarray:
        """Integral over [0, t], elementwise."""
        i = self._piece(t)
        x = t - self.begin[i]
        return self._cumulative_at_begin()[i] + (self.value[i] + self.slope[i] * x / 2) * x

    def inverse_cumulative(self, mass: np.ndarray) -> np.ndarray:
        """Times t with cumulative(t) = mass, for ``mass`` sorted and the curve >= 0.

        On a piece, a x + b x^2/2 = y has the root x = 2y / (a + sqrt(a^2 + 2by)), which does not
        cancel for small b.
        """
        at_begin = self._cumulative_at_begin()
        i = np.searchsorted(at_begin, mass, side="right") - 1
        y, a, b = mass - at_begin[i], self.value[i], self.slope[i]
        down = a + np.sqrt(np.maximum(a * a + 2 * b * y, 0.0))
        x = np.divide(2 * y, down, out=np.zeros(len(y)), where=down > 0)
        end = np.append(self.begin[1:], math.inf)[i]
        # Rounding must neither leave the piece nor break the order.
        return np.maximum.accumulate(np.minimum(self.begin[i] + x, end))


def nominal(arrivals: Any, until: float) -> Curve | None:
    """The offered rate on [0, until], sessions per second; None for a kind without a rate.

    A surge starts to climb at ``at``, takes ``rise`` to reach the peak, stays ``hold`` and comes
    back in ``fall``; a rise or fall of 0 is a jump.  A diurnal rate is ``rate`` times its hour's
    multiplier, constant within the hour, so that an hour's mean count is the one written down.
    24 numbers are taken as they come; a profile by name has mean 1.  The surge of a day multiplies
    that by up to ``times``.
    """
    match arrivals.kind:
        case "poisson" | "gamma" | "constant":
            return Curve.flat(arrivals.rate)
        case "surge":
            return _trapezoid(arrivals, arrivals.base, arrivals.peak)
        case "diurnal":
            curve = _hours(arrivals, until)
            surge = getattr(arrivals, "surge", None)
            return curve if surge is None else curve * _trapezoid(surge, 1.0, surge.times)
        case "burst" | "closed" | "trace":
            return None
    raise ValueError(f"unknown kind of arrivals {arrivals.kind!r}")


def _trapezoid(s: Any, low: float, high: float) -> Curve:
    top, down = s.at + s.rise, s.at + s.rise + s.hold
    return Curve.through([s.at, top, down, down + s.fall], [low, high, high, low])


def _hours(arrivals: Any, until: float) -> Curve:
    profile = arrivals.profile
    if isinstance(profile, str):
        from voicesim.scenario.presets import PROFILES

        if profile not in PROFILES:
            raise ValueError(f"unknown diurnal profile {profile!r}; known: {', '.join(PROFILES)}")
        profile = np.array(PROFILES[profile]) / np.mean(PROFILES[profile])
    if len(profile) != 24:
        raise ValueError(f"a diurnal profile has 24 multipliers, not {len(profile)}")
    start = float(arrivals.start_hour)
    hours = np.arange(math.floor(start), math.floor(start + until / HOUR) + 2)
    begin = np.maximum(0.0, (hours - start) * HOUR)
    return Curve.steps(begin, arrivals.rate * np.asarray(profile, dtype=np.float64)[hours % 24])


def busyness(curve: Curve, dispersion: float, window: float, u: np.ndarray) -> Curve:
    """Factor by which each window's rate is multiplied, from one uniform per window.

    ``u`` is float64[windows]; the windows are whole even where the horizon cuts the last one, so
    a longer horizon keeps the factors of a shorter one.
    """
    begin = window * np.arange(len(u) + 1)
    count = np.diff(curve.cumulative(begin))
    variance = np.divide(dispersion - 1.0, count, out=np.zeros(len(u)), where=count > 0)
    return Curve.steps(begin[:-1], unit_gamma(variance, u))


def draw_arrivals(arrivals: Any, horizon: float, seed: int, replication: int) -> np.ndarray:
    """Session start times in [0, horizon), seconds, sorted: float64[S].

    For ``closed`` these are the first session of each caller, caller i at i * stagger / callers;
    for ``burst``, ``size`` calls uniform on [at, at + spread).
    """
    match arrivals.kind:
        case "constant":
            times = np.arange(math.ceil(horizon * arrivals.rate) + 1) / arrivals.rate
        case "burst":
            u = generator(seed, replication, Purpose.ARRIVALS).random(arrivals.size)
            times = np.sort(arrivals.at + arrivals.spread * u)
        case "closed":
            times = np.arange(arrivals.callers) * arrivals.stagger / arrivals.callers
            if times[-1] >= horizon:
                raise ValueError(
                    f"stagger {arrivals.stagger:g} s: some callers would start after the end "
                    f"of the run ({horizon:g} s)"
                )
        case "trace":
            return recorded_calls(arrivals, horizon, seed, replication).start
        case _:
            return np.concatenate(list(_poisson(arrivals, horizon, seed, replication, None)))
    return times[times < horizon]


def arrivals_in_pieces(
    arrivals: Any, horizon: float, seed: int, replication: int, size: int
) -> Iterator[np.ndarray]:
    """``draw_arrivals`` piece by piece, ``size`` starts each but for the last: equal to the bit.

    The kinds with a rate are drawn as they are asked for; the others are drawn whole and cut.
    """
    match arrivals.kind:
        case "burst" | "closed" | "trace":
            times = draw_arrivals(arrivals, horizon, seed, replication)
            yield from (times[k : k + size] for k in range(0, max(len(times), 1), size))
        case "constant":
            n = math.ceil(horizon * arrivals.rate) + 1
            for k in range(0, n, size):
                times = np.arange(k, min(k + size, n)) / arrivals.rate
                yield times[times < horizon]
        case _:
            yield from _poisson(arrivals, horizon, seed, replication, size)


def _poisson(
    arrivals: Any, horizon: float, seed: int, replication: int, size: int | None
) -> Iterator[np.ndarray]:
    """Starts of a kind with a rate, ``size`` at a time; None: as many as are to be expected."""
    window = float(getattr(arrivals, "dispersion_window", None) or 0.0)
    dispersion = float(getattr(arrivals, "dispersion", None) or 1.0)
    if dispersion < 1.0:
        raise ValueError(f"dispersion {dispersion:g}: below 1 needs another process than Poisson")
    if dispersion > 1.0 and not window:
        raise ValueError("dispersion above 1 needs a dispersion_window")
    windows = math.ceil(horizon / window) if window else 0
    curve = nominal(arrivals, max(horizon, windows * window))
    assert curve is not None
    if dispersion > 1.0:
        u = generator(seed, replication, Purpose.BUSYNESS).random(windows)
        curve = curve * busyness(curve, dispersion, window, u)
    total = float(curve.cumulative(np.array([horizon]))[0])
    gen = generator(seed, replication, Purpose.ARRIVALS)
    n = math.ceil(total + 6 * math.sqrt(total)) + 16 if size is None else size
    reached, last = 0.0, 0.0  # cumulative rate and time of the latest start
    while True:
        # a running sum goes on where the piece before it stopped, as if it had never been cut
        mass = np.cumsum(np.concatenate(([reached], -np.log1p(-gen.random(n)))))[1:]
        times = np.maximum(curve.inverse_cumulative(mass[mass < total]), last)
        reached, last = float(mass[-1]), float(times[-1]) if len(times) else last
        yield times[times < horizon]
        if reached >= total:
            return


def rate_at(arrivals: Any, t: np.ndarray) -> np.ndarray:
    """Nominal offered rate at times ``t`` (s), sessions per second; NaN for a kind without one.

    Nominal: before busyness, so the line a figure draws behind the counts.
    """
    t = np.asarray(t, dtype=np.float64)
    curve = nominal(arrivals, float(np.max(t, initial=0.0)))
    return np.full(t.shape, np.nan) if curve is None else curve(t)


def expected_sessions(arrivals: Any, horizon: float) -> float:
    """Mean number of sessions that start in [0, horizon).

    NaN for ``closed``, where it depends on how fast the cluster answers.
    """
    match arrivals.kind:
        case "constant" | "trace":
            return float(len(draw_arrivals(arrivals, horizon, 0, 0)))
        case "burst":
            if arrivals.spread <= 0:
                return float(arrivals.size if arrivals.at < horizon else 0)
            return arrivals.size * min(1.0, max(0.0, (horizon - arrivals.at) / arrivals.spread))
        case "closed":
            return math.nan
    curve = nominal(arrivals, horizon)
    assert curve is not None
    return float(curve.cumulative(np.array([horizon]))[0])
