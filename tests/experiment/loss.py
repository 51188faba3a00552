"""A loss system: one replica whose step takes 60 ms whoever is in it, under a cap on streams."""

from tests import small

SCENARIO = (
    small.SCENARIO.replace("rate: 6/s", "rate: 5/s")
    .replace("horizon: 60s", "horizon: 400s")
    .replace("warmup: 5s", "warmup: 40s")
    .replace("mean: 3s, p99: 10s", "mean: 2s, p99: 8s")
    .replace("geometric: {mean: 2}", "constant: 1")
    .replace("  think: {exponential: {mean: 1s}}\n", "")
    .replace("  refused: {retry: {attempts: 1, backoff: 1s}}\n", "")
    .replace("count: 2}", "count: 1}")
    .replace("replicas: 2", "replicas: 1")
    .replace("streams: 6", "streams: 30")
)
"""One replica, calls of one utterance, no retry: the cap's slots are Erlang's servers."""


def write(folder):
    """The scenario and its profile in ``folder``; returns the scenario's path."""
    path = small.write(folder, SCENARIO)
    text = small.PROFILE.replace("0.007", "0.06").replace("0.0004", "0.0000001")
    for slow in ("1.5", "1.4"):  # a step takes 60 ms whatever the others do: Erlang's servers
        text = text.replace(f"value: {slow},", "value: 1.0,")
    (folder / "small-profile.yaml").write_text(text)
    return path


def load_of(path):
    """Mean slots busy without a cap: rate x mean time from request to the last chunk."""
    from voicesim.metrics.tables import streams
    from voicesim.scenario import load
    from voicesim.simulation import simulate

    scenario = load(path, sets=["horizon=3000s"]).variants["admit_all"]
    table = streams(simulate(scenario, 0))
    table = table[table["outcome"] == "completed"]
    return 5.0 * float((table["settled_s"] - table["requested_s"]).mean())
