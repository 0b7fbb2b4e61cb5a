"""Files are read in each format, and refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from saltwise.cli.files import FORMATS, column, format_of, read_file
from saltwise.errors import SaltwiseError, SaltwiseValueError

pytestmark = pytest.mark.classic("run the command saltwise")


@pytest.mark.parametrize("format", FORMATS)
def test_what_spark_wrote_is_read_in_each_format(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [("the",), ("of",), ("the",)]
    df = spark.createDataFrame(words, "value string").coalesce(1)
    df.write.format(format).option("header", format == "csv").save(str(tmp_path / "words"))
    assert sorted(read_file(spark, "words").collect()) == sorted(words)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.parquet", b"no parquet at all", "file:{path} is not a Parquet file"),
        ("a.orc", b"no orc at all", "Malformed ORC file file:{path}"),
        ("a.json", b"no json\n", "no line of it is a JSON object"),
        ("a.csv", b"", "it has no columns"),
        ("a.csv", b"PAR1\x00\xff\xfe", "its first line is not text"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(
    spark: SparkSession, tmp_path: Path, name: str, content: bytes, why: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SaltwiseError) as error:
        read_file(spark, str(path))
    assert str(error.value) == (
        f"{str(path)!r} cannot be read as {format_of(str(path))}, because {why.format(path=path)}; "
        "the formats are parquet, csv, json, orc, text."
    )


def test_a_column_is_found_by_its_name(spark: SparkSession) -> None:
    df = spark.sql("SELECT 1 AS a, 2 AS `b.c`, 3 AS `d e`, named_struct('x', 4) AS s, 5 AS `f``g`, 6 AS ```h```")
    names = [column(df, name) for name in ("A", "b.c", "d e", "s.x", "f`g", "`h`", "B.C", "`a`")]
    assert df.select(*names).first() == (1, 2, 3, 4, 5, 6, 2, 1)
    with pytest.raises(SaltwiseValueError) as error:
        column(df, "b.d")
    assert str(error.value) == "column is 'b.d'; it must be one of a, b.c, d e, s, f`g, `h`; did you mean 'b.c'?"
