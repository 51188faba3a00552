"""A bad measurement file is refused, with its line."""

import gzip
import pickle

import pytest

from voicesim.calibrate import CalibrationError
from voicesim.calibrate.readers import read_samples

STEPS = "batch,context_tokens,seconds\n1,50,0.010\n2,50,0.011\n4,50,0.013\n"
TRACE = (
    "run_id,concurrency,stream_id,token_index,t_arrival_s,prompt_tokens\n"
    "a,1,0,0,0.100,32\na,1,0,1,0.130,32\na,1,0,2,0.160,32\n"
)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "empty"),
        ("batch,context_tokens,seconds\n", 1, "no rows"),
        (STEPS.replace("0.011", "nan"), 3, "seconds: 'nan' is not a number"),
        (STEPS.replace("0.011", "NA"), 3, "seconds: 'NA' is not a number"),
        (STEPS.replace("0.011", ""), 3, "seconds: the cell is empty"),
        (STEPS.replace("0.011", "1e-300"), 3, "seconds: found 1e-300; must be at least 1e-06 s"),
        (STEPS.replace("0.011", "3601"), 3, "seconds: found 3601; is longer than an hour"),
        (STEPS.replace("2,50", "1.5,50"), 3, "batch: found 1.5; not a whole number"),
        (STEPS.replace("2,50", "0,50"), 3, "batch: found 0;"),
        (STEPS.replace("2,50", "2,nan"), 3, "context_tokens: found 'nan'"),
        (STEPS.replace("0.011", "inf"), 3, "not finite"),
        (STEPS.replace("0.011", "-0.011"), 3, "negative"),
        (STEPS.replace("0.011", "0"), 3, "seconds: found 0; must be at least"),
        (STEPS.replace("0.011", "fast"), 3, "'fast' is not a number"),
        (STEPS.replace("0.011", '"1,234.5"'), 3, "thousands commas"),
        (STEPS.replace("0.011", "1,234.5"), 3, "thousands comma"),
        (STEPS.replace("2,50", "2,fifty"), 3, "context_tokens"),
        (STEPS.replace("seconds", "second"), 1, "'seconds' is missing; nearest is 'second'"),
        (STEPS.replace("context_tokens", "context"), 1, "unknown column 'context'"),
        (STEPS + "8,50\n", 5, "the last row is truncated"),
        (STEPS + '8,50,"0.02\n', 5, "is not CSV: unexpected end of data"),
        (
            "stage,batch,seconds\nwarmup,1,0.1\n",
            2,
            "stage: found 'warmup'; allowed: decode, prefill",
        ),
        ("stage,batch,seconds\ndecod,1,0.1\n", 2, "found 'decod'; did you mean 'decode'?"),
        ("stage,batch,seconds\nprefill,1,0.1\n", 2, "prefill_tokens: found 0; needed"),
        ("stage,batch,frames,seconds\ncodec,1.5,9,0.1\n", 2, "batch: found 1.5; not a whole"),
        ("stage,batch,seconds\ncodec,1,0.1\n", 1, "'frames' is missing"),
        (TRACE.replace("0.130", "nan"), 3, "t_arrival_s"),
        (TRACE.replace("0.160", "9000"), 4, "t_arrival_s: more than an hour after"),
        (TRACE.replace("0.130", "0.100").replace("0.160", "0.100"), None, "holds no step"),
        (TRACE.replace("0.130", "0.050"), 3, "before the token before it"),
        (TRACE.replace("0,1,0.130", "0,2,0.130"), 3, "token_index"),
        (TRACE.replace("t_arrival_s", "t_arrival"), 1, "nearest is 't_arrival'"),
        (TRACE + "a,1,0,3,0.1", 5, "truncated"),
        ("name,value\nx,1\n", None, "no file that is recognised; these are: chunk CSV; arrival"),
    ],
)
def test_refused_with_its_line(tmp_path, text, line, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(CalibrationError, match=r"bad\.csv") as error:
        read_samples(path)
    assert error.value.line == line
    assert message in error.value.message
    assert error.value.exit_code == 2
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


@pytest.mark.parametrize("stage", ["decode_with_codec", "codec_with_decode"])
def test_rows_read_off_as_averages_may_hold_part_of_a_stream(tmp_path, stage):
    path = tmp_path / "s.csv"
    path.write_text(f"stage,batch,frames,seconds\n{stage},27.8,9,0.0166\n")
    assert read_samples(path)["batch"].tolist() == [27.8]


def test_missing_and_broken_gzip(tmp_path):
    with pytest.raises(CalibrationError, match="cannot be read"):
        read_samples(tmp_path / "none.csv")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(TRACE.encode())[:-12])
    whole = gzip.compress(TRACE.encode())
    (tmp_path / "bad.csv.gz").write_bytes(whole[:12] + bytes(9) + whole[21:])
    for name in ("cut.csv.gz", "bad.csv.gz"):
        with pytest.raises(CalibrationError, match="cannot be read"):
            read_samples(tmp_path / name)


def test_gzip_reads_as_plain(tmp_path):
    (tmp_path / "a.csv").write_text(TRACE)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(TRACE.encode()))
    plain, packed = (read_samples(tmp_path / n) for n in ("a.csv", "a.csv.gz"))
    assert plain["seconds"].tolist() == packed["seconds"].tolist() == pytest.approx([0.03, 0.03])


def test_streams_without_common_steps_are_refused(tmp_path):
    rows = [f"a,2,0,{i},{0.1 * i:.3f},4" for i in range(40)]
    rows += [f"a,2,1,{i},{0.017 * i:.3f},4" for i in range(40)]
    head = "run_id,concurrency,stream_id,token_index,t_arrival_s,prompt_tokens"
    (tmp_path / "a.csv").write_text("\n".join([head, *rows]) + "\n")
    with pytest.raises(CalibrationError, match="common steps"):
        read_samples(tmp_path / "a.csv")
