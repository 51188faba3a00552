"""The tables on a terminal and the waterfall, of a run composed by hand."""

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from tests.dialogue.made import STAGES, UNSPOKEN, Call, Turn, heard, tables
from voicesim.engine import layout as at
from voicesim.metrics.dialogue import run_metrics
from voicesim.metrics.dialogue_context import assumptions, context
from voicesim.metrics.dialogue_run import SEGMENTS, Allowance, Tenant, Terms
from voicesim.metrics.summary import aggregate, flat
from voicesim.report.dialogue_figure import draw, waterfall_figure
from voicesim.report.dialogue_table import hearing, print_dialogues
from voicesim.scenario.prices import Prices
from voicesim.session import record as of

GAPS = (0.03, 0.4, 0.06, 0.2, 0.15, 0.03, 0.05)
CARDS = [{"card": c, "tenure": "owned", "per_hour": p, "date": "2026-10-01"}
         for c, p in (("big", 3), ("small", 2))]  # fmt: skip
PRICES = Prices.model_validate({"currency": "USD", "cards": CARDS})
TERMS = Terms(
    (Tenant("gold", 1.0, 0.1, {"llm": Allowance(0.15, "ml")}), Tenant("free", 2.0)),
    STAGES, prices=PRICES,
)  # fmt: skip


def metrics(*extra, slow=0.0):
    gaps = (0.03, 0.4, 0.06, 0.2 + slow, 0.15, 0.03, 0.05)
    cut = heard(20.0, *gaps, listened=1.0, interrupt=of.CALLER, outcome=of.CANCELLED,
                at={"stopped": 22.5})  # fmt: skip
    fine, after = heard(10.0, *gaps), heard(24.0, *gaps, at={"speak": 22.0})
    return run_metrics(tables([Call([Turn(fine), Turn(cut), Turn(after)]), *extra], TERMS))


def shown(summary, width=120, **changes):
    played = tables([], TERMS)
    given = {"title": "By hand", "replications": 1, "horizon": 100.0, "seed": 7, "warnings": [],
             "assumptions": assumptions(TERMS, played.run.spec), **context(TERMS),
             **changes}  # fmt: skip
    file = io.StringIO()
    print_dialogues(summary, given, Console(file=file, width=width))
    return file.getvalue()


def test_a_study_of_one_run():
    refused = Call([Turn(UNSPOKEN)], outcome=at.REFUSED, start=-1.0, end=-1.0, tenant=1)
    text = shown({"only": aggregate([metrics(refused)])})
    lines = [" ".join(line.split()) for line in text.splitlines()]
    # offered, refused, abandoned, CLEAN calls and turns, stalls, TTFA, waste, cost: 2 accepted
    # calls would be 0.11 each
    assert "only 2 1 0 50.0% 75.0% 0% 0% 940 940 940 25.0% 0.22" in lines
    assert "llm 200 200 200 200 21.3% 200 200" in lines
    assert "(network) 60 60 60 60 6.4% 60 60" in lines
    assert "total 940 940 940 940 100% 940 940" in lines
    assert "gold llm (ml) 150 200 133.3% 100%" in lines
    assert "only: 25.0% of the turns are not CLEAN: 25.0% never spoken" in lines
    assert any("4 turns offered, 3 spoken, 3 answered" in line for line in lines)
    assert any("1 interruptions; silent after 500 ms" in line for line in lines)
    assert "only keeps 50.0% of all offered calls CLEAN" in lines
    assert any("gold: answered within 1 s, no stall over 100 ms; free: " in x for x in lines)
    assert any("prices as of 2026-10-01" in line for line in lines)


def test_the_card_without_a_price_is_named():
    stages = tuple(replace(s, per_hour=None) for s in STAGES)
    bare = replace(TERMS, stages=stages, prices=Prices.model_validate({"cards": CARDS[:1]}))
    spec = tables([], bare).run.spec
    unknown = [line for line in assumptions(bare, spec) if line.startswith("the cost is unknown")]
    assert unknown == ["the cost is unknown: no price of a card small"]
    assert not any("unknown" in line for line in assumptions(TERMS, spec))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_every_width(width):
    """No line is cut or broken in the middle of a number, whatever the terminal."""
    summary = {f"variant {k}": aggregate([metrics(slow=0.01 * k), metrics()]) for k in range(5)}
    text = shown(summary, width, replications=2)
    assert max(map(len, text.splitlines())) <= width
    for name in summary:
        assert name in text


