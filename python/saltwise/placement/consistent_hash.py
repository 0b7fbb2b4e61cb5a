"""Consistent hashing: a new worker takes its share of the keys, and no other key moves.

Karger et al., "Consistent Hashing and Random Trees", STOC 1997; bucketed as in Karger et al., "Web caching with
consistent hashing", Computer Networks 1999; Gedik, "Partitioning functions for stateful data parallelism in stream
processing", sections 4.1.1 and 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import SaltwiseValueError, check_whole
from ..splitting.compiled_hash import Ints, Longs, workers_of
from .partition_function import PartitionFunction

REPLICAS = 1000
MAX_RING = 10_000_000
"""So many replicas all workers may have: a thousand for each of ten thousand workers."""
HALF = 1 << 31
"""The place of a replica consists of two hashes of 31 bits each."""

Places = npt.NDArray[np.uint64]


class Ring(NamedTuple):
    """The replicas of all workers on a ring of 2^64 places, clockwise."""

    places: Places
    """The places of the replicas, ascending, then the last place of the ring; shape (replicas N + 1,)."""
    owners: Ints
    """By replica: its worker. Places after the last replica belong to the worker of the first one."""
    first: npt.NDArray[np.int64]
    """By bucket of the ring: its first replica, or the next one after it."""


@dataclass(frozen=True)
class ConsistentHash(PartitionFunction):
    """H_c: the worker whose replica comes next on the ring, clockwise from the hash of the key.

    A key stands at its own 64-bit hash, and replica r of worker w at F_1 and F_2 of ``2^32 w + r``, 31 bits each. The
    ring has more buckets than replicas, so a look-up takes one or two steps, O(1).

    Each worker gets 1/N of the keys, give or take ``1/sqrt(replicas)`` of that.

    Args:
        workers: N.
        key_type: the keys' type in SQL.
        replicas: of each worker, at least 1.

    Raises:
        SaltwiseValueError: an argument is not allowed.

    >>> ConsistentHash(4).place_keys([1, 2, 3])
    array([1, 2, 3], dtype=int32)
    """

    replicas: int = REPLICAS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("replicas", self.replicas)
        if self.workers * self.replicas > MAX_RING:
            raise SaltwiseValueError(
                f"workers and replicas are {self.workers} and {self.replicas}; all workers together may have "
                f"{MAX_RING:,} replicas at most."
            )

    @cached_property
    def ring(self) -> Ring:
        """The ring with all replicas."""
        worker, replica = np.divmod(np.arange(self.workers * self.replicas), self.replicas)
        high, low = (workers_of((worker << 32) + replica, i, HALF).astype(np.uint64) for i in (1, 2))
        places = high << np.uint64(33) | low << np.uint64(2)
        clockwise = np.argsort(places, kind="stable")
        places, owners = places[clockwise], worker[clockwise].astype(np.int32)
        starts = np.arange(1 << self._bucket_bits, dtype=np.uint64) << np.uint64(64 - self._bucket_bits)
        return Ring(
            np.append(places, np.uint64(2**64 - 1)), np.append(owners, owners[:1]), np.searchsorted(places, starts)
        )

    @property
    def _bucket_bits(self) -> int:
        return max(1, (self.workers * self.replicas).bit_length())

    def place(self, hashes: Longs) -> Ints:
        points = hashes.view(np.uint64)
        places, owners, first = self.ring
        at = first[points >> np.uint64(64 - self._bucket_bits)]
        behind = np.flatnonzero(places[at] < points)
        while len(behind):
            at[behind] += 1
            behind = behind[places[at[behind]] < points[behind]]
        return np.asarray(owners[at], np.int32)
