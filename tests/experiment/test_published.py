"""Published ladders: what is read and refused, and that a fit finds the profile behind figures."""

import numpy as np
import pytest
from typer.testing import CliRunner

from voicesim.calibrate.errors import CalibrationError
from voicesim.cli import app
from voicesim.engine.profile import CodecCost, DecodeCost, Profile, Quantity, load_profile
from voicesim.experiment.accuracy import missed, page, rows, summary
from voicesim.experiment.curve import fit_ladder
from voicesim.experiment.predicted import points, predict
from voicesim.experiment.published import is_ladder, read_ladder
from voicesim.experiment.served import serve

URL = "https://example.org/figures"
SETTINGS = {
    "model": "qwen3-tts-1.7b", "gpu": "h100-sxm", "stack": "a stack", "version": "1",
    "load": "closed", "token_audio_s": "0.08", "reply_audio_s": "4", "reply_sigma": "0",
    "chunks": "4,25", "prompt_tokens": "1",
}  # fmt: skip


def write(path, figures, **settings):
    lines = ["run,load,metric,stat,value,url,note"]
    for name, value in {**SETTINGS, **settings}.items():
        lines.append(f',,{name},,"{value}",{URL},')
    lines += [f",{load},{metric},{stat},{value},{URL}," for load, metric, stat, value in figures]
    path.write_text("\n".join(lines) + "\n")
    return path


def quantity(value):
    return Quantity(value=value)


def made(decode, codec=None):
    return Profile(
        name="truth",
        form="table" if decode.table else "fitted",
        token_audio_s=0.08,
        decode=decode,
        codec=codec,
    )


def figures_of(profile, tmp_path, wanted, **settings):
    """A ladder whose figures are those of a known profile."""
    shell = read_ladder(write(tmp_path / "shell.csv", [(*w, 1) for w in wanted], **settings))
    values = predict(shell, profile, shell.figures, seeds=(0,))
    numbers = [(*w, f"{v:.6g}") for w, v in zip(wanted, values, strict=True)]
    return read_ladder(write(tmp_path / "known.csv", numbers, **settings))


def test_a_table_is_found_again(tmp_path):
    """A closed loop of equal replies: step at c streams = RTF x 80 ms."""
    truth = made(DecodeCost(table=[(1, 0.010), (4, 0.012), (16, 0.030)]))
    wanted = [(c, "rtf", "mean") for c in (1, 4, 16)]
    found = fit_ladder(figures_of(truth, tmp_path, wanted))
    assert found.form == "table"
    for c, step in truth.decode.table:
        assert found.predict(c, 0) == pytest.approx(step, rel=0.02)


def test_the_codec_that_saturates_is_found_again(tmp_path):
    """Decoder 10 ms + 0.1 ms a stream; codec of batch 1, 4 ms a frame, so 5 replies of 50 frames
    per second at most.  What the decoder and the time outside share of the rest may differ; the
    figures may not."""
    decode = DecodeCost(memory_s=quantity(0.010), compute_per_token_s=quantity(0.0001))
    zero = quantity(0.0)
    truth = made(decode, CodecCost(floor_s=zero, per_row_s=zero, per_frame_s=quantity(0.004)))
    wanted = [(c, m, "mean") for c in (1, 4, 8, 16) for m in ("throughput", "ttfa")]
    known = figures_of(truth, tmp_path, wanted, codec_cap="1", chunks="25")
    found = fit_ladder(known)
    assert found.codec.per_frame_s.value == pytest.approx(0.004, rel=0.08)
    assert found.decode.prefill_per_token_s is None  # no prompt length is published
    error = [p.error for p in points(known, found, known.figures, held_out=False)]
    assert np.median(np.abs(error)) < 0.05


def test_time_outside_the_engine_keeps_littles_law(tmp_path):
    """One caller, 50 steps of 10 ms and 100 ms outside: 0.6 s, 1/0.6 requests per second."""
    outside = made(DecodeCost(memory_s=quantity(0.010))).model_copy(
        update={"request_s": quantity(0.1)}
    )
    shell = read_ladder(write(tmp_path / "a.csv", [(1, "latency", "mean", 1)]))
    one = serve(shell.load(outside, "", 1), "closed", 1, least=50)
    assert one.value("latency", "mean") == pytest.approx(0.61, abs=0.011)  # a prompt is a step
    assert one.requests_per_s == pytest.approx(1 / one.value("latency", "mean"))
    eight = serve(shell.load(outside, "", 8), "closed", 8, least=80)
    assert eight.requests_per_s * eight.value("latency", "mean") == pytest.approx(8)


