"""The log of what happens in a window of a run: rows, the same from kernel and reference."""

MOST_EVENTS = 1_000_000
"""Events that are logged at most; of a longer window the end is cut off."""

STEP, PREFILL, CODEC, CHUNK, PREEMPTED, ADMITTED, REFUSED = range(7)
"""Kinds of rows, with what T_WHO and T_A to T_D, T_X and T_Y hold.

STEP: its number; running streams, decoding, prompt tokens, KV tokens read; GPU and host seconds
unstretched.  PREFILL: the stream; prompt tokens of this step, those in before.  CODEC: the worker;
rows.  CHUNK: the stream; number, rows of its batch, tokens; when it arrived, its audio (s);
it starts when it is queued at the codec and ends when it leaves.  PREEMPTED, ADMITTED, REFUSED:
the stream.
"""

T_KIND, T_WHO, T_ENGINE, T_A, T_B, T_C, T_D = range(7)
N_TRACE_I = 7
T_START, T_END, T_X, T_Y = range(4)
N_TRACE_F = 4
