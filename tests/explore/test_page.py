"""The page in a browser: it draws what the model gives, and says so to everyone.

Skipped where there is no browser (tests.report.chromium).
"""

import threading
import time

import pytest

from tests import small
from tests.report.chromium import browser
from voicesim.explore.explorer import Explorer
from voicesim.explore.page import page_of
from voicesim.explore.player import Player
from voicesim.explore.server import Server
from voicesim.explore.source import Source
from voicesim.metrics import fleet
from voicesim.report import words
from voicesim.scenario import load
from voicesim.simulation import simulate

RATE, CAP = "workload.arrivals.rate", "policies.admission.streams"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """(driver with the page open, path of the scenario)."""
    folder = tmp_path_factory.mktemp("page")
    explorer = Explorer(Source(small.write(folder)), length=20.0)
    with browser() as driver, Player(explorer.warm(), workers=1) as player:
        player.ready()
        server = Server(
            0,
            lambda nonce: page_of(explorer.state("cap"), nonce),
            lambda asked: explorer.answer(asked, player),
        )
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        driver.get(server.url)
        settled(driver)
        yield driver, explorer.source.path
        server.shutdown()
        server.server_close()


def script(driver, text, *arguments):
    return driver.execute_script(f"return {text}", *arguments)


def settled(driver, play="several", after=0):
    """Wait until the newest answer of a kind is drawn and nothing is asked any more."""
    text = """(() => { const a = document.getElementById('answer');
        return a.dataset.play === arguments[0] && Number(a.dataset.count) > arguments[1]
            && !a.hasAttribute('aria-busy'); })()"""
    for _ in range(1200):
        if script(driver, text, play, after):
            return
        time.sleep(0.05)
    raise AssertionError(script(driver, "document.body.innerText"))


def count(driver):
    return int(script(driver, "document.getElementById('answer').dataset.count"))


def move(driver, key, number):
    """Move a slider as a hand does, and wait until several replications are drawn."""
    before = count(driver)
    driver.execute_script(
        "const s = document.getElementById('slider-' + arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input', {bubbles: true}));",
        key, number,
    )  # fmt: skip
    settled(driver, after=before)


def cells(driver, metric):
    row = f"tr[data-metric={metric}] td"
    return script(driver, f"[...document.querySelectorAll('{row}')].map(c => c.textContent)")


def test_it_is_drawn_without_a_complaint(world):
    driver, _ = world
    assert script(driver, "document.title") == "Small - voicesim explore"
    verdict = script(driver, "document.getElementById('verdict').textContent")
    assert verdict.startswith("cap keeps ") and "of all offered calls CLEAN, admit_all" in verdict
    assert script(driver, "document.querySelectorAll('#charts svg path').length") == 8
    paths = script(driver, "[...document.querySelectorAll('#charts path')].map(p => p.outerHTML)")
    assert all("NaN" not in path for path in paths)
    assert "20 s of 60 s" in script(driver, "document.getElementById('about').textContent")
    assert [e for e in driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")] == []


def test_nothing_is_fetched_from_elsewhere(world):
    driver, _ = world
    names = script(driver, "performance.getEntriesByType('resource').map(e => e.name)")
    origin = script(driver, "location.origin")
    assert names and all(name.startswith(origin) for name in names)


def test_a_move_shows_what_simulate_gives(world):
    driver, path = world
    driver.execute_script("document.getElementById('beside').value = '';"
                          "document.getElementById('beside').onchange();")  # fmt: skip
    move(driver, CAP, 3)
    move(driver, RATE, 9)
    sets = ["horizon=20s", "warmup=5s", "workload.arrivals.rate=9/s",
            "policies.admission={kind: cap, streams: 3}"]  # fmt: skip
    scenario = load(path, sets).variants["admit_all"]
    parts = [fleet.part_of(simulate(scenario, r)) for r in range(5)]
    metrics = [fleet.metrics_of([part], scenario) for part in parts]
    mean = sum(m["refused"] / m["offered"] for m in metrics) / 5
    assert mean > 0.1
    assert cells(driver, "refused")[0].split()[0] == words.percent(mean)
    mean = sum(m["ttfa_p50_s"] for m in metrics) / 5
    assert cells(driver, "ttfa_p50_s")[0].split()[0] == words.milliseconds(mean)
    assert script(driver, "document.querySelectorAll('.slider.moved').length") == 2
    driver.execute_script("document.getElementById('beside').value = 'admit_all';"
                          "document.getElementById('reset').click()")  # fmt: skip


def test_the_yaml_on_the_page_is_a_variant_that_check_takes(world, tmp_path):
    driver, path = world
    move(driver, CAP, 4)
    block = script(driver, "document.getElementById('yaml').value")
    assert "streams: 4}" in block
    small.write(tmp_path)
    pasted = tmp_path / "pasted.yaml"
    pasted.write_text(path.read_text() + block.removeprefix("variants:\n"))
    made = load(pasted).variants["cap_explored"]
    assert made.policies.admission.streams == 4
    driver.execute_script("document.getElementById('reset').click()")


def test_it_works_by_keyboard_and_says_what_it_shows(world):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    driver, _ = world
    settled(driver)
    slider = driver.find_element(By.ID, f"slider-{CAP}")
    before = count(driver)
    slider.send_keys(Keys.ARROW_LEFT)
    settled(driver, after=before)
    assert slider.get_attribute("aria-valuetext") == "5"
    assert slider.accessible_name == "Cap, live streams per replica"
    assert "cap, moved" in script(driver, "document.getElementById('verdict').textContent")
    assert script(driver, "document.getElementById('verdict').ariaLive") == "polite"
    unnamed = script(
        driver,
        """[...document.querySelectorAll('input, select, textarea, button, svg[role=img]')].filter(
            e => !(e.labels && e.labels.length) && !e.textContent.trim()
                && !e.ariaLabel && !e.getAttribute('aria-labelledby')).map(e => e.outerHTML)""",
    )
    assert unnamed == []


def test_a_refusal_is_shown_and_the_next_move_clears_it(world):
    driver, _ = world
    settled(driver)
    driver.execute_script("document.getElementById('beside').add(new Option('x', 'no such'));"
                          "document.getElementById('beside').value = 'no such';"
                          "document.getElementById('beside').onchange();")  # fmt: skip
    for _ in range(400):
        if script(driver, "!document.getElementById('problem').hidden"):
            break
        time.sleep(0.05)
    text = script(driver, "document.getElementById('problem').textContent")
    assert text == "beside: unknown variant; allowed: admit_all, cap"
    driver.execute_script("document.getElementById('beside').value = 'admit_all';")
    move(driver, CAP, 6)
    assert script(driver, "document.getElementById('problem').hidden")
