"""heavy_hitters and the space_saving functions: their bounds, their types, and what they refuse."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

from saltwise.arrays import Int64s
from saltwise.streams import zipf

if TYPE_CHECKING:
    from tests.agree import WithConf

Counts = dict[int, tuple[int, int]]

EXPONENTS = [0.5, 0.8, 1.0, 1.2, 1.5, 2.0]
SIZES = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000]
CAPACITIES = [1, 10, 200, 2_000]
KEYS = 10_000

FUNCTIONS = json.loads((Path(__file__).parents[2] / "sql" / "functions.json").read_text())


# Bounds


@pytest.fixture(scope="module")
def streams(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[float, int], Int64s]]:
    """The view `streams` has all rows of all streams, each in seven parts; the dict has the same in memory."""
    drawn = {
        (exponent, size): zipf(size, KEYS, exponent).keys.astype(np.int64) for exponent in EXPONENTS for size in SIZES
    }
    folder = tmp_path_factory.mktemp("streams")
    for i, ((exponent, size), keys) in enumerate(drawn.items()):
        columns = {
            "exponent": np.full(size, exponent),
            "size": np.full(size, size),
            "part": np.arange(size) * 7 // size,
            "key": keys,
        }
        pq.write_table(pa.table(columns), folder / f"{i}.parquet")
    spark.read.parquet(str(folder)).createOrReplaceTempView("streams")
    yield drawn
    spark.catalog.dropTempView("streams")


def check_bounds(stream: Int64s, found: list[Any], capacity: int) -> None:
    """Assert all that a summary promises of a stream."""
    true = np.bincount(stream, minlength=KEYS + 1)
    present = {row.item: (row["count"], row.error) for row in found}
    counts = [row["count"] for row in found]
    distinct = int((true > 0).sum())

    assert len(present) == len(found) == min(capacity, distinct)
    assert counts == sorted(counts, reverse=True)
    outside = {key: bound for key, bound in present.items() if not bound[0] - bound[1] <= true[key] <= bound[0]}
    assert outside == {}
    assert max((error for _, error in present.values()), default=0) <= len(stream) / capacity
    heavy = np.flatnonzero((true > 0) & (true * capacity >= len(stream)))
    assert set(heavy.tolist()) <= present.keys()
    if distinct <= capacity:
        assert {error for _, error in present.values()} <= {0}


def test_heavy_hitters_keep_their_bounds(spark: SparkSession, streams: dict[tuple[float, int], Int64s]) -> None:
    tops = ", ".join(f"heavy_hitters(key, {c}, {c}) AS top{c}" for c in CAPACITIES)
    rows = spark.sql(f"SELECT exponent, size, {tops} FROM streams GROUP BY exponent, size").collect()

    assert len(rows) == len(streams)
    for row in rows:
        for capacity in CAPACITIES:
            check_bounds(streams[row.exponent, row["size"]], row[f"top{capacity}"], capacity)


@pytest.mark.parametrize("part", ["part", "key % 5", "CAST(key < 3 AS INT)"])
def test_merged_sketches_keep_their_bounds(
    spark: SparkSession, streams: dict[tuple[float, int], Int64s], part: str
) -> None:
    """Whatever was summed up apart: stretches of the stream, some keys each, or the hot keys and all others."""
    capacity = 200
    rows = spark.sql(f"""
        SELECT exponent, size, space_saving_top(space_saving_merge(sketch), {capacity}, 'bigint') AS top
        FROM (SELECT exponent, size, {part} AS part, space_saving_agg(key, {capacity}) AS sketch FROM streams
              GROUP BY exponent, size, {part})
        GROUP BY exponent, size""").collect()

    assert len(rows) == len(streams)
    for row in rows:
        check_bounds(streams[row.exponent, row["size"]], row.top, capacity)


def test_merging_step_by_step_keeps_the_bounds(spark: SparkSession, streams: dict[tuple[float, int], Int64s]) -> None:
    capacity = 200
    by = "SELECT exponent, size, {0} AS part, {1} AS sketch FROM {2} GROUP BY exponent, size, {0}"
    leaves = by.format("pmod(hash(part, key), 64)", f"space_saving_agg(key, {capacity})", "streams")
    for fewer in (16, 4, 1):
        leaves = by.format(f"part % {fewer}", "space_saving_merge(sketch)", f"({leaves})")
    rows = spark.sql(
        f"SELECT exponent, size, space_saving_top(sketch, {capacity}, 'bigint') AS top FROM ({leaves})"
    ).collect()

    assert len(rows) == len(streams)
    for row in rows:
        check_bounds(streams[row.exponent, row["size"]], row.top, capacity)


def test_estimates_bound_the_count_of_every_key(spark: SparkSession, streams: dict[tuple[float, int], Int64s]) -> None:
    capacity, size = 200, 100_000
    rows = spark.sql(f"""
        SELECT exponent, key, e.*
        FROM (SELECT exponent, key, space_saving_estimate(sketch, key) AS e
              FROM (SELECT exponent, space_saving_agg(key, {capacity}) AS sketch FROM streams WHERE size = {size}
                    GROUP BY exponent)
              CROSS JOIN (SELECT explode(array(1, 2, 3, 10, 50, 100, 500, 1000, 5000, 10000, -1)) AS key))
        """).collect()

    assert len(rows) == len(EXPONENTS) * 11
    for row in rows:
        true = int((streams[row.exponent, size] == row.key).sum())
        assert row.lower <= true <= row.upper, row
        assert row.lower <= row.estimate <= row.upper, row
        assert row.upper - row.lower <= size / capacity, row


@pytest.mark.slow
@pytest.mark.parametrize("exponent", [1.0, *(pytest.param(z, marks=pytest.mark.full) for z in (0.5, 2.0))])
def test_ten_million_rows_keep_the_bounds(spark: SparkSession, tmp_path: Path, exponent: float) -> None:
    stream = zipf(10_000_000, KEYS, exponent).keys.astype(np.int64)
    table = pa.table({"part": np.arange(len(stream)) % 16, "key": stream})
    pq.write_table(table, tmp_path / "stream.parquet", row_group_size=1_000_000)
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("ten_million")

    [whole] = spark.sql("SELECT heavy_hitters(key, 2000, 2000) AS top FROM ten_million").collect()
    [merged] = spark.sql("""
        SELECT space_saving_top(space_saving_merge(sketch), 2000, 'bigint') AS top
        FROM (SELECT space_saving_agg(key, 2000) AS sketch FROM ten_million GROUP BY part)""").collect()
    spark.catalog.dropTempView("ten_million")

    check_bounds(stream, whole.top, 2_000)
    check_bounds(stream, merged.top, 2_000)


@pytest.mark.smoke
def test_no_rows_make_an_empty_sketch(spark: SparkSession) -> None:
    [row] = spark.sql("""
        SELECT heavy_hitters(id) AS top, space_saving_top(space_saving_agg(id)) AS stored,
          space_saving_estimate(space_saving_agg(id), 7L) AS estimate,
          space_saving_merge(CAST(IF(id > 0, X'00', NULL) AS BINARY)) AS merged
        FROM range(10) WHERE id < 0""").collect()

    assert (row.top, row.stored, row.merged) == ([], [], None)
    assert tuple(row.estimate) == (0, 0, 0)


def test_null_sketches_are_passed_over(spark: SparkSession) -> None:
    [row] = spark.sql("""
        SELECT space_saving_top(space_saving_merge(IF(id > 1, NULL, sketch))) AS top,
          space_saving_top(CAST(NULL AS BINARY)) AS of_null,
          space_saving_estimate(CAST(NULL AS BINARY), 7) AS estimate_of_null
        FROM (SELECT id, space_saving_agg(id) AS sketch FROM range(4) GROUP BY id)""").collect()

    assert sorted(tuple(item) for item in row.top) == [("0", 1, 0), ("1", 1, 0)]
    assert (row.of_null, row.estimate_of_null) == (None, None)


@pytest.mark.smoke
def test_k_is_the_most_that_is_returned(spark: SparkSession) -> None:
    [row] = spark.sql("""
        SELECT heavy_hitters(id % 30) AS ten, heavy_hitters(id % 30, 3) AS three,
          space_saving_top(space_saving_agg(id % 30)) AS stored_ten,
          space_saving_top(space_saving_agg(id % 30), 3) AS stored_three
        FROM range(100)""").collect()

    assert [len(row.ten), len(row.three), len(row.stored_ten), len(row.stored_three)] == [10, 3, 10, 3]
    assert [item["count"] for item in row.ten] == [4] * 10


# Items

ITEMS = {
    "boolean": "true, false, NULL",
    "tinyint": "7Y, -128Y, NULL, 0Y",
    "smallint": "7S, -32768S, NULL, 0S",
    "int": "7, -2147483648, NULL, 0",
    "bigint": "7L, -9223372036854775808L, NULL, 0L",
    "decimal(10,2)": "1.50BD, -99999999.99BD, NULL, 0BD",
    "decimal(38,18)": "CAST(1.5 AS DECIMAL(38,18)), CAST(-1e19 AS DECIMAL(38,18)), NULL",
    "float": "-0.0F, 0.0F, float('NaN'), float('inf') - float('inf'), NULL, 1.5F",
    "double": "-0.0D, 0.0D, double('NaN'), double('inf') - double('inf'), NULL, 1.5D",
    "string": "'a', '', 'A', 'é', NULL, 'a '",
    "binary": "X'00', X'', X'0000', X'FF', NULL",
    "date": "DATE'2013-01-01', DATE'0001-01-01', NULL",
    "timestamp": "TIMESTAMP'2013-01-01 05:15:00', TIMESTAMP'1900-01-01 00:00:00.000001', NULL",
    "timestamp_ntz": "TIMESTAMP_NTZ'2013-01-01 05:15:00', NULL",
    "interval year to month": "INTERVAL '1-2' YEAR TO MONTH, INTERVAL '-3-0' YEAR TO MONTH, NULL",
    "interval day to second": "INTERVAL '1 02:03:04.5' DAY TO SECOND, NULL",
    "void": "NULL",
    "struct<a:int,b:string>": "named_struct('a', 1, 'b', 'x'), named_struct('a', 1, 'b', NULL), NULL",
    "struct<a:double>": "named_struct('a', -0.0D), named_struct('a', 0.0D), named_struct('a', double('NaN')), NULL",
    "array<int>": "array(1, 2), array(), array(1, NULL), NULL, array(2, 1)",
    "array<double>": "array(-0.0D), array(0.0D), array(double('NaN'), NULL), NULL",
    "struct<a:array<struct<b:float>>>": "named_struct('a', array(named_struct('b', -0.0F))), "
    "named_struct('a', array(named_struct('b', 0.0F))), NULL",
}
COLLATED_ITEMS = {
    "string collate UTF8_LCASE": "'a' COLLATE UTF8_LCASE, 'A', 'b', NULL, 'É', 'é'",
    "string collate UNICODE_CI": "'a' COLLATE UNICODE_CI, 'A', 'b', NULL",
    "struct<a:string collate UTF8_LCASE,b:double>": "named_struct('a', 'x' COLLATE UTF8_LCASE, 'b', -0.0D), "
    "named_struct('a', 'X', 'b', 0.0D), NULL",
    "array<string collate UTF8_LCASE>": "array('a' COLLATE UTF8_LCASE), array('A'), array('b'), NULL",
}


@pytest.fixture(params=[*ITEMS, *COLLATED_ITEMS])
def item_type(spark: SparkSession, version: tuple[int, ...], request: pytest.FixtureRequest) -> Iterator[str]:
    """A view `items` with a column `item` of this type; half of its 200 rows have the first value."""
    if request.param in COLLATED_ITEMS and version < (4, 0):
        pytest.skip(f"Spark {spark.version} has no collations")
    values = f"array({(ITEMS | COLLATED_ITEMS)[request.param]})"
    spark.sql(f"""
        SELECT id, CAST(element_at({values}, IF(id % 2 = 0, 1, 1 + CAST(id % size({values}) AS INT)))
          AS {request.param}) AS item
        FROM range(0, 200, 1, 3)""").createOrReplaceTempView("items")
    yield request.param
    spark.catalog.dropTempView("items")


def test_items_of_each_type_are_counted_as_group_by_counts_them(spark: SparkSession, item_type: str) -> None:
    """In the sketch as in GROUP BY: NULL is an item, -0.0 = 0.0, all NaNs are one, collations count."""
    parts = "SELECT space_saving_agg(item, 50) AS sketch FROM items GROUP BY id % 4"
    tops = [
        "SELECT heavy_hitters(item, 50, 50) AS top FROM items",
        f"SELECT space_saving_top(space_saving_agg(item, 50), 50, '{item_type}') AS top FROM items",
        f"SELECT space_saving_top(space_saving_merge(sketch), 50, '{item_type}') AS top FROM ({parts})",
    ]
    groups = "SELECT item, count(*) AS n FROM items GROUP BY item"
    equal = "hit.item <=> grouped.item" if item_type != "void" else "true"  # Spark joins no void with a void
    for top in tops:
        [row] = spark.sql(f"""
            SELECT count(*) AS pairs, count_if(hit.count <=> n) AS equal, (SELECT count(*) FROM ({groups})) AS groups
            FROM (SELECT explode(top) AS hit FROM ({top})) FULL OUTER JOIN ({groups}) AS grouped
              ON {equal} AND hit.error = 0""").collect()
        assert row.pairs == row.equal == row.groups, top


def test_items_of_each_type_keep_their_type(spark: SparkSession, item_type: str) -> None:
    [row] = spark.sql(f"""
        SELECT typeof(heavy_hitters(item)[0].item) AS hitter, typeof(any_value(item)) AS item,
          typeof(space_saving_top(space_saving_agg(item), 3, '{item_type}')[0].item) AS stored,
          typeof(space_saving_top(space_saving_agg(item))[0].item) AS shown
        FROM items""").collect()

    assert (row.hitter, row.stored, row.shown) == (row.item, row.item, "string")


def test_a_sketch_of_each_type_reads_back_what_it_wrote(spark: SparkSession, item_type: str) -> None:
    [row] = spark.sql("""
        SELECT hex(sketch) AS written, hex(space_saving_merge(sketch)) AS again
        FROM (SELECT space_saving_agg(item, 3) AS sketch FROM items) GROUP BY sketch""").collect()

    assert row.written == row.again


def test_estimates_of_each_type_are_the_counts_of_group_by(spark: SparkSession, item_type: str) -> None:
    rows = spark.sql("""
        SELECT space_saving_estimate(sketch, item) AS e, n
        FROM (SELECT item, count(*) AS n FROM items GROUP BY item)
        CROSS JOIN (SELECT space_saving_agg(item, 50) AS sketch FROM items)""").collect()

    assert len(rows) > 0
    assert [tuple(row.e) for row in rows] == [(row.n, row.n, row.n) for row in rows]


def test_without_a_type_items_are_shown_as_strings(spark: SparkSession) -> None:
    [row] = spark.sql("""
        SELECT space_saving_top(space_saving_agg(item)) AS top FROM VALUES
          (named_struct('n', 1, 's', 'a')), (NULL), (named_struct('n', 1, 's', 'a')), (NULL),
          (named_struct('n', 1, 's', 'a')), (named_struct('n', 2, 's', NULL)) AS t(item)""").collect()

    assert [tuple(item) for item in row.top] == [("{1, a}", 3, 0), (None, 2, 0), ("{2, null}", 1, 0)]


def test_an_item_is_asked_for_by_any_type_that_fits(spark: SparkSession) -> None:
    [row] = spark.sql("""
        SELECT space_saving_estimate(sketch, 7Y).estimate AS tiny, space_saving_estimate(sketch, 7).estimate AS whole,
          space_saving_estimate(sketch, NULL).estimate AS none
        FROM (SELECT space_saving_agg(k) AS sketch FROM VALUES (7L), (7L), (NULL), (8L) AS t(k))""").collect()

    assert tuple(row) == (2, 2, 1)


def test_interpreted_and_generated_code_agree(spark: SparkSession, with_conf: WithConf) -> None:
    query = """
        SELECT k, heavy_hitters(v, 5, 20), heavy_hitters(s, 5, 20), space_saving_agg(x, 20),
          space_saving_top(space_saving_agg(s, 20), 5), space_saving_estimate(space_saving_agg(v, 20), 3L),
          space_saving_merge(sketch)
        FROM (SELECT id % 3 AS k, id % 11 AS v, CAST(id % 7 AS STRING) AS s, -(id % 2) / 1D AS x,
                space_saving_agg(id % 5) OVER (PARTITION BY id % 3) AS sketch FROM range(0, 300, 1, 2))
        GROUP BY k ORDER BY k"""
    generated = spark.sql(query).collect()
    with with_conf({"spark.sql.codegen.wholeStage": False, "spark.sql.codegen.factoryMode": "NO_CODEGEN"}):
        interpreted = spark.sql(query).collect()

    assert len(generated) == 3
    assert interpreted == generated


def test_sketches_of_the_same_rows_have_the_same_bytes_in_any_order(spark: SparkSession) -> None:
    rows = spark.sql("""
        SELECT DISTINCT space_saving_agg(v, 50) FROM (
          SELECT 1 AS run, id % 11 AS v FROM range(0, 300, 1, 2) UNION ALL
          SELECT 2, (299 - id) % 11 FROM range(0, 300, 1, 7)) GROUP BY run""").collect()

    assert len(rows) == 1


def test_sketches_of_two_capacities_merge_alike_in_any_order(spark: SparkSession) -> None:
    small = "SELECT space_saving_agg(id % 5, 2) AS sketch FROM range(50)"
    large = "SELECT space_saving_agg(id % 7, 100) AS sketch FROM range(50)"
    merge = "SELECT hex(space_saving_merge(sketch)) FROM ({} UNION ALL {})"

    assert spark.sql(merge.format(small, large)).collect() == spark.sql(merge.format(large, small)).collect()


def test_sketches_that_alternate_answer_for_their_own_items(spark: SparkSession) -> None:
    found = spark.sql("""
        WITH rows AS (SELECT id, id % 3 AS n, IF(id < 20, 'a', 'b') AS s FROM range(30)),
          numbers AS (SELECT space_saving_agg(n) AS sketch FROM rows WHERE id < 12),
          more AS (SELECT space_saving_agg(n) AS sketch FROM rows)
        SELECT n, space_saving_estimate(sketch, n).estimate AS times
        FROM (SELECT /*+ REPARTITION(1) */ * FROM numbers UNION ALL SELECT * FROM more), (SELECT DISTINCT n FROM rows)
        ORDER BY n, times
    """).collect()

    assert [tuple(row) for row in found] == [(n, times) for n in range(3) for times in (4, 10)]


# What is refused

SKETCH = "give the binary result of space_saving_agg or space_saving_merge."


def refusal(spark: SparkSession, query: str) -> str:
    """Return the message with which the plugin itself refuses a query: on the driver, or in a task of Spark."""
    with pytest.raises(Exception, match=r"\w") as refused:
        spark.sql(query).collect()
    if isinstance(refused.value, IllegalArgumentException):
        return str(refused.value)
    in_task = re.search(r"SaltwiseException: ([^\n]*)", str(refused.value))
    assert in_task, refused.value
    return in_task[1]


def type_refusal(spark: SparkSession, query: str) -> str:
    """Return why Spark's analyzer refuses the types of a query."""
    with pytest.raises(AnalysisException) as refused:
        spark.sql(query)
    found = re.search(r"data type mismatch: (.*?)(?: SQLSTATE: \w+)?; line \d+ pos \d+", str(refused.value))
    assert found, refused.value
    return found[1]


