"""StatefulAggregate: after every batch the state is what one aggregate over all rows gives, whatever was stopped."""

from __future__ import annotations

import math
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.streams.kept_totals import Rows, expected, files_of, rows_of, table, totals

from saltwise import StatefulAggregate

if TYPE_CHECKING:
    from tests.agree import WithConf

# Over Connect, foreachBatch runs in a Python of the server's, which cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def units_written(path: Path) -> dict[str, int]:
    """Return for each version that has files: how many units."""
    return {folder.name: len([*folder.glob("unit=*")]) for folder in sorted(path.glob("version=*"))}


def batch_of(number: int, rng: random.Random, rows: int = 60) -> Rows:
    """Draw keys of which a few are heavy, others in each batch."""
    return [(f"k{number // 2 * 3 + int(rng.paretovariate(0.8)) % 40}", rng.randint(-9, 9)) for _ in range(rows)]


LIGHT = {
    "spark.sql.adaptive.enabled": False,
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": 1,
}
"""For many queries of few rows: compiling and planning ahead take longer than the queries."""


@pytest.fixture
def light_queries(with_conf: WithConf) -> Iterator[None]:
    with with_conf(LIGHT):
        yield


light = pytest.mark.usefixtures("light_queries")


@light
@pytest.mark.slow
@pytest.mark.parametrize("batches", [5, pytest.param(50, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "flux", "split": True},
        *(pytest.param(options, marks=pytest.mark.full) for options in ({}, {"strategy": "milp"})),
    ],
    ids=str,
)
def test_drifting_batches_on_4_then_6_then_4_workers(
    spark: SparkSession, tmp_path: Path, batches: int, options: dict[str, Any]
) -> None:
    grown, shrunk = batches // 3 + 1, 2 * (batches // 3 + 1)
    rng = random.Random(4)
    rows: list[tuple[str | None, int]] = []
    aggregate = totals(tmp_path, workers=4, **options)
    moved = 0
    for number in range(batches):
        if number in (grown, shrunk):
            aggregate.rescale(6 if number == grown else 4)
        batch = batch_of(number, rng)
        rows += batch
        aggregate.update(table(spark, batch), number)
        assert rows_of(aggregate.state(spark)) == expected(rows), number
        report = aggregate.report
        assert report is not None
        assert report.function.workers == (6 if grown <= number < shrunk else 4)
        moved += report.moved_keys
    # The MILP looks at the fullest worker alone, and one key has nearly half of the rows.
    assert moved > 0 or options.get("strategy") == "milp"


class Stopped(Exception):
    pass


