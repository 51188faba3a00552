"""What a client's chunk timeline tells of the server: steps, codec, prompts, network, demand."""

from voicesim.calibrate.chunks.learn import Learned, learn
from voicesim.calibrate.chunks.words import snippet, statement

__all__ = ["Learned", "learn", "snippet", "statement"]
