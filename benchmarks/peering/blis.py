"""A recorded run of BLIS (https://github.com/inference-sim/inference-sim), played by voicesim.

BLIS is a Go program; no binary of it could be had when this was written, and an adapter that never
ran would be a guess.  Its repository keeps runs with all their settings, though.  RECORDED is one:
testdata/goldendataset.json at 2c29fda609d7ca2e02658b9f5d9c30c82b128758, the last entry, with the
law of its ``blackbox`` model: a step takes beta0 + beta1 * (prompt tokens not cached) + beta2 *
(streams that decode) microseconds.  It is the entry whose alpha2 (a delay of every token that the
engine does not wait for, which voicesim has no name for) is 0.  alpha0 is time before the queue.
Requests come evenly spaced, as its ``distribution`` workload has them at a rate.
"""

import numpy as np

RECORDED = {
    "rate": 10.0,
    "requests": 500,
    "prefix": 284,
    "prompt": (70.0, 35.0, 2, 200),  # mean, deviation, least, most
    "output": (215.0, 80.0, 1, 512),
    "max_num_seqs": 256,
    "budget": 2048,
    "blocks": 2537,
    "block_size": 16,
    "alpha_us": (13450.510995636703, 0.041813767451373045, 0.0),
    "beta_us": (26595.2781995357, 96.28441960829817, 56.58626882402723),
    "metrics": {
        "completed_requests": 500,
        "total_input_tokens": 177729,
        "total_output_tokens": 106904,
        "vllm_estimated_duration_s": 60.291181,
        "responses_per_sec": 8.293086844658093,
        "tokens_per_sec": 1773.1283120826577,
        "e2e_mean_ms": 7070.7468859999999,
        "e2e_p99_ms": 13903.156639999999,
        "ttft_mean_ms": 66.844266,
        "ttft_p99_ms": 84.44441,
        "itl_mean_ms": 32.75790718775724,
    },
}
SEEDS = 20


def parse(metrics: dict) -> dict[str, float]:
    """Figures (s) from the JSON that BLIS prints; it has no medians of latencies."""
    return {
        "requests_per_s": float(metrics["responses_per_sec"]),
        "tokens_per_s": float(metrics["tokens_per_sec"]),
        "ttft_mean_s": metrics["ttft_mean_ms"] / 1000.0,
        "ttft_p99_s": metrics["ttft_p99_ms"] / 1000.0,
        "itl_s": metrics["itl_mean_ms"] / 1000.0,
        "e2e_mean_s": metrics["e2e_mean_ms"] / 1000.0,
        "e2e_p99_s": metrics["e2e_p99_ms"] / 1000.0,
    }


def lengths(law: tuple, n: int, rng: np.random.Generator) -> np.ndarray:
    """Normal lengths cut to a range, whole tokens."""
    mean, deviation, least, most = law
    return np.clip(rng.normal(mean, deviation, n), least, most).astype(np.int64)


def ours(seed: int, run: dict = RECORDED) -> dict[str, float]:
    """The same settings and laws in voicesim, other draws; figures by the names of ``parse``.

    A request of m tokens takes BLIS m steps after that of its prompt (its latencies are one step
    longer than first token and gaps make), voicesim m - 1: it is played with a token more here.
    """
    from peering.ours import WHOLE, play, rows
    from voicesim.engine import layout as at
    from voicesim.engine.spec import PoolSpec
    from voicesim.workload.tape import Tape

    rng = np.random.default_rng(seed)
    n = run["requests"]
    asked = np.arange(1, n + 1) / run["rate"]
    prompt = run["prefix"] + lengths(run["prompt"], n, rng)
    tokens = lengths(run["output"], n, rng)
    before = 1e-6 * (run["alpha_us"][0] + run["alpha_us"][1] * prompt)  # rises by microseconds
    tape = Tape(
        asked + before, np.arange(n + 1), tokens + 1, prompt, np.zeros(n),
        np.full(n, np.inf), 0, False, 0,
    )  # fmt: skip
    last = float(asked[-1])
    spec = PoolSpec(
        engines=1,
        step=step_cost(run["beta_us"], run["budget"]),
        schedule=(1, WHOLE),
        max_num_seqs=run["max_num_seqs"],
        budget=run["budget"],
        blocks=run["blocks"],
        block_size=run["block_size"],
        prefix=run["prefix"],
        token_audio=1e-12,
        horizon=last,
        end=last + 600.0,
    )
    ints, floats, _ = rows(play(spec, tape))
    assert (ints[:, at.R_OUTCOME] == at.COMPLETED).all()
    first, done = floats[:, at.Z_START], floats[:, at.Z_DONE]
    return {
        "requests_per_s": n / float(done.max()),
        "tokens_per_s": float(tokens.sum()) / float(done.max()),
        "ttft_mean_s": float((first - asked).mean()),
        "ttft_p99_s": float(np.percentile(first - asked, 99)),
        "itl_s": float((done - first).sum() / tokens.sum()),
        "e2e_mean_s": float((done - asked).mean()),
        "e2e_p99_s": float(np.percentile(done - asked, 99)),
    }


def step_cost(beta_us: tuple, budget: int):
    """Its law: beta1 for every token of a step, and what a decoding stream costs less as host time.

    A stream at its prompt is counted with the others there: beta2 - beta1 too much, 0.1 % of the
    step that it is in.
    """
    from voicesim.engine import cost

    fixed, per_prompt_token, per_stream = (1e-6 * beta for beta in beta_us)
    params = np.zeros(cost.N_STEP_PARAMS)
    params[cost.NORM] = 1.0
    params[cost.HOST] = fixed
    params[cost.HOST_PER_STREAM] = per_stream - per_prompt_token
    return cost.StepCost(params, per_prompt_token * np.arange(budget + 1))


def run(seeds: int = SEEDS) -> dict[str, list[float]]:
    """By figure: recorded, and mean, least and most of voicesim's runs."""
    recorded = parse(RECORDED["metrics"])
    played = [ours(seed) for seed in range(seeds)]
    found = {}
    for name, value in recorded.items():
        values = [one[name] for one in played]
        found[name] = [value, float(np.mean(values)), min(values), max(values)]
    return found
