"""The picture of a ladder's fit: every figure is there, held-out ones marked, the rest hatched."""

from typer.testing import CliRunner

from tests.experiment.test_published import write
from voicesim.cli import app
from voicesim.report.calibrate import calibrated

KNOWN = [(c, "rtf", "mean", 0.1 + 0.02 * c) for c in (1, 2, 4, 8)]
KNOWN += [(c, "ttfa", stat, 0.05 + 0.01 * c) for c in (1, 2, 4, 8) for stat in ("mean", "p95")]


def marks(axis, marker):
    return [line for line in axis.lines if line.get_marker() == marker]


def test_points_crosses_curve_and_hatching(tmp_path):
    found = calibrated([write(tmp_path / "a.csv", KNOWN)])
    rtf, first = found.draw().axes
    assert [axis.get_ylabel() for axis in (rtf, first)] == ["real-time factor", "first audio (s)"]
    for axis, stats in ((rtf, 1), (first, 2)):
        dots, crosses = marks(axis, "o"), marks(axis, "x")
        assert len(dots) == 4 * stats and len(crosses) == stats
        hollow = [dot for dot in dots if dot.get_markerfacecolor() == "white"]
        assert [dot.get_xdata()[0] for dot in hollow] == [2] * stats
        curves = [line for line in axis.lines if line.get_linestyle() == "-"]
        assert len(curves) == stats and curves[0].get_xdata()[-1] == 16
        [beyond] = [patch for patch in axis.patches if patch.get_hatch()]
        assert (beyond.get_x(), beyond.get_x() + beyond.get_width()) == (8, 16)
    measured = {dot.get_xdata()[0]: dot.get_ydata()[0] for dot in marks(rtf, "o")}
    assert measured == {c: value for c, _, _, value in KNOWN[:4]}
    [blind] = [p for p in found.profile.fit.points if p.held_out and p.metric == "rtf"]
    assert marks(rtf, "x")[0].get_ydata()[0] == blind.predicted
    assert list(found.table["load"][:3]) == [2, 2, 2] and len(found.table) == 15


def test_the_command_draws_a_ladder(tmp_path):
    file, out, png = write(tmp_path / "a.csv", KNOWN[:3]), tmp_path / "p.yaml", tmp_path / "p.png"
    done = CliRunner().invoke(app, ["calibrate", str(file), "-o", str(out), "--figure", str(png)])
    assert done.exit_code == 0, done.output
    assert png.read_bytes().startswith(b"\x89PNG") and f"wrote {out}, {png}" in done.stdout
