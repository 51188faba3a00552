"""Laws that hold in every scenario: nothing is lost, nothing is made, and time is simulated time.

Scenarios are drawn from the file down (tests/properties/scenarios.py), twenty for each law here and
a thousand by `make fuzz`.  Little's law is in each: simulate() checks it.
"""

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.engine.worlds import differences, random_world
from tests.oracles.runs import play
from tests.properties.scenarios import scenario_of, trees
from tests.trust import examples
from voicesim.engine import layout as at
from voicesim.metrics import tables
from voicesim.metrics.summary import run_metrics
from voicesim.scenario import ScenarioErrors, ScenarioFile
from voicesim.simulation import simulate
from voicesim.study import run_study

SEEDS = st.integers(0, 2**32)


def law(few: int = 20):
    """Settings of a property: ``few`` examples, or as many as `make fuzz` asks for.

    What fails is shown as it was drawn: to shrink it takes longer than all the rest.
    """
    return settings(
        max_examples=examples(few), deadline=None, phases=[Phase.generate],
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )  # fmt: skip


@law()
@given(trees())
def test_calls_are_conserved(tmp_path, tree):
    """offered = completed + refused + abandoned + failed + live, in the numbers of the report."""
    run = simulate(scenario_of(tmp_path, tree, "warmup=0s"))
    streams = tables.streams(run)
    calls = tables.sessions(run, streams)
    m = run_metrics(run, calls, streams)
    settled = m["completed"] + m["refused"] + m["abandoned"] + m["failed"]
    assert m["offered"] == settled + m["live_at_end"]
    assert m["offered"] == run.record.series[:, at.B_CALLS].sum()
    assert m["clean_share"] is None or 0 <= m["clean_share"] * m["offered"] <= settled
    outcome = run.record.utterance_i[:, at.R_OUTCOME]
    assert len(streams) >= (outcome != at.PENDING).sum()


@law()
@given(trees())
def test_audio_and_tokens_are_conserved(tmp_path, tree):
    """Audio sent is that of the completed replies, and of what callers who left were still sent;
    token steps are those of completed streams, of cancelled ones, and one late step of each."""
    run = simulate(scenario_of(tmp_path, tree), record_chunks=True)
    r, tape = run.record, run.tape
    done = r.utterance_i[:, at.R_OUTCOME] == at.COMPLETED
    sent = np.bincount(r.chunk_i[:, at.L_UTT], r.chunk_f[:, at.M_AUDIO], len(tape.tokens))
    whole = tape.tokens * run.spec.token_audio
    assert sent[done] == pytest.approx(whole[done])
    assert (sent <= whole + 1e-9).all()
    lost = r.utterance_f[:, at.Z_LOST]
    assert ((lost >= 0) & (lost <= sent + 1e-9)).all()
    if not r.counters["live_calls"]:
        extra = (
            r.counters["stream_steps"] - tape.tokens[done].sum() - r.counters["discarded_tokens"]
        )
        assert 0 <= extra <= (done.sum() if run.spec.overlap else 0)


@law()
@given(trees(refuses=False), st.integers(1, 9))
def test_latency_times_throughput_is_the_number_of_callers(tmp_path, tree, callers):
    """A closed loop: a caller's requests, replies and pauses follow one another without a gap."""
    tree["workload"]["arrivals"] = {"kind": "closed", "callers": callers}
    for key in ("utterances_per_session", "patience"):
        tree["workload"].pop(key, None)
    tree["workload"].setdefault("think", "300ms")
    tree["cluster"]["pools"]["tts"]["engine"]["kv_blocks"] = 2000  # every reply fits
    run = simulate(scenario_of(tmp_path, tree))
    i, z = run.record.utterance_i, run.record.utterance_f
    done = i[:, at.R_OUTCOME] == at.COMPLETED
    spent = (
        z[done, at.Z_PLAY_END] - z[done, at.Z_REQUEST] + run.tape.think[: len(done)][done]
    ).sum()
    ends = np.sort(z[done, at.Z_PLAY_END] + run.tape.think[: len(done)][done])
    starts = np.sort(z[done, at.Z_REQUEST])
    # callers start at their times and each stops at its own last pause
    assert spent == pytest.approx(ends[-callers:].sum() - starts[:callers].sum(), rel=1e-9)


