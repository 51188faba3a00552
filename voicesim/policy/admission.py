"""Admission: does the replica that was chosen take the stream, refuse it, or let it queue?

ADMIT_ALL  everybody (the engines' own default: max_num_seqs in the hundreds).
CAP        refuse at ``streams`` live streams on the replica (Kyutai: no free channels).
CAP_QUEUE  as CAP, but wait at the gateway, first come first served, until a replica frees a
           place or the deadline passes (SGLang-Omni max_queued_requests with a deadline).
SLACK      admit only if every live stream of the replica keeps at least ``lead`` seconds of
           audio in hand when its next chunk comes under the new batch, and that batch keeps up
           with real time.
The functions are plain; the kernel compiles them, the reference calls them.
"""

from voicesim.policy.routing import least_streams

ADMIT_ALL, CAP, CAP_QUEUE, SLACK = range(4)
ADMIT, REFUSE, QUEUE = 1, 0, 2

LAG_WEIGHT = 0.0625
"""Weight of the newest chunk in the moving average of the codec's lag (s)."""


def cap(live, limit):
    """ADMIT below ``limit`` live streams, else REFUSE."""
    return ADMIT if live < limit else REFUSE


def cap_queue(live, limit, queued, max_queued):
    """ADMIT below the limit if nobody waits, QUEUE while the queue has room, else REFUSE."""
    if live < limit and queued == 0:
        return ADMIT
    return QUEUE if queued < max_queued else REFUSE


def place_with_room(live, open_, replica, limit):
    """The replica the router chose, or if it is full the emptiest open one (cap_queue's gateway
    knows them all, so nobody queues while there is a place)."""
    return replica if live[replica] < limit else least_streams(live, open_)


def slack_of(play_end, now, tokens_to_chunk, step, lag):
    """Audio seconds still in the listener's buffer when the next chunk is expected.

    play_end: when the buffered audio runs out (s); tokens_to_chunk: decode steps until the next
    chunk is full; step: predicted step under the new batch (s); lag: recent codec lag (s).
    """
    return (play_end - now) - (tokens_to_chunk * step + lag)
