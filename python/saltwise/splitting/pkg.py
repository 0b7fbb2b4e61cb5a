"""PKG, partial key grouping: each message of a key goes to the less loaded one of its two workers.

Nasir et al., "The Power of Both Choices: Practical Load Balancing for Distributed Stream Processing Engines".
"""

from __future__ import annotations

from .._jit import inlined
from ..arrays import Int64s
from ..sketches.stream_summary import Records


@inlined
def less_loaded(key: Records, load: Int64s, index: int) -> int:
    """The less loaded one of F_1(key) and F_2(key). Ties go to F_1 on even sources, to F_2 on odd ones."""
    first, second = key["first"], key["second"]
    if load[first] < load[second] or (load[first] == load[second] and index % 2 == 0):
        return int(first)
    return int(second)
