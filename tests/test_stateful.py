"""StatefulAggregate: after every batch the state is what one aggregate over all rows gives, whatever was stopped."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from saltwise import SaltwiseError, StatefulAggregate
from saltwise.spark.state_folder import FORMAT, VERSION, StatefulAggregateError
from saltwise.versioned_json import dump_versioned

if TYPE_CHECKING:
    from tests.conftest import WithConf

# Over Connect, foreachBatch runs in a Python of the server's, which cannot import this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

Rows = Sequence[tuple[str | None, int]]


def table(spark: SparkSession, rows: Rows) -> DataFrame:
    """Return rows of a key and a number, as one partition without Python in it."""
    values = ", ".join(f"({'NULL' if key is None else repr(key)}, {value})" for key, value in rows)
    return spark.sql(
        f"SELECT CAST(k AS string) AS k, CAST(v AS int) AS v FROM VALUES {values or '(0, 0)'} AS t(k, v) {'' if rows else 'WHERE false'}"
    )


def totals(path: Path, workers: int = 3, **options: Any) -> StatefulAggregate:
    return StatefulAggregate(
        path, "k", {"n": F.count("*"), "total": F.sum("v"), "most": F.max("v")}, workers, **options
    )


def expected(rows: Rows) -> set[tuple[Any, ...]]:
    groups = defaultdict(list)
    for key, value in rows:
        groups[key].append(value)
    return {(key, len(values), sum(values), max(values)) for key, values in groups.items()}


def found(state: DataFrame) -> set[tuple[Any, ...]]:
    rows = [tuple(row) for row in state.collect()]
    assert len(rows) == len(set(rows))
    return set(rows)


def files_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def units_written(path: Path) -> dict[str, int]:
    """Return for each version that has files: how many units."""
    return {folder.name: len([*folder.glob("unit=*")]) for folder in sorted(path.glob("version=*"))}


def batch_of(number: int, rng: random.Random, rows: int = 60) -> Rows:
    """Draw keys of which a few are heavy, others in each batch."""
    return [(f"k{number // 5 * 3 + int(rng.paretovariate(0.8)) % 40}", rng.randint(-9, 9)) for _ in range(rows)]


LIGHT = {
    "spark.sql.adaptive.enabled": False,
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": 1,
}
"""For many queries of few rows: what compiles and plans ahead takes longer than they do."""


@pytest.mark.slow
@pytest.mark.parametrize("batches", [8, pytest.param(50, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"strategy": "milp"}, marks=pytest.mark.full), {"strategy": "flux", "split": True}],
    ids=str,
)
def test_batches_with_drifting_heads_on_8_then_12_then_8_workers(
    spark: SparkSession, tmp_path: Path, with_conf: WithConf, batches: int, options: dict[str, Any]
) -> None:
    with with_conf(LIGHT):
        follow_batches(spark, tmp_path, batches, options)


def follow_batches(spark: SparkSession, tmp_path: Path, batches: int, options: dict[str, Any]) -> None:
    grown, shrunk = batches // 3 + 1, 2 * (batches // 3 + 1)
    rng = random.Random(4)
    rows: list[tuple[str | None, int]] = []
    aggregate = totals(tmp_path, workers=8, **options)
    moved = 0
    for number in range(batches):
        if number in (grown, shrunk):
            aggregate.rescale(12 if number == grown else 8)
        batch = batch_of(number, rng)
        rows += batch
        aggregate.update(table(spark, batch), number)
        assert found(aggregate.state(spark)) == expected(rows), number
        report = aggregate.report
        assert report is not None
        assert report.function.workers == (12 if grown <= number < shrunk else 8)
        moved += report.moved_keys
    # The MILP looks at the fullest worker alone, and one key has nearly half of the rows.
    assert moved > 0 or options.get("strategy") == "milp"


class Stopped(Exception):
    pass


@contextmanager
def stopping(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[list[str]]:
    """Raise Stopped before or after a write, the one of this number; yield the list of the writes."""
    writes: list[str] = []

    def watched(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def step(when: str) -> None:
            writes.append(f"{when} {name}")
            if len(writes) == at:
                raise Stopped

        def write(*args: Any, **kwargs: Any) -> Any:
            step("before")
            result = real(*args, **kwargs)
            step("after")
            return result

        patch.setattr(owner, name, write)

    writer = type(spark.range(0).write)  # that of classic sessions, or that of Connect
    with monkeypatch.context() as patch:
        for owner, name in (writer, "parquet"), (os, "fsync"), (Path, "replace"), (shutil, "rmtree"):
            watched(owner, name)
        yield writes


@pytest.mark.slow
def test_a_batch_that_is_stopped_between_any_two_writes_is_whole_or_not_there_and_counts_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_conf: WithConf
) -> None:
    with with_conf(LIGHT):
        stop_between_writes(spark, tmp_path, monkeypatch)


def stop_between_writes(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    batches = [batch_of(number, rng) for number in range(3)]
    before, after = expected([*batches[0], *batches[1]]), expected([*batches[0], *batches[1], *batches[2]])
    base = tmp_path / "base"
    for number in 0, 1:
        totals(base, workers=4).update(table(spark, batches[number]), number)
    stops, at = [], 0
    while True:
        at += 1
        path = tmp_path / f"stopped {at}"
        shutil.copytree(base, path)
        with stopping(spark, monkeypatch, at) as writes:
            try:
                totals(path, workers=6).update(table(spark, batches[2]), 2)
            except Stopped:
                stops.append(writes[-1])
            else:
                break
        committed = "after replace" in writes
        assert found(totals(path, workers=6).state(spark)) == (after if committed else before), writes
        totals(path, workers=6).update(table(spark, batches[2]), 2)
        assert found(totals(path, workers=6).state(spark)) == after, writes
    kinds = {stop.split()[1] for stop in stops}
    assert kinds == {"parquet", "fsync", "replace", "rmtree"}
    assert len(stops) >= 8


def test_half_of_the_files_of_a_stopped_batch_are_written_again(spark: SparkSession, tmp_path: Path) -> None:
    first, second = [("a", 1), ("b", 2)], [("a", 5), ("c", 7)]
    totals(tmp_path).update(table(spark, first), 0)
    half = tmp_path / "version=0000000002" / "unit=1"
    half.mkdir(parents=True)
    (half / "part-00000-half.snappy.parquet").write_bytes(b"PAR1")
    (tmp_path / "commit.json.part").write_text("{")
    assert found(totals(tmp_path).state(spark)) == expected(first)
    totals(tmp_path).update(table(spark, second), 1)
    assert found(totals(tmp_path).state(spark)) == expected(first + second)


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
    assert found(totals(state).state(spark)) == expected(every)
    for name in "1", ".1.crc":
        (checkpoint / "commits" / name).unlink()  # as where the driver is lost before Spark notes the end of the batch
    run()
    assert calls.read_text() == "0 1 1 "
    assert found(totals(state).state(spark)) == expected(every)


def test_a_batch_that_was_there_and_any_before_it_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    aggregate = totals(tmp_path)
    aggregate.update(table(spark, [("a", 1)]), 7)
    before = files_of(tmp_path)
    for number in 7, 6, 0:
        aggregate.update(table(spark, [("a", 1)]), number)
    assert files_of(tmp_path) == before


def test_only_workers_with_rows_are_written_and_old_files_go_after_two_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows: Rows = [(f"k{i}", i) for i in range(40)]
    aggregate = totals(tmp_path, workers=4, max_migration=1e-9)  # nothing moves
    aggregate.update(table(spark, rows), 0)
    assert units_written(tmp_path) == {"version=0000000001": 4}
    before = aggregate.state(spark)
    aggregate.update(table(spark, [("k1", 1)]), 1)
    assert units_written(tmp_path) == {"version=0000000001": 4, "version=0000000002": 1}
    assert found(before) == expected(rows)  # its files are still there
    aggregate.update(table(spark, [("k1", 1)]), 2)
    assert units_written(tmp_path) == {"version=0000000001": 3, "version=0000000002": 1, "version=0000000003": 1}
    aggregate.update(table(spark, []), 3)
    assert units_written(tmp_path) == {"version=0000000001": 3, "version=0000000003": 1}
    assert found(aggregate.state(spark)) == expected([*rows, ("k1", 1), ("k1", 1)])


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
    assert found(aggregate.state(spark)) == expected(rows)
    assert units_written(tmp_path)["version=0000000002"] == 3


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
    assert found(aggregate.state(spark)) == expected([*rows, ("k1", 7)])


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


def test_the_rows_of_a_heavy_key_lie_on_several_workers_and_count_once(spark: SparkSession, tmp_path: Path) -> None:
    rows: Rows = [("hot" if i % 2 else f"k{i % 20}", i) for i in range(400)]
    aggregate = totals(tmp_path, workers=4, split=True)
    every: list[tuple[str | None, int]] = []
    for number in range(3):
        aggregate.update(table(spark, rows), number)
        every += rows
        assert found(aggregate.state(spark)) == expected(every)
    split = [int(folder.name.removeprefix("unit=")) for folder in tmp_path.glob("version=*/unit=-*")]
    assert sorted(set(split)) == [-4, -3, -2, -1]


def test_a_state_that_splits_keys_is_not_continued_without(spark: SparkSession, tmp_path: Path) -> None:
    totals(tmp_path, split=True)
    for options in {}, {"split": True, "strategy": "milp"}:
        assert refused(tmp_path, lambda options=options: totals(tmp_path, **options)) == (  # type: ignore[misc]
            "its keys are placed or split in another way"
        )


@pytest.mark.parametrize("options", [{}, {"strategy": "milp", "key_groups": 5}], ids=str)
def test_late_rows_are_left_out_and_old_groups_go(
    spark: SparkSession, tmp_path: Path, with_conf: WithConf, options: dict[str, Any]
) -> None:
    """Against a state in plain Python."""
    rng, late, ttl = random.Random(5), timedelta(seconds=40), timedelta(seconds=90)
    aggregate = totals(tmp_path, time="at", late=late, ttl=ttl, **options)
    state: dict[str, tuple[list[int], int]] = {}
    latest: int | None = None
    with with_conf(LIGHT):
        for number in range(8):
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
            assert found(aggregate.state(spark)) == expected(alive), number


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


def test_every_function_and_keys_of_several_columns_agree_with_an_aggregate_from_scratch(
    spark: SparkSession, tmp_path: Path
) -> None:
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
    for number in range(3):
        aggregate = StatefulAggregate(tmp_path, ["a key", "x.y"], functions, workers=2 + number)
        aggregate.update(rows.where(f"id % 3 = {number}"), number)

    def readable(df: DataFrame) -> list[str]:
        lists = [F.sort_array(name).alias(name) for name in ("set", "list")]
        estimate = F.hll_sketch_estimate("sketch").alias("sketch")
        whole = df.select("`a key`", (F.col("`x.y`") + F.lit(0.0)).alias("x"), *(f"`{name}`" for name in FUNCTIONS))
        return sorted(
            str(row) for row in whole.withColumns({"set": lists[0], "list": lists[1], "sketch": estimate}).collect()
        )

    stock = rows.groupBy("`a key`", "`x.y`").agg(*(column.alias(name) for name, column in functions.items()))
    state = StatefulAggregate(tmp_path, ["a key", "x.y"], functions, workers=4).state(spark)
    assert [(f.name, f.dataType.simpleString()) for f in state.schema] == [
        (f.name, f.dataType.simpleString()) for f in stock.schema
    ]
    assert readable(state) == readable(stock)


def test_a_sum_of_decimals_that_overflows_stays_null(spark: SparkSession, tmp_path: Path, with_conf: WithConf) -> None:
    most = "9" * 38
    aggregate = StatefulAggregate(tmp_path, "k", {"total": F.sum("v")}, workers=2)
    with with_conf({"spark.sql.ansi.enabled": False}):
        for number, value in enumerate((most, most, f"-{most}")):
            aggregate.update(spark.sql(f"SELECT 1 AS k, cast('{value}' AS decimal(38, 0)) AS v"), number)
        assert [tuple(row) for row in aggregate.state(spark).collect()] == [(1, None)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": []}, "keys is empty; name at least one."),
        ({"aggregates": {}}, "aggregates is empty; name at least one."),
        ({"aggregates": {"k": F.count}}, "'k' is given twice; each column of the result must have its own name."),
        ({"workers": 0}, "workers is 0; it must be a whole number of at least 1."),
        (
            {"strategy": "radj"},
            "strategy is 'radj'; it must be one of scan, redist, readj, level, flux, milp, albic, cola, elb, clb, uhlb; did you mean 'readj'?",
        ),
        ({"late": timedelta(1)}, "late or ttl is given without time; name the column with the time of each row."),
        (
            {"split": True, "time": "at", "ttl": timedelta(1)},
            "split and ttl are both given; a key whose parts lie apart cannot go: leave one out.",
        ),
        ({"max_migration": 0}, "max_migration is 0; it must be a number above 0."),
        ({"strategy": "milp", "key_groups": 0.5}, "groups is 0.5; it must be a whole number from 1 to 1000000."),
        ({"path": "s3://b/x"}, "path is 's3://b/x'; it must be a folder of this machine, or one that is mounted."),
    ],
)
def test_an_argument_out_of_range(spark: SparkSession, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"path": tmp_path / "x", "keys": "k", "aggregates": {"n": F.count("*")}, "workers": 2}
    with pytest.raises(SaltwiseError) as error:
        StatefulAggregate(**(given | change))
    assert str(error.value) == message
    assert not [*tmp_path.iterdir()]


def test_an_aggregate_that_does_not_merge(spark: SparkSession, tmp_path: Path) -> None:
    for column in F.median("v"), F.count_distinct("v"), F.sum("v") + 1:
        with pytest.raises(SaltwiseError) as error:
            StatefulAggregate(tmp_path, "k", {"m": column}, workers=2)
        assert str(error.value).startswith("aggregate 'm' must be one call, without DISTINCT, of any, any_value, ")
        assert str(error.value).endswith("; compute further on the DataFrame of state.")


def test_a_batch_that_does_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    aggregate = totals(tmp_path)
    before = files_of(tmp_path)
    with pytest.raises(SaltwiseError) as error:
        aggregate.update(spark.sql("SELECT 'a' AS kk, 1 AS v"), 0)
    assert str(error.value) == "key is 'k'; it must be one of kk, v; did you mean 'kk'?"
    with pytest.raises(SaltwiseError) as error:
        aggregate.update(spark.sql("SELECT struct(map(1, 2)) AS k, 1 AS v"), 0)
    assert str(error.value) == (
        "key 'k' is of type struct<col1:map<int,int>>; a key must not hold a map: group by its map_entries."
    )
    with pytest.raises(SaltwiseError) as error:
        aggregate.update(table(spark, [("a", 1)]), -1)
    assert str(error.value) == "batch_id is -1; it must be a whole number of at least 0."
    assert files_of(tmp_path) == before


def refused(path: Path, call: Callable[[], object]) -> str:
    before = files_of(path)
    with pytest.raises(StatefulAggregateError) as error:
        call()
    assert files_of(path) == before
    text = str(error.value)
    start, end = f"{str(path)!r} does not hold a state to continue, because ", "; give another folder."
    assert text.startswith(start)
    assert text.endswith(end)
    return text[len(start) : -len(end)]


def test_a_state_before_its_first_batch(spark: SparkSession, tmp_path: Path) -> None:
    aggregate = totals(tmp_path)
    assert refused(tmp_path, lambda: aggregate.state(spark)) == "it has no batch yet"


def test_a_foreign_folder_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert refused(tmp_path, lambda: totals(tmp_path)) == "it has other files but no commit.json"
    (tmp_path / "commit.json").write_text('{"format": "parquet"}')
    assert (
        refused(tmp_path, lambda: totals(tmp_path)) == "of commit.json: the text is JSON, but not a stateful aggregate"
    )


USER_TYPE = {
    "name": "k0",
    "nullable": True,
    "metadata": {},
    "type": {"type": "udt", "class": None, "pyClass": "os.nothing", "serializedClass": "gASVAAAA", "sqlType": "string"},
}
"""Spark would import the module, and unpickle what it has no class of."""


def test_a_newer_or_damaged_commit_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    aggregate = totals(tmp_path)
    aggregate.update(table(spark, [("a", 1)]), 0)
    commit = tmp_path / "commit.json"
    text = commit.read_text()
    content = {name: v for name, v in json.loads(text).items() if name not in ("format", "version", "crc32")}
    long = f"version=0000000001/unit=0/{'x' * 250}.parquet"
    for wrong, why in (
        (
            dump_versioned(FORMAT, VERSION + 1, content),
            "of commit.json: the stateful aggregate has version 3, but this Saltwise reads version 2",
        ),
        (
            text.replace('"batch": 0', '"batch": 1'),
            "of commit.json: the stateful aggregate is damaged: its checksum does not match",
        ),
        (
            dump_versioned(FORMAT, VERSION, content | {"files": None}),
            "the content of commit.json is wrong: 'NoneType' object has no attribute 'items'",
        ),
        (dump_versioned(FORMAT, VERSION, {}), "the content of commit.json is wrong: 'state_version'"),
        (
            dump_versioned(
                FORMAT, VERSION, content | {"files": {"0": {"version=0000000001/unit=0/../../../x.parquet": 9}}}
            ),
            "the content of commit.json is wrong: 'version=0000000001/unit=0/../../../x.parquet' is no file of a unit",
        ),
        (
            dump_versioned(FORMAT, VERSION, content | {"files": {"0": {long: 9}}}),
            f"the content of commit.json is wrong: {long!r} is no file of a unit",
        ),
        (
            dump_versioned(FORMAT, VERSION, content | {"state": {"type": "struct", "fields": [USER_TYPE]}}),
            "the content of commit.json is wrong: a column is of a user-defined type",
        ),
    ):
        commit.write_text(wrong)
        for call in (
            lambda: totals(tmp_path),
            lambda: aggregate.report,
            lambda: aggregate.state(spark),
            lambda: aggregate.update(table(spark, [("a", 1)]), 1),
        ):
            assert refused(tmp_path, call) == why


def test_a_file_that_is_missing_or_cut_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    aggregate = totals(tmp_path, workers=1)
    aggregate.update(table(spark, [("a", 1)]), 0)
    [file] = tmp_path.glob("version=*/unit=*/*.parquet")
    name, size = file.relative_to(tmp_path).as_posix(), file.stat().st_size
    file.write_bytes(file.read_bytes()[:-1])
    for call in (lambda: aggregate.state(spark), lambda: aggregate.update(table(spark, [("a", 1)]), 1)):
        assert refused(tmp_path, call) == f"{name} of {size} bytes has {size - 1} bytes"
    file.unlink()
    assert refused(tmp_path, lambda: aggregate.state(spark)) == f"{name} of {size} bytes is not there"


def test_other_keys_or_aggregates_than_those_of_the_state_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    totals(tmp_path).update(table(spark, [("a", 1)]), 0)
    batch = table(spark, [("a", 1)])
    was = "its columns are k string, n bigint as count(1), total bigint as sum(v), most int as max(v), and these are "
    numbers = batch.withColumn("k", F.lit(1))
    assert refused(tmp_path, lambda: totals(tmp_path).update(numbers, 1)) == was + (
        "k int, n bigint as count(1), total bigint as sum(v), most int as max(v)"
    )
    other = StatefulAggregate(tmp_path, "k", {"n": F.count("v"), "total": F.sum("v"), "most": F.max("v")}, 3)
    assert refused(tmp_path, lambda: other.update(batch, 1)) == was + (
        "k string, n bigint as count(v), total bigint as sum(v), most int as max(v)"
    )
    least = StatefulAggregate(tmp_path, "k", {"n": F.count("*"), "total": F.sum("v"), "most": F.min("v")}, 3)
    assert refused(tmp_path, lambda: least.state(spark)) == was + "k, n as count, total as sum, most as min"
