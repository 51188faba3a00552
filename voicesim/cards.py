"""What a shared card makes of a pool's numbers: its neighbours, and what a slice is worth."""

from dataclasses import replace
from typing import Any

from voicesim.engine import cost
from voicesim.engine.card import MPS, TIME_SLICED
from voicesim.engine.cost import StepCost
from voicesim.engine.spec import OnCard
from voicesim.scenario import Scenario
from voicesim.scenario.share import EIGHTHS, Member, Share

APART = 1 << 20
"""Numbers of cards from here on have one engine each: its slice."""


def shared(scenario: Scenario, name: str, numbers: dict[str, Any]) -> dict[str, Any]:
    """A pool's numbers, by the names of PoolSpec, where its engines stand on shared cards."""
    cluster = scenario.whole
    share = cluster.share_of(name)
    if share is None:
        return numbers
    member = share.pools[name]
    stretch = 1.0 if share.cores is None else max(1.0, share.engines / share.cores)
    if share.mode == "mig":
        number = APART + list(cluster.pools).index(name)
        return _sliced(numbers, member, OnCard(number, MPS, host_stretch=stretch))
    sm = 1.0 if member.sm is None else member.sm
    on_card = OnCard(
        cluster.share.index(share),
        TIME_SLICED if share.mode == "time_sliced" else MPS,
        member.per_card,
        (share.quantum + share.switch) / share.quantum,
        sm,
        sm if member.bandwidth is None else member.bandwidth,
        member.host,
        1.0 - member.host,
        stretch,
    )
    return numbers | {"on_card": on_card}


def _sliced(numbers: dict[str, Any], member: Member, on_card: OnCard) -> dict[str, Any]:
    """A slice has so many eighths of the bandwidth and sevenths of the SMs.

    The host's part of a step, stated as a share of what it takes on the whole card, stays as long:
    that of a step bound by bandwidth, as decoding is, exactly.
    """
    slices = member.slices or 7
    eighths, sevenths = EIGHTHS[slices] / 8.0, slices / 7.0
    step, codec = numbers["step"], numbers["codec"]
    params = step.params.copy()
    params[[cost.MEMORY, cost.MEMORY_PER_KV]] /= eighths
    params[cost.ATTENTION] /= sevenths
    return numbers | {
        "step": StepCost(params, step.compute_s / sevenths),
        "codec": codec and replace(codec, cost=codec.cost / sevenths),
        "on_card": replace(on_card, host_share=member.host * eighths, gpu_share=1.0 - member.host),
    }


def said(share: Share) -> str:
    """For the report: how the engines of a card share it."""
    if share.mode == "time_sliced":
        text = "one process on the GPU at a time"
        if share.switch:
            text += f", {1e3 * share.switch:g} ms lost after every {1e3 * share.quantum:g} ms"
    elif share.mode == "mps":
        asks = []
        for name, m in share.pools.items():
            sm = 1.0 if m.sm is None else m.sm
            bandwidth = sm if m.bandwidth is None else m.bandwidth
            asks.append(f"{name} {sm:g} of the SMs and {bandwidth:g} of the bandwidth")
        text = "under MPS at the pace that what they ask for together leaves: " + ", ".join(asks)
    else:
        asks = [
            f"{n} {m.slices}/7 of the SMs, {EIGHTHS[m.slices or 7]}/8 of the memory and bandwidth"
            for n, m in share.pools.items()
        ]
        text = "in slices of their own: " + ", ".join(asks)
    host = ", ".join(f"{n} {m.host:g}" for n, m in share.pools.items() if m.host)
    if host:
        text += f"; of a step's GPU time by the profile the host has {host}"
    if share.cores is not None:
        text += f"; {share.engines} processes on {share.cores} cores"
    return text
