"""StatefulAggregate refuses arguments out of range, batches that do not fit, and folders that it cannot continue."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.streams.kept_totals import files_of, table, totals

from saltwise import SaltwiseError, StatefulAggregate
from saltwise.spark.kept_state.commit import FORMAT, VERSION
from saltwise.spark.kept_state.folder import StatefulAggregateError
from saltwise.versioned_json import dump_versioned


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
            {"time": "at", "late": "6 hours"},
            "late is '6 hours'; it must be a timedelta of at least 0, such as timedelta(hours=1).",
        ),
        (
            {"time": "at", "ttl": timedelta(-1)},
            "ttl is datetime.timedelta(days=-1); it must be a timedelta of at least 0, such as timedelta(hours=1).",
        ),
        (
            {"split": True, "time": "at", "ttl": timedelta(1)},
            "split and ttl are both given; a key that is split cannot expire: leave one of them out.",
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


def test_a_state_that_splits_keys_is_not_continued_without(spark: SparkSession, tmp_path: Path) -> None:
    totals(tmp_path, split=True)
    for options in {}, {"split": True, "strategy": "milp"}:
        assert refused(tmp_path, lambda options=options: totals(tmp_path, **options)) == (  # type: ignore[misc]
            "its keys are placed or split in another way"
        )
