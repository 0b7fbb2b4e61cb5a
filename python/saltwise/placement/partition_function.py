"""Partition functions: which worker owns a key. Groups that may not be split can only be balanced this way.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import SaltwiseValueError, check_whole
from ..keys import Item, key_hashes
from ..splitting.compiled_hash import Ints, Longs, workers_of

MAX_WORKERS = 100_000
"""What is computed for each worker stays small: a function may come from a text that somebody else wrote."""


@dataclass(frozen=True)
class PartitionFunction(ABC):
    """p: D -> [0, N), a function of the 64-bit hash of a key.

    Args:
        workers: N, from 1 to 100,000; the paper's parallel channels.
        key_type: the keys' type in SQL, which their hash depends on; for several columns, their types with commas.

    Raises:
        SaltwiseValueError: an argument is not allowed.
    """

    workers: int
    key_type: str = "bigint"

    def __post_init__(self) -> None:
        check_whole("workers", self.workers, most=MAX_WORKERS)
        if not isinstance(self.key_type, str) or not self.key_type:
            raise SaltwiseValueError(f"key_type is {self.key_type!r}; it must be a type in SQL, such as bigint.")

    @abstractmethod
    def place(self, hashes: Longs) -> Ints:
        """Return the worker of each key, at least 0.

        Args:
            hashes: of the keys, shape (k,).
        """

    def place_keys(self, keys: Sequence[Item]) -> Ints:
        """Return the worker of each key, at least 0.

        Args:
            keys: whole numbers or strings, according to `key_type`, and None for SQL's NULL.

        Raises:
            SaltwiseValueError: a key is not of the function's type, or :func:`key_hashes` does not take that type.
            OptionalPackageError: xxhash cannot be imported.
        """
        return self.place(key_hashes(keys, self.key_type))


@dataclass(frozen=True)
class UniformHash(PartitionFunction):
    """F_1(key), as in key grouping. It has no memory: most keys move when N changes.

    >>> UniformHash(4).place_keys([1, 2, 3])
    array([1, 1, 0], dtype=int32)
    """

    def place(self, hashes: Longs) -> Ints:
        return workers_of(hashes, 1, self.workers)
