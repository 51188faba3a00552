"""What other endpointing settings would have made of the turns of a dialogue."""

import numpy as np
import pandas as pd

from voicesim.metrics.summary import nearest_rank
from voicesim.scenario import Scenario
from voicesim.workload.dialogue import ends_under


def endpointing_shadows(
    scenario: Scenario, replication: int, turns: pd.DataFrame, arrival: np.ndarray
) -> dict[str, dict[str, dict[str, float]]]:
    """What other endpointers would have made of the turns that callers came to.

    turns: the dialogue's table, a row per planned turn; arrival: of the calls (s).  Of each shadow:
    turns, pauses taken for the end (false_ends), those that only it or only the endpointer in
    charge takes, the silence waited for at the end of a turn; ``..._now``: of that in charge.
    """
    w = scenario.dialogue
    rules = {n: e.endpointing for n, e in scenario.policies.shadow.items() if e.endpointing}
    if w is None or not rules:
        return {}
    counted = arrival[turns["call"].to_numpy()] >= scenario.warmup
    rows = np.flatnonzero(counted & (turns["outcome"] != "unspoken").to_numpy())
    when = scenario.horizon, scenario.seed, replication
    now = ends_under(scenario.pipeline.endpointing, w, *when)
    found = {}
    for name, rule in rules.items():
        then = ends_under(rule, w, *when)
        cuts = np.isfinite(then.cut_at)[rows], np.isfinite(now.cut_at)[rows]
        waits = then.endpoint[rows], now.endpoint[rows]
        found[name] = {
            "turns": float(len(rows)),
            "false_ends": float(cuts[0].sum()),
            "false_ends_now": float(cuts[1].sum()),
            "only_shadow": float((cuts[0] & ~cuts[1]).sum()),
            "only_now": float((cuts[1] & ~cuts[0]).sum()),
            "delay_mean_s": _mean(waits[0]),
            "delay_mean_now_s": _mean(waits[1]),
            "delay_p95_s": nearest_rank(waits[0], 0.95) or 0.0,
            "delay_p95_now_s": nearest_rank(waits[1], 0.95) or 0.0,
        }
    return {"shadow": found}


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
