"""The rows with the highest values of a column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import SaltwiseValueError, check_whole
from ..spark.aggregators.protocol import Aggregator


class TopK(Aggregator):
    """The k rows with the highest values of a column, highest first. Ties go to the lowest values of the other columns.

    Args:
        by: the column to rank by. Its NULLs are skipped.
        others: more columns of the result, of types that can be ordered.
        k: the number of rows, at least 1.
        returns: the type of an array of structs. The struct has a field with the name and type of each column.

    Raises:
        SaltwiseValueError: k is not a whole number of at least 1, or a column is named twice.

    >>> latest = TopK("delay", "tailnum", k=1, returns="array<struct<delay: int, tailnum: string>>")
    >>> latest.finish(latest.update(latest.zero(), pa.record_batch({"delay": [2, 9], "tailnum": ["N1", "N2"]})))
    [{'delay': 9, 'tailnum': 'N2'}]
    """

    def __init__(self, by: str, *others: str, k: int, returns: Any) -> None:
        check_whole("k", k)
        if len({by, *others}) <= len(others):
            raise SaltwiseValueError(f"columns are {', '.join((by, *others))}; name each of them once.")
        self.k = k
        self.returns = returns
        super().__init__(by, *others)

    def zero(self) -> pa.Table | None:
        return None

    def update(self, state: pa.Table | None, batch: pa.RecordBatch) -> pa.Table | None:
        return self.merge(state, pa.Table.from_batches([batch]).filter(batch.column(0).is_valid()))

    def merge(self, a: pa.Table | None, b: pa.Table | None) -> pa.Table | None:
        if a is None or b is None:
            a, b = (b, None) if a is None else (a, None)
        rows = a if b is None else pa.concat_tables([a, b])
        if rows is None:
            return None
        by, *others = rows.column_names
        highest = pc.select_k_unstable(rows, self.k, [(by, "descending"), *((name, "ascending") for name in others)])
        return rows.take(highest)

    def finish(self, state: pa.Table | None) -> list[dict[str, Any]]:
        return [] if state is None else state.to_pylist()
