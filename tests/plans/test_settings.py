"""Settings of Spark, such as ANSI, adaptive execution and code generation, give stock answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.plans.events import pairs

if TYPE_CHECKING:
    from tests.agree import Agree

pytestmark = pytest.mark.usefixtures("events")

SETTINGS: dict[str, dict[str, object]] = {
    "ANSI on": {"spark.sql.ansi.enabled": True},
    "ANSI off": {"spark.sql.ansi.enabled": False},
    "AQE off": {"spark.sql.adaptive.enabled": False},
    "AQE without coalescing": {"spark.sql.adaptive.coalescePartitions.enabled": False},
    "whole-stage code generation off": {"spark.sql.codegen.wholeStage": False},
    "no code generation": {"spark.sql.codegen.wholeStage": False, "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    "no code generation, no AQE": {
        "spark.sql.codegen.wholeStage": False,
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": False,
    },
    "partial aggregation not bypassed": {"spark.sql.execution.bypassPartialAggregation": False},
    "adjacent aggregates kept apart": {"spark.sql.execution.combineAdjacentAggregation": False},
    "no object hash aggregate": {"spark.sql.execution.useObjectHashAggregateExec": False},
    "object hash aggregate falls back": {"spark.sql.objectHashAggregate.sortBased.fallbackThreshold": 1},
    "one-level hash map": {"spark.sql.codegen.aggregate.map.twolevel.enabled": False},
    "sort aggregate where sorted": {"spark.sql.execution.replaceHashWithSortAgg": True},
    "another time zone": {"spark.sql.session.timeZone": "America/Los_Angeles"},
    "one shuffle partition, three workers": {"spark.sql.shuffle.partitions": 1, "spark.saltwise.partitions": 3},
}

# Fields, objects and strings in the state, a FILTER and NULLs of a ROLLUP.
QUERY = """
    SELECT k, t, count(*), sum(d), avg(dec), min(ts), max(s) FILTER (WHERE i > 0), array_sort(collect_list(s)),
      percentile(d, 0.5), space_saving_agg(odd, 300)
    FROM events GROUP BY ROLLUP (k, t)"""


@pytest.mark.parametrize(("setting", "plan"), pairs(SETTINGS))
def test_settings_of_spark_give_the_same_answers(agree: Agree, setting: str, plan: str) -> None:
    agree(QUERY, strategies=[plan], conf=SETTINGS[setting], routes=1)


@pytest.mark.parametrize(("setting", "plan"), pairs(SETTINGS, ("split", "dchoices", "local")))
def test_settings_of_spark_give_the_same_answers_for_fields_alone(agree: Agree, setting: str, plan: str) -> None:
    query = "SELECT k, count(*), sum(d), avg(dec), min(ts), max(i) FILTER (WHERE i > 0) FROM events GROUP BY k"

    agree(query, strategies=[plan], conf=SETTINGS[setting], routes=1)


@pytest.mark.parametrize("ansi", [True, False])
def test_an_overflow_is_an_error_or_not_as_in_spark(agree: Agree, ansi: bool) -> None:
    query = "SELECT id % 2, sum(9223372036854775807), try_sum(l * 9223372) FROM events GROUP BY id % 2"
    conf = {"spark.sql.ansi.enabled": ansi}
    if not ansi:
        agree(query, conf=conf, routes=1)
        return

    for enabled in (False, True):
        switched = {**conf, "spark.saltwise.enabled": enabled, "spark.saltwise.strategy": "dchoices"}
        with agree.with_conf(switched), pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
            agree.spark.sql(query).collect()
