"""A profile in words: parameters with intervals and origin, errors, and what is not known."""

from voicesim.engine.profile import DecodeCost, HeldOut, Point, Profile, Quantity


def describe(profile: Profile) -> str:
    """Text for a terminal; times in milliseconds (small ones in microseconds)."""
    lines = [f"profile {profile.name}: form {profile.form}"]
    alone = one_level(profile)
    if alone is not None:
        lines.append(f"  WARNING: {alone}")
    if profile.form == "roofline":
        lines.append(f"  WARNING: {profile.notes[0]}")
    if profile.fit:
        lines.append(f"  chosen because: {profile.fit.why}")
    lines += ["", f"  {'parameter':28s} {'value':>12s}  {'5 % to 95 %':>27s}  origin"]
    lines += [_row(name, q) for name, q in quantities(profile)]
    if profile.decode.table:
        lines.append("  table (tokens: ms, before KV): " + _table(profile.decode))
    lines.append(f"  norm {profile.decode.norm}, scheduling {profile.decode.scheduling}")
    if profile.noise:
        q = profile.noise.quantiles
        lines.append(
            f"  step noise (x of the mean): 5 % {q[5]:.2f}, median {q[50]:.2f}, "
            f"95 % {q[95]:.2f}, 99 % {q[99]:.2f}"
        )
    if profile.range:
        r = profile.range
        lines.append(
            f"  measured range: batch {r.batch[0]:g} to {r.batch[1]:g}, context "
            f"{r.context_tokens[0]:.0f} to {r.context_tokens[1]:.0f} tokens, prefill up to "
            f"{r.prefill_tokens[1]:g} tokens; beyond it everything is extrapolated"
        )
    lines += _fit_lines(profile)
    said = profile.notes[:1] if profile.form == "roofline" else []
    lines += [f"  note: {note}" for note in profile.notes if note != alone and note not in said]
    return "\n".join(lines) + "\n"


def one_level(profile: Profile) -> str | None:
    """What to say of a profile whose decode steps were measured at one batch only."""
    r = profile.range
    if r is None or r.batch[0] != r.batch[1]:
        return None
    rest = "the profile takes the same time at every batch"
    if profile.decode.compute_per_token_s.origin == "prior":
        rest = "what a stream adds is the data sheets', a prior"
    elif any(q.value for q in _growing(profile.decode)):
        rest = "what it adds per stream comes from prompts and contexts alone"
    return (
        f"decode was measured at batch {r.batch[0]:g} only, so the data cannot tell how the step "
        f"grows with the batch: {rest}; measure at least two"
    )


def _growing(decode: DecodeCost) -> list[Quantity]:
    return [decode.compute_per_token_s, decode.host_per_stream_s, decode.memory_per_kv_token_s]


def _fit_lines(profile: Profile) -> list[str]:
    fit = profile.fit
    if fit is None:
        return []
    lines: list[str] = []
    if fit.run_spread is not None:
        lines.append(f"  run-to-run spread of speed: {fit.run_spread:.0%} (standard deviation)")
    if fit.compared:
        text = ", ".join(f"{name} {error:.1%}" for name, error in fit.compared.items())
        lines.append(f"  mean held-out error: {text}")
    if fit.knee is not None:
        lines.append(f"  knee: {knee_words(fit.knee)}, where compute takes over from memory")
    lines += _levels("held out of the fit", fit.held_out)
    lines += _levels("measured points against the profile", fit.anchors)
    lines += _points(fit.points)
    if fit.unidentified:
        lines.append("  the data cannot tell:")
        lines += [f"    - {text}" for text in fit.unidentified]
    return lines


def knee_words(knee: Quantity) -> str:
    """Batch and interval of a knee."""
    if knee.low is None:
        return f"batch {knee.value:.0f} (no interval: too few runs and steps)"
    high = "unbounded" if knee.high is None else f"{knee.high:.0f}"
    return f"batch {knee.value:.0f} (5 % to 95 %: {knee.low:.0f} to {high})"


def _levels(title: str, levels: list[HeldOut]) -> list[str]:
    if not levels:
        return []
    lines = [f"  {title}:"]
    for h in levels:
        lines.append(
            f"    {h.level:40s} measured {in_ms(h.measured_s):>11s}  predicted "
            f"{in_ms(h.predicted_s):>11s}  {h.error:+7.1%}"
        )
    return lines


def _points(points: list[Point]) -> list[str]:
    if not points:
        return []
    lines = ["  measured figures against simulated runs (held out: of a fit without that load):"]
    for p in points:
        what = f"{p.run + ', ' if p.run else ''}{p.load:g}: {p.metric} {p.stat}"
        mark = "held out" if p.held_out else ""
        lines.append(
            f"    {what:34s} measured {p.measured:>9.4g}  predicted {p.predicted:>9.4g}  "
            f"{p.error:+7.1%}  {mark}".rstrip()
        )
    return lines


def quantities(profile: Profile) -> list[tuple[str, Quantity]]:
    """The parameters by name: of decode, codec and sharing."""
    out = []
    parts = [("", profile.decode), ("codec ", profile.codec), ("", profile.sharing)]
    for prefix, part in parts:
        for name in type(part).model_fields if part is not None else ():
            value = getattr(part, name)
            if isinstance(value, Quantity):
                out.append((prefix + name, value))
    if profile.request_s is not None:
        out.append(("request_s", profile.request_s))
    return out


def _row(name: str, q: Quantity) -> str:
    times = name.endswith("_s")
    show = in_ms if times else (lambda v: f"x {v:.3f}")
    interval = "" if q.low is None or q.high is None else f"{show(q.low)} to {show(q.high)}"
    return f"  {name:28s} {show(q.value):>12s}  {interval:>27s}  {q.origin}"


def in_ms(seconds: float) -> str:
    """A time in milliseconds, a small one in microseconds."""
    if seconds == 0:
        return "0"
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3f} us"


def _table(decode: DecodeCost) -> str:
    return ", ".join(f"{t:g}: {s * 1e3:.2f}" for t, s in decode.table or [])
