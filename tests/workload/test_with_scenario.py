"""The workload as a scenario file gives it."""

import math

import numpy as np
import pytest

from voicesim.scenario.schema import Workload
from voicesim.workload import draw_tape, expected_sessions, rate_at

UTTERANCE = {
    "audio": {"lognormal": {"mean": "4.3s", "p99": "15s"}},
    "prompt_tokens": {"lognormal": {"mean": 60, "p99": 200}},
}
DISPERSED = {"dispersion": 1.3, "dispersion_window": "20s"}
SURGE = {"at": "2min", "rise": "1min", "hold": "1min", "fall": "30s"}
KINDS = [
    {"kind": "poisson", "rate": "20/s"},
    {"kind": "constant", "rate": "20/s"},
    {"kind": "surge", "base": "4/s", "peak": "23/s", **SURGE, **DISPERSED},
    {
        "kind": "diurnal",
        "rate": "3/s",
        "profile": "servegen_m_small",
        "start_hour": 19.9,
        "surge": {"times": 3, **SURGE},
        **DISPERSED,
    },
    {"kind": "gamma", "rate": "5/s", **DISPERSED},
    {"kind": "burst", "size": 300, "at": "3s", "spread": "10s"},
    {"kind": "closed", "callers": 8, "stagger": "2s"},
]


def read(arrivals, **more):
    fields = {
        "arrivals": arrivals,
        "utterance": UTTERANCE,
        "utterances_per_session": {"geometric": {"mean": 3}},
        "think": {"exponential": {"mean": "4s"}},
        "patience": {"exponential": {"mean": "8s"}},
    }
    return Workload.model_validate(fields | more)


@pytest.mark.parametrize("arrivals", KINDS, ids=[k["kind"] for k in KINDS])
def test_every_kind_is_drawn_as_the_schema_expects(arrivals):
    w = read(arrivals)
    horizon = 500.0
    tape = draw_tape(w, horizon, 1, 0, 0.08, 2048)
    assert tape.sessions > 100
    assert tape.closed == (arrivals["kind"] == "closed")
    expected = expected_sessions(w.arrivals, horizon)
    if not math.isnan(expected):
        assert expected == pytest.approx(w.arrivals.expected(horizon), rel=1e-9)
        # Seven standard deviations of a count with variance / mean 1.3.
        assert abs(len(tape.arrival) - expected) < 7 * math.sqrt(1.3 * expected)
    t = np.linspace(0.0, horizon, 997)
    rates = rate_at(w.arrivals, t)
    if not np.isnan(rates[0]):
        np.testing.assert_allclose(rates, [w.arrivals.rate_at(x) for x in t], rtol=1e-9)


def test_a_trace_file(tmp_path):
    file = tmp_path / "calls.csv"
    file.write_text("t_s,tokens\n1,30\n2,40\n50,50\n")
    w = read({"kind": "trace", "file": str(file), "speed": 2.0})
    tape = draw_tape(w, 10.0, 1, 0, 0.08, 2048)
    assert tape.arrival.tolist() == [0.5, 1.0]
    assert tape.tokens.tolist() == [30, 40]
    assert expected_sessions(w.arrivals, 10.0) == w.arrivals.expected(10.0) == 2
