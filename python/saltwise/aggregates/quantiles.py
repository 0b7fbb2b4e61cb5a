"""Quantiles by sketches of bounded size.

KLL: Karnin, Lang, Liberty, "Optimal Quantile Approximation in Streams", FOCS 2016. The error of a rank is bounded by a
share of the rows, the same for all ranks. t-digest: Dunning and Ertl, "Computing Extremely Accurate Quantiles Using
t-Digests", 2019. It has no bound, and is most exact at both ends.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from datasketches import kll_doubles_sketch, tdigest_double

from ..errors import SaltwiseValueError, check_whole
from ..spark.aggregators.protocol import Aggregator
from .columns import doubles

if TYPE_CHECKING:
    from pyspark.sql import Column

QUARTILES = (0.25, 0.5, 0.75)


class _Quantiles(Aggregator):
    """Common part of the sketches of Apache DataSketches: they take arrays of doubles, and merge in place."""

    returns = "array<double>"
    approximate = True
    smallest_k: int

    def __init__(self, column: str | Column, probabilities: Sequence[float], k: int) -> None:
        super().__init__(column)
        check_whole("k", k, self.smallest_k, 65535)
        if not probabilities or not all(0 <= p <= 1 for p in probabilities):
            raise SaltwiseValueError(f"probabilities are {probabilities!r}; name at least one, each from 0 to 1.")
        self.probabilities = [float(p) for p in probabilities]
        self.k = k

    def update(self, state: Any, batch: pa.RecordBatch) -> Any:
        state.update(np.array(doubles(batch.column(0))))  # a copy: the sketch needs a writable array
        return state

    def merge(self, a: Any, b: Any) -> Any:
        a.merge(b)
        return a


class KllQuantiles(_Quantiles):
    """Quantiles of a number column by a KLL sketch, as an array of doubles; NULL if there are no numbers.

    Args:
        column: the numbers. NULLs and NaNs are skipped.
        probabilities: the quantiles to compute, each in [0, 1].
        k: size of the sketch, from 8 to 65535. With 200 the error of a rank is below 1.33 % of the rows, with 99 %
            confidence.

    Raises:
        SaltwiseValueError: there is no probability, or one or k is out of range.

    >>> median = KllQuantiles("ms", [0.5])
    >>> median.finish(median.update(median.zero(), pa.record_batch({"ms": [1, 2, 3, 4, None]})))
    [3.0]
    """

    smallest_k = 8

    def __init__(self, column: str | Column, probabilities: Sequence[float] = QUARTILES, k: int = 200) -> None:
        super().__init__(column, probabilities, k)

    def zero(self) -> Any:
        return kll_doubles_sketch(self.k)

    def finish(self, state: Any) -> list[float] | None:
        return None if state.is_empty() else list(state.get_quantiles(self.probabilities))


class TDigestQuantiles(_Quantiles):
    """Quantiles of a number column by a t-digest, as an array of doubles; NULL if there are no numbers.

    Args:
        column: the numbers. NULLs and NaNs are skipped.
        probabilities: the quantiles to compute, each in [0, 1].
        k: compression, from 10 to 65535: about the number of centroids.

    Raises:
        SaltwiseValueError: there is no probability, or one or k is out of range.

    >>> middle = TDigestQuantiles("ms", [0.5])
    >>> middle.finish(middle.update(middle.zero(), pa.record_batch({"ms": [1, 2, 3, None]})))
    [2.0]
    """

    smallest_k = 10

    def __init__(self, column: str | Column, probabilities: Sequence[float] = QUARTILES, k: int = 100) -> None:
        super().__init__(column, probabilities, k)

    def zero(self) -> Any:
        return tdigest_double(self.k)

    def finish(self, state: Any) -> list[float] | None:
        return None if state.is_empty() else [state.get_quantile(p) for p in self.probabilities]


def _kll(data: bytes) -> Any:
    return kll_doubles_sketch.deserialize(data)


def _tdigest(data: bytes) -> Any:
    return tdigest_double.deserialize(data)


copyreg.pickle(kll_doubles_sketch, lambda sketch: (_kll, (sketch.serialize(),)))
copyreg.pickle(tdigest_double, lambda sketch: (_tdigest, (sketch.serialize(),)))
