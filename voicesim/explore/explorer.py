"""From what the page asks to what it shows; nothing here knows HTTP."""

import time
from collections.abc import Mapping
from typing import Any

from voicesim.experiment.metrics import ExperimentError
from voicesim.explore import answer
from voicesim.explore.player import Player, Side
from voicesim.explore.reduced import share_of, short
from voicesim.explore.sliders import CALLERS, Slider, overrides, sliders_of
from voicesim.explore.source import Source
from voicesim.metrics import dialogue_context
from voicesim.metrics.dialogue_terms import terms
from voicesim.report import dialogue_words, words
from voicesim.scenario import Scenario, ScenarioErrors

SEVERAL = 5
"""Replications once the sliders rest: enough for an interval, few enough to wait for."""
PLAYS = ("once", "both", "several", "whole")
"""once: the moved side alone, and what stands beside it if that is known already."""


class Wrong(ValueError):
    """A question that cannot be answered; one line."""


class Explorer:
    """length: simulated seconds that a move plays; None: what gives an answer at once.

    Raises ExperimentError for one that is no time.
    """

    def __init__(self, source: Source, length: float | None = None):
        if length is not None and length <= 0:
            raise ExperimentError("--length: must be more than 0")
        self.source = source
        self.sliders = {name: sliders_of(s) for name, s in source.variants.items()}
        self._share = share_of(source.variants.values(), length)
        self.shorts = {name: short(s, self._share) for name, s in source.variants.items()}

    def warm(self) -> Scenario:
        """The first variant, over after a few seconds: a run that loads what a run needs."""
        name = self.source.file.baseline
        seconds = min(5.0, self.shorts[name].length)
        cut = {"horizon": seconds, "warmup": 0, "drain": 1}
        arrivals: Any = self.source.variants[name].workload.arrivals
        if getattr(arrivals, "stagger", 0) >= seconds:
            cut["workload.arrivals.stagger"] = 0
        if arrivals.kind == "burst":
            cut["workload.arrivals.at"] = 0
        return self.source.moved(name, self.shorts[name].overrides, cut)

    def rehearse(self, player: Player) -> None:
        """Answer for the warm-up run, so that the first question finds everything loaded."""
        side = Side(("warm",), self.source.file.baseline, self.warm())
        outcomes = player.outcomes([side], 1)
        answer.figures(outcomes)
        answer.series(outcomes, [side.scenario])

    def state(self, variant: str) -> dict[str, Any]:
        """What the page begins with; variant: the one that its sliders move first."""
        names = list(self.source.variants)
        first = self.source.variants[variant]
        other = next((name for name in names if name != variant), variant)
        return {
            "title": first.title or self.source.path.name,
            "file": self.source.path.name,
            "clean": _clean(first),
            "live": "Live streams" if first.dialogue is None else "Calls on the line",
            "variant": variant,
            "beside": self.source.file.baseline if variant != names[0] else other,
            "several": SEVERAL,
            "variants": {
                name: {
                    "plays": self.shorts[name].says,
                    "whole": words.duration(self.source.variants[name].horizon),
                    "short": bool(self.shorts[name].overrides),
                    "replications": self.source.variants[name].replications,
                    "sliders": [_slider(each) for each in self.sliders[name].values()],
                }
                for name in names
            },
        }

    def answer(self, asked: Any, player: Player) -> dict[str, Any]:
        """Play what was asked.  Raises Wrong, Superseded and what ``simulate`` raises.

        asked: {variant, beside (a variant, or null), values (slider key: position), play}.
        """
        began = time.perf_counter()
        variant, beside, values, play = self._understood(asked)
        moves = self._moves(variant, values)
        sides, names = [self._side(variant, moves, play)], [variant + (", moved" if moves else "")]
        if beside is not None:
            same = self._moves(beside, self._callers(variant, values))
            side = self._side(beside, same, play)
            if play != "once" or player.knows(side):
                sides.append(side)
                names.append(beside + (", same callers" if same else ""))
        if play == "whole":
            replications = sides[0].scenario.replications
        else:
            replications = SEVERAL if play == "several" else 1
        outcomes = player.outcomes(sides, replications)
        scenarios = [side.scenario for side in sides]
        return {
            "names": names,
            "verdict": answer.verdict(names, outcomes),
            "rows": answer.figures(outcomes),
            "series": answer.series(outcomes, scenarios),
            "warnings": answer.warnings(outcomes, list(self.source.variants)),
            "played": self._played(variant, play, replications),
            "yaml": self.source.block(variant, moves),
            "seconds": time.perf_counter() - began,
        }

    def _played(self, variant: str, play: str, replications: int) -> str:
        runs = "one replication" if replications == 1 else f"{replications} replications"
        found = self.shorts[variant]
        if play != "whole" and found.overrides:
            return f"{runs} of {found.says}"
        return f"{runs} of the whole {words.duration(self.source.variants[variant].horizon)}"

    def _understood(self, asked: Any) -> tuple[str, str | None, dict[str, float], str]:
        if not isinstance(asked, dict) or set(asked) != {"variant", "beside", "values", "play"}:
            raise Wrong("expected variant, beside, values and play, and nothing else")
        variant, beside, values = asked["variant"], asked["beside"], asked["values"]
        for key, name in (("variant", variant), ("beside", beside)):
            if not (key == "beside" and name is None) and name not in list(self.sliders):
                raise Wrong(f"{key}: unknown variant; allowed: {', '.join(self.sliders)}")
        if asked["play"] not in PLAYS:
            raise Wrong(f"play: allowed: {', '.join(PLAYS)}")
        if not isinstance(values, dict):
            raise Wrong("values: expected a mapping of slider keys to numbers")
        known = self.sliders[variant]
        for key, number in values.items():
            if key not in known:
                raise Wrong(f"{key[:80]!r} is no slider of {variant}; allowed: {', '.join(known)}")
            if text := known[key].wrong(number):
                raise Wrong(text)
        return variant, beside, values, asked["play"]

    def _moves(self, variant: str, values: Mapping[str, float]) -> dict[str, Any]:
        return overrides(self.source.variants[variant], self.sliders[variant], values)

    def _callers(self, variant: str, values: Mapping[str, float]) -> dict[str, float]:
        """The moved sliders that say who calls."""
        own = self.sliders[variant]
        return {k: x for k, x in values.items() if own[k].group == CALLERS and x != own[k].value}

    def _side(self, variant: str, moves: Mapping[str, Any], play: str) -> Side:
        cut = {} if play == "whole" else self.shorts[variant].overrides
        try:
            scenario = self.source.moved(variant, moves, cut)
        except ScenarioErrors as errors:
            first = errors.problems[0]
            above = f"variants.{self.source.name_of(variant)}."
            raise Wrong(f"{first.key.removeprefix(above)}: {first.message}") from None
        return Side((variant, *sorted(moves.items()), bool(cut)), variant, scenario)


def _clean(scenario: Scenario) -> str:
    """What is CLEAN."""
    if scenario.dialogue is not None:
        rule = dialogue_words.clean_rule(dialogue_context.context(terms(scenario)))
        return f"{rule}, in every turn"
    within, over = scenario.slo.start_within, scenario.slo.no_stall_over
    return f"started within {words.duration(within)}, no stall over {words.duration(over)}"


def _slider(slider: Slider) -> dict[str, Any]:
    """A slider as the page draws it."""
    names = ("key", "label", "group", "value", "low", "high", "step", "unit")
    return {name: getattr(slider, name) for name in names}
