"""What recorded conversations tell: talk share, barge-in, turn gaps, in words and for a scenario.

They hold no step times, so there is no profile to make of them; a scenario can use them.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from voicesim.calibrate.readers import form_of, livekit, pipecat
from voicesim.calibrate.readers.measured import Measured

TITLES = {
    "talk_share": "agent's share of the time",
    "barge_in": "replies cut by barge-in",
    "gap_s": "turn gap, caller's end to agent's first sound",
    "bot_turn_s": "agent's reply",
    "user_turn_s": "caller's turn",
    "endpointing_s": "endpointing",
    "ttfb_s": "synthesiser's first byte",
    "first_sound_s": "request to first sound",
    "interruptions": "interruptions by event",
    "backchannels": "backchannels by event",
}
SHARES = ("talk_share", "barge_in")


def only_dialogues(files: Sequence[Path]) -> list[Measured] | None:
    """The files as read if each is of a conversation, else None.  Raises CalibrationError."""
    forms = [form_of(path) for path in files]
    if not forms or not all(form in (livekit, pipecat) for form in forms):
        return None
    return [form.read(path) for form, path in zip(forms, files, strict=True)]


def measures(dialogue: pd.DataFrame) -> list[str]:
    """A line per measure: n, mean, and of times p50 and p95 (nearest rank)."""
    lines = []
    for name, title in TITLES.items():
        values = dialogue.loc[dialogue["measure"] == name, "value"].to_numpy(float)
        if not len(values):
            continue
        if name in SHARES:
            numbers = f"mean {100 * values.mean():.3g} %"
        else:
            p50, p95 = np.quantile(values, [0.5, 0.95], method="inverted_cdf")
            unit = " s" if name.endswith("_s") else ""
            numbers = f"mean {values.mean():.3g}{unit}, p50 {p50:.3g}{unit}, p95 {p95:.3g}{unit}"
        lines.append(f"{title}: n {len(values)}, {numbers}")
    return lines


def pauses(requests: pd.DataFrame) -> np.ndarray:
    """Seconds from the end of a heard reply to the next request of its session, at least 0."""
    found = []
    for _, calls in requests.groupby("session"):
        calls = calls.sort_values("arrival_s", kind="stable")
        ends = calls["arrival_s"] + calls["ttfa_s"].fillna(0) + calls["audio_s"].fillna(0)
        found.append(np.maximum(calls["arrival_s"].to_numpy()[1:] - ends.to_numpy()[:-1], 0.0))
    return np.concatenate(found) if found else np.empty(0)


def snippet(read: Sequence[Measured]) -> str:
    """What the conversations say for a scenario, as YAML; empty where no reply is whole.

    Replies lognormal with their mean and the spread of their logarithm, pauses exponential with
    their mean.
    """
    requests = [m.requests for m in read if m.requests is not None]
    if not requests:
        return ""
    audio = np.concatenate([r["audio_s"].to_numpy(float) for r in requests])
    audio, rests = audio[audio > 0], np.concatenate([pauses(r) for r in requests])
    each = sum(len(r) for r in requests) / len(requests)
    if not len(audio):
        return ""
    spread = float(np.std(np.log(audio)))
    law = f"{{lognormal: {{mean: {audio.mean():.4g}s, sigma: {spread:.3g}}}}}"
    lines = [
        "workload:",
        f"  utterance: {{audio: {law if spread > 0.005 else f'{audio.mean():.4g}s'}}}",
        f"  utterances_per_session: {max(1, round(each))}",
    ]
    if len(rests):
        mean = rests.mean()
        lines.append(f"  think: {f'{{exponential: {{mean: {mean:.4g}s}}}}' if mean > 0 else '0s'}")
    return "\n".join(lines)


def conclusion(read: Sequence[Measured]) -> str:
    """The last words on files that hold conversations only."""
    found = snippet(read)
    end = "nothing to fit: conversations hold no step times, so no profile is written"
    if not found:
        return f"{end}; no whole reply is in them, so there is nothing for a scenario either"
    return (
        f"{end}.\nUse these in a scenario (think: from a reply's end to the next request; barge-in "
        f"is in the replies' length as heard):\n\n{found}\n\n"
        "or play the calls themselves: voicesim replay"
    )
