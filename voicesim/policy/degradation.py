"""Degradation: what a stream gets at a rung of the ladder, and when a pool goes to another rung.

The order of the rungs that the field uses, least missed first: a larger first chunk, larger chunks
(fewer codec calls), fewer codebooks or flow steps (Kyutai serves ``n_q`` 24 of 32:
https://github.com/kyutai-labs/delayed-streams-modeling), a smaller model, no cloned voice (its
reference is encoded for each stream), shorter replies, text or a filler instead of speech, refusal.
``spoken`` and ``prompt_left`` are plain; the kernel compiles them, the reference calls them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SERVE, STAND_IN, REFUSE = range(3)
"""What becomes of who asks at a rung: served; text or a filler at once, no GPU; refused."""


def spoken(tokens, share):
    """Tokens of a reply of which that share is spoken; at least one."""
    return max(int(tokens * share), 1)


def prompt_left(prompt, fewer, prefix):
    """Prompt tokens without ``fewer`` of them; those that all prompts share stay, and one more."""
    return max(prompt - fewer, prefix + 1) if fewer > 0 else prompt


@dataclass(frozen=True)
class Trigger:
    """A signal and its two thresholds: up from ``above`` on, down at ``below`` or less."""

    signal: str
    above: float
    below: float


class Ladder:
    """Which rung a pool is at: the highest that a signal calls for, one rung at a time.

    triggers: of each rung above 0, any one of which is enough to climb to it; all of them must be
    at ``below`` or less for its ``hold`` seconds before the pool leaves it (two thresholds and a
    hold time against flapping, as Kubernetes' autoscaler has a stabilisation window:
    https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/).
    """

    def __init__(self, triggers: Sequence[Sequence[Trigger]], hold: Sequence[float]):
        self._triggers, self._hold = triggers, hold
        self.rung = 0
        self._calm_since: float | None = None

    def look(self, now: float, signals: Mapping[str, float]) -> int:
        """The rung after a look at the signals at ``now`` (s); a signal that is missing is calm."""

        def at(t: Trigger) -> float:
            return signals.get(t.signal, 0.0)

        up = self._triggers[self.rung] if self.rung < len(self._triggers) else ()
        if any(at(t) >= t.above for t in up):
            self.rung, self._calm_since = self.rung + 1, None
        elif self.rung > 0 and all(at(t) <= t.below for t in self._triggers[self.rung - 1]):
            self._calm_since = now if self._calm_since is None else self._calm_since
            if now - self._calm_since >= self._hold[self.rung - 1]:
                self.rung, self._calm_since = self.rung - 1, None
        else:
            self._calm_since = None
        return self.rung
