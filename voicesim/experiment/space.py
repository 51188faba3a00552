"""From settings of varied keys to scenarios: one variant of a file under overrides."""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from voicesim.engine.profile import Profile, ProfileError, load_profile
from voicesim.engine.transform import transformed
from voicesim.experiment.metrics import ExperimentError, chosen
from voicesim.policy.python import PolicyError
from voicesim.scenario import Scenario, ScenarioErrors, ScenarioFile, loads
from voicesim.scenario.cluster import Pool
from voicesim.scenario.loader import misplaced
from voicesim.simulation import ModelError, playable

IDLE = ("title", "replications")
"""Keys that no run depends on."""


class SettingError(ExperimentError):
    """A value that the scenario refuses.  key: which one, in full; message: why."""

    def __init__(self, key: str, message: str):
        self.key, self.message = key, message
        super().__init__(f"{key}: {message}" if key else message)


class Space:
    """The scenarios that one variant of a file becomes; ``notes``: what was done unasked."""

    def __init__(self, file: ScenarioFile, variant: str | None):
        self.variant = chosen(variant or file.baseline, list(file.variants), "variant")
        self.base = file.variants[self.variant]
        self.path = file.path
        self.notes: list[str] = []
        self._text = yaml.safe_dump(self.base.written(), sort_keys=False)
        self._variants = dict(file.variants)
        self._profiles: dict[Path, Profile] = {}

    def known(self, key: str, written: str = "") -> None:
        """Raise SettingError for a key that the scenario has not, or that changes no run.

        written: the values that were asked for (8..40), to say the option that has the key.
        """
        if key in IDLE:
            raise SettingError(key, "no run depends on it")
        if message := misplaced(self.base, key):
            slip = "did you mean" in message
            raise SettingError(key, message + self._elsewhere(key, written, not slip))

    def _elsewhere(self, key: str, written: str = "", any_near: bool = False) -> str:
        """The variants that have a key that the base lacks, or one near it; any_near: or the only
        key that they have in its place."""
        above, _, last = key.rpartition(".")
        here = _at(self.base.resolved(), above)
        if last in here:
            return ""
        found: dict[str, list[str]] = {}
        for name, scenario in self._variants.items():
            new = [k for k in _at(scenario.resolved(), above) if k not in here]
            near = difflib.get_close_matches(last, new, n=1, cutoff=0.6)
            if not near and len(new) == 1 and any_near:
                near = new
            if near:
                found.setdefault(near[0], []).append(name)
        if not found:
            return ""
        step = last if last in found else next(iter(found))
        names, right = found[step], f"{above}.{step}" if above else step
        which = f"variant{'s' if len(names) > 1 else ''} {', '.join(names)}"
        option = f" --vary {right}={written}" if written else ""
        return f"; in {which} it is {right}: give --variant {names[0]}{option}"

    def scenario(self, values: Mapping[str, str]) -> Scenario:
        """The scenario with these keys set to these texts (YAML).  Raises SettingError."""
        sets = [f"{key}={text}" for key, text in values.items()]
        try:
            made = loads(
                self._text,
                self.path,
                self._cards(values) + sets,
                beside=list(self._variants.values()),
            )
        except ScenarioErrors as errors:
            first = errors.problems[0]
            hints = (self._elsewhere(key) for key in values)
            hint = next((text for text in hints if text), "")
            raise SettingError(first.key, first.message + hint) from None
        return made.variants[made.baseline]

    def playable(self, scenario: Scenario, profile: Profile | None = None) -> None:
        """Raise SettingError for a scenario that cannot be simulated (all pools on ``profile``)."""
        try:
            playable(
                scenario, lambda p: transformed(profile or self._profile(p), p.engine.transform)
            )
        except (ModelError, ProfileError, PolicyError) as problem:
            raise SettingError("", str(problem)) from None

    @property
    def profiles(self) -> list[Profile]:
        """The profiles of the pools, each once."""
        pools = [p for p in self.base.cluster.pools.values() if isinstance(p, Pool)]
        return list({p.engine.profile_path: self._profile(p) for p in pools}.values())

    @property
    def profile(self) -> Profile:
        """The profile of all pools.  Raises ExperimentError if there are several."""
        found = self.profiles
        if len(found) > 1:
            names = ", ".join(profile.name for profile in found)
            raise ExperimentError(f"{self.path}: the pools have several profiles: {names}")
        return found[0]

    def _profile(self, pool: Pool) -> Profile:
        """The profile of a pool, each file read once.  Raises ProfileError."""
        path = pool.engine.profile_path
        if path not in self._profiles:
            self._profiles[path] = load_profile(path)
        return self._profiles[path]

    def _cards(self, values: Mapping[str, str]) -> list[str]:
        """Overrides of gpus.count where more replicas need more cards than the file has."""
        cluster = self.base.cluster
        replicas = {}
        for name in cluster.pools:
            text = values.get(f"cluster.pools.{name}.replicas", "")
            if re.fullmatch(r"\d{1,6}", text, re.ASCII):
                replicas[name] = int(text)
        need = cluster.cards_needed(replicas)
        found = []
        for kind, cards in need.items():
            count, has = f"cluster.gpus.{kind}.count", cluster.gpus[kind].count
            if cards > has and count not in values:
                note = f"{count} ({has}) is raised where the replicas need more cards"
                if note not in self.notes:
                    self.notes.append(note)
                found.append(f"{count}={cards}")
        return found


def _at(resolved: Any, above: str) -> Mapping[str, Any]:
    """The mapping at a dotted path; empty where there is none."""
    for step in above.split(".") if above else ():
        resolved = resolved.get(step) if isinstance(resolved, dict) else None
    return resolved if isinstance(resolved, dict) else {}
