"""What a report says around the numbers of dialogues."""

from typing import Any

from voicesim.engine.asr_spec import ASR_KINDS
from voicesim.metrics.dialogue_run import Terms
from voicesim.metrics.money import hourly
from voicesim.session.spec import CANCELS, DialogueSpec


def context(terms: Terms) -> dict[str, Any]:
    """Tenants with their limits, and the prices' currency and dates, as plain data."""
    prices = terms.prices
    return {
        "tenants": {
            t.name: {
                "start_within": t.start_within,
                "no_stall_over": t.no_stall_over,
                "budget": {
                    part: {"limit": a.limit, "owner": a.owner} for part, a in t.budget.items()
                },
            }
            for t in terms.tenants
        },
        "prices": {
            "unit": f" ({prices.currency})" if prices and prices.currency else "",
            "days": prices.days if prices else [],
        },
    }


def assumptions(terms: Terms, spec: DialogueSpec) -> list[str]:
    """What the numbers of dialogues take for granted, a sentence each."""
    rest = "drops" if spec.flush else "plays"
    found = [
        "instants are rounded to nanoseconds, so that the segments of a turn add up to its total",
        "units of an answer are heard in their order, so what was not heard is its end",
        f"an interruption counts after {spec.detect:g} s of voice; cancel: {CANCELS[spec.cancel]}; "
        f"the client {rest} what it holds",
    ]
    median, sigma = terms.hello
    found.append(
        f'"hello?": after a lognormal silence of median {median:g} s, sigma {sigma:g} (assumed); '
        "it changes nothing in the run"
    )
    if spec.asr is None:
        found.append("no recogniser: the words of a turn are there when it is decided to be over")
    else:
        found.append(f"the recogniser is of kind {ASR_KINDS[spec.asr.kind]}")
    found += terms.stated
    bought = [s.name for s in terms.stages if terms.prices and s.name in terms.prices.bought]
    if bought:
        found.append(f"bought by use, its cards cost nothing here: {', '.join(bought)}")
    voices = [n for n in bought if (p := terms.prices) and p.bought[n].per_million_characters]
    for name in voices:
        rate = terms.prices.bought[name].characters_per_second if terms.prices else 0.0
        found.append(f"{name}: {rate:g} characters in a second of speech")
    unpriced = {s.card for s in terms.stages if s.name not in bought and hourly(terms, s) is None}
    if unpriced:
        found.append(f"the cost is unknown: no price of a card {', '.join(sorted(unpriced))}")
    if any(s.per_hour is not None for s in terms.stages) or terms.prices:
        found.append(
            "cards are paid for the observed time; a token made and not heard bears the same share "
            "of it as one that was"
        )
    return found
