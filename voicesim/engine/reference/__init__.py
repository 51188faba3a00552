"""The model in plain SimPy: its definition, and the kernel's oracle.

One event per step; a call, an engine, a codec, a gateway are what the field calls them.  Written
to be read, not to be fast.  Start with ``engine.py`` (continuous batching), then ``codec.py``,
``gateway.py`` (admission, retries, patience) and ``world.py`` (sessions and the run).
"""

from voicesim.engine.reference.world import run_reference

__all__ = ["run_reference"]