@law()
@given(trees())
def test_no_engine_does_more_than_it_can(tmp_path, tree):
    """Token steps a second <= max_B B / T(B): with the least that a step of the engine can take."""
    tree["cluster"]["pools"]["tts"]["engine"]["noise"] = False
    run = simulate(scenario_of(tmp_path, tree))
    spec, end = run.spec, run.record.now
    b = np.arange(1, min(spec.max_num_seqs, len(spec.step.compute_s) - 1) + 1)
    steps = np.maximum(
        spec.step.params[0], spec.step.compute_s[b]
    )  # memory, compute; no KV, no host
    busy = run.record.busy["decode"].sum()
    window = spec.engines * (spec.horizon - spec.warmup)
    assert busy <= window * (1 + 1e-9)
    assert run.record.counters["max_batch"] <= spec.max_num_seqs
    assert run.record.counters["stream_steps"] <= spec.engines * end * (b / steps).max() * (
        1 + 1e-9
    )


@law()
@given(trees(), st.integers(0, 3))
def test_the_same_seed_is_the_same_run(tmp_path, tree, replication):
    """Twice, after another run, on SimPy as compiled: equal to the last bit."""
    scenario = scenario_of(tmp_path, tree)
    first = simulate(scenario, replication)
    simulate(scenario, replication + 1)
    assert differences(first.record, simulate(scenario, replication).record) == []
    told, again = first.record, simulate(scenario, replication, "reference").record
    # of a closed loop the kernel keeps room for callers who never come
    rows = min(len(told.utterance_i), len(again.utterance_i))
    for r in (told, again):
        assert (r.utterance_i[rows:, at.R_OUTCOME] == at.PENDING).all()
        r.utterance_i, r.utterance_f = r.utterance_i[:rows], r.utterance_f[:rows]
    assert differences(told, again) == []


@law(3)
@given(trees())
def test_the_number_of_workers_changes_nothing(tmp_path, tree):
    scenario = scenario_of(tmp_path, tree, "replications=3")
    file = ScenarioFile(tmp_path / "drawn.yaml", {"base": scenario})
    alone, together = (run_study(file, workers=n) for n in (1, 2))
    assert alone.summary == together.summary
    assert alone.replications.equals(together.replications)


@law()
@given(trees(), st.integers(0, 2**31))
def test_time_is_never_the_hosts(tmp_path, tree, start):
    """Clocks that jump and run backwards: the run is the same to the bit."""
    scenario = scenario_of(tmp_path, tree)
    plain = simulate(scenario)
    jumps = np.random.default_rng(start)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("time", "monotonic", "perf_counter", "process_time"):
            patch.setattr(time, name, lambda: float(jumps.uniform(-1e9, 1e9)))
        for name in ("time_ns", "monotonic_ns", "perf_counter_ns"):
            patch.setattr(time, name, lambda: int(jumps.integers(-(10**17), 10**17)))
        odd = simulate(scenario)
    assert differences(plain.record, odd.record) == []


@law()
@given(trees())
def test_every_run_ends(tmp_path, tree):
    """Once nobody calls any more everything drains: nobody is there, every KV block is free."""
    run = simulate(scenario_of(tmp_path, tree))
    assert run.record.now == run.spec.end
    assert run.record.counters["live_calls"] == 0
    assert (run.record.series[-1, [at.B_LIVE, at.B_RUNNING, at.B_WAITING, at.B_QUEUED]] == 0).all()