@pytest.fixture(scope="module")
def sketch(spark: SparkSession) -> bytes:
    """A sketch of three strings and of four rows, with five counters."""
    [row] = spark.sql("SELECT space_saving_agg(s, 5) FROM VALUES ('a'), ('bc'), ('a'), (NULL) AS t(s)").collect()
    return bytes(row[0])


def with_checksum(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


def expected_refusal(damaged: bytes) -> str:
    """What is wrong with bytes that differ from a sketch, by the place where they do first."""
    if len(damaged) < 9 or damaged[:4] != b"SALT":
        return f"these {len(damaged)} bytes are not a SpaceSaving sketch; {SKETCH}"
    if damaged[4] != 1:
        signed = damaged[4] - 256 if damaged[4] > 127 else damaged[4]
        return f"the sketch has version {signed}, but this Saltwise reads version 1; {SKETCH}"
    return f"the sketch is damaged: its checksum does not match; {SKETCH}"


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.full)])
def test_every_truncated_sketch_is_refused(spark: SparkSession, sketch: bytes, step: int) -> None:
    # Without its checksum of four bytes, or a part of it; and cut in its header of nine bytes, or anywhere.
    for length in sorted({*range(0, len(sketch), step), *range(10), *range(len(sketch) - 4, len(sketch))}):
        part = sketch[:length]
        assert refusal(spark, f"SELECT space_saving_top(X'{part.hex()}')") == expected_refusal(part)


