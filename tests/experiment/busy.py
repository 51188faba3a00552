"""The small scenario under more callers than it can serve, with a twin of its baseline."""

from tests import small

SCENARIO = (
    small.SCENARIO.replace("rate: 6/s", "rate: 36/s")
    .replace("horizon: 60s", "horizon: 20s")
    .replace("streams: 6", "streams: 22")
)
SCENARIO += """\
  twin: {title: Small}
  crowd: {workload.arrivals: {kind: poisson, rate: 38/s}}
"""


def write(folder):
    """The scenario and its profile in ``folder``; returns the scenario's path."""
    return small.write(folder, SCENARIO)
