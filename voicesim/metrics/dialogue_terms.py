"""What a scenario says about a dialogue beside what kernel and reference read."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from voicesim.engine.transform import described
from voicesim.metrics.dialogue_run import Allowance, Stage, Tenant, Terms


def terms(scenario: Any) -> Terms:
    """Tenants with their budgets, stages with their cards, prices.

    A tenant's turn is CLEAN within its budget's total, without one within ``slo.start_within``.
    A semantic endpointer is late where it waits for its ``max``; the others have no such case.
    """
    ends = scenario.pipeline.endpointing
    return Terms(
        tuple(_tenants(scenario)),
        tuple(_stages(scenario)),
        ends.max if ends.kind == "semantic" else np.inf,
        (scenario.workload.reprompt.median, scenario.workload.reprompt.sigma),
        scenario.prices,
        tuple(_stated(scenario)),
    )


def _stated(scenario: Any) -> Iterator[str]:
    for name, pool in scenario.cluster.pools.items():
        if pool.role == "asr":
            if pool.asr.wer is not None:
                yield f"{name}: word error rate {pool.asr.wer:.2%}, as stated"
        elif pool.engine.transform is not None:
            yield f"{name}: {described(pool.engine.transform)}"


def _tenants(scenario: Any) -> Iterator[Tenant]:
    workload, slo = scenario.workload, scenario.slo
    names = [t.name for t in workload.tenants] or ["all"]
    for name, budget in zip(names, workload.budgets(), strict=True):
        if budget is None:
            yield Tenant(name, slo.start_within, slo.no_stall_over)
            continue
        parts = {n: Allowance(s.within, s.owner) for n, s in budget.segments.items()}
        parts["total"] = Allowance(budget.total)
        yield Tenant(name, budget.total, slo.no_stall_over, parts)


def _stages(scenario: Any) -> Iterator[Stage]:
    cluster = scenario.cluster
    number = 0
    for role in ("asr", "llm", "tts", "omni"):
        for name, pool in cluster.pools.items():
            if pool.role != role:
                continue
            price = cluster.gpus[pool.on].price_per_hour
            of_spec = -1 if role == "asr" else number
            number += role != "asr"
            wer = pool.asr.wer if role == "asr" else None
            yield Stage(name, role, of_spec, pool.on, cluster.cards_of(name), price, wer)
