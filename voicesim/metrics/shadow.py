"""Where shadow policies would have decided otherwise, and how the calls went."""

import numpy as np
import pandas as pd

from voicesim.policy.admission import ADMIT, QUEUE, REFUSE
from voicesim.simulation import Run

OTHERWISE = ("would_refuse", "would_admit", "would_queue", "elsewhere")


def otherwise(table: pd.DataFrame) -> np.ndarray:
    """int64[n]: -1 agrees, else the place in ``OTHERWISE``: it would have refused who was let in or
    queued, let in who was refused or queued, queued who was not, sent them to another replica."""
    did, would = table["did"].to_numpy(), table["would"].to_numpy()
    moved = (table["replica"] != table["would_replica"]).to_numpy() & (did == ADMIT)
    found = np.full(len(table), -1)
    found[(would == did) & moved] = 3
    for i, action in enumerate((REFUSE, ADMIT, QUEUE)):
        found[(would == action) & (did != action)] = i
    return found


def shadow_metrics(run: Run, streams: pd.DataFrame) -> dict[str, dict[str, dict[str, float]]]:
    """Of each shadow: requests, the share on which it agrees, counts of ``OTHERWISE``, and of those
    whom it would have refused how many went well all the same, and how many did not.

    streams: those that count (as in voicesim.metrics.tables).  Well: completed, started within
    slo.start_within, no stall over slo.no_stall_over.
    """
    if not run.shadows:
        return {}
    slo = run.scenario.slo
    wait = streams["started_s"] - streams["requested_s"]
    well = (streams["outcome"] == "completed") & (wait <= slo.start_within)
    well &= ~(streams["stall_largest_s"] > slo.no_stall_over)
    known = pd.DataFrame(
        {"session": streams["session"], "utterance": streams["utterance"], "well": well}
    )
    found = {}
    for name, table in run.shadows.items():
        rows = table.merge(known, on=["session", "utterance"])
        kind = otherwise(rows)
        refused = rows["well"].to_numpy()[kind == 0]
        found[name] = {
            "requests": float(len(rows)),
            **{what: float((kind == i).sum()) for i, what in enumerate(OTHERWISE)},
            "refuse_well": float(refused.sum()),
            "refuse_badly": float((~refused).sum()),
        }
    return {"shadow": found} if found else {}
