"""Each key of a dialogue changes the run's numbers, its callers or its terms: no knob is idle."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
from pydantic import BaseModel

from tests import talk
from voicesim.metrics.dialogue_terms import terms
from voicesim.scenario import load
from voicesim.scenario.asr import Offline, Slots, Streaming, Windows
from voicesim.scenario.cluster import Transform
from voicesim.scenario.dialogue import Talk
from voicesim.scenario.pipeline import (
    DynamicEndpointing,
    FixedEndpointing,
    Pipeline,
    SemanticEndpointing,
)
from voicesim.session.build import dialogue_spec, dialogue_tape

IMAGES = (
    "workload.images={share: 0.5, count: 2, encode: 0.1s, tokens: 600, "
    "cache: {memory: 10GB, repeats: 0.5, distinct: 5000}}"
)
NEW, FILLER = "pipeline.client.connection=new", "pipeline.filler={after: 1s, audio: 1s}"
PHRASE = "pipeline.segmenter.unit=phrase"
DYNAMIC = "pipeline.endpointing={kind: dynamic, min: 0.2s}"
SEMANTIC = "pipeline.endpointing={kind: semantic}"
ASR = "cluster.pools.asr.asr={cost: {floor: 10ms}, kind: "
WINDOWS, OFFLINE = ASR + "windows}", ASR + "offline}"
SLOTS = "cluster.pools.asr.asr={kind: slots, slots: 9, step: 20ms}"
QUANTIZED = "cluster.pools.llm.engine.transform={weights: 0.9, offload: {share: 0.1, touched: 0.5, \
bytes_per_s: 20GB}}"
CASCADE = "pipeline.cascade={small: llm, large: small, small_share: 0.5}"
BUDGET = "workload.budget={total: 1s}"

KNOBS = {  # key: (other value, what must be set for it to mean something)
    "workload.turns": ("3",),
    "workload.speech": ("3s",),
    "workload.think": ("3s",),
    "workload.patience": ("3s",),
    "workload.pauses.share": ("0.9",),
    "workload.pauses.longest": ("1s",),
    "workload.reply.sentences": ("3",),
    "workload.reply.sentence": ("3s",),
    "workload.reply.sentence_tokens": ("9",),
    "workload.reply.tokens_per_second": ("5",),
    "workload.reply.tail.share": ("0.3",),
    "workload.reply.tail.least": ("9s",),
    "workload.reply.tail.alpha": ("3",),
    "workload.reply.tail.most": ("20s",),
    "workload.context.system": ("900",),
    "workload.context.per_turn": ("90",),
    "workload.context.speech_tokens_per_second": ("9",),
    "workload.barge_in.hazard": ("1/s",),
    "workload.barge_in.share": ("0.5",),
    "workload.barge_in.false": ("1/s",),
    "workload.barge_in.backchannel.hazard": ("1/s",),
    "workload.barge_in.backchannel.length": ("1s",),
    "workload.images.share": ("0.1", IMAGES),
    "workload.images.count": ("4", IMAGES),
    "workload.images.limit": ("1", IMAGES),
    "workload.images.tokens": ("300", IMAGES),
    "workload.images.encode": ("1s", IMAGES),
    "workload.images.cache.memory": ("20GB", IMAGES),
    "workload.images.cache.hidden": ("8192", IMAGES),
    "workload.images.cache.repeats": ("1", IMAGES),
    "workload.images.cache.distinct": ("9999", IMAGES),
    "workload.preset": ("companion",),
    "workload.reprompt.median": ("2s",),
    "workload.reprompt.sigma": ("1",),
    "workload.arrivals.rate": ("2/s",),
    "workload.tenants": ("[{name: a, share: 0.5}, {name: b, share: 0.5}]",),
    "workload.budget": ("{total: 500ms}",),
    "workload.budget.asr": ("{within: 0.1s, owner: x}", BUDGET),
    "pipeline.endpointing.silence": ("0.4s",),
    "pipeline.endpointing.min": ("0.4s", DYNAMIC),
    "pipeline.endpointing.max": ("0.4s", DYNAMIC),
    "pipeline.endpointing.weight": ("0.1", DYNAMIC),
    "pipeline.endpointing.min ": ("0.4s", SEMANTIC),
    "pipeline.endpointing.max ": ("0.4s", SEMANTIC),
    "pipeline.endpointing.false_cut_offs": ("0.5", SEMANTIC),
    "pipeline.endpointing.late": ("0.5", SEMANTIC),
    "pipeline.segmenter.unit": ("two_sentences",),
    "pipeline.segmenter.phrase": ("2s", PHRASE),
    "pipeline.segmenter.first": ("1s",),
    "pipeline.segmenter.later": ("9s",),
    "pipeline.segmenter.min_chars": ("90",),
    "pipeline.segmenter.lookahead": ("5",),
    "pipeline.prefetch": ("1",),
    "pipeline.ahead": ("1s",),
    "pipeline.voice_prompt": ("50",),
    "pipeline.core": ("50ms",),
    "pipeline.filler.after": ("2s", FILLER),
    "pipeline.filler.audio": ("2s", FILLER),
    "pipeline.filler.on_answer": ("cut", FILLER),
    "pipeline.barge_in.detect": ("0.1s",),
    "pipeline.barge_in.cancel": ("none",),
    "pipeline.barge_in.flush": ("false",),
    "pipeline.barge_in.resume": ("null",),
    "pipeline.client.consume": ("wait",),
    "pipeline.client.stages": ("serial",),
    "pipeline.client.connection": ("new",),
    "pipeline.client.round_trips": ("3", NEW),
    "pipeline.client.round_trip": ("3ms", NEW),
    "pipeline.client.read_chunk": ("1s",),
    "pipeline.client.sleep": ("1s",),
    "pipeline.client.resample": ("1s",),
    "pipeline.caches.phrases": ("0.5",),
    "pipeline.caches.history": ("0.5",),
    "pipeline.cascade.small": ("llm", "pipeline.cascade.large=small"),
    "pipeline.cascade.large": ("small", "pipeline.cascade.small=llm"),
    "pipeline.cascade.small_share": ("0.9",),
    "pipeline.cascade.first_turns": ("2", "pipeline.cascade.small_share=null"),
    "pipeline.omni.share": ("0.9",),
    "pipeline.omni.timeout": ("3s",),
    "pipeline.omni.speech_tokens_per_second": ("25",),
    "cluster.pools.asr.replicas": ("2",),
    "cluster.pools.asr.asr.chunk": ("1s",),
    "cluster.pools.asr.asr.right_context": ("1s",),
    "cluster.pools.asr.asr.cost.floor": ("1s",),
    "cluster.pools.asr.asr.cost.per_row": ("1s",),
    "cluster.pools.asr.asr.cost.per_audio": ("1s",),
    "cluster.pools.asr.asr.cap": ("9",),
    "cluster.pools.asr.asr.workers": ("2",),
    "cluster.pools.asr.asr.chunk ": ("2s", WINDOWS),
    "cluster.pools.asr.asr.window": ("9s", WINDOWS),
    "cluster.pools.asr.asr.cap ": ("9", WINDOWS),
    "cluster.pools.asr.asr.workers ": ("2", WINDOWS),
    "cluster.pools.asr.asr.cap  ": ("9", OFFLINE),
    "cluster.pools.asr.asr.workers  ": ("2", OFFLINE),
    "cluster.pools.asr.asr.accuracy": ("[{right_context: 0s, wer: 0.1}]",),
    "cluster.pools.asr.asr.wer": ("0.1", WINDOWS),
    "cluster.pools.asr.asr.wer ": ("0.1", SLOTS),
    "cluster.pools.asr.asr.wer  ": ("0.1", OFFLINE),
    "cluster.pools.asr.asr.slots": ("4", SLOTS),
    "cluster.pools.asr.asr.step": ("40ms", SLOTS),
    "cluster.pools.asr.asr.chunk  ": ("40ms", SLOTS),
    "cluster.pools.asr.asr.right_context ": ("1s", SLOTS),
    "cluster.pools.llm.engine.transform.weights": ("0.5", QUANTIZED),
    "cluster.pools.llm.engine.transform.kv": ("0.5", QUANTIZED),
    "cluster.pools.llm.engine.transform.compute": ("0.5", QUANTIZED),
    "cluster.pools.llm.engine.transform.quality.wer": ("0.01", QUANTIZED),
    "cluster.pools.llm.engine.transform.quality.mos": ("-0.1", QUANTIZED),
    "cluster.pools.llm.engine.transform.offload.share": ("0.5", QUANTIZED),
    "cluster.pools.llm.engine.transform.offload.touched": ("0.1", QUANTIZED),
    "cluster.pools.llm.engine.transform.offload.bytes_per_s": ("50GB", QUANTIZED),
    "cluster.pools.llm.engine.prefix_caching": ("false",),
    "cluster.pools.llm.engine.max_tokens": ("9",),
    "cluster.pools.tts.engine.max_tokens": ("9",),
    "listener.capture": ("1s",),
    "listener.network.delay": ("1s",),
    "listener.uplink": ("{delay: 1s}",),
    "listener.uplink.jitter": ("1s", "listener.uplink={delay: 1s}"),
    "policies.admission": ("{kind: cap, streams: 3}",),
    "policies.routing": ("{kind: power_of_two}",),
    "slo.start_within": ("2s",),
    "slo.no_stall_over": ("2s",),
}  # fmt: skip


def leaves(value):
    """All numbers of a spec, a tape or terms, in order."""
    if dataclasses.is_dataclass(value):
        return tuple(leaves(getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, tuple | list):
        return tuple(map(leaves, value))
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return tuple(value.items()) if isinstance(value, dict) else value


def numbers(path, sets):
    scenario = load(path, sets).variants["base"]
    parts = (dialogue_spec(scenario), dialogue_tape(scenario), terms(scenario))
    return leaves(parts)


@pytest.mark.parametrize("key", KNOBS)
def test_every_key_is_used(tmp_path, key):
    other, *sets = KNOBS[key]
    path = talk.write(tmp_path, talk.LARGE.replace("horizon: 5min", "horizon: 1min"))
    both = [] if ".cascade." in key else sets  # its keys are changed two at a time
    assert numbers(path, both) != numbers(path, [*sets, f"{key.strip()}={other}"])


def names(model, above):
    """The dotted paths of a mapping's keys down to the last."""
    for name, field in model.model_fields.items():
        inner = [each for each in _models(field.annotation) if each is not model]
        if len(inner) == 1 and name != "accuracy":
            yield from names(inner[0], f"{above}.{name}")
        elif len(inner) < 2:
            yield f"{above}.{name}"


def _models(kind):
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [model for part in get_args(kind) for model in _models(part)]


@pytest.mark.parametrize(
    ("model", "above"),
    [
        (Talk, "workload"),
        (Pipeline, "pipeline"),
        *((kind, "cluster.pools.asr.asr") for kind in (Streaming, Windows, Slots, Offline)),
        *(
            (kind, "pipeline.endpointing")
            for kind in (FixedEndpointing, DynamicEndpointing, SemanticEndpointing)
        ),
        (Transform, "cluster.pools.llm.engine.transform"),
    ],
)
def test_the_list_of_keys_is_whole(model, above):
    listed = {key.strip() for key in KNOBS}
    last = {name for name in names(model, above) if name.split(".")[-1] != "kind"}
    assert not last - listed
