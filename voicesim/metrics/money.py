"""What a run cost, what of it nobody heard, and what caches saved.

Cards are paid for the observed time, busy or not; what a pool costs is borne by the tokens that it
made, each alike, so a wasted one costs what a heard one does.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from voicesim.engine.cost import ATTENTION
from voicesim.metrics.dialogue_run import Played, Stage, Terms
from voicesim.metrics.summary import Value
from voicesim.scenario.prices import Bought
from voicesim.session import record as of

HOUR, MINUTE, MILLION = 3600.0, 60.0, 1e6


@dataclass
class Bill:
    """One stage's money.  total: None if its cards have no price.  interrupted: of the waste, that
    of answers that were interrupted.  saved: what its cache was worth."""

    total: Value
    waste: float = 0.0
    interrupted: float = 0.0
    saved: float = 0.0


@dataclass
class Counted:
    """The part of a run that is counted: calls after the warm-up, and all that belongs to them.

    calls, turns, units: rows of the tables.  answers: one row per answer of the tape
    (voicesim.metrics.dialogue_audio.answers); mine: bool[R], whether it is counted.
    """

    run: Played
    calls: pd.DataFrame
    turns: pd.DataFrame
    units: pd.DataFrame
    answers: pd.DataFrame
    mine: np.ndarray

    @property
    def interrupted(self) -> np.ndarray:
        """bool[R]: answers that something cut short or disturbed."""
        return self.run.record.answer_i[:, of.A_INTERRUPT] != of.NOTHING


def costs(counted: Counted) -> dict[str, Value]:
    """Money of a run; None: a card in use has no price, or there is nothing to divide by.

    gpus, bought, network, total: of the observed time.  per_call: of the accepted;
    per_clean_minute: total / minutes that CLEAN calls lasted.  per_1000_clean_calls.
    waste: speech and words made and not heard; interruptions: the part of it that interrupted
    answers left.  saved_by_phrases: what the cached phrases would have cost at this run's price of
    a token; saved_by_prefixes: what the prompt tokens found in the LLM's cache would have.
    """
    run, prices = counted.run, counted.run.terms.prices
    bills = {s.name: bill(counted, s) for s in run.terms.stages}
    own = [s for s in run.terms.stages if prices is None or s.name not in prices.bought]
    gpus = _sum([bills[s.name].total for s in own])
    bought = _sum([b.total for name, b in bills.items() if name not in {s.name for s in own}])
    carried = network(counted)
    total = _sum([gpus, bought, carried])
    accepted = int(counted.calls["accepted"].sum())
    clean = counted.calls[counted.calls["clean"]]
    minutes = float((clean["end_s"] - clean["start_s"]).sum()) / MINUTE
    llm = [bills[s.name] for s in run.terms.stages if s.kind == "llm"]
    voices = [bills[s.name] for s in run.terms.stages if s.kind in ("tts", "omni")]
    known = gpus is not None
    return {
        "gpus": gpus,
        "bought": bought,
        "network": carried,
        "total": total,
        "per_call": per(total, accepted),
        "per_1000_clean_calls": per(total, len(clean) / 1000.0),
        "per_clean_minute": per(total, minutes),
        "waste": sum(b.waste for b in bills.values()) if known else None,
        "interruptions": sum(b.interrupted for b in bills.values()) if known else None,
        "saved_by_phrases": sum(b.saved for b in voices) if known else None,
        "saved_by_prefixes": sum(b.saved for b in llm) if known else None,
    }


def per(money: Value, count: float) -> Value:
    """Money for each; None of none."""
    return None if money is None or not count else money / count


def _sum(parts: list[Value]) -> Value:
    known = [x for x in parts if x is not None]
    return sum(known) if len(known) == len(parts) else None


def hourly(terms: Terms, stage: Stage) -> Value:
    """Money for an hour of a stage's own cards; of a kind that several stages use, its share of
    all of them, so that no stage has the cheaper contracts to itself."""
    if not stage.cards:
        return 0.0
    prices = terms.prices
    if prices is None:
        return None if stage.per_hour is None else stage.per_hour * stage.cards
    alike = [s for s in terms.stages if s.card == stage.card and s.name not in prices.bought]
    every = sum(s.cards for s in alike)
    hour: Value = prices.hour(stage.card, every, stage.per_hour)
    return None if hour is None else hour * stage.cards / every


def bill(counted: Counted, stage: Stage) -> Bill:
    """What a stage costs, wastes and saves."""
    prices = counted.run.terms.prices
    if prices is not None and stage.name in prices.bought:
        return _bought(counted, stage, prices.bought[stage.name])
    hour = hourly(counted.run.terms, stage)
    if hour is None:
        return Bill(None)
    total = hour * counted.run.window / HOUR
    if stage.kind == "asr":
        return Bill(total)
    if stage.kind == "llm":
        made, lost, cut = _llm(counted, stage)
        return Bill(total, *_shares(total, made, lost, cut), _prefixes(counted, stage, total))
    made, lost, cut, cached = _voice(counted, stage, "generated_tokens", "tokens")
    saved = total * cached / made if made else 0.0
    return Bill(total, *_shares(total, made, lost, cut), saved)


def _shares(total: float, made: float, lost: float, cut: float) -> tuple[float, float]:
    return (total * lost / made, total * cut / made) if made else (0.0, 0.0)


def _llm(counted: Counted, stage: Stage) -> tuple[float, float, float]:
    """Tokens that an LLM pool made, that were not heard, and that interrupted answers left."""
    mine = counted.mine & (counted.run.tape.llm == stage.pool)
    lost = counted.answers["llm_tokens_wasted"].to_numpy()
    made = float(counted.answers["llm_tokens"].to_numpy()[mine].sum())
    return made, float(lost[mine].sum()), float(lost[mine & counted.interrupted].sum())


def _voice(
    counted: Counted, stage: Stage, column: str, whole: str
) -> tuple[float, float, float, float]:
    """Of a pool of voices: made, not heard, left by interrupted answers; and from the cache.

    column: what is counted of what was made.  whole: the same of a unit that came from the cache.
    """
    rows = counted.units[counted.units["stage"] == stage.pool]
    own = rows[~rows["cached"]]
    made = own[column].to_numpy(float)
    share = np.divide(own["wasted_s"], own["generated_s"], out=np.zeros(len(own)),
                      where=own["generated_s"].to_numpy() > 0)  # fmt: skip
    lost = made * share
    cut = counted.interrupted[own["answer"].to_numpy()]
    cached = rows[rows["cached"] & rows["sent"]]
    return (
        float(made.sum()),
        float(lost.sum()),
        float(lost[cut].sum()),
        float(cached[whole].sum()),
    )


def _prefixes(counted: Counted, stage: Stage, total: float) -> float:
    """What the prompt tokens in an LLM's cache would have cost: their prefill in steps as full as
    the budget allows, at the price of the pool's busy seconds."""
    run = counted.run
    spec, tape = run.spec.llm[stage.pool], run.tape
    busy = float(run.record.pools[stage.pool].busy["decode"].sum())
    if not busy:
        return 0.0
    asked = counted.mine & (tape.llm == stage.pool) & (run.record.answer_f[:, of.A_ASKED] >= 0)
    hit = tape.hit[asked].astype(float)
    each = float(spec.step.compute_s[-1]) / max(len(spec.step.compute_s) - 1, 1)
    pairs = float((hit * hit).sum()) / 2.0 * float(spec.step.params[ATTENTION])
    return total * (each * float(hit.sum()) + pairs) / busy


