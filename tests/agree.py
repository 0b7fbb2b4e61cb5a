"""Runs a query with Saltwise off and on, and compares the plans and the answers."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

import saltwise
from saltwise.strategies import PLACEMENT

PLACED = "Exchange placement("
LEFT_ALONE = (
    "SkewGroupBy left alone: its keys are constants, so there is one group",
    "SkewGroupBy left alone: its rows are already grouped by key, without another shuffle",
)
"""What strategies that need no router may say in place of their name."""

# The strategies that route rows share one plan and differ in the worker of a row, so one of them stands for all.
EACH_PLAN = ("dchoices", "local", "split")

Query = str | Callable[[SparkSession], DataFrame]
"""SQL text, or a function that builds a DataFrame: it is built anew under each conf."""

WithConf = Callable[[Mapping[str, object]], AbstractContextManager[None]]


class Agree:
    """Runs a query with Saltwise off and on, and compares the rows as multisets, exactly.

    -0.0 equals 0.0, because Spark may show a group by either, and NaN equals NaN.
    """

    def __init__(self, spark: SparkSession, with_conf: WithConf) -> None:
        self.spark = spark
        self.with_conf = with_conf
        self._stock: dict[tuple[str, str], Answer] = {}

    def __call__(
        self,
        query: Query,
        *,
        strategies: Sequence[str] = EACH_PLAN,
        options: Mapping[str, object] | None = None,
        conf: Mapping[str, object] | None = None,
        close: Collection[str] = (),
        routes: int | None = None,
    ) -> None:
        """Compare stock Spark with the toggle on, for each strategy.

        Args:
            query: what to run.
            strategies: values of spark.saltwise.strategy; one for each kind of plan by default.
            options: other options of spark.saltwise, by their names without the prefix.
            conf: confs of Spark that hold on both sides.
            close: columns of floats that need to agree to nine digits only, since Spark leaves the rest open.
            routes: how often the plan must be rewritten; at least once by default. Where strategies are left out, local
                and split may rewrite more, since they need no repeatable order of the rows.
        """
        stock = self.stock(query, conf)
        for strategy in strategies:
            # So few rows fit into one partition, so split is told how many there are.
            toggle = toggled(
                {"strategy": strategy, **({"partitions": 4} if strategy == "split" else {}), **(options or {})}
            )
            ours = self._run(query, {**(conf or {}), **toggle})
            # Only adaptive execution can look at the partitions before it splits them.
            adaptive = bool((conf or {}).get("spark.sql.adaptive.enabled", True))
            chosen = "dchoices" if strategy == "split" and not adaptive else strategy
            said = PLACED if chosen in PLACEMENT and chosen != "hash" else f"], {chosen}, n="
            left_alone = LEFT_ALONE if chosen in ("auto", "local", "split") else ()
            assert any(text in ours.plan for text in (said, *left_alone)), ours.plan
            exactly = routes if strategies is not EACH_PLAN or strategy == "dchoices" else None
            self._compare(stock, ours, close, exactly, f"strategy {strategy}")

    def auto(self, query: Query, *, close: Collection[str] = ()) -> str:
        """Compare stock Spark with auto on a small input, whether it rewrites the query or leaves it alone.

        Returns the plan of auto as EXPLAIN shows it. The query with auto is the one that ran last.
        """
        stock = self.stock(query)
        ours = self._run(query, toggled({"strategy": "auto", "auto.smallInput": 0}))
        assert lines_of_saltwise(ours.plan) or "SkewWindow" in ours.plan, ours.plan
        wrong = differences(stock, ours, close)
        assert not wrong, "\n".join(["auto gives another answer:", *wrong, ours.plan])
        return ours.plan

    def pair(
        self,
        stock: Query,
        ours: Query,
        *,
        conf: Mapping[str, object] | None = None,
        close: Collection[str] = (),
        routes: int | None = None,
    ) -> None:
        """Compare a query with the same one that asks for Saltwise by itself, by a hint or by skew_groupby."""
        self._compare(self.stock(stock, conf), self._run(ours, conf or {}), close, routes, "the hint")

    def arrow(
        self, df: DataFrame, *cols: Any, query: Callable[[Any], DataFrame], close: Collection[str] = (), **options: Any
    ) -> str:
        """Compare a group-by of Spark with that of engine="arrow"; return the plan of the latter."""
        stock = Answer(query(df.groupBy(*cols)))
        ours = Answer(query(saltwise.skew_groupby(df, *cols, engine="arrow", **options)))
        assert "MapInArrow route(" in ours.plan, ours.plan
        wrong = differences(stock, ours, close)
        assert not wrong, "\n".join(["engine='arrow' gives another answer:", *wrong, ours.plan])
        return ours.plan

    def left_alone(
        self,
        query: Query,
        reason: str,
        *,
        strategy: str = "dchoices",
        options: Mapping[str, object] | None = None,
        times: int = 1,
    ) -> None:
        """Compare stock Spark with the toggle on, where the plan has to say why it was not rewritten."""
        ours = self._run(query, toggled({"strategy": strategy, **(options or {})}))
        self._compare_left_alone(self.stock(query), ours, reason, times)

    def left_alone_pair(self, stock: Query, ours: Query, reason: str) -> None:
        """The same for a query that asks for Saltwise by itself."""
        self._compare_left_alone(self.stock(stock), self._run(ours, {}), reason, times=1)

    def untouched(self, query: Query) -> None:
        """Compare stock Spark with the toggle on, where the plan must be Spark's own."""
        stock = self.stock(query)
        ours = self._run(query, toggled({"strategy": "dchoices"}))
        assert without_ids(ours.plan) == without_ids(stock.plan)
        wrong = differences(stock, ours, ())
        assert not wrong, "\n".join(wrong)

    def stock(self, query: Query, conf: Mapping[str, object] | None = None) -> Answer:
        """Return the answer of Spark alone; that of an SQL text is kept."""
        key = (query, str(sorted((conf or {}).items()))) if isinstance(query, str) else None
        if key is not None and key in self._stock:
            return self._stock[key]
        answer = self._run(query, {**(conf or {}), "spark.saltwise.enabled": False})
        assert not lines_of_saltwise(answer.plan), answer.plan
        if key is not None:
            self._stock[key] = answer
        return answer

    def _run(self, query: Query, conf: Mapping[str, object]) -> Answer:
        with self.with_conf(conf):
            df = self.spark.sql(query) if isinstance(query, str) else query(self.spark)
            return Answer(df)

    def _compare(self, stock: Answer, ours: Answer, close: Collection[str], routes: int | None, what: str) -> None:
        # Of an aggregate that is combined and may be sliced, the plan names both.
        found = sum(map(ours.plan.count, ("SkewRoute ", PLACED, *LEFT_ALONE))) + max(
            map(ours.plan.count, ("Combine [", "SkewSplit ["))
        )
        assert found == routes if routes is not None else found >= 1, ours.plan
        wrong = differences(stock, ours, close)
        assert not wrong, "\n".join([f"{what} gives another answer:", *wrong, ours.plan])

    def _compare_left_alone(self, stock: Answer, ours: Answer, reason: str, times: int) -> None:
        assert lines_of_saltwise(ours.plan) == [f"SkewGroupBy left alone: {reason}"] * times, ours.plan
        wrong = differences(stock, ours, ())
        assert not wrong, "\n".join(wrong)