@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_a_sketch_with_flipped_bits_is_refused(spark: SparkSession, sketch: bytes, data: st.DataObject) -> None:
    damaged = bytearray(sketch)
    for place in data.draw(st.sets(st.integers(0, 8 * len(sketch) - 1), min_size=1, max_size=8)):
        damaged[place // 8] ^= 1 << place % 8

    found = refusal(spark, f"SELECT space_saving_estimate(X'{damaged.hex()}', 'a')")

    assert found == expected_refusal(bytes(damaged))


@settings(max_examples=settings().max_examples // 5)
@given(foreign=st.binary(max_size=300).filter(lambda some: some[:5] != b"SALT\x01"))
def test_foreign_bytes_are_refused(spark: SparkSession, foreign: bytes) -> None:
    assert refusal(spark, f"SELECT space_saving_top(X'{foreign.hex()}')") == expected_refusal(foreign)


@pytest.mark.smoke
def test_a_sketch_of_spark_is_refused(spark: SparkSession) -> None:
    [row] = spark.sql("SELECT length(hll_sketch_agg(id)) AS n FROM range(5)").collect()
    found = refusal(spark, "SELECT space_saving_top(hll_sketch_agg(id)) FROM range(5)")

    assert found == f"these {row.n} bytes are not a SpaceSaving sketch; {SKETCH}"


def test_a_merge_refuses_bytes_that_are_no_sketch(spark: SparkSession) -> None:
    found = refusal(spark, "SELECT space_saving_merge(X'53414c54')")

    assert found == f"these 4 bytes are not a SpaceSaving sketch; {SKETCH}"


def test_a_newer_sketch_is_refused(spark: SparkSession, sketch: bytes) -> None:
    newer = with_checksum(sketch[:4] + b"\x02" + sketch[5:-4])

    found = refusal(spark, f"SELECT space_saving_top(X'{newer.hex()}')")

    assert found == f"the sketch has version 2, but this Saltwise reads version 1; {SKETCH}"


@pytest.mark.parametrize(
    ("item_type", "why"),
    [
        (
            '{"type":"map","keyType":"string","valueType":"string","valueContainsNull":true}',
            "items cannot be of type MAP<STRING, STRING>",
        ),
        (
            '{"type":"udt","class":"java.lang.Object","pyClass":null,"sqlType":"integer"}',
            "it names a class as its type",
        ),
        (
            '{"type":"\\u0075dt","class":"java.lang.Object","pyClass":null,"sqlType":"integer"}',
            "it names a class as its type",
        ),
        (
            21 * '{"type":"array","elementType":' + '"double"' + 21 * ',"containsNull":true}',
            "its items have more than 20 levels of structs and arrays",
        ),
    ],
    ids=["map", "class", "class in other letters", "deep"],
)
def test_a_forged_type_of_items_is_refused_before_its_items_are_read(
    spark: SparkSession, sketch: bytes, item_type: str, why: str
) -> None:
    length = struct.unpack("<i", sketch[5:9])[0]
    declared = sketch[9 : 9 + length].replace(b'"string"', item_type.encode())
    forged = with_checksum(sketch[:5] + struct.pack("<i", len(declared)) + declared + sketch[9 + length : -4])

    found = refusal(spark, f"SELECT space_saving_top(X'{forged.hex()}')")

    assert found == f"the sketch is damaged: {why}; {SKETCH}"


@pytest.mark.parametrize(
    ("what", "header"),
    [
        ("no capacity", (0, 4, 0, 3)),
        ("a negative capacity", (-1, 4, 0, 3)),
        ("more items than capacity", (2, 4, 0, 3)),
        ("a negative total", (5, -4, 0, 3)),
        ("a negative number of missed rows", (5, 4, -1, 3)),
        ("more missed rows than rows", (5, 4, 5, 3)),
        ("a negative number of items", (5, 4, 0, -1)),
        ("more items than bytes", (5, 4, 0, 4)),
        ("far more items than memory", (2**31 - 1, 4, 0, 2**31 - 1)),
        ("bytes after the last item", (5, 4, 0, 2)),
    ],
)
def test_a_sketch_that_contradicts_itself_is_refused(
    spark: SparkSession, sketch: bytes, what: str, header: tuple[int, int, int, int]
) -> None:
    start = 9 + struct.unpack("<i", sketch[5:9])[0]
    assert struct.unpack("<iqqi", sketch[start : start + 24]) == (5, 4, 0, 3)
    wrong = with_checksum(sketch[:start] + struct.pack("<iqqi", *header) + sketch[start + 24 : -4])

    found = refusal(spark, f"SELECT space_saving_top(X'{wrong.hex()}')")

    assert found.startswith("the sketch is damaged: ")
    assert found.endswith(SKETCH)


@pytest.mark.parametrize(
    ("count", "error", "item"),
    [
        (5, 0, None),
        (-1, 0, None),
        (2, 3, None),
        (2, -1, None),
        (2, 0, b""),
        (2, 0, bytes(8)),
        (2, 0, bytes(8) + struct.pack("<ii", 1, 16)),
        (2, 0, bytes(8) + struct.pack("<ii", 9, 16) + bytes(8)),
        (2, 0, bytes(8) + struct.pack("<ii", 1, -16) + bytes(8)),
        (2, 0, bytes(8) + struct.pack("<ii", 2**31 - 1, 2**31 - 1) + bytes(8)),
        (2, 0, bytes(8) + struct.pack("<ii", 1, 16) + bytes(7)),
    ],
)
def test_an_item_that_cannot_be_is_refused(
    spark: SparkSession, sketch: bytes, count: int, error: int, item: bytes | None
) -> None:
    start = 9 + struct.unpack("<i", sketch[5:9])[0]
    length = struct.unpack("<i", sketch[start + 40 : start + 44])[0]
    item = sketch[start + 44 : start + 44 + length] if item is None else item
    entry = struct.pack("<qqi", count, error, len(item)) + item
    wrong = with_checksum(sketch[: start + 24] + entry + sketch[start + 44 + length : -4])

    found = refusal(spark, f"SELECT space_saving_top(X'{wrong.hex()}')")

    assert found.startswith("the sketch is damaged: ")


@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_bytes_of_items_that_were_changed_by_hand_never_point_outside_of_them(
    spark: SparkSession, data: st.DataObject
) -> None:
    value = data.draw(
        st.sampled_from(
            [
                "array('a', NULL, 'bcd')",
                "array(array(1, 2), NULL)",
                "array(named_struct('a', 'x', 'b', 2D))",
                "named_struct('a', 'text', 'b', array(true, false), 'c', CAST(1 AS DECIMAL(38, 2)))",
                "CAST(12.5 AS DECIMAL(30, 2))",
                "X'0102'",
            ]
        )
    )
    [row] = spark.sql(f"SELECT space_saving_agg({value}) FROM range(3)").collect()
    changed = bytearray(row[0][:-4])
    start = 9 + struct.unpack("<i", changed[5:9])[0] + 44
    for place in data.draw(st.sets(st.integers(8 * start, 8 * len(changed) - 1), min_size=1, max_size=4)):
        changed[place // 8] ^= 1 << place % 8
    try:
        top = f"space_saving_top(X'{with_checksum(bytes(changed)).hex()}')"
        # As bytes: what was changed may be no UTF-8, which Connect does not carry.
        spark.sql(f"SELECT transform({top}, top -> CAST(top.item AS BINARY))").collect()
    except IllegalArgumentException as refused:  # the change may be harmless too
        assert str(refused).startswith("the sketch is damaged: ")  # noqa: PT017


@pytest.mark.parametrize(
    ("size", "number"), [(0, b""), (16, b"\x7f" + 15 * b"\xff")], ids=["no digits", "more than 38 digits"]
)
def test_a_decimal_that_is_none_is_refused(spark: SparkSession, size: int, number: bytes) -> None:
    [row] = spark.sql("SELECT space_saving_agg(CAST(12.5 AS DECIMAL(38, 2))) FROM range(3)").collect()
    changed = bytearray(row[0][:-4])
    # The item is a row of one field: a word of null bits, the offset and size of the number, and the number.
    item = 9 + struct.unpack("<i", changed[5:9])[0] + 44
    changed[item + 8 : item + 12] = struct.pack("<i", size)
    changed[item + 16 : item + 16 + len(number)] = number

    found = refusal(spark, f"SELECT space_saving_top(X'{with_checksum(bytes(changed)).hex()}')")

    assert found.startswith("the sketch is damaged: ")


@pytest.mark.parametrize("type_json", [b"int", b'"int"', b'{"type":"struct","fields":[]}', b"\xff\xfe"])
def test_a_sketch_with_a_broken_type_is_refused(spark: SparkSession, sketch: bytes, type_json: bytes) -> None:
    start = 9 + struct.unpack("<i", sketch[5:9])[0]
    wrong = with_checksum(sketch[:5] + struct.pack("<i", len(type_json)) + type_json + sketch[start:-4])

    found = refusal(spark, f"SELECT space_saving_top(X'{wrong.hex()}')")

    assert found.startswith("the sketch is damaged: ")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("space_saving_merge(s)", "the sketch counts items of type STRING, not INT"),
        (
            "space_saving_top(max(s) FILTER (WHERE n = 1), 3, 'bigint')",
            "the sketch counts items of type INT, not BIGINT",
        ),
        ("space_saving_estimate(max(s) FILTER (WHERE n = 1), 'a')", "the sketch counts items of type INT, not STRING"),
        ("space_saving_estimate(max(s) FILTER (WHERE n = 1), 1L)", "the sketch counts items of type INT, not BIGINT"),
    ],
)
def test_sketches_of_another_type_are_refused(spark: SparkSession, call: str, message: str) -> None:
    sketches = (
        "SELECT 1 AS n, space_saving_agg(k) AS s FROM VALUES (1) AS t(k) UNION ALL "
        "SELECT 2, space_saving_agg(k) FROM VALUES ('a') AS t(k)"
    )
    found = refusal(spark, f"SELECT {call} FROM (SELECT /*+ COALESCE(1) */ * FROM ({sketches}) ORDER BY n)")

    assert found == f"{message}; merge and query sketches of one type only."


WHOLE_NUMBER = "it must be a constant whole number from 1 to"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("heavy_hitters(k, 0)", f"k is 0; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, -1)", f"k is -1; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, NULL)", f"k is NULL; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, k)", f"k is t.k; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, '2')", f"k is '2'; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, 2L)", f"k is 2L; {WHOLE_NUMBER} 80."),
        ("heavy_hitters(k, 20, 10)", f"k is 20; {WHOLE_NUMBER} 10."),
        ("heavy_hitters(k, 1, 0)", f"capacity is 0; {WHOLE_NUMBER} 16777216."),
        ("heavy_hitters(k, 1, 16777217)", f"capacity is 16777217; {WHOLE_NUMBER} 16777216."),
        ("space_saving_agg(k, 0)", f"capacity is 0; {WHOLE_NUMBER} 16777216."),
        ("space_saving_agg(k, 1.5)", f"capacity is 1.5BD; {WHOLE_NUMBER} 16777216."),
        ("space_saving_top(X'00', 0)", f"k is 0; {WHOLE_NUMBER} 16777216."),
        ("space_saving_top(X'00', 1, k)", "type is t.k; it must be a constant string such as 'bigint'."),
        ("space_saving_top(X'00', 1, 3)", "type is 3; it must be a constant string such as 'bigint'."),
        (
            "space_saving_top('a')",
            "sketch is of type STRING; give the binary result of space_saving_agg or space_saving_merge.",
        ),
        (
            "space_saving_estimate(k, 1)",
            "sketch is of type INT; give the binary result of space_saving_agg or space_saving_merge.",
        ),
    ],
)
def test_wrong_arguments_are_refused(spark: SparkSession, call: str, message: str) -> None:
    assert type_refusal(spark, f"SELECT {call} FROM VALUES (1), (2) AS t(k)") == message


