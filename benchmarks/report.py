"""Size of a run's report.html, and how long headless Chromium takes to open it from disk.

    python benchmarks/report.py [runs/holiday_peak/report.html]

Without a page, the holiday peak is played first.  Needs chromium, chromedriver and selenium (see
tests/report/chromium.py).  Aim: at most 5 MB, opened within 2 s.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
OPENED = """
const [page] = performance.getEntriesByType("navigation");
return [document.documentElement.dataset.ready, page.loadEventEnd];"""
TIMES = 5


def measure(page: Path) -> None:
    """Print the size, and the time until everything is drawn: the first and the best of several."""
    from tests.report.chromium import browser, url

    with browser() as driver:
        times = []
        for _ in range(TIMES):
            driver.get(url(page))
            ready, milliseconds = driver.execute_script(OPENED)
            assert ready == "yes", "the page's script did not come to its end"
            times.append(milliseconds / 1000)
    size = page.stat().st_size / 1e6
    print(f"{page}: {size:.2f} MB, drawn after {times[0]:.2f} s, at best {min(times):.2f} s")


def main() -> None:
    """Play what is missing, then measure."""
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]))
        return
    import voicesim

    with TemporaryDirectory() as place:
        voicesim.run(ROOT / "scenarios/holiday_peak.yaml", out=Path(place) / "run")
        measure(Path(place) / "run" / "report.html")


if __name__ == "__main__":
    main()
