"""How much engines on one GPU slow each other down; arithmetic that kernel and reference share.

Without MPS a GPU runs the kernels of one process at a time: each of n processes with work has it an
nth of the time, less what goes by at every change.  Under MPS kernels of several processes run side
by side, until together they ask for more SMs or more bandwidth than there are.
"""

ALONE, TIME_SLICED, MPS = range(3)


def slowdown(mode: int, active: int, sm: float, bandwidth: float, switching: float) -> float:
    """How many times longer the GPU work of each takes while ``active`` engines have some.

    sm, bandwidth: sums, over these engines, of the shares of the card that each would use alone.
    switching: (quantum + switch) / quantum.
    """
    if mode == TIME_SLICED:
        return active * switching if active > 1 else 1.0
    most = sm if sm > bandwidth else bandwidth
    return most if most > 1.0 else 1.0


def lost(seconds: float, slowdown: float) -> float:
    """What of some seconds of work went to others, while it took ``slowdown`` times as long."""
    return seconds - seconds / slowdown
