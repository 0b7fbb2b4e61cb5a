"""Items of each type in the sketch functions: counted as GROUP BY counts them, read back, and shown with their type."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession

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
ROWS = 200


@pytest.fixture(scope="module")
def cells(spark: SparkSession, version: tuple[int, ...]) -> dict[str, Row]:
    """What one query says of the items of each type; half of the 200 rows have the first value."""
    types = ITEMS | (COLLATED_ITEMS if version >= (4, 0) else {})

    def of_each_type(select: str) -> str:
        columns = []
        for i, (item_type, values) in enumerate(types.items()):
            # Spark compares no void with a void.
            same = "true" if item_type == "void" else "other.item <=> hit.item"
            hit_of_row = "true" if item_type == "void" else f"hit.item <=> item{i}"
            columns.append(
                select.format(i=i, type=item_type, values=f"array({values})", same=same, hit_of_row=hit_of_row)
            )
        return ", ".join(columns)

    items = of_each_type(
        "CAST(element_at({values}, IF(id % 2 = 0, 1, 1 + CAST(id % size({values}) AS INT))) AS {type}) AS item{i}"
    )
    spark.sql(f"SELECT id, {items} FROM range(0, {ROWS}, 1, 3)").createOrReplaceTempView("items")
    whole = of_each_type(
        "heavy_hitters(item{i}, 50, 50) AS hitters{i}, space_saving_agg(item{i}, 50) AS sketch{i}, "
        "space_saving_agg(item{i}, 3) AS small{i}, collect_list(struct(item{i} AS item)) AS all{i}"
    )
    parts = of_each_type("space_saving_agg(item{i}, 50) AS part{i}")
    merged = of_each_type("space_saving_merge(part{i}) AS merged{i}")
    tops = of_each_type(
        "space_saving_top(sketch{i}, 50, '{type}') AS stored{i}, space_saving_top(merged{i}, 50, '{type}') AS joined{i}"
    )
    # A hit has the number of equal rows, no other hit is equal to it, and all hits together have all rows.
    counted = " AND ".join(
        f"forall({top}{{i}}, hit -> hit.error = 0 AND hit.count = size(filter(all{{i}}, other -> {{same}})) "
        f"AND size(filter({top}{{i}}, other -> {{same}})) = 1) "
        f"AND aggregate({top}{{i}}, 0L, (rows, hit) -> rows + hit.count) = {ROWS}"
        for top in ("hitters", "stored", "joined")
    )
    estimate = "space_saving_estimate(sketch{i}, item{i})"
    rows_of_item = "element_at(filter(hitters{i}, hit -> {hit_of_row}), 1).count"
    found = of_each_type(
        f"struct(first({counted}) AS counted, "
        f"bool_and({estimate} = struct({rows_of_item}, {rows_of_item}, {rows_of_item})) AS estimated, "
        "space_saving_merge(small{i}) FILTER (WHERE id = 0) = first(small{i}) AS read_back, "
        "array(first(typeof(hitters{i}[0].item)), first(typeof(stored{i}[0].item))) AS kept_types, "
        "first(typeof(item{i})) AS type, first(typeof(space_saving_top(sketch{i})[0].item)) AS shown_type) AS cells{i}"
    )
    [row] = spark.sql(f"""
        WITH whole AS (SELECT {whole} FROM items),
          merged AS (SELECT {merged} FROM (SELECT {parts} FROM items GROUP BY id % 4)),
          tops AS (SELECT *, {tops} FROM whole CROSS JOIN merged)
        SELECT {found} FROM items CROSS JOIN tops""").collect()
    spark.catalog.dropTempView("items")
    return dict(zip(types, row, strict=True))


def test_items_of_each_type_are_counted_as_group_by_counts_them(cells: dict[str, Row]) -> None:
    """In the sketch as in GROUP BY: NULL is an item, -0.0 = 0.0, all NaNs are one, collations count."""
    assert [item_type for item_type, cell in cells.items() if not cell.counted] == []


def test_items_of_each_type_keep_their_type(cells: dict[str, Row]) -> None:
    for item_type, cell in cells.items():
        assert (cell.kept_types, cell.shown_type) == ([cell.type, cell.type], "string"), item_type


def test_a_sketch_of_each_type_reads_back_what_it_wrote(cells: dict[str, Row]) -> None:
    assert [item_type for item_type, cell in cells.items() if not cell.read_back] == []


def test_estimates_of_each_type_are_the_counts_of_group_by(cells: dict[str, Row]) -> None:
    assert [item_type for item_type, cell in cells.items() if not cell.estimated] == []


def test_without_a_type_items_are_shown_as_strings(spark: SparkSession) -> None:
    [row] = spark.sql("""
        SELECT space_saving_top(space_saving_agg(item)) AS top FROM VALUES
          (named_struct('n', 1, 's', 'a')), (NULL), (named_struct('n', 1, 's', 'a')), (NULL),
          (named_struct('n', 1, 's', 'a')), (named_struct('n', 2, 's', NULL)) AS t(item)""").collect()

    assert [tuple(item) for item in row.top] == [("{1, a}", 3, 0), (None, 2, 0), ("{2, null}", 1, 0)]


def test_an_item_is_looked_up_by_any_type_that_fits(spark: SparkSession) -> None:
    [row] = spark.sql("""
        SELECT space_saving_estimate(sketch, 7Y).estimate AS tiny, space_saving_estimate(sketch, 7).estimate AS whole,
          space_saving_estimate(sketch, NULL).estimate AS none
        FROM (SELECT space_saving_agg(k) AS sketch FROM VALUES (7L), (7L), (NULL), (8L) AS t(k))""").collect()

    assert tuple(row) == (2, 2, 1)
