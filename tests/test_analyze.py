"""saltwise.analyze keeps what it finds of keys with their table, and auto goes by it while it holds."""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import KeyStatisticsError, SaltwiseError, SaltwiseValueError, analyze, skew_groupby

if TYPE_CHECKING:
    from tests.conftest import SaltwiseLines, WithConf

ROWS = 100_000
SKEWED = "if(id % 10 < 3, 7, pmod(xxhash64(id), 50000))"
"""One key with 30 %, and about 37,680 others."""
KEYS = 37_681
TODAY = r"analyze of \d{4}-\d\d-\d\d"


@pytest.fixture(autouse=True)
def small_input(with_conf: WithConf) -> Iterator[None]:
    with with_conf({"spark.saltwise.auto.smallInput": "1k", "spark.saltwise.auto.sampleTimeout": "60s"}):
        yield


def rows(spark: SparkSession, key: str = SKEWED, count: int = ROWS) -> DataFrame:
    return spark.range(0, count, 1, 4).selectExpr(f"{key} AS k", "id % 7 AS l", "id AS v")


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "rows"
    rows(spark).write.parquet(str(path))
    return path


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(written, tmp_path / "rows"))


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    spark.sql("DROP TABLE IF EXISTS analyzed")
    rows(spark).write.saveAsTable("analyzed")
    yield "analyzed"
    spark.sql("DROP TABLE analyzed")


@pytest.fixture
def said(saltwise_lines: SaltwiseLines) -> Callable[..., str]:
    """What auto says of a collect_list by some keys."""
    return lambda df, *keys: " ".join(saltwise_lines(skew_groupby(df, *(keys or ("k",))).agg(F.collect_list("v"))))


def sidecar(folder: str) -> Path:
    [found] = Path(folder).glob("_saltwise_keys_*.json")
    return found


