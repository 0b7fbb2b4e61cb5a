"""What a process that runs for long may keep."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

MAY_LEAK_KB = {"heap_mb": 4, "driver_mb": 16, "python_mb": 8, "executor_mb": 16}
"""Kilobytes that a batch may leave behind, from the second quarter of a run to its last one."""
MAY_GROW = {"threads": 3, "files": 10, "shuffles": 20, "executor_threads": 3, "executor_files": 20}
"""What there may be more in the last quarter of a run than in the second one."""


def growth(held: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return what grew too much from the second quarter to the last one: kilobytes a batch, or how many more there are.

    By the mean of each quarter. After a kill there are fewer threads for a while, so there are two heights of readings,
    and the median is one or the other by chance.
    """
    quarter = len(held) // 4
    if not quarter:
        return {}
    second, last = held[quarter : 2 * quarter], held[-quarter:]

    def more(name: str) -> float:
        return mean(each[name] for each in last) - mean(each[name] for each in second)

    batches = more("batch")
    leaks = {name: 1024 * more(name) / batches for name in MAY_LEAK_KB}
    grown = {name: more(name) for name in MAY_GROW}
    allowed = MAY_LEAK_KB | MAY_GROW
    return {name: round(found, 1) for name, found in (leaks | grown).items() if found > allowed[name]}
