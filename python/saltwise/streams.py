"""Streams of keys for the simulator: the papers' synthetic streams, and real data.

Nasir et al., "Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams", section 6.1; Nasir et al.,
"When Two Choices Are not Enough", section V-A. Every stream is the same at each call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import datasets
from .arrays import Floats, Int64s
from .errors import SaltwiseValueError, check_not_negative, check_whole

Keys = Int64s | NDArray[np.str_]

LOGNORMALS = {"LN1": (1.789, 2.366), "LN2": (2.245, 1.133)}
"""mu and sigma of the PKG paper's two log-normal data sets, from an analysis of Orkut."""


@dataclass(frozen=True, eq=False)
class Stream:
    """The keys of a stream's messages, in their order.

    >>> Stream("three", np.array([7, 7, 9])).top_share
    0.6666666666666666
    """

    name: str
    keys: Keys
    """The key of each message, shape (m,)."""
    source_keys: Keys | None = None
    """The key by which each message reaches its source, shape (m,); None if that is the same key."""

    @property
    def messages(self) -> int:
        """m."""
        return len(self.keys)

    @property
    def distinct(self) -> int:
        """|K|, the keys that occur."""
        return len(np.unique(self.keys))

    @property
    def top_share(self) -> float:
        """p_1, the share of the most frequent key."""
        return float(np.unique(self.keys, return_counts=True)[1].max() / self.messages)


def zipf_shares(keys: int, exponent: float) -> Floats:
    """Return p_1 ... p_|K| of a Zipf distribution with finite support, p_r = r^-z / sum of x^-z.

    Args:
        keys: |K|.
        exponent: z, at least 0, which is uniform.

    Returns:
        Shares in descending order, shape (|K|,); their sum is 1.

    Raises:
        SaltwiseValueError: an argument is out of range.

    >>> zipf_shares(2, 1.0).round(3).tolist()
    [0.667, 0.333]
    """
    check_whole("keys", keys)
    check_not_negative("exponent", exponent)
    weights = np.arange(1, keys + 1, dtype=float) ** -exponent
    return np.asarray(weights / weights.sum())


def zipf(messages: int, keys: int, exponent: float, seed: int = 1) -> Stream:
    """Return independent draws from a Zipf distribution; key r is the one of rank r.

    Raises:
        SaltwiseValueError: an argument is out of range.

    >>> zipf(5, keys=3, exponent=2.0).keys.tolist()
    [1, 1, 1, 3, 1]
    """
    check_whole("messages", messages)
    check_whole("seed", seed, 0)
    shares = zipf_shares(keys, exponent)
    return Stream(f"Zipf z = {exponent:g}, |K| = {keys:,}", _draw(messages, shares, np.random.default_rng(seed)) + 1)


def lognormal(messages: int, which: str = "LN1", seed: int = 1) -> Stream:
    """Return the PKG paper's log-normal data set LN1 or LN2: draws rounded to whole numbers are the keys.

    Ten million draws have as many keys as in the paper's Table I, and the same p_1: 16 thousand and 14.7 % for LN1, 1.1
    thousand and 7.0 % for LN2.

    Raises:
        SaltwiseValueError: an argument is out of range.

    >>> lognormal(5, "LN2").keys.tolist()
    [14, 24, 14, 2, 26]
    """
    check_whole("messages", messages)
    check_whole("seed", seed, 0)
    if which not in LOGNORMALS:
        raise SaltwiseValueError.unknown("which", which, LOGNORMALS)
    draws = np.random.default_rng(seed).lognormal(*LOGNORMALS[which], messages)
    return Stream(which, np.rint(draws).astype(np.int64))


def drifting(messages: int, keys: int, exponent: float, periods: int, shift: int, seed: int = 1) -> Stream:
    """Return a Zipf stream whose head changes: in each period, the `shift` hottest keys become the coldest.

    Args:
        messages: m, divided among the periods.
        keys: |K|.
        exponent: z within a period.
        periods: how many; their lengths differ by at most one message.
        shift: by how many ranks each key rises from one period to the next.
        seed: seed of the random draws.

    Raises:
        SaltwiseValueError: an argument is out of range.

    >>> drifting(6, keys=100, exponent=9.0, periods=3, shift=10).keys.tolist()
    [1, 1, 11, 11, 21, 21]
    """
    check_whole("periods", periods)
    check_whole("shift", shift, 0)
    ranks = zipf(messages, keys, exponent, seed).keys.astype(np.int64)
    period = np.arange(messages) * periods // messages
    name = f"Zipf z = {exponent:g}, |K| = {keys:,}, {periods} heads"
    return Stream(name, (ranks - 1 + period * shift) % keys + 1)


def flights(column: str = "tailnum") -> Stream:
    """Return one column of the 336,776 flights that left New York City in 2013, with "" for cancelled ones.

    Raises:
        OptionalPackageError: the package of the data cannot be imported.
        SaltwiseValueError: the column is not one of these texts.

    >>> flights("carrier").distinct
    16
    """
    texts = ("carrier", "tailnum", "origin", "dest")
    if column not in texts:
        raise SaltwiseValueError.unknown("column", column, texts)
    values = datasets.flights().column(column).fill_null("").to_pylist()
    return Stream(f"flights by {column}", np.array(values, dtype=np.str_))


def words(messages: int, vocabulary: int = 20_000) -> Stream:
    """Return about `messages` words, each as frequent as in English; see :func:`saltwise.datasets.words`.

    Raises:
        OptionalPackageError: the package of the data cannot be imported.
        SaltwiseValueError: an argument is out of range.

    >>> words(1000, vocabulary=10).distinct
    10
    """
    check_whole("messages", messages)
    check_whole("vocabulary", vocabulary)
    column = datasets.words(messages, vocabulary).column("word").combine_chunks().dictionary_encode()
    texts = np.array(column.dictionary.to_pylist(), dtype=np.str_)
    return Stream("English words", texts[column.indices.to_numpy()])


def _draw(messages: int, shares: Floats, rng: np.random.Generator) -> Int64s:
    """Draw indices independently: first how often each occurs, then their order."""
    counts = rng.multinomial(messages, shares)
    return rng.permutation(np.repeat(np.arange(len(shares), dtype=np.int64), counts))
