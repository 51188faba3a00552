"""report.html in a real browser, from file:// and offline."""

import json
from dataclasses import replace

import pytest

from tests.report import slow
from tests.report.chromium import browser, url
from tests.report.reading import read
from tests.report.test_html import HOSTILE
from voicesim.report.html.run import run_page
from voicesim.scenario import ScenarioFile, load
from voicesim.study import run_study

PEAK = ".chart[data-chart=peak] "


@pytest.fixture(scope="module")
def chromium():
    with browser() as driver:
        yield driver


@pytest.fixture(scope="module")
def result(chromium, tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    return run_study(load(slow.write(folder)), folder / "f", workers=1)


@pytest.fixture(scope="module")
def path(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(run_page(result))
    return path


@pytest.fixture
def page(chromium, path):
    chromium.get("about:blank")
    for log in ("browser", "performance"):
        chromium.get_log(log)
    chromium.get(url(path))
    return chromium


def some(page, selector):
    return page.find_elements("css selector", selector)


def one(page, selector):
    (found,) = some(page, selector)
    return found


def ticks(page):
    """Labels of the x axis of the peak, in order."""
    every = some(page, PEAK + "svg > .tick.middle")
    return [float(t.text.replace(",", "")) for t in every if t.text != "minutes"]


def test_it_is_drawn_without_an_error_and_without_the_network(page, path):
    data = read(path.read_text()).data
    assert page.execute_script("return document.documentElement.dataset.ready") == "yes"
    assert len(some(page, ".chart svg")) == len(data["charts"]) == 10
    for chart in data["charts"]:
        svg = one(page, f".chart[data-chart={chart['id']}] svg")
        assert svg.rect["height"] > 40 and svg.find_elements("css selector", "path, rect, circle")
        assert svg.get_attribute("aria-labelledby") == f"c-{chart['id']}-t c-{chart['id']}-d"
        assert svg.find_element("css selector", "desc").get_attribute("textContent")
    assert page.get_log("browser") == []
    events = [json.loads(e["message"])["message"] for e in page.get_log("performance")]
    sent = [(e["params"]["documentURL"], e["params"]["request"]["url"]) for e in events
            if e["method"] == "Network.requestWillBeSent"]  # fmt: skip
    assert [asked for page_, asked in sent if page_ == url(path)] == [url(path)]
    others = {asked.partition(":")[0] for page_, asked in sent if page_ != url(path)}
    assert others <= {"chrome", "data"}  # the browser's own first page, perhaps still loading


def test_offline(chromium, path):
    nothing = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    chromium.execute_cdp_cmd("Network.enable", {})
    chromium.execute_cdp_cmd("Network.emulateNetworkConditions", nothing)
    try:
        chromium.get(url(path))
        assert chromium.execute_script("return document.documentElement.dataset.ready") == "yes"
    finally:
        usual = {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
        chromium.execute_cdp_cmd("Network.emulateNetworkConditions", {**nothing, **usual})


def test_a_variant_is_switched_off_and_on(page):
    first = some(page, "input[data-switch]")[0]
    lines = [len(some(page, f"{PEAK}path.v{i}")) for i in (0, 1)]
    assert min(lines) >= 4
    first.click()
    assert not some(page, PEAK + "path.v0") and len(some(page, PEAK + "path.v1")) == lines[1]
    assert not any(f.is_displayed() for f in some(page, 'figure[data-variant="0"]'))
    assert all(f.is_displayed() for f in some(page, 'figure[data-variant="1"]'))
    first.send_keys(" ")  # by keyboard
    assert [len(some(page, f"{PEAK}path.v{i}")) for i in (0, 1)] == lines
    assert all(f.is_displayed() for f in some(page, 'figure[data-variant="0"]'))


def test_zoom_by_buttons_keys_and_mouse(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    whole = ticks(page)
    span = whole[-1] - whole[0]
    one(page, PEAK + 'button[data-do="zoom in"]').click()
    near = ticks(page)
    assert near[-1] - near[0] < 0.6 * span and near[0] > whole[0]
    one(page, PEAK + "button[data-do=later]").click()
    assert ticks(page)[0] > near[0]
    one(page, PEAK + 'button[data-do="whole axis"]').click()
    assert ticks(page) == whole
    canvas = one(page, PEAK + ".canvas")
    canvas.send_keys("+")
    assert ticks(page)[-1] - ticks(page)[0] < 0.6 * span
    canvas.send_keys("0")
    assert ticks(page) == whole
    ActionChains(page).move_to_element_with_offset(canvas, -100, 0).click_and_hold().move_by_offset(
        200, 0
    ).release().perform()
    assert ticks(page)[-1] - ticks(page)[0] < 0.5 * span
    canvas.send_keys(Keys.ESCAPE)
    assert ticks(page) == whole


def test_arrow_keys_read_the_values(page, path):
    from selenium.webdriver.common.keys import Keys

    canvas, readout = one(page, PEAK + ".canvas"), one(page, PEAK + ".readout")
    assert readout.get_attribute("aria-live") == "polite" and "arrow keys" in readout.text
    canvas.send_keys(Keys.ARROW_RIGHT)
    head, *rows = [[c.text for c in row.find_elements("css selector", "th, td")]
                   for row in some(page, PEAK + ".readout tr")]  # fmt: skip
    minute = float(head[0].removesuffix(" min"))
    chart = read(path.read_text()).chart("peak")
    whole = chart["x"]["max"]
    assert 0.4 * whole < minute < 0.6 * whole
    live = chart["panels"][1]["marks"]
    for mark, row in zip(live, [r for r in rows if r[0] != "all"], strict=True):
        at = min(range(len(mark["x"])), key=lambda i: abs(mark["x"][i] - minute))
        near = [mark["y"][i] for i in range(max(at - 1, 0), at + 2)]  # the head is rounded
        assert float(row[head.index("live streams")]) in [pytest.approx(v, abs=0.006) for v in near]


def test_a_stall_tells_its_cause(page, path):
    charts = [c for c in read(path.read_text()).data["charts"] if c.get("stalls")]
    chart = charts[0]
    longest = max(chart["stalls"], key=lambda s: s["x1"] - s["x"])
    rect = one(page, f"rect[data-stall={longest['id']}]")
    assert rect.get_attribute("role") == "button" and rect.get_attribute("tabindex") == "0"
    page.execute_script("arguments[0].focus()", rect)
    page.switch_to.active_element.send_keys("\n")
    cause = one(page, f"#{chart['id']}-cause").text
    assert cause == longest["label"] and "mostly" in cause
    row = one(page, f"tr#{longest['id']}")
    assert "chosen" in row.get_attribute("class") and not row.is_displayed()
    some(page, f"figure:has(.chart[data-chart={chart['id']}]) summary")[0].click()
    assert row.is_displayed()
    before = one(page, f".chart[data-chart={chart['id']}] svg").get_attribute("innerHTML")
    row.find_element("css selector", "button").click()
    after = one(page, f".chart[data-chart={chart['id']}] svg").get_attribute("innerHTML")
    assert before != after


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_readable(page, scheme):
    """Text against its background: at least 4.5 to 1 (WCAG 2.1, 1.4.3)."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        shade = """
          const [inside, behind] = arguments;
          const style = (s, key) => getComputedStyle(document.querySelector(s))[key];
          return [style(inside, inside.includes('text') ? 'fill' : 'color'),
                  style(behind, 'backgroundColor')];"""
        for inside, behind in [("p.verdict", "html"), ("p.faint", "html"), ("nav a", "html"),
                               (".callout li", ".callout"), ("text.tick", ".chart"),
                               ("td .good, th .good", "html"), ("td .bad", "html")]:  # fmt: skip
            text, paper = (luminance(c) for c in page.execute_script(shade, inside, behind))
            ratio = (max(text, paper) + 0.05) / (min(text, paper) + 0.05)
            assert ratio >= 4.5, (inside, ratio)
            if behind == "html":
                assert (paper > 0.5) == (scheme == "light")
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def luminance(colour):
    """Relative luminance of rgb(r, g, b) (WCAG 2.1)."""
    parts = [int(c) / 255 for c in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_print_leaves_out_what_paper_cannot_do(page):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        for selector in ("nav", ".tools", ".readout"):
            assert not some(page, selector)[0].is_displayed()
        assert all(svg.is_displayed() for svg in some(page, ".chart svg"))
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    pdf = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert pdf["data"].startswith("JVBERi")  # %PDF
    folds = "return [...document.querySelectorAll(arguments[0])].map(d => d.open)"
    assert set(page.execute_script(folds, "details.paper")) == {True}


def test_hostile_names_do_not_run(chromium, result, tmp_path):
    (base,) = [s for n, s in result.file.variants.items() if n == "cap"]
    named = {HOSTILE: base.model_copy(update={"title": HOSTILE})}
    outcomes = [replace(o, variant=HOSTILE) for o in result.outcomes if o.variant == "cap"]
    hostile = replace(result, file=ScenarioFile(result.file.path, named), outcomes=outcomes)
    path = tmp_path / "report.html"
    path.write_text(run_page(hostile))
    chromium.get_log("browser")
    chromium.get(url(path))
    assert chromium.title == HOSTILE
    assert chromium.execute_script("return document.documentElement.dataset.ready") == "yes"
    assert not some(chromium, "img") and len(some(chromium, "script")) == 2
    assert chromium.get_log("browser") == []
