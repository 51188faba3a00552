"""Which reader a file needs, by what it holds.

A format is a module with ``NAME``, ``sniff(head) -> bool`` and ``read(path) -> Measured``; to add
one, write it and put it into FORMATS (and into docs/reference/files.md).
"""

from pathlib import Path
from types import ModuleType

import pandas as pd

from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import (
    aiperf,
    arrival_trace,
    azure,
    burstgpt,
    calls_csv,
    chunk_csv,
    continuity_client,
    guidellm,
    k6,
    livekit,
    llmperf,
    locust,
    measure_folder,
    mooncake,
    nari_bench,
    perf_analyzer,
    perf_summary,
    pipecat,
    prometheus,
    run_folder,
    servegen,
    sglang_omni,
    sglang_serving,
    steps,
    tracev2,
    tts_serving,
    vidur,
    vllm_bench,
)
from voicesim.calibrate.readers.measured import Measured
from voicesim.calibrate.readers.source import head_of

__all__ = ["FORMATS", "Measured", "form_of", "read", "read_samples"]

FORMATS: list[ModuleType] = [
    chunk_csv,
    arrival_trace,
    steps,
    vllm_bench,
    continuity_client,
    nari_bench,
    sglang_serving,
    sglang_omni,
    tts_serving,
    prometheus,
    run_folder,
    calls_csv,
    measure_folder,
    azure,
    burstgpt,
    vidur,
    mooncake,
    tracev2,
    servegen,
    aiperf,
    perf_summary,
    perf_analyzer,
    guidellm,
    llmperf,
    k6,
    locust,
    livekit,
    pipecat,
]
"""Asked in this order; the first that recognises a file reads it."""


def read(path: str | Path) -> Measured:
    """Read a measurement, whatever tool wrote it.  Raises CalibrationError."""
    measured: Measured = form_of(path).read(Path(path))
    return measured


def form_of(path: str | Path) -> ModuleType:
    """The reader of a file.  Raises CalibrationError if no one recognises it."""
    path = Path(path)
    head = head_of(path)
    for form in FORMATS:
        if form.sniff(head):
            return form
    known = "; ".join(form.NAME for form in FORMATS)
    found = "folder" if path.is_dir() else "file"
    raise CalibrationError(path.name, None, f"is no {found} that is recognised; these are: {known}")


def read_samples(path: str | Path) -> pd.DataFrame:
    """Step samples of a measurement; refuses one that holds none."""
    measured = read(path)
    if measured.samples is None:
        why = "; ".join(measured.cannot)
        raise CalibrationError(measured.file, None, f"holds no step samples ({why})")
    return measured.samples
