"""Partition functions: which worker owns a key. Groups that may not be split can only be balanced this way.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ..arrays import Int32s, Int64s
from ..errors import SaltwiseValueError, check_whole
from ..keys import Item, key_hashes
from ..splitting.compiled_hash import workers_of

MAX_WORKERS = 100_000
"""Bounds what is computed for each worker: a function may come from a text that somebody else wrote."""


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

    def _check_worker(self, field: str, worker: object, owned: str) -> None:
        """Raise unless this is one of the workers.

        Args:
            field: which names the worker, for the error.
            worker: the worker.
            owned: what the worker owns, for the error.

        Raises:
            SaltwiseValueError: it is not.
        """
        if not isinstance(worker, int) or not 0 <= worker < self.workers:
            raise SaltwiseValueError(
                f"{field} has worker {worker!r} for {owned}; it must be from 0 to {self.workers - 1}, as there are "
                f"{self.workers} workers."
            )

    @abstractmethod
    def place(self, hashes: Int64s) -> Int32s:
        """Return the worker of each key, at least 0.

        Args:
            hashes: of the keys, shape (k,).
        """

    def place_keys(self, keys: Sequence[Item]) -> Int32s:
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

    def place(self, hashes: Int64s) -> Int32s:
        return workers_of(hashes, 1, self.workers)
