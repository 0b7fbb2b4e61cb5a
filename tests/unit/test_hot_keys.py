"""A hot key is spelled by the type of its column, or refused by name."""

from __future__ import annotations

import json
import math
import time as clock
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from saltwise import SaltwiseValueError
from saltwise.spark.grouping.hot_keys import hot_json

DAY, HOUR, MINUTE, SECOND = range(4)
BERLIN = timezone(timedelta(hours=1))
STRUCT = StructType().add("a", LongType()).add("b", StringType())
NESTED = (
    StructType()
    .add("t", TimestampType())
    .add("n", TimestampNTZType())
    .add("d", DateType())
    .add("x", DecimalType(9, 2))
    .add("b", BinaryType())
    .add("f", DoubleType())
    .add("s", STRUCT)
    .add("l", ArrayType(BooleanType()))
)


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Python be in a zone that is one hour before UTC."""
    monkeypatch.setenv("TZ", "XXX-1")
    clock.tzset()
    yield
    monkeypatch.undo()
    clock.tzset()


def spelled(key: object, *types: DataType) -> list[Any]:
    [entry] = json.loads(hot_json([key], types))
    key_of_entry: list[Any] = entry["key"]
    return key_of_entry


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        (None, StringType(), None),
        ("UA", StringType(), "UA"),
        (7, LongType(), 7),
        (True, BooleanType(), True),
        (0.5, DoubleType(), 0.5),
        (math.nan, DoubleType(), "NaN"),
        (-math.inf, DoubleType(), "-Infinity"),
        (Decimal("1.50"), DecimalType(9, 2), "1.50"),
        (b"\xff\x00", BinaryType(), "/wA="),
        (bytearray(b"\xff\x00"), BinaryType(), "/wA="),
        ("/wA=", BinaryType(), "/wA="),
        (date(2013, 1, 2), DateType(), "2013-01-02"),
        (time(1, 2, 3), StringType(), "01:02:03"),
        # As in pyspark, a datetime without a zone is in that of Python.
        (datetime(2013, 1, 2, 3, 4, 5, 6), TimestampType(), "2013-01-02 03:04:05.000006+01:00"),
        (datetime(2013, 1, 2, 3, 4, 5, tzinfo=UTC), TimestampType(), "2013-01-02 03:04:05+00:00"),
        (datetime(1, 1, 1), TimestampType(), "0001-01-01 00:00:00"),
        (datetime(2013, 1, 2, 3, 4, 5), TimestampNTZType(), "2013-01-02 03:04:05"),
        (datetime(2013, 1, 2, 3, 4, 5, tzinfo=BERLIN), TimestampNTZType(), "2013-01-02 03:04:05"),
        (timedelta(1, 3723, 500_000), DayTimeIntervalType(), "1 01:02:03.500000"),
        (timedelta(hours=-1), DayTimeIntervalType(), "-0 01:00:00.000000"),
        (timedelta(hours=27, minutes=30), DayTimeIntervalType(HOUR, MINUTE), "27:30"),
        (timedelta(hours=-27, minutes=-30), DayTimeIntervalType(HOUR, SECOND), "-27:30:00.000000"),
        (timedelta(days=2), DayTimeIntervalType(DAY, DAY), "2"),
        (timedelta(days=2, hours=3), DayTimeIntervalType(DAY, HOUR), "2 03"),
        (timedelta(minutes=90, microseconds=1), DayTimeIntervalType(SECOND, SECOND), "5400.000001"),
        ("INTERVAL '1' HOUR", DayTimeIntervalType(HOUR, HOUR), "INTERVAL '1' HOUR"),
        (np.int64(7), LongType(), 7),
        (np.float32(0.5), DoubleType(), 0.5),
        (np.bool_(True), BooleanType(), True),
        (np.datetime64("2013-01-02T03:04:05", "ns"), TimestampNTZType(), "2013-01-02 03:04:05"),
        (np.timedelta64(3_600_000_000_000, "ns"), DayTimeIntervalType(), "0 01:00:00.000000"),
        ([1, None], ArrayType(LongType()), [1, None]),
        (np.array([1, 2]), ArrayType(LongType()), [1, 2]),
        (Row(a=1, b="x"), STRUCT, {"a": 1, "b": "x"}),
        (Row(b="x", a=1), STRUCT, {"a": 1, "b": "x"}),
        ((1, None), STRUCT, {"a": 1, "b": None}),
        ({"a": 1, "b": "x"}, STRUCT, {"a": 1, "b": "x"}),
        ('{"a": 1}', STRUCT, '{"a": 1}'),
        (Row(a=None), StructType().add("a", LongType()), {"a": None}),
        (
            Row(
                t=datetime(2013, 1, 2),
                n=datetime(2013, 1, 2),
                d=date(2013, 1, 2),
                x=Decimal("1.50"),
                b=bytearray(b"\xff"),
                f=math.inf,
                s=Row(a=1, b="x"),
                l=[True, None],
            ),
            NESTED,
            {
                "t": "2013-01-02 00:00:00+01:00",
                "n": "2013-01-02 00:00:00",
                "d": "2013-01-02",
                "x": "1.50",
                "b": "/w==",
                "f": "Infinity",
                "s": {"a": 1, "b": "x"},
                "l": [True, None],
            },
        ),
    ],
)
def test_a_value_is_spelled_as_the_plugin_reads_its_type(value: object, data_type: DataType, text: object) -> None:
    assert spelled((value, 7), data_type, IntegerType()) == [text, 7]
    if not isinstance(value, tuple):
        assert spelled(value, data_type) == [text]
    assert spelled((value,), data_type) == [text]


def test_a_row_is_a_key_of_several_columns_or_the_struct_of_one() -> None:
    assert spelled(Row(a=1, b="x"), LongType(), StringType()) == [1, "x"]
    assert spelled(Row(k="UA"), StringType()) == ["UA"]
    assert spelled(Row(a=1, b="x"), STRUCT) == [{"a": 1, "b": "x"}]
    within = StructType().add("s", STRUCT)
    for key in Row(s=Row(a=1, b="x")), (Row(s=Row(a=1, b="x")),):
        assert spelled(key, within) == [{"s": {"a": 1, "b": "x"}}]


def test_shares_go_with_the_keys() -> None:
    hot = {("UA", None): 0.25, ("B6", 7): 1}
    assert json.loads(hot_json(hot, [StringType(), LongType()])) == [
        {"key": ["UA", None], "share": 0.25},
        {"key": ["B6", 7], "share": 1},
    ]


@pytest.mark.parametrize(
    ("hot", "types", "message"),
    [
        ([], [StringType()], "hot is empty; name at least one key, or leave hot out."),
        ("UA", [StringType()], "hot is 'UA'; it must be a list of keys, or a dict from key to share."),
        (b"UA", [BinaryType()], "hot is b'UA'; it must be a list of keys, or a dict from key to share."),
        ({"UA": 2}, [StringType()], "share of a hot key is 2; it must be above 0 and at most 1."),
        (
            [("UA", 1)],
            [StringType()],
            "hot key ('UA', 1) has 2 values; it must have one for each of the 1 grouping columns.",
        ),
        (
            ["UA"],
            [StringType(), LongType()],
            "hot key 'UA' has 1 values; it must have one for each of the 2 grouping columns.",
        ),
        (
            [b"UA"],
            [StringType()],
            "hot key value b'UA' is of type bytes, and its column of type string: give a value of that type.",
        ),
        (
            [timedelta(1)],
            [StringType()],
            "hot key value datetime.timedelta(days=1) is of type timedelta, and its column of type string: give a value "
            "of that type.",
        ),
        ([1j], [DoubleType()], "hot key value 1j is of type complex, and its column of type double: give a value of that type."),
        ([{"a": 1}], [StringType()], "hot key value {'a': 1} is of type dict, and its column of type string: give a value of that type."),
        (
            [{"a": "1", "b": "x"}],
            [STRUCT],
            "hot key value '1' is of type str, and its column of type bigint: give a value of that type.",
        ),
        (
            [[date(2013, 1, 2)]],
            [ArrayType(LongType())],
            "hot key value datetime.date(2013, 1, 2) is of type date, and its column of type bigint: give a value of that type.",
        ),
        (
            [{"c": 1}],
            [STRUCT],
            "hot key value {'c': 1} has other fields than its column of type struct<a:bigint,b:string>: give a value of "
            "that type.",
        ),
        (
            [{"a": 1}],
            [ArrayType(MapType(StringType(), LongType()))],
            "hot is given, and a key is of type array<map<string,bigint>>, whose values have no spelling: leave hot out.",
        ),
    ],
)  # fmt: skip
def test_what_is_no_hot_key_is_refused_by_name(hot: object, types: list[DataType], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        hot_json(hot, types)
    assert str(error.value) == message
