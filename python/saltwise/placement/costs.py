"""What a partition function costs: how uneven its loads are, and how much state moves when it replaces another one.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, sections 3.1, 3.3
and 3.4. Loads have the unit of the frequencies: if those are shares, loads are shares.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats, Int32s
from .aims import Aims, check_resources
from .resources import usage


def loads(placed: Int32s, frequencies: Floats, workers: int, resources: str) -> Floats:
    """Return L_k(i), the load of each worker i on each resource k (equations 1, 3 and 5).

    Args:
        placed: worker of each key, shape (k,).
        frequencies: f(d), shape (k,).
        workers: N.
        resources: letters of the resource functions of state, computation and communication, such as "LCL".

    Returns:
        Sums of beta_k(f(d)), shape (3, N).

    Raises:
        SaltwiseValueError: `resources` is not such a triple.

    >>> loads(np.array([0, 1, 1]), np.array([0.5, 0.3, 0.2]), 2, "LCL").tolist()
    [[0.5, 0.5], [1.0, 2.0], [0.5, 0.5]]
    """
    check_resources(resources)
    return np.stack([np.bincount(placed, usage(frequencies, resource), workers) for resource in resources])


def imbalances(loads: Floats) -> Floats:
    """Return r_k, max load by min load on each resource (equations 2, 4 and 6).

    Args:
        loads: shape (3, N).

    Returns:
        Numbers of at least 1, shape (3,). It is infinity if one worker has no load and another one has some.
    """
    high, low = loads.max(axis=1), loads.min(axis=1)
    ratio = np.divide(high, low, out=np.full(len(loads), np.inf), where=low > 0)
    return np.where(high > 0, ratio, 1.0)


def relative_imbalance(loads: Floats, alpha: float = Aims.alpha) -> float:
    """Return b, the geometric mean of ``r_k / alpha`` (equation 11). Up to 1 is tolerated.

    >>> round(relative_imbalance(np.array([[3.0, 2.0], [1.0, 1.0], [3.0, 2.0]])), 3)
    1.092
    """
    return float(np.prod(imbalances(loads) / alpha) ** (1 / len(loads)))


def migration_cost(before: Int32s, after: Int32s, frequencies: Floats, state: str = "L") -> float:
    """Return M, the state of the keys whose worker changes (equation 9).

    Args:
        before: worker of each key under the old function, shape (k,).
        after: its worker under the new one.
        frequencies: f(d), shape (k,).
        state: resource function of the state.

    >>> migration_cost(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0.5, 0.3, 0.2]))
    0.3
    """
    return float(usage(frequencies, state)[before != after].sum())


def ideal_migration(frequencies: Floats, workers: int, state: str = "L") -> float:
    """Return the mean state of a worker: what must move to a worker that is added (equation 10)."""
    return float(usage(frequencies, state).sum() / workers)


def relative_migration(before: Int32s, after: Int32s, frequencies: Floats, workers: int, state: str = "L") -> float:
    """Return m, the migration cost by the ideal one (equation 12).

    Args:
        before: as for :func:`migration_cost`, like the next two.
        workers: N of the new function.
        state: resource function of the state.

    >>> relative_migration(np.array([0, 0, 1]), np.array([0, 2, 1]), np.array([0.5, 0.25, 0.25]), workers=3)
    0.75
    """
    ideal = ideal_migration(frequencies, workers, state)
    return migration_cost(before, after, frequencies, state) / ideal if ideal else 0.0
