"""C23: chunk size and right context against capacity, delay and accuracy.

https://docs.nvidia.com/nim/riva/asr/1.4.0/asr-performance-table.html: a chunk six times as long
takes 4.6 and 4.8 times the streams on two cards.  https://github.com/k2-fsa/icefall/pull/242: what
right context does to the word error rate.  Their rows are in calibration/measured/asr.

Must show: six times the chunk takes 4.6 to 4.8 times the streams; a word waits for half a chunk,
the right context, the queue and the step; beyond some 0.7 s of context accuracy hardly gains.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cases.speakers import listen
from voicesim.engine.asr_spec import AsrSpec

TABLES = Path(__file__).resolve().parents[2] / "calibration" / "measured" / "asr"
SHORT, LONG = 0.16, 0.96  # s
CAP = 64  # rows of a batch: at 512 streams in one batch all would wait 0.4 s, twice the published


@cache
def published() -> pd.DataFrame:
    return pd.read_csv(TABLES / "riva-asr-nim-1.4.0.csv")


def figure(card: int, chunk: float, streams: int, stat: str) -> float:
    p = published()
    row = p[(p.card == card) & (p.chunk_s == chunk) & (p.streams == streams) & (p.stat == stat)]
    return float(row.value.iloc[0])


def most(card: int, chunk: float) -> int:
    p = published()
    rows = p[(p.card == card) & (p.chunk_s == chunk) & (p.metric == "max_streams")]
    return int(rows.value.iloc[0])


@cache
def cost(card: int) -> tuple[float, float, float]:
    """Floor, per row and per second of audio, from three figures of a card: the latency of one
    stream, and the most streams of either chunk, whose full batches last as long as their audio."""
    alone = figure(card, SHORT, 1, "p50")
    equations = [
        [1.0, 1.0, SHORT],
        [1 / CAP, 1.0, SHORT],
        [1 / CAP, 1.0, LONG],
    ]  # fmt: skip
    right = [alone, SHORT / most(card, SHORT), LONG / most(card, LONG)]
    return tuple(np.linalg.solve(equations, right))


def recogniser(card: int, chunk: float, right: float = 0.0) -> AsrSpec:
    return AsrSpec(chunk=chunk, right=right, cost=np.array(cost(card)), cap=CAP)


@pytest.mark.parametrize(("card", "rows", "error"), [(1, 10, 0.12), (2, 6, 0.05)])
def test_three_figures_of_a_card_predict_its_other_latencies(card, rows, error):
    """A client that starts all its streams at once: their chunks come together."""
    assert min(cost(card)) > 0.0
    p = published()
    others = p[(p.card == card) & (p.stat == "mean") & (p.streams > 1)]
    assert len(others) == rows
    for row in others.itertuples():
        heard = listen(recogniser(card, row.chunk_s), [0.0] * row.streams, 20.0)
        assert heard.delay == pytest.approx(row.value, rel=error), row


def capacity(spec: AsrSpec) -> float:
    """Streams whose full batches last as long as their audio."""
    floor, per_row, per_audio = spec.cost
    return spec.chunk / (floor / CAP + per_row + per_audio * (spec.chunk + spec.right))


def behind(spec: AsrSpec, n: int, chunks: int = 150) -> float:
    """Chunks that the latest stream has waiting after so many."""
    return listen(spec, [0.0] * n, chunks * spec.chunk).backlog / spec.chunk


@pytest.mark.parametrize(
    ("chunk", "right"), [(0.08, 0.0), (0.16, 0.0), (0.48, 0.0), (0.96, 0.0), (0.16, 0.64)]
)
def test_the_most_streams(chunk, right):
    """3 % less than the capacity and the backlog stays within two chunks, 3 % more and it grows
    by 3 % of the audio."""
    spec = recogniser(1, chunk, right)
    n = capacity(spec)
    assert behind(spec, int(0.97 * n)) <= 2.0
    assert behind(spec, int(1.03 * n)) >= 4.0


def test_six_times_the_chunk_takes_almost_five_times_the_streams():
    """The floor is shared by a batch of 64 whatever its chunks are; a row's own time too is paid
    once for a chunk; only the rest grows with the audio."""
    for card, more in ((1, 4.6), (2, 4.8)):
        short, long = (capacity(recogniser(card, chunk)) for chunk in (SHORT, LONG))
        assert long / short == pytest.approx(more, rel=0.01)
        _, per_row, per_audio = cost(card)
        assert per_row / (per_row + per_audio * SHORT) > 0.85  # so chunks are what is paid for


@pytest.mark.parametrize("n", [1, 64, 192])
@pytest.mark.parametrize("right", [0.0, 0.32, 1.28])
def test_what_a_word_waits_for(n, right):
    """From the end of its chunk (half a chunk after the word, on average): the right context, the
    batches before its own, and its own."""
    spec = recogniser(1, LONG, right)
    floor, per_row, per_audio = spec.cost
    compute = floor + min(n, CAP) * (per_row + per_audio * (LONG + right))
    queue = (max(n // CAP, 1) - 1) / 2 * compute
    heard = listen(spec, [0.0] * n, 40.0)
    assert heard.delay == pytest.approx(right + queue + compute, abs=1e-9)


def pareto(card: int = 1, chunk: float = SHORT) -> pd.DataFrame:
    """Streams, mean delay of a word at 80 % of them (s) and word error rates (%), for each right
    context of the published table (frames of 40 ms)."""
    rows = []
    for row in pd.read_csv(TABLES / "icefall-right-context.csv").itertuples():
        spec = recogniser(card, chunk, 0.04 * row.right_frames)
        n = int(capacity(spec))
        delay = chunk / 2 + listen(spec, [0.0] * int(0.8 * n), 20.0).delay
        rows.append((spec.right, n, delay, row.wer_clean_pct, row.wer_other_pct))
    return pd.DataFrame(rows, columns=["right_s", "streams", "delay_s", "wer_clean", "wer_other"])


def test_accuracy_is_bought_with_delay_and_streams():
    """No row is better in everything; beyond about 0.7 s there is little left to buy.  (The rows
    stand in docs/reference/model.md.)"""
    rows = pareto()
    assert list(rows.streams) == [265, 240, 216, 181, 136]
    assert list(rows.delay_s.round(2)) == [0.20, 0.49, 0.81, 1.45, 2.74]
    assert (np.diff(rows.streams) < 0).all() and (np.diff(rows.delay_s) > 0).all()
    assert (np.diff(rows.wer_clean) < 0).all() and (np.diff(rows.wer_other) < 0).all()
    gain = -np.diff(rows.wer_clean) / np.diff(rows.delay_s)  # points a second
    assert gain[0] > 5.0 and gain[1] > 0.5 and gain[2:].max() < 0.1
    first, knee, last = rows.iloc[0], rows.iloc[2], rows.iloc[-1]
    assert (first.wer_clean - knee.wer_clean) / (first.wer_clean - last.wer_clean) > 0.9
