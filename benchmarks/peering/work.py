"""The work that every peer is given: text requests, and what a step of the engine takes."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

RATE, PROMPT, SHORTEST, LONGEST = 40.0, 50, 100, 400  # requests/s, tokens


@dataclass(frozen=True)
class Law:
    """A step takes fixed_s + per_stream_s for each stream in it, at its prompt or at a token (s).

    The one form that all peers can be given: a prompt costs what a token costs, context nothing.
    """

    fixed_s: float = 0.004
    per_stream_s: float = 6e-5

    def step_s(self, streams: float) -> float:
        """Seconds of a step of so many streams."""
        return self.fixed_s + self.per_stream_s * streams

    def live(self, rate: float, tokens: float) -> float:
        """Mean number of streams in a stable engine, for Poisson requests (per second).

        Processor sharing whose speed depends on the batch: a negative binomial law, whatever that
        of the lengths (tests/oracles/test_processor_sharing.py).  ``tokens``: mean steps a stream
        stays; one that joins at the end of a step waits for half of one more.
        """
        busy = rate * tokens * self.per_stream_s
        return rate * tokens * self.step_s(1) / (1.0 - busy)


@dataclass(frozen=True)
class Work:
    """One request a row: arrival (s), prompt and tokens to write; one engine of ``most`` slots."""

    arrival: np.ndarray
    prompt: np.ndarray
    tokens: np.ndarray
    law: Law = field(default_factory=Law)
    most: int = 256

    @property
    def capacity(self) -> float:
        """Requests per second that the engine finishes with every slot taken."""
        return self.most / (self.law.step_s(self.most) * float(self.tokens.mean()))

    def write(self, path: Path) -> None:
        """As a Mooncake trace (https://github.com/kvcache-ai/Mooncake): no two prompts alike."""
        columns = zip(
            self.arrival.tolist(), self.prompt.tolist(), self.tokens.tolist(), strict=True
        )
        with path.open("w", encoding="utf-8") as file:
            for number, (arrival, prompt, tokens) in enumerate(columns):
                row = {
                    "timestamp": 1000.0 * arrival,
                    "input_length": prompt,
                    "output_length": tokens,
                    "hash_ids": [number],
                }
                file.write(json.dumps(row) + "\n")


def shared(requests: int, seed: int = 1, rate: float = RATE) -> Work:
    """Poisson requests of 50 prompt tokens and 100 to 400 tokens to write, uniform."""
    rng = np.random.default_rng(seed)
    return Work(
        arrival=np.cumsum(rng.exponential(1.0 / rate, requests)),
        prompt=np.full(requests, PROMPT),
        tokens=rng.integers(SHORTEST, LONGEST + 1, requests),
    )
