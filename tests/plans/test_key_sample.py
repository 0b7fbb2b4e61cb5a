"""The sample of keys: what it expects batches of each size to combine, in any order of arrival, is what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from saltwise.streams import zipf

pytestmark = pytest.mark.classic("call Scala")

ROWS = 1 << 20
SIZES = [1 << bits for bits in (12, 14, 16, 18, 20)]
LEAST = 8
"""A key with so many rows in a window is combined."""

row = np.arange(ROWS)
rng = np.random.default_rng(3)

STREAMS: dict[str, Callable[[], np.ndarray]] = {
    "9,000 keys in turn": lambda: row % 9_000,
    "90,000 keys in turn": lambda: row % 90_000,
    "9,000 keys at random": lambda: rng.integers(0, 9_000, ROWS),
    "60,000 keys at random": lambda: rng.integers(0, 60_000, ROWS),
    "a million keys at random": lambda: rng.integers(0, 10**6, ROWS),
    "all distinct": lambda: row,
    "zipf 0.8, but for the 500 hottest keys": lambda: rare(zipf(2 * ROWS, 500_000, 0.8, 1).keys, 500)[:ROWS],
    "runs of 60": lambda: row // 60,
    "runs of 30 of 9,000 keys": lambda: rng.integers(0, 9_000, ROWS // 30 + 1)[row // 30],
    "5,000 keys, others after every 2^17 rows": lambda: (row >> 17) * 5_000 + rng.integers(0, 5_000, ROWS),
}


@pytest.fixture(scope="module")
def samples(compiled: Callable[[str], Any]) -> Any:
    return compiled("KeySamples").org.apache.spark.sql.saltwise.local.KeySamples


def rare(keys: np.ndarray, hottest: int) -> np.ndarray:
    """The rows without those of the hottest keys, which have states at once and are not sampled."""
    found, counts = np.unique(keys, return_counts=True)
    return keys[~np.isin(keys, found[np.argsort(counts)[-hottest:]])]


def mixed(keys: np.ndarray) -> np.ndarray:
    """Hashes of 64 bits that look random."""
    h = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(h ^ (h >> np.uint64(31)))


def combined(keys: np.ndarray, size: int) -> float:
    """The share of rows whose key has at least LEAST rows in their window."""
    window = row // size * (1 << 40) + keys
    counts = np.unique(window, return_counts=True)[1]
    return float(counts[counts >= LEAST].sum() / len(keys))


@pytest.mark.parametrize("name", STREAMS)
def test_one_key_in_64_tells_what_batches_of_every_size_combine(samples: Any, name: str) -> None:
    keys = STREAMS[name]()
    expected = [combined(keys, size) for size in SIZES]
    found = list(samples.combined(bytearray(mixed(keys).tobytes()), LEAST))
    assert found == pytest.approx(expected, abs=0.05)


def test_more_keys_than_the_sample_can_hold_are_sampled_at_a_lower_rate(samples: Any) -> None:
    keys = np.repeat(rng.permutation(ROWS // 2), 2)
    [*_, found] = samples.combined(bytearray(mixed(keys).tobytes()), 2)
    assert found == pytest.approx(1.0, abs=0.05)


def test_a_large_window_that_ended_before_the_keys_changed_promises_nothing(samples: Any) -> None:
    few = rng.integers(0, 500, ROWS)
    distinct = ROWS + np.arange(ROWS // 2)
    found = samples.combined(bytearray(mixed(np.concatenate([few, distinct])).tobytes()), LEAST)
    assert list(found) == pytest.approx([0.0] * len(SIZES), abs=0.05)
