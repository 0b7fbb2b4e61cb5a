"""The imbalance that keys below the threshold leave, however well the others are placed.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", sections 4.1.3 and 4.2: the
algorithms know the loads of tracked keys alone. All others lie where the consistent hash has them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saltwise.placement.aims import Aims
from saltwise.placement.resources import threshold
from saltwise.streams import zipf_shares

REPLICAS = 1_000
"""Of each worker on the ring (section 5.5)."""
SINGLE = 5_000
"""How many untracked keys are placed one by one. The others have no weight of their own."""
DRAWS = 400


class Left(NamedTuple):
    """b over draws of the hash, and of a hash without chance."""

    mean: float
    deviation: float
    even: float
    """b if each worker had as much of what the hash places."""


def levelled(workers: int, domain: int, z: float = 1.0, sigma: float = 0.1) -> Left:
    """Return b of linear loads where no placement of the tracked keys is better.

    The hottest key is alone on its worker, and the other tracked keys are even on all others.

    >>> round(levelled(10, 1_000_000).mean, 2)
    1.3
    """
    shares = zipf_shares(domain, z)
    tracked = shares >= threshold(Aims(sigma=sigma, domain=domain), workers)
    placed = np.full(workers, shares[tracked][1:].sum() / (workers - 1))
    placed[0] = shares[0]
    below = shares[~tracked]
    single = below[:SINGLE]
    rng = np.random.default_rng(1)
    found = []
    for _ in range(DRAWS):
        of_ring = _ring(workers, rng)
        hashed = np.bincount(rng.choice(workers, len(single), p=of_ring), single, workers)
        loads = placed + hashed + below[SINGLE:].sum() * of_ring
        found.append(loads.max() / loads.min() / Aims.alpha)
    evenly = placed + below.sum() / workers
    return Left(float(np.mean(found)), float(np.std(found)), float(evenly.max() / evenly.min() / Aims.alpha))


def _ring(workers: int, rng: np.random.Generator) -> np.ndarray:
    """Return the share of each worker on a ring of random points."""
    at = np.sort(rng.random(workers * REPLICAS))
    owner = rng.permutation(np.repeat(np.arange(workers), REPLICAS))
    return np.bincount(owner, np.diff(at, prepend=at[-1] - 1), workers)
