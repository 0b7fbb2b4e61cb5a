"""A plugin that does not fit the Spark that runs steps aside, and says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import pytest
from pyspark.sql import SparkSession
from tests.plans.forged import forged_spark, with_abstract_method, with_longer_constructor, with_text
from tests.plans.test_off_means_off import QUERIES, VIEWS, run

import saltwise
from saltwise.spark.session import EXTENSION

pytestmark = pytest.mark.classic("start a session of another kind in a process of its own")

# Two queries and the hint, on a plugin that lacks a class.
WITH_A_PLUGIN_THAT_DOES_NOT_FIT = """
import json, sys
from pyspark.sql import SparkSession

jar, extension = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "4")
    .config("spark.jars", jar)
    .config("spark.sql.extensions", extension)
    .config("spark.saltwise.enabled", "true")
    .config("spark.saltwise.strategy", "pkg")
    .getOrCreate()
)
asked = json.load(sys.stdin)
for view in asked["views"]:
    spark.sql(view)
print(json.dumps({
    "plans": [spark.sql("EXPLAIN " + query).first()[0] for query in asked["queries"]],
    "rows": [sorted(map(list, spark.sql(query).collect())) for query in asked["queries"]],
}))
"""

LINKS = "saltwise/links.txt"
"""What the plugin checks of Spark when it starts. Without it, a class that is missing is only found when it is used."""

BINARY = "org/apache/spark/sql/catalyst/expressions/Binary"

LOGGED = (
    "Saltwise went on without {part}, which failed: queries run as Spark plans them; "
    "further failures of it are not logged."
)


def changed_jar(spark: SparkSession, folder: Path, changes: dict[str, bytes | None]) -> str:
    """Return a copy of the plugin's jar in which some files have another content, or are missing."""
    jar = folder / "changed.jar"
    with ZipFile(saltwise.jar_path(spark.version)) as whole, ZipFile(jar, "w") as changed:
        assert set(changes) <= set(whole.namelist())
        for name in whole.namelist():
            content = changes.get(name, whole.read(name))
            if content is not None:
                changed.writestr(name, content)
    return str(jar)


# Each of these starts a Spark of its own. In make test, one does: a class that cannot link, below.
@pytest.mark.full
@pytest.mark.parametrize(
    ("used", "lacking"),
    [
        (
            b"class\torg.apache.spark.sql.execution.NoSuchExec\t<init>()V\n",
            "org.apache.spark.sql.execution.NoSuchExec",
        ),
        (
            b"class\torg.apache.spark.sql.execution.SparkPlan\tchildren()Lscala/collection/immutable/List;\n",
            "org.apache.spark.sql.execution.SparkPlan.children()Lscala/collection/immutable/List;",
        ),
    ],
)
def test_where_spark_lacks_what_the_plugin_uses_it_stays_off_and_says_what(
    spark: SparkSession, tmp_path: Path, used: bytes, lacking: str
) -> None:
    jar = changed_jar(spark, tmp_path, {LINKS: used})
    answer, log = run(WITH_A_PLUGIN_THAT_DOES_NOT_FIT, jar, EXTENSION, queries=QUERIES[:2])
    for view in VIEWS:
        spark.sql(view)
    assert answer["rows"] == [sorted(map(list, spark.sql(query).collect())) for query in QUERIES[:2]]
    assert [plan for plan in answer["plans"] if "Skew" in plan] == []
    assert log.count(f"Saltwise stays off, because Spark {spark.version} has no {lacking}.") == 1


def renamed(name: str, content: bytes) -> bytes:
    return content.replace(b"supportsBinaryEquality", b"supportsBinaryEqualitx")


def without(lost: str, name: str, content: bytes) -> bytes | None:
    return None if name == f"org/apache/spark/sql/{lost}.class" else content


def changed(which: str, change: Callable[[bytes], bytes], name: str, content: bytes) -> bytes:
    return change(content) if name == f"org/apache/spark/sql/{which}.class" else content


