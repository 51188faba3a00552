"""Every number of a run of dialogues has its meaning, and every meaning its number."""

import json
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.dialogue.made import Call, Turn, heard, tables
from tests.dialogue.test_report import TERMS
from voicesim.cli import app
from voicesim.experiment.metrics import DIALOGUES as COMPARED
from voicesim.metrics.dialogue import run_metrics
from voicesim.metrics.dialogue_glossary import DIALOGUES, named
from voicesim.metrics.dialogue_run import PARTS, Stage
from voicesim.metrics.glossary import METRICS
from voicesim.metrics.summary import flat

OF_ONE_POOL = {"busy_share.decode", "busy_share.host", "busy_share.codec", "alarm_fired_s.RULE",
               "alarm_lead_s", "waiting_at_first_stall", "cut", "stood_in", "degraded_share",
               "clean_degraded_share", "rung_share.NAME", "quality_cost.NAME",
               "replica_hours", "first_order_s", "rolled_back_s", "available_share"}  # fmt: skip
OF_STALLS = {"stall_causes.CAUSE", "stall_cause_seconds.CAUSE"}  # this run has none


def test_the_metrics_are_those_of_a_run():
    call = Call([Turn(heard(10.0, 0.03, 0.4, 0.06, 0.2, 0.15, 0.03, 0.05))])
    ears = Stage("ears", "asr", wer=0.05)
    terms = replace(TERMS, stages=(ears, *TERMS.stages))
    names = flat(run_metrics(tables([call], terms)))
    parts = "|".join(PARTS)

    def general(name):
        name = re.sub(r"^stages\.[^.]+", "stages.STAGE", name)
        name = re.sub(r"^tenants\.[^.]+", "tenants.TENANT", name)
        return re.sub(rf"^(ledger|tenants\.TENANT)\.({parts})_", r"\1.SEGMENT_", name)

    said = (set(DIALOGUES) | set(METRICS)) - OF_ONE_POOL - OF_STALLS
    said = {name for name in said if not name.startswith("shadow.")}  # this run has none
    assert {general(n) for n in names} == {n for n in said if not n.startswith("marginal")}
    assert set(COMPARED) <= set(names)


@pytest.mark.parametrize(
    ("name", "says"),
    [("ledger.llm_p95_s", "the same, 95 %"), ("cost.per_clean_minute", "CLEAN calls lasted"),
     ("stages.tts.knee", "all it can do"), ("clean_turn_share", "nobody spoken over")],
)  # fmt: skip
def test_explain(name, says):
    result = CliRunner().invoke(app, ["explain", name, "--json"])
    (told,) = json.loads(result.stdout)
    assert told["what"] == "metric"
    assert says in told["about"]
    assert len(named()) > len(DIALOGUES)
