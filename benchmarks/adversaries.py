"""Queries that are made to defeat `auto`: each hurts some rule of combining rows that looks good elsewhere.

    python benchmarks/adversaries.py [--only NAME,...] [--rounds 5] [--rows 2000000] [--memory]
                                     [--out FILE]

Each query runs on two cores with adaptive execution, stock and with the toggle on, by turns in one process, after two
runs of each that are not measured. The ratio is the median over rounds of the time with the toggle by stock's in the
same round. `--memory` measures the largest heap that is left after a garbage collection while a side runs, and
collects all the time; such a run says nothing of times. Results go to results/adversaries.csv, or to
adversaries_memory.csv.

No threshold of the plugin is tuned to these queries: benchmarks/README.md says to which data they are.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import CACHE, RESULTS, parquet_folder, session, zipf_keys
from pairs import run
from pyspark.sql import SparkSession

Keys = Callable[[int], np.ndarray]
Adversary = Callable[[SparkSession, int], str]

ADVERSARIES: dict[str, Adversary] = {}
"""What makes the tables of a query, of about so many rows, and returns the query."""

OBJECTS = "percentile_approx(x, 0.5), collect_set(v)"
"""A state that grows with the rows, and one that grows with the values."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", type=lambda text: text.split(","), help=", ".join(ADVERSARIES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--memory", action="store_true", help="live heap in place of times")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    names = given.only or list(ADVERSARIES)
    if unknown := [name for name in names if name not in ADVERSARIES]:
        parser.error(f"--only has {unknown[0]!r}; it must name some of {', '.join(ADVERSARIES)}.")
    options = {"spark__driver__extraJavaOptions": "-XX:+UseSerialGC"} if given.memory else {}
    warehouse = tempfile.TemporaryDirectory(prefix="saltwise-warehouse-")
    spark = session(
        spark__sql__adaptive__enabled="true",
        spark__sql__shuffle__partitions="16",
        spark__sql__warehouse__dir=warehouse.name,
        **options,
    )
    run(
        spark,
        [(name, lambda name=name: ADVERSARIES[name](spark, given.rows)) for name in names],  # type: ignore[misc]
        given.rounds,
        given.out or RESULTS / ("adversaries_memory.csv" if given.memory else "adversaries.csv"),
        given.memory,
    )


def adversary(function: Adversary) -> Adversary:
    ADVERSARIES[function.__name__.replace("_", " ")] = function
    return function


def table(spark: SparkSession, name: str, keys: Keys, rows: int, files: int = 8) -> str:
    """Make a view with columns k (bigint), v (bigint, 1000 values), x (double) and s (string); return its name."""

    def parts() -> Iterator[pa.Table]:
        values = np.random.default_rng(2)
        for k in np.array_split(keys(rows), files):
            v = values.integers(0, 1000, len(k))
            yield pa.table({"k": k, "v": v, "x": values.random(len(k)), "s": np.char.add("value ", v.astype(str))})

    folder = parquet_folder(f"adversary-{name}-{rows}-{files}", parts)
    spark.read.parquet(folder).createOrReplaceTempView(name)
    return name


def uniform(keys: int) -> Keys:
    return lambda rows: np.random.default_rng(1).integers(0, keys, rows)


def zipf(keys: int, z: float) -> Keys:
    return lambda rows: zipf_keys(rows, keys, z)


def grouped(rows: str, functions: str = OBJECTS, key: str = "k") -> str:
    return f"SELECT {key} AS key, {functions} FROM {rows} GROUP BY {key}"


def by_dimension(spark: SparkSession, rows: int, names: int, join: str) -> str:
    """GROUP BY a dimension's column, behind a join."""
    fact = table(spark, "fact", zipf(200_000, 1.1), rows)
    spark.range(200_000).selectExpr("id AS k", f"concat('name ', id % {names}) AS name").createOrReplaceTempView(
        "names"
    )
    return f"SELECT /*+ {join}(names) */ name, {OBJECTS} FROM {fact} JOIN names USING (k) GROUP BY name"


@adversary
def dimension_of_25_behind_a_broadcast(spark: SparkSession, rows: int) -> str:
    return by_dimension(spark, rows, 25, "BROADCAST")


@adversary
def dimension_of_25_behind_a_merge_join(spark: SparkSession, rows: int) -> str:
    return by_dimension(spark, rows, 25, "MERGE")


@adversary
def dimension_of_100000_behind_a_broadcast(spark: SparkSession, rows: int) -> str:
    return by_dimension(spark, rows, 100_000, "BROADCAST")


@adversary
def dimension_of_100000_behind_a_merge_join(spark: SparkSession, rows: int) -> str:
    return by_dimension(spark, rows, 100_000, "MERGE")


@adversary
def join_that_multiplies_rows(spark: SparkSession, rows: int) -> str:
    fact = table(spark, "few", uniform(50_000), rows // 10)
    spark.range(500_000).selectExpr("id % 50000 AS k", "id AS w").createOrReplaceTempView("many")
    return f"SELECT k, collect_list(w), percentile_approx(x, 0.5) FROM {fact} JOIN many USING (k) GROUP BY k"


@adversary
def files_sorted_by_key(spark: SparkSession, rows: int) -> str:
    return grouped(table(spark, "sorted", lambda rows: np.sort(uniform(rows // 80)(rows)), rows))


@adversary
def files_clustered_by_key(spark: SparkSession, rows: int) -> str:
    def runs(rows: int) -> np.ndarray:
        return np.repeat(np.random.default_rng(1).permutation(rows // 80), 80)

    return grouped(table(spark, "clustered", runs, rows))


@adversary
def keys_that_change_half_way_through_each_task(spark: SparkSession, rows: int) -> str:
    def changing(rows: int) -> np.ndarray:
        task = rows // 8
        few, distinct = uniform(1000)(rows), np.random.default_rng(3).permutation(rows) + 1000
        return np.where(np.arange(rows) % task < task // 2, few, distinct)

    return grouped(table(spark, "changing", changing, rows))


@adversary
def distinct_keys_before_few(spark: SparkSession, rows: int) -> str:
    def changing(rows: int) -> np.ndarray:
        task = rows // 8
        few, distinct = uniform(1000)(rows), np.random.default_rng(3).permutation(rows) + 1000
        return np.where(np.arange(rows) % task < task // 2, distinct, few)

    return grouped(table(spark, "settling", changing, rows))


@adversary
def one_key_a_task(spark: SparkSession, rows: int) -> str:
    return grouped(table(spark, "one", lambda rows: np.arange(rows) * 8 // rows, rows))


@adversary
def all_keys_distinct(spark: SparkSession, rows: int) -> str:
    return grouped(table(spark, "all_distinct", np.random.default_rng(4).permutation, rows))


@adversary
def ten_thousand_keys(spark: SparkSession, rows: int) -> str:
    return grouped(table(spark, "ten_thousand", uniform(10_000), rows))


@adversary
def as_many_keys_as_a_task_has_rows_by_four(spark: SparkSession, rows: int) -> str:
    return grouped(table(spark, "quarter", uniform(rows // 8), rows))


@adversary
def cached_input(spark: SparkSession, rows: int) -> str:
    name = table(spark, "to_cache", zipf(rows // 8, 1.2), rows)
    spark.sql(f"CACHE TABLE cached_rows AS SELECT * FROM {name}")
    return grouped("cached_rows")


@adversary
def after_a_window(spark: SparkSession, rows: int) -> str:
    name = table(spark, "windowed", uniform(20_000), rows // 2)
    return grouped(f"(SELECT v AS k, x, row_number() OVER (PARTITION BY k ORDER BY x) AS v FROM {name})")


@adversary
def after_an_aggregate(spark: SparkSession, rows: int) -> str:
    name = table(spark, "aggregated", uniform(rows // 4), rows)
    return grouped(f"(SELECT k % 5000 AS k, count(*) AS v, max(x) AS x FROM {name} GROUP BY k)")


@adversary
def over_a_union(spark: SparkSession, rows: int) -> str:
    first = table(spark, "first_half", uniform(100), rows // 2)
    second = table(spark, "second_half", np.random.default_rng(4).permutation, rows // 2)
    return grouped(f"(SELECT * FROM {first} UNION ALL SELECT * FROM {second})")


@adversary
def empty_states_of_100_KB(spark: SparkSession, rows: int) -> str:
    name = table(spark, "sketched", uniform(1000), 600_000)
    return grouped(name, "count_min_sketch(v, 0.001D, 0.99D, 7)")


@adversary
def empty_states_of_1_MB(spark: SparkSession, rows: int) -> str:
    name = table(spark, "sketched_large", uniform(100), 300_000)
    return grouped(name, "count_min_sketch(v, 0.0001D, 0.99D, 7)")


@adversary
def large_empty_states_of_hot_keys(spark: SparkSession, rows: int) -> str:
    name = table(spark, "sketched_hot", zipf(1000, 1.5), 1_000_000)
    return grouped(name, "count_min_sketch(v, 0.001D, 0.99D, 7)")


@adversary
def states_that_grow_without_bound(spark: SparkSession, rows: int) -> str:
    return grouped(table(spark, "growing", uniform(20), rows), "collect_list(x), median(x)")


@adversary
def strings_of_2_KB_reduced_by_an_expression(spark: SparkSession, rows: int) -> str:
    name = table(spark, "bodies", uniform(50_000), 200_000)
    return grouped(f"(SELECT k, repeat(s, 200 + v % 50) AS body FROM {name})", "percentile_approx(length(body), 0.5)")


@adversary
def ten_thousand_small_map_tasks(spark: SparkSession, rows: int) -> str:
    spark.range(0, 200_000, 1, 10_000).selectExpr(
        "id * 7919 % 5000 AS k", "id % 1000 AS v", "id / 7.0D AS x"
    ).createOrReplaceTempView("small_tasks")
    return grouped("small_tasks")


@adversary
def one_gzip_file(spark: SparkSession, rows: int) -> str:
    path = CACHE / f"adversary-{rows}.csv.gz"
    if not path.exists():
        keys = zipf(100_000, 1.0)(rows // 2)
        plain = path.with_suffix(".part")
        CACHE.mkdir(parents=True, exist_ok=True)
        np.savetxt(plain, np.column_stack([keys, keys % 997, keys % 89]), fmt="%d", delimiter=",")
        with plain.open("rb") as source, gzip.open(path, "wb", compresslevel=1) as target:
            shutil.copyfileobj(source, target)
        plain.unlink()
    spark.read.csv(str(path), schema="k bigint, v bigint, x double").createOrReplaceTempView("zipped")
    return grouped("zipped")


@adversary
def bucketed_table(spark: SparkSession, rows: int) -> str:
    name = table(spark, "to_bucket", zipf(rows // 8, 1.0), rows)
    if not spark.catalog.tableExists("bucketed"):
        spark.table(name).write.bucketBy(8, "k").saveAsTable("bucketed")
    return grouped("bucketed")


@adversary
def table_bucketed_by_another_column(spark: SparkSession, rows: int) -> str:
    name = table(spark, "to_bucket_by_v", zipf(rows // 8, 1.0), rows)
    if not spark.catalog.tableExists("bucketed_by_v"):
        spark.table(name).write.bucketBy(8, "v").saveAsTable("bucketed_by_v")
    return grouped("bucketed_by_v")


@adversary
def many_partitions_with_few_rows(spark: SparkSession, rows: int) -> str:
    name = table(spark, "few_rows", zipf(5000, 1.0), 50_000)
    # The option of the hint is for both sides: stock Spark repartitions.
    return grouped(f"(SELECT /*+ REPARTITION(2000) */ * FROM {name})")


@adversary
def sixty_aggregates(spark: SparkSession, rows: int) -> str:
    name = table(spark, "sixty", uniform(3000), rows // 4)
    three = "max_by(s, x + {0}), sum(v + {0}), approx_count_distinct(v % ({0} + 2))"
    return grouped(name, ", ".join(three.format(i) for i in range(20)))


@adversary
def decimals_of_38_digits(spark: SparkSession, rows: int) -> str:
    name = table(spark, "decimals", zipf(50_000, 1.0), rows // 2)
    return grouped(
        f"(SELECT k, CAST(x * 1e20 AS DECIMAL(38, 10)) AS d FROM {name})", "percentile_approx(d, 0.5), collect_set(d)"
    )


@adversary
def wide_keys(spark: SparkSession, rows: int) -> str:
    name = table(spark, "wide", zipf(50_000, 1.0), rows // 2)
    return grouped(f"(SELECT repeat(concat('key ', k), 20) AS k, v, x FROM {name})")


@adversary
def keys_of_a_struct_of_strings(spark: SparkSession, rows: int) -> str:
    name = table(spark, "structs", zipf(50_000, 1.0), rows // 2)
    return grouped(f"(SELECT struct(concat('a', k) AS a, concat('b', k % 7) AS b) AS k, v, x FROM {name})")


@adversary
def source_of_the_second_API(spark: SparkSession, rows: int) -> str:
    name = table(spark, "second_api", zipf(rows // 8, 1.2), rows)
    [folder] = {str(Path(file).parent) for file in spark.table(name).inputFiles()}
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    try:
        spark.read.parquet(folder.removeprefix("file:")).createOrReplaceTempView("second_api")
    finally:
        spark.conf.unset("spark.sql.sources.useV1SourceList")
    return grouped("second_api")


@adversary
def strings_that_max_by_keeps(spark: SparkSession, rows: int) -> str:
    return grouped(table(spark, "strings", zipf(rows // 8, 1.1), rows), "max_by(s, x), min_by(s, x)")


@adversary
def few_rows(spark: SparkSession, rows: int) -> str:
    return grouped(table(spark, "tiny", zipf(1000, 1.2), 10_000))


if __name__ == "__main__":
    main()
