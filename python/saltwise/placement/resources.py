"""What a key costs its worker, and how frequent a key must be to get a place of its own.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, sections 3.1 and
4.1.3.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Bools, Floats, Int64s, check_one_for_each_key
from ..errors import SaltwiseValueError
from .aims import EXPONENTS, Aims


def usage(frequencies: Floats, resource: str) -> Floats:
    """Return beta(f) of each key.

    The paper's equation 3 multiplies the beta of computation by f once more. Its figure 1 and its section 4 do not.
    Here beta is the whole cost of a key, too.

    Args:
        frequencies: f(d), shape (k,).
        resource: "C", "L" or "Q".

    >>> usage(np.array([0.5, 0.1]), "Q")
    array([0.25, 0.01])
    """
    return np.asarray(frequencies ** EXPONENTS[resource], np.float64)


def allowed_deviation(alpha: float, workers: int) -> float:
    """Return theta: how far a load may be from the mean, as a share of it, to keep max/min at most alpha (eq. 15).

    >>> round(allowed_deviation(1.2, 10), 4)
    0.1765
    """
    return alpha * workers / (alpha + workers - 1) - 1


def threshold(aims: Aims, workers: int) -> float:
    """Return delta: a key of at least this frequency is tracked (equation 17).

    Args:
        aims: what is balanced, and how well.
        workers: N.

    Returns:
        A share of all rows. It is 1 if all resources are constant or there is one worker: nothing to balance.

    >>> round(threshold(Aims(), workers=10), 6), round(threshold(Aims("LQL", domain=1_000_000), workers=10), 6)
    (0.001765, 4.2e-05)
    """
    return _threshold(aims, workers, 1 / aims.domain if aims.domain else 1.0)


def _threshold(aims: Aims, workers: int, quadratic_load: float) -> float:
    """Return delta, if the loads of a quadratic resource add up to `quadratic_load`."""
    if workers == 1:
        return 1.0
    allowed = aims.sigma * allowed_deviation(aims.alpha, workers) / workers
    by_resource = {"C": 1.0, "L": allowed, "Q": math.sqrt(allowed * quadratic_load)}
    return min(1.0, *(by_resource[resource] for resource in aims.resources))


def tracked(frequencies: Floats, workers: int, aims: Aims) -> Bools:
    """Return which keys get a place of their own, D_p: those of at least delta (section 4.1.3).

    For a quadratic resource, delta assumes that all keys are equal, so it is too low. The load of the resource is then
    predicted from the keys of at least delta, with all other keys taken as equal. The delta of this load is a second
    filter.

    Args:
        frequencies: f(d) of the keys that may be hot, shape (k,).
        workers: N.
        aims: what is balanced, and how well.

    Returns:
        Booleans, shape (k,).

    >>> tracked(np.array([0.3, 0.1, 0.001]), workers=10, aims=Aims("LQL", domain=1_000_000))
    array([ True,  True, False])
    """
    is_tracked = frequencies >= threshold(aims, workers)
    if "Q" in aims.resources and aims.domain is not None:
        rest = max(0, aims.domain - int(is_tracked.sum()))
        share = max(0.0, 1 - float(frequencies[is_tracked].sum()))
        load = float(usage(frequencies[is_tracked], "Q").sum()) + (share**2 / rest if rest else 0.0)
        is_tracked &= frequencies >= _threshold(aims, workers, load)
    return is_tracked


def check_frequencies(keys: Int64s, frequencies: Floats) -> None:
    """Raise unless there is one share for each of these different keys.

    Raises:
        SaltwiseValueError: a share is missing, a number is not a share, or a key occurs twice.
    """
    check_one_for_each_key("frequencies", frequencies, keys)
    wrong = frequencies[~((frequencies >= 0) & (frequencies <= 1))]
    if len(wrong):
        raise SaltwiseValueError(f"frequencies has {wrong[0]}; it must be shares of all rows, from 0 to 1.")
