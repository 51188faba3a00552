"""vllm-sr-sim, the fleet simulator of vLLM's semantic router, on the shared work.

https://github.com/vllm-project/semantic-router/tree/main/src/fleet-sim

It plays requests, not steps: all times of a request are set when it gets a slot, from the streams
that hold one then, and a slot is free again after 1 / slots of the time that the request would take
beside a full engine.  So the streams it counts are far fewer than live, and it takes many times
what the law allows before anything waits.
"""

import numpy as np

from peering.answers import Served, answers
from peering.meter import measure
from peering.work import Law, Work


class Profile:
    """Its interface for a GPU (fleet_sim.gpu_profiles.protocol), with the law whatever the lengths.

    chunk: prompt tokens of an iteration, so that each prompt takes one.
    """

    name = "shared law"
    cost_per_hr = 0.0
    chunk = 8192
    blk_size = 16
    total_kv_blks = 200_000

    def __init__(self, law: Law, most: int):
        self.law, self.most = law, most

    def iter_latency(self, n_active, mean_seq_len=None):
        return self.law.step_s(n_active)

    def prefill_iter_latency(self, chunk_tokens, kv_history_tokens, n_active, mean_seq_len=None):
        return self.law.step_s(n_active)

    def n_slots(self, max_ctx):
        return self.most

    def service_time(self, l_in, l_out, max_ctx):
        return (1 + l_out) * self.law.step_s(self.most)

    def throughput(self, max_ctx, mean_l_in, mean_l_out):
        return self.most / self.service_time(mean_l_in, mean_l_out, max_ctx)


def run(work: Work) -> dict[str, float]:
    """Figures of a fleet of one pool of one GPU."""
    from fleet_sim.core.fleet import Fleet, FleetConfig, PoolConfig
    from fleet_sim.core.request import Request

    most = int(work.prompt.max() + work.tokens.max())
    pool = PoolConfig("all", Profile(work.law, work.most), n_gpus=1, max_ctx=most)
    columns = (work.arrival.tolist(), work.prompt.tolist(), work.tokens.tolist())

    def play():
        asked = [
            (at, Request(number, at, prompt, tokens))
            for number, (at, prompt, tokens) in enumerate(zip(*columns, strict=True))
        ]
        return Fleet(FleetConfig([pool], router_type="LeastLoadedRouter")).run(asked)

    found = measure(play, 5)
    completed = play().completed
    assert len(completed) == len(work.arrival)
    return found | answers(served(completed))


def served(requests) -> Served:
    """Its requests; the physical end is that of the last token, end_time frees the slot."""

    def column(key: str) -> np.ndarray:
        return np.array([getattr(request, key) for request in requests], float)

    return Served(
        asked=column("arrival_time"),
        first=column("first_token_time"),
        last=column("physical_end_time"),
        tokens=column("l_out"),
    )
