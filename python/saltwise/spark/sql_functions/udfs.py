"""The SQL functions as pandas UDFs. :func:`saltwise.register` says how they differ from the plugin's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import repeat
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.pandas.functions import pandas_udf

from ...errors import SaltwiseValueError
from ...keys import Item
from ...options import MAX_CAPACITY, SkewOptions, settle
from ...sketches.space_saving import SpaceSaving
from ...splitting.router import Router
from ...strategies import ROUTING
from ..two_phases.routing import task_number

DEFAULT_K = 10
TOP = "array<struct<item: string, count: bigint, error: bigint>>"
ESTIMATE = "struct<estimate: bigint, lower: bigint, upper: bigint>"
EXACT_IN_DOUBLE = 1 << 53

_TYPES = {pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint"}
_TEXTS = (pa.string(), pa.large_string(), pa.null())


def udfs(session: Mapping[str, str]) -> dict[str, Any]:
    """Return the functions by name.

    Args:
        session: the options of the session, by name.
    """
    session_capacity = settle(SkewOptions(), session).capacity

    def skew_worker(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        router = None
        for batch in batches:
            if len(batch) != 3 or batch[2].dtype != "int64" or not all(column.nunique() == 1 for column in batch[:2]):
                raise SaltwiseValueError(
                    f"skew_worker got {', '.join(str(column.iloc[0]) for column in batch)}; call it as skew_worker(n, "
                    "strategy, xxhash64(key, ...)), where n and strategy are constants."
                )
            n, strategy, hashes = batch
            if router is None:
                options = SkewOptions(str(strategy.iloc[0]), int(n.iloc[0]))
                router = Router(settle(options, session, ROUTING), task_number())
            yield pd.Series(router.route(hashes.to_numpy()))

    def heavy_hitters(item: pd.Series, *numbers: pd.Series) -> Any:
        capacity = _constant("capacity", numbers[1:], session_capacity, MAX_CAPACITY)
        k = _constant("k", numbers, DEFAULT_K, capacity)
        return _top(_sketch(item, capacity), k)

    def space_saving_agg(item: pd.Series, *numbers: pd.Series) -> Any:
        capacity = _constant("capacity", numbers, session_capacity, MAX_CAPACITY)
        return _sketch(item, capacity, *numbers[1:]).to_bytes()

    return {
        "heavy_hitters": pandas_udf(heavy_hitters, TOP),  # type: ignore[call-overload]
        "skew_worker": pandas_udf(skew_worker, "int").asNondeterministic(),  # type: ignore[call-overload]
        "space_saving_agg": pandas_udf(space_saving_agg, "binary"),  # type: ignore[call-overload]
        "space_saving_estimate": pandas_udf(space_saving_estimate, ESTIMATE),  # type: ignore[call-overload]
        "space_saving_merge": pandas_udf(space_saving_merge, "binary"),  # type: ignore[call-overload]
        "space_saving_top": pandas_udf(space_saving_top, TOP),  # type: ignore[call-overload]
    }


def space_saving_merge(sketches: pd.Series) -> Any:
    """Merge all sketches of a group. NULLs are skipped."""
    parsed = [SpaceSaving.from_bytes(sketch) for sketch in sketches if sketch is not None]
    return reduce(SpaceSaving.merge, parsed).to_bytes() if parsed else None


def space_saving_top(sketches: pd.Series, *numbers: pd.Series) -> pd.Series:
    """Return the items with the highest counts of each sketch."""
    k = _constant("k", numbers, DEFAULT_K, MAX_CAPACITY)
    return pd.Series([None if sketch is None else _top(SpaceSaving.from_bytes(sketch), k) for sketch in sketches])


def space_saving_estimate(sketches: pd.Series, items: pd.Series) -> pd.DataFrame:
    """Return how often each item was counted."""
    last_bytes, last_sketch = None, None
    estimates: list[tuple[int | None, ...]] = []
    for sketch, item in zip(sketches, _items(items)[0], strict=True):
        # Usually many items are looked up in the same sketch.
        if sketch is not None and sketch != last_bytes:
            last_bytes, last_sketch = sketch, SpaceSaving.from_bytes(sketch)
        if sketch is None or last_sketch is None:
            estimates.append((None,) * 3)
        else:
            estimates.append(last_sketch.estimate(_item_of_type(item, last_sketch.item_type)))
    return pd.DataFrame(estimates, columns=["estimate", "lower", "upper"], dtype="Int64")


def _constant(name: str, given: tuple[pd.Series, ...], default: int, max_value: int) -> int:
    if not given:
        return default
    value = given[0].iloc[0]
    if given[0].nunique(dropna=False) > 1 or not pd.api.types.is_integer(value) or not 1 <= value <= max_value:
        shown = "not constant" if given[0].nunique(dropna=False) > 1 else value
        raise SaltwiseValueError(f"{name} is {shown}; it must be a constant whole number from 1 to {max_value}.")
    return int(value)


def _items(values: pd.Series) -> tuple[list[Item], str]:
    """Return values as items, and their SQL type."""
    array = pa.Array.from_pandas(values)
    if array.type in _TEXTS:
        return array.to_pylist(), "string"
    if array.type == pa.float64() and array.null_count:
        # pandas has no NULL for whole numbers, so it turns them into doubles.
        numbers = array.to_pylist()
        if all(number is None or (number.is_integer() and abs(number) < EXACT_IN_DOUBLE) for number in numbers):
            return [None if number is None else int(number) for number in numbers], "bigint"
    if array.type not in _TYPES:
        raise SaltwiseValueError(
            f"items are of type {array.type}; they must be strings, or whole numbers (below 2^53 among NULLs): cast "
            "them to string."
        )
    return array.to_pylist(), _TYPES[array.type]


def _sketch(values: pd.Series, capacity: int, weights: pd.Series | None = None) -> SpaceSaving:
    items, item_type = _items(values)
    sketch = SpaceSaving(capacity, item_type)
    for item, weight in zip(items, repeat(1) if weights is None else map(_rows, weights), strict=False):
        if weight:
            sketch.offer(item, weight)
    return sketch


def _rows(weight: Any) -> int:
    rows = math.nan if weight is None else float(weight)
    if not 0 <= rows <= EXACT_IN_DOUBLE:
        raise SaltwiseValueError(f"the weight of a row is {weight}; it must be a number from 0 to 2^53.")
    return math.ceil(rows)


def _top(sketch: SpaceSaving, k: int) -> list[dict[str, str | int | None]]:
    return [
        {"item": None if item is None else str(item), "count": count, "error": error}
        for item, count, error in sketch.top(k)
    ]


def _item_of_type(item: Item, item_type: str) -> Item:
    """Return the item to look up, in the type of the sketch."""
    if item is None or isinstance(item, str) == (item_type == "string"):
        return item
    if isinstance(item, str):
        raise SaltwiseValueError(
            f"the sketch counts items of type {item_type}, not string; look up items of that type only."
        )
    return str(item)
