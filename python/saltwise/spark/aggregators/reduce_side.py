"""The reduce side of aggregates in Python: it merges the states of each key, and adds the rows that came without one.

The parts of a key arrive one after another, cut into batches. One state has all parts that have arrived so far.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .bound_aggregators import Batches, BoundAggregators, concatenate, exempt_modules_from_garbage_collection, key_text

Place = Callable[[], str]
"""Names a key and its task in an error."""


def merge(aggregators: BoundAggregators, unchanged: int) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow`` over the parts of whole keys, key after key. It makes one row for each key.

    Args:
        aggregators: their results are the last columns.
        unchanged: how many columns leave unchanged; the key columns come first. The columns after them are AT, STATES,
            and those of the aggregators, as arrays.
    """

    def merge_states(batches: Batches) -> Iterator[pa.RecordBatch]:
        exempt_modules_from_garbage_collection()
        task = aggregators.task()
        unfinished: pa.RecordBatch | None = None  # the row of a key that may have more parts in the next batch
        group = Group(aggregators)
        for batch in batches:
            numbers = batch.column(unchanged).to_pylist()
            begins = [i for i, number in enumerate(numbers) if number == 0]
            # The first row of each key. The unfinished key comes first.
            rows = batch.select(range(unchanged)).take(pa.array(begins, pa.int64()))
            rows = rows if unfinished is None else concatenate([unfinished, rows])
            packed = batch.column(unchanged + 1).to_pylist()
            offsets, values = flatten(batch.columns[unchanged + 2 :])
            slicers = aggregators.slicers(values)
            results: list[list[Any]] = []
            key_starts = [*([] if unfinished is None else [0]), *begins, batch.num_rows]
            for i, (start, end) in enumerate(pairwise(key_starts)):
                place = partial(_place, aggregators, rows, task, i)
                if i or unfinished is None:
                    group = Group(aggregators)
                for row in range(start, end):
                    if packed[row] is not None:
                        group.merge(packed[row], numbers[row], place)
                if offsets[start] < offsets[end]:
                    group.update([slicer(offsets[start], offsets[end]) for slicer in slicers], place)
                if i < rows.num_rows - 1:
                    results.append(group.finish(place))
            if results:
                yield _with_results(aggregators, rows.slice(0, len(results)), results, task)
            unfinished = rows.slice(rows.num_rows - 1) if rows.num_rows else None
        if unfinished is not None:
            results = [group.finish(partial(_place, aggregators, unfinished, task, 0))]
            yield _with_results(aggregators, unfinished, results, task)

    return merge_states


class Group:
    """The parts of one key that have arrived so far."""

    def __init__(self, aggregators: BoundAggregators) -> None:
        self.aggregators = aggregators
        self.states: list[Any] | None = None
        self.made_by = "update"
        """The method that made the states."""

    def merge(self, packed: bytes, number: int, place: Place) -> None:
        """Merge the pickled states of the part with this number."""
        states = pickle.loads(packed)  # noqa: S301  # by a map task of this query
        if self.states is None:
            self.states = states
            return
        for n, member in enumerate(self.aggregators):
            try:
                self.states[n] = member.aggregator.merge(self.states[n], states[n])
            except Exception as error:  # whatever the user's code raises
                raise member.failed("merge", error, f"{place()}, with part {number} of the key") from error
        self.made_by = "merge"

    def update(self, batches: Sequence[Any], place: Place) -> None:
        """Add rows: a batch for each aggregator."""
        self.states = self._states()
        for n, (member, batch) in enumerate(zip(self.aggregators, batches, strict=True)):
            try:
                self.states[n] = member.aggregator.update(self.states[n], batch)
            except Exception as error:
                where = f"{place()}, with {len(batch)} of the rows that came as they are"
                raise member.failed("update", error, where) from error
        self.made_by = "update"

    def finish(self, place: Place) -> list[Any]:
        """Return the result of each aggregator."""
        results = []
        for member, state in zip(self.aggregators, self._states(), strict=True):
            member.check_states([state], self.made_by, lambda _: place())
            try:
                results.append(member.aggregator.finish(state))
            except Exception as error:
                raise member.failed("finish", error, place()) from error
        return results

    def _states(self) -> list[Any]:
        return self.aggregators.zeros() if self.states is None else self.states


def flatten(arrays: Sequence[pa.ListArray]) -> tuple[list[int], pa.RecordBatch]:
    """Flatten the arrays of each column.

    Returns:
        Where the values of each row begin, with the number of all values at the end; and the values.

    >>> offsets, values = flatten([pa.array([[1, 2], None, [3]])])
    >>> offsets, values.column(0).to_pylist()
    ([0, 2, 2, 3], [1, 2, 3])
    """
    lengths = pc.list_value_length(arrays[0]).fill_null(0).to_numpy()
    columns = [array.flatten() for array in arrays]
    return [0, *np.cumsum(lengths).tolist()], pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])


def _with_results(
    aggregators: BoundAggregators, rows: pa.RecordBatch, results: list[list[Any]], task: int
) -> pa.RecordBatch:
    place = partial(_place, aggregators, rows, task)
    columns = [member.result_array([result[n] for result in results], place) for n, member in enumerate(aggregators)]
    names = [*rows.schema.names, *(f"m{n}" for n in range(len(aggregators)))]
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], names)


def _place(aggregators: BoundAggregators, rows: pa.RecordBatch, task: int, i: int) -> str:
    return f"for key {key_text(rows.select(range(aggregators.keys)), i)} in task {task}"
