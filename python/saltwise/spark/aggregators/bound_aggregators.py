"""Aggregators within one query: the columns and types that they have there, and what is raised where they fail."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...errors import AggregatorError
from .protocol import Aggregator

Batches = Iterable[pa.RecordBatch]

STATES = "states"
"""The column of pickled states, one for each aggregator."""

AT = "at"
"""The column that is 0 on the first row of each key."""


@dataclass(frozen=True)
class Bound:
    """An Aggregator and the types it has in one query."""

    aggregator: Aggregator
    names: list[str]
    """Of the columns that update gets."""
    returns: pa.DataType
    state: pa.DataType | None


def of_each(bound: Sequence[Bound], values: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the columns of each aggregator, under the names that it knows."""
    first = 0
    for each in bound:
        yield values.select(range(first, first + len(each.names))).rename_columns(each.names)
        first += len(each.names)


def cut(each: Bound, rows: pa.RecordBatch) -> Callable[[int, int], Any]:
    """Return what makes the batch of the rows from one on up to another."""
    if each.aggregator.batches == "pandas":
        frame = rows.to_pandas()
        return lambda start, end: frame.iloc[start:end]
    return lambda start, end: rows.slice(start, end - start)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches to one."""
    [batch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def held_to(
    each: Bound, method: str, what: str, of: pa.DataType, values: list[Any], place: Callable[[int], str]
) -> pa.Array:
    """Return values as an array of the type that was declared; raise where one of them is of another."""
    try:
        _check_fields(of, values)
        return pa.array(values, of)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    for i, value in enumerate(values):
        try:
            _check_fields(of, [value])
            pa.array([value], of)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            shown = repr(value)
            shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
            raise AggregatorError(
                f"{type(each.aggregator).__name__}.{method} made the {what} {shown}, which is not of the declared type "
                f"{of}, {place(i)}: declare the type that it has."
            ) from error
    raise AssertionError(f"values of {of} that are none together")


def _check_fields(of: pa.DataType, values: list[Any]) -> None:
    """Raise where a dict has other fields than the struct: Arrow would take what is missing for NULL."""
    if pa.types.is_struct(of):
        names = {field.name for field in of}
        for value in values:
            if isinstance(value, dict) and set(value) != names:
                raise ValueError(f"fields {sorted(value)}")


def key_text(rows: pa.RecordBatch, i: int, keys: int) -> str:
    """Write the key of a row.

    >>> key_text(pa.record_batch({"carrier": ["UA"], "month": [7], "n": [1]}), 0, 2)
    "('UA', 7)"
    """
    values = tuple(column[i].as_py() for column in rows.columns[:keys])
    return repr(values[0] if len(values) == 1 else values)


def failed(each: Bound, method: str, error: Exception, place: str) -> AggregatorError:
    return AggregatorError(
        f"{type(each.aggregator).__name__}.{method} raised {type(error).__name__}: {error}; this was {place}."
    )


def spare_modules() -> None:
    """Exempt what a Python worker has imported from the collection of garbage, which Spark asks for after each task.

    It would go through all objects of pandas and pyarrow each time, which takes longer than many a task.
    """
    if not gc.get_freeze_count():
        gc.freeze()
