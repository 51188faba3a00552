"""The tape: shapes, units, and what may and may not change a column."""

import math
import time

import numpy as np
import pytest
from scipy import stats
from workload_standins import arrivals, law, workload

from voicesim.workload import Tape, draw_tape

COLUMNS = ("arrival", "first", "tokens", "prompt", "think", "patience")
CLOSED = arrivals("closed", callers=5, stagger=1.0)


def tape(horizon=200.0, seed=1, replication=0, token_audio_s=0.08, max_tokens=2048, **changes):
    return draw_tape(workload(**changes), horizon, seed, replication, token_audio_s, max_tokens)


def changed(a, b):
    return {c for c in COLUMNS if not np.array_equal(getattr(a, c), getattr(b, c))}


def test_shapes_and_types():
    t = tape()
    assert t.sessions == len(t.arrival) == len(t.first) - 1
    assert t.utterances == t.first[-1] == len(t.tokens)
    assert {len(getattr(t, c)) for c in ("tokens", "prompt", "think", "patience")} == {t.utterances}
    assert t.first[0] == 0
    assert np.all(np.diff(t.first) >= 1)
    assert np.all(np.diff(t.arrival) >= 0)
    assert t.arrival[0] >= 0
    assert t.arrival[-1] < 200.0
    assert {c: getattr(t, c).dtype.str[1:] for c in COLUMNS} == {
        "arrival": "f8",
        "first": "i8",
        "tokens": "i8",
        "prompt": "i8",
        "think": "f8",
        "patience": "f8",
    }
    assert t.tokens.min() >= 1
    assert t.prompt.min() >= 1
    assert (t.closed, t.callers) == (False, 0)


def test_same_seed_same_tape_and_no_other():
    assert changed(tape(), tape()) == set()
    assert changed(tape(), tape(seed=2)) == set(COLUMNS)
    assert changed(tape(), tape(replication=1)) == set(COLUMNS)


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        ({"think": law("gamma", mean=1.0, cv=0.3)}, {"think"}),
        ({"think": None}, {"think"}),
        ({"patience": law("constant", value=3.0)}, {"patience"}),
        ({"patience": None}, {"patience"}),
        ({"audio": law("exponential", mean=9.0)}, {"tokens"}),
        ({"prompt_tokens": law("geometric", mean=9.0)}, {"prompt"}),
        ({"prompt_tokens": None}, {"prompt"}),
        ({"arrivals": arrivals("burst", size=4_000, at=0.0, spread=9.0)}, {"arrival"}),
    ],
)
def test_one_law_changes_one_column(change, columns):
    base = arrivals("constant", rate=20.0)  # 4,000 calls
    change = {"arrivals": base} | change
    assert changed(tape(arrivals=base), tape(**change)) == columns


def test_a_higher_rate_keeps_the_callers():
    few, many = (tape(arrivals=arrivals("poisson", rate=r)) for r in (10.0, 12.0))
    assert few.sessions < many.sessions
    for c in COLUMNS[1:]:
        short = getattr(few, c)
        assert np.array_equal(getattr(many, c)[: len(short)], short)


def test_columns_are_independent():
    t = tape(horizon=2_000.0, utterances_per_session=law("constant", value=1.0))
    gaps = np.diff(t.arrival, prepend=0.0)
    columns = np.array([gaps, t.tokens, t.prompt, t.think, t.patience]).T
    correlation = stats.spearmanr(columns).statistic[np.triu_indices(5, 1)]
    # 10 pairs: Bonferroni; a correct program fails once in 1,000 seeds.
    assert np.max(np.abs(correlation)) < stats.norm.isf(1e-3 / 20) / math.sqrt(t.utterances - 1)


def test_session_counts_follow_their_law():
    t = tape(horizon=2_000.0)
    counts = np.diff(t.first)
    geom = stats.geom(1 / 3)
    # 99.9 % interval of the mean.
    assert abs(counts.mean() - 3.0) < 3.29 * geom.std() / math.sqrt(len(counts))
    assert set(np.diff(tape(utterances_per_session=None).first)) == {1}
    assert set(np.diff(tape(utterances_per_session=law("constant", value=4.0)).first)) == {4}


def test_audio_becomes_decode_steps():
    values = [0.01, 0.08, 0.081, 0.24, 0.56, 0.72, 4.3]
    t = tape(audio=law("empirical", values=values), token_audio_s=0.08)
    assert set(t.tokens) == {1, 2, 3, 7, 9, 54}
    for seconds, steps in [(0.56, 7), (0.5600001, 8), (0.0, 1), (4.3, 54)]:
        assert set(tape(audio=law("constant", value=seconds)).tokens) == {steps}
    # The mean of a ceiling: half a step above, within its 99.9 % interval.
    t = tape(horizon=2_000.0, max_tokens=10**6)
    law_ = stats.lognorm(s=0.61959, scale=math.exp(math.log(4.3) - 0.61959**2 / 2))
    half = 3.29 * law_.std() / 0.08 / math.sqrt(t.utterances)
    assert abs(t.tokens.mean() - (4.3 / 0.08 + 0.5)) < half + 0.02


