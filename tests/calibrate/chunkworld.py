"""Chunk timelines of a known card: what a client of voicesim itself would write down."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

from voicesim.engine import layout as at
from voicesim.engine.pool import Pool, record
from voicesim.engine.profile import CodecCost, DecodeCost, Profile, Quantity
from voicesim.experiment.rung import Load
from voicesim.simulation import jitter_table
from voicesim.workload.tape import Tape

FRAME = 0.08


def truth(codec: tuple[float, float, float] | None = (6e-3, 5e-4, 3e-4), **decode) -> Profile:
    """A card: 7 ms of memory and 0.12 ms a token unless said otherwise."""
    given = {"memory_s": 7e-3, "compute_per_token_s": 1.2e-4, **decode}
    cost = None
    if codec is not None:
        names = ("floor_s", "per_row_s", "per_frame_s")
        cost = CodecCost(**{n: Quantity(value=v) for n, v in zip(names, codec, strict=True)})
    parts = {name: Quantity(value=value) for name, value in given.items()}
    return Profile(
        name="truth", form="fitted", token_audio_s=FRAME, decode=DecodeCost(**parts), codec=cost
    )


def play(
    load: Load,
    run: str,
    callers: int | None = None,
    rate: float | None = None,
    replies: int = 100,
    seed: int = 0,
    delay: float = 0.0,
    jitter: float = 0.0,
    prompts: tuple[int, int] = (20, 400),
    gather: float = 0.0,
) -> pd.DataFrame:
    """Chunks of ``replies`` requests from ``callers`` in a closed loop, or at ``rate`` (Poisson).

    delay, jitter: one way to the client (s).  prompts: tokens, uniform from low to high.
    """
    rng = np.random.default_rng((seed, callers or 0))
    drawn = load.tape(replies, seed)
    arrival = np.zeros(replies)
    if rate is not None:
        arrival = np.cumsum(rng.exponential(1.0 / rate, replies))
    prompt = rng.integers(prompts[0], prompts[1] + 1, replies)
    tape: Tape = replace(drawn, arrival=arrival, prompt=prompt.astype(np.int64))
    spec = load.spec(callers or 10_000, seed)
    codec = spec.codec if spec.codec is None else replace(spec.codec, gather=gather)
    spec = replace(spec, delay=delay, jitter=jitter_table(jitter), codec=codec, admission=0)
    if callers is not None:
        spec = replace(spec, admission=2, limit=callers)
    pool = Pool(spec, tape)
    now = 0.0
    while (pool.section(at.O_RES)[:, at.R_OUTCOME] == at.PENDING).any():
        now += 60.0
        pool.advance(now)
    return table(record(pool), tape, run)


def table(r: SimpleNamespace, tape: Tape, run: str) -> pd.DataFrame:
    """The chunks table of a finished run."""
    of = r.chunk_i[:, at.L_UTT]
    out = pd.DataFrame(
        {
            "run": run,
            "request": of.astype(str),
            "chunk": r.chunk_i[:, at.L_INDEX],
            "t_s": r.chunk_f[:, at.M_ARRIVE],
            "audio_s": r.chunk_f[:, at.M_AUDIO],
            "sent_s": r.utterance_f[of, at.Z_ADMIT],
            "prompt_tokens": tape.prompt[of],
            "rows": r.chunk_i[:, at.L_ROWS],
        }
    )
    return out.sort_values(["request", "chunk"], kind="stable", ignore_index=True)


def write_csv(chunks: pd.DataFrame, path: Path, *without: str) -> None:
    """The chunk CSV of docs/reference/files.md, less some columns."""
    columns = {
        "run_id": chunks["run"],
        "stream_id": chunks["request"],
        "chunk_index": chunks["chunk"],
        "t_arrival_s": chunks["t_s"],
        "audio_s": chunks["audio_s"],
        "t_sent_s": chunks["sent_s"],
        "prompt_tokens": chunks["prompt_tokens"],
    }
    pd.DataFrame(columns).drop(columns=list(without)).to_csv(path, index=False)
