"""What the next step of an engine costs (the arithmetic lives in engine/cost.py)."""

from voicesim.engine import cost
from voicesim.engine.kernel.jit import adopt, compiled, moved
from voicesim.engine.layout import H_MAXTOK, OF_COMPUTE

combine = adopt(cost.combine)
host_seconds = adopt(cost.host_seconds)
step_seconds = adopt(cost.step_seconds)
host_phase = adopt(cost.host_phase)
codec_seconds = adopt(cost.codec_seconds)
gpu_seconds = adopt(cost.gpu_seconds, combine=combine)


@compiled
def compute_at(F, I, c, tokens):
    """Compute seconds of a step of that many tokens; the table ends at the token budget."""
    last = I[c + H_MAXTOK]
    return F[I[c + OF_COMPUTE] + (tokens if tokens < last else last)]


@compiled
def predicted_step(F, I, c, k, tokens, streams, kv):
    """Seconds of a step without noise, as an admission policy would predict it."""
    cost = moved(F, k)  # type: ignore
    gpu = gpu_seconds(cost, compute_at(F, I, c, tokens), float(kv), float(kv))
    return step_seconds(cost, gpu, host_seconds(cost, float(streams), 0.0))
