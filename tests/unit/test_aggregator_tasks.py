"""Aggregators in tasks without Spark: each row counts once, errors say where they arose, and the check finds what does not merge."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.aggregators.samples import Mean, Values, number, with_methods

from saltwise import Aggregator, AggregatorError, SaltwiseValueError, check_aggregator
from saltwise.spark.aggregators import map_side
from saltwise.spark.aggregators.bound_aggregators import AT, STATES, BoundAggregator, BoundAggregators
from saltwise.spark.aggregators.map_side import combine
from saltwise.spark.aggregators.reduce_side import merge


def bound(
    aggregator: Aggregator, state: pa.DataType | None = None, returns: pa.DataType | None = None
) -> BoundAggregator:
    names = [str(column) for column in aggregator.columns]
    return BoundAggregator(aggregator, names, returns or pa.list_(pa.int64()), state)


def in_tasks(
    tasks: list[list[pa.RecordBatch]], each: BoundAggregator, values: int | None = None, theta: float = 0
) -> list[pa.RecordBatch]:
    """What leaves the map side of a query over rows of a key and a value."""
    return [
        batch
        for number, batches in enumerate(tasks)
        for batch in combine(BoundAggregators([each], 1, lambda number=number: number), values, theta)(batches)  # type: ignore[misc]
    ]


@settings(max_examples=settings().max_examples // 4)
@given(
    st.lists(
        st.lists(st.lists(st.tuples(st.sampled_from("abcdé"), st.integers(0, 9)), max_size=8), max_size=5), max_size=4
    ),
    st.integers(1, 12),
    st.integers(1, 6),
    st.booleans(),
    st.sampled_from([0, 0.2, 0.5, 1]),
    st.randoms(use_true_random=False),
)
def test_random_tasks_batches_blocks_and_merges_give_every_row_once(
    tasks: list[list[list[tuple[str, int]]]], block: int, size: int, all_rows: bool, theta: float, rng: random.Random
) -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("x", pa.int64())])
    batches = [
        [pa.RecordBatch.from_pylist([{"k": k, "v": x, "x": x} for k, x in rows], schema) for rows in task]
        for task in tasks
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(map_side, "BLOCK_ROWS", block)
        sent = (
            in_tasks(batches, bound(Values("x")), 1, theta)
            if all_rows
            else in_tasks(
                [[batch.select([0, 2]) for batch in task] for task in batches], bound(Values("x")), None, theta
            )
        )
    parts = defaultdict(list)
    for batch in sent:
        for row in batch.to_pylist():
            # A part of a key is states or rows.
            if row[STATES] is not None or row["x"] is not None:
                assert (row[STATES] is None) != (row["x"] is None)
                parts[row["k"]].append({STATES: row[STATES], "x": row["x"]})
    arriving = []
    for key in parts:
        rng.shuffle(parts[key])
        arriving += [{"k": key if i == 0 else None, AT: i, **part} for i, part in enumerate(parts[key])]
    names = [("k", pa.string()), (AT, pa.int32()), (STATES, pa.binary()), ("x", pa.list_(pa.int64()))]
    table = pa.Table.from_pylist(arriving, pa.schema(names))
    whole = merge(BoundAggregators([bound(Values("x"))], 1, int), 1)(table.to_batches(max_chunksize=size))
    results = {row["k"]: row["m0"] for batch in whole for row in batch.to_pylist()}

    rows = [row for task in tasks for batch in task for row in batch]
    assert results == {key: sorted(x for k, x in rows if k == key) for key in {k for k, _ in rows}}
    if all_rows:
        # Spark's own aggregates see all rows, as they were.
        assert sorted((r["k"], r["v"]) for batch in sent for r in batch.to_pylist()) == sorted(rows)


def test_a_key_in_every_block_leaves_its_task_as_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_side, "BLOCK_ROWS", 10)
    batches = [pa.record_batch({"k": ["hot"] * 9 + [f"rare {i}"], "x": range(10)}) for i in range(20)]

    sent = Counter(key for batch in in_tasks([batches], bound(Values("x"))) for key in batch.column(0).to_pylist())

    assert sent == {"hot": 1} | {f"rare {i}": 1 for i in range(20)}


def test_few_rows_of_a_rare_key_leave_as_they_are() -> None:
    rows = pa.record_batch({"k": ["hot"] * 7 + ["rare"] * 3, "x": range(10)})

    def left(theta: float) -> dict[str, Any]:
        [batch] = in_tasks([[rows]], bound(Values("x")), theta=theta)
        return {row["k"]: row["x"] for row in batch.to_pylist()}

    assert left(0.3) == {"hot": None, "rare": None}
    assert left(0.31) == {"hot": None, "rare": [7, 8, 9]}
    assert left(1) == {"hot": [*range(7)], "rare": [7, 8, 9]}


def test_many_bytes_of_a_rare_key_become_a_state() -> None:
    def left(size: int) -> list[bool]:
        rows = pa.record_batch({"k": range(100), "x": ["x" * size] * 100})
        [batch] = in_tasks([[rows]], bound(Values("x"), returns=pa.list_(pa.string())), theta=1)
        return [state is None for state in batch.column(STATES).to_pylist()]

    assert left(map_side.FEW_BYTES // 2) == [True] * 100
    assert left(map_side.FEW_BYTES) == [False] * 100


def test_a_key_that_has_a_state_adds_its_few_rows_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_side, "BLOCK_ROWS", 10)
    hot = pa.record_batch({"k": ["hot"] * 10, "x": range(10)})
    few = pa.record_batch({"k": ["hot"] + [f"rare {i}" for i in range(9)], "x": range(10)})

    sent = [row for batch in in_tasks([[hot, few, hot]], bound(Values("x")), theta=0.5) for row in batch.to_pylist()]

    assert [row[STATES] is None for row in sent if row["k"] == "hot"] == [False]
    assert all(row["x"] for row in sent if row["k"] != "hot")


# What is refused, and what goes wrong


def failing(*_: Any) -> Any:
    raise ZeroDivisionError("division by zero")


BATCH = pa.record_batch({"k": ["a", "b", "b", "b"], "x": [1, 2, 3, 4]})
STRUCT = pa.struct([("n", pa.int64())])


def average(state: Any, batch: Any) -> Any:
    return float(np.mean(batch.column(0).to_numpy()))


@pytest.mark.parametrize(
    ("aggregator", "state", "message"),
    [
        (
            with_methods(update=failing),
            None,
            "Odd.update raised ZeroDivisionError: division by zero; this was for key 'a' with 1 rows among rows 0 to 3 of "
            "task 0.",
        ),
        (
            with_methods(merge=failing),
            None,
            "Odd.merge or finish raised ZeroDivisionError: division by zero; this was for key 'b' with 3 rows among rows 0 "
            "to 3 of task 0.",
        ),
        (
            with_methods(zero=lambda self: {"n": 0}, update=lambda self, a, b: {"m": 1}, approximate=True),
            STRUCT,
            "Odd.update made the state {'m': 1}, which is not of the declared type struct<n: int64>, for key 'a' in rows 0 "
            "to 3 of task 0: declare the type that it has.",
        ),
        (
            with_methods(update=lambda self, a, b: "many", approximate=True),
            pa.int64(),
            "Odd.update made the state 'many', which is not of the declared type int64, for key 'a' in rows 0 to 3 of task "
            "0: declare the type that it has.",
        ),
        (
            with_methods(
                zero=float,
                update=lambda self, a, b: average(a, b),
                merge=lambda self, a, b: (a + b) / 2,
                finish=lambda self, a: a,
            ),
            None,
            "Odd.merge is not associative: (a + b) + c is 3.25, and a + (b + c) is 2.75; this was for key 'b' with 3 rows "
            "among rows 0 to 3 of task 0: make merge give the same result in any order, or set approximate = True if "
            "it need not.",
        ),
    ],
    ids=["update raises", "merge raises", "a struct of other fields", "a state of another type", "not associative"],
)
def test_errors_name_class_method_key_and_rows(aggregator: Aggregator, state: pa.DataType | None, message: str) -> None:
    with pytest.raises(AggregatorError) as raised:
        in_tasks([[BATCH]], bound(aggregator, state))

    assert str(raised.value) == message


def test_a_state_that_cannot_be_pickled_is_refused() -> None:
    odd = with_methods(update=lambda self, a, b: (i for i in range(3)), approximate=True)
    with pytest.raises(AggregatorError) as raised:
        in_tasks([[BATCH]], bound(odd))

    assert re.fullmatch(
        r"Odd\.update made a state that cannot be pickled \(cannot pickle 'generator' object\), for key 'a' in rows 0 to 3 "
        r"of task 0: return an object that can be, or one of a declared type\.",
        str(raised.value),
    )


@pytest.mark.parametrize(
    ("methods", "returns", "message"),
    [
        (
            {"merge": failing},
            None,
            "Odd.merge raised ZeroDivisionError: division by zero; this was for key 'b' in task 5, with part 1 of the key.",
        ),
        (
            {"finish": failing},
            None,
            "Odd.finish raised ZeroDivisionError: division by zero; this was for key 'a' in task 5.",
        ),
        (
            {"finish": lambda self, a: "many"},
            pa.int64(),
            "Odd.finish made the result 'many', which is not of the declared type int64, for key 'a' in task 5: declare the "
            "type that it has.",
        ),
    ],
    ids=["merge", "finish", "returns"],
)
def test_errors_of_the_merging_side_name_the_key(
    methods: dict[str, Any], returns: pa.DataType | None, message: str
) -> None:
    halves = in_tasks([[BATCH.slice(0, 3)], [BATCH.slice(3)]], bound(Values("x")))
    states = pa.Table.from_batches(halves)
    at = pa.array([0, 0, 1], pa.int32())
    arriving = pa.table({"k": ["a", "b", None], AT: at, STATES: states.column(STATES), "x": states.column("x")})
    with pytest.raises(AggregatorError) as raised:
        list(
            merge(BoundAggregators([bound(with_methods(**methods), None, returns)], 1, lambda: 5), 1)(
                arriving.to_batches()
            )
        )

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("state", "methods", "message"),
    [
        (
            None,
            {"update": failing},
            "Odd.update raised ZeroDivisionError: division by zero; this was for key 'a' in task 5, with 1 of the rows that "
            "came as they are.",
        ),
        (
            pa.int64(),
            {"zero": int, "update": lambda self, a, b: "many"},
            "Odd.update made the state 'many', which is not of the declared type int64, for key 'a' in task 5: declare the "
            "type that it has.",
        ),
    ],
    ids=["raises", "another type"],
)
def test_errors_in_the_rows_of_rare_keys_name_the_key(
    state: pa.DataType | None, methods: dict[str, Any], message: str
) -> None:
    [sent] = in_tasks([[BATCH]], bound(Values("x")), theta=1)
    arriving = sent.add_column(1, AT, pa.array([0, 0], pa.int32()))
    with pytest.raises(AggregatorError) as raised:
        list(merge(BoundAggregators([bound(with_methods(**methods), state)], 1, lambda: 5), 1)([arriving]))

    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mean(), "Mean got no column; name at least one for its update."),
        (
            lambda: with_methods(returns=None),
            "Odd does not say what it returns; set returns to a type, such as 'double'.",
        ),
        (
            lambda: with_methods(batches="panda"),
            "batches of Odd is 'panda'; it must be one of arrow, pandas; did you mean 'pandas'?",
        ),
    ],
)
def test_an_aggregator_says_what_it_lacks(make: Callable[[], Aggregator], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        make()

    assert str(refused.value) == message


# The check


def parts_of(numbers: list[int]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"x": [i]}) for i in numbers]


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.integers(-1000, 1000), min_size=3, max_size=12), st.integers(0, 99))
def test_the_check_passes_what_merges(numbers: list[int], seed: int) -> None:
    for aggregator in (Mean("x"), Values("x"), number("x")):
        check_aggregator(aggregator, parts_of(numbers), seed)


def test_the_check_finds_what_does_not_merge() -> None:
    latest = with_methods(merge=lambda self, a, b: b)
    odd_zero = with_methods(zero=lambda self: Counter([0]))
    for aggregator, message in (
        (latest, "Odd.merge is not associative: (a + b) + c is [3], and (c + b) + a is [1]."),
        (
            odd_zero,
            "Odd.merge is not associative: (a + b) + c is [0, 0, 0, 1, 2, 3], and zero + ((a + b) + c) is [0, 0, 0, 0, 1, 2, "
            "3].",
        ),
    ):
        with pytest.raises(AggregatorError) as raised:
            check_aggregator(aggregator, parts_of([1, 2, 3]))

        assert str(raised.value) == message


def test_the_check_says_what_it_needs() -> None:
    for aggregator, numbers, message in (
        (Mean("x"), [1, 2], "batches has 2 entries; give at least three."),
        (
            with_methods(approximate=True),
            [1, 2, 3],
            "Odd is approximate, so its results may differ; test its error bound instead.",
        ),
    ):
        with pytest.raises(SaltwiseValueError) as refused:
            check_aggregator(aggregator, parts_of(numbers))

        assert str(refused.value) == message