def test_a_burst_and_an_open_loop(tmp_path):
    """Sixteen at once on a step of 10 ms: all done after 51.  Open loop: at 0.1/s few meet."""
    profile = made(DecodeCost(memory_s=quantity(0.010)))
    shell = read_ladder(write(tmp_path / "a.csv", [(1, "latency", "mean", 1)]))
    load = shell.load(profile, "", 1)
    burst = serve(load, "burst", 16)
    assert burst.latency == pytest.approx(np.full(16, 0.51), abs=0.011)
    assert burst.requests_per_s == pytest.approx(16 / 0.51, rel=0.03)
    calm = serve(load, "poisson", 0.1, least=100)
    assert calm.value("latency", "p50") == pytest.approx(0.51, abs=0.011)
    assert calm.requests_per_s == 0.1


def test_every_second_inner_load_is_held_out(tmp_path):
    def levels(*loads):
        return read_ladder(write(tmp_path / "a.csv", [(c, "rtf", "mean", 1) for c in loads]))

    assert levels(1, 2, 4).held_out == []
    assert levels(1, 2, 4, 8).held_out == [2]
    assert levels(64, 1, 8, 16, 32).held_out == [8, 32]
    assert levels(1, 2, 4, 6, 8, 10).held_out == [2, 6]


def test_rows_summary_and_page(tmp_path):
    """Held-out errors only are counted; a miss without a word shows as such."""
    known = [(1, "rtf", "mean", 0.15), (2, "rtf", "mean", 0.9), (4, "rtf", "mean", 0.2),
             (8, "rtf", "mean", 0.3)]  # fmt: skip
    of = read_ladder(write(tmp_path / "a.csv", known))
    unseen = [f for f in of.figures if f.level in of.held_out]
    blind = fit_ladder(of, of.held_out)
    blind.fit.points = points(of, blind, unseen, held_out=True)
    found = rows(of, blind)
    (row,) = found
    assert row["held_out"] and row["load"] == 2 and row["metric"] == "rtf" and row["source"] == URL
    assert (
        row["error"] == pytest.approx(row["predicted"] / 0.9 - 1, abs=1e-3) and row["error"] < -0.5
    )
    assert missed(blind.fit.points[0]) and row["why"] is None
    (line,) = summary(found)
    assert (
        line["figures"] == 1 and line["median"] == abs(row["error"]) and line["within_fifth"] == 0
    )
    assert "| not explained |" in page(found, [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"load": "closd"}, "a.csv:6: load: found 'closd'; did you mean 'closed'?"),
        ({"gpu": "h100-sx"}, "a.csv:3: gpu: found 'h100-sx'; did you mean 'h100-sxm'?"),
        ({"reply_sigma": "wide"}, "a.csv:9: reply_sigma: found 'wide'"),
        ({"chunks": "4,x"}, "a.csv:10: chunks: found '4,x'"),
    ],
)
def test_a_broken_setting_is_refused_with_its_line(tmp_path, change, said):
    file = write(tmp_path / "a.csv", [(1, "rtf", "mean", 1)], **change)
    with pytest.raises(CalibrationError) as error:
        read_ladder(file)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        ((1, "rtff", "mean", 1), "metric: found 'rtff'; did you mean 'rtf'?"),
        ((1, "rtf", "p33", 1), "stat: found 'p33'"),
        ((1, "rtf", "mean", "nan"), "rtf: found 'nan'; allowed: a number above 0"),
        ((0, "rtf", "mean", 1), "load: found '0'"),
    ],
)
def test_a_broken_figure_is_refused_by_the_command(tmp_path, figure, said):
    file = write(tmp_path / "a.csv", [figure])
    assert is_ladder(file)
    result = CliRunner().invoke(app, ["calibrate", str(file), "-o", str(tmp_path / "p.yaml")])
    assert result.exit_code == 2
    assert f"a.csv:12: {said}" in result.output and result.output.count("\n") == 1
    assert not (tmp_path / "p.yaml").exists()


def test_the_command_writes_a_profile(tmp_path):
    file = write(tmp_path / "a.csv", [(c, "rtf", "mean", 0.1 * c) for c in (1, 2, 4)])
    out = tmp_path / "p.yaml"
    result = CliRunner().invoke(app, ["calibrate", str(file), "-o", str(out)])
    assert result.exit_code == 0, result.output
    profile = load_profile(out)
    assert profile.about.stack == "a stack" and profile.range.batch == (1, 4)
    refused = CliRunner().invoke(
        app, ["calibrate", str(file), "-o", str(out), "--prior", "model=orpheus-3b"]
    )
    assert refused.exit_code == 2 and "a ladder states its own settings" in refused.output
