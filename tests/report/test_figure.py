import re
import warnings

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

from tests.report.study import context, metrics, quiet, series, unmeasured
from voicesim.report.figure import ACROSS, GAP_TOP, PARTS, bin_width, draw, peak_figure, smooth

FIVE = {"admit_all": metrics(), "cap": quiet(), "cap_queue": quiet(), "slack": quiet(),
        "bigger_first_chunk": quiet(clean_share=0.8)}  # fmt: skip


def panels(figure):
    return {axis.get_label(): axis for axis in figure.axes}


def texts(axis):
    return [found.get_text() for found in axis.texts]


def test_a_png_at_a_readable_size_and_without_a_warning(tmp_path):
    path = tmp_path / "new" / "peak.png"
    settings = matplotlib.rcParams.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        peak_figure(series(*FIVE), FIVE, context(), path)
    height, width, _ = imread(path).shape
    assert width == 1600 and 700 < height < 1100
    assert matplotlib.rcParams.copy() == settings


def test_svg_is_the_same_every_time(tmp_path):
    for name in ("a.svg", "b.svg"):
        peak_figure(series("cap"), {"cap": quiet()}, context(), tmp_path / name)
    first = (tmp_path / "a.svg").read_text()
    assert "<svg" in first and first == (tmp_path / "b.svg").read_text()


def test_four_panels_per_variant_with_one_scale():
    found = panels(draw(series(*FIVE), FIVE, context()))
    assert set(found) == {f"{name} {part}" for name in FIVE for part in PARTS}
    for part in PARTS:
        assert len({found[f"{name} {part}"].get_ylim() for name in FIVE}) == 1
    assert len({axis.get_xlim() for axis in found.values()}) == 1
    assert found["cap stalls"].get_xlim() == (0.0, 20.0)
    assert found["cap stalls"].get_xlabel() == "minutes"
    assert found["admit_all stalls"].get_ylabel() == "stalls\nper 5 s"


def test_the_answer_stands_above():
    figure = draw(series(*FIVE), FIVE, context())
    assert figure.texts[0].get_text().startswith("bigger_first_chunk keeps 80.0% of all")
    found = panels(figure)
    assert "46.4% CLEAN" in texts(found["admit_all calls"])
    assert "80.0% CLEAN (best)" in texts(found["bigger_first_chunk calls"])
    assert len(figure.legends) == 1
    assert not any(axis.get_legend() for axis in figure.axes)


def test_an_empty_panel_says_why():
    summary = {"a": quiet(), "b": unmeasured(), "c": metrics(), "d": quiet()}
    data = series("a", "b", "d", stalls=False)
    data.loc[(data["variant"] == "d") & (data["t_s"] == 3), "stalls"] = 1
    found = panels(draw(data, summary, context()))
    assert texts(found["a stalls"]) == ["no audible stall"]
    assert texts(found["b stalls"]) == ["stalls n/a"]
    assert texts(found["c stalls"]) == ["no series"]
    assert texts(found["d stalls"]) == ["none after the warm-up"]
    assert "n/a CLEAN" in texts(found["b calls"])


@pytest.mark.parametrize("count", [1, ACROSS, ACROSS + 1, 2 * ACROSS + 1])
def test_any_number_of_variants(count, tmp_path):
    names = [f"v{i}" for i in range(count)]
    summary = {name: quiet() for name in names}
    assert len(draw(series(*names), summary, context()).axes) == 4 * count
    peak_figure(series(*names), summary, context(), tmp_path / "x.png")


def test_nothing_overlaps():
    names = [f"{x}_rather_long_name_that_goes_on_and_on" for x in "abcde"]
    summary = {name: quiet(clean_share=None) for name in names}
    figure = draw(series(*names), summary, context(title="t" * 60))
    figure.canvas.draw()
    boxes = [t.get_window_extent() for a in figure.axes for t in a.texts]
    boxes += [t.get_window_extent() for t in figure.texts]
    boxes += [figure.legends[0].get_window_extent()]
    for i, one in enumerate(boxes):
        assert one.x1 <= figure.bbox.x1
        assert not any(one.overlaps(other) for other in boxes[:i])


def test_one_stall_is_seen_next_to_thousands():
    data = series("a", "b")
    data.loc[data["variant"] == "b", "stalls"] = 0
    data.loc[(data["variant"] == "b") & (data["t_s"] == 600), "stalls"] = 1
    axis = panels(draw(data, {"a": metrics(), "b": metrics()}, context()))["b stalls"]
    (bars,) = axis.patches
    heights = bars.get_data().values
    assert (heights > 0).sum() == 1
    assert heights.max() >= 0.02 * axis.get_ylim()[1]


def test_gaps_beyond_the_scale_are_marked():
    data = series("a")
    data.loc[data["t_s"].between(600, 700), "gap_p99"] = 50.0
    axis = panels(draw(data, {"a": metrics()}, context()))["a gap"]
    assert axis.get_ylim() == (0.0, GAP_TOP)
    assert texts(axis) == ["▲ above 4"]


def test_replications_are_averaged():
    one = smooth(series("a"), 10.0)
    three = smooth(series("a", replications=3), 10.0)
    np.testing.assert_allclose(one.to_numpy(), three.to_numpy())


def test_smoothing_keeps_counts_rates_and_holes():
    data = series("a")
    data.loc[data["t_s"] < 20, "gap_p99"] = np.nan
    found = smooth(data, 10.0)
    assert len(found) == 120
    assert found["stalls"].sum() == data["stalls"].sum()
    assert 10 * found["refused"].sum() == pytest.approx(data["refused"].sum())
    assert found["gap"].isna().tolist() == [True, True] + [False] * 118
    data["offered_per_s"] = np.nan  # a trace has no nominal rate: what came is shown
    assert 10 * smooth(data, 10.0)["offered"].sum() == pytest.approx(data["calls"].sum())


@pytest.mark.parametrize(
    ("horizon", "own", "width"),
    [(60, 1, 1), (2400, 1, 10), (2400, 3, 12), (86400, 1, 600), (60, 5, 5)],
)
def test_bins(horizon, own, width):
    data = series("a")
    data["t_s"] *= own
    assert bin_width(data, horizon) == width


def test_seconds_after_the_horizon_are_shown_while_calls_are_live():
    data = series("a")
    assert panels(draw(data, {"a": quiet()}, context(horizon=600.0)))["a gap"].get_xlim()[1] == 20
    data.loc[data["t_s"] >= 900, ["live", "stalls"]] = 0
    end = panels(draw(data, {"a": quiet()}, context(horizon=600.0)))["a gap"].get_xlim()[1]
    assert end == pytest.approx(15.0, abs=0.1)


def test_no_series_at_all(tmp_path):
    peak_figure(series("a").iloc[:0], {"a": unmeasured()}, context(), tmp_path / "x.png")
    assert re.match(rb"\x89PNG", (tmp_path / "x.png").read_bytes())
