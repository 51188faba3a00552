"""A stand-alone step loop: continuous batching in thirty lines, for checks of a profile only.

Requests arrive at given instants, wait for the running step to end, have their prompt computed
inside the next step (all of it), get their first token at its end and one token a step after.
"""

import numpy as np

from voicesim.engine import cost
from voicesim.engine.profile import Profile


def replay(
    profile: Profile,
    send_s: np.ndarray,
    n_tokens: np.ndarray,
    prompt: int,
    seed: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Gaps between tokens (s, all streams pooled) and the batch of each step.

    seed: of the step noise; None: no noise.
    """
    step = profile.step_cost(max_tokens=4096)
    noise = profile.noise_table()
    rng = None if seed is None else np.random.default_rng(seed)
    order = np.argsort(send_s)
    waiting = list(order)
    now, done, running = 0.0, {}, []
    gaps, batches = [], []
    while waiting or running:
        if not running:
            now = max(now, float(send_s[waiting[0]]))
        joining = []
        while waiting and send_s[waiting[0]] <= now:
            joining.append(waiting.pop(0))
        context = sum(prompt + done[i] for i in running)
        new = len(joining)
        tokens = len(running) + prompt * new
        kv = context + prompt * new
        pairs = context + new * prompt * (prompt + 1) / 2
        gpu = cost.gpu_seconds(step.params, step.compute_s[tokens], kv, pairs)
        host = cost.host_seconds(step.params, len(running) + new, 0)
        seconds = cost.step_seconds(step.params, gpu, host)
        if rng is not None:
            seconds *= noise[rng.integers(len(noise))]
        now += seconds
        gaps += [seconds] * len(running)
        batches.append(len(running))
        for i in running:
            done[i] += 1
        for i in joining:
            done[i] = 1
        running = [i for i in running + joining if done[i] < n_tokens[i]]
    return np.array(gaps), np.array(batches)
