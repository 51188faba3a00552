"""Callers who speak all the time, before a recogniser."""

from types import SimpleNamespace

import numpy as np

from tests.engine.asr_worlds import KernelRun
from voicesim.engine.asr_spec import AsrSpec


def listen(spec: AsrSpec, begins, end: float, since: float = 0.0, until: float | None = None):
    """What a recogniser makes of speakers who begin at ``begins`` and go on beyond ``end``.

    The delays are of the audio that came in [since, until] and was done by ``end``: ``delay`` on
    average, ``n`` of them, and the histogram ``hist``; ``backlog`` is the most that ever waited.
    """
    window = since, end if until is None else until
    run = KernelRun(spec, len(begins), len(begins), *window)
    for k, t in enumerate(begins):
        run.at(t, "connect", k)
        run.at(t, "speech_begins", k, k)
    results = run.play(end)
    n = int(results["chunk_hist"].sum())
    return SimpleNamespace(
        delay=float(results["chunk_delay"]) / n if n else np.nan, n=n,
        hist=results["chunk_hist"], backlog=float(results["backlog"]),
        busy=float(results["busy"].sum()) / max(window[1] - window[0], 1e-300),
    )  # fmt: skip
