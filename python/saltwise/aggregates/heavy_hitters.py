"""The most frequent values of a column: SpaceSaving, whose summaries merge.

Nasir et al., "The Power of Both Choices", ICDE 2015, section 4.2.
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import check_whole
from ..sketches.space_saving import SpaceSaving
from ..spark.aggregators.protocol import Aggregator
from .columns import texts

if TYPE_CHECKING:
    from pyspark.sql import Column


class HeavyHitters(Aggregator):
    """The k most frequent values of a column, as an array of structs, like SQL's ``heavy_hitters``.

    The true count is in [count - error, count]. Every value with a share of at least 1/capacity is found.

    Args:
        column: the values, which are counted as strings. NULLs are skipped.
        k: the number of values, at least 1.
        capacity: number of counters of the sketch; 10 k by default.

    Raises:
        SaltwiseValueError: an argument is out of range.

    >>> places = HeavyHitters("dest", k=1)
    >>> places.finish(places.update(places.zero(), pa.record_batch({"dest": ["ORD", "LAX", "ORD"]})))
    [{'item': 'ORD', 'count': 2, 'error': 0}]
    """

    returns = "array<struct<item: string, count: bigint, error: bigint>>"
    approximate = True

    def __init__(self, column: str | Column, k: int = 10, capacity: int | None = None) -> None:
        super().__init__(column)
        check_whole("k", k)
        self.k = k
        self.capacity = 10 * k if capacity is None else capacity
        SpaceSaving(self.capacity)

    def zero(self) -> SpaceSaving:
        return SpaceSaving(self.capacity, "string")

    def update(self, state: SpaceSaving, batch: pa.RecordBatch) -> SpaceSaving:
        for entry in texts(batch.column(0)).value_counts().to_pylist():
            state.offer(entry["values"], entry["counts"])
        return state

    def merge(self, a: SpaceSaving, b: SpaceSaving) -> SpaceSaving:
        return a.merge(b)

    def finish(self, state: SpaceSaving) -> list[dict[str, Any]]:
        return [counted._asdict() for counted in state.top(self.k)]


copyreg.pickle(SpaceSaving, lambda sketch: (SpaceSaving.from_bytes, (sketch.to_bytes(),)))
