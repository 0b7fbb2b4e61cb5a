"""The SpaceSaving summary in Python: its bounds, and that it counts as the plugin's does."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltwise.errors import SaltwiseValueError
from saltwise.sketches.space_saving import Counted, Estimate, SpaceSaving

rows = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 5)), max_size=60)


def counted(stream: list[tuple[int, int]], capacity: int) -> SpaceSaving:
    sketch = SpaceSaving(capacity)
    for item, weight in stream:
        sketch.offer(item, weight)
    return sketch


def assert_bounds(sketch: SpaceSaving, stream: list[tuple[int, int]]) -> None:
    true: Counter[int] = Counter()
    for item, weight in stream:
        true[item] += weight
    assert sketch.total == true.total()
    assert sketch.absent <= sketch.total / sketch.capacity
    for entry in sketch.top():
        assert isinstance(entry.item, int)
        assert entry.count - entry.error <= true[entry.item] <= entry.count
        assert entry.error <= sketch.absent
    for item, count in true.items():
        estimate, lower, upper = sketch.estimate(item)
        assert lower <= count <= upper
        assert estimate in (lower, upper)
        if count > sketch.total / sketch.capacity:
            assert item in sketch


@given(rows, st.integers(1, 8))
def test_a_summary_keeps_its_bounds(stream: list[tuple[int, int]], capacity: int) -> None:
    assert_bounds(counted(stream, capacity), stream)


@given(st.lists(rows, min_size=2, max_size=5), st.integers(1, 8), rows)
def test_merged_summaries_keep_the_bounds_of_all_their_rows(
    streams: list[list[tuple[int, int]]], capacity: int, more: list[tuple[int, int]]
) -> None:
    merged = counted(streams[0], capacity)
    for stream in streams[1:]:
        merged = merged.merge(counted(stream, capacity))
    assert_bounds(merged, [row for stream in streams for row in stream])

    for item, weight in more:
        merged.offer(item, weight)
    assert_bounds(merged, [row for stream in streams for row in stream] + more)


def test_what_both_summaries_dropped_is_bounded_by_both_together() -> None:
    one, other = SpaceSaving(4), SpaceSaving(4)
    for summary in one, other:
        for item in (9, 1, 2, 3, 4):  # 4 takes the counter of 9
            summary.offer(item)
    merged = one.merge(other)
    assert 9 not in merged
    assert merged.estimate(9).upper == 2


def test_of_two_capacities_the_merged_summary_has_the_smaller_one() -> None:
    large, small = counted([(item, 1) for item in range(8)], 8), counted([(item, 1) for item in range(9)], 2)
    for merged in large.merge(small), small.merge(large):
        assert merged.capacity == 2
        assert merged.absent <= merged.total / merged.capacity


def test_a_summary_with_room_for_all_counts_exactly() -> None:
    sketch = counted([(3, 1), (1, 4), (3, 2), (2, 3)], capacity=3)
    assert sketch.top() == [Counted(1, 4, 0), Counted(2, 3, 0), Counted(3, 3, 0)]
    assert (len(sketch), sketch.total, sketch.absent) == (3, 10, 3)
    assert sketch.estimate(7) == Estimate(0, 0, 3)


def test_an_empty_summary_knows_nothing() -> None:
    sketch = SpaceSaving(4, "string")
    assert (len(sketch), sketch.total, sketch.absent, sketch.top(3)) == (0, 0, 0, [])
    assert sketch.estimate("a") == Estimate(0, 0, 0)
    assert sketch.merge(SpaceSaving(2, "string")).top() == []


# What is written


def offered(stream: list[Any], capacity: int, item_type: str) -> SpaceSaving:
    sketch = SpaceSaving(capacity, item_type)
    for item in stream:
        sketch.offer(item)
    return sketch


def test_the_bytes_of_a_sketch_are_those_of_version_1() -> None:
    sketch = SpaceSaving(2, "string")
    for item in ["a", "b", "a", None, "a"]:
        sketch.offer(item)
    assert (
        sketch.to_bytes().hex()
        == (
            "53414c5401"  # SALT, version 1
            "5a000000"
            + b'{"type":"struct","fields":[{"name":"item","type":"string","nullable":true,"metadata":{}}]}'.hex()
            + "02000000"
            "0500000000000000"
            "0200000000000000"
            "02000000"
            "0300000000000000"
            "0000000000000000"
            "18000000"
            "000000000000000001000000100000006100000000000000"
            "0200000000000000"
            "0100000000000000"
            "10000000"
            "01000000000000000000000000000000"
            "7de2b22c"
        )
    )


def test_an_empty_sketch_survives_being_written() -> None:
    read = SpaceSaving.from_bytes(SpaceSaving(5, "int").to_bytes())
    assert (read.capacity, read.item_type, read.total, read.absent, read.top()) == (5, "int", 0, 0, [])


def resealed(data: bytes, at: int, new: bytes) -> bytes:
    """The bytes with some of them replaced, and a checksum that fits."""
    body = data[:at] + new + data[at + len(new) : -4]
    return body + zlib.crc32(body).to_bytes(4, "little")


def test_bytes_that_are_no_sketch_are_refused() -> None:
    good = offered([1, 2, 1], 4, "bigint").to_bytes()
    counts = 9 + int.from_bytes(good[5:9], "little")
    newer = good[:4] + b"\x02" + good[5:]
    for data, message in [
        (b"", "these 0 bytes are not a SpaceSaving sketch"),
        (newer, "the sketch has version 2, but this Saltwise reads version 1"),
        (good[:20] + b"?" + good[21:], "the sketch is damaged: its checksum does not match"),
        (good[:-1], "the sketch is damaged: its checksum does not match"),
        (resealed(good, counts, bytes(4)), "the sketch is damaged: it says 2 items of 3 rows on 0 counters"),
        (
            resealed(good, counts + 24, b"\x09"),
            "the sketch is damaged: it counts an item 9 times, with an error of 0, in 3 rows",
        ),
        (resealed(good, counts + 44, b"\x08"), "the sketch is damaged: 16 bytes are not an item of type bigint"),
        (resealed(good, counts + 12, b"\x04"), "the sketch is damaged: it says 2 items of 3 rows on 4 counters"),
        (resealed(good, counts + 40, b"\xec\xff\xff\xff"), "the sketch is damaged: an item has -20 bytes"),
        (resealed(good, counts + 88, b"\x01"), "the sketch is damaged: it counts an item twice"),
    ]:
        with pytest.raises(SaltwiseValueError) as refused:
            SpaceSaving.from_bytes(data)
        assert str(refused.value) == f"{message}; give the binary result of space_saving_agg or of to_bytes."


@given(st.data())
def test_damaged_bytes_are_refused_or_read_as_a_sketch(data: st.DataObject) -> None:
    good = offered(["x", "yy" * 9, None, "x"], 4, "string").to_bytes()
    at = data.draw(st.integers(5, len(good) - 5))
    damaged = resealed(good, at, data.draw(st.binary(min_size=1, max_size=min(8, len(good) - 4 - at))))
    try:
        sketch = SpaceSaving.from_bytes(damaged)
    except SaltwiseValueError:
        return
    assert SpaceSaving.from_bytes(sketch.to_bytes()).top() == sketch.top()


def test_sketches_of_more_rows_than_a_bigint_holds_are_not_merged() -> None:
    sketch = SpaceSaving(5)
    sketch.offer(7, 2**62)
    with pytest.raises(SaltwiseValueError) as refused:
        sketch.merge(sketch)
    assert str(refused.value) == (
        f"the sketches counted {2**62} and {2**62} rows, which is more than a BIGINT holds; leave out those that counted "
        "something else."
    )


def test_sketches_of_two_types_are_not_merged() -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        SpaceSaving(5).merge(SpaceSaving(5, "string"))
    assert str(refused.value) == "the other sketch counts items of type string; it must be bigint, as here."


@pytest.mark.parametrize(
    ("item_type", "item"),
    [
        ("bigint", 2**63),
        ("tinyint", -129),
        ("bigint", "a"),
        ("string", 1),
        ("int", 1.0),
        ("bigint", True),
        ("bigint", [1]),
        ("string", "\ud800"),
    ],
)
def test_an_item_of_another_type_is_refused_and_counts_nothing(item_type: str, item: Any) -> None:
    sketch = SpaceSaving(2, item_type)
    if item_type != "string":
        sketch.offer(1)
    before = sketch.total
    with pytest.raises(SaltwiseValueError) as refused:
        sketch.offer(item)
    assert str(refused.value) == f"item is {item!r}; it must be a {item_type}, the type of the sketch, or None."
    assert sketch.total == before


def test_an_unknown_item_type_is_refused() -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        SpaceSaving(2, "integer")
    assert str(refused.value) == (
        "item_type is 'integer'; it must be one of bigint, int, smallint, tinyint, string; did you mean 'int'?"
    )


@pytest.mark.parametrize("capacity", [0, -3, 2**24 + 1])
def test_a_capacity_out_of_range_is_refused(capacity: int) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        SpaceSaving(capacity)
    assert str(refused.value) == f"capacity is {capacity}; it must be a whole number from 1 to 16777216."


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_the_top_of_no_whole_number_is_refused(k: Any) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        SpaceSaving(2).top(k)
    assert str(refused.value) == f"k is {k}; it must be a whole number of at least 1."


def test_more_rows_than_a_bigint_holds_are_refused_and_count_nothing() -> None:
    sketch = SpaceSaving(2)
    sketch.offer(1, 2**63 - 1)
    for item in 1, 2:
        with pytest.raises(SaltwiseValueError) as refused:
            sketch.offer(item)
        assert str(refused.value) == (
            f"the sketch has counted {2**63 - 1} rows, and 1 more are more than a BIGINT holds; start another sketch."
        )
    assert sketch.total == 2**63 - 1


def test_a_weight_below_one_is_refused_and_counts_nothing() -> None:
    sketch = SpaceSaving(2, "string")
    with pytest.raises(SaltwiseValueError) as refused:
        sketch.offer("a", 0)
    assert str(refused.value) == "weight is 0; it must be a whole number of at least 1."
    assert sketch.total == 0
