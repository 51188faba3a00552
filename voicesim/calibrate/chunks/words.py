"""What was learned of a chunk timeline, for a terminal and as YAML that a scenario can copy."""

import numpy as np

from voicesim.calibrate.chunks.demand import Demand
from voicesim.calibrate.chunks.learn import Learned
from voicesim.engine.profile import Quantity


def statement(found: Learned) -> str:
    """Text: each number with its interval (5 % to 95 %) and origin, then what cannot be told."""
    c = found.cadence
    sizes = ", ".join(map(str, c.sizes))
    kept = f"{c.follow:.0%} of {c.streams} streams keep to it ({c.low:.0%} to {c.high:.0%})"
    last = "the last repeats" if not c.whole else "no stream is longer"
    lines = [
        f"{found.file}: chunks at the client, frames of {found.token_audio_s * 1e3:g} ms",
        f"  chunk schedule (frames): {sizes}; {last}; {kept}",
        *_costs(found),
        *_batches(found),
        *(f"  requests of {d.run}: {_demand(d)}" for d in found.demands),
    ]
    if found.cannot:
        lines.append("  this file cannot tell:")
        lines += [f"    - {text}" for text in found.cannot]
    return "\n".join(lines) + "\n"


def _costs(found: Learned) -> list[str]:
    out = []
    if found.steps is not None:
        batch = found.steps["batch"]
        low, high = batch.min(), batch.max()
        out.append(f"  decode: {len(batch)} mean steps at {low:g} to {high:g} streams, in the fit")
    beside = "" if found.jitter_batch < 1.1 else f" (at {found.jitter_batch:.1f} streams: at most)"
    codec, batches = found.codec, found.batches
    rows: list[tuple[str, Quantity | None, str]] = [
        ("prefill per prompt token", found.prefill, ""),
        ("codec floor", None if codec is None else codec.floor_s, ""),
        ("codec gather window", None if batches is None else batches.window, ""),
        ("codec per row", None if codec is None else codec.per_row_s, ""),
        ("codec per frame", None if codec is None else codec.per_frame_s, ""),
        ("first chunk, unexplained", found.overhead, ""),
        ("network jitter, mean", found.jitter, beside),
    ]
    return out + [f"  {name:26s} {_ms(q)}{after}" for name, q, after in rows if q is not None]


def _batches(found: Learned) -> list[str]:
    b = found.batches
    if b is None:
        return []
    mean = float(np.arange(1, len(b.rows) + 1) @ b.rows)
    lines = [
        f"  chunks of one codec batch (or step) come within {b.apart_s * 1e3:.2g} ms: "
        f"{b.rows[0]:.0%} come alone, {mean:.1f} together around a chunk on average, "
        f"{len(b.rows)} at most"
    ]
    if b.cost is not None:
        busy = ", ".join(f"{run} {share:.0%}" for run, share in b.busy.items())
        lines.append(f"  codec busy: {busy} ({b.pairs} batches back to back)")
    elif b.spacing_s is not None:
        lines.append(
            f"  codec floor, row and gather window together: at most {b.spacing_s * 1e3:.2f} ms"
        )
    return lines


def _demand(d: Demand) -> str:
    if d.kind == "unknown":
        return f"{d.requests}, too few to say how they came"
    if d.kind == "closed":
        return f"closed loop, {d.callers} in flight (variance / mean {d.spread:.2f})"
    assert d.rate is not None
    text = f"open, {d.rate.value:.3g}/s ({d.rate.low:.3g} to {d.rate.high:.3g})"
    q = d.dispersion
    if q is not None:
        text += f", dispersion {q.value:.2g} in {d.window_s:.3g} s ({q.low:.2g} to {q.high:.2g})"
    return text


def _ms(q: Quantity) -> str:
    low, high = q.low, q.high
    between = "" if low is None or high is None else f"({low * 1e3:.4g} to {high * 1e3:.4g})"
    return f"{q.value * 1e3:9.4g} ms  {between:22s} {q.origin}"


def snippet(found: Learned) -> str:
    """YAML of the scenario keys that the file gives, to be copied; what it cannot is left out."""
    c = found.cadence
    ramp = f"ramp: [{', '.join(map(str, c.sizes[1:-1]))}], " if len(c.sizes) > 2 else ""
    chunk = f"{{first: {c.sizes[0]}, {ramp}steady: {c.steady}}}"
    lines = ["# cluster.pools.NAME", "codec:", f"  chunk: {chunk}"]
    b = found.batches
    if b is not None and b.cost is not None:
        wait = f", window: {b.window.value * 1e3:.3g}ms" if b.window is not None else ""
        lines.append(f"  batch: {{cap: {len(b.rows)}{wait}}}  # the largest seen; it may be more")
    if found.delay is not None:
        jitter = found.jitter
        seen = jitter is not None and (jitter.low or 0.0) > 0
        late = f", jitter: {jitter.value * 1e3:.3g}ms" if seen and jitter else ""
        lines += ["listener:", f"  network: {{delay: {found.delay.value * 1e3:.3g}ms{late}}}"]
    arrivals = _arrivals(found.demands)
    if arrivals:
        lines += ["workload:", f"  arrivals: {arrivals}"]
    return "\n".join(lines) + "\n"


def _arrivals(demands: list[Demand]) -> str | None:
    """Of the open run with most requests; if all loops are closed, of the largest."""
    told = [d for d in demands if d.kind != "unknown"]
    if not told:
        return None
    d = max(told, key=lambda d: (d.kind == "open", d.requests if d.kind == "open" else d.callers))
    if d.kind == "closed":
        return f"{{kind: closed, callers: {d.callers}}}  # {d.run}"
    assert d.rate is not None
    rate, q = f"rate: {d.rate.value:.4g}/s", d.dispersion
    if q is None or q.low is None or q.high is None or q.low <= 1.0 <= q.high:
        return f"{{kind: poisson, {rate}}}  # {d.run}"
    if q.high < 1.0:
        return f"{{kind: constant, {rate}}}  # {d.run}, more even than Poisson"
    spread = f"dispersion: {q.value:.3g}, dispersion_window: {d.window_s:.3g}s"
    return f"{{kind: gamma, {rate}, {spread}}}  # {d.run}"
