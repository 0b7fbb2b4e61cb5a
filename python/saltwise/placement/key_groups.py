"""Key groups: the hash of a key mod p is its group, and a table has the worker of each group.

This is how stream processors keep state that can move: a group is what moves, and there are many more of them than
workers (Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", section 2;
the substreams of Guo and Zhou, "Stateful Load Balancing for Parallel Stream Processing").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Int32s, Int64s
from ..errors import SaltwiseValueError
from .partition_function import PartitionFunction


@dataclass(frozen=True)
class KeyGroups(PartitionFunction):
    """Places keys by their groups. A move of a group is a change in the table.

    Args:
        workers: N.
        key_type: the keys' type in SQL.
        table: the worker of each of the p groups, from 0; at least one group.

    Raises:
        SaltwiseValueError: an argument is not allowed.

    >>> KeyGroups(2, "string", [0, 1, 1]).place_keys(["a", "b", "c", "d"])
    array([0, 0, 1, 0], dtype=int32)
    """

    table: Sequence[int] = (0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "table", tuple(self.table))
        if not self.table:
            raise SaltwiseValueError("table is empty; it must have the worker of at least one key group.")
        for group, worker in enumerate(self.table):
            self._check_worker("table", worker, f"key group {group}")

    @cached_property
    def _worker(self) -> Int32s:
        return np.array(self.table, np.int32)

    def group_of(self, hashes: Int64s) -> Int64s:
        """Return the group of each key: its hash mod p, at least 0, as SQL's ``pmod``."""
        return np.asarray(hashes % len(self.table))

    def place(self, hashes: Int64s) -> Int32s:
        return np.asarray(self._worker[self.group_of(hashes)])