def rewrite(file: Path, text: str) -> None:
    """Change a file behind the back of Hadoop, which has a checksum of its own beside it."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text(text)


@pytest.mark.smoke
def test_auto_goes_by_what_analyze_found_and_says_so(
    spark: SparkSession, folder: str, said: Callable[..., str]
) -> None:
    df = spark.read.parquet(folder)
    assert "from a sample of " in said(df)
    found = analyze(spark, folder, "k")
    assert found.rows == ROWS
    assert found.hottest == pytest.approx(0.3, abs=0.001)
    assert found.keys == pytest.approx(KEYS, rel=0.05)
    assert found.stored == f"file file:{sidecar(folder)}"
    assert re.search(
        rf"from {TODAY}, 100,000 rows: about 100,000 rows in \d tasks, {found.keys:,} keys, one with 30.0%", said(df)
    ), said(df)


def test_statistics_take_no_sample(spark: SparkSession, folder: str, said: Callable[..., str]) -> None:
    analyze(spark, folder, "k")
    # With its schema told, which Connect would look for each time that it plans.
    df = spark.read.schema(spark.read.parquet(folder).schema).parquet(folder)
    tracker = SparkContext.getOrCreate().statusTracker()
    before = len(tracker.getJobIdsForGroup(None) or [])
    assert "from analyze of " in said(df)
    assert len(tracker.getJobIdsForGroup(None) or []) == before


def test_the_report_says_what_auto_goes_by(spark: SparkSession, folder: str) -> None:
    analyze(spark, folder, "k")
    assert re.search(rf"from {TODAY}, 100,000 rows: ", saltwise.skew_report(spark.read.parquet(folder), "k").auto)


def test_columns_count_in_any_order_and_under_any_name(
    spark: SparkSession, folder: str, said: Callable[..., str]
) -> None:
    analyze(spark, folder, "L", "k")
    df = spark.read.parquet(folder)
    assert "from analyze of " in said(df, "k", "l")
    assert "from analyze of " in said(df, "l", "k")
    assert "from analyze of " in said(df.selectExpr("l AS x", "k AS y", "v"), "y", "x")
    assert "from a sample of " in said(df)
    assert "from a sample of " in said(df.selectExpr("l + 1 AS l", "k", "v"), "k", "l")


def test_below_a_filter_or_a_join_the_keys_are_sampled(
    spark: SparkSession, folder: str, said: Callable[..., str]
) -> None:
    analyze(spark, folder, "k")
    df = spark.read.parquet(folder)
    assert "from a sample of " in said(df.where("v % 3 > 0"))
    assert "from a sample of " in said(df.join(spark.range(7).toDF("l"), "l"))


def test_spark_does_not_read_the_file_of_the_statistics(spark: SparkSession, folder: str) -> None:
    analyze(spark, folder, "k")
    assert sidecar(folder).stat().st_size > 0
    assert spark.read.parquet(folder).count() == ROWS


def test_a_single_file_has_its_statistics_beside_it(
    spark: SparkSession, tmp_path: Path, said: Callable[..., str]
) -> None:
    rows(spark).coalesce(1).write.parquet(str(tmp_path / "one"))
    [file] = (tmp_path / "one").glob("*.parquet")
    found = analyze(spark, str(file), "k")
    assert found.stored == f"file file:{sidecar(str(tmp_path / 'one'))}"
    assert "from analyze of " in said(spark.read.parquet(str(file)))
    assert "from a sample of " in said(spark.read.parquet(str(tmp_path / "one")))


def test_files_of_another_format_are_named_with_it(
    spark: SparkSession, tmp_path: Path, said: Callable[..., str]
) -> None:
    rows(spark).write.json(str(tmp_path / "rows"))
    assert analyze(spark, f"json.`{tmp_path}/rows`", "k").rows == ROWS
    assert "from analyze of " in said(spark.read.json(str(tmp_path / "rows")))


@pytest.mark.smoke
def test_a_table_keeps_its_statistics_as_properties(spark: SparkSession, table: str, said: Callable[..., str]) -> None:
    found = analyze(spark, table, "k")
    assert re.fullmatch(
        r"property saltwise\.keys\.[0-9a-f]{16} of table spark_catalog\.default\.analyzed", found.stored
    )
    assert re.search(rf"from {TODAY}, 100,000 rows: about 100,000 rows", said(spark.table(table)))
    longest = max(len(row["value"]) for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect())
    assert longest <= 4000


def test_partitioned_tables_have_statistics_too(spark: SparkSession, said: Callable[..., str]) -> None:
    rows(spark).write.partitionBy("l").saveAsTable("parted")
    try:
        analyze(spark, "parted", "l", "k")
        assert "from analyze of " in said(spark.table("parted"), "k", "l")
    finally:
        spark.sql("DROP TABLE parted")


def test_later_statistics_replace_earlier_ones(spark: SparkSession, table: str, said: Callable[..., str]) -> None:
    few = rows(spark, "id % 3")
    for df in (few, rows(spark), few):  # a short property, parts of a long one, and a short one again
        df.write.mode("overwrite").insertInto(table)
        found = analyze(spark, table, "k")
        assert f"100,000 rows in 2 tasks, {found.keys:,} keys" in said(spark.table(table))


def test_a_table_that_grew_a_little_is_scaled_and_one_that_grew_much_is_sampled(
    spark: SparkSession, table: str, said: Callable[..., str]
) -> None:
    analyze(spark, table, "k")
    rows(spark, count=8_000).write.insertInto(table)
    assert re.search(
        rf"from {TODAY}, 100,000 rows, though its files have grown by \d+%: about 1\d\d,\d{{3}} rows",
        said(spark.table(table)),
    )
    rows(spark).write.insertInto(table)
    assert re.search(
        rf"from a sample of \d+ rows \({TODAY} not used, since its files have grown by \d+%\): about 208,000 rows",
        said(spark.table(table)),
    )


def test_other_files_of_the_same_size_are_told(spark: SparkSession, folder: str, said: Callable[..., str]) -> None:
    analyze(spark, folder, "k")
    for file in Path(folder).glob("*.parquet"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    assert re.search(rf"from {TODAY}, 100,000 rows, though its files have changed: ", said(spark.read.parquet(folder)))


def test_a_column_of_another_type_has_no_statistics(spark: SparkSession, folder: str, said: Callable[..., str]) -> None:
    analyze(spark, folder, "k")
    content = json.loads(sidecar(folder).read_text())
    content["columns"][0]["type"] = "int"
    rewrite(sidecar(folder), sealed(content))
    assert re.search(
        rf"\({TODAY} not used, since the types of its columns have changed\)", said(spark.read.parquet(folder))
    )


def sealed(content: dict[str, Any]) -> str:
    content.pop("crc32", None)
    text = json.dumps(content, separators=(",", ":"))
    return json.dumps(content | {"crc32": zlib.crc32(text.encode())}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace('"rows":100000', '"rows":100001'), "are damaged: their checksum does not match"),
        (lambda text: text[: len(text) // 2], "are not JSON"),
        (lambda text: "", "were written by another program"),
        (lambda text: '{"format":"other"}', "were written by another program"),
        (lambda text: text.replace('"version":1', '"version":2'), "have version 2, but this Saltwise reads version 1"),
        (
            lambda text: sealed(json.loads(text) | {"sketch": "AAAA"}),
            "are damaged: these 3 bytes are not a SpaceSaving sketch; give the binary result of "
            "space_saving_agg or space_saving_merge.",
        ),
    ],
    ids=["changed", "cut", "empty", "another program's", "newer", "no sketch"],
)
def test_what_cannot_be_read_is_not_used_and_not_overwritten(
    spark: SparkSession, folder: str, said: Callable[..., str], change: Callable[[str], str], why: str
) -> None:
    analyze(spark, folder, "k")
    file = sidecar(folder)
    rewrite(file, change(file.read_text()))
    kept = file.read_text()
    sentence = f"the key statistics in file file:{file} {why}; delete them, and analyze the keys again"
    assert f"({sentence})" in said(spark.read.parquet(folder).select("k", "v"))
    with pytest.raises(KeyStatisticsError) as error:
        analyze(spark, folder, "k")
    assert str(error.value) == f"{sentence}."
    assert file.read_text() == kept


def test_a_damaged_property_is_not_used_and_not_overwritten(
    spark: SparkSession, table: str, said: Callable[..., str]
) -> None:
    stored = analyze(spark, table, "k").stored
    name = stored.split()[1]
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{name}' = '{{}}')")
    sentence = (
        f"the key statistics in {stored} were written by another program; delete them, and analyze the keys again"
    )
    assert f"({sentence})" in said(spark.table(table).select("v", "k"))
    with pytest.raises(KeyStatisticsError) as error:
        analyze(spark, table, "k")
    assert str(error.value) == f"{sentence}."


def test_a_property_that_lost_a_part_is_not_used(spark: SparkSession, table: str, said: Callable[..., str]) -> None:
    name = analyze(spark, table, "k").stored.split()[1]
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{name}.part.1')")
    assert f"{name} of table spark_catalog.default.analyzed are damaged: a part of them is missing; " in said(
        spark.table(table)
    )


def test_an_analysis_that_fails_leaves_what_was_there(spark: SparkSession, folder: str) -> None:
    analyze(spark, folder, "k")
    kept = sidecar(folder).read_text()
    (Path(folder) / "part-x.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(SaltwiseError, match=r"^Spark cannot read '"):
        analyze(spark, folder, "k")
    assert sidecar(folder).read_text() == kept
    assert {name for name in os.listdir(folder) if "saltwise" in name} == {
        sidecar(folder).name,
        f".{sidecar(folder).name}.crc",  # Hadoop's
    }


def test_where_nothing_can_be_written_the_error_says_so(spark: SparkSession, folder: str) -> None:
    analyze(spark, folder, "k")
    file = sidecar(folder)
    file.unlink()
    file.mkdir()
    (file / "in the way").touch()
    with pytest.raises(SaltwiseError, match=r"^the key statistics cannot be written to "):
        analyze(spark, folder, "k")
    assert os.listdir(file) == ["in the way"]


@pytest.mark.parametrize(
    ("key", "count"),
    [
        ("id", 0),
        ("CAST(NULL AS STRING)", 10),
        ("if(id % 2 = 0, NULL, id % 3)", 60),
        ("element_at(array(0.0D, -0.0D, double('NaN'), NULL), CAST(id % 4 AS INT) + 1)", 40),
        ("struct(id % 3 AS a, id % 2 AS b)", 60),
    ],
)
def test_keys_are_counted_as_group_by_tells_them_apart(
    spark: SparkSession, tmp_path: Path, key: str, count: int
) -> None:
    df = spark.range(0, count, 1, 3).selectExpr(f"{key} AS k")
    df.write.parquet(str(tmp_path / "rows"))
    groups = [row["count"] for row in df.groupBy("k").count().collect()]
    found = analyze(spark, str(tmp_path / "rows"), "k")
    assert (found.rows, found.keys) == (count, len(groups))
    assert found.hottest == (max(groups) / count if groups else None)


def test_in_sql_it_is_a_table_function_that_explain_does_not_run(spark: SparkSession, folder: str) -> None:
    query = f"SELECT rows + 1 AS next, stored FROM saltwise_analyze('{folder}', 'k')"
    spark.sql(f"EXPLAIN {query}").collect()
    spark.sql(query)
    assert list(Path(folder).glob("_saltwise_*")) == []
    assert [tuple(row) for row in spark.sql(query).collect()] == [(ROWS + 1, f"file file:{sidecar(folder)}")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("range",), "keys is empty; name at least one column to group by."),
        (
            ("view_of_rows", "k"),
            "source is 'view_of_rows', which is a view or has no files that Spark lists; it must be a table of files or a path.",
        ),
        (("{folder}", "kk"), "key is 'kk'; it must be one of k, l, v; did you mean 'k'?"),
        (
            ("{folder}/*.parquet", "k"),
            "source is '{folder}/*.parquet', which names several paths; it must be one table, one folder or one file.",
        ),
    ],
)
def test_what_cannot_be_analyzed_is_refused_in_one_sentence(
    spark: SparkSession, folder: str, arguments: tuple[str, ...], message: str
) -> None:
    spark.read.parquet(folder).createOrReplaceTempView("view_of_rows")
    with pytest.raises(SaltwiseValueError) as error:
        analyze(spark, *(argument.format(folder=folder) for argument in arguments))
    assert str(error.value) == message.format(folder=folder)


def test_a_source_that_does_not_exist_is_named(spark: SparkSession) -> None:
    with pytest.raises(SaltwiseError) as error:
        analyze(spark, "no_such_table", "k")
    assert str(error.value) == "Spark cannot read 'no_such_table': The table or view `no_such_table` cannot be found."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'t'", "saltwise_analyze got 1 arguments; call it as saltwise_analyze(source, key[, key ...])."),
        ("'t', upper(uuid())", "key of saltwise_analyze is upper(uuid()); it must be a constant."),
    ],
)
def test_wrong_arguments_in_sql_are_refused_in_one_sentence(spark: SparkSession, arguments: str, message: str) -> None:
    with pytest.raises(IllegalArgumentException) as error:
        spark.sql(f"SELECT * FROM saltwise_analyze({arguments})").collect()
    assert str(error.value).split("\n")[0] == message


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_rows_of_files_are_counted_by_their_footers(
    spark: SparkSession, tmp_path: Path, said: Callable[..., str], format: str
) -> None:
    rows(spark, "id % 50", 50_000).repartition(20).write.format(format).save(str(tmp_path / "rows"))
    df = spark.read.format(format).load(str(tmp_path / "rows"))
    found = re.search(r"from a sample of \d+ rows, the row counts of 16 of 20 files: about ([\d,]+) rows", said(df))
    assert found, said(df)
    assert int(found[1].replace(",", "")) == pytest.approx(50_000, rel=0.02)


def test_a_number_of_rows_that_is_guessed_is_called_so(
    spark: SparkSession, tmp_path: Path, said: Callable[..., str]
) -> None:
    rows(spark).write.json(str(tmp_path / "rows"))
    assert re.search(
        r"from a sample of \d+ rows, a number of rows guessed from bytes: ",
        said(spark.read.json(str(tmp_path / "rows"))),
    )
