"""Dialogues compiled: the event loop over all stages, and what a call does."""
