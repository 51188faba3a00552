"""What each tenant was promised, segment by segment, and what was spent."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from voicesim.metrics.dialogue_ledger import nanoseconds_of
from voicesim.metrics.dialogue_run import PARTS, Tenant
from voicesim.metrics.summary import Value, nearest_rank, share


def budgets(
    tenants: Sequence[Tenant], turns: pd.DataFrame, calls: pd.DataFrame
) -> dict[str, dict[str, Value]]:
    """By tenant: calls, turns and CLEAN shares by its own limits, and each allowance it has.

    offered, clean_share: calls.  turns, clean_turn_share: of all turns its callers brought.
    ttfa_p95_s: silence before the answer of the turns spoken.  For each part of the ledger with an
    allowance: PART_over_share, turns spoken that took longer or were never answered; PART_p95_s, of
    those answered; PART_spend, p95 / allowance.
    """
    found = {}
    for tenant in tenants:
        mine = turns[turns["tenant"] == tenant.name]
        own = calls[calls["tenant"] == tenant.name]
        spoken = mine[mine["spoken_s"].notna()]
        of: dict[str, Value] = {
            "offered": float(len(own)),
            "clean_share": share(own["clean"]),
            "turns": float(len(mine)),
            "clean_turn_share": share(mine["clean"]),
            "ttfa_p95_s": nearest_rank(spoken["waited_s"].to_numpy(), 0.95),
        }
        heard = spoken[spoken["total_s"].notna()]
        for part in (p for p in PARTS if p in tenant.budget):
            limit = round(tenant.budget[part].limit * 1e9)
            spent = nanoseconds_of(heard, part)
            within = int(np.count_nonzero(spent <= limit))
            p95 = nearest_rank(spent, 0.95)
            of[f"{part}_over_share"] = 1.0 - within / len(spoken) if len(spoken) else None
            of[f"{part}_p95_s"] = None if p95 is None else p95 / 1e9
            of[f"{part}_spend"] = p95 / limit if p95 is not None and limit else None
        found[tenant.name] = of
    return found