def _bought(counted: Counted, stage: Stage, price: Bought) -> Bill:
    """A stage that is paid by what counted calls used of it."""
    if stage.kind == "asr":
        return Bill(_number(price, "per_minute") * _heard_minutes(counted, price))
    if stage.kind == "llm":
        return _bought_llm(counted, stage, price)
    minute = _number(price, "per_minute") / MINUTE
    character = _number(price, "per_million_characters") / MILLION
    second = minute + character * _number(price, "characters_per_second")
    token = _number(price, "per_million_output") / MILLION
    audio = _voice(counted, stage, "generated_s", "generated_s")
    tokens = _voice(counted, stage, "generated_tokens", "tokens")
    found = [second * a + token * t for a, t in zip(audio, tokens, strict=True)]
    asked = 0.0
    if stage.kind == "omni":
        rows = counted.units[counted.units["stage"] == stage.pool]["answer"].to_numpy()
        asked = float(counted.run.tape.omni_prompt[rows].sum())
    found[0] += asked * _number(price, "per_million_input") / MILLION
    return Bill(*found)


def _bought_llm(counted: Counted, stage: Stage, price: Bought) -> Bill:
    run, tape = counted.run, counted.run.tape
    asked = counted.mine & (tape.llm == stage.pool) & (run.record.answer_f[:, of.A_ASKED] >= 0)
    full, out = (_number(price, f"per_million_{n}") / MILLION for n in ("input", "output"))
    given = price.per_million_cached
    cached = full if given is None else given / MILLION
    prompt, hit = float(tape.prompt[asked].sum()), float(tape.hit[asked].sum())
    made, lost, cut = _llm(counted, stage)
    total = (prompt - hit) * full + hit * cached + made * out
    return Bill(total, lost * out, cut * out, hit * (full - cached))


def _number(price: Bought, name: str) -> float:
    value = getattr(price, name)
    return 0.0 if value is None else float(value)


def _heard_minutes(counted: Counted, price: Bought) -> float:
    """Minutes that the recogniser is paid for."""
    if getattr(price, "billed") == "call":  # noqa: B009
        return _call_minutes(counted)
    rows = counted.turns
    spoken = rows.loc[rows["spoken_s"].notna()].index.to_numpy()
    return float(counted.run.tape.speech[spoken].sum()) / MINUTE


def _call_minutes(counted: Counted) -> float:
    calls = counted.calls
    end = calls["end_s"].fillna(counted.run.record.now)
    return float((end - calls["start_s"]).clip(lower=0.0).sum()) / MINUTE


def network(counted: Counted) -> float:
    """Money for the network: sound both ways as long as a call lasts."""
    prices = counted.run.terms.prices
    if prices is None or prices.network is None:
        return 0.0
    price, minutes = prices.network, _call_minutes(counted)
    gigabytes = 2 * minutes * MINUTE * price.kbit_per_second * 1e3 / 8 / 1e9
    return (price.per_minute or 0.0) * minutes + (price.per_gb or 0.0) * gigabytes
