"""Large files: read in blocks, fitted to some of each batch, with the same result."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from composed import CHUNKS, TRACE

from voicesim.calibrate import CalibrationError
from voicesim.calibrate.arrivals import samples_of
from voicesim.calibrate.decode import ENOUGH, fit_decode, steps_of, thin_out
from voicesim.calibrate.readers import csv_file, source
from voicesim.calibrate.readers.csv_file import parse_file
from voicesim.calibrate.readers.source import LARGEST_JSON, text_blocks
from voicesim.calibrate.samples import from_columns

QUOTED = 'name,seconds\n"a, with\na break",1.5\nb,2.5\n"c ""quoted""",3.5\n'


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize(
    ("text", "numbers", "words"),
    [
        (TRACE, ["stream_id", "token_index", "t_arrival_s"], ["run_id"]),
        (CHUNKS.replace(",,", ",60,"), ["chunk_index", "t_arrival_s", "audio_s"], ["run_id"]),
        (QUOTED, ["seconds"], ["name"]),
        (TRACE.replace("\n", "\r\n"), ["t_arrival_s"], ["run_id"]),
        (TRACE.replace("a,1,0,1", "\n  \na,1,0,1"), ["t_arrival_s"], ["run_id"]),
    ],
)
def test_blocks_of_any_size_read_the_same(tmp_path, monkeypatch, size, text, numbers, words):
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode())
    whole = parse_file(path, numbers, words)
    monkeypatch.setattr(csv_file, "text_blocks", partial(text_blocks, size=size))
    pd.testing.assert_frame_equal(parse_file(path, numbers, words), whole)


def test_lines_of_quoted_cells_and_blank_lines(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(QUOTED)
    assert parse_file(path, ["seconds"], ["name"])["line"].tolist() == [2, 4, 5]
    path.write_text(TRACE.replace("a,1,0,1", "\n  \na,1,0,1"))
    assert parse_file(path, ["t_arrival_s"], ["run_id"])["line"].tolist() == [2, 5, 6]


@pytest.mark.parametrize("size", [1, 50, 1000])
@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("0.130", "nan", 3, "'nan' is not a number"),
        ("0.160", "1e999", 4, "is not finite"),
        (",0.160", ",0.160,7", 4, "row has 7 of 6 fields (a thousands comma"),
        ("0.160,32\n", "0.1", 4, "the last row is truncated"),
        (",0.130", "", 3, "row has 5 of 6 fields"),
    ],
)
def test_blocks_of_any_size_refuse_the_same(tmp_path, monkeypatch, size, old, new, line, said):
    path = tmp_path / "x.csv"
    path.write_text(TRACE.replace(old, new))
    monkeypatch.setattr(csv_file, "text_blocks", partial(text_blocks, size=size))
    with pytest.raises(CalibrationError) as error:
        parse_file(path, ["token_index", "t_arrival_s"], ["run_id"])
    assert error.value.line == line
    assert said in error.value.message


def test_one_json_document_has_a_limit_but_lines_have_none(tmp_path, monkeypatch):
    assert LARGEST_JSON == 256 * 1024 * 1024
    monkeypatch.setattr(source, "LARGEST_JSON", 20)
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}\n' * 10)
    assert len(list(source.json_lines(path))) == 10
    with pytest.raises(CalibrationError, match="one JSON document of more than"):
        source.load_json(path)
    path.write_text('{"a": 1}\n{"a": "' + 20 * "x" + '"}\n')
    with pytest.raises(CalibrationError, match=r"x\.json:2: line is longer than"):
        list(source.json_lines(path))


def steps(rows: int, seed: int = 1) -> pd.DataFrame:
    """Decode steps of 4 runs at 8 batches: 6 ms + 0.1 ms per stream, 10 % noise; one rare batch."""
    rng = np.random.default_rng(seed)
    batch = rng.choice([1, 2, 4, 8, 16, 32, 64], rows).astype(float)
    batch[:5] = 100.0
    seconds = (0.006 + 1e-4 * batch) * rng.lognormal(0.0, 0.1, rows)
    return from_columns(
        {
            "stage": "decode", "run": rng.choice(list("abcd"), rows), "batch": batch,
            "context": 100.0, "tokens": batch, "kv_read": 100 * batch, "pairs": 100 * batch,
            "streams": batch, "seconds": seconds, "prefill_tokens": 0.0, "file": "x", "line": 1,
        }
    )  # fmt: skip


def test_few_rows_are_all_kept():
    table = steps(ENOUGH)
    few = thin_out(table)
    assert (few["stands_for"] == 1).all()
    pd.testing.assert_frame_equal(few.drop(columns="stands_for"), table)


def test_many_rows_are_stood_for_by_some_of_each_batch():
    table = steps(6 * ENOUGH)
    few = thin_out(table)
    assert len(few) < 1.1 * ENOUGH
    groups = ["run", "stage", "batch"]
    size = table.groupby(groups).size()
    pd.testing.assert_series_equal(
        few.groupby(groups)["stands_for"].sum(), size.astype(float), check_names=False
    )
    kept = few.groupby(groups).size()
    assert (kept >= np.minimum(size, 20)).all()
    assert kept.xs(100.0, level="batch").sum() == 5  # the rare ones all


def test_a_fit_to_some_is_the_fit_to_all():
    table = steps(3 * ENOUGH)
    whole, few = fit_decode(table, 1), fit_decode(thin_out(table), 1)
    # 10 % noise over 20,000 rows leaves 0.07 % in the mean: 0.3 % is four of that.
    for name in ("memory_s", "compute_per_token_s"):
        assert few.values[name] == pytest.approx(whole.values[name], rel=0.01)
    at_8 = steps_of(table[table["batch"] == 8].head(1))
    assert few.predict(at_8) == pytest.approx(whole.predict(at_8), rel=0.003)


def test_a_long_run_needs_memory_by_its_tokens_not_by_streams_times_steps():
    # 3,000 streams of 20 tokens one after the other: a matrix of both would be 1.4 GB.
    streams, tokens = 3000, 20
    at = 0.01 * (np.arange(streams * tokens) + 1)
    table = pd.DataFrame(
        {
            "run_id": "r", "stream_id": np.repeat(np.arange(streams), tokens).astype(float),
            "token_index": np.tile(np.arange(tokens), streams).astype(float),
            "t_arrival_s": at, "prompt_tokens": 8.0, "line": 2,
        }
    )  # fmt: skip
    samples = samples_of(table, "x")
    assert len(samples) == streams * (tokens - 1)
    assert samples["seconds"].to_numpy() == pytest.approx(0.01, abs=1e-9)
    assert (samples["batch"] == 1).all()