def leaves(tree, above=()):
    """Dotted paths of the numbers and words in a scenario."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, (*above, key))
        elif key not in ("kind", "profile", "on", "preset", "count"):
            yield (*above, key), value


def other(value):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str) and value.endswith("ms"):
        return f"{3 * int(value[:-2]) + 50}ms"
    if isinstance(value, str) and value.endswith("/s"):
        return f"{float(value[:-2]) * 1.5}/s"
    if isinstance(value, list):
        return [*value, 31]
    if isinstance(value, float):
        return value * 2
    return {"standby_voice": "leave", "0s": "1s", "1s": "2s", "2s": "3s", "12s": "13s",
            "5min": "6min"}[value]  # fmt: skip


@law()
@given(trees(), st.data())
def test_every_knob_is_used_or_refused(tmp_path, tree, data):
    """Another value of any key makes other numbers of the run, or is refused."""
    path, value = data.draw(st.sampled_from(list(leaves(tree))))
    before = plain_numbers(scenario_of(tmp_path, tree))
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = other(value)
    try:
        after = plain_numbers(scenario_of(tmp_path, tree))
    except ScenarioErrors:
        return
    assert before != after, (path, value)


def plain_numbers(scenario) -> list[str]:
    """Everything that a run is made of: the pool's numbers and what callers bring."""
    run = simulate(scenario.model_copy(update={"drain": scenario.drain}))
    fields = [getattr(run.spec, f.name) for f in dataclasses.fields(run.spec)]
    tape = run.tape
    fields += [tape.arrival, tape.first, tape.tokens, tape.prompt, tape.think, tape.patience]
    return [
        repr(np.asarray(x, object).tolist()) if isinstance(x, np.ndarray) else repr(x)
        for x in fields
    ]


@law()
@given(SEEDS)
def test_seconds_have_no_size(seed):
    """Everything twice as long, the audio of a token and every duration: everything happens at
    twice its time, to the last bit.  So no constant of the model hides a number of seconds (the
    player's rounding of a microsecond only decides what is counted)."""
    spec, tape = random_world(seed, admission=0, jitter=np.zeros(4096))
    twice = doubled(spec)
    slow = dataclasses.replace(
        tape, arrival=2 * tape.arrival, think=2 * tape.think, patience=2 * tape.patience
    )
    a, b = play(spec, tape), play(twice, slow)
    assert (a.utterance_i[:, at.R_OUTCOME] == b.utterance_i[:, at.R_OUTCOME]).all()
    times = [at.Z_REQUEST, at.Z_ADMIT, at.Z_DONE, at.Z_PLAY_END, at.Z_STALL, at.Z_STALL_MAX]
    was = a.utterance_f[:, times]
    assert np.array_equal(np.where(was < 0, was, 2 * was), b.utterance_f[:, times])  # -1: never
    assert np.array_equal(2 * a.live_area, b.live_area)


def doubled(spec):
    params = spec.step.params.copy()
    for i in (0, 1, 2, 4, 5, 6, 7):  # seconds; 3 and 8 are the norm and the overlap
        params[i] *= 2
    step = dataclasses.replace(spec.step, params=params, compute_s=2 * spec.step.compute_s)
    codec = spec.codec
    if codec is not None:
        codec = dataclasses.replace(
            codec, cost=2 * codec.cost, gather=2 * codec.gather, lead=2 * codec.lead,
            reserve=2 * codec.reserve,
        )  # fmt: skip
    names = ("token_audio", "delay", "prebuffer", "rebuffer", "max_wait", "max_queue", "audible",
             "horizon", "warmup", "end", "resolution", "deadline", "lead", "pace", "backoff",
             "idle_timeout")  # fmt: skip
    trace = None if spec.trace is None else (2 * spec.trace[0], 2 * spec.trace[1])
    return dataclasses.replace(
        spec, step=step, codec=codec, trace=trace, **{n: 2 * getattr(spec, n) for n in names}
    )
