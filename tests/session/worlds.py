"""Random small worlds of dialogues for the tests."""

import dataclasses
import itertools

import numpy as np

from tests.engine.worlds import differences as run_differences
from tests.engine.worlds import random_world
from voicesim.engine.asr_spec import AsrSpec
from voicesim.engine.spec import PoolSpec
from voicesim.session.record import DialogueRecord
from voicesim.session.spec import DialogueSpec
from voicesim.session.tape import DialogueTape


def random_dialogue(seed: int, **fixed) -> tuple[DialogueSpec, DialogueTape]:
    """A world drawn from ``seed``: few calls, many rules; ``fixed`` overrides spec fields."""
    rng = np.random.default_rng(seed)

    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    def stage(codec: bool) -> PoolSpec:
        spec, _ = random_world(int(rng.integers(1 << 40)), may_close=False)
        return dataclasses.replace(
            spec, admission=0, blocks=one_of(1 << 30, 40, 80), max_new=120, prefix=0, delay=0.0,
            jitter=np.zeros(4096), horizon=horizon, warmup=warmup, end=end, stage=True,
            codec=spec.codec if codec else None, resolution=1.0, record_chunks=False,
            blame=False, trace=None,
        )  # fmt: skip

    horizon, warmup, end = 20.0, one_of(0.0, 3.0), one_of(25.0, 200.0)
    calls = int(rng.integers(1, 16))
    arrival = np.sort(np.round(rng.uniform(0, one_of(0.0, 5.0, 20.0), calls), one_of(1, 6)))
    per_call = rng.integers(1, 5, calls)
    turns = int(per_call.sum())
    digits = one_of(1, 9)  # rounded instants make ties

    def seconds(scale, n=turns):
        return np.round(rng.exponential(scale, n), digits)

    half = rng.random(turns) < one_of(0.0, 0.4)
    answers = turns + int(half.sum())
    answer = np.arange(turns) + np.cumsum(half)
    cut = np.where(half, answer - 1, -1)
    speech = seconds(2.0)
    pause = np.where(half, seconds(0.8) + 0.05, 0.0)
    units = rng.integers(1, 5, answers)
    unit = np.concatenate([[0], np.cumsum(units)])
    n_units = int(units.sum())
    sizes = rng.integers(1, one_of(4, 30), n_units)
    ends = np.concatenate([np.cumsum(sizes[a:b]) for a, b in itertools.pairwise(unit)])
    prompt = rng.integers(1, one_of(20, 300), answers)
    llm = tuple(stage(False) for _ in range(one_of(1, 1, 2)))
    tts = tuple(stage(True) for _ in range(one_of(1, 1, 2)))
    omni = stage(True) if rng.random() < 0.4 else None
    asr = None
    if rng.random() < 0.8:
        chunk = one_of(0.08, 0.5)
        asr = AsrSpec(
            kind=int(rng.integers(4)), engines=int(one_of(1, 2)), chunk=chunk,
            right=one_of(0.0, 0.48), window=2.0,
            cost=np.array([one_of(0.0, 0.01, 0.2), 0.002, one_of(0.0, 0.05)]),
            cap=int(one_of(1, 4)), workers=int(one_of(1, 2)), slots=int(one_of(2, 8)),
            step=one_of(0.02, 0.1),
        )  # fmt: skip
    spec = DialogueSpec(
        asr=asr, llm=llm, tts=tts, omni=omni,
        limit=one_of(1 << 40, 1, 4),
        capture=one_of(0.0, 0.02), delay=one_of(0.0, 0.04), uplink=one_of(0.0, 0.03),
        jitter=one_of(np.zeros(4096), np.sort(rng.gamma(2, 0.02, 4096))),
        uplink_jitter=one_of(np.zeros(4096), np.sort(rng.gamma(2, 0.02, 4096))),
        prebuffer=one_of(0.0, 0.0, 0.5), rebuffer=one_of(0.0, 0.3),
        max_wait=one_of(np.inf, 0.4), max_queue=one_of(np.inf, np.inf, 2.0),
        audible=one_of(0.0, 0.1), detect=one_of(0.0, 0.5), cancel=int(rng.integers(4)),
        flush=bool(one_of(0, 1)), resume=one_of(np.inf, 2.0), prefetch=one_of(1 << 40, 0, 1),
        ahead=one_of(np.inf, 0.0, 0.5), filler_after=one_of(np.inf, 0.2, 1.0),
        filler_audio=0.7, filler_cut=bool(one_of(0, 1)), connect_llm=one_of(0.0, 0.05),
        connect_tts=one_of(0.0, 0.05), wait_all=bool(one_of(0, 0, 1)),
        client_per_audio=one_of(0.0, 0.3), client_per_chunk=one_of(0.0, 0.01),
        omni_timeout=one_of(np.inf, 0.3, 0.05), horizon=horizon, warmup=warmup, end=end,
        seed=int(rng.integers(1 << 60)), record_chunks=True,
        blame=seed % 2 == 1, trace=(1.0, 6.0) if seed % 4 == 1 else None,
    )  # fmt: skip
    tape = DialogueTape(
        arrival=arrival, first=np.concatenate([[0], np.cumsum(per_call)]),
        tenant=np.zeros(calls, np.int64),
        think=one_of(np.zeros(turns), seconds(1.0)), speech=speech,
        endpoint=seconds(0.4), cut_at=np.where(half, np.round(speech * 0.5, 3), np.inf),
        cut_pause=pause, cut_endpoint=pause * 0.5,
        patience=one_of(np.full(turns, np.inf), seconds(3.0)),
        barge=one_of(np.full(turns, np.inf), seconds(1.5)),
        false_barge=one_of(np.full(turns, np.inf), seconds(2.0)),
        answer=answer, cut=cut, prompt=prompt,
        hit=one_of(np.zeros(answers, np.int64), rng.integers(0, prompt)),
        reply=ends[unit[1:] - 1], encode=one_of(np.zeros(answers), seconds(0.02, answers)),
        llm=rng.integers(0, len(llm), answers), tts=rng.integers(0, len(tts), answers),
        omni=(rng.random(answers) < 0.5).astype(np.int64) * (omni is not None),
        omni_prompt=rng.integers(1, 100, answers), omni_tokens=rng.integers(1, 100, answers),
        unit=unit, unit_end=ends, unit_tokens=rng.integers(1, one_of(10, 80), n_units),
        unit_prompt=rng.integers(1, 40, n_units),
        unit_cached=(rng.random(n_units) < one_of(0.0, 0.3)).astype(np.int64),
    )  # fmt: skip
    return dataclasses.replace(spec, **fixed), tape


def differences(a: DialogueRecord, b: DialogueRecord) -> list[str]:
    """Names of the fields in which two runs differ, to the last bit."""
    bad = []
    for f in dataclasses.fields(a):
        x, y = getattr(a, f.name), getattr(b, f.name)
        if f.name == "pools":
            for p, (q, r) in enumerate(zip(x, y, strict=True)):
                bad += [f"pools[{p}].{name}" for name in run_differences(q, r)]
        elif f.name == "asr":
            bad += [f"asr.{k}" for k in x if not np.array_equal(x[k], y[k])]
        elif not np.array_equal(x, y):
            bad.append(f.name)
    return bad
