"""A sliding window of lossy counters: the frequent keys of the recent past.

Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB Journal 2014, section 4.1.2,
"Handling changes", figure 2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Generic

from ..errors import SaltwiseValueError, check_whole
from .lossy_counting import Item, LossyCounting
from .space_saving import Estimate


class SlidingCounts(Generic[Item]):
    """Emulates a sliding window of W rows by x lossy counters that start W/(x - 1) rows apart.

    The oldest counter answers. At W x/(x - 1) rows it is dropped, and the next one, which then has W rows, takes its
    place::

        rows       0        W/2        W        3W/2        2W
        counter 1  |--------building---|==answering=|
        counter 2           |--------building-------|==answering=|
        counter 3                      |--------building---------|==

    So an answer covers the last W to W (1 + 1/(x - 1)) rows: W to 3/2 W for the paper's three counters. Before the
    first W rows have come, it covers all rows.

    Args:
        window: W, in rows; a multiple of counters - 1.
        epsilon: the error of each counter, as a share of its rows.
        counters: x, at least 2.

    Raises:
        SaltwiseValueError: an argument is out of range.

    >>> recent = SlidingCounts(window=4, epsilon=0.1)
    >>> for item in "aaaaaabbbb":
    ...     recent.offer(item)
    >>> recent.estimate("a"), recent.estimate("b").estimate, recent.total
    (Estimate(estimate=0, lower=0, upper=0), 4, 4)
    """

    def __init__(self, window: int, epsilon: float, counters: int = 3) -> None:
        check_whole("counters", counters, 2)
        if not isinstance(window, int) or window < 1 or window % (counters - 1):
            raise SaltwiseValueError(f"window is {window!r}; it must be a multiple of counters - 1 = {counters - 1}.")
        self.window = window
        self.epsilon = epsilon
        self.counters: deque[LossyCounting[Item]] = deque([LossyCounting(epsilon)])
        """Oldest first."""
        self._step = window // (counters - 1)
        self.left = self._step
        """Rows until the next counter starts."""

    @property
    def total(self) -> int:
        """The number of rows that an answer covers."""
        return self.counters[0].total

    def __len__(self) -> int:
        """Return how many items the answering counter keeps."""
        return len(self.counters[0])

    def offer(self, item: Item, weight: int = 1) -> None:
        """Add `weight` rows of one item.

        Raises:
            SaltwiseValueError: the weight is not a whole number of at least 1.
        """
        check_whole("weight", weight)
        while weight:
            part = min(weight, self.left)
            for counter in self.counters:
                counter.offer(item, part)
            weight -= part
            self.left -= part
            self._step_on()

    def offer_together(self, weights: Mapping[Item, int]) -> None:
        """Add rows of many items whose order is not known. No counter starts in the middle of them.

        So an answer may cover more rows than above: at most the size of one such batch more.

        Raises:
            SaltwiseValueError: a weight is not a whole number of at least 1.

        >>> recent = SlidingCounts(window=4, epsilon=0.1)
        >>> for rows in {"a": 6}, {"b": 2, "c": 2}, {"b": 3}:
        ...     recent.offer_together(rows)
        >>> recent.estimate("a").estimate, recent.estimate("b").estimate, recent.total
        (0, 5, 7)
        """
        for counter in self.counters:
            counter.offer_together(weights)
        self.left -= sum(weights.values())
        self._step_on()

    def _step_on(self) -> None:
        """Drop the oldest counter if the next one has W rows, and start one if a step is full."""
        while len(self.counters) > 1 and self.counters[1].total >= self.window:
            self.counters.popleft()
        if self.left <= 0:
            self.counters.append(LossyCounting(self.epsilon))
            self.left = self._step

    def estimate(self, item: Item) -> Estimate:
        """Return the counted rows of an item in the window, with bounds."""
        return self.counters[0].estimate(item)

    def frequent(self, support: float) -> list[tuple[Item, Estimate]]:
        """Return the items that may have a share of `support` in the window, highest count first.

        Raises:
            SaltwiseValueError: the support is not above epsilon and at most 1.
        """
        return self.counters[0].frequent(support)
