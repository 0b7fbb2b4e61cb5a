"""What placement refuses: queries that cannot be placed, options that do not fit, functions that cannot be read, weights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.placement.placed import SUMMED, answers, exchanges, summed

from saltwise import skew_groupby
from saltwise.errors import SaltwiseValueError
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.function_json import FORMAT, VERSION, to_json
from saltwise.placement.partition_function import UniformHash
from saltwise.placement.store import PlacementStore
from saltwise.versioned_json import dump_versioned

if TYPE_CHECKING:
    from tests.agree import WithConf

pytestmark = pytest.mark.usefixtures("any_input_is_large")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"strategy": "pkg"},
            "strategy is 'pkg', and these groups may not be split; it must be one of auto, hash, consistent, offgreedy, "
            "scan, redist, readj, level.",
        ),
        (
            {"cost": "nope"},
            "placement.cost is 'nope'; it must be rows, bytes, rows^2, or a column of numbers that the query reads: "
            "k, k, v.",
        ),
        (
            {"placement": UniformHash(4, "string")},
            "placement.function is for keys of type string, and the keys here are of type bigint; give one that was "
            "constructed for these keys.",
        ),
        (
            {"placement": UniformHash(4), "partitions": 8},
            "partitions is 8, and placement.function has 4 workers; leave partitions out, or construct a function for 8 "
            "workers.",
        ),
    ],
)
def test_a_query_that_cannot_be_placed_is_refused(rows: DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        skew_groupby(rows.select("k", "v"), "k", **options).applyInPandas(summed, SUMMED).collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"placement": "somewhere"}, "placement is 'somewhere'; it must be a partition function or a PlacementStore."),
        (
            {"placement": UniformHash(4), "strategy": "pkg"},
            "placement is given, and strategy is 'pkg'; it must be one of auto, scan, redist, readj, level.",
        ),
        *(
            (
                {"placement": UniformHash(4), name: value},
                f"{name} is {value!r}, and placement is a partition function, which has no use for it: leave {name} out, "
                "or give a PlacementStore.",
            )
            for name, value in {"strategy": "level", "cost": "bytes", "theta": 0.1, "sketch_capacity": 100}.items()
        ),
        *(
            (
                {"placement": placement, "hot": [7]},
                "hot is given, and placement leaves every group whole: leave one of them out.",
            )
            for placement in (UniformHash(4), PlacementStore("never"))
        ),
        (
            {"placement": UniformHash(4), "engine": "arrow"},
            "placement is given, and engine='arrow' has no use for it: leave placement out, or group by the plugin.",
        ),
        (
            {"cost": "bytes", "engine": "arrow"},
            "cost is given, and engine='arrow' has no use for it: leave cost out, or group by the plugin.",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused_at_once(rows: DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        skew_groupby(rows, "k", **options)
    assert str(refused.value) == message


def test_a_function_goes_with_auto_and_with_its_workers(rows: DataFrame) -> None:
    by_function = skew_groupby(rows, "k", placement=UniformHash(4), strategy="auto", partitions=4)
    assert exchanges(by_function.applyInPandas(summed, SUMMED)) == ["placement"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text is not JSON"),
        ("{}", "the text is JSON, but not a partition function"),
        (
            to_json(UniformHash(4)).replace('"version": 1', '"version": 2'),
            "the partition function has version 2, but this Saltwise reads version 1",
        ),
        (
            to_json(UniformHash(4)).replace('"workers": 4', '"workers": 5'),
            "the partition function is damaged: its checksum does not match",
        ),
        (
            dump_versioned(FORMAT, VERSION, {"kind": "uniform", "workers": 10**9}),
            "the partition function is damaged: workers is 1000000000; it must be a whole number from 1 to 100000",
        ),
    ],
)
def test_a_function_that_cannot_be_read_is_refused(rows: DataFrame, text: str, message: str) -> None:
    hinted = rows.hint("skew_groupby", f"placement.function={text}").groupBy("k").applyInPandas(summed, SUMMED)
    with pytest.raises(
        Exception, match=re.escape(f"{message}; give a text that to_json of saltwise.placement.function_json wrote.")
    ):
        hinted.collect()


def test_sql_takes_a_function_and_constructs_none(spark: SparkSession, rows: DataFrame, with_conf: WithConf) -> None:
    rows.createOrReplaceTempView("placed_rows")
    query = "SELECT /*+ SKEW_GROUPBY(readj) */ k, collect_list(v) FROM placed_rows GROUP BY k"
    with pytest.raises(
        Exception, match="strategy is 'readj', and there is no partition function for keys of type bigint"
    ):
        spark.sql(query).collect()
    with with_conf({"spark.saltwise.placement.function": to_json(ConsistentHash(3))}):
        assert exchanges(spark.sql(query)) == ["placement"]
        # Keys of another type pass it over.
        by_text = rows.groupBy("s").applyInPandas(summed, SUMMED)
        hinted = rows.hint("skew_groupby").groupBy("s").applyInPandas(summed, SUMMED)
        assert exchanges(hinted) == ["placement"]
        assert answers(hinted) == answers(by_text)
