"""What is no sketch is refused: bytes that are cut, changed, foreign or newer, and sketches that contradict themselves."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from tests.sketches.refused import SKETCH, refusal

FEW = settings(max_examples=settings().max_examples // 10)
"""For properties that cost a query an example."""


@pytest.fixture(scope="module")
def sketch(spark: SparkSession) -> bytes:
    """A sketch of three strings and of four rows, with five counters."""
    [row] = spark.sql("SELECT space_saving_agg(s, 5) FROM VALUES ('a'), ('bc'), ('a'), (NULL) AS t(s)").collect()
    return bytes(row[0])


def with_checksum(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


def counts_at(sketch: bytes | bytearray) -> int:
    """Return where the counts begin: after nine bytes, of which the last four say how long the type is, and the type."""
    return 9 + int(struct.unpack("<i", sketch[5:9])[0])


def refusal_of(spark: SparkSession, sketch: bytes) -> str:
    return refusal(spark, f"SELECT space_saving_top(X'{sketch.hex()}')")


def expected_refusal(damaged: bytes) -> str:
    """Return what is wrong with bytes that differ from a sketch, by the first place where they do."""
    if len(damaged) < 9 or damaged[:4] != b"SALT":
        return f"these {len(damaged)} bytes are not a SpaceSaving sketch; {SKETCH}"
    if damaged[4] != 1:
        signed = damaged[4] - 256 if damaged[4] > 127 else damaged[4]
        return f"the sketch has version {signed}, but this Saltwise reads version 1; {SKETCH}"
    return f"the sketch is damaged: its checksum does not match; {SKETCH}"


@pytest.mark.parametrize("step", [40, pytest.param(1, marks=pytest.mark.full)])
def test_every_truncated_sketch_is_refused(spark: SparkSession, sketch: bytes, step: int) -> None:
    # Cut in its header of nine bytes or anywhere else, and without its checksum of four bytes or a part of it.
    for length in sorted({*range(0, len(sketch), step), 4, 5, 8, 9, *range(len(sketch) - 4, len(sketch))}):
        assert refusal_of(spark, sketch[:length]) == expected_refusal(sketch[:length])


@FEW
@given(data=st.data())
def test_a_sketch_with_flipped_bits_is_refused(spark: SparkSession, sketch: bytes, data: st.DataObject) -> None:
    damaged = bytearray(sketch)
    for place in data.draw(st.sets(st.integers(0, 8 * len(sketch) - 1), min_size=1, max_size=8)):
        damaged[place // 8] ^= 1 << place % 8

    message = refusal(spark, f"SELECT space_saving_estimate(X'{damaged.hex()}', 'a')")

    assert message == expected_refusal(bytes(damaged))


@FEW
@given(foreign=st.binary(max_size=300).filter(lambda some: some[:5] != b"SALT\x01"))
def test_foreign_bytes_are_refused(spark: SparkSession, foreign: bytes) -> None:
    assert refusal_of(spark, foreign) == expected_refusal(foreign)


def test_bytes_of_another_make_are_refused(spark: SparkSession, sketch: bytes) -> None:
    [row] = spark.sql("SELECT length(hll_sketch_agg(id)) AS n FROM range(5)").collect()
    of_spark = refusal(spark, "SELECT space_saving_top(hll_sketch_agg(id)) FROM range(5)")
    assert of_spark == f"these {row.n} bytes are not a SpaceSaving sketch; {SKETCH}"

    merged = refusal(spark, "SELECT space_saving_merge(X'53414c54')")
    assert merged == f"these 4 bytes are not a SpaceSaving sketch; {SKETCH}"

    newer = refusal_of(spark, with_checksum(sketch[:4] + b"\x02" + sketch[5:-4]))
    assert newer == f"the sketch has version 2, but this Saltwise reads version 1; {SKETCH}"


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
def test_a_forged_type_is_refused_before_items_are_read(
    spark: SparkSession, sketch: bytes, item_type: str, why: str
) -> None:
    at = counts_at(sketch)
    declared = sketch[9:at].replace(b'"string"', item_type.encode())
    forged = with_checksum(sketch[:5] + struct.pack("<i", len(declared)) + declared + sketch[at:-4])

    assert refusal_of(spark, forged) == f"the sketch is damaged: {why}; {SKETCH}"


HEADERS = {
    "no capacity": (0, 4, 0, 3),
    "a negative capacity": (-1, 4, 0, 3),
    "more items than capacity": (2, 4, 0, 3),
    "a negative total": (5, -4, 0, 3),
    "a negative number of missed rows": (5, 4, -1, 3),
    "more missed rows than rows": (5, 4, 5, 3),
    "a negative number of items": (5, 4, 0, -1),
    "more items than bytes": (5, 4, 0, 4),
    "far more items than memory": (2**31 - 1, 4, 0, 2**31 - 1),
    "bytes after the last item": (5, 4, 0, 2),
}
TYPES = [b"int", b'"int"', b'{"type":"struct","fields":[]}', b"\xff\xfe"]


def test_a_sketch_that_contradicts_itself_is_refused(spark: SparkSession, sketch: bytes) -> None:
    at = counts_at(sketch)
    assert struct.unpack("<iqqi", sketch[at : at + 24]) == (5, 4, 0, 3)
    wrong = {
        name: sketch[:at] + struct.pack("<iqqi", *header) + sketch[at + 24 : -4] for name, header in HEADERS.items()
    }
    for text in TYPES:
        wrong[f"type {text!r}"] = sketch[:5] + struct.pack("<i", len(text)) + text + sketch[at:-4]
    for name, body in wrong.items():
        message = refusal_of(spark, with_checksum(body))
        assert message.startswith("the sketch is damaged: "), name
        assert message.endswith(SKETCH), name


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
    at = counts_at(sketch)
    length = struct.unpack("<i", sketch[at + 40 : at + 44])[0]
    item = sketch[at + 44 : at + 44 + length] if item is None else item
    entry = struct.pack("<qqi", count, error, len(item)) + item
    wrong = with_checksum(sketch[: at + 24] + entry + sketch[at + 44 + length : -4])

    assert refusal_of(spark, wrong).startswith("the sketch is damaged: ")


@pytest.fixture(scope="module")
def nested_sketches(spark: SparkSession) -> list[bytes]:
    """Sketches whose items have offsets and sizes inside."""
    values = [
        "array('a', NULL, 'bcd')",
        "array(array(1, 2), NULL)",
        "array(named_struct('a', 'x', 'b', 2D))",
        "named_struct('a', 'text', 'b', array(true, false), 'c', CAST(1 AS DECIMAL(38, 2)))",
        "CAST(12.5 AS DECIMAL(30, 2))",
        "X'0102'",
    ]
    [row] = spark.sql(f"SELECT {', '.join(f'space_saving_agg({value})' for value in values)} FROM range(3)").collect()
    return [bytes(sketch) for sketch in row]


@FEW
@given(data=st.data())
def test_bytes_changed_by_hand_never_point_outside_of_an_item(
    spark: SparkSession, nested_sketches: list[bytes], data: st.DataObject
) -> None:
    changed = bytearray(data.draw(st.sampled_from(nested_sketches))[:-4])
    start = 8 * (counts_at(changed) + 44)
    for place in data.draw(st.sets(st.integers(start, 8 * len(changed) - 1), min_size=1, max_size=4)):
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
    item = counts_at(changed) + 44
    changed[item + 8 : item + 12] = struct.pack("<i", size)
    changed[item + 16 : item + 16 + len(number)] = number

    assert refusal_of(spark, with_checksum(bytes(changed))).startswith("the sketch is damaged: ")
