"""A uniform sample of bounded size: each row draws a random number, and the rows with the k lowest numbers win.

Efraimidis and Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters 2006, with equal
weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..errors import check_whole
from ..spark.aggregators.protocol import Aggregator
from .columns import Doubles

if TYPE_CHECKING:
    from pyspark.sql import Column

State = tuple[Doubles, pa.Array | None]


class ReservoirSample(Aggregator):
    """k values of a column, drawn without replacement; all values if there are fewer. All rows are equally likely.

    A task that runs again draws new numbers.

    Args:
        column: the values. NULL counts as a value.
        k: the number of values, at least 1.
        returns: the type of an array of the column's type.

    Raises:
        SaltwiseValueError: k is not a whole number of at least 1.

    >>> sample = ReservoirSample("ms", 2, returns="array<int>")
    >>> len(sample.finish(sample.update(sample.zero(), pa.record_batch({"ms": [1, 2, 3]}))))
    2
    """

    approximate = True

    def __init__(self, column: str | Column, k: int, returns: Any) -> None:
        check_whole("k", k)
        self.k = k
        self.returns = returns
        super().__init__(column)

    def zero(self) -> State:
        return np.empty(0), None

    def update(self, state: State, batch: pa.RecordBatch) -> State:
        return self.merge(state, (np.random.default_rng().random(batch.num_rows), batch.column(0)))

    def merge(self, a: State, b: State) -> State:
        if a[1] is None or b[1] is None:
            a, b = (b, a) if a[1] is None else (a, b)
            drawn, values = a
        else:
            drawn, values = np.concatenate([a[0], b[0]]), pa.concat_arrays([a[1], b[1]])
        lowest = np.argsort(drawn)[: self.k]
        return drawn[lowest], None if values is None else values.take(pa.array(lowest))

    def finish(self, state: State) -> list[Any]:
        return [] if state[1] is None else state[1].to_pylist()
