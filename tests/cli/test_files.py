"""Files are read in the format that their names tell, and refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from saltwise.cli.files import FORMATS, column, format_of, read_file
from saltwise.errors import SaltwiseError, SaltwiseValueError
from saltwise.spark.spark_errors import first_sentence

pytestmark = pytest.mark.classic("run the command saltwise")


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.parquet", "parquet"),
        ("part-00000-c000.snappy.parquet", "parquet"),
        ("a.b.CSV", "csv"),
        ("a.csv.gz", "csv"),
        ("a.json", "json"),
        ("a.jsonl", "json"),
        ("a.ndjson.bz2", "json"),
        ("a.orc", "orc"),
        ("a.txt", "text"),
    ],
)
def test_names_tell_formats(tmp_path: Path, name: str, format: str) -> None:
    (tmp_path / name).touch()
    assert format_of(str(tmp_path / name)) == format
    assert format_of(str(tmp_path)) == format


def test_addresses_and_patterns_are_left_to_spark() -> None:
    assert format_of("s3a://bucket/day=1/part-0.csv.gz") == "csv"
    assert format_of("no/such/folder/*.orc") == "orc"


def test_a_format_given_wins(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    assert format_of(str(tmp_path / "a.csv"), "text") == "text"


@pytest.mark.parametrize("format", FORMATS)
def test_reads_what_spark_wrote(spark: SparkSession, tmp_path: Path, format: str) -> None:
    path = str(tmp_path / "words")
    words = [("the",), ("of",), ("the",)]
    df = spark.createDataFrame(words, "value string")
    df.write.format(format).option("header", format == "csv").save(path)
    assert sorted(read_file(spark, path).collect()) == sorted(words)


def test_relative_path(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    monkeypatch.chdir(tmp_path)
    assert read_file(spark, "a.txt").count() == 2


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
def test_unreadable(spark: SparkSession, tmp_path: Path, name: str, content: bytes, why: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SaltwiseError) as error:
        read_file(spark, str(path))
    assert str(error.value) == (
        f"{str(path)!r} cannot be read as {format_of(str(path))}, because {why.format(path=path)}; "
        "the formats are parquet, csv, json, orc, text."
    )


def test_columns(spark: SparkSession) -> None:
    df = spark.sql("SELECT 1 AS a, 2 AS `b.c`, 3 AS `d e`, named_struct('x', 4) AS s")
    names = [column(df, name) for name in ("A", "b.c", "d e", "s.x")]
    assert df.select(*names).first() == (1, 2, 3, 4)
    with pytest.raises(SaltwiseValueError) as error:
        column(df, "b.d")
    assert str(error.value) == "column is 'b.d'; it must be one of a, b.c, d e, s; did you mean 'b.c'?"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[A.B_C] It broke. SQLSTATE: 42000; line 1 pos 3;\n'Project\n", "It broke"),
        ("[PARSE] Error near 'x'.(line 2, pos 0)\n\n== SQL ==", "Error near 'x'"),
        ("java.io.IOException: It broke.\n\tat x", "It broke"),
        ("It broke. And this is why.", "It broke"),
        ("Column `a.b` broke", "Column `a.b` broke"),
        ("", ""),
    ],
)
def test_first_sentence(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence
