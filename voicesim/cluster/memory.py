"""Memory of a card when several engines start on it, as vLLM takes it.

An engine takes a fraction of the card's TOTAL memory and refuses to start when less than that is
free.  It loads its weights, runs a batch of dummies to find its peak, and what the fraction leaves
beside both is its KV cache.  It finds its own use by how much less of the card is free than when it
began, so whatever a neighbour takes in between is booked to it
(https://github.com/vllm-project/vllm/issues/55827); builds before
https://github.com/vllm-project/vllm/pull/18974 booked all that the neighbours held already.

A start lasts one unit of time here: weights come evenly over the first half, what else it needs is
there from the half on, the KV cache is taken at the end.  One after the other, nobody sees another
start; in parallel each sees all the others' weights and peaks; racing, they begin at drawn instants
within the unit, and who comes late also sees KV caches being taken.

Bytes throughout; GiB in messages.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

GIB = float(1 << 30)
STARTS = ("sequential", "parallel", "racing")


@dataclass(frozen=True)
class Engine:
    """An engine before it starts.

    share: of the card's memory, 0 to 1.  weights: bytes of them.  rest: bytes of activations,
    context and graphs, inside the share.  overshoot: bytes that it takes beyond the share (compile
    workspace; 15 GiB in https://github.com/vllm-project/vllm-omni/pull/4934).  per_token: bytes of
    KV cache of a token.  max_model_len: tokens of the longest request, which must fit; 0: any.
    of_free: the share is of what is free at its start, as in SGLang, not of the whole
    (https://github.com/sgl-project/sglang-omni/issues/1037).
    """

    name: str
    share: float
    weights: float
    rest: float
    overshoot: float = 0.0
    per_token: float = 0.0
    max_model_len: int = 0
    of_free: bool = False

    @property
    def own(self) -> float:
        """Bytes beside the KV cache that count towards the share."""
        return self.weights + self.rest

    @property
    def least(self) -> float:
        """Bytes of KV cache without which it does not start (more than 0 in any case)."""
        return self.per_token * self.max_model_len


@dataclass(frozen=True)
class Started:
    """An engine that runs: its KV cache, all that it holds, and what was booked to it of its
    neighbours' memory (bytes)."""

    name: str
    kv: float
    held: float
    booked: float


class DoesNotStartError(ValueError):
    """An engine that does not start: which, in its own words, how many GiB short, what would do."""

    def __init__(self, name: str, said: str, short: float, remedy: str):
        self.name, self.said, self.short, self.remedy = name, said, short, remedy
        super().__init__(f"{name} does not start: {said} ({short / GIB:.2f} GiB short); {remedy}")

    def __reduce__(self) -> tuple[type, tuple[str, str, float, str]]:
        """Survive the way back from a worker process."""
        return type(self), (self.name, self.said, self.short, self.remedy)


def start(
    total: float,
    engines: Sequence[Engine],
    how: str = "sequential",
    legacy: bool = False,
    instants: Sequence[float] = (),
) -> list[Started]:
    """Start engines on a card of ``total`` bytes, in their order; what each of them has then.

    how: one of STARTS.  legacy: the neighbours' memory at an engine's start is booked to it too.
    instants: when each begins if they race, in [0, 1).  Raises DoesNotStartError.
    """
    begins = {
        "sequential": [float(i) for i in range(len(engines))],
        "parallel": [0.0] * len(engines),
        "racing": list(instants),
    }[how]
    order = sorted(range(len(engines)), key=lambda i: begins[i])
    found: dict[int, Started] = {}

    def taken(i: int, t: float, ends: bool = False) -> float:
        """Bytes that the others hold at t (``ends``: t is the end of engine i's start)."""
        held = 0.0
        for j, each in enumerate(engines):
            if j == i:
                continue
            done = begins[j] + 1.0 < t or (begins[j] + 1.0 == t and not ends)
            held += found[j].held if done and j in found else _starting(each, t - begins[j])
        return held

    for i in order:
        engine, before = engines[i], taken(i, begins[i])
        booked = taken(i, begins[i] + 1.0, ends=True) - before
        if legacy:
            booked += before
        try:
            found[i] = _one(total, engine, before, booked)
        except DoesNotStartError as error:
            raise _with_remedy(error, total, engines, how, legacy) from None
    held = 0.0
    for i in order:
        held += found[i].held
        if held > total:
            raise _crowded(total, engines, [found[j] for j in order], found[i].name, held - total)
    return [found[i] for i in range(len(engines))]


def _starting(engine: Engine, age: float) -> float:
    """Bytes that an engine holds ``age`` after the beginning of its start, KV cache apart."""
    if age <= 0.0:
        return 0.0
    weights = engine.weights * min(1.0, 2.0 * age)
    return weights + (engine.rest + engine.overshoot if age > 0.5 else 0.0)


def _one(total: float, engine: Engine, before: float, booked: float) -> Started:
    """One engine's start; before: bytes taken already, booked: others' that are charged to it."""
    free = total - before
    asked = engine.share * (free if engine.of_free else total)
    if free < asked:
        said = (
            f"Free memory on device cuda:0 ({free / GIB:.2f}/{total / GIB:.2f} GiB) on startup is "
            f"less than desired GPU memory utilization ({engine.share:g}, {asked / GIB:.2f} GiB). "
            "Decrease GPU memory utilization or reduce GPU memory used by other processes."
        )
        raise DoesNotStartError(engine.name, said, asked - free, _shares_left(total, engine, free))
    kv = asked - engine.own - booked
    if kv <= 0.0:
        said = (
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` "
            "when initializing the engine."
        )
        raise DoesNotStartError(
            engine.name, said, engine.least - kv, _shares_up(total, engine, booked)
        )
    if kv < engine.least:
        said = (
            f"To serve at least one request with the model's max seq len ({engine.max_model_len}), "
            f"{engine.least / GIB:.2f} GiB KV cache is needed, which is larger than the available "
            f"KV cache memory ({kv / GIB:.2f} GiB). Based on the available memory, the estimated "
            f"maximum model length is {int(kv // engine.per_token)}."
        )
        raise DoesNotStartError(
            engine.name, said, engine.least - kv, _shares_up(total, engine, booked)
        )
    return Started(engine.name, kv, asked + engine.overshoot - booked, booked)


def _shares_left(total: float, engine: Engine, free: float) -> str:
    """What fits into the free memory."""
    share = math.floor(100.0 * max(free, 0.0) / total) / 100.0
    if share * total > engine.own + engine.least:
        return f"a share of {share:g} would start"
    need = (engine.own + engine.least) / GIB
    return f"no share would do: it needs more than {need:.2f} GiB; give its neighbours less"


def _shares_up(total: float, engine: Engine, booked: float) -> str:
    """The smallest share, in hundredths, with which it would start."""
    need = engine.own + engine.least + booked
    share = (math.floor(100.0 * need / total) + 1) / 100.0
    if share > 1.0:
        return f"no share would do: it needs more than {need / GIB:.2f} GiB of {total / GIB:.2f}"
    return f"it needs a share of at least {share:g}"


def _with_remedy(
    error: DoesNotStartError, total: float, engines: Sequence[Engine], how: str, legacy: bool
) -> DoesNotStartError:
    """Of starts that meet, what comes of them one after the other, if anything does."""
    if how == "sequential":
        return error
    try:
        alone = start(total, engines, "sequential", legacy)
    except DoesNotStartError:
        return error
    room = ", ".join(f"{each.name} {each.kv / GIB:.2f}" for each in alone)
    remedy = f"one after the other (start: sequential) they have GiB of KV cache: {room}"
    return DoesNotStartError(error.name, error.said, error.short, remedy)


def _crowded(
    total: float, engines: Sequence[Engine], held: Sequence[Started], name: str, short: float
) -> DoesNotStartError:
    """All have found room for a KV cache, but the card does not hold all of them."""
    said = f"CUDA out of memory: the engines hold {_list(held)} of {total / GIB:.2f} GiB"
    shares = sum(each.share for each in engines)
    over = sum(each.overshoot for each in engines) / GIB
    remedy = f"the shares add up to {shares:g}"
    remedy += f", and {over:.2f} GiB are taken beyond them" if over else ""
    return DoesNotStartError(name, said, short, f"{remedy}: give one of them less")


def _list(held: Sequence[Started]) -> str:
    return " + ".join(f"{each.held / GIB:.2f} ({each.name})" for each in held)
