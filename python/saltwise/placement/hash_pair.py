"""The hash pair <H_p, H_c>: a table has the workers of hot keys, and a consistent hash places all other keys.

If no state outlives a run, the other keys can use the uniform hash, which is more even.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..arrays import Int32s, Int64s
from ..errors import check_whole
from ..hashing import MAX_HASH, MIN_HASH
from .consistent_hash import REPLICAS, ConsistentHash
from .partition_function import PartitionFunction, UniformHash


@dataclass(frozen=True)
class HashPair(PartitionFunction):
    """p = <H_p, H_c>. A key that is not in H_p falls to the consistent hash, or to the uniform one.

    Args:
        workers: N.
        key_type: the keys' type in SQL.
        explicit: H_p: the 64-bit hash of a key to its worker.
        replicas: of each worker in H_c; 0 means the uniform hash in place of H_c.

    Raises:
        SaltwiseValueError: an argument is not allowed.

    >>> from saltwise.keys import key_hashes
    >>> [hot] = key_hashes(["hot"], "string").tolist()
    >>> HashPair(4, "string", {hot: 3}).place_keys(["hot", "cold", "hot"])
    array([3, 0, 3], dtype=int32)
    """

    explicit: Mapping[int, int] = field(default_factory=dict)
    replicas: int = REPLICAS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("replicas", self.replicas, least=0)
        object.__setattr__(self, "explicit", dict(self.explicit))  # a copy, because the caller may change the original
        for key, worker in self.explicit.items():
            check_whole("a hash in explicit", key, MIN_HASH, MAX_HASH)
            self._check_worker("explicit", worker, f"the key of hash {key}")

    @cached_property
    def others(self) -> PartitionFunction:
        """H_c."""
        if self.replicas == 0:
            return UniformHash(self.workers, self.key_type)
        return ConsistentHash(self.workers, self.key_type, self.replicas)

    @cached_property
    def tracked(self) -> Int64s:
        """D_p: the hashes of the keys in H_p, ascending."""
        return np.sort(np.fromiter(self.explicit, np.int64, len(self.explicit)))

    @cached_property
    def _worker_of_tracked(self) -> Int32s:
        return np.array([self.explicit[key] for key in self.tracked.tolist()], np.int32)

    def place(self, hashes: Int64s) -> Int32s:
        workers = self.others.place(hashes)
        if len(self.tracked):
            position = np.searchsorted(self.tracked, hashes)
            position[position == len(self.tracked)] = 0
            is_tracked = self.tracked[position] == hashes
            workers[is_tracked] = self._worker_of_tracked[position[is_tracked]]
        return workers
