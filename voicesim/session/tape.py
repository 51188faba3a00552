"""What callers bring to a run of dialogues, drawn before it starts."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class DialogueTape:
    """S calls, their T turns, R answers and N units of speech.

    Call k has the turns first[k]:first[k+1].  Turn u is answered by row ``answer[u]``; if a pause
    inside the speech is taken for its end, an answer to the half of it comes before,
    ``cut[u]`` (else -1).  Answer r is spoken in the units unit[r]:unit[r+1].
    """

    arrival: np.ndarray  #: float64[S], seconds, sorted, in [0, horizon)
    first: np.ndarray  #: int64[S+1]
    tenant: np.ndarray  #: int64[S]
    # turns
    think: np.ndarray  #: float64[T], pause before the caller speaks, s
    speech: np.ndarray  #: float64[T], the caller's speech (pause at a cut not included), s
    endpoint: np.ndarray  #: float64[T], from the end of speech, as heard, to the decision, s
    cut_at: np.ndarray  #: float64[T], speech before the pause that is taken for the end; inf
    cut_pause: np.ndarray  #: float64[T], how long that pause is, s
    cut_endpoint: np.ndarray  #: float64[T], from its beginning, as heard, to the wrong decision, s
    patience: np.ndarray  #: float64[T], silence after which the caller hangs up, s; inf
    barge: np.ndarray  #: float64[T], audible seconds of the answer until the caller interrupts; inf
    false_barge: np.ndarray  #: float64[T], the same until a noise is taken for that; inf
    answer: np.ndarray  #: int64[T], row of the answer
    cut: np.ndarray  #: int64[T], row of the answer to the half-heard turn, or -1
    # answers
    prompt: np.ndarray  #: int64[R], prompt tokens of the LLM, >= 1
    hit: np.ndarray  #: int64[R], of them found in its cache (no compute), < prompt
    reply: np.ndarray  #: int64[R], tokens of the reply, >= 1
    encode: np.ndarray  #: float64[R], GPU seconds of encoding images before the prefill
    llm: np.ndarray  #: int64[R], which LLM pool
    tts: np.ndarray  #: int64[R], which TTS pool
    omni: np.ndarray  #: int64[R], 1: the speech-to-speech pool answers
    omni_prompt: np.ndarray  #: int64[R], its prompt tokens
    omni_tokens: np.ndarray  #: int64[R], its decode steps
    unit: np.ndarray  #: int64[R+1]
    # units
    unit_end: np.ndarray  #: int64[N], reply tokens after which its text is complete, increasing
    unit_tokens: np.ndarray  #: int64[N], decode steps of the TTS engine, >= 1
    unit_prompt: np.ndarray  #: int64[N], its prompt tokens, >= 1
    unit_cached: np.ndarray  #: int64[N], 1: the audio is in the phrase cache
    clipped: int = 0  #: answers or units cut to an engine's max_tokens

    @property
    def calls(self) -> int:
        return len(self.arrival)

    @property
    def turns(self) -> int:
        return len(self.think)

    @property
    def answers(self) -> int:
        return len(self.prompt)

    @property
    def units(self) -> int:
        return len(self.unit_end)
