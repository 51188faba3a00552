"""What the numbers of a run mean: the one place that says so.

``voicesim explain`` and the table of docs/reference/results.md are made of it.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Meaning(NamedTuple):
    """unit: of the number.  text: what it is."""

    unit: str
    text: str


_TTFA = "request to first sound, nearest rank, over streams that were heard"
_STALL = "streams of two chunks or more whose largest stall is within {} ms"

METRICS: dict[str, Meaning] = {
    "offered": Meaning(
        "calls",
        "calls that started after the warm-up; each is in exactly one of completed, refused, "
        "abandoned, failed, cut, stood_in and live_at_end",
    ),
    "completed": Meaning("calls", "every utterance played to its end"),
    "refused": Meaning("calls", "an utterance was refused for good"),
    "abandoned": Meaning("calls", "the caller hung up in silence"),
    "failed": Meaning(
        "calls",
        "an utterance needs more KV cache than an engine has, or was lost with its replica "
        "(`faults`) and not asked for again",
    ),
    "cut": Meaning(
        "calls", "ended under way, because its replica went (`policies.scaling`, rollout)"
    ),
    "stood_in": Meaning(
        "calls",
        "text or a filler stood in for an utterance, at a rung of `policies.degradation` that "
        "serves nobody; never clean",
    ),
    "live_at_end": Meaning("calls", "not settled when the run ended"),
    "available_share": Meaning(
        "share of offered",
        "calls that were neither refused nor abandoned in silence, nor failed, nor cut",
    ),
    "clean_share": Meaning(
        "share of offered",
        "CLEAN: every utterance started within `slo.start_within`, no stall over "
        "`slo.no_stall_over`, no audio lost; a call that is `not_measured` is never clean",
    ),
    "degraded_share": Meaning(
        "share of offered",
        "calls with an utterance at a rung above 0 of the ladder, with a filler before the first "
        "sound, or with text or a filler instead",
    ),
    "clean_degraded_share": Meaning("share of offered", "degraded calls that are CLEAN"),
    "rung_share.NAME": Meaning(
        "share of utterances asked for",
        "at this rung of the ladder of `policies.degradation`; `as it is`: at none; only with a "
        "ladder",
    ),
    "shadow.NAME.requests": Meaning(
        "requests", "decided by a shadow policy of `policies.shadow` too; retries count again"
    ),
    "shadow.NAME.would_refuse": Meaning("requests", "let in or queued; it would have refused"),
    "shadow.NAME.would_admit": Meaning("requests", "refused or queued; it would have let in"),
    "shadow.NAME.would_queue": Meaning("requests", "not queued; it would have"),
    "shadow.NAME.elsewhere": Meaning("requests", "let in by both, to different replicas"),
    "shadow.NAME.refuse_well": Meaning(
        "requests",
        "of `would_refuse`: completed, started within `slo.start_within`, no stall over "
        "`slo.no_stall_over`",
    ),
    "shadow.NAME.refuse_badly": Meaning("requests", "of `would_refuse`: the others"),
    "shadow.NAME.turns": Meaning(
        "turns", "of a dialogue, that callers came to, judged by an endpointing shadow too"
    ),
    "shadow.NAME.false_ends": Meaning("turns", "it would have taken a pause for the end"),
    "shadow.NAME.false_ends_now": Meaning("turns", "the endpointing in charge does"),
    "shadow.NAME.only_shadow": Meaning("turns", "only the shadow would have"),
    "shadow.NAME.only_now": Meaning("turns", "only the endpointing in charge does"),
    "shadow.NAME.delay_mean_s": Meaning("s", "silence it would wait for at a turn's end, mean"),
    "shadow.NAME.delay_mean_now_s": Meaning("s", "the same of the endpointing in charge"),
    "shadow.NAME.delay_p95_s": Meaning("s", "95 % of the turns wait at most this"),
    "shadow.NAME.delay_p95_now_s": Meaning("s", "the same of the endpointing in charge"),
    "quality_cost.NAME": Meaning(
        "as given",
        "mean over all utterances asked for of what their rung costs: `mos`, `wer` and `words` of "
        "the ladder, your own numbers; only with a ladder",
    ),
    "stalled_share": Meaning(
        "share",
        "calls with a stall over `listener.audible`, of accepted calls with a stream of two "
        "chunks or more",
    ),
    "not_measured": Meaning(
        "calls", "accepted calls (let in, and never refused for good) without such a stream"
    ),
    "stall_seconds_per_1000_audio_minutes": Meaning(
        "s", "all stalls, inaudible ones too, of completed streams of two chunks or more"
    ),
    "replica_hours": Meaning(
        "h", "replicas paid for, from order to end, up to the horizon (`policies.scaling`)"
    ),
    "rolled_back_s": Meaning(
        "s", "when the guard of `policies.rollout` gave all callers back to the old version"
    ),
    "first_order_s": Meaning("s", "when the autoscaler first ordered a replica"),
    "pace_p99": Meaning(
        "ratio",
        "audio of a chunk ÷ the gap before it: the slowest 1 % of chunks (histogram, error under "
        "0.8 %); at 1.0 the buffer stops growing",
    ),
    "ttfa_p50_s": Meaning("s", f"{_TTFA}: half are at most this"),
    "ttfa_p95_s": Meaning("s", f"{_TTFA}: 95 % are at most this"),
    "ttfa_p99_s": Meaning("s", f"{_TTFA}: 99 % are at most this"),
    "c50": Meaning("share", _STALL.format(50)),
    "c100": Meaning("share", _STALL.format(100)),
    "c200": Meaning("share", _STALL.format(200)),
    "busy_share.decode": Meaning(
        "share of time", "GPU seconds of decode steps per replica, between warm-up and horizon"
    ),
    "busy_share.host": Meaning(
        "share of time",
        "CPU seconds of decode steps per replica; not measured where the profile does not know",
    ),
    "busy_share.codec": Meaning("share of time", "seconds of batches per codec worker"),
    "waiting_at_first_stall": Meaning(
        "streams", "`num_requests_waiting` of that engine when the late chunk left"
    ),
    "first_stall_s": Meaning("s", "when the first audible stall began"),
    "alarm_lead_s": Meaning(
        "s",
        "how long before it the first `chunk_gap_p99` alarm of `alarms:` went off (negative: "
        "after)",
    ),
    "alarm_fired_s.RULE": Meaning(
        "s",
        "when each rule of `alarms:` first fired after the warm-up, scraped and evaluated in every "
        "bin (`docs/howto/alarms.md`); a rule with a name is `METRIC: NAME`",
    ),
    "stall_causes.CAUSE": Meaning(
        "share",
        "audible stalls with this main cause (below); of `run` and `replay` only",
    ),
    "stall_cause_seconds.CAUSE": Meaning("s", "seconds of audible stalls charged to this cause"),
    "preemptions": Meaning("count", "streams thrown out of the KV cache"),
    "gpu_cost": Meaning("money", "cards × price × horizon; null without a price"),
    "cost_per_1000_clean_calls": Meaning(
        "money", "the same for 1,000 CLEAN calls; null without a price or a CLEAN call"
    ),
}
"""By the dotted names of summary.json; RULE and CAUSE stand for any."""


ANY = ("CAUSE", "NAME", "RULE", "SEGMENT", "STAGE", "TENANT")
"""Parts of a name that stand for any."""


def table(metrics: Mapping[str, Meaning] = METRICS) -> str:
    """Metrics as a Markdown table."""
    rows = []
    for name, m in metrics.items():
        for any_of in ANY:
            name = name.replace(any_of, f"<{any_of.lower()}>")
        rows.append(f"| {name} | {m.unit} | {m.text} |")
    return "\n".join(["| metric | unit | meaning |", "|---|---|---|", *rows])
