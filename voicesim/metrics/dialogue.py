"""The numbers of a run of dialogues: what callers heard, where the time went, what it cost."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from voicesim.engine.quantiles import quantile_rows
from voicesim.metrics.dialogue_audio import answers, units
from voicesim.metrics.dialogue_budgets import budgets
from voicesim.metrics.dialogue_ledger import ledger
from voicesim.metrics.dialogue_run import Played
from voicesim.metrics.dialogue_stages import stages
from voicesim.metrics.dialogue_tables import FAULTS, sessions, turns
from voicesim.metrics.money import Counted, costs
from voicesim.metrics.summary import Value, nearest_rank, share
from voicesim.session import record as of


@dataclass(frozen=True)
class Tables:
    """A run with its tables (voicesim.metrics.dialogue_tables, .dialogue_audio), made once."""

    run: Played

    @cached_property
    def units(self) -> pd.DataFrame:
        return units(self.run)

    @cached_property
    def turns(self) -> pd.DataFrame:
        return turns(self.run, self.units)

    @cached_property
    def sessions(self) -> pd.DataFrame:
        return sessions(self.run, self.turns)

    @cached_property
    def counted(self) -> Counted:
        """Without the calls that arrived before the warm-up ended."""
        run = self.run
        kept = (self.sessions["arrival_s"] >= run.spec.warmup).to_numpy()
        return Counted(
            run,
            self.sessions[kept],
            self.turns[kept[self.turns["call"]]],
            self.units[kept[self.units["call"]]],
            answers(run, self.units),
            kept[run.call[run.turn]],
        )


def run_metrics(tables: Tables) -> dict[str, Any]:
    """Metrics of one replication; calls that arrived before the warm-up are left out.

    The names that a run of kind tts has mean the same here; an utterance is a turn.  Counts are
    calls, *_turns are turns.  None: not measured.  Dictionaries: talk (what was said across each
    other), waste, ledger (voicesim.metrics.dialogue_ledger), cost (voicesim.metrics.money), stages
    and tenants by name.
    """
    run, counted = tables.run, tables.counted
    calls, rows = counted.calls, counted.turns
    outcome = calls["outcome"].value_counts()
    accepted = calls[calls["accepted"]]
    measured = accepted[accepted["measured"]]
    spoken = rows[rows["spoken_s"].notna()]
    heard = spoken[spoken["total_s"].notna()]
    timed = spoken[spoken["measured"]]
    minutes = timed["heard_s"].sum() / 60.0
    stall = timed["stall_largest_s"].to_numpy()
    waited = spoken["waited_s"].to_numpy()
    gap = float(quantile_rows(run.record.gap_hist[None, :], 0.99)[0])
    money = costs(counted)
    return {
        **{name: float(outcome.get(name, 0)) for name in ("refused", "abandoned", "failed")},
        "offered": float(len(calls)),
        "completed": float(outcome.get("completed", 0)),
        "live_at_end": float(outcome.get("live", 0)),
        "clean_share": share(calls["clean"]),
        "clean_turn_share": share(rows["clean"]),
        "spoilt": {name: share(rows["spoilt"] == name) for name in FAULTS},
        "stalled_share": share(measured["audible_stalls"] > 0),
        "offered_turns": float(len(rows)),
        "spoken_turns": float(len(spoken)),
        "answered_turns": float(len(heard)),
        "stalled_turn_share": share(timed["audible_stalls"] > 0),
        "unmeasured_turns": float(len(heard) - int(heard["measured"].sum())),
        "stall_seconds_per_1000_audio_minutes": (
            1000.0 * timed["stall_total_s"].sum() / minutes if minutes else None
        ),
        "pace_p99": 1.0 / gap if gap > 0 else None,
        **{f"ttfa_p{q}_s": nearest_rank(waited, q / 100.0) for q in (50, 95, 99)},
        "c50": share(stall <= 0.05),
        "c100": share(stall <= 0.1),
        "c200": share(stall <= 0.2),
        "first_stall_s": run.record.first_stall if np.isfinite(run.record.first_stall) else None,
        "not_measured": float(len(accepted) - len(measured)),
        "preemptions": float(sum(p.counters["preemptions"] for p in run.record.pools)),
        "talk": talk(spoken),
        "waste": waste(counted),
        "ledger": ledger(heard),
        "cost": money,
        "gpu_cost": money["gpus"],
        "cost_per_1000_clean_calls": money["per_1000_clean_calls"],
        "stages": stages(run),
        "tenants": budgets(run.terms.tenants, rows, calls),
    }


def talk(spoken: pd.DataFrame) -> dict[str, Value]:
    """How the conversations went; counts of turns.

    cut_offs: a pause was taken for the end of the turn (reasked), cut_in_turns: and the agent was
    heard; late_endpoints; barge_ins, false_barge_ins (backchannels and noise); stop_p50_s,
    stop_p95_s: from the caller's voice to the agent's last sound; overtalk_s: seconds in which both
    spoke; reprompts: callers who asked "hello?"; fillers, filler_overlaps; fallbacks.
    """
    stop = spoken["stop_s"].dropna().to_numpy()
    return {
        "cut_offs": float(spoken["reasked"].sum()),
        "cut_in_turns": float(spoken["cut_in"].sum()),
        "late_endpoints": float(spoken["late"].sum()),
        "barge_ins": float((spoken["interrupt"] == "barge_in").sum()),
        "false_barge_ins": float((spoken["interrupt"] == "false_barge_in").sum()),
        "stop_p50_s": nearest_rank(stop, 0.5),
        "stop_p95_s": nearest_rank(stop, 0.95),
        "overtalk_s": float(spoken["overtalk_s"].sum()),
        "reprompts": float(spoken["reprompt"].sum()),
        "fillers": float(spoken["filler"].sum()),
        "filler_overlaps": float(spoken["overlap"].sum()),
        "fallbacks": float(spoken["fell_back"].sum()),
    }


def waste(counted: Counted) -> dict[str, Value]:
    """What was made and not heard, and what caches spared.

    audio_s, tts_tokens, llm_tokens; audio_share, llm_share: of all that was made.
    interrupted_audio_s: the part that interrupted answers left.
    phrase_hit_share: units from the phrase cache; prefix_hit_share: prompt tokens from the LLM's.
    """
    run, made = counted.run, counted.answers[counted.mine]
    cut = counted.interrupted[counted.mine]
    tape, asked = run.tape, counted.mine & (run.record.answer_f[:, of.A_ASKED] >= 0.0)
    audio, llm = float(made["generated_s"].sum()), float(made["llm_tokens"].sum())
    units_sent, prompt = float(made["units"].sum()), float(tape.prompt[asked].sum())
    lost, words = float(made["wasted_s"].sum()), float(made["llm_tokens_wasted"].sum())
    return {
        "audio_s": lost,
        "interrupted_audio_s": float(made.loc[cut, "wasted_s"].sum()),
        "tts_tokens": float(made["tokens_wasted"].sum()),
        "llm_tokens": words,
        "audio_share": lost / audio if audio else None,
        "llm_share": words / llm if llm else None,
        "phrase_hit_share": float(made["cached_units"].sum()) / units_sent if units_sent else None,
        "prefix_hit_share": float(tape.hit[asked].sum()) / prompt if prompt else None,
    }
