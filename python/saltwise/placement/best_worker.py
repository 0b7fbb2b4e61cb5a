"""The step that scan and redist share, compiled: the best worker for one more key, and the loads it is chosen by.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 4.2. The
paper keeps loads in balanced trees, at log N a candidate. The two lowest loads and the highest one are enough here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import jit
from ..arrays import Floats, Int32s
from .utility import Problem, geometric_mean, migration_of, utility_of


class Loads(NamedTuple):
    """The loads of the keys placed so far, and their extremes."""

    by_worker: Floats
    """L_k(i), shape (K, N)."""
    total: Floats
    """Of each resource, shape (K,), like the fields below."""
    highest: Floats
    lowest: Floats
    second: Floats
    """The lowest load of all workers but `emptiest`."""
    emptiest: Int32s


@jit
def no_loads(problem: Problem) -> Loads:
    """The loads before any key is placed."""
    resources = len(problem.usage)
    zeros = np.zeros(resources)
    return Loads(
        by_worker=np.zeros((resources, problem.workers)),
        total=zeros,
        highest=zeros.copy(),
        lowest=zeros.copy(),
        second=zeros.copy(),
        emptiest=np.zeros(resources, np.int32),
    )


@jit
def add_key(problem: Problem, loads: Loads, key: int, worker: int) -> float:
    """Add the key's load to the worker's; return the state that moves."""
    for k in range(len(loads.total)):
        load = loads.by_worker[k]
        load[worker] += problem.usage[k, key]
        loads.total[k] += problem.usage[k, key]
        loads.highest[k] = max(loads.highest[k], load[worker])
        emptiest = 0 if load[0] <= load[1] else 1
        second = 1 - emptiest
        for i in range(2, len(load)):
            if load[i] < load[emptiest]:
                second = emptiest
                emptiest = i
            elif load[i] < load[second]:
                second = i
        loads.emptiest[k] = emptiest
        loads.lowest[k] = load[emptiest]
        loads.second[k] = load[second]
    return migration_of(problem, key, worker)


@jit
def best_worker(problem: Problem, loads: Loads, moved: float, key: int) -> tuple[int, float]:
    """Return the worker on which the key has the best utility, and that utility. Of equal workers the emptier one wins.

    `moved` is the state that the keys placed so far move.
    """
    by_worker, usage, old, resources = loads.by_worker, problem.usage, problem.old[key], len(problem.usage)
    highest, lowest, second, emptiest = loads.highest, loads.lowest, loads.second, loads.emptiest
    state, gone = problem.state[key], problem.gone[key]
    scale = 1.0
    for k in range(resources):
        scale *= problem.workers / (problem.theta * (loads.total[k] + usage[k, key]))
    best, best_utility = -1, np.inf
    for worker in range(problem.workers):
        product = scale
        for k in range(resources):
            load = by_worker[k, worker] + usage[k, key]
            product *= max(highest[k], load) - (min(second[k], load) if worker == emptiest[k] else lowest[k])
        gamma = (moved + (state if gone or worker != old else 0.0)) / problem.ideal
        utility = utility_of(problem.utility, geometric_mean(product, resources), gamma)
        if utility < best_utility or (
            utility == best_utility and resources > 0 and by_worker[-1, worker] < by_worker[-1, best]
        ):
            best, best_utility = worker, utility
    return best, best_utility
