"""The stages' own tapes: what each pool of a dialogue may be asked for, row by row."""

from typing import Any

import numpy as np

from voicesim.session.spec import DialogueSpec
from voicesim.session.tape import DialogueTape
from voicesim.workload.tape import Tape


def stage_tapes(spec: DialogueSpec, tape: DialogueTape) -> tuple[Tape, ...]:
    """One Tape for each of the spec's pools: its utterances are answers (LLM, omni) or units."""
    replies = _tape(
        tape.reply, tape.prompt, hit=tape.hit, encode=tape.encode, ends=(tape.unit, tape.unit_end)
    )
    speech = _tape(tape.unit_tokens, tape.unit_prompt)
    tapes = (replies,) * len(spec.llm) + (speech,) * len(spec.tts)
    if spec.omni is not None:
        tapes += (_tape(tape.omni_tokens, tape.omni_prompt),)
    return tapes


def _tape(tokens: np.ndarray, prompt: np.ndarray, **own: Any) -> Tape:
    n = len(tokens)
    return Tape(
        arrival=np.zeros(0),
        first=np.arange(n + 1),
        tokens=tokens,
        prompt=prompt,
        think=np.zeros(n),
        patience=np.full(n, np.inf),
        clipped=0,
        closed=False,
        callers=0,
        **own,
    )
