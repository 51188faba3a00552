"""Who calls: start times, lengths, pauses and patience, drawn once before a run.

`draw_tape` turns the workload of a scenario into a `Tape` of NumPy columns.  The modules, from the
bottom: `rng` (generators by purpose, the counter hash), `lengths` (laws), `recorded` (calls of a
trace), `arrivals` (rates and start times), `tape`.
"""

from voicesim.workload.arrivals import draw_arrivals, expected_sessions, rate_at
from voicesim.workload.tape import Tape, draw_tape

__all__ = ["Tape", "draw_arrivals", "draw_tape", "expected_sessions", "rate_at"]
