"""The shipped profiles, played as their ladders were measured."""

from functools import cache
from pathlib import Path

from voicesim.engine.profile import Profile, load_profile
from voicesim.experiment.published import Ladder, read_ladder
from voicesim.experiment.served import Served, serve

HOME = Path(__file__).resolve().parents[2] / "calibration"


@cache
def ladder(name: str) -> Ladder:
    return read_ladder(HOME / "measured" / "ladders" / f"{name}.csv")


@cache
def profile(name: str) -> Profile:
    return load_profile(HOME / "profiles" / f"{name}.yaml")


@cache
def played(name: str, level: int, run: str = "") -> Served:
    load = ladder(name).load(profile(name), run, level)
    return serve(load, ladder(name).kind, level, seed=0, least=100)


def value(name: str, level: int, metric: str, run: str = "") -> float:
    return played(name, level, run).value(metric, "mean", ladder(name).after_first)
