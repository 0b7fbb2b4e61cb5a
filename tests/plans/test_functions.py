"""Every aggregate function of Spark gives stock answers under every plan: one column a call, one query an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession
from tests.plans.calls import CALLS, CLOSE, NOT_COMPARED, SINCE, SKETCHES, SKETCHES_OF_4_3
from tests.plans.events import HOT, ONLINE, all_but

if TYPE_CHECKING:
    from tests.agree import Agree

pytestmark = pytest.mark.usefixtures("events")

Select = Callable[..., str]
"""Writes the query of a batch of calls."""

DIVIDED = [call for texts in CLOSE.values() for call in texts]
BATCHES = {
    "hashed": "HashAggregate",
    "close": "HashAggregate",
    "sorted": "SortAggregate",
    "object": "ObjectHashAggregate",
}
"""The batches of calls over plain rows, and the operator that runs each."""


@pytest.fixture(scope="module")
def aggregates(spark: SparkSession) -> set[str]:
    """Every function that Spark's documentation files under aggregates."""
    # Over Connect the server has it.
    server: Any = SparkSession._instantiatedSession
    catalog = server._jsparkSession.sessionState().catalog()
    identifier = server._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    names = set()
    for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        if name.isidentifier():  # the others are operators
            info = catalog.lookupFunctionInfo(identifier(name))
            if info.getGroup() == "agg_funcs" or ".aggregate." in (info.getClassName() or ""):
                names.add(name)
    return names


@pytest.fixture(scope="module")
def select(version: tuple[int, ...], aggregates: set[str]) -> Select:
    """Writes a query with the calls of a batch that this Spark knows, each named by its text."""

    def query(batch: str, source: str = "events", group: str = "k") -> str:
        columns = ", ".join(
            f"{call} AS `{call}`"
            for name, texts in CALLS[batch].items()
            if name in aggregates
            for call in texts
            if version >= SINCE.get(call, (3, 5))
        )
        return f"SELECT k, {columns} FROM {source} GROUP BY {group}"

    return query


def test_every_aggregate_function_of_spark_is_called_or_excused(aggregates: set[str]) -> None:
    called = {name for batch in CALLS.values() for name in batch}

    assert aggregates - called - NOT_COMPARED.keys() == set()
    assert called & NOT_COMPARED.keys() == set()


@pytest.mark.parametrize("batch", BATCHES)
def test_functions_give_the_same_answers_under_each_plan(agree: Agree, select: Select, batch: str) -> None:
    query = select(batch)

    agree(query, close=DIVIDED, routes=1)
    agree(query, strategies=["dchoices"], options={"hot": HOT}, close=DIVIDED, routes=1)
    agree.auto(query, close=DIVIDED)

    assert f" {BATCHES[batch]}(" in agree.stock(query).plan


@pytest.mark.full
@pytest.mark.parametrize("strategy", ONLINE)
@pytest.mark.parametrize("batch", BATCHES)
def test_functions_give_the_same_answers_under_each_strategy(
    agree: Agree, select: Select, batch: str, strategy: str
) -> None:
    agree(select(batch), strategies=[strategy], close=DIVIDED, routes=1)


@pytest.mark.full
@pytest.mark.parametrize("batch", BATCHES)
def test_functions_give_the_same_answers_under_auto_behind_a_shuffle(agree: Agree, select: Select, batch: str) -> None:
    agree.auto(select(batch, "(SELECT /*+ REPARTITION(3) */ * FROM events)"), close=DIVIDED)


@pytest.mark.smoke
def test_every_kind_of_state_gives_the_same_answers(agree: Agree, select: Select) -> None:
    for batch, strategy in zip(BATCHES, ("dchoices", "local", "split", "local"), strict=True):
        agree(select(batch), strategies=[strategy], close=DIVIDED, routes=1)


@pytest.mark.parametrize("strategy", all_but(("dchoices", "local", "offgreedy")))
def test_merged_sketches_give_the_same_answers(
    version: tuple[int, ...], agree: Agree, select: Select, strategy: str
) -> None:
    sketches = SKETCHES if version < (4, 3) else SKETCHES_OF_4_3
    # A sketch depends on the order of its rows, so a strategy that looks at the rows before may not route it.
    routes: int | None = 2 if strategy in ("hash", "split", "local", "consistent") else 1
    if strategy == "offgreedy":
        routes = None  # the pass over the outer keys places the inner ones, too

    agree(select("merged", source=f"({sketches})"), strategies=[strategy], routes=routes)


def test_grouping_functions_give_the_same_answers(agree: Agree, select: Select) -> None:
    agree(select("cubed", group="CUBE (k, t) HAVING count(*) > 0"), routes=1)


def test_each_strategy_rewrites_states_that_grow(agree: Agree) -> None:
    query = "SELECT k, count(*), array_sort(collect_list(i)), median(d), max(s) FROM events GROUP BY k"

    agree(query, strategies=ONLINE, routes=1)
