"""Kernel and reference on scenarios, with all kinds of stages: equal to the last bit."""

import numpy as np
import pytest

from tests import talk
from tests.session.worlds import differences
from voicesim.scenario import load
from voicesim.session.build import dialogue_spec, dialogue_tape
from voicesim.session.dialogue import Dialogue, record
from voicesim.session.reference import run_dialogue_reference

TIGHT = ["cluster.pools.llm.engine.kv_blocks=400", "cluster.pools.tts.engine.kv_blocks=200"]
ASR = "cluster.pools.asr.asr={cost: {floor: 30ms, per_audio: 20ms}, kind: "
SETTINGS = {
    "plain": [],
    "task": ["workload.preset=task", "pipeline.endpointing={kind: dynamic}"],
    "tight": [*TIGHT, "pipeline.voice_prompt=40", "cluster.pools.llm.engine.max_num_seqs=8"],
    "no prefixes": [*TIGHT, "cluster.pools.llm.engine.prefix_caching=false"],
    "phrases": ["pipeline.segmenter={unit: phrase, first: 800ms}", "pipeline.prefetch=1",
                "pipeline.caches={phrases: 0.3, history: 0.5}"],
    "client": ["pipeline.client={connection: new, read_chunk: 300ms, sleep: 100ms, resample: 4ms}",
               "pipeline.barge_in={cancel: next_chunk, flush: false, resume: null}"],
    "windows": [ASR + "windows}", "workload.barge_in.hazard=0.3/s"],
    "offline": [ASR + "offline}", "pipeline.endpointing={kind: semantic}"],
    "slots": ["cluster.pools.asr.asr={kind: slots, slots: 6, step: 30ms}"],
    "pictures": ["workload.images={share: 0.5, encode: 200ms, tokens: 300}",
                 "policies.admission={kind: cap, streams: 9}", "workload.patience=3s"],
}  # fmt: skip


@pytest.mark.parametrize("text", [talk.SCENARIO, talk.LARGE], ids=["stages", "large"])
@pytest.mark.parametrize("name", SETTINGS)
def test_equal(tmp_path, text, name):
    short = text.replace("horizon: 5min", "horizon: 15s").replace("warmup: 30s", "warmup: 2s")
    sets = [*SETTINGS[name], "drain=20s"]
    if text is talk.LARGE:  # there two models share the answers
        sets += [each.replace("pools.llm", "pools.small") for each in SETTINGS[name]]
    scenario = load(talk.write(tmp_path, short), sets).variants["base"]
    spec, tape = dialogue_spec(scenario), dialogue_tape(scenario)
    dialogue = Dialogue(spec, tape)
    dialogue.advance(spec.end)
    run = record(dialogue)
    assert differences(run, run_dialogue_reference(spec, tape)) == []
    assert np.isfinite(run.now) and (run.answer_f[:, 9] > 0).sum() > 5  # some were heard
