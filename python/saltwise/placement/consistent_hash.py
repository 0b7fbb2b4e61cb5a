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

from ..arrays import Int32s, Int64s
from ..errors import check_whole
from ..splitting.compiled_hash import workers_of
from .partition_function import PartitionFunction

REPLICAS = 1000
MAX_RING = 1_000_000
"""The most replicas of all workers together: a thousand for each of a thousand workers."""
HALF = 1 << 31
"""The place of a replica consists of two hashes of 31 bits each."""

Places = npt.NDArray[np.uint64]


class Ring(NamedTuple):
    """The replicas of all workers on a ring of 2^64 places, clockwise."""

    places: Places
    """The places of the replicas, ascending, then the last place of the ring; shape (replicas N + 1,)."""
    owners: Int32s
    """By replica: its worker. Places after the last replica belong to the worker of the first one."""
    first: Int32s
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
        replicas: of each worker, at least 1. All workers together have at most a million, so each has fewer than a
            thousand if there are more than a thousand workers.

    Raises:
        SaltwiseValueError: an argument is not allowed.

    >>> ConsistentHash(4).place_keys([1, 2, 3])
    array([1, 2, 3], dtype=int32)
    """

    replicas: int = REPLICAS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("replicas", self.replicas)

    @cached_property
    def ring(self) -> Ring:
        """The ring with all replicas."""
        replicas = self._size // self.workers
        names = ((np.arange(self.workers) << 32)[:, np.newaxis] + np.arange(replicas)).ravel()
        places = workers_of(names, 1, HALF).astype(np.uint64) << np.uint64(33)
        places |= workers_of(names, 2, HALF).astype(np.uint64) << np.uint64(2)
        del names  # a ring of a million replicas is built in little memory
        clockwise = np.argsort(places, kind="stable")
        places = np.append(places[clockwise], np.uint64(2**64 - 1))
        clockwise //= replicas
        owners = np.append(clockwise, clockwise[:1]).astype(np.int32)
        del clockwise
        starts = np.arange(1 << self._bucket_bits, dtype=np.uint64) << np.uint64(64 - self._bucket_bits)
        return Ring(places, owners, np.searchsorted(places[:-1], starts).astype(np.int32))

    @property
    def _size(self) -> int:
        """The number of replicas."""
        return self.workers * min(self.replicas, MAX_RING // self.workers)

    @property
    def _bucket_bits(self) -> int:
        return max(1, self._size.bit_length())

    def place(self, hashes: Int64s) -> Int32s:
        points = hashes.view(np.uint64)
        places, owners, first = self.ring
        replica = first[points >> np.uint64(64 - self._bucket_bits)]
        behind = np.flatnonzero(places[replica] < points)
        while len(behind):
            replica[behind] += 1
            behind = behind[places[replica[behind]] < points[behind]]
        return np.asarray(owners[replica], np.int32)
