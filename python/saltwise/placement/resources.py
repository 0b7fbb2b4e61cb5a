"""What a key costs its worker, and how frequent a key must be to get a place of its own.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, sections 3.1 and
4.1.3.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..errors import SaltwiseValueError

Floats = npt.NDArray[np.float64]

EXPONENTS = {"C": 0, "L": 1, "Q": 2}
"""The resource functions beta(f): 1 is constant, f linear, f^2 quadratic."""

ALPHA = 1.2
"""The max load by the min load that is tolerated."""
SIGMA = 0.1
"""The part of the tolerated imbalance that one key without a place of its own may use."""


def check_resources(resources: str) -> None:
    """Raise unless `resources` is a triple such as "LCL".

    Raises:
        SaltwiseValueError: it is not such a triple.
    """
    if len(resources) != 3 or not set(resources) <= set(EXPONENTS):
        raise SaltwiseValueError(
            f"resources is {resources!r}; it must be three of C, L and Q, for state, computation and communication."
        )


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


def threshold(
    resources: str, workers: int, alpha: float = ALPHA, sigma: float = SIGMA, domain: int | None = None
) -> float:
    """Return delta: a key of at least this frequency is tracked (equation 17).

    Args:
        resources: letters of the resource functions of state, computation and communication, such as "LCL".
        workers: N.
        alpha: the max load by the min load that is tolerated, above 1.
        sigma: the part of the tolerated imbalance that one untracked key may use, above 0 and at most 1.
        domain: |D|, the number of different keys; needed if a resource is quadratic.

    Returns:
        A share of all rows. It is 1 if all resources are constant or there is one worker: nothing to balance.

    Raises:
        SaltwiseValueError: an argument is not allowed.

    >>> round(threshold("LCL", workers=10), 6), round(threshold("LQL", workers=10, domain=1_000_000), 6)
    (0.001765, 4.2e-05)
    """
    return _threshold(resources, workers, alpha, sigma, domain, 1 / domain if domain else 1.0)


def _threshold(
    resources: str, workers: int, alpha: float, sigma: float, domain: int | None, quadratic_load: float
) -> float:
    """Return delta, if the loads of a quadratic resource add up to `quadratic_load`."""
    check_resources(resources)
    if not 1 < alpha < math.inf:
        raise SaltwiseValueError(f"alpha is {alpha!r}; it must be a number above 1.")
    if not 0 < sigma <= 1:
        raise SaltwiseValueError(f"sigma is {sigma!r}; it must be a share above 0 and at most 1.")
    if "Q" in resources and (domain is None or domain < 1):
        raise SaltwiseValueError(
            f"domain is {domain!r}; it must be the number of different keys, as {resources} has a quadratic resource."
        )
    if workers == 1:
        return 1.0
    allowed = sigma * allowed_deviation(alpha, workers) / workers
    by_resource = {"C": 1.0, "L": allowed, "Q": math.sqrt(allowed * quadratic_load)}
    return min(1.0, *(by_resource[resource] for resource in resources))


def tracked(
    frequencies: Floats,
    resources: str,
    workers: int,
    alpha: float = ALPHA,
    sigma: float = SIGMA,
    domain: int | None = None,
) -> npt.NDArray[np.bool_]:
    """Return which keys get a place of their own, D_p: those of at least delta (section 4.1.3).

    For a quadratic resource, delta assumes that all keys are equal, so it is too low. The load of the resource is then
    predicted from the keys found, with all other keys taken as equal. The delta of this load is a second filter.

    Args:
        frequencies: f(d) of the keys that may be hot, shape (k,).
        resources: as for :func:`threshold`, like the arguments below.

    Returns:
        Booleans, shape (k,).

    Raises:
        SaltwiseValueError: an argument is not allowed.

    >>> tracked(np.array([0.3, 0.1, 0.001]), "LQL", workers=10, domain=1_000_000)
    array([ True,  True, False])
    """
    delta = threshold(resources, workers, alpha, sigma, domain)
    found = frequencies >= delta
    if "Q" in resources and domain is not None:
        rest = max(0, domain - int(found.sum()))
        share = max(0.0, 1 - float(frequencies[found].sum()))
        load = float(usage(frequencies[found], "Q").sum()) + (share**2 / rest if rest else 0.0)
        found &= frequencies >= _threshold(resources, workers, alpha, sigma, domain, load)
    return found


def check_frequencies(keys: npt.NDArray[np.int64], frequencies: Floats) -> None:
    """Raise unless there is one share for each of these different keys.

    Raises:
        SaltwiseValueError: a share is missing, a number is not a share, or a key occurs twice.
    """
    if keys.shape != frequencies.shape or keys.ndim != 1:
        raise SaltwiseValueError(
            f"frequencies have shape {frequencies.shape}; it must be that of keys, {keys.shape}, in one dimension."
        )
    wrong = frequencies[~((frequencies >= 0) & (frequencies <= 1))]
    if len(wrong):
        raise SaltwiseValueError(f"frequencies has {wrong[0]}; it must be shares of all rows, from 0 to 1.")
    if len(np.unique(keys)) < len(keys):
        raise SaltwiseValueError("keys has the same hash twice; add the frequencies of equal keys up first.")
