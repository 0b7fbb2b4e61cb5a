"""The map side of aggregates in Python: a map task makes states of its rows.

``combine`` takes the rows of a task in blocks of bounded size. In each block, the rows of a key are one batch and one
call of ``update``. As long as the next block has rows of the key, its state goes on to that block. In the end it leaves
on the key's last row. So a hot key leaves a task as one state, and memory is bounded by two blocks. If a key has only a
few rows in a block, a state costs more than it saves. These rows leave together, and the reduce side updates its state
from them.

Two keys that are equal in Spark (-0.0 and 0.0, strings of one collation) may be two keys here. Spark groups them again
before their states are merged. Two keys that differ in Spark are never one key here.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from ...errors import AggregatorError
from .bound_aggregators import (
    STATES,
    Batches,
    BoundAggregators,
    Slicer,
    concatenate,
    exempt_modules_from_garbage_collection,
    key_text,
)
from .check import disagreement

BLOCK_ROWS = 1 << 17
BLOCK_BYTES = 32 << 20
"""A block ends with the batch that brings it to this many rows or bytes."""

FEW_BYTES = 4096
"""If a key has fewer bytes of rows in a block, sending the rows costs less than making, sending and merging a state."""

CHECKED_ROWS = 300
"""The most rows of one key on which a task checks that merging is associative."""
ROWS_PER_CHECKED_ROW = 100
"""The check gets one row for this many rows of a block, and at least three. It updates states with them five times."""

Codes = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class Block:
    """Some rows of a task, and the states of their keys that have not left yet.

    Keys have numbers here: from 0, in the order of the values.
    """

    rows: pa.RecordBatch
    """The columns that leave the task: the key, and the values of Spark's aggregates."""
    keys: pa.RecordBatch
    """The key columns."""
    values: pa.RecordBatch
    """The columns of the aggregators, sorted by key."""
    offsets: Codes
    """For each key, where its values begin; at the end, the number of rows."""
    last: Codes
    """For each key, its last row."""
    where: str
    """Names the rows and the task in errors."""
    rare: list[int] = field(default_factory=list)
    """The keys whose rows leave without a state."""
    states: dict[int, list[Any]] = field(default_factory=dict)
    """For each other key, a state of each aggregator."""

    def place(self, i: int, rows: int | None = None) -> str:
        """Name a key in an error."""
        among = f"in {self.where}" if rows is None else f"with {rows} rows among {self.where}"
        return f"for key {key_text(self.keys, int(self.last[i]))} {among}"


