"""What keys cost, of which only the heavy ones are known one by one; stand-ins represent all others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..arrays import Floats, Int64s, check_one_for_each_key
from ..errors import SaltwiseValueError

STAND_INS = np.arange(1 << 16) << 48
"""Hashes at equal distances. They stand for all keys that were not counted."""


class KnownKeys(NamedTuple):
    """Keys that are known one by one, and the share of each."""

    keys: Int64s
    """Their hashes, shape (k,), each one once."""
    shares: Floats
    """f(d), shape (k,)."""

    def with_stand_ins(self) -> KnownKeys:
        """Return these keys and the stand-ins for all others, which share what is left.

        >>> every = KnownKeys(np.array([7]), np.array([0.25])).with_stand_ins()
        >>> len(every.keys), float(every.shares.sum())
        (65537, 1.0)
        """
        left = max(0.0, 1 - float(self.shares.sum()))
        of_others = np.full(len(STAND_INS), left / len(STAND_INS))
        return KnownKeys(np.concatenate([self.keys, STAND_INS]), np.concatenate([self.shares, of_others]))


@dataclass(frozen=True, eq=False)
class Weights:
    """What the keys of one run cost. Only the heavy keys are known one by one.

    Args:
        key_type: the keys' type in SQL; of several columns, their types with commas.
        keys: 64-bit hashes of the heavy keys, shape (k,), each one once.
        weights: of these keys, shape (k,): rows, or another cost.
        total: weight of all keys.

    Raises:
        SaltwiseValueError: a weight is negative or NaN, they are more than the total together, or a key occurs twice.

    >>> Weights("string", np.array([7, 8]), np.array([600.0, 100.0]), total=1000.0).shares
    array([0.6, 0.1])
    """

    key_type: str
    keys: Int64s
    weights: Floats
    total: float

    def __post_init__(self) -> None:
        check_one_for_each_key("weights", self.weights, self.keys)
        for weight in (*self.weights.tolist(), self.total):
            check_weight(weight)
        if self.weights.sum() > self.total * (1 + 1e-9):
            raise SaltwiseValueError(
                f"weights add up to {self.weights.sum():g}; it must be {self.total:g}, the total, or less."
            )

    @property
    def shares(self) -> Floats:
        """f(d), the share of each key in the weight of the run."""
        return self.weights / self.total if self.total else np.zeros(len(self.keys))

    @property
    def known(self) -> KnownKeys:
        """The heavy keys and their shares."""
        return KnownKeys(self.keys, self.shares)


def check_weight(weight: float | None) -> None:
    """Raise unless this is the weight of a row or of a key.

    Raises:
        SaltwiseValueError: it is None, NaN, infinite or negative.
    """
    if weight is None or not 0 <= weight < math.inf:
        raise SaltwiseValueError(
            f"a weight is {'NULL' if weight is None else weight}; it must be a number of at least 0: filter such "
            "rows, or give them 0."
        )
