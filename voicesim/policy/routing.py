"""Routing: which replica a request goes to.  Each rule is one plain function.

The kernel compiles these very functions; the reference calls them as they are.  ``live`` and
``open_`` are int64[n]: live streams of each replica, and whether it takes new ones (1) or not.
Each returns a replica, or -1 when none is open.
"""

KINDS = (
    "round_robin", "least_streams", "power_of_two", "least_calls", "bounded_hash", "inverse_prob",
    "pack",
)  # fmt: skip
"""Their names in a scenario, by number."""

ROUND_ROBIN, LEAST_STREAMS, POWER_OF_TWO, LEAST_CALLS, BOUNDED_HASH, INVERSE_PROB, PACK = range(7)
"""LEAST_CALLS is ``least_streams`` with the calls that live on each replica for ``live``; only
where calls are pinned (LiveKit's dispatcher counts a worker's jobs)."""


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


def pool_for(prefs, tiers, weights, takes, opened, u):
    """The pool of a fleet for one caller: in the nearest tier that takes callers, by weight.

    prefs, tiers: int64[pools], the pools that serve the caller in order of preference (-1 ends
    them) and how far each is; weights: float64[pools]; takes: int64[pools], 0 where it sends
    callers on; opened: int64[pools], open replicas; u: the caller's uniform in [0, 1), the same
    for the whole call, so that a call stays with its pool.  If no pool takes callers, the nearest
    open one decides; -1: none is open.
    """
    n = len(prefs)
    i = 0
    while i < n and prefs[i] >= 0:
        j = i
        total = 0.0
        while j < n and prefs[j] >= 0 and tiers[j] == tiers[i]:
            if takes[prefs[j]] != 0 and opened[prefs[j]] > 0:
                total += weights[prefs[j]]
            j += 1
        if total > 0.0:
            left = u * total
            chosen = -1
            for m in range(i, j):
                p = prefs[m]
                if takes[p] != 0 and opened[p] > 0 and weights[p] > 0.0:
                    chosen = p
                    if left < weights[p]:
                        break
                    left -= weights[p]
            return chosen
        i = j
    for m in range(n):
        if prefs[m] >= 0 and opened[prefs[m]] > 0 and weights[prefs[m]] > 0.0:
            return prefs[m]
    return -1


def still_takes(takes, live, places, at, back):
    """Does a pool take callers?  Not from ``at`` of its places on, until ``back`` of them or fewer
    are taken (threshold with hysteresis).

    takes: 1 or 0, as it was.  live, places: live streams, streams at most of its open replicas.
    """
    if live >= at * places:
        return 0
    if live <= back * places:
        return 1
    return takes


def least_streams(live, open_):
    """The open replica with the fewest live streams, lowest index on ties (least-connections)."""
    best = -1
    for g in range(len(live)):
        if open_[g] != 0 and (best < 0 or live[g] < live[best]):
            best = g
    return best


def bounded_hash(live, open_, u, epsilon):
    """The replica that the call's hash points at, or the next one that is not over its share:
    consistent hashing with bounded loads, at most (1 + epsilon) times the mean
    (https://arxiv.org/abs/1608.01350).

    u: the call's uniform in [0, 1), the same for all its requests.  Unbounded if epsilon is large.
    """
    n = len(live)
    total = 1
    count = 0
    for g in range(n):
        if open_[g] != 0:
            total += live[g]
            count += 1
    if count == 0:
        return -1
    most = (1.0 + epsilon) * total / count
    first = int(u * n)
    for i in range(n):
        g = (first + i) % n
        if open_[g] != 0 and live[g] < most:
            return g
    return -1


def inverse_prob(live, open_, u):
    """An open replica at random, with weight 1 / (1 + live streams): what a router does that does
    not trust its readings (https://github.com/livekit/livekit/pull/2902 chooses at random by load).
    """
    total = 0.0
    for g in range(len(live)):
        if open_[g] != 0:
            total += 1.0 / (1.0 + live[g])
    left = u * total
    chosen = -1
    for g in range(len(live)):
        if open_[g] != 0:
            chosen = g
            weight = 1.0 / (1.0 + live[g])
            if left < weight:
                break
            left -= weight
    return chosen


def pack(live, open_, limit):
    """The fullest open replica below ``limit`` streams, so that others can be switched off; the
    emptiest one if all are full."""
    best = -1
    for g in range(len(live)):
        if open_[g] != 0 and live[g] < limit and (best < 0 or live[g] > live[best]):
            best = g
    return best if best >= 0 else least_streams(live, open_)


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
