"""The hash pair <H_p, H_c>: a table has the workers of hot keys, and a consistent hash places all other keys.

If no state outlives a run, the other keys can use the uniform hash, which is more even.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..errors import SaltwiseValueError, check_whole
from ..hashing import LEAST_HASH, MOST_HASH
from ..splitting.compiled_hash import Ints, Longs
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
            check_whole("a hash in explicit", key, LEAST_HASH, MOST_HASH)
            if not isinstance(worker, int) or not 0 <= worker < self.workers:
                raise SaltwiseValueError(
                    f"explicit has worker {worker!r} for the key of hash {key}; it must be from 0 to "
                    f"{self.workers - 1}, as there are {self.workers} workers."
                )

    @cached_property
    def others(self) -> PartitionFunction:
        """H_c."""
        if self.replicas == 0:
            return UniformHash(self.workers, self.key_type)
        return ConsistentHash(self.workers, self.key_type, self.replicas)

    @cached_property
    def tracked(self) -> Longs:
        """D_p: the hashes of the keys in H_p, ascending."""
        return np.sort(np.fromiter(self.explicit, np.int64, len(self.explicit)))

    @cached_property
    def _worker_of_tracked(self) -> Ints:
        return np.array([self.explicit[key] for key in self.tracked.tolist()], np.int32)

    def place(self, hashes: Longs) -> Ints:
        workers = self.others.place(hashes)
        if len(self.tracked):
            at = np.searchsorted(self.tracked, hashes)
            at[at == len(self.tracked)] = 0
            found = self.tracked[at] == hashes
            workers[found] = self._worker_of_tracked[at[found]]
        return workers
