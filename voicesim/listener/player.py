"""The listener's player: a buffer that drains at one second per second.

Shared arithmetic of kernel and reference (the kernel compiles these functions).  With the
default settings the player is the field's pausing player (SGLang-Omni, Nari)::

    end = t1 + d1;   for i >= 2:  stall_i = max(0, t_i - end);  end = max(end, t_i) + d_i

prebuffer: audio seconds to gather before the first sound.  max_wait: start that long after the
first chunk anyway.  rebuffer: audio seconds to gather after an underrun before resuming.
max_queue: audio beyond this is dropped and counted as lost.  The last chunk always starts the
player, so that a short reply never waits for a prebuffer it cannot fill.
"""

ROUNDING = 1e-6
"""A chunk that is late by up to this (s), a twentieth of a sample at 48 kHz, is in time: else
rounding could decide whether a player that gathers after an underrun falls silent."""

SILENT, PREBUFFERING, PLAYING, REBUFFERING = range(4)


def deliver(mode, play_end, held, since, t, audio, last, prebuffer, rebuffer, max_wait, max_queue):
    """One chunk of ``audio`` seconds reaches the player at time ``t`` (s).

    Returns (mode, play_end, held, since, stall, started, lost): the new state, the stall that
    this chunk ended (s, 0 if none), the time of the first sound if it is now known (else -1),
    and audio seconds dropped by max_queue.
    """
    stall = 0.0
    started = -1.0
    lost = 0.0
    if mode == SILENT:
        mode = PREBUFFERING
        since = t
        held = 0.0
    elif mode == PREBUFFERING and t > since + max_wait:
        started = since + max_wait
        mode = PLAYING
        play_end = started + held
    if mode == PLAYING:
        if t <= play_end + ROUNDING:
            queue = play_end - t
            if queue + audio > max_queue:
                lost = min(audio, queue + audio - max_queue)
                audio = audio - lost
            return mode, play_end + audio, held, since, stall, started, lost
        mode = REBUFFERING
        since = play_end
        held = 0.0
    held = held + audio
    if held > max_queue:
        lost = held - max_queue
        held = max_queue
    need = prebuffer if mode == PREBUFFERING else rebuffer
    if held >= need or last:
        if mode == REBUFFERING:
            stall = t - since
        else:
            started = t
        mode = PLAYING
        play_end = t + held
    return mode, play_end, held, since, stall, started, lost


def heard_by(mode, since, started, t, max_wait):
    """True when the listener has heard the first sound by time ``t``."""
    if mode == SILENT:
        return False
    if mode == PREBUFFERING:
        return since + max_wait <= t
    return started <= t
