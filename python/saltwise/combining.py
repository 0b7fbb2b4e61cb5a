"""The tasks of aggregates in Python: states are made where the rows are, and merged where those of a key meet.

``combine`` takes the rows of a task in blocks of bounded size. In each, the rows of a key are one batch, and one call
of ``update``. A key's state is carried on as long as every next block has rows of it, and leaves on the last of these
rows. So a hot key leaves a task as one state, a rare one as one a block, and what is held is bounded by two blocks.

Two keys that are equal in Spark (-0.0 and 0.0, texts of one collation) may be two keys here: they are grouped by Spark
once more before their states are merged. Two that differ in Spark are never one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from .aggregator import Aggregator
from .associativity import disagreement
from .errors import AggregatorError

BLOCK_ROWS = 1 << 17
BLOCK_BYTES = 32 << 20
"""A block has at least so many rows or bytes, and less than one batch more."""

CHECKED_ROWS = 300
"""Rows of one key on which a task checks that merging is associative."""

Batches = Iterable[pa.RecordBatch]
Codes = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Bound:
    """An Aggregator and the types it has in one query."""

    aggregator: Aggregator
    names: list[str]
    """Of the columns that update gets."""
    returns: pa.DataType
    state: pa.DataType | None


@dataclass
class Block:
    """Rows of a task, and the states of their keys that have not left yet."""

    rows: pa.RecordBatch
    """What leaves: keys, and the values of Spark's aggregates."""
    last: Codes
    """By key: the last row of it."""
    where: str
    states: list[list[Any]] = field(default_factory=list)
    """By key: a state of each aggregator."""