@pytest.mark.parametrize("function", ["heavy_hitters", "space_saving_agg"])
def test_items_that_cannot_be_compared_are_refused(spark: SparkSession, function: str) -> None:
    found = type_refusal(spark, f"SELECT {function}(map(1, 2))")

    assert found == f'The `{function}` does not support ordering on type "MAP<INT, INT>".'


@pytest.mark.parametrize("key", ["map(1, 2)", "array(map(1, 2))"])
def test_skew_worker_refuses_maps_which_may_be_equal_in_any_order(spark: SparkSession, key: str) -> None:
    kind = "MAP<INT, INT>" if key == "map(1, 2)" else "ARRAY<MAP<INT, INT>>"

    assert refusal(spark, f"SELECT skew_worker(4, 'hash', 1, {key})") == (
        f"key {key} of skew_worker is of type {kind}; it must hold no maps, give map_entries of them, sorted."
    )


def test_an_unknown_item_type_is_refused_as_spark_refuses_it(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match='Unsupported data type "NOPE"'):
        spark.sql("SELECT space_saving_top(X'00', 1, 'nope')")


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("heavy_hitters()", 0),
        ("heavy_hitters(1, 2, 3, 4)", 4),
        ("space_saving_agg()", 0),
        ("space_saving_merge()", 0),
        ("space_saving_top()", 0),
        ("space_saving_estimate(X'00')", 1),
        ("skew_worker(4, 'pkg')", 2),
        ("saltwise_version(1)", 1),
    ],
)
def test_a_wrong_number_of_arguments_is_refused(spark: SparkSession, call: str, arguments: int) -> None:
    name = call.partition("(")[0]
    [signature] = [function["signature"] for function in FUNCTIONS if function["name"] == name]

    assert refusal(spark, f"SELECT {call}") == f"{name} got {arguments} arguments; call it as {signature}."


