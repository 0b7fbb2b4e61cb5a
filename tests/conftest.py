"""The Spark session of the tests, and what compares answers with Saltwise off and on."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from socket import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pyspark import SparkContext
from pyspark.sql import DataFrame, Row, SparkSession

import saltwise
from saltwise.strategies import PLACEMENT

PLACED = "Exchange placement("
LEFT_ALONE = (
    "SkewGroupBy left alone: its keys are constants, so there is one group",
    "SkewGroupBy left alone: its rows are already grouped by key, without another shuffle",
)
"""What strategies that need no router may say in place of their name."""

# Tests run for seconds, so a JVM that compiles quickly and does little in the background is done sooner. The processes
# that tests start inherit it. What Spark generates and how Spark plans stay as they are.
# The code cache is as large as it is without the first option, or the JVM would throw away what it compiled.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"

# The examples of properties. quick: the same ones every time, so that nobody meets another's failure, and few.
# full: new ones every time, and many; the report of a failure says how to run it again.
settings.register_profile(
    "quick", deadline=None, derandomize=True, max_examples=100, suppress_health_check=list(HealthCheck)
)
settings.register_profile(
    "full", deadline=None, max_examples=500, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("quick")

# The strategies that route rows share one plan and differ in the worker of a row, so one of them stands for all.
EACH_PLAN = ("dchoices", "local", "split")

Query = str | Callable[[SparkSession], DataFrame]
"""SQL text, or a function that builds a DataFrame: it is built anew under each conf."""

LastQuery = Callable[[], tuple[Any, Any]]

SaltwiseLines = Callable[[DataFrame], list[str]]

WaitFor = Callable[[Callable[[], bool]], None]

WithConf = Callable[[Mapping[str, object]], AbstractContextManager[None]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write the results of sql/golden anew")
    parser.addoption("--connect", action="store_true", help="run over Spark Connect")
    parser.addoption(
        "--full", action="store_true", help="run the tests marked full too, and properties on new examples"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--full"):
        settings.load_profile("full")
    # What the command prints depends on it, and processes of pytest-xdist have it from readline.
    os.environ.pop("COLUMNS", None)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS)
    # Numba too compiles quickly and not well, and keeps that apart from what users of this checkout run.
    os.environ.setdefault("NUMBA_OPT", "1")
    os.environ.setdefault("NUMBA_CACHE_DIR", str(config.rootpath / ".pytest_cache" / "numba"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what repeats other tests; over Connect, run what has a session, but for what no Connect session can do."""
    if not config.getoption("--full"):
        deselect(config, items, lambda item: item.get_closest_marker("full") is not None)
    if not config.getoption("--connect"):
        return
    deselect(config, items, lambda item: "spark" not in getattr(item, "fixturenames", ()))
    for item in items:
        if classic := item.get_closest_marker("classic"):
            item.add_marker(pytest.mark.skip(f"over Connect there is no way to {classic.args[0]}"))


def deselect(config: pytest.Config, items: list[pytest.Item], left_out: Callable[[pytest.Item], bool]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = [item for item in items if not left_out(item)]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    if pytestconfig.getoption("--connect"):
        builder = builder.remote("local[2]").config("spark.connect.grpc.binding.port", free_port())
        # Errors read as those of a classic session.
        builder = builder.config("spark.sql.connect.serverStacktrace.enabled", "false")
    else:
        builder = builder.master("local[2]")
    builder = (
        builder.appName("saltwise tests")
        .config("spark.ui.enabled", "false")
        # Few, so that reading the status store is tested where Spark has begun to forget.
        .config("spark.ui.retainedStages", "60")
        # So that the store has the plans that ran as explain prints them.
        .config("spark.sql.ui.explainMode", "simple")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    session = saltwise.configure(builder).getOrCreate()
    SparkContext.getOrCreate().setLogLevel("OFF")
    yield session
    session.stop()


def free_port() -> str:
    """Return a port that nobody listens on, and make the clients of this process look for their server there."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    with socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]
    return str(port)


@pytest.fixture(scope="session")
def version(spark: SparkSession) -> tuple[int, ...]:
    """The line of Spark that runs, such as (4, 3)."""
    return tuple(int(part) for part in spark.version.split(".")[:2])


@pytest.fixture(scope="session")
def with_conf(spark: SparkSession) -> WithConf:
    """Sets confs of the session for the length of a `with` block."""

    @contextmanager
    def confs(values: Mapping[str, object]) -> Iterator[None]:
        before = {key: spark.conf.get(key, None) for key in values}
        try:
            for key, value in values.items():
                spark.conf.set(key, str(value))
            yield
        finally:
            for key, old in before.items():
                if old is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, old)

    return confs


@pytest.fixture(scope="session")
def saltwise_lines() -> SaltwiseLines:
    """Returns what Saltwise says in the plan of a DataFrame, without the numbers that Spark gives to columns."""
    return lambda df: lines_of_saltwise(plan_text(df))


@pytest.fixture(scope="session")
def plan_that_ran(last_query: LastQuery) -> Callable[[], str]:
    """Returns the final plan of the query that ran last."""
    return lambda: str(last_query()[1].physicalPlanDescription()).split("== Initial Plan ==")[0]


@pytest.fixture(scope="session")
def metric_that_ran(last_query: LastQuery) -> Callable[[str], int]:
    """Returns what the query that ran last counted under a name that one operator alone has."""

    def counted(name: str) -> int:
        store, query = last_query()
        metrics = [query.metrics().apply(i) for i in range(query.metrics().size())]
        # Adaptive execution tells of an operator again when it copies it, and the first of the two never counts.
        values = store.executionMetrics(query.executionId())
        accumulators = {metric.accumulatorId() for metric in metrics if metric.name() == name}
        [value] = [values.apply(accumulator) for accumulator in accumulators if values.contains(accumulator)]
        return int(value.replace(",", ""))

    return counted


@pytest.fixture(scope="session")
def last_query(spark: SparkSession, wait_for: WaitFor) -> LastQuery:
    """Returns Spark's status store and what it has of the last query: over Connect the server's, for it is here.

    The store has the final plan once the query and the last of its jobs have ended, and a job may end later.
    """

    def last() -> tuple[Any, Any]:
        server: Any = SparkSession._instantiatedSession
        server._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
        store = server._jsparkSession.sharedState().statusStore()
        wait_for(lambda: store.executionsList().last().completionTime().isDefined())
        return store, store.executionsList().last()

    return last


@pytest.fixture(scope="session")
def agree(spark: SparkSession, with_conf: WithConf) -> Agree:
    return Agree(spark, with_conf)


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

    def auto(self, query: Query, *, close: Collection[str] = ()) -> None:
        """Compare stock Spark with auto on a small input, whether it rewrites the query or leaves it alone."""
        options = {"strategy": "auto", "auto.smallInput": 0}
        ours = self._run(query, toggled(options))
        assert lines_of_saltwise(ours.plan), ours.plan
        wrong = differences(self.stock(query), ours, close)
        assert not wrong, "\n".join(["auto gives another answer:", *wrong, ours.plan])

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


@pytest.fixture(scope="session")
def wait_for() -> WaitFor:
    """Spark's listeners run in a thread of their own, and nothing but a look tells whether they are done."""

    def wait(condition: Callable[[], bool]) -> None:
        looks = threading.Event()
        for _ in range(600):
            if condition():
                return
            looks.wait(0.05)
        raise AssertionError("the listener was not told of all that ran")

    return wait
