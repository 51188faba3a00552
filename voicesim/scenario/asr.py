"""Speech recognisers: how they work, what they cost, how well they hear."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from .part import Part
from .units import (
    Brief,
    PositiveBrief,
    PositiveDuration,
    Share,
    UpTo10K,
    UpTo64Ki,
)


class AsrCost(Part):
    """Seconds of one batch."""

    floor: Brief = Field(description="Seconds of any batch.")
    per_row: Brief = Field(default=0.0, description="Seconds more per row in it; default 0.")
    per_audio: Brief = Field(
        default=0.0, description="Seconds more per second of audio in it; default 0."
    )


class Heard(Part):
    """One row of an accuracy table."""

    right_context: Brief = Field(description="Right context (s).")
    wer: Share = Field(description="Word error rate, 0 to 1.")


_COST = "Cost of a batch."
_CAP = "Rows of a batch at most; default 64."
_WORKERS = "Batches at once per replica, each on a device of its own; default 1."
_WER = "Word error rate as measured elsewhere, 0 to 1, for the report; default none."


class Streaming(Part):
    """Cache-aware streaming (NeMo): one job of constant cost for each chunk of a stream."""

    kind: Literal["streaming"] = Field(default="streaming", description="Chunk by chunk.")
    chunk: PositiveBrief = Field(default=0.16, description="Audio of one job (s); default 160ms.")
    right_context: Brief = Field(
        default=0.0, description="Audio to come that a job waits for (s); default 0."
    )
    cost: AsrCost = Field(description=_COST)
    cap: UpTo64Ki = Field(default=64, description=_CAP)
    workers: UpTo10K = Field(default=1, description=_WORKERS)
    accuracy: list[Heard] = Field(
        default_factory=list,
        description="Right context -> word error rate, for the report; default none.",
    )

    @property
    def wer(self) -> float | None:
        """Word error rate at this right context, linear between the rows; None if not given."""
        if not self.accuracy:
            return None
        rows = sorted((row.right_context, row.wer) for row in self.accuracy)
        at, rates = np.array(rows).T
        return float(np.interp(self.right_context, at, rates))


class Windows(Part):
    """LocalAgreement (whisper_streaming): the whole buffer again with every new chunk."""

    kind: Literal["windows"] = Field(default="windows", description="Window by window.")
    chunk: PositiveBrief = Field(
        default=1.0, description="New audio before the next job (s); default 1s."
    )
    window: PositiveDuration = Field(
        default=15.0, description="Audio that a job covers at most (s); default 15s."
    )
    cost: AsrCost = Field(description=_COST)
    cap: UpTo64Ki = Field(default=1, description="Rows of a batch at most; default 1.")
    workers: UpTo10K = Field(default=1, description=_WORKERS)
    wer: Share | None = Field(default=None, description=_WER)


class Slots(Part):
    """A fixed batch (Kyutai delayed streams): every frame of all slots in one step."""

    kind: Literal["slots"] = Field(default="slots", description="Frame by frame, all slots.")
    slots: UpTo64Ki = Field(description="Calls at once per replica; the next is refused.")
    step: PositiveBrief = Field(description="One step, whoever is in it (s).")
    chunk: PositiveBrief = Field(default=0.08, description="Audio of a frame (s); default 80ms.")
    right_context: Brief = Field(
        default=0.48,
        description="By how much text trails speech (s); default 480ms (Kyutai STT 1B).",
    )
    wer: Share | None = Field(default=None, description=_WER)


class Offline(Part):
    """One job over the whole turn, after its end."""

    kind: Literal["offline"] = Field(default="offline", description="After the turn.")
    cost: AsrCost = Field(description=_COST)
    cap: UpTo64Ki = Field(default=1, description="Rows of a batch at most; default 1.")
    workers: UpTo10K = Field(default=1, description=_WORKERS)
    wer: Share | None = Field(default=None, description=_WER)


AnyRecogniser = Annotated[Streaming | Windows | Slots | Offline, Field(discriminator="kind")]


class AsrPool(Part):
    """Equal speech recognisers, each on its own device."""

    role: Literal["asr"] = Field(description="Speech recognition.")
    replicas: UpTo10K = Field(default=1, description="Recognisers; default 1.")
    on: str = Field(description="Name of the kind of card (or CPU), one of cluster.gpus.")
    asr: AnyRecogniser = Field(description="How the recogniser works.")

    @property
    def cards(self) -> int:
        """Devices the pool occupies."""
        return self.replicas * getattr(self.asr, "workers", 1)
