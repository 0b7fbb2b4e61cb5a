"""The fixtures of the tests: one Spark session a process, its confs, and what its last query did."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from socket import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from tests.agree import Agree, WithConf, lines_of_saltwise, plan_text
from tests.fire.executors import JVM_OPTIONS

import saltwise
from saltwise.spark.session import confs

# The examples of properties. quick: the same ones every time, so that nobody meets another's failure, and few.
# full: new ones every time, and many; the report of a failure says how to run it again.
settings.register_profile(
    "quick", deadline=None, derandomize=True, max_examples=100, suppress_health_check=list(HealthCheck)
)
settings.register_profile(
    "full", deadline=None, max_examples=500, print_blob=True, suppress_health_check=list(HealthCheck)
)
settings.load_profile("quick")

LastQuery = Callable[[], tuple[Any, Any]]

SaltwiseLines = Callable[[DataFrame], list[str]]

WaitFor = Callable[[Callable[[], bool]], None]


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

    return lambda values: confs(spark, {name: str(value) for name, value in values.items()})


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
