"""How near the simulator comes to a published voice agent at loads that it was not fitted to.

    python benchmarks/cascade.py [--write]

Fits the stages at 1 and 16 clients, predicts every load and prints the table; --write keeps the
fitted stages in calibration/cascades.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

from voicesim.experiment.cascade import WHOLE, fit, read_cascade, table
from voicesim.files import write_json

HOME = Path(__file__).resolve().parents[1]
NAME = "nemotron-voice-agent-h100"
FITTED_AT = (1, 16)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--write", action="store_true")
    settings, figures = read_cascade(HOME / "calibration/measured/cascades" / f"{NAME}.csv")
    fitted = fit(settings, figures, FITTED_AT)
    found = table(settings, figures, fitted)
    print(found.round(4).to_string(index=False))
    unseen = found[(found["metric"] == WHOLE) & ~found["clients"].isin(FITTED_AT)]
    print(f"whole turn at loads not fitted: within {100 * unseen['error'].abs().max():.1f} %")
    if options.parse_args().write:
        write_json(HOME / "calibration/cascades" / f"{NAME}.json", asdict(fitted))


if __name__ == "__main__":
    main()