def combine(
    bound: Sequence[Bound], keys: int, values: int | None, task: Callable[[], int]
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return what ``mapInArrow`` calls over rows: it gives some of them states, as a binary column.

    Args:
        bound: the aggregators; their columns come last, in this order.
        keys: how many columns the key has, which come first.
        values: how many columns follow that leave with each row; None: only rows with a state leave.
        task: says which task this is.
    """
    kept = keys + (values or 0)

    def combine_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        before: Block | None = None
        seen, number = 0, task()
        for rows in blocks(batches):
            where = f"rows {seen} to {seen + rows.num_rows - 1} of task {number}"
            seen += rows.num_rows
            leaving = rows.select(range(kept))
            key = leaving.select(range(keys))
            carried = key.slice(0, 0) if before is None else before.rows.select(range(keys)).take(pa.array(before.last))
            codes = key_codes(pa.Table.from_batches([carried, key]))
            codes, new = codes[: carried.num_rows], codes[carried.num_rows :]
            at = dict(zip(codes.tolist(), range(len(codes)), strict=True))
            order = np.argsort(new, kind="stable")
            starts = np.flatnonzero(np.diff(new[order], prepend=-1))
            bounds = np.append(starts, len(order))
            block = Block(leaving, order[bounds[1:] - 1], where)
            # The states of keys that go on are handed over; the others leave with the block before.
            staying = [at.pop(code, None) for code in new[order[starts]].tolist()]
            block.states = [
                [each.aggregator.zero() for each in bound] if i is None or before is None else before.states[i]
                for i in staying
            ]
            sorted_rows = rows.select(range(kept, rows.num_columns)).take(pa.array(order))
            _update(bound, block, sorted_rows, bounds.tolist(), keys, checks=before is None)
            if before is not None:
                yield from _sent(bound, before, sorted(at.values()), keys, values is not None)
            before = block
        if before is not None:
            yield from _sent(bound, before, range(len(before.states)), keys, values is not None)

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


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches to one."""
    [batch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def key_codes(columns: pa.Table) -> Codes:
    """Number the keys of rows: rows with the same number have equal keys.

    >>> key_codes(pa.table({"a": ["x", None, "x", "x"], "b": [[1], [1], [1], [2]]})).tolist()
    [0, 2, 0, 1]
    """
    codes = np.zeros(columns.num_rows, np.int64)
    for column in columns.columns:
        flat = pa.array(map(repr, column.to_pylist())) if pa.types.is_nested(column.type) else column.combine_chunks()
        encoded = flat.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]
    return codes


def _update(
    bound: Sequence[Bound], block: Block, rows: pa.RecordBatch, bounds: list[int], keys: int, checks: bool
) -> None:
    """Add rows, which lie by key between `bounds`, to the states of their keys."""
    first = 0
    for n, each in enumerate(bound):
        its = rows.select(range(first, first + len(each.names))).rename_columns(each.names)
        first += len(each.names)
        batch = cut(each, its)
        update = each.aggregator.update
        for i, states in enumerate(block.states):
            start, end = bounds[i], bounds[i + 1]
            try:
                states[n] = update(states[n], batch(start, end))
            except Exception as error:  # whatever users' code raises
                raise _failed(each, "update", error, _place(block, i, keys, end - start)) from error
        if checks and not each.aggregator.approximate:
            largest = int(np.argmax(np.diff(bounds)))
            start, end = bounds[largest], min(bounds[largest + 1], bounds[largest] + CHECKED_ROWS)
            place = _place(block, largest, keys, end - start)
            try:
                wrong = disagreement(each.aggregator, [batch(*part) for part in thirds(start, end)])
            except Exception as error:
                raise _failed(each, "merge or finish", error, place) from error
            if wrong is not None:
                raise AggregatorError(
                    f"{type(each.aggregator).__name__}.{wrong[:-1]}; this was {place}: make merge give one result in "
                    "any order, or set approximate = True if it need not."
                )


def cut(each: Bound, rows: pa.RecordBatch) -> Callable[[int, int], Any]:
    """Return what makes the batch of the rows from one on up to another."""
    if each.aggregator.batches == "pandas":
        frame = rows.to_pandas()
        return lambda start, end: frame.iloc[start:end]
    return lambda start, end: rows.slice(start, end - start)


def thirds(start: int, end: int) -> list[tuple[int, int]]:
    """Cut a range into three, or into as many as it has rows.

    >>> thirds(10, 17)
    [(10, 12), (12, 14), (14, 17)]
    """
    cuts = sorted({start + (end - start) * i // 3 for i in range(4)})
    return [*pairwise(cuts)]


def _sent(
    bound: Sequence[Bound], block: Block, leaving: Sequence[int], keys: int, all_rows: bool
) -> Iterator[pa.RecordBatch]:
    """Let the states of some keys leave, on their last rows."""
    for n, each in enumerate(bound):
        if each.state is not None:
            states = [block.states[i][n] for i in leaving]
            _held_to(each, "update", "state", each.state, states, lambda at: _place(block, leaving[at], keys))
    packed = [_packed(bound, block, i, keys) for i in leaving]
    at = block.last[np.asarray(leaving, np.int64)]
    if all_rows:
        rows, sent = block.rows, np.full(block.rows.num_rows, None, object)
        sent[at] = packed
    else:
        rows, sent = block.rows.take(pa.array(at)), np.array(packed, object)
    if rows.num_rows:
        names = [*rows.schema.names, STATES]
        yield pa.RecordBatch.from_arrays([*rows.columns, pa.array(sent, pa.binary())], names)


STATES = "states"
"""The column of pickled states, one for each aggregator."""

AT = "at"
"""The column that is 0 on the first row of each key."""


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


def merge(
    bound: Sequence[Bound], keys: int, kept: int, task: Callable[[], int]
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return what ``mapInArrow`` calls over the states of whole keys, one after another: a row with results for each.

    Args:
        bound: the aggregators.
        keys: how many columns the key has.
        kept: how many columns leave as they are, those of the key first; after them come AT and STATES.
        task: says which task this is.
    """

    def merge_states(batches: Batches) -> Iterator[pa.RecordBatch]:
        begun: pa.RecordBatch | None = None
        states: list[Any] = []
        number = task()

        def place(rows: pa.RecordBatch, i: int) -> str:
            return f"for key {key_text(rows, i, keys)} in task {number}"

        for batch in batches:
            rows = batch.select(range(kept))
            rows = rows if begun is None else joined([begun, rows])
            ready: list[int] = []
            results: list[list[Any]] = []
            current = 0
            for i, (at, packed) in enumerate(
                zip(*(column.to_pylist() for column in batch.columns[kept:]), strict=True),
                rows.num_rows - batch.num_rows,
            ):
                new = [each.aggregator.zero() for each in bound] if packed is None else pickle.loads(packed)
                if at == 0:
                    if i:
                        ready.append(current)
                        results.append(_finished(bound, states, place(rows, current)))
                    current, states = i, new
                    continue
                for n, each in enumerate(bound):
                    try:
                        states[n] = each.aggregator.merge(states[n], new[n])
                    except Exception as error:
                        where = f"{place(rows, current)}, with state {at} of the key"
                        raise _failed(each, "merge", error, where) from error
            if ready:
                yield _with_results(bound, rows.take(pa.array(ready)), results, place)
            begun = rows.slice(current, 1) if rows.num_rows else None
        if begun is not None:
            yield _with_results(bound, begun, [_finished(bound, states, place(begun, 0))], place)

    return merge_states


def _finished(bound: Sequence[Bound], states: list[Any], place: str) -> list[Any]:
    results = []
    for each, state in zip(bound, states, strict=True):
        if each.state is not None:
            _held_to(each, "merge", "state", each.state, [state], lambda at: place)
        try:
            results.append(each.aggregator.finish(state))
        except Exception as error:
            raise _failed(each, "finish", error, place) from error
    return results


def _with_results(
    bound: Sequence[Bound], rows: pa.RecordBatch, results: list[list[Any]], place: Callable[[pa.RecordBatch, int], str]
) -> pa.RecordBatch:
    columns = [
        _held_to(each, "finish", "result", each.returns, [result[n] for result in results], lambda at: place(rows, at))
        for n, each in enumerate(bound)
    ]
    names = [*rows.schema.names, *(f"m{n}" for n in range(len(bound)))]
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], names)


def _held_to(
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


def _place(block: Block, i: int, keys: int, rows: int | None = None) -> str:
    among = f"in {block.where}" if rows is None else f"with {rows} rows among {block.where}"
    return f"for key {key_text(block.rows, int(block.last[i]), keys)} {among}"


def key_text(rows: pa.RecordBatch, i: int, keys: int) -> str:
    """Write the key of a row.

    >>> key_text(pa.record_batch({"carrier": ["UA"], "month": [7], "n": [1]}), 0, 2)
    "('UA', 7)"
    """
    values = tuple(column[i].as_py() for column in rows.columns[:keys])
    return repr(values[0] if len(values) == 1 else values)


def _failed(each: Bound, method: str, error: Exception, place: str) -> AggregatorError:
    return AggregatorError(
        f"{type(each.aggregator).__name__}.{method} raised {type(error).__name__}: {error}; this was {place}."
    )
