"""Lossy Counting: the frequent keys of a stream, in logarithmic space.

Manku and Motwani, "Approximate Frequency Counts over Data Streams", VLDB 2002, section 4.2; summarised in Gedik,
"Partitioning functions for stateful data parallelism in stream processing", section 4.1.2.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from ..errors import check_number, check_whole
from .space_saving import Estimate

Item = TypeVar("Item", bound=Hashable)


class LossyCounting(Generic[Item]):
    """Counts items, and forgets the rare ones each time a bucket of ``ceil(1/epsilon)`` rows is full.

    With N rows so far and f the true weight of an item::

        count <= f <= count + error <= count + epsilon N

    No item with f >= support N is missing from :meth:`frequent`, and none with f < (support - epsilon) N is in
    it (Lemmas 4.1 and 4.2 there). After B buckets of width w, at most ``w (1 + 1/2 + ... + 1/B)`` items are
    kept, on the order of ``1/epsilon log(epsilon N)`` (Theorem 4.2 there).

    Args:
        epsilon: the error, as a share of all rows, above 0 and below 1.

    Raises:
        SaltwiseValueError: epsilon is not such a share.

    >>> sketch = LossyCounting(0.25)
    >>> for item in "abacadae":
    ...     sketch.offer(item)
    >>> sketch.estimate("a")
    Estimate(estimate=4, lower=4, upper=4)
    >>> sketch.estimate("b")
    Estimate(estimate=0, lower=0, upper=2)
    """

    def __init__(self, epsilon: float) -> None:
        check_number("epsilon", epsilon, lambda share: 0 < share < 1, "a share above 0 and below 1")
        self.epsilon = epsilon
        self.width = math.ceil(1 / epsilon)
        """Rows of one bucket."""
        self.total = 0
        """N, the rows counted."""
        self.entries: dict[Item, tuple[int, int]] = {}
        """Count and error of each item that is not forgotten."""

    def __len__(self) -> int:
        """Return how many items are kept."""
        return len(self.entries)

    def offer(self, item: Item, weight: int = 1) -> None:
        """Add `weight` rows of one item.

        Args:
            item: the key, anything hashable.
            weight: rows, a whole number of at least 1.

        Raises:
            SaltwiseValueError: the weight is not such a number.
        """
        check_whole("weight", weight)
        full = self._full_buckets()
        self._add(item, weight, full)
        self._forget_since(full)

    def offer_together(self, weights: Mapping[Item, int]) -> None:
        """Add rows of many items whose order is not known. Rare items are forgotten once, at the end.

        Args:
            weights: rows of each item, whole numbers of at least 1.

        Raises:
            SaltwiseValueError: a weight is not such a number. Then nothing is added.

        >>> sketch = LossyCounting(0.25)
        >>> sketch.offer_together({"a": 5, "b": 1, "c": 2})
        >>> sorted(sketch.entries)
        ['a']
        """
        for weight in weights.values():
            check_whole("weight", weight)
        full = self._full_buckets()
        for item, weight in weights.items():
            self._add(item, weight, full)
        self._forget_since(full)

    def estimate(self, item: Item) -> Estimate:
        """Return the counted rows of an item, with bounds. An item that is not kept has 0 to epsilon N rows."""
        count, error = self.entries.get(item, (0, self._full_buckets()))
        return Estimate(count, count, count + error)

    def frequent(self, support: float) -> list[tuple[Item, Estimate]]:
        """Return the items that may have a share of `support`, highest count first.

        Args:
            support: share of all rows, above epsilon and at most 1.

        Raises:
            SaltwiseValueError: the support is not such a share.

        >>> sketch = LossyCounting(0.25)
        >>> for item in "abacadae":
        ...     sketch.offer(item)
        >>> sketch.frequent(0.5)
        [('a', Estimate(estimate=4, lower=4, upper=4))]
        """
        allowed = f"a share above epsilon = {self.epsilon} and at most 1"
        check_number("support", support, lambda share: self.epsilon < share <= 1, allowed)
        min_count = (support - self.epsilon) * self.total
        frequent = [(item, self.estimate(item)) for item, (count, _) in self.entries.items() if count >= min_count]
        return sorted(frequent, key=lambda item_and_estimate: -item_and_estimate[1].estimate)

    def _full_buckets(self) -> int:
        return self.total // self.width

    def _add(self, item: Item, weight: int, full: int) -> None:
        count, error = self.entries.get(item, (0, full))
        self.entries[item] = (count + weight, error)
        self.total += weight

    def _forget_since(self, before: int) -> None:
        """Forget rare items if more buckets are full now than `before`."""
        full = self._full_buckets()
        if full > before:
            self.entries = {item: entry for item, entry in self.entries.items() if sum(entry) > full}
