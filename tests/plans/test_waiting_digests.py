"""Digests that wait to be merged: those of many keys do not fill the memory of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.classic("call Scala")


@pytest.fixture(scope="module")
def most(compiled: Callable[[str], Any]) -> Callable[[int, int], int]:
    """The most samples that wait in a task of so many keys, of which each has so many digests of 1,000 rows."""
    most: Callable[[int, int], int] = compiled("WaitingDigests").org.apache.spark.sql.saltwise.local.WaitingDigests.most
    return most


def test_the_digests_of_few_keys_wait_until_there_are_many(most: Callable[[int, int], int]) -> None:
    assert most(10, 20) == 10 * 20 * 1000


def test_the_digests_of_many_keys_are_merged_as_they_come(most: Callable[[int, int], int]) -> None:
    """Without that, 1,500 keys with three digests each would hold 4,500,000 samples."""
    assert most(1500, 3) <= (1 << 20) + 1000
