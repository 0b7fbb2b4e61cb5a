"""The demo: queries with Saltwise give the answers of Spark, and what was measured is printed and drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.cli.command import stdout

from saltwise import datasets
from saltwise.cli import demo
from saltwise.cli.demo import QUERIES, Outcome, Query

pytestmark = [pytest.mark.classic("run the command saltwise"), pytest.mark.slow]

CORES = 8


@pytest.fixture(scope="module")
def demo_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, list[Outcome]]:
    """What the quick demo printed, its picture, and its outcomes, over small inputs too."""
    picture = tmp_path_factory.mktemp("demo") / "demo.png"
    outcomes: list[Outcome] = []
    run, words = demo.run, datasets.words

    def recorded(spark: SparkSession, *arguments: Any, **options: Any) -> Outcome:
        spark.conf.set("spark.saltwise.auto.smallInput", "0")
        outcomes.append(run(spark, *arguments, **options))
        return outcomes[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "words", lambda rows: words(rows // 10, 2_000))
        patch.setattr(demo, "run", recorded)
        printed = stdout("demo", "--quick", "--partitions", str(CORES), "--out", str(picture))
    return printed, picture, outcomes


def test_every_query_is_printed_with_its_times_here_and_on_a_cluster(
    demo_run: tuple[str, Path, list[Outcome]],
) -> None:
    printed, picture, _ = demo_run
    assert picture.read_bytes().startswith(b"\x89PNG")
    for query in QUERIES:
        assert query.title in printed
    verdict = r"[\d.]+ s with Spark, [\d.]+ s with Saltwise: (?:[\d.]+ times as fast|no gain|slower, .*)"
    assert len(re.findall(rf"^on {CORES} cores +{verdict}$", printed, re.MULTILINE)) == len(QUERIES)
    assert "All answers are the same with Saltwise as without it." in " ".join(printed.split())


def test_the_answers_are_the_same_and_a_cluster_would_have_a_task_for_each_core(
    demo_run: tuple[str, Path, list[Outcome]],
) -> None:
    _, _, outcomes = demo_run
    assert [outcome.query for outcome in outcomes] == [*QUERIES]
    assert all(outcome.same for outcome in outcomes)
    assert all(max(map(len, stages)) >= CORES for outcome in outcomes for stages in outcome.stages.values())


OPERATORS = ("below a join", "SkewWindow", "Combine", "Combine")


@pytest.mark.parametrize(("query", "operator"), list(zip(QUERIES, OPERATORS, strict=True)))
def test_saltwise_changes_the_plan_of_every_query(
    query: Query, operator: str, spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    for name, rows in demo.data(quick=True).items():
        datasets.as_dataframe(session, rows.slice(0, 50_000), str(tmp_path), name)
    session.conf.set("spark.saltwise.auto.smallInput", "0")
    session.conf.set("spark.saltwise.enabled", "true")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    assert operator in session.sql(query.sql)._jdf.queryExecution().executedPlan().toString()