def test_many_variants_have_one_line_each():
    summary = {f"v{k}": aggregate([metrics(slow=0.1 * k)]) for k in range(4)}
    lines = [" ".join(line.split()) for line in shown(summary).splitlines()]
    for k in range(4):
        assert f"v{k} 20 30 400 60 {200 + 100 * k} 150 30 50 {940 + 100 * k:,}" in lines


def test_which_recognisers_nobody_beats():
    """Streams, p95 of the delay, errors: b beats c (as fast, more streams, fewer errors) and d;
    a is faster, e has the fewest errors."""

    def one(streams, delay, wer):
        values = {"streams": streams, "wer": wer}
        stage = {k: {"mean": v, "low": None, "high": None} for k, v in values.items()}
        ledger = {f"asr_{q}_s": {"mean": delay, "low": None, "high": None} for q in ("p50", "p95")}
        return {"stages": {"ears": stage, "llm": {}}, "ledger": ledger}

    rows = {"a": (250, 0.03, 0.056), "b": (240, 0.1, 0.04), "c": (200, 0.1, 0.05),
            "d": (100, 0.2, 0.06), "e": (90, 0.4, 0.0375)}  # fmt: skip
    found = hearing({name: one(*row) for name, row in rows.items()})
    assert {n: row["beaten"]["mean"] for n, row in found.items()} == dict(a=0, b=0, c=1, d=3, e=0)
    assert hearing({"a": one(1, 1.0, 0.1)}) == {}  # nothing to trade
    found = hearing({"a": one(9, 0.1, 0.01), "b": one(9, 0.1, None), "c": one(9, 0.1, 0.01)})
    assert [row["beaten"]["mean"] for row in found.values()] == [0, 0, 0]


def test_nobody_called():
    nobody = aggregate([run_metrics(tables([], TERMS))])
    text = shown({"empty": nobody})
    assert "n/a" in text
    figure = draw({"empty": nobody}, {**context(TERMS), "title": "", "replications": 1,
                                      "horizon": 1.0, "seed": 0})  # fmt: skip
    assert {a.get_label() for a in figure.axes} == {
        f"empty {kind}" for kind in ("median_turn", "p99_turn", "stages")
    }


def test_the_bars_follow_each_other_and_end_at_the_total(tmp_path):
    summary = {"a": aggregate([metrics()]), "b": aggregate([metrics(slow=0.4)])}
    given = {**context(TERMS), "title": "T", "replications": 1, "horizon": 100.0, "seed": 0}
    figure = draw(summary, given)
    for name, total in (("a", 940.0), ("b", 1340.0)):
        (axis,) = (x for x in figure.axes if x.get_label() == f"{name} median_turn")
        bars = [(b.get_x(), b.get_width()) for b in axis.patches]
        assert len(bars) == len(SEGMENTS)
        ends = np.cumsum([w for _, w in bars])
        assert [x for x, _ in bars] == pytest.approx([0.0, *ends[:-1]])
        assert ends[-1] == pytest.approx(total)
        assert f"{total:,.0f} ms" in axis.get_title(loc="right")
    waterfall_figure(summary, given, tmp_path / "waterfall.png")
    assert (tmp_path / "waterfall.png").read_bytes().startswith(b"\x89PNG")


def test_names_of_metrics_are_flat_and_intervals_stay_possible():
    found = aggregate([metrics(), metrics(slow=0.4)])
    names = flat(found)
    assert {"ledger.llm_p95_s", "stages.tts.load", "tenants.gold.llm_spend", "cost.per_call",
            "waste.audio_share", "talk.stop_p50_s"} <= set(names)  # fmt: skip
    for name, each in names.items():
        if name.endswith("_share") and each["mean"] is not None:
            assert 0.0 <= each["low"] <= each["high"] <= 1.0
