"""Money worked by hand: contracts, what was bought, waste and caches."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.dialogue.made import STAGES, UNSPOKEN, Call, Turn, heard, tables
from voicesim.engine import layout as at
from voicesim.metrics.dialogue import run_metrics
from voicesim.metrics.dialogue_run import Stage, Terms
from voicesim.scenario import load
from voicesim.scenario.prices import Prices, wrong_prices
from voicesim.session import record as of
from voicesim.study import run_study

GAPS = (0.03, 0.4, 0.06, 0.2, 0.15, 0.03, 0.05)
DAY = "2026-11-01"
CUT = heard(20.0, *GAPS, listened=1.0, interrupt=of.CALLER, outcome=of.CANCELLED)
"""4 s and 50 steps of speech, 20 tokens of text; 1 s of it is heard, so 3 s, 37.5 and 15 are not"""
CALLS = [
    Call([Turn(heard(10.0, *GAPS)), Turn(CUT)], end=60.0),
    Call([Turn(heard(10.0, 1.0, *GAPS[1:]))], end=90.0),  # too late to be CLEAN
    Call([Turn(UNSPOKEN)], outcome=at.REFUSED, start=-1.0, end=-1.0),
]
"""Two accepted of three; 5 units heard or not, 150 steps; 150 s of call, 60 s of them CLEAN."""


def cost(prices, calls=CALLS, stages=STAGES):
    given = None if prices is None else Prices.model_validate(prices)
    return run_metrics(tables(calls, Terms(stages=stages, prices=given)))["cost"]


def test_cards_at_the_scenario_s_own_price():
    """2 x 3.0 + 1 x 1.5 an hour for 100 s."""
    found = cost(None)
    total = 7.5 * 100 / 3600
    assert found["gpus"] == found["total"] == pytest.approx(total)
    assert found["per_call"] == pytest.approx(total / 2)
    assert found["per_clean_minute"] == pytest.approx(total / 1.0)
    assert found["per_1000_clean_calls"] == pytest.approx(total * 1000)


def test_waste_bears_what_was_made():
    """The LLM made 60 tokens, 15 for nobody; the voice 150 steps, 37.5 for nobody."""
    found = cost(None)
    llm, voice = 6.0 * 100 / 3600, 1.5 * 100 / 3600
    assert found["waste"] == pytest.approx(llm * 15 / 60 + voice * 37.5 / 150)
    assert found["interruptions"] == pytest.approx(found["waste"])
    hung_up = replace(CUT, interrupt=of.NOTHING, outcome=of.HUNG_UP)
    left = cost(None, [Call([Turn(heard(10.0, *GAPS)), Turn(hung_up)])])
    assert left["waste"] > 0.0
    assert left["interruptions"] == 0.0


def test_contracts_are_used_up_in_order():
    """Of 3 'big' cards one is owned, one reserved, the last on demand."""
    stages = (Stage("llm", "llm", 0, "big", 2, 3.0), Stage("tts", "tts", 1, "big", 1, 3.0))
    rows = [("owned", 1.0, 1), ("reserved", 2.0, 1), ("on_demand", 4.5, None)]
    cards = [
        {"card": "big", "tenure": t, "per_hour": p, "date": DAY, **({"cards": n} if n else {})}
        for t, p, n in rows
    ]
    assert cost({"cards": cards}, stages=stages)["gpus"] == pytest.approx(7.5 * 100 / 3600)
    two = cost({"cards": cards[:2]}, stages=stages)["gpus"]
    assert two == pytest.approx((1.0 + 2.0 + 3.0) * 100 / 3600)  # the third at cluster.gpus' price
    bare = tuple(replace(s, per_hour=None) for s in stages)
    none = cost({"cards": cards[:2]}, stages=bare)
    assert none["gpus"] is none["total"] is none["per_call"] is none["waste"] is None


def test_a_bought_llm():
    """3 answers of 1,000 prompt tokens, 600 of them cached, 60 tokens out; its cards are free."""
    hit = [replace(a, hit=600) for a in (CALLS[0].turns[0].answer, CUT, CALLS[1].turns[0].answer)]
    calls = [Call([Turn(hit[0]), Turn(hit[1])]), Call([Turn(hit[2])])]
    price = {"per_million_input": 2.0, "per_million_cached": 0.5, "per_million_output": 8.0}
    found = cost({"bought": {"llm": {**price, "date": DAY}}}, calls)
    assert found["bought"] == pytest.approx((1200 * 2.0 + 1800 * 0.5 + 60 * 8.0) / 1e6)
    assert found["saved_by_prefixes"] == pytest.approx(1800 * 1.5 / 1e6)
    assert found["gpus"] == pytest.approx(1.5 * 100 / 3600)
    voice = 1.5 * 100 / 3600 * 37.5 / 150
    assert found["waste"] == pytest.approx(15 * 8.0 / 1e6 + voice)


def test_a_bought_voice():
    """12 s of speech made, 3 s for nobody; by the minute, or by characters at 14 a second."""
    minute = cost({"bought": {"tts": {"per_minute": 0.06, "date": DAY}}})
    assert minute["bought"] == pytest.approx(0.2 * 0.06)
    text = {"per_million_characters": 15.0, "characters_per_second": 14, "date": DAY}
    characters = cost({"bought": {"tts": text}})
    assert characters["bought"] == pytest.approx(12 * 14 * 15 / 1e6)
    llm = 6.0 * 100 / 3600 * 15 / 60
    assert characters["waste"] == pytest.approx(3 * 14 * 15 / 1e6 + llm)
    cached = heard(10.0, *GAPS, cached=(0,), made=(0, 25))
    phrase = cost({"bought": {"tts": {"per_minute": 0.06, "date": DAY}}}, [Call([Turn(cached)])])
    assert phrase["bought"] == pytest.approx(2 / 60 * 0.06)
    assert phrase["saved_by_phrases"] == pytest.approx(2 / 60 * 0.06)


def test_a_bought_recogniser():
    """Calls of 150 s; the callers speak 2 s in each of three turns."""
    stages = (Stage("asr", "asr"), *STAGES)
    by_call = cost({"bought": {"asr": {"per_minute": 0.24, "date": DAY}}}, stages=stages)
    assert by_call["bought"] == pytest.approx(2.5 * 0.24)
    speech = {"per_minute": 0.24, "billed": "speech", "date": DAY}
    assert cost({"bought": {"asr": speech}}, stages=stages)["bought"] == pytest.approx(0.1 * 0.24)


def test_the_network():
    """2.5 minutes of call; both ways 80 kbit/s are 150 s x 20,000 bytes."""
    found = cost({"network": {"per_minute": 0.01, "per_gb": 0.1, "kbit_per_second": 80,
                              "date": DAY}})  # fmt: skip
    assert found["network"] == pytest.approx(2.5 * 0.01 + 150 * 20000 / 1e9 * 0.1)
    assert found["total"] == pytest.approx(found["gpus"] + found["network"])


def test_a_cached_phrase_saves_what_a_made_one_costs():
    """25 steps made for what the pool costs, 25 from the cache."""
    found = cost(None, [Call([Turn(heard(10.0, *GAPS, cached=(0,), made=(0, 25)))])])
    assert found["saved_by_phrases"] == pytest.approx(1.5 * 100 / 3600)


def test_a_cached_prefix_saves_its_prefill():
    """600 tokens of 10 us in full steps, of 40 busy seconds that cost 6/h for 100 s."""
    found = cost(None, [Call([Turn(heard(10.0, *GAPS, hit=600))])])
    assert found["saved_by_prefixes"] == pytest.approx(6.0 * 100 / 3600 * 600e-5 / 40)


@pytest.mark.parametrize(
    ("prices", "path", "says"),
    [
        ({"cards": [{"card": "bog"}]}, ("cards", 0, "card"), "did you mean 'big'"),
        ({"cards": [{"card": "big"}, {"card": "big", "cards": 2}]}, ("cards", 1), "never used"),
        ({"bought": {"llmm": {"per_minute": 1}}}, ("bought", "llmm"), "did you mean 'llm'"),
        ({"bought": {"llm": {"per_minute": 1}}}, ("bought", "llm", "per_minute"), "is billed by"),
        ({"bought": {"tts": {}}}, ("bought", "tts"), "has no price"),
        ({"bought": {"llm": {"per_million_cached": 1}}}, ("bought", "llm"), "has no price"),
        (
            {"bought": {"tts": {"per_minute": 1, "characters_per_second": 14}}},
            ("bought", "tts", "characters_per_second"), "never used",
        ),
        ({"bought": {"tts": {"per_minute": 1, "billed": "call"}}}, ("bought", "tts", "billed"),
         "never used"),
        ({"network": {}}, ("network",), "has no price"),
        ({"network": {"per_minute": 1, "kbit_per_second": 24}}, ("network", "kbit_per_second"),
         "never used"),
    ],
)  # fmt: skip
def test_prices_that_do_not_fit_the_cluster(prices, path, says):
    for each in prices.get("cards", []):
        each |= {"tenure": "owned", "per_hour": 1, "date": DAY}
    for each in [*prices.get("bought", {}).values(), *([prices["network"]] if "network" in prices
                                                       else [])]:  # fmt: skip
        each["date"] = DAY
    given = Prices.model_validate(prices)
    found = list(wrong_prices(given, {"big": 0, "small": 0}, {"llm": "llm", "tts": "tts"}))
    assert [p for p, _ in found] == [path]
    assert says in found[0][1]


@pytest.mark.parametrize("day", ["", "2026-13-01", "last week", 2026, None])
def test_every_price_has_a_date(day):
    row = {"card": "big", "tenure": "owned", "per_hour": 1, "date": day}
    if day == "":
        del row["date"]
    with pytest.raises(ValueError, match="date"):
        Prices.model_validate({"cards": [row]})


def test_a_date_is_read_as_yaml_gives_it():
    import datetime

    row = {"card": "big", "tenure": "owned", "per_hour": "2.1/h"}
    for day in (datetime.date(2026, 11, 1), "2026-11-01"):
        prices = Prices.model_validate({"cards": [{**row, "date": day}]})
        assert prices.days == ["2026-11-01"]
        assert Prices.model_validate(prices.model_dump()) == prices


def test_the_shipped_prices_by_hand():
    """Make or buy, in short: the same calls in every variant; the telephone and the recogniser by
    the minute of the call, the voice by 15 characters a second, cards by the hour."""
    path = Path(__file__).parents[2] / "scenarios" / "make_or_buy.yaml"
    result = run_study(load(path, ["horizon=120s", "warmup=60s", "drain=60s"]), workers=1)
    found = {name: result.of(name)[0].metrics for name in result.file.variants}
    assert len({m["clean_share"] for m in found.values()}) == 1
    costs = {name: m["cost"] for name, m in found.items()}
    minutes = costs["own"]["network"] / 0.0085
    assert costs["own"]["bought"] == 0.0
    assert costs["own"]["gpus"] == pytest.approx((3 * 2.69 + 0.78) * 60 / 3600)
    assert costs["bought_ears"]["bought"] == pytest.approx(0.0048 * minutes)
    assert costs["bought_ears"]["gpus"] == pytest.approx(3 * 2.69 * 60 / 3600)
    assert costs["bought_model"]["gpus"] == pytest.approx((2 * 2.69 + 0.78) * 60 / 3600)
    assert costs["bought_voice"]["gpus"] == pytest.approx((2.69 + 0.78) * 60 / 3600)
    assert 0 < costs["bought_voice"]["bought"] < 15e-6 * 15 * 60 * minutes  # not all is speech
    assert all(c["network"] == costs["own"]["network"] for c in costs.values())
