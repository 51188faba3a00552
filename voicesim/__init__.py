"""voicesim: discrete-event simulation of continuous-batching voice clusters."""

__version__ = "0.1.0"