@contextmanager
def stopping(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[tuple[list[str], list[str]]]:
    """Raise Stopped before the write of this number; yield the lists of the writes that began, and that ended.

    What is on disk after one write is there before the next one, so this stops between any two of them.
    """
    began: list[str] = []
    ended: list[str] = []

    def watch(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def write(*args: Any, **kwargs: Any) -> Any:
            began.append(name)
            if len(began) == at:
                raise Stopped
            result = real(*args, **kwargs)
            ended.append(name)
            return result

        patch.setattr(owner, name, write)

    writer = type(spark.range(0).write)  # that of classic sessions, or that of Connect
    with monkeypatch.context() as patch:
        for owner, name in (writer, "parquet"), (os, "fsync"), (Path, "replace"), (shutil, "rmtree"):
            watch(owner, name)
        yield began, ended


@light
@pytest.mark.slow
def test_a_stopped_batch_is_whole_or_absent_and_counts_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(1)
    batches = [batch_of(number, rng) for number in range(3)]
    before, after = expected([*batches[0], *batches[1]]), expected([*batches[0], *batches[1], *batches[2]])
    base = tmp_path / "base"
    for number in 0, 1:
        totals(base, workers=2).update(table(spark, batches[number]), number)
    stops: list[str] = []
    while True:
        path = tmp_path / f"stopped {len(stops)}"
        shutil.copytree(base, path)
        with stopping(spark, monkeypatch, at=len(stops) + 1) as (began, ended):
            try:
                totals(path, workers=3).update(table(spark, batches[2]), 2)
            except Stopped:
                stops.append(began[-1])
            else:
                break
        committed = "replace" in ended
        assert rows_of(totals(path, workers=3).state(spark)) == (after if committed else before), began
        totals(path, workers=3).update(table(spark, batches[2]), 2)
        assert rows_of(totals(path, workers=3).state(spark)) == after, began
    assert set(stops) == {"parquet", "fsync", "replace", "rmtree"}


@light
def test_half_of_the_files_of_a_stopped_batch_are_written_again(spark: SparkSession, tmp_path: Path) -> None:
    first, second = [("a", 1), ("b", 2)], [("a", 5), ("c", 7)]
    totals(tmp_path).update(table(spark, first), 0)
    half = tmp_path / "version=0000000002" / "unit=1"
    half.mkdir(parents=True)
    (half / "part-00000-half.snappy.parquet").write_bytes(b"PAR1")
    (tmp_path / "commit.json.0a1b.part").write_text("{")
    assert rows_of(totals(tmp_path).state(spark)) == expected(first)
    totals(tmp_path).update(table(spark, second), 1)
    assert rows_of(totals(tmp_path).state(spark)) == expected(first + second)


def test_a_stream_that_replays_its_last_batch_counts_it_once(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [("a", 1), ("b", 2), ("a", 3)]
    source, state, checkpoint, calls = (tmp_path / name for name in ("source", "state", "checkpoint", "calls"))
    aggregate = totals(state)

    def update(batch: DataFrame, batch_id: int) -> None:
        with calls.open("a") as file:
            file.write(f"{batch_id} ")
        aggregate.update(batch, batch_id)

    def run() -> None:
        stream = spark.readStream.schema("k string, v int").option("maxFilesPerTrigger", 1).parquet(str(source))
        writer = stream.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.foreachBatch(update).start().awaitTermination()

    for number in range(2):
        table(spark, [(key, value + number) for key, value in rows]).coalesce(1).write.mode("append").parquet(
            str(source)
        )
    run()
    every = [*rows, *((key, value + 1) for key, value in rows)]
    assert rows_of(totals(state).state(spark)) == expected(every)
    for name in "1", ".1.crc":
        (checkpoint / "commits" / name).unlink()  # as where the driver is lost before Spark notes the end of the batch
    run()
    assert calls.read_text() == "0 1 1 "
    assert rows_of(totals(state).state(spark)) == expected(every)


def test_a_batch_that_was_there_and_any_before_it_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    aggregate = totals(tmp_path)
    aggregate.update(table(spark, [("a", 1)]), 7)
    before = files_of(tmp_path)
    for number in 7, 6, 0:
        aggregate.update(table(spark, [("a", 1)]), number)
    assert files_of(tmp_path) == before


@light
def test_only_workers_with_rows_are_written_and_old_files_go(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [(f"k{i}", i) for i in range(40)]
    aggregate = totals(tmp_path, workers=4, max_migration=1e-9)  # nothing moves
    aggregate.update(table(spark, rows), 0)
    assert units_written(tmp_path) == {"version=0000000001": 4}
    before = aggregate.state(spark)
    aggregate.update(table(spark, [("k1", 1)]), 1)
    assert units_written(tmp_path) == {"version=0000000001": 4, "version=0000000002": 1}
    assert rows_of(before) == expected(rows)  # its files are still there
    aggregate.update(table(spark, [("k1", 1)]), 2)
    assert units_written(tmp_path) == {"version=0000000001": 3, "version=0000000002": 1, "version=0000000003": 1}
    aggregate.update(table(spark, []), 3)
    assert units_written(tmp_path) == {"version=0000000001": 3, "version=0000000003": 1}
    assert rows_of(aggregate.state(spark)) == expected([*rows, ("k1", 1), ("k1", 1)])


@light
def test_the_report_counts_the_groups_and_rows_that_moved(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [(f"k{i % 40}", i % 40) for i in range(80)]
    aggregate = totals(tmp_path, workers=2)
    assert aggregate.report is None
    aggregate.update(table(spark, rows), 0)
    first = totals(tmp_path).report
    assert first is not None
    assert (first.made_by, first.migration, first.moved_keys, first.moved_rows) == ("largest first", 0.0, 0, 0.0)
    aggregate.rescale(3)
    aggregate.update(table(spark, []), 1)
    second = totals(tmp_path).report
    assert second is not None
    assert (second.made_by, second.function.workers) == ("level", 3)
    keys = np.array([row[0] for row in table(spark, rows).select(F.xxhash64("k")).distinct().collect()])
    moved = int((first.function.place(keys) != second.function.place(keys)).sum())
    assert (second.moved_keys, second.moved_rows) == (moved, 2.0 * moved)
    assert 0 < moved < 40
    assert rows_of(aggregate.state(spark)) == expected(rows)
    assert units_written(tmp_path)["version=0000000002"] == 3


@light
def test_a_key_group_that_moves_keeps_its_files(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [(f"k{i % 40}", i) for i in range(200)]
    aggregate = totals(tmp_path, workers=2, strategy="milp", key_groups=8)
    aggregate.update(table(spark, rows), 0)
    assert units_written(tmp_path) == {"version=0000000001": 8}
    before = files_of(tmp_path / "version=0000000001")
    aggregate.rescale(4)
    aggregate.update(table(spark, [("k1", 7)]), 1)
    report = aggregate.report
    assert report is not None
    assert (report.made_by, report.function.workers) == ("milp", 4)
    assert 0 < report.moved_rows <= 200
    assert files_of(tmp_path / "version=0000000001") == before
    assert units_written(tmp_path)["version=0000000002"] == 1
    assert rows_of(aggregate.state(spark)) == expected([*rows, ("k1", 7)])


@light
def test_a_batch_moves_no_more_than_the_budget(spark: SparkSession, tmp_path: Path) -> None:
    even: Rows = [(f"k{i}", i) for i in range(200)]
    heavy = [f"k{i}" for i in range(200) for _ in range(20) if i % 8 < 2]
    for limit, most in ((0.3, 0.3), (math.inf, 2.0)):
        aggregate = totals(tmp_path / str(limit), workers=2, strategy="milp", key_groups=16, max_migration=limit)
        aggregate.update(table(spark, even), 0)
        aggregate.update(table(spark, [(key, 1) for key in heavy]), 1)
        report = aggregate.report
        assert report is not None
        assert report.migration <= most


@light
def test_a_heavy_key_lies_on_several_workers_and_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [("hot" if i % 2 else f"k{i % 20}", i) for i in range(400)]
    aggregate = totals(tmp_path, workers=4, split=True)
    every: list[tuple[str | None, int]] = []
    for number in range(2):
        aggregate.update(table(spark, rows), number)
        every += rows
        assert rows_of(aggregate.state(spark)) == expected(every)
    split = [int(folder.name.removeprefix("unit=")) for folder in tmp_path.glob("version=*/unit=-*")]
    assert sorted(set(split)) == [-4, -3, -2, -1]


@light
@pytest.mark.parametrize(
    "options", [{}, pytest.param({"strategy": "milp", "key_groups": 5}, marks=pytest.mark.full)], ids=str
)
def test_late_rows_are_left_out_and_old_groups_go(spark: SparkSession, tmp_path: Path, options: dict[str, Any]) -> None:
    """Against a state in plain Python."""
    rng, late, ttl = random.Random(5), timedelta(seconds=40), timedelta(seconds=90)
    aggregate = totals(tmp_path, time="at", late=late, ttl=ttl, **options)
    state: dict[str, tuple[list[int], int]] = {}
    latest: int | None = None
    for number in range(5):
        now = 30 * number
        batch = [
            (f"k{int(rng.paretovariate(0.4)) % 9}", rng.randint(0, 9), now - rng.randint(0, 60)) for _ in range(12)
        ]
        if latest is not None:
            state = {key: group for key, group in state.items() if group[1] >= latest - 90}
        for key, value, at in batch:
            if latest is None or at >= latest - 40:
                values, seen = state.get(key, ([], at))
                state[key] = ([*values, value], max(seen, at))
        kept = [at for _, _, at in batch if latest is None or at >= latest - 40]
        latest = max([*kept, *([] if latest is None else [latest])])
        rows = ", ".join(f"('{key}', {value}, timestamp_seconds({at}))" for key, value, at in batch)
        aggregate.update(spark.sql(f"SELECT * FROM VALUES {rows} AS t(k, v, at)"), number)
        alive = [(key, value) for key, (values, seen) in state.items() if seen >= latest - 90 for value in values]
        assert rows_of(aggregate.state(spark)) == expected(alive), number


FUNCTIONS: dict[str, Callable[[], Column]] = {
    "count": lambda: F.count("v"),
    "rows": lambda: F.count("*"),
    "count_if": lambda: F.count_if(F.col("v") > 2),
    "filtered": lambda: F.expr("sum(v) FILTER (WHERE v > 1)"),
    "sum": lambda: F.sum("v"),
    "sum of decimals": lambda: F.sum("d"),
    "avg": lambda: F.avg("v"),
    "avg of decimals": lambda: F.avg("d"),
    "min": lambda: F.min("s"),
    "max": lambda: F.max("v"),
    "max_by": lambda: F.max_by("s", "o"),
    "min_by": lambda: F.min_by("s", "o"),
    "set": lambda: F.collect_set("v"),
    "list": lambda: F.collect_list("v"),
    "some": lambda: F.some(F.col("v") > 3),
    "every": lambda: F.every(F.col("v") > 3),
    "xor": lambda: F.bit_xor("v"),
    "any_value": lambda: F.any_value("one", ignoreNulls=True),
    "sketch": lambda: F.hll_sketch_agg("v"),
}


@light
def test_every_function_agrees_with_an_aggregate_from_scratch(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(0, 90, 1, 2).selectExpr(
        "id % 5 = 0 OR id % 7 = 0 AS `a key`",
        "if(id % 6 = 0, NULL, if(id % 6 = 1, -0D, if(id % 6 = 2, 0D, double('nan')))) AS `x.y`",
        "if(id % 4 = 0, NULL, cast(id * 7 % 11 AS int)) AS v",
        "cast(if(id % 9 = 0, NULL, id / 8) AS decimal(10, 3)) AS d",
        "concat('s', id) AS s",
        "cast(id * 37 % 101 AS int) AS o",
        "if(id % 3 = 0, NULL, 'one') AS one",
        "id",
    )
    functions = {name: make() for name, make in FUNCTIONS.items()}
    for number in range(2):
        aggregate = StatefulAggregate(tmp_path, ["a key", "x.y"], functions, workers=2 + number)
        aggregate.update(rows.where(f"id div 45 = {number}"), number)

    def readable(df: DataFrame) -> list[str]:
        lists = [F.sort_array(name).alias(name) for name in ("set", "list")]
        estimate = F.hll_sketch_estimate("sketch").alias("sketch")
        whole = df.select("`a key`", (F.col("`x.y`") + F.lit(0.0)).alias("x"), *(f"`{name}`" for name in FUNCTIONS))
        return sorted(
            str(row) for row in whole.withColumns({"set": lists[0], "list": lists[1], "sketch": estimate}).collect()
        )

    stock = rows.groupBy("`a key`", "`x.y`").agg(*(column.alias(name) for name, column in functions.items()))
    state = StatefulAggregate(tmp_path, ["a key", "x.y"], functions, workers=3).state(spark)
    assert [(f.name, f.dataType.simpleString()) for f in state.schema] == [
        (f.name, f.dataType.simpleString()) for f in stock.schema
    ]
    assert readable(state) == readable(stock)


@light
def test_a_sum_of_decimals_that_overflows_stays_null(spark: SparkSession, tmp_path: Path, with_conf: WithConf) -> None:
    most = "9" * 38
    aggregate = StatefulAggregate(tmp_path, "k", {"total": F.sum("v")}, workers=2)
    with with_conf({"spark.sql.ansi.enabled": False}):
        for number, value in enumerate((most, most, f"-{most}")):
            aggregate.update(spark.sql(f"SELECT 1 AS k, cast('{value}' AS decimal(38, 0)) AS v"), number)
        assert [tuple(row) for row in aggregate.state(spark).collect()] == [(1, None)]
