"""What the next step of an engine costs (the arithmetic lives in engine/cost.py)."""

from voicesim.engine import cost
from voicesim.engine.kernel.jit import adopt, compiled
from voicesim.engine.layout import H_MAXTOK, OF_COMPUTE

combine = adopt(cost.combine)
host_seconds = adopt(cost.host_seconds)
step_seconds = adopt(cost.step_seconds)
codec_seconds = adopt(cost.codec_seconds)
gpu_seconds = adopt(cost.gpu_seconds, combine=combine)


@compiled
def compute_at(F, I, tokens):
    """Compute seconds of a step of that many tokens; the table ends at the token budget."""
    last = I[H_MAXTOK]
    return F[I[OF_COMPUTE] + (tokens if tokens < last else last)]


@compiled
def predicted_step(F, I, tokens, streams, kv):
    """Seconds of a step without noise, as an admission policy would predict it."""
    gpu = gpu_seconds(F, compute_at(F, I, tokens), float(kv), float(kv))
    return step_seconds(F, gpu, host_seconds(F, float(streams), 0.0))
