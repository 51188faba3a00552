"""The log of what happens in a window of a run: rows, the same from kernel and reference."""

MOST_EVENTS = 1_000_000
"""Events that are logged at most; of a longer window the end is cut off."""

MOST_OF_ASR = 250_000
"""Of a recogniser, whose room for them is taken at once."""

STEP, PREFILL, CODEC, CHUNK, PREEMPTED, ADMITTED, REFUSED, ASR_JOB, ASR_BATCH, ASR_TEXT = range(10)
"""Kinds of rows, with what T_WHO and T_A to T_D, T_X and T_Y hold.

STEP: its number; running streams, decoding, prompt tokens, KV tokens read; GPU and host seconds
unstretched.  PREFILL: the stream; prompt tokens of this step, those in before.  CODEC: the worker;
rows.  CHUNK: the stream; number, rows of its batch, tokens; when it arrived, its audio (s);
it starts when it is queued at the codec and ends when it leaves.  PREEMPTED, ADMITTED, REFUSED:
the stream.

Of a recogniser: ASR_JOB: the segment of speech; jobs of it before; the job lasts as long as its
batch.  ASR_BATCH: the worker; rows, calls connected to the replica; seconds of audio (X).
ASR_TEXT: the segment; its jobs; it starts when the segment was over and ends with the final text.
"""

T_KIND, T_WHO, T_ENGINE, T_A, T_B, T_C, T_D = range(7)
N_TRACE_I = 7
T_START, T_END, T_X, T_Y = range(4)
N_TRACE_F = 4