def combine(
    aggregators: BoundAggregators, values: int | None, theta: float
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow`` over rows. It adds the columns STATES and one array for each column.

    Args:
        aggregators: their columns are the last columns of the rows. They leave as arrays: the rows of a rare key.
        values: how many columns after those of the key leave the task with each row. None: only rows that have states
            or the rows of a rare key leave.
        theta: a key with at least this share of a block's rows gets a state, even if these rows are few bytes.
    """
    leaving = aggregators.keys + (values or 0)

    def combine_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        exempt_modules_from_garbage_collection()
        task, seen = aggregators.task(), 0
        before: Block | None = None
        for rows in blocks(batches):
            where = f"rows {seen} to {seen + rows.num_rows - 1} of task {task}"
            seen += rows.num_rows
            block = _next_block(aggregators, rows, before, leaving=leaving, theta=theta, where=where)
            slicers = aggregators.slicers(block.values)
            _update(aggregators, block, slicers)
            if before is None:
                _check(aggregators, block, slicers)
            else:
                yield from _leave(aggregators, before, values is not None)
            before = block
        if before is not None:
            yield from _leave(aggregators, before, values is not None)

    return combine_rows


def blocks(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Concatenate batches to blocks."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            pending.append(batch)
        if sum(b.num_rows for b in pending) >= BLOCK_ROWS or sum(b.nbytes for b in pending) >= BLOCK_BYTES:
            yield concatenate(pending)
            pending = []
    if pending:
        yield concatenate(pending)


def key_codes(columns: pa.Table) -> Codes:
    """Number the keys of rows: rows with the same number have equal keys.

    >>> key_codes(pa.table({"a": ["x", None, "x", "x"], "b": [[1], [1], [1], [2]]})).tolist()
    [0, 1, 0, 2]
    """
    codes = np.zeros(columns.num_rows, np.int64)
    for column in columns.columns:
        flat = pa.array(map(repr, column.to_pylist())) if pa.types.is_nested(column.type) else column.combine_chunks()
        encoded = flat.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        codes = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def in_order(codes: Codes) -> Codes:
    """Return the row numbers, sorted by the number of the key."""
    # numpy sorts integers of 16 bits with a radix sort, which is faster.
    small = len(codes) > 0 and int(codes.max()) < 1 << 16
    return np.argsort(codes.astype(np.uint16) if small else codes, kind="stable")


def _next_block(
    aggregators: BoundAggregators, rows: pa.RecordBatch, before: Block | None, *, leaving: int, theta: float, where: str
) -> Block:
    """Sort rows by key. If the block before has a state of a key, it moves to this block."""
    keys = rows.select(range(aggregators.keys))
    carried, codes = _codes(keys, before)
    order = in_order(codes)
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    offsets = np.append(starts, len(order))
    values = rows.select(range(leaving, rows.num_columns)).take(order)
    block = Block(
        rows=rows.select(range(leaving)),
        keys=keys,
        values=values,
        offsets=offsets,
        last=order[offsets[1:] - 1],
        where=where,
    )
    few = np.diff(offsets) < rows.num_rows * min(theta, FEW_BYTES / max(1, values.nbytes))
    for i, (code, is_rare) in enumerate(zip(codes[order[starts]].tolist(), few.tolist(), strict=True)):
        if before is not None and code in carried:
            block.states[i] = before.states.pop(carried[code])
        elif is_rare:
            block.rare.append(i)
        else:
            block.states[i] = aggregators.zeros()
    return block


def _codes(keys: pa.RecordBatch, before: Block | None) -> tuple[dict[int, int], Codes]:
    """Number the keys of rows; also return the keys of the block before that have a state, by these numbers."""
    if before is None:
        return {}, key_codes(pa.Table.from_batches([keys]))
    with_state = list(before.states)
    carried = before.keys.take(before.last[with_state])
    codes = key_codes(pa.Table.from_batches([carried, keys]))
    return dict(zip(codes[: len(with_state)].tolist(), with_state, strict=True)), codes[len(with_state) :]


def _update(aggregators: BoundAggregators, block: Block, slicers: Sequence[Slicer]) -> None:
    """Update the states of the block with the rows of their keys."""
    offsets = block.offsets.tolist()
    for n, (member, slicer) in enumerate(zip(aggregators, slicers, strict=True)):
        update = member.aggregator.update
        for i, states in block.states.items():
            start, end = offsets[i], offsets[i + 1]
            try:
                states[n] = update(states[n], slicer(start, end))
            except Exception as error:  # whatever the user's code raises
                raise member.failed("update", error, block.place(i, end - start)) from error


def _check(aggregators: BoundAggregators, block: Block, slicers: Sequence[Slicer]) -> None:
    """Check on rows of the largest key of the block that merging is associative."""
    largest = int(np.argmax(np.diff(block.offsets)))
    start = int(block.offsets[largest])
    checked = min(CHECKED_ROWS, max(3, block.values.num_rows // ROWS_PER_CHECKED_ROW))
    end = min(int(block.offsets[largest + 1]), start + checked)
    place = block.place(largest, end - start)
    for member, slicer in zip(aggregators, slicers, strict=True):
        if member.aggregator.approximate:
            continue
        try:
            wrong = disagreement(member.aggregator, [slicer(*part) for part in thirds(start, end)])
        except Exception as error:
            raise member.failed("merge or finish", error, place) from error
        if wrong is not None:
            raise AggregatorError(
                f"{member.class_name}.{wrong[:-1]}; this was {place}: make merge give the same result in any order, or "
                "set approximate = True if it need not."
            )


def thirds(start: int, end: int) -> list[tuple[int, int]]:
    """Cut a range into three parts, or into single rows if there are fewer than three.

    >>> thirds(10, 17)
    [(10, 12), (12, 14), (14, 17)]
    """
    ends = sorted({start + (end - start) * i // 3 for i in range(4)})
    return [*pairwise(ends)]


def _leave(aggregators: BoundAggregators, block: Block, all_rows: bool) -> Iterator[pa.RecordBatch]:
    """Yield the states that have not moved on and the rows of rare keys, each on the last row of its key."""
    with_state = list(block.states)
    for n, member in enumerate(aggregators):
        member.check_states([block.states[i][n] for i in with_state], "update", lambda at: block.place(with_state[at]))
    sent = np.arange(block.rows.num_rows) if all_rows else np.sort(block.last[with_state + block.rare])
    packed = np.full(len(sent), None, object)
    packed[np.searchsorted(sent, block.last[with_state])] = [_packed(aggregators, block, i) for i in with_state]
    rare = np.full(len(sent), -1)
    rare[np.searchsorted(sent, block.last[block.rare])] = block.rare
    rare_or_null = pa.array(rare, mask=rare < 0)
    offsets = pa.array(block.offsets, pa.int32())
    columns = [*block.rows.take(sent).columns, pa.array(packed, pa.binary())]
    columns += [pa.ListArray.from_arrays(offsets, column).take(rare_or_null) for column in block.values.columns]
    if len(sent):
        yield pa.RecordBatch.from_arrays(columns, [*block.rows.schema.names, STATES, *block.values.schema.names])


def _packed(aggregators: BoundAggregators, block: Block, i: int) -> bytes:
    try:
        return pickle.dumps(block.states[i], pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001  # cloudpickle is slower, but it can pickle more objects, or says why it cannot
        pass
    for member, state in zip(aggregators, block.states[i], strict=True):
        try:
            cloudpickle.dumps(state)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise AggregatorError(
                f"{member.class_name}.update made a state that cannot be pickled ({error}), {block.place(i)}: return "
                "an object that can be, or one of a declared type."
            ) from error
    return bytes(cloudpickle.dumps(block.states[i]))  # type: ignore[no-untyped-call]