def test_tokens_may_be_given_by_law():
    t = tape(audio=None, tokens=law("constant", value=37.0))
    assert set(t.tokens) == {37}
    with pytest.raises(ValueError, match="audio or for its tokens"):
        tape(audio=None, tokens=None)


def test_long_utterances_are_clipped_and_counted():
    free, cut = tape(max_tokens=10**6), tape(max_tokens=100)
    assert free.clipped == 0
    assert cut.clipped == int((free.tokens > 100).sum()) > 0
    assert np.array_equal(cut.tokens, np.minimum(free.tokens, 100))


def test_no_think_no_patience_no_prompt():
    t = tape(think=None, patience=None, prompt_tokens=None)
    assert np.all(t.think == 0)
    assert np.all(np.isinf(t.patience))
    assert np.all(t.prompt == 1)


def test_closed():
    t = tape(arrivals=CLOSED)
    assert t.arrival.tolist() == [0.0, 0.2, 0.4, 0.6, 0.8]
    assert (t.closed, t.callers) == (True, 5)
    # 5 callers for 200 s with 4.3 s of speech and 4 s of thought: at least 120 sessions.
    assert t.sessions >= 5 * 200 / 8.3
    assert np.array_equal(t.first, np.arange(t.sessions + 1))
    assert t.utterances == t.sessions


def test_extend_doubles_and_keeps_what_was():
    t = tape(arrivals=CLOSED, max_tokens=100)
    for longer in (t.extend(), t.extend().extend()):
        for c in COLUMNS:
            short = getattr(t, c)
            assert np.array_equal(getattr(longer, c)[: len(short)], short)
    assert t.extend().sessions == 2 * t.sessions
    assert t.extend().extend().utterances == 4 * t.utterances
    assert len(t.extend().arrival) == 5
    assert t.extend().clipped >= t.clipped > 0


def test_closed_without_speech_or_thought_is_bounded():
    t = tape(arrivals=CLOSED, think=None, audio=law("constant", value=0.0))
    assert 5 <= t.sessions <= 1_000_000


def test_an_open_tape_cannot_be_extended():
    with pytest.raises(ValueError, match="complete"):
        tape().extend()


def test_a_tape_may_be_written_by_hand():
    one = np.ones(1, dtype=np.int64)
    t = Tape(np.zeros(1), np.arange(2), one, one, np.zeros(1), np.ones(1), 0, True, 1)
    assert (t.sessions, t.utterances) == (1, 1)
    with pytest.raises(ValueError, match="by hand"):
        t.extend()


def trace(tmp_path, text, speed=1.0):
    file = tmp_path / "trace.csv"
    file.write_text(text)
    return arrivals("trace", file=str(file), speed=speed)


def test_trace_with_lengths(tmp_path):
    a = trace(tmp_path, "t_s,tokens,prompt_tokens\n6,40,9\n2,50,0\n900,1,1\n4,9999,7\n", speed=2.0)
    t = tape(arrivals=a)
    assert t.arrival.tolist() == [1.0, 2.0, 3.0]
    assert t.tokens.tolist() == [50, 2048, 40]
    assert t.prompt.tolist() == [1, 7, 9]
    assert t.clipped == 1
    assert np.array_equal(t.first, [0, 1, 2, 3])
    assert len(t.think) == 3
    assert np.all(t.think > 0)


def test_trace_with_audio(tmp_path):
    t = tape(arrivals=trace(tmp_path, "t_s,audio_s\n1,0.56\n2,4.3\n"))
    assert t.tokens.tolist() == [7, 54]
    assert len(t.prompt) == 2


def test_trace_of_start_times_is_a_list_of_sessions(tmp_path):
    a = trace(tmp_path, "t_s\n1\n2\n3\n")
    t = tape(arrivals=a, utterances_per_session=law("constant", value=2.0))
    assert np.array_equal(t.first, [0, 2, 4, 6])
    assert len(t.tokens) == 6


def test_an_empty_run():
    t = tape(arrivals=arrivals("poisson", rate=0.0))
    assert (t.sessions, t.utterances) == (0, 0)
    assert t.first.tolist() == [0]


def test_a_million_utterances_are_quick():
    a = arrivals("constant", rate=1_000.0)
    began = time.process_time()
    t = tape(arrivals=a, horizon=350.0)
    assert t.utterances > 1_000_000
    # About 0.15 s on one core; the bound is for slow machines.
    assert time.process_time() - began < 1.5
