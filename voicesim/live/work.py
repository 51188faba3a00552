"""What is asked: texts to speak or prompts to complete, the same for the same seed.

Lengths depend on the seed and the request's number only, so repeats of a run ask for the same;
prompt ids also on the run, so that no server answers from its prefix cache.
"""

from dataclasses import dataclass

import numpy as np

FIRST_ID = 10
"""Ids below are control tokens in most vocabularies (a guess that costs nothing)."""

TEXTS = (
    "Your call is important to us.",
    "The next train to the airport leaves from platform four at twenty past nine.",
    "I have found three appointments for you: Monday at ten, Tuesday at noon and Friday at four.",
    "Could you please spell your last name for me?",
    "Thank you. I have sent the confirmation to the address that we have on file.",
    "One moment while I look that up.",
    "The parcel was handed to a neighbour this morning, and it should be with you by tonight. "
    "If it is not, please call us again and we will send another one at no cost.",
    "Yes, that is possible.",
    "To change your booking say change, to cancel it say cancel, or stay on the line to speak to "
    "one of my colleagues.",
    "It will be sunny in the morning, with light rain from the west in the late afternoon and a "
    "chance of thunder near the coast.",
)
"""Composed for this project; a service desk's mix of short and long."""


@dataclass(frozen=True)
class Job:
    """One request: a text, or a prompt of token ids and how many tokens to make of it."""

    text: str | None = None
    prompt: list[int] | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Work:
    """texts: spoken in a random order.  prompt_tokens, tokens: least and most, drawn evenly.
    vocabulary: prompt ids stay below it."""

    seed: int = 1
    texts: tuple[str, ...] = TEXTS
    prompt_tokens: tuple[int, int] = (32, 32)
    tokens: tuple[int, int] = (200, 200)
    vocabulary: int = 1000

    def speech(self, run: int, number: int) -> Job:
        """The number-th request of a run."""
        rng = np.random.default_rng([self.seed, number])
        return Job(text=self.texts[int(rng.integers(len(self.texts)))])

    def completion(self, run: int, number: int) -> Job:
        """The number-th request of a run."""
        rng = np.random.default_rng([self.seed, number])
        prompt = int(rng.integers(*self.prompt_tokens, endpoint=True))
        tokens = int(rng.integers(*self.tokens, endpoint=True))
        ids = np.random.default_rng([self.seed, number, run]).integers(
            FIRST_ID, self.vocabulary, prompt
        )
        return Job(prompt=ids.tolist(), tokens=tokens)
