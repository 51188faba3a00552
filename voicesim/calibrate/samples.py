"""The common form of every measurement: one row per measured step or codec batch.

Columns of a sample table (a DataFrame):

- stage: decode, prefill, codec, decode_with_codec, codec_with_decode
- run: which run it comes from (a file without runs: each row is its own run)
- batch: decoding streams (codec: rows);  context: their mean context, tokens
- prefill_tokens, tokens, kv_read, pairs, streams: the load (see ``voicesim.engine.profile``)
- frames: codec frames computed over all rows (NaN where not a codec row)
- seconds: measured duration;  file, line: where it stands
- steps: engine steps that it is the mean of (NaN: one)
- where: the page it was published on, if any
"""

import numpy as np
import pandas as pd

STAGES = ("decode", "prefill", "codec", "decode_with_codec", "codec_with_decode")
CODEC_STAGES = ("codec", "codec_with_decode")

AVERAGED_STAGES = ("decode_with_codec", "codec_with_decode")
"""Read off as averages over a busy period, so a batch need not be a whole number."""

SHORTEST_S, LONGEST_S = 1e-6, 3600.0
"""Seconds that a step can take: below is no GPU's, above is a wrong unit or a stopped clock."""

COLUMNS = [
    "stage",
    "run",
    "batch",
    "context",
    "prefill_tokens",
    "tokens",
    "kv_read",
    "pairs",
    "streams",
    "frames",
    "seconds",
    "steps",
    "file",
    "line",
    "where",
]


def from_columns(columns: dict[str, object]) -> pd.DataFrame:
    """A sample table; absent columns become NaN."""
    table = pd.DataFrame(columns)
    for name in COLUMNS:
        if name not in table:
            table[name] = np.nan
    return table[COLUMNS]
