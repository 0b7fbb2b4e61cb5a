"""SpaceSaving: the keys that own most of a stream, in bounded memory, equal counter by counter to the plugin's.

Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005.

After ``total`` rows, for every item with ``count`` and ``error`` on its counter::

    count - error <= true count <= count,      error <= absent <= total / capacity

and an item without a counter was seen at most ``absent`` times. So every item with a share of at least 1/capacity has
a counter. Merging follows Agarwal et al., "Mergeable Summaries" (PODS 2012), and keeps all of this.

The counters are in a :mod:`Stream-Summary <saltwise.sketches.stream_summary>`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..errors import SaltwiseValueError, check_whole
from ..keys import ITEM_TYPES, Item, is_unicode
from ..options import MAX_CAPACITY
from . import sketch_bytes
from .sketch_bytes import BYTES_OF
from .stream_summary import NIL, append, count_known, count_new, empty_summary, with_room

MAX_ROWS = (1 << 63) - 1
"""The most rows that a BIGINT can count."""
FIRST_COUNTERS = 1024
"""Memory is reserved for this many counters at first: the bytes of a tiny sketch may ask for millions of counters."""


class Counted(NamedTuple):
    """An item, its count, and by how much that may be too high."""

    item: Item
    count: int  # type: ignore[assignment]  # the name that SQL has
    error: int


class Estimate(NamedTuple):
    """How often an item was counted: the true count lies in [lower, upper]."""

    estimate: int
    lower: int
    upper: int


class SpaceSaving:
    """A SpaceSaving summary of whole numbers or of texts, and of None, which is SQL's NULL.

    Args:
        capacity: counters, 1 ... 2^24. With capacity = 4 / theta, an item with ``count >= theta * total`` has a true
            share of at least 3/4 theta.
        item_type: the items' type in SQL: bigint, int, smallint, tinyint or string.

    Raises:
        SaltwiseValueError: an argument is not allowed.

    >>> sketch = SpaceSaving(2, "string")
    >>> for word in "a b a c a".split():
    ...     sketch.offer(word)
    >>> sketch.top(1)
    [Counted(item='a', count=3, error=0)]
    >>> sketch.estimate("b")
    Estimate(estimate=0, lower=0, upper=2)
    """

    def __init__(self, capacity: int, item_type: str = "bigint") -> None:
        check_whole("capacity", capacity, most=MAX_CAPACITY)
        if item_type not in ITEM_TYPES:
            raise SaltwiseValueError.unknown("item_type", item_type, ITEM_TYPES)
        self.capacity = capacity
        self.item_type = item_type
        self._s = empty_summary(min(capacity, FIRST_COUNTERS))
        self._items: list[Item] = []
        self._counter_of: dict[Item, int] = {}

    def offer(self, item: Item, weight: int = 1) -> None:
        """Count `weight` rows of an item, at least one.

        Raises:
            SaltwiseValueError: the item is not of the sketch's type, the weight is below 1, or there are too many rows.
        """
        check_whole("weight", weight)
        self._check(item)
        if self.total + weight > MAX_ROWS:
            raise SaltwiseValueError(
                f"the sketch has counted {self.total} rows, and {weight} more are more than a BIGINT holds; start "
                "another sketch."
            )
        known = self._counter_of.get(item)
        if known is not None:
            count_known(self._s, known, weight)
            return
        if len(self) == len(self._s.counters):
            self._make_room(2 * len(self))
        counter = count_new(self._s, weight)
        if counter == len(self._items):
            self._items.append(item)
        else:
            del self._counter_of[self._items[counter]]
            self._items[counter] = item
        self._counter_of[item] = counter

    def _make_room(self, counters: int) -> None:
        """Let memory grow with the items that were seen, as far as the capacity allows."""
        room = min(self.capacity, counters)
        if room > len(self._s.counters):
            self._s = with_room(self._s, room)

    def _check(self, item: Item) -> None:
        if item is None or (self.item_type == "string" and isinstance(item, str) and is_unicode(item)):
            return
        if self.item_type != "string" and isinstance(item, int) and not isinstance(item, bool):
            limit = 1 << 8 * BYTES_OF[self.item_type] - 1
            if -limit <= item < limit:
                return
        raise SaltwiseValueError(f"item is {item!r}; it must be a {self.item_type}, the type of the sketch, or None.")

    @property
    def total(self) -> int:
        """Rows counted."""
        return int(self._s.whole[0]["total"])

    @property
    def absent(self) -> int:
        """How often an item without a counter may have been seen."""
        if len(self) < self.capacity:
            return int(self._s.whole[0]["unseen"])
        return int(self._s.counters["count"].min())

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, item: object) -> bool:
        return item in self._counter_of

    def estimate(self, item: Item) -> Estimate:
        """Return how often an item was counted, with certain bounds."""
        counter = self._counter_of.get(item)
        if counter is None:
            return Estimate(0, 0, self.absent)
        count, error = self._counted(counter)
        return Estimate(count, count - error, count)

    def _counted(self, counter: int) -> tuple[int, int]:
        return int(self._s.counters[counter]["count"]), int(self._s.counters[counter]["error"])

    def top(self, k: int | None = None) -> list[Counted]:
        """Return the k items with the highest counts, all by default; of equal counts the smallest error first.

        Raises:
            SaltwiseValueError: k is not a whole number of at least 1.
        """
        if k is not None:
            check_whole("k", k)
        counts, errors = (self._s.counters[column][: len(self)].tolist() for column in ("count", "error"))
        return self._ranked(map(Counted, self._items, counts, errors))[:k]

    def _ranked(self, entries: Iterable[Counted]) -> list[Counted]:
        return sorted(
            entries, key=lambda entry: (-entry.count, entry.error, sketch_bytes.row_of(entry.item, self.item_type))
        )

    def merge(self, other: SpaceSaving) -> SpaceSaving:
        """Return a summary of the rows of both, with the smaller capacity, whose error bound is the larger one.

        An item's counts add up; a summary without the item adds what it may have missed to count and error.

        Raises:
            SaltwiseValueError: the other summary counts items of another type, or both have too many rows together.
        """
        if other.item_type != self.item_type:
            raise SaltwiseValueError(
                f"the other sketch counts items of type {other.item_type}; it must be {self.item_type}, as here."
            )
        if self.total + other.total > MAX_ROWS:
            raise SaltwiseValueError(
                f"the sketches counted {self.total} and {other.total} rows, which is more than a BIGINT holds; leave "
                "out those that counted something else."
            )
        missed_here, missed_there = self.absent, other.absent
        merged = []
        for item, count, error in self.top():
            counter = other._counter_of.get(item)
            more, more_error = (missed_there, missed_there) if counter is None else other._counted(counter)
            merged.append(Counted(item, count + more, error + more_error))
        merged += [
            Counted(item, count + missed_here, error + missed_here)
            for item, count, error in other.top()
            if item not in self
        ]
        merged = self._ranked(merged)
        capacity = min(self.capacity, other.capacity)
        dropped = merged[capacity].count if len(merged) > capacity else 0
        whole = SpaceSaving(capacity, self.item_type)
        whole._fill(merged[:capacity], self.total + other.total, max(missed_here + missed_there, dropped))
        return whole

    def to_bytes(self) -> bytes:
        """Return the summary as the plugin's ``space_saving_agg`` writes it: the same rows give the same bytes.

        >>> sketch = SpaceSaving(10)
        >>> sketch.offer(7)
        >>> SpaceSaving.from_bytes(sketch.to_bytes()).top()
        [Counted(item=7, count=1, error=0)]
        """
        entries: list[tuple[Item, int, int]] = [*self.top()]
        content = sketch_bytes.Content(
            self.item_type, self.capacity, total=self.total, absent=self.absent, entries=entries
        )
        return sketch_bytes.write(content)

    @classmethod
    def from_bytes(cls, data: bytes) -> SpaceSaving:
        """Read what :meth:`to_bytes`, or Spark's ``space_saving_agg`` or ``space_saving_merge``, wrote.

        Raises:
            SaltwiseValueError: the bytes are not a sketch, or are newer, damaged, or of another item type.
        """
        content = sketch_bytes.read(bytes(data), MAX_CAPACITY)
        sketch = cls(content.capacity, content.item_type)
        sketch._fill(sketch._ranked(Counted(*entry) for entry in content.entries), content.total, content.absent)
        return sketch

    def _fill(self, entries: list[Counted], total: int, absent: int) -> None:
        """Fill an empty summary with these counters, highest count first."""
        self._make_room(len(entries))
        s = self._s
        for item, count, error in reversed(entries):
            highest = s.whole[0]["highest"]
            under = s.buckets[highest]["below"] if highest != NIL and s.buckets[highest]["level"] == count else highest
            self._counter_of[item] = append(s, count, error, under)
            self._items.append(item)
        s.whole["total"], s.whole["unseen"] = total, absent
