"""Routing: which replica a request goes to.  Each rule is one plain function.

The kernel compiles these very functions; the reference calls them as they are.  ``live`` and
``open_`` are int64[n]: live streams of each replica, and whether it takes new ones (1) or not.
Each returns a replica, or -1 when none is open.
"""

ROUND_ROBIN, LEAST_STREAMS, POWER_OF_TWO = range(3)


def round_robin(live, open_, turn):
    """The next open replica after the last one chosen (nginx, Envoy default).

    turn: number of decisions so far, so that the first request goes to replica 0.
    """
    n = len(live)
    for i in range(n):
        g = (turn + i) % n
        if open_[g] != 0:
            return g
    return -1


def least_streams(live, open_):
    """The open replica with the fewest live streams, lowest index on ties (least-connections)."""
    best = -1
    for g in range(len(live)):
        if open_[g] != 0 and (best < 0 or live[g] < live[best]):
            best = g
    return best


def power_of_two(live, open_, u1, u2):
    """The less loaded of two distinct random replicas (Mitzenmacher), the first on ties.

    u1, u2: uniforms in [0, 1).  A closed candidate loses; both closed: the next open one.
    """
    n = len(live)
    i = int(u1 * n)
    if n == 1:
        return i if open_[i] != 0 else -1
    j = (i + 1 + int(u2 * (n - 1))) % n
    if open_[i] != 0 and (open_[j] == 0 or live[i] <= live[j]):
        return i
    if open_[j] != 0:
        return j
    return round_robin(live, open_, i)
