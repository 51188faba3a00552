"""No call stays for ever: where memory is ample, every call of every world comes to an end."""

from dataclasses import replace

import pytest

from tests.session.worlds import random_dialogue
from voicesim.session import record as rec
from voicesim.session.reference import run_dialogue_reference


def ample(pools):
    """Pools that never wait for KV blocks."""
    return tuple(replace(pool, blocks=1 << 30) for pool in pools)


@pytest.mark.parametrize("seed", range(40))
def test_every_call_ends(seed):
    """False interruptions among them, noticed before and after the last chunk has left."""
    spec, tape = random_dialogue(seed, end=3000.0, resume=2.0)
    spec = replace(spec, llm=ample(spec.llm), tts=ample(spec.tts),
                   omni=spec.omni and ample([spec.omni])[0])  # fmt: skip
    record = run_dialogue_reference(spec, tape)
    assert (record.call_i[:, rec.Q_OUTCOME] != rec.PENDING).all()
