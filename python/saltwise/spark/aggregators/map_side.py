"""The tasks of aggregates in Python: states are made where the rows are, and merged where those of a key meet.

``combine`` takes the rows of a task in blocks of bounded size. In each, the rows of a key are one batch, and one call
of ``update``. A key's state is carried on as long as every next block has rows of it, and leaves on the last of these
rows. So a hot key leaves a task as one state, and what is held is bounded by two blocks. The few rows that a block has
of a rare key are not worth a state: they leave together, as they are, and are updated where they meet the key's others.

Two keys that are equal in Spark (-0.0 and 0.0, texts of one collation) may be two keys here: they are grouped by Spark
once more before their states are merged. Two that differ in Spark are never one.
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
from .bound_aggregators import STATES, Batches, Bound, cut, failed, held_to, joined, key_text, of_each, spare_modules
from .check import disagreement

BLOCK_ROWS = 1 << 17
BLOCK_BYTES = 32 << 20
"""A block has at least so many rows or bytes, and less than one batch more."""

FEW_BYTES = 4096
"""Rows of one key in a block that are fewer bytes are cheaper to send than a state is to make, to send and to merge."""

CHECKED_ROWS = 300
"""Rows of one key on which a task checks that merging is associative."""

Codes = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class Block:
    """Rows of a task, by key, and the states of their keys that have not left yet."""

    rows: pa.RecordBatch
    """What leaves: keys, and the values of Spark's aggregates."""
    values: pa.RecordBatch
    """What the aggregators take, sorted by key."""
    bounds: Codes
    """Where each key's values begin, and the number of all."""
    last: Codes
    """By key: the last row of it."""
    where: str
    rare: list[int] = field(default_factory=list)
    """Keys whose rows leave as they are."""
    states: dict[int, list[Any]] = field(default_factory=dict)
    """By key, of the others: a state of each aggregator."""


