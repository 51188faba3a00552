"""A self-check on aggregates: in a closed loop latency x throughput is the concurrency (Little).

A public row that obeys it: Fun-CosyVoice3 at 8 in flight, 2.02 requests a second, 3.96 s each
(https://github.com/sgl-project/sglang-omni/blob/main/docs/cookbook/fun_cosyvoice3.md).
"""

import pandas as pd

APART = 0.15
"""Beyond this share the three figures are not those of one closed loop in steady state."""
SHOWN = 3


def not_closed(curve: pd.DataFrame) -> list[str]:
    """A line for each run whose mean latency x mean requests per second misses its concurrency by
    more than APART; none where a file does not have all three."""
    found = []
    means = curve[(curve["stat"] == "mean") & curve["concurrency"].notna()]
    for (run, _), rows in means.groupby(["run", "concurrency"], sort=False, dropna=False):
        level = float(rows["concurrency"].iloc[0])
        by = rows.groupby("metric")["value"].first()
        if not {"latency_s", "throughput_requests"} <= set(by.index) or not level > 0:
            continue
        latency, rate = by["latency_s"], by["throughput_requests"]
        off = latency * rate / level - 1
        if not abs(off) > APART:
            continue
        why = "a ramp-up or a tail counted in, an open loop, or callers who pause"
        if off > 0:
            why = "waiting outside the cap counted in"
        elif rows["rate_per_s"].notna().any():
            why = f"an open loop of {rows['rate_per_s'].dropna().iloc[0]:g} requests/s"
        side = f"{abs(off):.0%} {'above' if off > 0 else 'below'}"
        side = f"{off + 1:,.4g} times" if off > 1 else side
        found.append(
            f"run {run}: latency x throughput is {latency:,.4g} s x {rate:.4g}/s = "
            f"{latency * rate:,.4g}, {side} the concurrency of {level:g}: no closed "
            f"loop in steady state ({why}; or wrong units)"
        )
    more = [f"the same of {len(found) - SHOWN} more runs"] if len(found) > SHOWN else []
    return found[:SHOWN] + more
