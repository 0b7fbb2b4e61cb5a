"""The bytes of a SpaceSaving sketch, version 1, as the plugin's ``space_saving_agg`` writes and reads them.

Little endian, as ItemSketch.scala says::

    "SALT"  version: byte  length: int  item type: JSON of struct<item: T>
    capacity: int  total: long  absent: long  size: int
    size times, count descending, then error and bytes ascending:
      count: long  error: long  length: int  item: UnsafeRow of one column
    CRC-32 of all bytes before it: int

An UnsafeRow of one column has eight bytes whose lowest bit says NULL, and eight for the value. The value is a number,
or the offset and length of a text that follows and is padded to a multiple of eight bytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from ..errors import SaltwiseValueError
from ..keys import ITEM_TYPES, Item

MAGIC = b"SALT\x01"
COUNTS, ENTRY, LENGTH = Struct("<iqqi"), Struct("<qqi"), Struct("<i")
SLOT, TEXT_AT = Struct("<qQ"), 16

BYTES_OF = {"bigint": 8, "int": 4, "smallint": 2, "tinyint": 1}
JSON_NAMES = {"bigint": "long", "int": "integer", "smallint": "short", "tinyint": "byte", "string": "string"}


class Content(NamedTuple):
    """The content of a sketch."""

    item_type: str
    capacity: int
    total: int
    absent: int
    entries: list[tuple[Item, int, int]]
    """Item, count and error."""


def row_of(item: Item, item_type: str) -> bytes:
    """Return an item as Spark's UnsafeRow. If counts and errors are equal, the smallest row comes first.

    >>> row_of(258, "bigint").hex()
    '00000000000000000201000000000000'
    """
    if item is None:
        return SLOT.pack(1, 0)
    if isinstance(item, str):
        text = item.encode()
        return SLOT.pack(0, TEXT_AT << 32 | len(text)) + text + bytes(-len(text) % 8)
    return SLOT.pack(0, item % (1 << 8 * BYTES_OF[item_type]))


def write(content: Content) -> bytes:
    """Return the bytes of a sketch. Its entries may come in any order."""
    declared = {"name": "item", "type": JSON_NAMES[content.item_type], "nullable": True, "metadata": {}}
    item_type = json.dumps({"type": "struct", "fields": [declared]}, separators=(",", ":")).encode()
    ranked = sorted((-count, error, row_of(item, content.item_type)) for item, count, error in content.entries)
    parts = [MAGIC, LENGTH.pack(len(item_type)), item_type]
    parts.append(COUNTS.pack(content.capacity, content.total, content.absent, len(ranked)))
    for minus_count, error, row in ranked:
        parts += [ENTRY.pack(-minus_count, error, len(row)), row]
    return _with_checksum(parts)


def read(data: bytes, max_capacity: int) -> Content:
    """Return the content of a sketch.

    Raises:
        SaltwiseValueError: the bytes are not a sketch, or are newer, damaged, or of another item type.
    """
    if len(data) < 9 or data[:4] != MAGIC[:4]:
        raise _refused(f"these {len(data)} bytes are not a SpaceSaving sketch")
    if data[4] != MAGIC[4]:
        raise _refused(f"the sketch has version {data[4]}, but this Saltwise reads version {MAGIC[4]}")
    if _with_checksum([data[:-4]]) != data:
        raise _refused("the sketch is damaged: its checksum does not match")
    try:
        [length] = LENGTH.unpack_from(data, 5)
        end = 9 + length
        declared = json.loads(data[9:end])["fields"][0]["type"]
        capacity, total, absent, size = COUNTS.unpack_from(data, end)
        end += COUNTS.size
        rows = []
        for _ in range(size):
            count, error, length = ENTRY.unpack_from(data, end)
            if length < 0:
                raise ValueError(f"an item has {length} bytes")
            end += ENTRY.size + length
            rows.append((data[end - length : end], count, error))
    except (StructError, ValueError, LookupError, TypeError, RecursionError) as damage:
        raise _refused(f"the sketch is damaged: {damage}") from damage
    item_type = next((sql for sql, name in JSON_NAMES.items() if name == declared), None)
    if item_type is None:
        raise SaltwiseValueError(f"the sketch counts items of type {declared}; read here are {', '.join(ITEM_TYPES)}.")
    if not 1 <= capacity <= max_capacity or not 0 <= absent <= total or not 0 <= size <= capacity:
        raise _refused(f"the sketch is damaged: it says {size} items of {total} rows on {capacity} counters")
    if end != len(data) - 4:
        raise _refused(f"the sketch is damaged: its items end at byte {end} of {len(data) - 4}")
    entries = list(_entries(rows, item_type, total))
    if len({item for item, _, _ in entries}) < len(entries):
        raise _refused("the sketch is damaged: it counts an item twice")
    return Content(item_type, capacity, total=total, absent=absent, entries=entries)


def _entries(rows: Iterable[tuple[bytes, int, int]], item_type: str, total: int) -> Iterable[tuple[Item, int, int]]:
    for row, count, error in rows:
        if not 0 <= error <= count <= total:
            raise _refused(
                f"the sketch is damaged: it counts an item {count} times, with an error of {error}, in {total} rows"
            )
        item = _item_of(row, item_type)
        if row_of(item, item_type) != row:
            raise _refused(f"the sketch is damaged: {len(row)} bytes are not an item of type {item_type}")
        yield item, count, error


def _item_of(row: bytes, item_type: str) -> Item:
    """Return the item of a row. A wrong row gives an item that has another row."""
    if row[:1] == b"\x01":
        return None
    if item_type == "string":
        return row[TEXT_AT : TEXT_AT + int.from_bytes(row[8:12], "little")].decode(errors="replace")
    return int.from_bytes(row[8 : 8 + BYTES_OF[item_type]], "little", signed=True)


def _with_checksum(parts: Iterable[bytes]) -> bytes:
    data = b"".join(parts)
    return data + zlib.crc32(data).to_bytes(4, "little")


def _refused(why: str) -> SaltwiseValueError:
    return SaltwiseValueError(f"{why}; give the binary result of space_saving_agg or of to_bytes.")
