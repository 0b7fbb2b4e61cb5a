"""UHLB: substreams go to instances by a hash function drawn from a 2-universal family.

Carter and Wegman, "Universal Classes of Hash Functions", 1979; the baseline of Guo and Zhou, "Stateful Load Balancing
for Parallel Stream Processing", section 5.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Int64s
from ..errors import check_whole

PRIME = (1 << 31) - 1
"""A prime above any number of substreams. Its products with their numbers fit into 64 bits."""


def uhlb(p: int, n: int, rng: np.random.Generator) -> Int64s:
    """Return h(i) = ((a i + b) mod prime) mod n of each of p substreams, for random a and b.

    Args:
        p: the number of substreams.
        n: the number of instances.
        rng: draws a and b.

    Raises:
        SaltwiseValueError: p or n is not a whole number of at least 1.

    >>> uhlb(8, n=3, rng=np.random.default_rng(1))
    array([1, 0, 1, 0, 1, 0, 1, 0])
    """
    check_whole("p", p)
    check_whole("n", n)
    a, b = int(rng.integers(1, PRIME)), int(rng.integers(PRIME))
    return np.asarray((a * np.arange(p, dtype=np.int64) + b) % PRIME % n)
