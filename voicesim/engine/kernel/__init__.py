"""The compiled pool kernel: every engine, stream and ordinary session of a pool.

Read ``voicesim.engine.reference`` for the model in plain words; this package tells the same
model over two flat arrays (see ``voicesim.engine.layout``), and tests hold the two equal to the
last bit.  ``run`` in ``loop.py`` is the only function that Python calls in a simulation.
"""
