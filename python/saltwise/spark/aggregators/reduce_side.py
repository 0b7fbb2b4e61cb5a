"""The reduce side of aggregates in Python: a key's states are merged, and rows of it that came as they are join them.

What there is of a key arrives in one piece, cut into batches. Of those that have passed, one state is held.
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

from .bound_aggregators import Batches, Bound, cut, failed, held_to, joined, key_text, of_each, spare_modules

Place = Callable[[], str]
"""Says which key this is, and where."""


def merge(
    bound: Sequence[Bound], keys: int, kept: int, task: Callable[[], int]
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return what ``mapInArrow`` calls over the states and rows of whole keys, one after another: each becomes a row.

    Args:
        bound: the aggregators.
        keys: how many columns the key has.
        kept: how many columns leave as they are, those of the key first; after them come AT, STATES, and the columns
            that the aggregators take, as arrays.
        task: says which task this is.
    """

    def merge_states(batches: Batches) -> Iterator[pa.RecordBatch]:
        spare_modules()
        number = task()
        begun: pa.RecordBatch | None = None
        group = Group(bound)
        for batch in batches:
            at = batch.column(kept).to_pylist()
            begins = [i for i, of_key in enumerate(at) if of_key == 0]
            # The first row of each key, also of the one that goes on.
            rows = batch.select(range(kept)).take(pa.array(begins, pa.int64()))
            rows = rows if begun is None else joined([begun, rows])
            packed = batch.column(kept + 1).to_pylist()
            offsets, values = together(batch.columns[kept + 2 :])
            cuts = [cut(each, its) for each, its in zip(bound, of_each(bound, values), strict=True)]
            results: list[list[Any]] = []
            bounds = [*([] if begun is None else [0]), *begins, batch.num_rows]
            for i, (start, end) in enumerate(pairwise(bounds)):
                place = partial(_place, rows, i, keys, number)
                if i or begun is None:
                    group = Group(bound)
                for row in range(start, end):
                    if packed[row] is not None:
                        group.merge(packed[row], at[row], place)
                if offsets[start] < offsets[end]:
                    group.update([batch_of(offsets[start], offsets[end]) for batch_of in cuts], place)
                if i < rows.num_rows - 1:
                    results.append(group.finish(place))
            if results:
                yield _with_results(bound, rows.slice(0, len(results)), results, keys, number)
            begun = rows.slice(rows.num_rows - 1) if rows.num_rows else None
        if begun is not None:
            results = [group.finish(partial(_place, begun, 0, keys, number))]
            yield _with_results(bound, begun, results, keys, number)

    return merge_states


class Group:
    """What has arrived of one key."""

    def __init__(self, bound: Sequence[Bound]) -> None:
        self.bound = bound
        self.states: list[Any] | None = None
        self.made_by = "update"
        """The method that made the states."""

    def merge(self, packed: bytes, at: int, place: Place) -> None:
        """Merge states that a task made, the part of the key with this number."""
        states = pickle.loads(packed)
        if self.states is None:
            self.states = states
            return
        for n, each in enumerate(self.bound):
            try:
                self.states[n] = each.aggregator.merge(self.states[n], states[n])
            except Exception as error:  # whatever users' code raises
                raise failed(each, "merge", error, f"{place()}, with part {at} of the key") from error
        self.made_by = "merge"

    def update(self, batches: Sequence[Any], place: Place) -> None:
        """Add rows, a batch for each aggregator."""
        self.states = self._begun()
        for n, (each, batch) in enumerate(zip(self.bound, batches, strict=True)):
            try:
                self.states[n] = each.aggregator.update(self.states[n], batch)
            except Exception as error:
                where = f"{place()}, with {len(batch)} of the rows that came as they are"
                raise failed(each, "update", error, where) from error
        self.made_by = "update"

    def finish(self, place: Place) -> list[Any]:
        """Return the results."""
        results = []
        for each, state in zip(self.bound, self._begun(), strict=True):
            if each.state is not None:
                held_to(each, self.made_by, "state", each.state, [state], lambda at: place())
            try:
                results.append(each.aggregator.finish(state))
            except Exception as error:
                raise failed(each, "finish", error, place()) from error
        return results

    def _begun(self) -> list[Any]:
        return [each.aggregator.zero() for each in self.bound] if self.states is None else self.states


def together(arrays: Sequence[pa.ListArray]) -> tuple[list[int], pa.RecordBatch]:
    """Join the arrays of each column; return where those of a row begin, and the number of all.

    >>> offsets, values = together([pa.array([[1, 2], None, [3]])])
    >>> offsets, values.column(0).to_pylist()
    ([0, 2, 2, 3], [1, 2, 3])
    """
    lengths = pc.list_value_length(arrays[0]).fill_null(0).to_numpy()
    columns = [array.flatten() for array in arrays]
    return [0, *np.cumsum(lengths).tolist()], pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])


def _with_results(
    bound: Sequence[Bound], rows: pa.RecordBatch, results: list[list[Any]], keys: int, task: int
) -> pa.RecordBatch:
    columns = [
        held_to(
            each,
            "finish",
            "result",
            each.returns,
            [result[n] for result in results],
            lambda at: _place(rows, at, keys, task),
        )
        for n, each in enumerate(bound)
    ]
    names = [*rows.schema.names, *(f"m{n}" for n in range(len(bound)))]
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], names)


def _place(rows: pa.RecordBatch, i: int, keys: int, task: int) -> str:
    return f"for key {key_text(rows, i, keys)} in task {task}"