def combine(
    bound: Sequence[Bound], keys: int, values: int | None, theta: float, task: Callable[[], int]
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return what ``mapInArrow`` calls over rows: some of them get, after what leaves with each, states or rows.

    Args:
        bound: the aggregators; their columns come last, in this order. They leave as arrays: of the rows of a rare key.
        keys: how many columns the key has, which come first.
        values: how many columns follow that leave with each row; None: only rows with a state or rows leave.
        theta: the share of a block's rows from which on a key gets a state, however few bytes they are.
        task: says which task this is.
    """
    kept = keys + (values or 0)

    def combine_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        spare_modules()
        before: Block | None = None
        seen, number = 0, task()
        for rows in blocks(batches):
            where = f"rows {seen} to {seen + rows.num_rows - 1} of task {number}"
            seen += rows.num_rows
            leaving = rows.select(range(kept))
            key = leaving.select(range(keys))
            held = [] if before is None else list(before.states)
            carried = key.slice(0, 0) if before is None else before.rows.select(range(keys)).take(before.last[held])
            codes = key_codes(pa.Table.from_batches([carried, key]))
            codes, new = codes[: carried.num_rows], codes[carried.num_rows :]
            at = dict(zip(codes.tolist(), held, strict=True))
            order = in_order(new)
            starts = np.flatnonzero(np.diff(new[order], prepend=-1))
            bounds = np.append(starts, len(order))
            taken = rows.select(range(kept, rows.num_columns)).take(order)
            block = Block(leaving, taken, bounds, order[bounds[1:] - 1], where)
            # The states of keys that go on are handed over; the others leave with the block before.
            few = np.diff(bounds) < rows.num_rows * min(theta, FEW_BYTES / max(1, taken.nbytes))
            for i, (code, rare) in enumerate(zip(new[order[starts]].tolist(), few.tolist(), strict=True)):
                if before is not None and code in at:
                    block.states[i] = before.states.pop(at[code])
                elif rare:
                    block.rare.append(i)
                else:
                    block.states[i] = [each.aggregator.zero() for each in bound]
            _update(bound, block, keys, checks=before is None)
            if before is not None:
                yield from _sent(bound, before, keys, values is not None)
            before = block
        if before is not None:
            yield from _sent(bound, before, keys, values is not None)

    return combine_rows


def blocks(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Join batches to blocks."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
        if sum(b.num_rows for b in held) >= BLOCK_ROWS or sum(b.nbytes for b in held) >= BLOCK_BYTES:
            yield joined(held)
            held = []
    if held:
        yield joined(held)


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
    """Return the places of rows, by the number of their key."""
    # numpy sorts integers of 16 bits by radix.
    small = len(codes) > 0 and int(codes.max()) < 1 << 16
    return np.argsort(codes.astype(np.uint16) if small else codes, kind="stable")


def _update(bound: Sequence[Bound], block: Block, keys: int, checks: bool) -> None:
    """Add the rows of keys that have states to these."""
    bounds = block.bounds.tolist()
    for n, (each, its) in enumerate(zip(bound, of_each(bound, block.values), strict=True)):
        batch = cut(each, its)
        update = each.aggregator.update
        for i, states in block.states.items():
            start, end = bounds[i], bounds[i + 1]
            try:
                states[n] = update(states[n], batch(start, end))
            except Exception as error:  # whatever users' code raises
                raise failed(each, "update", error, _place(block, i, keys, end - start)) from error
        if checks and not each.aggregator.approximate:
            largest = int(np.argmax(np.diff(block.bounds)))
            start, end = bounds[largest], min(bounds[largest + 1], bounds[largest] + CHECKED_ROWS)
            place = _place(block, largest, keys, end - start)
            try:
                wrong = disagreement(each.aggregator, [batch(*part) for part in thirds(start, end)])
            except Exception as error:
                raise failed(each, "merge or finish", error, place) from error
            if wrong is not None:
                raise AggregatorError(
                    f"{type(each.aggregator).__name__}.{wrong[:-1]}; this was {place}: make merge give one result in "
                    "any order, or set approximate = True if it need not."
                )


def thirds(start: int, end: int) -> list[tuple[int, int]]:
    """Cut a range into three, or into as many as it has rows.

    >>> thirds(10, 17)
    [(10, 12), (12, 14), (14, 17)]
    """
    cuts = sorted({start + (end - start) * i // 3 for i in range(4)})
    return [*pairwise(cuts)]


def _sent(bound: Sequence[Bound], block: Block, keys: int, all_rows: bool) -> Iterator[pa.RecordBatch]:
    """Let the states that are left and the rows of rare keys leave, each on the last row of its key."""
    held = list(block.states)
    for n, each in enumerate(bound):
        if each.state is not None:
            states = [block.states[i][n] for i in held]
            held_to(each, "update", "state", each.state, states, lambda at: _place(block, held[at], keys))
    at = np.arange(block.rows.num_rows) if all_rows else np.sort(block.last[held + block.rare])
    packed = np.full(len(at), None, object)
    packed[np.searchsorted(at, block.last[held])] = [_packed(bound, block, i, keys) for i in held]
    of_rare = np.full(len(at), -1)
    of_rare[np.searchsorted(at, block.last[block.rare])] = block.rare
    chosen = pa.array(of_rare, mask=of_rare < 0)
    offsets = pa.array(block.bounds, pa.int32())
    columns = [*block.rows.take(at).columns, pa.array(packed, pa.binary())]
    columns += [pa.ListArray.from_arrays(offsets, column).take(chosen) for column in block.values.columns]
    if len(at):
        yield pa.RecordBatch.from_arrays(columns, [*block.rows.schema.names, STATES, *block.values.schema.names])


def _packed(bound: Sequence[Bound], block: Block, i: int, keys: int) -> bytes:
    try:
        return pickle.dumps(block.states[i], pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001  # the slower cloudpickle takes more, or says why not
        pass
    for each, state in zip(bound, block.states[i], strict=True):
        try:
            cloudpickle.dumps(state)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise AggregatorError(
                f"{type(each.aggregator).__name__}.update made a state that cannot be pickled ({error}), "
                f"{_place(block, i, keys)}: return an object that can be, or one of a declared type."
            ) from error
    return bytes(cloudpickle.dumps(block.states[i]))  # type: ignore[no-untyped-call]


def _place(block: Block, i: int, keys: int, rows: int | None = None) -> str:
    among = f"in {block.where}" if rows is None else f"with {rows} rows among {block.where}"
    return f"for key {key_text(block.rows, int(block.last[i]), keys)} {among}"
