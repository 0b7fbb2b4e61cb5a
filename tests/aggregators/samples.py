"""Aggregators for the tests."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import cloudpickle

import saltwise
from saltwise import Aggregator

# Tasks cannot import the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Mean(Aggregator):
    returns = "double"
    state = "struct<rows: bigint, sum: double>"

    def zero(self) -> dict[str, Any]:
        return {"rows": 0, "sum": 0.0}

    def update(self, state: dict[str, Any], batch: pa.RecordBatch) -> dict[str, Any]:
        values = batch.column(0).drop_null().cast(pa.float64()).to_numpy()
        return {"rows": state["rows"] + len(values), "sum": state["sum"] + float(values.sum())}

    def merge(self, a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
        return {"rows": a["rows"] + b["rows"], "sum": a["sum"] + b["sum"]}

    def finish(self, state: dict[str, Any]) -> float | None:
        return state["sum"] / state["rows"] if state["rows"] else None


class Values(Aggregator):
    """All values in order, so a row that is missing or counted twice shows. Its state is an object of its own."""

    returns = "array<bigint>"

    def zero(self) -> Counter[Any]:
        return Counter()

    def update(self, state: Counter[Any], batch: pa.RecordBatch) -> Counter[Any]:
        state.update(batch.column(0).to_pylist())
        return state

    def merge(self, a: Counter[Any], b: Counter[Any]) -> Counter[Any]:
        a.update(b)
        return a

    def finish(self, state: Counter[Any]) -> list[Any]:
        return sorted(state.elements(), key=lambda value: (value is not None, value or 0))


class Spread(Aggregator):
    """The highest difference of two columns, by pandas."""

    returns = "double"
    batches = "pandas"

    def zero(self) -> float:
        return float("-inf")

    def update(self, state: float, batch: pd.DataFrame) -> float:
        return max(state, float((batch["x"] - batch["d"]).max()))

    def merge(self, a: float, b: float) -> float:
        return max(a, b)

    def finish(self, state: float) -> float:
        return state


@saltwise.aggregator(returns="bigint", zero=int, merge=lambda a, b: a + b, finish=lambda state: state)
def number(state: int, batch: pa.RecordBatch) -> int:
    """Rows, NULLs among them."""
    return state + int(batch.num_rows)


def with_methods(**methods: Any) -> Any:
    """Return an aggregator named Odd that is Values but for these methods."""
    return type("Odd", (Values,), methods)("x")
