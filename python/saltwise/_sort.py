"""Sorts in compiled functions.

numba's own sorts are not used there. `np.sort` and `np.argsort` may compile to the same symbol in two processes. A
process that loads the code that both kept on disk then runs one sort in place of the other. It crashes or gets wrong
numbers: https://github.com/numba/numba/issues/10486
"""

from __future__ import annotations

import numpy as np

from ._jit import jit
from .arrays import Floats, Int64s


@jit
def ascending(values: Floats) -> Int64s:
    """Return the positions of the values in ascending order, by Shell's method.

    >>> ascending(np.array([0.3, 0.1, 0.2]))
    array([1, 2, 0])
    """
    positions = np.arange(len(values))
    gap = len(values) // 2
    while gap > 0:
        for i in range(gap, len(positions)):
            position = positions[i]
            j = i
            while j >= gap and values[positions[j - gap]] > values[position]:
                positions[j] = positions[j - gap]
                j -= gap
            positions[j] = position
        gap //= 2
    return positions
