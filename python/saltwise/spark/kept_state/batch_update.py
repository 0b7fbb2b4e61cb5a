"""Adds one batch to the folder of a state, exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import StructType

from ...errors import SaltwiseError
from ...placement.key_groups import KeyGroups
from ...splitting.head_split import HeadSplit, head_splits
from ..columns import WITHOUT_HASH, holds_type, quoted
from .ages import AgeLimits
from .commit import HASH, SEEN, SPLIT, Commit, KeptColumns
from .definition import Definition
from .folder import UNIT, StateFolder
from .layout import NUMBER, Layout
from .placement_choice import PlacementChoice

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class BatchUpdate:
    """Adds batches to a state."""

    folder: StateFolder
    definition: Definition
    ages: AgeLimits
    choice: PlacementChoice

    def add(self, batch: DataFrame, batch_id: int) -> None:
        """Add a batch, unless it or a later one is in the state already.

        Raises:
            SaltwiseValueError: the batch lacks a column, or a key holds a map.
            StatefulAggregateError: the folder is of other keys or aggregates, or damaged.
        """
        last = self.folder.read()
        if last.batch is not None and batch_id <= last.batch:
            return
        self.definition.check_keys(batch)
        batch = self.ages.in_time(batch, last.latest)
        result = self.definition.result(batch)
        parts = self._parts(batch, result, last)
        columns = KeptColumns(parts.schema, result, self.definition.shown(batch), self.definition.functions)
        if last.columns is not None:
            self.definition.check_columns(last.columns, self.folder.path, columns)
            columns = last.columns
        parts.persist()
        try:
            commit = self._write(parts, columns, last, batch_id)
        finally:
            parts.unpersist()
        self.folder.commit(commit)

    def _parts(self, batch: DataFrame, result: StructType, last: Commit) -> DataFrame:
        """Return the parts of each group of a batch: one for each worker over which the group is split."""
        splits = {} if last.heads is None else head_splits(last.heads, self.choice.workers)
        hashes = F.xxhash64(*(F.col(quoted(key)) for key in self.definition.keys))
        split = _worker_of_split_key(hashes, batch, splits)
        return self.definition.parts(batch, result, split, self.ages.seen)

    def _write(self, parts: DataFrame, columns: KeptColumns, last: Commit, batch_id: int) -> Commit:
        """Write the files of the next version, and return its commit."""
        spark = parts.sparkSession
        before = None if last.history.function is None else Layout(last.history.function)
        placement = self.choice.next(last, parts)
        after = Layout(placement.function)
        changed = after.changed_units(before, last.files, parts)
        old = self.folder.rows(spark, columns.state, [last.files[unit] for unit in last.files if unit in changed])
        if before is not None and before != after:
            rows = old
            if isinstance(after.function, KeyGroups):
                # A move of a key group changes no file, so rows of any file may move.
                rows = self.folder.rows(spark, columns.state, last.files.values())
            moved_keys, moved_rows = after.count_moves(before, rows)
            placement = replace(placement, moved_keys=moved_keys, moved_rows=moved_rows)
        version = last.version + 1
        files = {unit: sizes for unit, sizes in last.files.items() if unit not in changed}
        if changed:
            rows = self.ages.alive(old, last.latest).unionByName(parts)
            written = self.folder.write(self._folded(rows, after, columns.state), version)
            if not changed.issuperset(written):
                raise SaltwiseError(
                    f"Batch {batch_id} had other keys when it was read again, so nothing was changed: persist it first."
                )
            files |= written
        [(seen,)] = parts.agg(F.unix_micros(F.max(SEEN))).collect()
        return replace(
            last,
            version=version,
            batch=batch_id,
            latest=max((time for time in (last.latest, seen) if time is not None), default=None),
            files=files,
            previous=tuple(name for sizes in last.files.values() for name in sizes),
            columns=columns,
            placement=placement,
        )

    def _folded(self, rows: DataFrame, layout: Layout, state: StructType) -> DataFrame:
        """Fold the parts of each group into one row, at the worker of its unit."""
        keys = [name for name in state.names if name.startswith("k")]
        group = [UNIT, *keys, HASH, SPLIT]
        kept = [F.col(name).alias(f"kept_{name}") for name in group]
        folded = layout.at_workers(rows).groupBy(NUMBER, *group).agg(*kept, *self.definition.folds(state))
        return folded.select(*(F.col(f"kept_{name}").alias(name) for name in [UNIT, *state.names]))


def _worker_of_split_key(hashes: Column, batch: DataFrame, splits: Mapping[int, HeadSplit]) -> Column:
    """Return the worker of a row if its key is split, as a function of the row's content; else NULL."""
    if not splits:
        return F.lit(None).cast("int")

    def place(hashes: pd.Series, contents: pd.Series) -> pd.Series:
        parts = (contents.to_numpy().astype(np.uint64) >> np.uint64(11)) / 2.0**53
        worker = np.full(len(hashes), np.nan)
        for key, split in splits.items():
            has_key = (hashes == key).to_numpy()
            worker[has_key] = split.place(parts[has_key])
        return pd.Series(worker).astype("Int32")

    columns = [quoted(field.name) for field in batch.schema if not holds_type(field.dataType, WITHOUT_HASH)]
    return pandas_udf(place, "int")(hashes, F.xxhash64(*columns))  # type: ignore[call-overload, no-any-return]