# Documentation


@pytest.mark.smoke
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function["name"])
def test_describe_function_tells_what_the_manifest_tells(spark: SparkSession, function: dict[str, Any]) -> None:
    rows = spark.sql(f"DESCRIBE FUNCTION EXTENDED {function['name']}").collect()
    text = "\n".join(row[0] for row in rows)

    assert f"Function: {function['name']}" in text
    assert f"Usage: {function['signature']} - {function['usage']}" in text
    assert f"Since: {function['since']}" in text
    for example in function["examples"]:
        assert f"> {example['sql']}\n       {example['result']}" in text


@pytest.mark.smoke
@pytest.mark.classic("print as spark-sql does")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function["name"])
def test_the_examples_of_the_manifest_give_their_results(
    spark: SparkSession, function: dict[str, Any], orders: None
) -> None:
    assert function["examples"]
    for example in function["examples"]:
        assert printed(spark, example["sql"].rstrip(";")) == example["result"].split("\n")


@pytest.fixture
def orders(spark: SparkSession) -> Iterator[None]:
    """The table that the manifest's examples read."""
    spark.sql("CREATE TABLE orders USING parquet AS SELECT * FROM VALUES ('a'), ('b'), ('a'), ('a') AS t(customer)")
    yield
    spark.sql("DROP TABLE orders")


def printed(spark: SparkSession, query: str) -> list[str]:
    """Return the lines that spark-sql prints."""
    session: Any = spark
    df: Any = spark.sql(query)
    hive = session._jvm.org.apache.spark.sql.execution.HiveResult
    lines = hive.hiveResultString(df._jdf.queryExecution().executedPlan())
    return [lines.apply(i) for i in range(lines.size())]
