"""Random scenarios: small clusters, short runs, every rule that a scenario can name."""

from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tests import small
from voicesim.scenario import Scenario, load

HOME = Path(__file__).with_name("home")


def seconds(low: float, high: float) -> st.SearchStrategy[str]:
    return st.integers(round(low * 1000), round(high * 1000)).map(lambda ms: f"{ms}ms")


def one(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def law(low: float, high: float) -> st.SearchStrategy[Any]:
    """A duration of its own, or a law with such a mean."""
    mean = seconds(low, high)
    return st.one_of(
        mean,
        mean.map(lambda m: {"exponential": {"mean": m}}),
        mean.map(lambda m: {"lognormal": {"median": m, "sigma": 0.7}}),
        mean.map(lambda m: {"gamma": {"mean": m, "cv": 0.5}}),
    )


RATE = one("1/s", "3/s", "8/s")
DISPERSED = {"kind": "gamma", "dispersion": 3, "dispersion_window": "2s"}
SURGE = {"kind": "surge", "peak": "12/s", "at": "2s", "rise": "1s", "hold": "2s", "fall": "1s"}
ARRIVALS = st.one_of(
    RATE.map(lambda r: {"kind": "poisson", "rate": r}),
    RATE.map(lambda r: {"kind": "constant", "rate": r}),
    RATE.map(lambda r: {**DISPERSED, "rate": r}),
    RATE.map(lambda r: {**SURGE, "base": r}),
    st.integers(1, 12).map(lambda n: {"kind": "closed", "callers": n}),
)
CHUNK = st.fixed_dictionaries(
    {"first": st.integers(1, 12), "steady": st.integers(5, 30)},
    optional={"ramp": st.lists(st.integers(2, 20), max_size=3)},
)
CODEC = st.fixed_dictionaries(
    {"chunk": CHUNK},
    optional={
        "left_context": st.integers(0, 25),
        "batch": st.fixed_dictionaries(
            {"cap": st.integers(2, 8)}, optional={"window": seconds(0, 0.02)}
        ),
        "workers": st.integers(1, 3),
        "queue": one({"kind": "fifo"}, {"kind": "edf"}, {"kind": "window", "streams": 2}),
        "on": one("same_gpu", "other_gpu"),
    },
)
ENGINE = st.fixed_dictionaries(
    {
        "kind": one("vllm_v1", "sglang", "trtllm_max_utilization", "decode_first"),
        "profile": st.just("small-profile.yaml"),
        "max_num_seqs": st.integers(2, 40),
        "kv_blocks": one(60, 200, 2000),
        "max_tokens": st.just(400),
    },
    optional={"max_num_batched_tokens": one(64, 512), "block_size": one(8, 16)},
)


def admission(most: int) -> st.SearchStrategy[dict[str, Any]]:
    """A policy; caps are within the engine's own limit."""
    cap = st.integers(1, min(most, 12))
    return st.one_of(
        st.just({"kind": "admit_all"}),
        st.builds(lambda n: {"kind": "cap", "streams": n}, cap),
        st.builds(
            lambda n, d: {"kind": "cap_queue", "streams": n, "deadline": d}, cap, seconds(0.1, 4)
        ),
        st.builds(lambda x: {"kind": "slack", "lead": x}, seconds(0, 0.5)),
    )


PLAYER = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"prebuffer": seconds(0.05, 1)}, optional={"rebuffer": seconds(0, 0.5)}),
)


@st.composite
def trees(draw: st.DrawFn, closed: bool = True, refuses: bool = True) -> dict[str, Any]:
    """The plain data of a scenario of 12 s and what it takes to drain.

    closed: may callers be a fixed number?  refuses: may an admission policy refuse?
    """
    arrivals = draw(ARRIVALS if closed else ARRIVALS.filter(lambda a: a["kind"] != "closed"))
    workload: dict[str, Any] = {
        "arrivals": arrivals,
        "utterance": {"audio": draw(law(0.5, 4)), "prompt_tokens": draw(st.integers(1, 200))},
    }
    several = draw(st.booleans())
    if arrivals["kind"] != "closed" and several:
        workload["utterances_per_session"] = draw(one(3, {"geometric": {"mean": 2}}))
    if arrivals["kind"] == "closed" or several:
        workload["think"] = draw(law(0.1, 2))
    if draw(st.booleans()):
        workload["patience"] = draw(law(0.3, 6))
    engine = draw(ENGINE)
    admits = draw(admission(engine["max_num_seqs"])) if refuses else {"kind": "admit_all"}
    if admits["kind"] != "admit_all" and draw(st.booleans()):
        then = {"then": "standby_voice"} if draw(st.booleans()) else {}
        retry = {"attempts": draw(st.integers(1, 3)), "backoff": draw(seconds(0.1, 2))}
        workload["refused"] = {"retry": retry, **then}
    replicas = draw(st.integers(1, 3))
    pool = {"on": "card", "replicas": replicas, "engine": engine, "codec": draw(CODEC)}
    return {
        "horizon": "12s", "warmup": draw(one("0s", "2s")), "drain": "5min",
        "seed": draw(st.integers(0, 2**40)),
        "workload": workload,
        "cluster": {"gpus": {"card": {"preset": "h100-sxm", "count": 8}}, "pools": {"tts": pool}},
        "listener": {
            "network": {"delay": draw(seconds(0, 0.1)), "jitter": draw(seconds(0, 0.03))},
            "player": draw(PLAYER),
        },
        "policies": {
            "admission": admits,
            "routing": draw(one("round_robin", "least_streams", "power_of_two").map(
                lambda kind: {"kind": kind})),
        },
    }  # fmt: skip


def scenario_of(folder: Path, tree: dict[str, Any], *sets: str) -> Scenario:
    """The scenario, read from a file as a user's is."""
    small.write(folder)
    path = folder / "drawn.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return load(path, sets=sets).variants["base"]
