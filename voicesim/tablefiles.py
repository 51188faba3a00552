"""The tables of one run as Parquet files, written whole or a piece at a time."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


class TableFiles:
    """NAME/VARIANT-REPLICATION.parquet in a run's folder (pandas and DuckDB read NAME), of several
    pools NAME/VARIANT-REPLICATION-POOL.parquet."""

    def __init__(self, folder: Path, variant: str, replication: int, scenario: Any):
        self._folder, self._variant, self._replication = folder, variant, replication
        self._scenario = scenario
        self._open: dict[str, pq.ParquetWriter] = {}

    def write(self, name: str, table: pd.DataFrame) -> None:
        """A whole table."""
        self._small(table).to_parquet(self._path(name), index=False, compression="zstd")

    def add(self, name: str, table: pd.DataFrame) -> None:
        """A piece of a table, behind those before."""
        rows = pa.Table.from_pandas(self._small(table), preserve_index=False)
        if name not in self._open:
            self._open[name] = pq.ParquetWriter(self._path(name), rows.schema, compression="zstd")
        self._open[name].write_table(rows)

    def close(self) -> None:
        """No more pieces."""
        for writer in self._open.values():
            writer.close()

    def _path(self, name: str) -> Path:
        target = self._folder / name
        target.mkdir(parents=True, exist_ok=True)
        return target / f"{stem(self._variant, self._replication, self._scenario)}.parquet"

    def _small(self, table: pd.DataFrame) -> pd.DataFrame:
        small = table.copy()
        for column in map(str, small.select_dtypes("float64")):
            if not column.endswith("_s"):  # times keep their precision
                small[column] = small[column].astype(np.float32)
        small.insert(0, "variant", self._variant)
        small.insert(1, "replication", np.int32(self._replication))
        if self._scenario.dialogue is None and "pool" not in small:
            small.insert(2, "pool", next(iter(self._scenario.cluster.pools)))
        return small


def stem(variant: str, replication: int, scenario: Any) -> str:
    """Name of a run's tables; of several pools each has its own."""
    if scenario.slice == (0.0, 1.0):
        return f"{variant}-{replication}"  # of one pool, of a fleet
    (pool,) = scenario.cluster.pools
    return f"{variant}-{replication}-{pool}"
