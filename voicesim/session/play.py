"""A scenario of dialogues runs: on the kernel or on the reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from voicesim.engine.little import check_little
from voicesim.scenario import Scenario
from voicesim.session.build import dialogue_spec, dialogue_tape
from voicesim.session.record import DialogueRecord
from voicesim.session.spec import DialogueSpec
from voicesim.session.tape import DialogueTape


@dataclass
class DialogueRun:
    """One finished run of dialogues: what was simulated, and what it left."""

    scenario: Scenario
    spec: DialogueSpec
    tape: DialogueTape
    record: DialogueRecord
    events: int


def simulate_dialogue(
    scenario: Scenario,
    replication: int = 0,
    engine: str = "kernel",
    processes: Sequence[Callable[[Any, Any], Any]] = (),
    record_chunks: bool = False,
    blame: bool = False,
    trace: tuple[float, float] | None = None,
) -> DialogueRun:
    """Play one replication of a scenario whose workload is a dialogue.

    engine: "kernel" (compiled) or "reference" (plain SimPy); the results are equal to the bit.
    processes: generator functions of (env, cluster), SimPy processes beside the calls.
    blame: log every audible stall with its causes (voicesim.metrics.stalls).
    trace: log what happens between these instants (s; voicesim.metrics.trace), causes too.
    Raises ModelError, ProfileError; LittleError if a stage contradicts itself.
    """
    spec = dialogue_spec(scenario, replication, record_chunks, blame, trace)
    tape = dialogue_tape(scenario, replication)
    if engine == "reference":
        from voicesim.session.reference import run_dialogue_reference

        return _checked(
            DialogueRun(scenario, spec, tape, run_dialogue_reference(spec, tape, processes), 0)
        )
    from voicesim.engine.pool import PoolEnvironment
    from voicesim.session.dialogue import Dialogue
    from voicesim.session.dialogue import record as record_of

    dialogue = Dialogue(spec, tape)
    env = PoolEnvironment(dialogue)
    for process in processes:
        env.process(process(env, dialogue))
    env.run(until=env.at(spec.end))
    return _checked(DialogueRun(scenario, spec, tape, record_of(dialogue), dialogue.events))


def _checked(run: DialogueRun) -> DialogueRun:
    """The same; raises LittleError if a stage contradicts itself."""
    for spec, record in zip(run.spec.pools, run.record.pools, strict=True):
        check_little(spec, record)
    return run
