"""Which values a column has: a Bloom filter, in the binary format of Spark's own ``BloomFilter.readFrom``.

Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 1970; the hashes of an item are h1 + i h2
(Kirsch and Mitzenmacher, "Less Hashing, Same Performance: Building a Better Bloom Filter", 2006).
"""

from __future__ import annotations

import math
import struct
from numbers import Integral
from typing import TYPE_CHECKING, Any

import mmh3
import numpy as np
import pyarrow as pa

from ..errors import SaltwiseValueError, check_whole
from ..spark.aggregators.protocol import Aggregator
from .columns import text, texts

if TYPE_CHECKING:
    from pyspark.sql import Column

Bits = np.ndarray[Any, np.dtype[np.uint64]]

HEADER = ">iii"
"""Version, hashes per item, and number of 64-bit words. The words follow. All are big-endian."""
VERSION = 1


class BloomFilter(Aggregator):
    """A Bloom filter of a column, as binary. NULLs are skipped. :func:`might_contain` looks values up.

    Args:
        column: whole numbers, which Spark's BloomFilter finds by mightContainLong, or other values, which are compared
            as strings.
        items: the expected number of distinct values in a group.
        fpp: the probability of a false positive, above 0 and below 1.

    Raises:
        SaltwiseValueError: an argument is out of range.

    >>> planes = BloomFilter("tailnum", items=100)
    >>> known = planes.finish(planes.update(planes.zero(), pa.record_batch({"tailnum": ["N1", "N2", None]})))
    >>> might_contain(known, "N2"), might_contain(known, "N3")
    (True, False)
    """

    returns = "binary"

    def __init__(self, column: str | Column, items: int, fpp: float = 0.03) -> None:
        super().__init__(column)
        check_whole("items", items)
        if not 0 < fpp < 1:
            raise SaltwiseValueError(f"fpp is {fpp!r}; it must be above 0 and below 1.")
        bits = -items * math.log(fpp) / math.log(2) ** 2
        self.words = math.ceil(bits / 64)
        self.hashes = max(1, round(bits / items * math.log(2)))

    def zero(self) -> Bits:
        return np.zeros(self.words, np.uint64)

    def update(self, state: Bits, batch: pa.RecordBatch) -> Bits:
        values = batch.column(0).drop_null().unique()
        if pa.types.is_integer(values.type):
            longs = values.cast(pa.int64()).to_numpy()
        else:
            longs = np.array([_long(spelled) for spelled in texts(values).to_pylist()], np.int64)
        bits = _bits(longs, self.hashes, 64 * self.words)
        np.bitwise_or.at(state, bits >> 6, np.uint64(1) << (bits & 63).astype(np.uint64))
        return state

    def merge(self, a: Bits, b: Bits) -> Bits:
        a |= b
        return a

    def finish(self, state: Bits) -> bytes:
        return struct.pack(HEADER, VERSION, self.hashes, self.words) + state.astype(">u8").tobytes()


def might_contain(bloom_filter: bytes, value: object) -> bool:
    """Return whether a filter may have seen a value. If it returns False, the filter has not seen it.

    Args:
        bloom_filter: the result of a :class:`BloomFilter`.
        value: a value of the column, in the column's type, or as a string if that is not whole numbers.
    """
    _, hashes, words = struct.unpack_from(HEADER, bloom_filter)
    state = np.frombuffer(bloom_filter, ">u8", words, struct.calcsize(HEADER)).astype(np.uint64)
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    bits = _bits(np.array([value if is_whole else _long(text(value))], np.int64), hashes, 64 * words)
    return bool(np.all(state[bits >> 6] >> (bits & 63).astype(np.uint64) & np.uint64(1)))


def _long(spelled: str) -> int:
    return mmh3.hash64(spelled)[0]


def _bits(longs: Any, hashes: int, bits: int) -> Any:
    """Return the bits of the items, chosen like in Spark's BloomFilterImpl.putLong."""
    first = _murmur3(longs, np.zeros(len(longs), np.uint32))
    second = _murmur3(longs, first)
    i = np.arange(1, hashes + 1, dtype=np.uint32)
    combined = (first[:, None] + i * second[:, None]).view(np.int32)
    return (np.where(combined < 0, ~combined, combined).astype(np.int64) % bits).ravel()


def _murmur3(longs: Any, seeds: Any) -> Any:
    """Murmur3 x86_32 of the eight bytes of each number; Appleby, 2008, in the public domain."""
    hashed: Any = seeds.copy()
    for half in np.ascontiguousarray(longs, "<i8").view("<u4").reshape(-1, 2).T:
        mixed: Any = half * np.uint32(0xCC9E2D51)
        mixed = (mixed << 15 | mixed >> 17) * np.uint32(0x1B873593)
        hashed ^= mixed
        hashed = (hashed << 13 | hashed >> 19) * np.uint32(5) + np.uint32(0xE6546B64)
    hashed ^= np.uint32(8)
    hashed = (hashed ^ hashed >> 16) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ hashed >> 13) * np.uint32(0xC2B2AE35)
    return hashed ^ hashed >> 16
