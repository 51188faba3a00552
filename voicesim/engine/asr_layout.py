"""Where everything lies in the recogniser's two arenas (see voicesim.engine.layout).

A segment of speech is a row, a call is a row, a replica is a row.  All that will happen stands in
one heap of items, each with its time: the batch ends (replica by replica, worker by worker), then
the segments' chunk timers, then the replicas' kicks.  Items are numbered in that order, which is
the order in which they happen at one instant.
"""

# --- int header -------------------------------------------------------------------------------
(
    H_KIND, H_ENGINES, H_WORKERS, H_CAP, H_SLOTS, H_ROWS, H_DELAY_FRAMES, H_TRACE,
    # state
    H_HEAP, H_OUT_FIRST, H_OUT, H_BATCHES, H_JOBS, H_REJECTED, H_EVENTS, H_NTRACE,
    # offsets
    O_SEGMENT, O_CALL, O_ENGINE, O_COUNT, O_BATCH, O_HEAP, O_PLACE, O_OUT, O_CHUNK_HIST,
    O_FINAL_HIST, O_TRACE,
    # float offsets
    OF_SEGMENT, OF_ENGINE, OF_WORKER, OF_TIME, OF_TRACE,
) = range(32)  # fmt: skip
N_INT_HEADER = 32

# --- float header -----------------------------------------------------------------------------
(
    K_CHUNK, K_RIGHT, K_LONGEST, K_FLOOR, K_PER_ROW, K_PER_AUDIO, K_STEP, K_WARMUP, K_HORIZON,
    K_TRACE_FROM, K_TRACE_TO,
    # state
    K_AUDIO, K_BACKLOG, K_CHUNK_SUM, K_FINAL_SUM,
) = range(15)  # fmt: skip
N_FLOAT_HEADER = 15

# --- segments ---------------------------------------------------------------------------------
# HAD: chunks or frames that are there (streaming: so far; slots: all of them, once flushed).
# DONE: those that are done.  NEXT, PREV: links of the list it is in; PREV is the place in the
# batch while its job runs.
G_STATE, G_CALL, G_ENGINE, G_HAD, G_DONE, G_NEXT, G_PREV = range(7)
NGI = 7
# FLUSH: when the segment ended (NEVER before).  TOTAL: its audio then.  HEARD: audio that jobs
# have done (windows); UPTO: audio up to which the running job goes.
Y_BEGIN, Y_FLUSH, Y_TOTAL, Y_HEARD, Y_UPTO = range(5)
NYF = 5
# what a segment does; TOLD: its message is not taken yet
FREE, LISTENING, QUEUED, RUNNING, TOLD = range(5)

# --- calls ------------------------------------------------------------------------------------
# STEP: the step that last took a frame of the call (slots).
C_ENGINE, C_STEP = range(2)
NCI = 2

# --- replicas ---------------------------------------------------------------------------------
# HEAD, TAIL: the queue of segments (slots: the segments that are live).  STEPS: steps begun.
E_CALLS, E_HEAD, E_TAIL, E_RUNNING, E_STEPS = range(5)
NEI = 5
X_BUSY, X_SINCE, X_AREA = range(3)
NXF = 3

NEVER = 1e301
