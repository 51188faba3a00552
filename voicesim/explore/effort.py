"""What a run costs to play, as a share of what a move may, and how long one of its calls is."""

from typing import Any

from voicesim.scenario import Scenario
from voicesim.scenario.dialogue import Dialogue

AUDIO = 700_000.0
"""Seconds of speech that the callers of a short play are expected to ask for: what one core plays
in about half a second (``benchmarks/explore.py``)."""
TURNS = 15_000.0
"""Turns of whole calls that cost about as much, all their stages together."""
TOKEN = 0.08
"""Seconds of speech of a decode step, where only the profile knows them."""


def effort(scenario: Scenario) -> float:
    """The whole run: 1 is what a move may cost.  Several pools are played in parallel."""
    if scenario.dialogue is not None:
        return turns(scenario.dialogue, scenario.horizon) / TURNS
    return speech(scenario) / (AUDIO * min(len(scenario.cluster.pools), 2))


def turns(load: Dialogue, horizon: float) -> float:
    """Turns expected of a run of whole calls."""
    calls = load.arrivals.expected(horizon)
    return float(calls * sum(share * talk.turns.mean() for share, talk in _talks(load)))


def speech(scenario: Scenario) -> float:
    """Seconds of speech expected of a whole run of utterances."""
    load: Any = scenario.tts
    arrivals, each = load.arrivals, _utterance(scenario)
    calls = arrivals.expected(scenario.horizon)
    if arrivals.kind == "closed":
        return float(calls * scenario.horizon * each / (each + load.think.mean()))
    alone = arrivals.kind == "trace" and arrivals.by_utterance
    return float(calls * each * (1 if alone else load.utterances_per_session.mean()))


def call(scenario: Scenario) -> float:
    """Mean seconds of a call, as far as the scenario says them before it is played."""
    if scenario.dialogue is not None:
        return float(sum(share * talk.seconds() for share, talk in _talks(scenario.dialogue)))
    load = scenario.tts
    return load.utterances_per_session.mean() * (_utterance(scenario) + load.think.mean())


def _utterance(scenario: Scenario) -> float:
    """Mean seconds of an utterance; 5 where only a trace knows them."""
    said = scenario.tts.utterance
    if said.audio is not None:
        return said.audio.mean()
    return 5.0 if said.tokens is None else said.tokens.mean() * TOKEN


def _talks(load: Dialogue) -> list[tuple[float, Any]]:
    """Share of the calls, and how they go, of each tenant."""
    shares = [each.share for each in load.tenants] or [1.0]
    return list(zip(shares, load.talks(), strict=True))
