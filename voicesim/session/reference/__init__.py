"""Dialogues in plain SimPy: the definition of the model."""

from voicesim.session.reference.cluster import run_dialogue_reference

__all__ = ["run_dialogue_reference"]
