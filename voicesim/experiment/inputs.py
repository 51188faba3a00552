"""What a tornado moves: keys of the scenario and numbers of its profile, each to two ends."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from voicesim.engine.profile import Profile, dump_profile
from voicesim.experiment.metrics import ExperimentError, chosen
from voicesim.experiment.perturb import GIVEN, Still, moves, perturbed, quantities
from voicesim.experiment.space import SettingError, Space
from voicesim.experiment.vary import Axis, axis_of, short
from voicesim.experiment.work import Job, jobs_of
from voicesim.scenario.units import duration

BASE, LOW, HIGH = "base", "low", "high"
PROFILE = "profile."


@dataclass(frozen=True)
class Input:
    """What is moved.

    low, high: its ends as they are shown.  why: given, interval (of the profile's number) or a
    share that was assumed.  jobs: the runs at the low and at the high end.
    """

    name: str
    low: str
    high: str
    why: str
    jobs: tuple[list[Job], list[Job]]


def inputs_of(
    space: Space, vary: Sequence[str], assume: float | None, replications: int
) -> tuple[list[Input], list[Still]]:
    """The inputs, those that were given first, and the numbers of the profile that stay.

    Raises ExperimentError for what cannot be moved there.
    """
    axes = [(axis_of(text), text) for text in vary]
    for axis, text in axes:
        _sound(axis, text, [a.key for a, _ in axes])
    if space.base.dialogue is not None:
        return _of_dialogue(space, axes, assume, replications), []
    profile = space.profile
    own = {a.key.removeprefix(PROFILE): (a, t) for a, t in axes if a.key.startswith(PROFILE)}
    given = {key: _numbers(axis, text, profile) for key, (axis, text) in own.items()}
    moved, still = moves(profile, assume, given)
    found = [
        _of_scenario(space, axis, text, replications)
        for axis, text in axes if not axis.key.startswith(PROFILE)
    ]  # fmt: skip
    for move in moved:
        name = PROFILE + move.key
        low, high = (
            _of_profile(space, profile, move.key, x, f"{name} {end}", replications)
            for x, end in ((move.low, LOW), (move.high, HIGH))
        )
        found.append(Input(name, f"{move.low:.4g}", f"{move.high:.4g}", move.why, (low, high)))
    return found, still


def _of_dialogue(
    space: Space, axes: Sequence[tuple[Axis, str]], assume: float | None, replications: int
) -> list[Input]:
    """Keys of a scenario of dialogues, whose stages have a profile each."""
    ours = [text for axis, text in axes if axis.key.startswith(PROFILE)]
    if ours or assume is not None:
        what = f"--vary {ours[0]}" if ours else "--assume"
        text = "each stage of a dialogue has a profile of its own; give keys of the scenario"
        raise ExperimentError(f"{what}: {text}")
    return [_of_scenario(space, axis, text, replications) for axis, text in axes]


def share_of(text: str) -> float:
    """A share over 0 and under 1, of 20% or 0.2.  Raises ExperimentError."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)\s*", text, re.ASCII)
    share = float(found[1]) / (100.0 if found[2] else 1.0) if found else 0.0
    if not 0.0 < share < 1.0:
        raise ExperimentError(
            f"--assume {text}: expected a share such as 20%, over 0 and under 100%"
        )
    return share


def _sound(axis: Axis, text: str, keys: Sequence[str]) -> None:
    if keys.count(axis.key) > 1:
        raise ExperimentError(f"--vary {axis.key}: given twice")
    if axis.low is None or axis.high is None or axis.stepped:
        raise ExperimentError(f"--vary {text}: expected KEY=LOW..HIGH: both ends, no step")
    if axis.high <= axis.low:
        raise ExperimentError(f"--vary {text}: the range is empty: HIGH must be above LOW")


def _of_scenario(space: Space, axis: Axis, text: str, replications: int) -> Input:
    """A key of the scenario at both ends of a range."""
    assert axis.ends is not None
    jobs = []
    for end, value in zip((LOW, HIGH), axis.ends, strict=True):
        try:
            space.known(axis.key, text.partition("=")[2].strip())
            scenario = space.scenario({axis.key: value})
            space.playable(scenario)
        except SettingError as problem:
            raise ExperimentError(f"--vary {text}: {problem}") from None
        jobs.append(jobs_of(f"{short(axis.key)} {end}", scenario, replications))
    return Input(short(axis.key), *axis.ends, GIVEN, (jobs[0], jobs[1]))


def _of_profile(
    space: Space, profile: Profile, key: str, value: float, name: str, replications: int
) -> list[Job]:
    """The base on a profile with one number moved."""
    moved = perturbed(profile, key, value)
    try:
        space.playable(space.base, moved)
    except SettingError as problem:
        raise ExperimentError(f"{PROFILE}{key} = {value:g}: {problem}") from None
    return jobs_of(name, space.base, replications, dump_profile(moved).encode())


def _numbers(axis: Axis, text: str, profile: Profile) -> tuple[float, float]:
    """The ends of a range for a number of the profile: plain, or times with a unit."""
    key = axis.key.removeprefix(PROFILE)
    names = [name for name, _ in quantities(profile)]
    chosen(key, names, f"--vary {text}: number of profile {profile.name}")
    assert axis.low is not None and axis.high is not None and axis.ends is not None
    if not axis.unit:
        return float(axis.low), float(axis.high)
    if not key.endswith("_s"):
        raise ExperimentError(f"--vary {text}: {key} is no time: give plain numbers")
    try:
        return duration(axis.ends[0]), duration(axis.ends[1])
    except ValueError as problem:
        raise ExperimentError(f"--vary {text}: {problem}") from None
