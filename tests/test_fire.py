"""Random queries and damaged input: a small part of what tests/random_queries.py and tests/fuzz.py do."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests import fuzz, random_queries


@pytest.mark.slow
@pytest.mark.classic("look at plans in the driver")
def test_random_queries_give_the_same_answers(spark: SparkSession) -> None:
    session = spark.newSession()
    counts, wrong = random_queries.check(session, 1, range(300))
    assert not wrong, "\n\n".join(wrong)
    assert counts["refused"] <= random_queries.MAX_REFUSED * counts["queries"]
    assert all(counts[plan] > 0 for plan in random_queries.PLANS), counts


@pytest.mark.parametrize("name", fuzz.FORMATS)
def test_damaged_input_is_read_or_refused_and_nothing_else(name: str) -> None:
    counts, wrong = fuzz.check(name, 1_500, 1)
    assert not wrong, "\n".join(wrong)
    assert counts["refused"] + counts["read"] == 1_500
