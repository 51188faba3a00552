"""What the numbers of a run of dialogues mean, beside those that it shares with the others."""

from voicesim.metrics.dialogue_ledger import BANDS
from voicesim.metrics.dialogue_run import PARTS
from voicesim.metrics.glossary import Meaning

_LEDGER = "capture, uplink, endpointing, asr, llm, tts, downlink, playback, network or total"

DIALOGUES: dict[str, Meaning] = {
    "clean_turn_share": Meaning(
        "share of turns",
        "CLEAN turns of all that the callers offered brought: answered within the tenant's budget "
        "(else `slo.start_within`), no stall or pause over `slo.no_stall_over`, no audio lost, "
        "nobody spoken over; a turn whose stalls cannot be measured never is",
    ),
    "spoilt.unsaid": Meaning("share of turns", "not CLEAN as the caller never came to it"),
    "spoilt.cut_in": Meaning("share of turns", "else: the agent was heard answering half of it"),
    "spoilt.unanswered": Meaning("share of turns", "else: no answer was heard"),
    "spoilt.late": Meaning("share of turns", "else: after the budget or `slo.start_within`"),
    "spoilt.broken_off": Meaning("share of turns", "else: by noise, a hang-up, the run's end"),
    "spoilt.stalled": Meaning("share of turns", "else: a stall over `slo.no_stall_over`"),
    "spoilt.lost": Meaning("share of turns", "else: audio was lost"),
    "spoilt.overlap": Meaning("share of turns", "else: the answer spoke over a filler"),
    "spoilt.unmeasured": Meaning("share of turns", "else: one chunk, so no stall is measured"),
    "stalled_turn_share": Meaning("share", "turns with an audible stall, of two chunks or more"),
    "offered_turns": Meaning("turns", "turns of the calls offered, spoken or not"),
    "spoken_turns": Meaning("turns", "turns that the caller came to"),
    "answered_turns": Meaning("turns", "turns whose answer was heard"),
    "unmeasured_turns": Meaning("turns", "answered in one chunk: no stall can be measured"),
    "talk.cut_offs": Meaning("turns", "a pause was taken for the end of the turn"),
    "talk.cut_in_turns": Meaning("turns", "and the agent was heard speaking into it"),
    "talk.late_endpoints": Meaning("turns", "the end of turn was missed and waited for `max`"),
    "talk.barge_ins": Meaning("turns", "the caller interrupted the answer"),
    "talk.false_barge_ins": Meaning("turns", "noise or a backchannel was taken for that"),
    "talk.stop_p50_s": Meaning("s", "from the caller's voice to the agent's last sound, median"),
    "talk.stop_p95_s": Meaning("s", "the same, 95 % are at most this"),
    "talk.overtalk_s": Meaning("s", "both spoke"),
    "talk.reprompts": Meaning("turns", 'the caller asked "hello?" (a law that is assumed)'),
    "talk.fillers": Meaning("turns", "a filler was played"),
    "talk.filler_overlaps": Meaning("turns", "the answer spoke over it"),
    "talk.fallbacks": Meaning("turns", "the three stages answered for the speech model"),
    "waste.audio_s": Meaning("s", "speech made and not heard"),
    "waste.interrupted_audio_s": Meaning("s", "the part that interrupted answers left"),
    "waste.tts_tokens": Meaning("tokens", "decode steps of voices for nobody"),
    "waste.llm_tokens": Meaning("tokens", "reply tokens whose words were not heard"),
    "waste.audio_share": Meaning("share", "speech made and not heard, of all that was made"),
    "waste.llm_share": Meaning("share", "the same of reply tokens"),
    "waste.phrase_hit_share": Meaning("share of units", "spoken from the phrase cache"),
    "waste.prefix_hit_share": Meaning("share of prompt tokens", "found in the LLM's cache"),
    "ledger.SEGMENT_p50_s": Meaning("s", f"{_LEDGER}: half of the answered turns took at most it"),
    "ledger.SEGMENT_p95_s": Meaning("s", "the same, 95 %"),
    "ledger.SEGMENT_p99_s": Meaning("s", "the same, 99 %"),
    "ledger.SEGMENT_mean_s": Meaning("s", "mean; the eight segments add up to total"),
    "ledger.SEGMENT_share": Meaning("share of total", "all its seconds / all seconds"),
    "ledger.SEGMENT_median_turn_s": Meaning(
        "s",
        "mean over the turns between quantiles {:g} and {:g} of the total; they add up".format(
            *BANDS["median_turn"]
        ),
    ),
    "ledger.SEGMENT_p99_turn_s": Meaning(
        "s", "the same between {:g} and {:g}".format(*BANDS["p99_turn"])
    ),
    "marginal.SEGMENT_change_s": Meaning(
        "s", "`--marginal`: TTFA p95 with that segment a tenth shorter, less TTFA p95 as it is"
    ),
    "marginal.caller_change_s": Meaning(
        "s", "`--marginal`: what one more caller at once does to TTFA p95 (2 % more calls, scaled)"
    ),
    "stages.STAGE.busy": Meaning(
        "share of time", "GPU at work; of continuous batching near 1 long before the knee"
    ),
    "stages.STAGE.load": Meaning(
        "share", "work done / what full batches would do in the time, or codec at work"
    ),
    "stages.STAGE.queued": Meaning("share", "streams that wait for a place, of all at the engine"),
    "stages.STAGE.knee": Meaning("share", "the greater of load and queued: 1 is all it can do"),
    "stages.STAGE.streams": Meaning(
        "streams", "a recogniser: speakers without a pause whose jobs take full batches as long"
    ),
    "stages.STAGE.wer": Meaning("share", "a recogniser: word error rate, where it is stated"),
    "tenants.TENANT.clean_share": Meaning("share", "CLEAN calls by the tenant's own limits"),
    "tenants.TENANT.clean_turn_share": Meaning("share", "CLEAN turns likewise"),
    "tenants.TENANT.offered": Meaning("calls", "calls of the tenant"),
    "tenants.TENANT.turns": Meaning("turns", "turns that they brought"),
    "tenants.TENANT.ttfa_p95_s": Meaning("s", "TTFA p95 of the turns spoken"),
    "tenants.TENANT.SEGMENT_p95_s": Meaning("s", "of a segment with an allowance"),
    "tenants.TENANT.SEGMENT_spend": Meaning("ratio", "that p95 / the allowance"),
    "tenants.TENANT.SEGMENT_over_share": Meaning(
        "share of turns spoken", "took longer than allowed, or were never answered"
    ),
    "cost.gpus": Meaning("money", "cards of the stages that are not bought, observed time"),
    "cost.bought": Meaning("money", "stages paid by use, for the calls counted"),
    "cost.network": Meaning("money", "by the minute of call or the byte"),
    "cost.total": Meaning("money", "the three together"),
    "cost.per_call": Meaning("money", "total / accepted calls"),
    "cost.per_1000_clean_calls": Meaning("money", "total for 1,000 CLEAN calls"),
    "cost.per_clean_minute": Meaning("money", "total / minutes that CLEAN calls lasted"),
    "cost.waste": Meaning("money", "words and speech that nobody heard"),
    "cost.interruptions": Meaning("money", "the part that interrupted answers left"),
    "cost.saved_by_phrases": Meaning("money", "what the cached phrases would have cost"),
    "cost.saved_by_prefixes": Meaning("money", "what the cached prompt tokens would have cost"),
}
"""By dotted name; SEGMENT, STAGE and TENANT stand for any."""


def named() -> dict[str, Meaning]:
    """DIALOGUES with a name for each segment in the place of SEGMENT."""
    found: dict[str, Meaning] = {}
    for name, meaning in DIALOGUES.items():
        for part in PARTS if "SEGMENT" in name else ("",):
            found[name.replace("SEGMENT", part)] = meaning
    return found
