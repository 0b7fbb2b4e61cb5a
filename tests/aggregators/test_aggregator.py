"""Aggregates in Python that merge: skew_groupby(...).agg(MyAgg("x"), ...)."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import Aggregator, AggregatorError, SaltwiseValueError, check_aggregator
from saltwise.spark.aggregators import map_side
from saltwise.spark.aggregators.bound_aggregators import AT, STATES, BoundAggregator, BoundAggregators
from saltwise.spark.aggregators.check import alike
from saltwise.spark.aggregators.map_side import combine
from saltwise.spark.aggregators.reduce_side import merge

# Nine hundred rows in three partitions; 40 % of them have the key 0, 20 % the key 1, 10 % NULL.
ROWS = """
SELECT id,
  CASE WHEN id % 10 < 4 THEN 0 WHEN id % 10 = 4 THEN NULL WHEN id % 10 < 7 THEN 1 ELSE CAST(id % 41 AS INT) END AS k,
  IF(id % 13 = 0, NULL, pmod(xxhash64(id, 1), 97)) AS x,
  IF(id % 17 = 0, NULL, pmod(xxhash64(id, 3), 512) / 16D) AS d
FROM range(0, 900, 1, 3)
"""

# Values of several types, each list a column of the key.
KEYS = [
    "true, false, NULL",
    "7L, -9223372036854775808L, 9007199254740993L, NULL",
    "1.50BD, -99999999.99BD, NULL, 0BD",
    "-0.0D, 0.0D, double('NaN'), double('inf') - double('inf'), double('-inf'), NULL, 1.5D",
    "'a', '', 'A', 'é', 'e\u0301', NULL, 'a '",
    "X'00', X'', X'0000', NULL",
    "DATE'2013-01-01', DATE'0001-01-01', NULL",
    "TIMESTAMP'2013-11-03 05:30:00', TIMESTAMP'2013-11-03 06:30:00', NULL",
    "struct(1, 'a'), struct(1, NULL), NULL, struct(NULL, 'a')",
    "array(-0.0D), array(0.0D), array(double('NaN'), NULL), NULL",
]


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
    """All values in order: what no row may be missing from, and none be twice in. Its state is an object of its own."""

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
    """Of two columns, by pandas: the highest difference."""

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


@pytest.fixture(scope="module", autouse=True)
def rows(spark: SparkSession) -> Iterator[None]:
    # Tasks cannot import the tests.
    module = __import__(__name__)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spark.sql(ROWS).createOrReplaceTempView("measured")
    yield
    spark.catalog.dropTempView("measured")
    cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def found(df: DataFrame) -> list[Any]:
    return sorted(map(tuple, df.collect()), key=repr)


# The same answers


@pytest.fixture(scope="module")
def of_whole_groups(spark: SparkSession, rows: None) -> list[Any]:
    """What whole groups give, by applyInPandas."""

    def of_group(group: pd.DataFrame) -> pd.DataFrame:
        values = sorted(group["id"])
        spread = (group["x"] - group["d"]).max()
        return pd.DataFrame(
            {"k": group["k"].iloc[:1], "m": group["x"].mean(), "ids": [values], "s": spread, "n": len(group)}
        )

    groups = spark.table("measured").groupBy("k")
    return found(groups.applyInPandas(of_group, "k int, m double, ids array<bigint>, s double, n bigint"))


@pytest.mark.parametrize(
    "options",
    [{}, {"strategy": "dchoices"}, {"strategy": "hash"}, {"engine": "arrow"}, {"engine": "arrow", "strategy": "pkg"}],
    ids=str,
)
@pytest.mark.smoke
def test_the_answers_are_those_of_whole_groups(
    spark: SparkSession, of_whole_groups: list[Any], options: dict[str, Any]
) -> None:
    ours = (
        spark.table("measured")
        .skew_groupby("k", **options)
        .agg(Mean("x").alias("m"), Values("id").alias("ids"), Spread("x", "d").alias("s"), number("id").alias("n"))
    )

    assert len(of_whole_groups) > 30
    for one, other in zip(found(ours), of_whole_groups, strict=True):
        assert alike(one, other, 1e-9), (one, other)


def test_sparks_own_aggregates_stand_beside_in_any_order(spark: SparkSession) -> None:
    df = spark.table("measured")
    sparks = [
        F.count("*"),
        F.count(df["x"]),
        F.avg("d"),
        F.percentile_approx("x", 0.5).alias("middle"),
        F.median("d"),
        F.count_distinct("x", "d"),
        F.sum_distinct("x"),
        F.covar_pop("x", "id"),
        F.max_by("id", "x"),
        F.expr("sum(x) FILTER (WHERE d > 10) AS above"),
        F.first(df["k"], ignorenulls=True).alias("a `quoted` name", metadata={"unit": "m"}),
    ]
    stock = df.groupBy("k").agg(*sparks)

    ours = df.skew_groupby("k").agg(*sparks[:4], number("x"), *sparks[4:], Mean("x").alias("m"))

    assert ours.columns == [*stock.columns[:5], "number(x)", *stock.columns[5:], "m"]
    assert ours.drop("number(x)", "m").schema == stock.schema
    for one, other in zip(found(ours.drop("number(x)", "m")), found(stock), strict=True):
        assert alike(one, other, 1e-9), (one, other)


@pytest.mark.parametrize("engine", ["plugin", "arrow"])
def test_keys_of_each_type_are_grouped_as_spark_groups_them(spark: SparkSession, engine: Any) -> None:
    columns = [
        f"element_at(array({values}), 1 + CAST(id % size(array({values})) AS INT)) AS k{i}"
        for i, values in enumerate(KEYS)
    ]
    keyed = spark.sql(f"SELECT id, {', '.join(columns)} FROM range(0, 400, 1, 3)")
    for keys in (keyed.columns[1:6], keyed.columns[6:], ["k3"], ["k9"]):
        ours = keyed.skew_groupby(*keys, engine=engine).agg(number("id"), F.count("*").alias("n"))
        stock = keyed.groupBy(*keys).agg(F.count("*"), F.count("*").alias("n"))

        # xxhash64 takes -0.0 for 0.0 and all NaNs for one.
        shown: list[Any] = [F.xxhash64(*keys).alias("key"), "n"]
        assert found(ours.select(*shown, "number(id)")) == found(stock.select(*shown, "count(1)"))


def test_what_groupby_takes_is_taken(spark: SparkSession, version: tuple[int, ...]) -> None:
    df = spark.table("measured")
    columns: list[list[Any]] = [[["k", "x"]], [F.col("x") % 3, df["k"]]]
    if version >= (4, 0):
        columns.append([2])
    for cols in columns:
        ours = df.skew_groupby(*cols).agg(number(df["d"]), number(F.col("d") * 2))
        stock = df.groupBy(*cols).agg(F.count("*"), F.count("*").alias("n"))

        assert ours.columns[:-2] == stock.columns[:-2]
        assert found(ours) == found(stock)


def test_without_keys_there_is_one_group(spark: SparkSession) -> None:
    df = spark.table("measured")

    assert found(df.skew_groupby().agg(number("x"), F.count("*"))) == [(900, 900)]
    nothing = df.where("id < 0")
    assert found(nothing.skew_groupby().agg(number("x"), F.count("*"))) == [(0, 0)]
    assert found(nothing.skew_groupby("k").agg(number("x"), F.count("*"))) == []


def test_grouped_data_without_an_aggregator_answers_as_sparks_own(spark: SparkSession) -> None:
    df = spark.table("measured")

    grouped = df.skew_groupby("k")

    assert found(grouped.agg({"x": "sum"})) == found(df.groupBy("k").agg({"x": "sum"}))
    assert found(grouped.pivot("x", [3]).count()) == found(df.groupBy("k").pivot("x", [3]).count())


# The plan


def test_one_pass_and_one_exchange_by_key(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    spark.table("measured").skew_groupby("k").agg(Mean("x"), F.count("*")).explain()

    plan = capsys.readouterr().out
    assert plan.count("Range (") == plan.count("Exchange ") == plan.count("combine_rows(") == 1, plan


def test_a_named_strategy_routes_rows_to_workers_first(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    spark.table("measured").skew_groupby("k", strategy="pkg", partitions=7).agg(Mean("x")).explain()

    plan = capsys.readouterr().out
    assert "7), REPARTITION_BY_NUM" in plan
    assert plan.index("merge_states(") < plan.index("combine_rows(") < plan.index("route(")


def test_states_and_merges_are_observed(spark: SparkSession) -> None:
    seen = Observation()

    df = spark.table("measured").where("k IN (0, 1)")
    df.skew_groupby("k").agg(number("x"), observation=seen).collect()

    size = seen.get["largest_state"]
    assert 0 < size < 50
    assert seen.get == {
        "groups": 2, "states": 6, "merges": 4, "state_bytes": seen.get["state_bytes"], "largest_state": size, "most_states": 3
    }  # fmt: skip
    assert size < seen.get["state_bytes"] <= 6 * size
    with pytest.raises(SaltwiseValueError) as refused:
        df.skew_groupby("k").agg(F.count("*"), observation=Observation())
    assert str(refused.value) == "observation is given, and there is no Aggregator to observe: leave it out."


# Tasks, without Spark


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


@settings(max_examples=settings().max_examples // 2)
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


def with_methods(**methods: Any) -> Any:
    return type("Odd", (Values,), methods)("x")


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


def test_spark_shows_the_error(spark: SparkSession) -> None:
    @saltwise.aggregator(returns="bigint", zero=int, merge=max, finish=int)
    def odd(state: int, batch: pa.RecordBatch) -> int:
        return state + 1 // 0

    df = spark.table("measured").where("k = 0").coalesce(1)
    with pytest.raises(Exception, match="AggregatorError") as raised:
        df.skew_groupby("k").agg(odd("x")).collect()

    assert re.search(
        r"AggregatorError: odd\.update raised ZeroDivisionError: .*?; this was for key 0 with 366 rows among rows 0 to 365 of "
        r"task 0\.",
        str(raised.value),
    )


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


@pytest.mark.parametrize(
    ("column", "name"),
    [
        (F.expr, "(sum(x) + 1)"),
        (F.expr, "collect_list(DISTINCT x)"),
        (F.expr, "first(x) FILTER (WHERE (d > 1))"),
    ],
)
def test_columns_that_are_not_one_call_are_refused_beside_an_aggregator(
    spark: SparkSession, column: Callable[[str], Any], name: str
) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        spark.table("measured").skew_groupby("k").agg(Mean("x"), column(name))

    assert str(refused.value) == (
        f"agg got '{name}' beside an Aggregator, where a column is one call of an aggregate function: compute further in a "
        "select, and aggregate anything else in an agg of its own."
    )


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


# SQL


def test_sql_has_the_same_results(spark: SparkSession) -> None:
    saltwise.register_aggregator(spark, "mean_of", Mean("x"))

    ours = spark.sql("SELECT k, mean_of(d) FROM measured GROUP BY k")

    for one, other in zip(found(ours), found(spark.sql("SELECT k, avg(d) FROM measured GROUP BY k")), strict=True):
        assert alike(one, other, 1e-9), (one, other)


def test_sql_takes_no_aggregator_that_returns_a_struct(spark: SparkSession) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        saltwise.register_aggregator(spark, "odd", with_methods(returns="struct<n: bigint>"))

    assert str(refused.value) == (
        "Odd returns a struct<n:bigint>, and in SQL an aggregate function in Python cannot return a struct: return "
        "an array with the struct, or use skew_groupby(...).agg."
    )
