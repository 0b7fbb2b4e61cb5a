"""scan: each key, by descending frequency, goes where the utility is best. O(R N) for R tracked keys and N workers.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 4.2.2,
Algorithm 2.
"""

from __future__ import annotations

import numpy as np

from .._jit import jit
from ..arrays import Int32s
from .best_worker import add_key, best_worker, no_loads
from .utility import Problem


@jit
def scan(problem: Problem) -> Int32s:
    """Return the worker of each tracked key, shape (R,)."""
    placed = np.empty(len(problem.frequency), np.int32)
    loads = no_loads(problem)
    moved = problem.moved
    for key in range(len(placed)):
        worker, _ = best_worker(problem, loads, moved, key)
        moved += add_key(problem, loads, key, worker)
        placed[key] = worker
    return placed