@pytest.mark.full
@pytest.mark.parametrize(
    ("jars", "change", "lacking"),
    [
        pytest.param(
            "spark-sql_*.jar",
            partial(without, "execution/RecordBinaryComparator"),
            "org.apache.spark.sql.execution.RecordBinaryComparator",
            id="a class that only tasks use has another name",
        ),
        pytest.param(
            "spark-catalyst_*.jar",
            partial(changed, "catalyst/plans/logical/Aggregate", with_longer_constructor),
            "constructor of Aggregate that it knows",
            id="a constructor takes more",
        ),
        pytest.param(
            "spark-*.jar",
            renamed,
            "StringType.supportsBinaryEquality",
            id="a method has another name that tells collations apart",
        ),
        pytest.param(
            "spark-sql_*.jar",
            partial(changed, "execution/SparkPlan", partial(with_abstract_method, name="doNew")),
            "use for org.apache.spark.sql.saltwise.local.CombineExec without doNew()V",
            id="an operator must have one more method",
        ),
    ],
)
def test_on_a_spark_that_may_come_next_the_plugin_stays_off_and_says_what_it_misses(
    spark: SparkSession, tmp_path: Path, jars: str, change: Callable[[str, bytes], bytes | None], lacking: str
) -> None:
    home = forged_spark(tmp_path / "spark", jars, change)
    jar = saltwise.jar_path(spark.version)

    answer, log = run(WITH_A_PLUGIN_THAT_DOES_NOT_FIT, str(jar), EXTENSION, queries=QUERIES[:2], home=home)

    for view in VIEWS:
        spark.sql(view)
    assert answer["rows"] == [sorted(map(list, spark.sql(query).collect())) for query in QUERIES[:2]]
    assert [plan for plan in answer["plans"] if "Skew" in plan] == []
    assert log.count(f"Saltwise stays off, because Spark {spark.version} has no {lacking}.") == 1


def test_a_class_that_cannot_link_leaves_the_plan_alone_and_logs_once(spark: SparkSession, tmp_path: Path) -> None:
    missing = "org/apache/spark/sql/saltwise/routing/SkewReceiveExec.class"
    jar = changed_jar(spark, tmp_path, {missing: None, LINKS: b""})
    queries = [*QUERIES[:2], QUERIES[0].replace("SELECT", "SELECT /*+ SKEW_GROUPBY(dchoices) */")]

    answer, log = run(WITH_A_PLUGIN_THAT_DOES_NOT_FIT, jar, EXTENSION, queries=queries)

    for view in VIEWS:
        spark.sql(view)
    stock = [sorted(map(list, spark.sql(query).collect())) for query in [*QUERIES[:2], QUERIES[0]]]
    assert answer["rows"] == stock
    assert [plan for plan in answer["plans"] if "Skew" in plan] == []
    assert log.count(LOGGED.format(part="SkewAggregation")) == 1
    assert "java.lang.NoClassDefFoundError: org/apache/spark/sql/saltwise/routing/SkewReceiveExec" in log


@pytest.mark.full
def test_a_rule_whose_plan_spark_would_refuse_leaves_the_plan_alone(spark: SparkSession, tmp_path: Path) -> None:
    # As an operator, the worker of a key refuses a hash and a text, since they have two types.
    name = "org/apache/spark/sql/saltwise/placement/PlaceKey.class"
    with ZipFile(saltwise.jar_path(spark.version)) as plugin:
        forged = with_text(plugin.read(name), BINARY + "Expression", BINARY + "Operator")
    jar = changed_jar(spark, tmp_path, {name: forged, LINKS: b""})
    query = QUERIES[0].replace("SELECT", "SELECT /*+ SKEW_GROUPBY(offgreedy) */")

    answer, log = run(WITH_A_PLUGIN_THAT_DOES_NOT_FIT, jar, EXTENSION, queries=[query])

    for view in VIEWS:
        spark.sql(view)
    assert answer["rows"] == [sorted(map(list, spark.sql(QUERIES[0]).collect()))]
    assert log.count(LOGGED.format(part="PlaceGroups")) == 1
    assert "IllegalStateException: PlaceGroups made a plan that is not resolved" in log


@pytest.mark.full
@pytest.mark.parametrize(
    ("missing", "part"),
    [
        ("placement/PlaceKey", "PlaceGroups"),
        ("report/GroupsOfPlan", "GroupByListener"),
        ("report/Reports$", "Reports"),
    ],
)
def test_a_part_that_cannot_be_loaded_ends_neither_queries_nor_the_application(
    spark: SparkSession, tmp_path: Path, missing: str, part: str
) -> None:
    jar = changed_jar(spark, tmp_path, {f"org/apache/spark/sql/saltwise/{missing}.class": None, LINKS: b""})

    answer, log = run(WITH_A_PLUGIN_THAT_DOES_NOT_FIT, jar, EXTENSION, queries=QUERIES[:2])

    for view in VIEWS:
        spark.sql(view)
    assert answer["rows"] == [sorted(map(list, spark.sql(query).collect())) for query in QUERIES[:2]]
    assert log.count(LOGGED.format(part=part)) == 1
