"""Keys of every type that Spark groups by give stock answers: NULL, NaN, -0.0, collations, structs, arrays and maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession
from tests.plans.events import all_but, pairs

import saltwise

if TYPE_CHECKING:
    from tests.agree import Agree, WithConf

pytestmark = pytest.mark.usefixtures("events")

# Values of each type; the first of them owns half of the rows.
KEYS = {
    "boolean": "true, false, NULL",
    "tinyint": "7Y, -128Y, NULL, 0Y",
    "smallint": "7S, -32768S, NULL, 0S",
    "int": "7, -2147483648, NULL, 0",
    "bigint": "7L, -9223372036854775808L, NULL, 0L",
    "decimal(10,2)": "1.50BD, -99999999.99BD, NULL, 0BD",
    "decimal(38,18)": "CAST(1.5 AS DECIMAL(38,18)), CAST(-1e19 AS DECIMAL(38,18)), NULL",
    "float": "-0.0F, 0.0F, float('NaN'), float('inf') - float('inf'), float('-inf'), NULL, 1.5F",
    "double": "-0.0D, 0.0D, double('NaN'), double('inf') - double('inf'), double('-inf'), NULL, 1.5D",
    "string": "'a', '', 'A', 'é', 'e\u0301', NULL, 'a '",
    "binary": "X'00', X'', X'0000', X'FF', NULL",
    "date": "DATE'2013-01-01', DATE'0001-01-01', NULL, DATE'9999-12-31'",
    "timestamp": "TIMESTAMP'2013-01-01 05:15:00', TIMESTAMP'1900-01-01 00:00:00.000001', NULL",
    "timestamp_ntz": "TIMESTAMP_NTZ'2013-01-01 05:15:00', TIMESTAMP_NTZ'1900-01-01 00:00:00', NULL",
    "year-month interval": "INTERVAL '1-2' YEAR TO MONTH, INTERVAL '-3' MONTH, NULL",
    "day-time interval": "INTERVAL '1 02:03:04.5' DAY TO SECOND, INTERVAL '-3' HOUR, NULL",
    "void": "NULL",
    "struct": "struct(1, 'a'), struct(1, NULL), NULL, struct(NULL, 'a')",
    "struct of doubles": "struct(-0.0D), struct(0.0D), struct(double('NaN')), struct(CAST(NULL AS DOUBLE)), NULL",
    "array": "array(1, 2), array(), array(1, NULL), NULL, array(2, 1)",
    "array of doubles": "array(-0.0D), array(0.0D), array(double('NaN'), NULL), NULL",
    "array of structs of arrays": "array(struct(array(-0.0D))), array(struct(array(0.0D))), array(NULL), NULL",
    "struct of structs": "struct(struct(1, X'01')), struct(struct(NULL, X'01')), struct(NULL), NULL",
}
KEYS_SINCE = {
    (4, 0): {
        "string, lower case": "'a' COLLATE UTF8_LCASE, 'A', 'b', NULL, 'É', 'é'",
        "string, Unicode without case": "'a' COLLATE UNICODE_CI, 'A', 'b', NULL, 'e\u0301', 'É'",
        "string, right-trimmed": "'a' COLLATE UTF8_BINARY_RTRIM, 'a  ', ' a', NULL",
        "struct of collated strings": "struct('a' COLLATE UTF8_LCASE, -0.0D), struct('A', 0.0D), struct(NULL, 1D), NULL",
        "array of collated strings": "array('a' COLLATE UTF8_LCASE), array('A'), array('b', NULL), NULL",
        "map": "map('a', 1, 'b', 2), map('b', 2, 'a', 1), map(), NULL, map('a', NULL)",
        "map of doubles": "map('a', 1D, 'b', -0.0D), map('b', 0.0D, 'a', 1D), map('a', double('NaN')), NULL",
        "map of maps": "map(1, map('a', 1, 'b', 2)), map(1, map('b', 2, 'a', 1)), map(1, map()), map(1, NULL)",
        "struct of maps": "struct(map('a', 1, 'b', 2)), struct(map('b', 2, 'a', 1)), struct(NULL), NULL",
        "map of collated strings": "map('k', 'a' COLLATE UTF8_LCASE), map('k', 'A' COLLATE UTF8_LCASE), NULL",
        "array of maps": "array(map('a', 1, 'b', 2)), array(map('b', 2, 'a', 1)), array(NULL, map()), NULL",
    },
    (4, 3): {"time": "TIME'05:15:00', TIME'23:59:59.999999', NULL"},
}
ALL_KEYS = {**KEYS, **{name: values for more in KEYS_SINCE.values() for name, values in more.items()}}
ALONE = ("int", "double", "struct of doubles", "string, lower case")
"""Keys of these types are looked at one by one in every run; the others only with --full."""


@pytest.fixture(params=all_but(ALONE, ALL_KEYS))
def keyed(
    spark: SparkSession, version: tuple[int, ...], with_conf: WithConf, request: pytest.FixtureRequest
) -> Iterator[str]:
    """A table whose key column has one type: its name."""
    if request.param not in known(version):
        pytest.skip(f"Spark {spark.version} has no such key")
    with with_conf({"spark.sql.timeType.enabled": True} if request.param == "time" else {}):
        spark.sql(keyed_table(ALL_KEYS[request.param])).createOrReplaceTempView("keyed")
        yield request.param
    spark.catalog.dropTempView("keyed")


def known(version: tuple[int, ...]) -> dict[str, str]:
    """Return the values of each type of key that a version of Spark groups by."""
    newer = {name for since, names in KEYS_SINCE.items() if version < since for name in names}
    return {name: values for name, values in ALL_KEYS.items() if name not in newer}


def keyed_table(values: str) -> str:
    """Three partitions, with these values in a column `key`: half of the rows have the first of them."""
    several = f"array({values})"
    pick = f"IF(id % 10 < 5, 1, 1 + CAST(id % size({several}) AS INT))"
    return f"SELECT id, element_at({several}, {pick}) AS key FROM range(0, 300, 1, 3)"


def shows_itself(name: str) -> bool:
    """Whether equal keys of a type look the same."""
    return "collated" not in name and "map" not in name and not name.startswith("string, ")


def shown(name: str) -> str:
    """Return how to show a key so that Python can read it."""
    if "interval" in name:
        return "CAST(key AS STRING)"
    return "key" if shows_itself(name) or "map" in name else "'?'"


def test_keys_of_each_type_give_the_same_answers(agree: Agree, keyed: str) -> None:
    query = f"SELECT {shown(keyed)}, count(*), array_sort(collect_list(id)) FROM keyed GROUP BY key"

    agree(lambda spark: spark.sql(query), routes=1)
    agree(lambda spark: spark.sql(query), strategies=["offgreedy", "consistent"], routes=1)


def test_equal_keys_of_each_type_go_to_one_worker(spark: SparkSession, keyed: str) -> None:
    if "map" in keyed:
        pytest.skip("skew_worker takes no maps")
    rows = spark.sql("""
        SELECT count(DISTINCT worker), count(*)
        FROM (SELECT key, skew_worker(1000, 'hash', key) AS worker FROM keyed) GROUP BY key""").collect()

    assert [workers for workers, _ in rows] == [1] * len(rows)
    assert sum(count for _, count in rows) == 300


def test_hot_keys_of_each_type_are_recognised_as_a_report_spells_them(
    spark: SparkSession, with_conf: WithConf, metric_that_ran: Callable[[str], int], keyed: str
) -> None:
    if "map" in keyed:
        pytest.skip("a sketch takes no maps, as min and max take none")
    report = saltwise.skew_report(spark.table("keyed"), "key", partitions=4)

    with with_conf({"spark.sql.adaptive.enabled": False}):
        df = saltwise.skew_groupby(spark.table("keyed"), "key", hot=report, partitions=4, strategy="wchoices")
        df.count().select("count").collect()  # Python has no value for each of these types.

    assert sum(key.count for key in report.hot_keys) > 0
    assert metric_that_ran("head rows") == sum(key.count for key in report.hot_keys)


@pytest.mark.parametrize("strategy", all_but(("dchoices", "local", "split", "offgreedy")))
def test_keys_of_every_type_at_once_give_the_same_answers(
    version: tuple[int, ...], agree: Agree, strategy: str
) -> None:
    keys = known(version)
    columns = ", ".join(
        f"element_at(array({values}), 1 + CAST((id + {i}) % size(array({values})) AS INT)) AS key{i}"
        for i, values in enumerate(keys.values())
    )
    sets = ", ".join(f"(key{i}, key{(i + 7) % len(keys)})" for i in range(len(keys)))
    # As bytes, since a key of bytes makes a string that is no UTF-8, which Connect cannot carry.
    shown = ", ".join(
        f"CAST(CAST(key{i} AS STRING) AS BINARY) AS `{name}`" for i, name in enumerate(keys) if shows_itself(name)
    )
    query = f"""
        SELECT {shown}, count(*), sum(id) FROM (SELECT id, {columns} FROM range(0, 300, 1, 3))
        GROUP BY GROUPING SETS ({sets})"""

    agree(query, strategies=[strategy], conf={"spark.sql.timeType.enabled": True}, routes=1)


def test_char_and_varchar_keys_give_the_same_answers(spark: SparkSession, agree: Agree) -> None:
    spark.sql("CREATE TABLE padded (c CHAR(5), vc VARCHAR(5), v INT) USING parquet")
    try:
        spark.sql("INSERT INTO padded SELECT substr('abcde', 1, id % 3), substr('abcde ', id % 4), id FROM range(300)")

        agree("SELECT c, count(*), sum(v) FROM padded GROUP BY c")
        agree("SELECT vc, c, array_sort(collect_list(v)) FROM padded GROUP BY vc, c")
    finally:
        spark.sql("DROP TABLE padded")


EXPRESSIONS = [
    "k, t",
    "k, odd, st",
    "k % 3",
    "upper(s), k IS NULL",
    "date_trunc('WEEK', ts)",
    "st.x, a[0]",
    "'all'",
    "-odd",
    "id",
]


@pytest.mark.parametrize(("keys", "plan"), pairs(EXPRESSIONS))
def test_keys_that_are_expressions_give_the_same_answers(agree: Agree, keys: str, plan: str) -> None:
    query = f"SELECT {keys}, count(*), sum(d), array_sort(collect_list(i)) FROM events GROUP BY {keys}"

    agree(query, strategies=[plan], routes=1)
