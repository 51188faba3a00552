"""What data sheets say of a model on a card before anything is measured: ``gpu=NAME,model=NAME``.

The roofline: a step reads all weights and the KV cache of its streams once, and multiplies each
token with every (active) parameter::

    memory_s              = weights / (0.8 W)          W: bytes per second of the card's memory
    memory_per_kv_token_s = KV bytes per token / (0.8 W)
    compute_per_token_s   = 2 parameters / (0.5 P)     P: dense FLOP per second, bf16

Of a mixture of experts a token is multiplied with the active parameters only.  A step of T tokens
reads the experts that any of them chose: at random N (1 - (1 - k/N)^T) of N, k per token (of 128
with 8 each: 63 % for 15 tokens, 95 % for 47).  That is not modelled: memory_s is that of all
weights, too long for a small batch.

0.8 is the share of the data-sheet bandwidth that aiconfigurator (mem_bw_empirical_scaling_factor,
https://github.com/ai-dynamo/aiconfigurator) and InferSim use; of the FLOP, InferSim's default is
0.35 on an H800, 0.5 on a GB200 and 0.6 on an H20
(https://github.com/alibaba/InferSim/blob/main/hardware/gpu.py): 0.5, and the interval is theirs.
"""

from dataclasses import dataclass

from voicesim.catalogue import Gpu, Model, find_gpu, find_model
from voicesim.engine.profile import About, DecodeCost, FitReport, Memory, Profile, Quantity

BANDWIDTH_SHARE = 0.8
COMPUTE_SHARE, LEAST_SHARE, MOST_SHARE = 0.5, 0.35, 0.6

WARNING = (
    "nothing here was measured: a roofline from data sheets, which knows no host, no code "
    "predictor, no codec; real steps are longer, often several times"
)


@dataclass(frozen=True)
class Prior:
    """A model and, where given, the card that it runs on."""

    model: Model
    gpu: Gpu | None

    @property
    def about(self) -> About:
        """For the profile."""
        return About(model=self.model.name, gpu=self.gpu.name if self.gpu else None)

    @property
    def parameters(self) -> dict[str, Quantity]:
        """The terms that are known, by their names in a profile."""
        model, gpu = self.model, self.gpu
        out: dict[str, Quantity] = {}
        if gpu is not None and gpu.bytes_per_s:
            bytes_per_s = BANDWIDTH_SHARE * gpu.bytes_per_s
            if model.weights_bytes:
                out["memory_s"] = _prior(model.weights_bytes / bytes_per_s)
            if model.kv_bytes_per_token:
                out["memory_per_kv_token_s"] = _prior(model.kv_bytes_per_token / bytes_per_s)
        if gpu is not None and gpu.bf16 and model.active_parameters:
            flop_s = 2.0 * model.active_parameters / gpu.bf16
            out["compute_per_token_s"] = _prior(
                flop_s / COMPUTE_SHARE, flop_s / MOST_SHARE, flop_s / LEAST_SHARE
            )
        return out

    @property
    def memory(self) -> Memory | None:
        """What the model takes of the card; None if weights or KV are not published."""
        model = self.model
        if not (model.weights_bytes and model.kv_bytes_per_token):
            return None
        overhead = Quantity(value=float(model.overhead_bytes), origin="assumed")
        return Memory(
            weight_bytes=_prior(float(model.weights_bytes)),
            kv_bytes_per_token=_prior(float(model.kv_bytes_per_token)),
            overhead_bytes=overhead,
        )

    @property
    def notes(self) -> list[str]:
        """Where the prior comes from."""
        model = self.model
        found = [f"model {model.name}: {_origin(model)}"]
        if model.parameters and model.active_parameters != model.parameters:
            active = f"{(model.active_parameters or 0) / 1e9:g} of {model.parameters / 1e9:g}"
            found.append(
                f"model {model.name} is a mixture of experts: compute counts the {active} billion "
                "parameters that are active for a token; memory_s reads all weights in each step, "
                "which a batch of a few streams does not (its steps are shorter than this)"
            )
        if self.gpu is not None:
            found.append(f"card {self.gpu.name}: {_origin(self.gpu)}")
        return found


def read_prior(text: str) -> Prior:
    """``gpu=H100,model=qwen3-tts-1.7b``, either order; the card may be left out.

    Raises ValueError, one line.
    """
    given: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or key not in ("gpu", "model") or key in given or not value.strip():
            raise ValueError(f"--prior: found {text!r}; allowed: gpu=NAME,model=NAME")
        given[key] = value
    if "model" not in given:
        raise ValueError(f"--prior: found {text!r}; model=NAME is missing")
    try:
        gpu = find_gpu(given["gpu"]) if "gpu" in given else None
        return Prior(find_model(given["model"]), gpu)
    except ValueError as problem:
        raise ValueError(f"--prior: {problem}") from None


def roofline(prior: Prior, name: str, token_audio_s: float | None = None) -> Profile:
    """A profile without any measurement.  Raises ValueError where figures are missing for it."""
    known = prior.parameters
    gpu = prior.gpu
    if gpu is None:
        raise ValueError("--prior: gpu=NAME is missing; without files a roofline needs a card")
    if not (gpu.bytes_per_s and gpu.bf16):
        raise ValueError(f"--prior: gpu {gpu.name!r} has no bandwidth and FLOP in the catalogue")
    if not prior.model.parameters:
        raise ValueError(f"--prior: the size of model {prior.model.name!r} is not published")
    cannot = ["everything: no measurement was read"]
    if "memory_per_kv_token_s" not in known:
        cannot.append("memory_per_kv_token_s: layers and heads are not published; assumed 0")
    return Profile(
        name=name,
        about=prior.about,
        form="roofline",
        token_audio_s=token_audio_s or prior.model.token_audio_s,
        notes=[WARNING, *prior.notes],
        decode=DecodeCost(norm="inf").model_copy(update=known),
        memory=prior.memory,
        fit=FitReport(why="no measurement: data sheets only", unidentified=cannot),
    )


def _prior(value: float, low: float | None = None, high: float | None = None) -> Quantity:
    return Quantity(value=value, low=low, high=high, origin="prior")


def _origin(item: Model | Gpu) -> str:
    parts = (f"catalogue ({item.confidence})", item.source, item.note)
    return "; ".join(part for part in parts if part)
