"""The Stream-Summary: counters in the order of their counts, as arrays of records, compiled.

Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005. This
one is kept lazily. Counters filed at the same count form a bucket, oldest first. The buckets form a list in ascending
order. A row of a known item only raises the count. When the lowest count is needed, counters that have grown are filed
again, from the lowest bucket upwards. A row costs O(1), amortised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import inlined, jit

Records = Any
"""A numpy array of records."""

NIL = -1
"""Stands for no counter and for no bucket."""
COUNTER = np.dtype([("count", "i8"), ("error", "i8"), ("bucket", "i4"), ("newer", "i4"), ("older", "i4")])
BUCKET = np.dtype([("level", "i8"), ("oldest", "i4"), ("newest", "i4"), ("above", "i4"), ("below", "i4")])
WHOLE = np.dtype(
    [(name, "i4") for name in ("size", "buckets", "lowest", "highest", "unused")] + [("total", "i8"), ("unseen", "i8")]
)


class Summary(NamedTuple):
    """A Stream-Summary as arrays of records: COUNTER, BUCKET, and one WHOLE."""

    counters: Records
    buckets: Records
    whole: Records


def empty_summary(capacity: int) -> Summary:
    """Return a summary with `capacity` counters, none of them in use."""
    whole = np.zeros(1, WHOLE)
    for end in ("lowest", "highest", "unused"):
        whole[end] = NIL
    return Summary(np.empty(capacity, COUNTER), np.empty(capacity + 1, BUCKET), whole)


@inlined
def count_known(s: Summary, counter: int, weight: int) -> None:
    """Count rows of the item on `counter`."""
    s.whole[0]["total"] += weight
    s.counters[counter]["count"] += weight


@jit
def count_new(s: Summary, weight: int) -> int:
    """Count rows of an item without a counter; return the counter that now stands for it.

    It is an unused one, or the oldest of those with the lowest count.
    """
    whole = s.whole[0]
    whole["total"] += weight
    if whole["size"] < len(s.counters):
        return append(s, whole["unseen"] + weight, whole["unseen"], NIL)
    counter = s.buckets[whole["lowest"]]["oldest"]
    while s.counters[counter]["count"] > s.buckets[whole["lowest"]]["level"]:
        _file(s, counter, _unfile(s, counter))
        counter = s.buckets[whole["lowest"]]["oldest"]
    s.counters[counter]["error"] = s.counters[counter]["count"]
    s.counters[counter]["count"] += weight
    _file(s, counter, _unfile(s, counter))
    return int(counter)


@inlined
def append(s: Summary, count: int, error: int, under: int) -> int:
    """Use the next unused counter; `under` is a bucket below its place, or NIL."""
    counter = s.whole[0]["size"]
    s.whole[0]["size"] = counter + 1
    s.counters[counter]["count"] = count
    s.counters[counter]["error"] = error
    _file(s, counter, under)
    return int(counter)


@inlined
def _file(s: Summary, counter: int, start: int) -> None:
    """Append a counter to the bucket of its count, which lies above `start` (NIL: anywhere)."""
    level = s.counters[counter]["count"]
    under = start
    over = s.whole[0]["lowest"] if under == NIL else s.buckets[under]["above"]
    while over != NIL and s.buckets[over]["level"] < level:
        under = over
        over = s.buckets[over]["above"]
    bucket = over if over != NIL and s.buckets[over]["level"] == level else _new_bucket(s, level, under, over)
    newest = s.buckets[bucket]["newest"]
    s.counters[counter]["bucket"] = bucket
    s.counters[counter]["newer"] = NIL
    s.counters[counter]["older"] = newest
    if newest == NIL:
        s.buckets[bucket]["oldest"] = counter
    else:
        s.counters[newest]["newer"] = counter
    s.buckets[bucket]["newest"] = counter


@inlined
def _unfile(s: Summary, counter: int) -> int:
    """Take a counter out of its bucket; return the highest bucket that is certainly below its next place."""
    bucket = s.counters[counter]["bucket"]
    before = s.counters[counter]["older"]
    after = s.counters[counter]["newer"]
    if before == NIL:
        s.buckets[bucket]["oldest"] = after
    else:
        s.counters[before]["newer"] = after
    if after == NIL:
        s.buckets[bucket]["newest"] = before
    else:
        s.counters[after]["older"] = before
    if s.buckets[bucket]["oldest"] != NIL:
        return int(bucket)
    under = s.buckets[bucket]["below"]
    _join(s, under, s.buckets[bucket]["above"])
    s.buckets[bucket]["above"] = s.whole[0]["unused"]
    s.whole[0]["unused"] = bucket
    return int(under)


@inlined
def _new_bucket(s: Summary, level: int, under: int, over: int) -> int:
    bucket = s.whole[0]["unused"]
    if bucket != NIL:
        s.whole[0]["unused"] = s.buckets[bucket]["above"]
    else:
        bucket = s.whole[0]["buckets"]
        s.whole[0]["buckets"] = bucket + 1
    s.buckets[bucket]["level"] = level
    s.buckets[bucket]["oldest"] = NIL
    s.buckets[bucket]["newest"] = NIL
    _join(s, under, bucket)
    _join(s, bucket, over)
    return int(bucket)


@inlined
def _join(s: Summary, under: int, over: int) -> None:
    """Make `over` the bucket next above `under`; NIL stands for either end."""
    if under == NIL:
        s.whole[0]["lowest"] = over
    else:
        s.buckets[under]["above"] = over
    if over == NIL:
        s.whole[0]["highest"] = under
    else:
        s.buckets[over]["below"] = under


def with_room(s: Summary, capacity: int) -> Summary:
    """Return the same summary with more counters."""
    larger = empty_summary(capacity)._replace(whole=s.whole)
    larger.counters[: len(s.counters)], larger.buckets[: len(s.buckets)] = s.counters, s.buckets
    return larger
