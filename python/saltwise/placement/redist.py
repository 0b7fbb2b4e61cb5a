"""redist: at each step, place the key with the best utility by its frequency. O(R^2 N) for R keys and N workers.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 4.2.3,
Algorithm 3.
"""

from __future__ import annotations

import numpy as np

from .._jit import jit
from ..arrays import Int32s
from .best_worker import add_key, best_worker, no_loads
from .utility import Problem


@jit
def redist(problem: Problem) -> Int32s:
    """Return the worker of each tracked key, shape (R,)."""
    placed = np.full(len(problem.frequency), -1, np.int32)
    loads = no_loads(problem)
    moved = problem.moved
    for _ in range(len(placed)):
        best_key, best_of_key, best_utility = -1, -1, np.inf
        for key in range(len(placed)):
            if placed[key] < 0:
                worker, utility = best_worker(problem, loads, moved, key)
                if utility / problem.frequency[key] < best_utility:
                    best_key, best_of_key, best_utility = key, worker, utility / problem.frequency[key]
        moved += add_key(problem, loads, best_key, best_of_key)
        placed[best_key] = best_of_key
    return placed
