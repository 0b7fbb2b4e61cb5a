"""The utility U(rho, gamma) of a mapping of keys to workers, compiled. The lowest is the best.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 4.3. rho
is the balance penalty (equations 19 and 20) and gamma the migration penalty (equation 18) of the keys placed so far.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._jit import inlined
from ..arrays import Bools, Floats, Int32s

A, APM, APLM, ATM, ATLM = range(5)
UTILITIES = {"A": A, "APM": APM, "APLM": APLM, "ATM": ATM, "ATLM": ATLM}
"""How rho and gamma are combined, by the paper's names."""


class Problem(NamedTuple):
    """The input of scan, redist and readj. Tracked keys come by descending frequency."""

    workers: int
    theta: float
    """How far a load may be from the mean, as a share of the mean."""
    utility: int
    frequency: Floats
    """f(d) of each tracked key, shape (R,)."""
    usage: Floats
    """beta_k(f(d)) of each resource k that is not constant, shape (K, R)."""
    state: Floats
    """beta_s(f(d)), the cost of moving each key; 0 where no function is in use yet."""
    old: Int32s
    """p(t)(d), or H_c(d) where that worker is gone or no function is in use yet."""
    gone: Bools
    """Whether the worker p(t)(d) is gone, so that the key must move."""
    moved: float
    """m: the state that moves because its keys are no longer tracked."""
    ideal: float
    """m-bar: the ideal migration cost of all keys that are or were tracked."""


@inlined
def utility_of(utility: int, rho: float, gamma: float) -> float:
    """U(rho, gamma), for a number in `UTILITIES`."""
    if utility == APM:
        return rho + gamma
    if utility == APLM:
        return rho + math.log(1 + gamma)
    if utility == ATM:
        return rho * (1 + gamma)
    if utility == ATLM:
        return rho * (1 + math.log(1 + gamma))
    return rho


@inlined
def geometric_mean(product: float, resources: int) -> float:
    """The geometric mean of at most 3 numbers, from their product. A root is faster than a power."""
    return float(np.cbrt(product)) if resources == 3 else math.sqrt(product) if resources == 2 else product


@inlined
def migration_of(problem: Problem, key: int, worker: int) -> float:
    """The state that moves if the key goes to this worker."""
    return problem.state[key] if problem.gone[key] or worker != problem.old[key] else 0.0
