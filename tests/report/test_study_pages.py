"""Pages of what has no run behind it: profiles; and every kind of page in a browser."""

import json

import pytest
from typer.testing import CliRunner

from tests.calibrate.test_output import STEPS
from tests.report.chromium import browser, url
from tests.report.reading import read
from voicesim.cli import app
from voicesim.engine.profile import load_profile

# batch 1 to 8, the larger of 10 ms and 2 ms a stream, held out exactly
MORE = STEPS + "".join(f"{b},{max(0.010, 0.002 * b):.4f}\n" for b in range(1, 17) for _ in range(4))


def calibrate(*words):
    return CliRunner().invoke(app, ["calibrate", *map(str, words)])


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "steps.csv").write_text(MORE)
    result = calibrate(
        folder / "steps.csv", "-o", folder / "mine.yaml", "--report", folder / "mine.html",
        "--figure", folder / "mine.png",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().endswith(f"{folder / 'mine.html'}")
    return folder


def test_the_page_of_a_profile_says_what_the_profile_does(fitted):
    profile = load_profile(fitted / "mine.yaml")
    page = read((fitted / "mine.html").read_text())
    errors = [abs(h.error) for h in profile.fit.held_out]
    said = f"mine is {sum(errors) / len(errors):.1%} off on average at the {len(errors)} figures"
    assert said in page.text
    low, high = profile.range.batch
    assert f"from batch {low:g} to {high:g}" in page.text
    rows = {row[0]: row for row in page.tables["Parameters"][1:]}
    cost = profile.decode.memory_s
    assert rows["memory_s"][1] == f"{1000 * cost.value:.3f} ms"
    assert rows["memory_s"][3] == cost.origin
    assert len(page.tables["Measured against the profile"]) - 1 == (
        len(profile.fit.held_out) + len(profile.fit.anchors)
    )
    assert "steps.csv" in page.text
    (image,) = [a for name, a in page.tags if name == "img"]
    assert image["src"].startswith("data:image/png;base64,")


def test_the_page_of_a_roofline_warns(tmp_path):
    result = calibrate("--prior", "gpu=H100,model=qwen3-tts-1.7b", "-o", tmp_path / "r.yaml",
                       "--report", tmp_path / "r.html")  # fmt: skip
    assert result.exit_code == 0, result.output
    text = (tmp_path / "r.html").read_text()
    assert "r is a roofline: from data sheets, nothing of it was measured" in read(text).text
    assert 'class="callout' in text and "<img" not in text


def test_pages_are_drawn_without_a_complaint(fitted):
    with browser() as driver:
        driver.get(url(fitted / "mine.html"))
        assert driver.get_log("browser") == []
        width = "return [document.documentElement.scrollWidth, innerWidth]"
        wide, window = driver.execute_script(width)
        assert wide <= window
        images = "return [...document.images].map(i => i.naturalWidth)"
        assert all(n > 100 for n in driver.execute_script(images))


def test_json_of_a_command_with_a_page_is_the_same(fitted):
    result = calibrate(fitted / "steps.csv", "-o", fitted / "again.yaml", "--report",
                       fitted / "again.html", "--json")  # fmt: skip
    assert json.loads(result.stdout)["name"] == "again" and (fitted / "again.html").exists()