class Answer:
    """What a DataFrame plans and returns."""

    def __init__(self, df: DataFrame) -> None:
        self.schema = df.schema
        self.columns = df.columns
        self.plan = plan_text(df)
        self.rows = [tuple(plain(value) for value in row) for row in df.collect()]


def toggled(options: Mapping[str, object]) -> dict[str, object]:
    """Return the confs that switch Saltwise on, with these options."""
    return {"spark.saltwise.enabled": True} | {f"spark.saltwise.{name}": v for name, v in options.items()}


def plan_text(df: DataFrame) -> str:
    """Return what df.explain() prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        df.explain()
    return out.getvalue()


def lines_of_saltwise(plan: str) -> list[str]:
    """Return what Saltwise says in a plan, operator by operator."""
    lines = [line.lstrip("+-:* (0123456789)") for line in plan.splitlines()]
    return [re.sub(r"#\d+L?", "", line) for line in lines if line.startswith(("Skew", "Combine"))]


def without_ids(plan: str) -> str:
    """Return a plan without the numbers that differ from run to run."""
    return re.sub(r"#\d+L?|plan_id=\d+|(?<=\[id=#)\d+|\b0x[0-9a-f]+\b", "#", plan)


def differences(stock: Answer, ours: Answer, close: Collection[str]) -> list[str]:
    """Return what a reader needs to see why two answers differ; nothing where they agree."""
    if stock.schema != ours.schema:
        return [f"schema {stock.schema.simpleString()} became {ours.schema.simpleString()}"]
    exact = [i for i, name in enumerate(stock.columns) if name not in close]
    loose = [i for i, name in enumerate(stock.columns) if name in close]

    def pick(row: tuple[Any, ...], positions: list[int]) -> tuple[Any, ...]:
        return tuple(row[i] for i in positions)

    missing = Counter(pick(row, exact) for row in stock.rows)
    extra = Counter(pick(row, exact) for row in ours.rows)
    if missing != extra:
        only_stock, only_ours = missing - extra, extra - missing
        near = {row[0]: row for row in only_ours}
        named = sorted(
            {
                stock.columns[exact[i]]
                for row in only_stock
                if row[0] in near
                for i, value in enumerate(row)
                if value != near[row[0]][i]
            }
        )
        return [
            f"columns that differ where the first column agrees: {named}",
            f"{only_stock.total()} rows of Spark are missing, such as {list(only_stock)[:3]}",
            f"{only_ours.total()} rows are not Spark's, such as {list(only_ours)[:3]}",
        ]
    pairs: dict[Any, list[tuple[Any, ...]]] = {}
    for row in stock.rows:
        pairs.setdefault(pick(row, exact), []).append(pick(row, loose))
    wrong = []
    for row in ours.rows:
        wanted = pairs[pick(row, exact)].pop(0) if loose else ()
        for i, expected, found in zip(loose, wanted, pick(row, loose), strict=True):
            if not near_enough(expected, found):
                wrong.append(f"{stock.columns[i]} of {pick(row, exact)} is {found}, not {expected}")
    return wrong


def near_enough(expected: Any, found: Any) -> bool:
    """Whether two numbers agree to nine digits, or are both NULL or both NaN."""
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-9)
    return bool(expected == found)


def plain(value: Any) -> Any:
    """Return a value that can be compared and counted: NaN equals itself, and nothing is a list."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, (Row, tuple, list)):
        return tuple(plain(item) for item in value)
    if isinstance(value, dict):
        return frozenset((plain(key), plain(item)) for key, item in value.items())
    return value
