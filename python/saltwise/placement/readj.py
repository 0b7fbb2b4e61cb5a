"""readj: keys stay where they are; the move or swap with the best gain is made until none improves the balance.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 4.2.4,
Algorithm 4. A step takes O(R^2 + R N) for R tracked keys and N workers: where the paper keeps loads in balanced trees,
at log N a candidate, the three highest and lowest loads are enough here.

The gain is the fall of the utility by the frequency moved. The fall is counted from the utility of the present mapping;
the paper's listing overwrites that utility while it still compares candidates. A step may have a negative gain, but it
must lower the balance penalty. Of steps with equal gains, the one that moves more is taken: the paper does not say
which.

`level` goes beyond the paper: a step may also leave the penalty as it is, if it narrows the gap between two workers of
which one is a fullest or an emptiest one. Algorithm 4 ends too early if two workers are equally empty, for example
after two workers were added: then no single move lowers the penalty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import inlined, jit
from .._sort import ascending
from ..arrays import Floats, Int32s, Int64s
from .utility import Problem, geometric_mean, migration_of, utility_of

MAX_MOVES = 5
"""How often readj may move one key, the c of section 4.2.4. It bounds the time, and may end the search early."""

SUM_ERROR = 1e-12
"""Two sums of the same numbers may differ by this part of a load."""

GAIN_ERROR = 1e-9
"""Two equal gains may differ by this part of a gain."""


class Mapping(NamedTuple):
    """The present mapping, and what all steps from it share."""

    loads: Floats
    """L_k(i), shape (K, N)."""
    ranked: Int64s
    """Workers by ascending load, shape (K, N)."""
    members: Int64s
    """Keys by worker, shape (R,)."""
    edges: Int64s
    """Where the members of each worker begin, shape (N + 1,)."""
    scale: float
    """The factor from a product of load differences to a product of balance penalties."""
    product: float
    """The product of the balance penalties of all resources."""
    moved: float
    """m: the state that moves."""
    utility: float


class Step(NamedTuple):
    """A move of a key to a worker, or a swap with a key of that worker."""

    gain: float
    distance: float
    """The frequency moved."""
    moved: float
    """m after the step."""
    key: int
    """-1 where there is no step."""
    other: int
    """The key that comes in exchange; -1 for a move."""
    worker: int
    """Where `key` goes."""


@jit
def readj(problem: Problem) -> Int32s:
    """Return the worker of each tracked key by Algorithm 4, shape (R,)."""
    return _readjusted(problem, False)


@jit
def level(problem: Problem) -> Int32s:
    """Return the worker of each tracked key by readj with steps that level workers that tie, shape (R,)."""
    return _readjusted(problem, True)


@jit
def _readjusted(problem: Problem, levels: bool) -> Int32s:
    placed = problem.old.copy()
    moves_left = np.full(len(placed), MAX_MOVES, np.int32)
    moved = problem.moved + (problem.state * problem.gone).sum()
    while True:
        step = _best_step(problem, _mapping(problem, placed, moved), moves_left, levels)
        if step.key < 0:
            return placed
        if step.other >= 0:
            placed[step.other] = placed[step.key]
            moves_left[step.other] -= 1
        placed[step.key] = step.worker
        moves_left[step.key] -= 1
        moved = step.moved


@jit
def _mapping(problem: Problem, placed: Int32s, moved: float) -> Mapping:
    resources, workers = len(problem.usage), problem.workers
    loads = np.zeros((resources, workers))
    ranked = np.empty((resources, workers), np.int64)
    scale = 1.0
    product = 1.0
    for k in range(resources):
        for key in range(len(placed)):
            loads[k, placed[key]] += problem.usage[k, key]
        ranked[k] = ascending(loads[k])
        scale *= workers / (problem.theta * loads[k].sum())
        product *= loads[k].max() - loads[k].min()
    product *= scale
    utility = utility_of(problem.utility, geometric_mean(product, resources), moved / problem.ideal)
    members, edges = _by_worker(placed, workers)
    return Mapping(
        loads=loads,
        ranked=ranked,
        members=members,
        edges=edges,
        scale=scale,
        product=product,
        moved=moved,
        utility=utility,
    )


@jit
def _by_worker(placed: Int32s, workers: int) -> tuple[Int64s, Int64s]:
    """Return the keys by worker, and where the keys of each worker begin."""
    edges = np.zeros(workers + 1, np.int64)
    for worker in placed:
        edges[worker + 1] += 1
    for worker in range(workers):
        edges[worker + 1] += edges[worker]
    free = edges.copy()
    members = np.empty(len(placed), np.int64)
    for key in range(len(placed)):
        members[free[placed[key]]] = key
        free[placed[key]] += 1
    return members, edges


@jit
def _best_step(problem: Problem, mapping: Mapping, moves_left: Int32s, levels: bool) -> Step:
    resources = len(problem.usage)
    high, low = np.empty(resources), np.empty(resources)
    best = Step(gain=-np.inf, distance=0.0, moved=0.0, key=-1, other=-1, worker=-1)
    for i in range(problem.workers):
        for j in range(problem.workers):
            if i != j:
                _extremes_of_others(mapping, i, j, high=high, low=low)
                max_gap = _gap_to_narrow(mapping, i, j) if levels else 0.0
                best = _best_step_between(
                    problem, mapping, moves_left, i=i, j=j, high=high, low=low, max_gap=max_gap, best=best
                )
    return best


@inlined
def _extremes_of_others(mapping: Mapping, i: int, j: int, high: Floats, low: Floats) -> None:
    """Set the highest and the lowest load of all workers but i and j, on each resource."""
    workers = mapping.loads.shape[1]
    for k in range(len(mapping.loads)):
        high[k], low[k] = -np.inf, np.inf
        for rank in range(min(3, workers)):
            top, bottom = mapping.ranked[k, workers - 1 - rank], mapping.ranked[k, rank]
            if top not in (i, j):
                high[k] = max(high[k], mapping.loads[k, top])
            if bottom not in (i, j):
                low[k] = min(low[k], mapping.loads[k, bottom])


@inlined
def _best_step_between(
    problem: Problem,
    mapping: Mapping,
    moves_left: Int32s,
    i: int,
    j: int,
    high: Floats,
    low: Floats,
    max_gap: float,
    best: Step,
) -> Step:
    """Return the best of `best`, the moves from worker i to j, and the swaps between them if i < j."""
    loads, members, edges, usage = mapping.loads, mapping.members, mapping.edges, problem.usage
    # The mean over resources is monotone, so products can be compared in place of means.
    better, as_good = mapping.product * (1 - SUM_ERROR), mapping.product * (1 + SUM_ERROR)
    for at in range(edges[i], edges[i + 1]):
        key = members[at]
        if moves_left[key] == 0:
            continue
        # Each swap is met once, a move (other = -1) from either side.
        for at_other in range(edges[j] - 1, edges[j + 1] if i < j else edges[j]):
            other = -1 if at_other < edges[j] else members[at_other]
            if other >= 0 and moves_left[other] == 0:
                continue
            product = mapping.scale
            gap = 0.0
            for k in range(len(loads)):
                shift = usage[k, key] - (usage[k, other] if other >= 0 else 0.0)
                load_i, load_j = loads[k, i] - shift, loads[k, j] + shift
                product *= max(high[k], load_i, load_j) - min(low[k], load_i, load_j)
                gap = abs(load_i - load_j)
            if not (product < better or (gap < max_gap and product <= as_good)):
                continue
            moved = mapping.moved + migration_of(problem, key, j) - migration_of(problem, key, i)
            distance = problem.frequency[key]
            if other >= 0:
                moved += migration_of(problem, other, i) - migration_of(problem, other, j)
                distance = abs(distance - problem.frequency[other])
            utility = utility_of(problem.utility, geometric_mean(product, len(loads)), moved / problem.ideal)
            gain = (mapping.utility - utility) / distance
            # Gains are equal wherever one end of a linear load moves. Larger steps then need fewer of them.
            margin = GAIN_ERROR * abs(gain)
            if gain > best.gain + margin or (gain >= best.gain - margin and distance > best.distance):
                best = Step(gain=gain, distance=distance, moved=moved, key=key, other=other, worker=j)
    return best


@inlined
def _gap_to_narrow(mapping: Mapping, i: int, j: int) -> float:
    """A step that keeps the penalty must bring i and j closer than this on the last resource; 0: it is not allowed."""
    if len(mapping.loads) == 0:
        return 0.0
    load, ranked = mapping.loads[-1], mapping.ranked[-1]
    fullest = max(load[i], load[j]) >= load[ranked[-1]] * (1 - SUM_ERROR)
    emptiest = min(load[i], load[j]) <= load[ranked[0]] * (1 + SUM_ERROR)
    return abs(load[i] - load[j]) * (1 - SUM_ERROR) if fullest or emptiest else 0.0
