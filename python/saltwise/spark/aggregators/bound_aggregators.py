"""The Aggregators of one query, with their columns and types, and the errors for methods that fail."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...errors import AggregatorError
from .protocol import Aggregator

Batches = Iterable[pa.RecordBatch]

Slicer = Callable[[int, int], Any]
"""``(start, end)`` gives the batch of those rows, for an Aggregator's ``update``."""

STATES = "states"
"""The column of pickled states: a list with one state for each aggregator."""

AT = "at"
"""The column with the number of each part of a key. The first part of each key has 0."""

_WRONG_TYPE = (pa.ArrowException, TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class BoundAggregator:
    """An Aggregator with its columns and types in one query."""

    aggregator: Aggregator
    names: list[str]
    """Names of the columns that ``update`` gets."""
    returns: pa.DataType
    state: pa.DataType | None

    @property
    def class_name(self) -> str:
        """The name of the Aggregator in errors."""
        return type(self.aggregator).__name__

    def slicer(self, rows: pa.RecordBatch) -> Slicer:
        """Return a slicer of rows that have the columns of this Aggregator."""
        if self.aggregator.batches == "pandas":
            frame = rows.to_pandas()
            return lambda start, end: frame.iloc[start:end]
        return lambda start, end: rows.slice(start, end - start)

    def check_states(self, states: list[Any], method: str, place: Callable[[int], str]) -> None:
        """Raise if a state is not of the declared type.

        Args:
            states: the states.
            method: the method that made them.
            place: names the key of a state in an error, by its index.
        """
        if self.state is not None:
            self._typed_array(states, self.state, f"{method} made the state", place)

    def result_array(self, results: list[Any], place: Callable[[int], str]) -> pa.Array:
        """Return results as an array of the declared type; raise if one is not of this type."""
        return self._typed_array(results, self.returns, "finish made the result", place)

    def failed(self, method: str, error: Exception, place: str) -> AggregatorError:
        """Return the error for a method that raised."""
        return AggregatorError(f"{self.class_name}.{method} raised {type(error).__name__}: {error}; this was {place}.")

    def _typed_array(
        self, values: list[Any], declared: pa.DataType, made: str, place: Callable[[int], str]
    ) -> pa.Array:
        try:
            return _array(values, declared)
        except _WRONG_TYPE:
            pass
        for i, value in enumerate(values):
            try:
                _array([value], declared)
            except _WRONG_TYPE as error:
                shown = repr(value)
                shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
                raise AggregatorError(
                    f"{self.class_name}.{made} {shown}, which is not of the declared type {declared}, {place(i)}: "
                    "declare the type that it has."
                ) from error
        raise AssertionError(f"every value is of type {declared}, but an array of them is not")


@dataclass(frozen=True)
class BoundAggregators:
    """All Aggregators of one query, in order."""

    members: Sequence[BoundAggregator]
    keys: int
    """Number of key columns. They are the first columns of every batch."""
    task: Callable[[], int]
    """Returns the number of the running task."""

    def __iter__(self) -> Iterator[BoundAggregator]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def zeros(self) -> list[Any]:
        """Return a new state of each aggregator."""
        return [member.aggregator.zero() for member in self]

    def slicers(self, values: pa.RecordBatch) -> list[Slicer]:
        """Return the slicer of each aggregator for rows with the columns of all of them, in order."""
        slicers, first = [], 0
        for member in self:
            columns = values.select(range(first, first + len(member.names)))
            slicers.append(member.slicer(columns.rename_columns(member.names)))
            first += len(member.names)
        return slicers


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one batch with the rows of all batches."""
    [batch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def key_text(keys: pa.RecordBatch, i: int) -> str:
    """Write the key of a row for an error.

    >>> key_text(pa.record_batch({"carrier": ["UA"], "month": [7]}), 0)
    "('UA', 7)"
    """
    values = tuple(column[i].as_py() for column in keys.columns)
    return repr(values[0] if len(values) == 1 else values)


def exempt_modules_from_garbage_collection() -> None:
    """Exempt the modules that a Python worker has imported from garbage collection.

    Spark collects garbage after each task. Each time, that would look at all objects of pandas and pyarrow, which takes
    longer than many tasks do.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def _array(values: list[Any], declared: pa.DataType) -> pa.Array:
    if pa.types.is_struct(declared):
        # Arrow reads a missing field as NULL.
        names = {field.name for field in declared}
        for value in values:
            if isinstance(value, dict) and set(value) != names:
                raise ValueError(f"fields {sorted(value)}")
    return pa.array(values, declared)
