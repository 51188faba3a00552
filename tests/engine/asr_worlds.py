"""The recogniser driven by hand: kernel and reference behind one face, and random worlds."""

from heapq import heappop, heappush

import numpy as np

from voicesim.engine import layout as at
from voicesim.engine.asr import AsrPool
from voicesim.engine.asr_spec import AsrSpec
from voicesim.engine.kernel import asr as kernel
from voicesim.engine.reference.asr import Asr
from voicesim.engine.reference.timeline import Timeline


class KernelRun:
    """Plays what is asked with ``at`` and the recogniser's own events, in order of time."""

    def __init__(self, spec: AsrSpec, calls: int, rows: int, *window):
        self.pool = AsrPool(spec, calls, rows, *window)
        self.arenas = self.pool.F, self.pool.I
        self.now = 0.0
        self.asked: list = []
        self.count = 0
        self.texts: list[tuple[int, float]] = []
        self.answer: dict[int, list] = {}

    def at(self, t: float, name: str, *args) -> None:
        """Call a function of the recogniser at t; (..., t) is added."""
        heappush(self.asked, (t, self.count, name, args))
        self.count += 1

    def on_text(self, r: int) -> None:
        self.texts.append((r, self.now))
        for name, args in self.answer.get(r, ()):
            self.call(name, *args)

    def call(self, name: str, *args) -> int:
        return getattr(kernel, name)(*self.arenas, *args, self.now)

    def play(self, end: float) -> dict[str, np.ndarray]:
        while True:
            t = kernel.next_event(*self.arenas)
            own = not self.asked or t <= self.asked[0][0]
            self.now = t if own else self.asked[0][0]
            if self.now > end:
                break
            if own:
                kernel.event(*self.arenas, t)
            else:
                _, _, name, args = heappop(self.asked)
                self.call(name, *args)
            while (r := kernel.take_text(self.pool.I)) >= 0:
                self.on_text(r)
        self.now = end
        return self.pool.record(end)


class ReferenceRun:
    def __init__(self, spec: AsrSpec, calls: int, rows: int, warmup: float, horizon: float,
                 trace=None):  # fmt: skip
        self.env = Timeline()
        self.asr = Asr(self.env, spec, calls, rows, warmup, horizon, self.on_text, trace)
        self.count = 0
        self.texts: list[tuple[int, float]] = []
        self.answer: dict[int, list] = {}

    def at(self, t: float, name: str, *args) -> None:
        self.env.at(t, at.TIMER, self.count).callbacks.append(lambda _: self.call(name, *args))
        self.count += 1

    def on_text(self, r: int) -> None:
        self.texts.append((r, self.env.now))
        for name, args in self.answer.get(r, ()):
            self.call(name, *args)

    def call(self, name: str, *args) -> int:
        return getattr(self.asr, name)(*args, self.env.now)

    def play(self, end: float) -> dict[str, np.ndarray]:
        self.env.run(until=self.env.at(end, 1 << 10, 0))
        return self.asr.record(end)


def random_spec(rng: np.random.Generator, **fixed) -> AsrSpec:
    """Any kind, fast or slow; every second one in rounded times, so that many are equal."""

    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    coarse = rng.random() < 0.5
    choices = {
        "kind": int(rng.integers(4)),
        "engines": int(one_of(1, 1, 2, 5)),
        "chunk": one_of(0.08, 0.16, 0.5, 1.0) if not coarse else one_of(0.125, 0.25, 0.5, 1.0),
        "right": one_of(0.0, 0.24, 0.56, 1.04) if not coarse else one_of(0.0, 0.25, 0.5),
        "window": one_of(0.7, 3.0, 15.0),
        "cost": np.array(
            [one_of(0.0, 0.125, 0.5), one_of(0.0, 0.0, 0.125), one_of(0.0, 0.25)]
            if coarse
            else [one_of(0.0, 0.01, 0.3), one_of(0.0, 0.003, 0.1), one_of(0.0, 0.02, 0.2)]
        ),
        "cap": int(one_of(1, 2, 5, 64)),
        "workers": int(one_of(1, 1, 2, 3)),
        "slots": int(one_of(1, 2, 4, 64)),
        "step": one_of(0.02, 0.075, 0.11, 0.3) if not coarse else one_of(0.0625, 0.125, 0.5),
    }
    return AsrSpec(**{**choices, **fixed})


class World:
    """What is asked of a recogniser, drawn from a seed; ``play`` it on either side."""

    def __init__(self, seed: int, **fixed):
        rng = np.random.default_rng(seed)
        self.spec = random_spec(rng, **fixed)
        self.digits = int(rng.choice([1, 2, 12]))
        self.asked: list = []
        self.answer: dict[int, list] = {}
        self.calls = int(rng.integers(1, 30))
        self.rows = 0
        self.window = float(rng.choice([0.0, 2.0])), float(rng.choice([6.0, 100.0]))
        self.end = float(rng.choice([8.0, 60.0]))
        self.trace = (1.0, 5.0) if seed % 2 else None
        for k in range(self.calls):
            t = self.rounded(rng.uniform(0, 4))
            self.asked.append((t, "connect", k))
            self.talk(rng, k, t)

    def rounded(self, t: float) -> float:
        return float(np.round(t, self.digits))

    def talk(self, rng: np.random.Generator, k: int, t: float) -> None:
        for _ in range(int(rng.integers(1, 5))):
            t = self.rounded(t + rng.choice([0.0, rng.exponential(0.5)]))
            r, self.rows = self.rows, self.rows + 1
            length = float(rng.choice([0.0, rng.exponential(0.3), rng.exponential(3.0)]))
            if rng.random() < 0.15:
                self.asked.append((t, "transcribe", r, k, length))
            else:
                self.asked.append((t, "speech_begins", r, k))
                if rng.random() < 0.95:
                    self.asked.append((self.rounded(t + length), "flush", r))
            if rng.random() < 0.25:  # perhaps before, perhaps after the flush
                gone = self.rounded(t + length * rng.uniform(0, 2) + rng.choice([0.0, 0.2]))
                self.asked.append((gone, "drop", r))
                if rng.random() < 0.3:
                    self.asked.append((gone, "transcribe", r, k, length))
            elif rng.random() < 0.2:  # a text begets the next segment at once
                new, self.rows = self.rows, self.rows + 1
                audio = float(rng.choice([0.0, length]))
                self.answer[r] = [("drop", (max(r - 1, 0),)), ("transcribe", (new, k, audio))]
            if rng.random() < 0.8:  # else the caller is quick: two segments of one call at once
                t += length
        if rng.random() < 0.6:
            self.asked.append((self.rounded(t + rng.exponential(2.0)), "disconnect", k))

    def play(self, side) -> tuple[dict[str, np.ndarray], list[tuple[int, float]]]:
        run = side(self.spec, self.calls, self.rows, *self.window, self.trace)
        run.answer = self.answer
        for what in sorted(self.asked, key=lambda a: a[0]):
            run.at(*what)
        results = run.play(self.end)
        return results, run.texts


def differences(a, b) -> list[str]:
    """Names of results, and texts, in which two runs differ, to the last bit."""
    bad = [name for name in a[0] if not np.array_equal(a[0][name], b[0][name])]
    return bad + ([] if a[1] == b[1] else ["texts"])
