"""The SQL of sql/golden gives what stands beside it; pytest --regenerate writes that anew, for `git diff` to show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from tests.conftest import SaltwiseLines

GOLDEN = Path(__file__).parents[2] / "sql" / "golden"


@pytest.mark.classic("print as spark-sql does")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(file.stem, marks=pytest.mark.smoke if file.stem in ("functions", "hint") else ())
        for file in sorted(GOLDEN.glob("*.sql"))
    ],
)
def test_golden_sql_gives_the_recorded_results(
    spark: SparkSession, saltwise_lines: SaltwiseLines, request: pytest.FixtureRequest, name: str
) -> None:
    session = spark.newSession()
    text = (GOLDEN / f"{name}.sql").read_text()
    results = [result(session, saltwise_lines, statement) for statement in statements(text)]
    found = "\n\n".join(results) + "\n"
    recorded = GOLDEN / f"{name}.out"
    if request.config.getoption("--regenerate"):
        recorded.write_text(found)

    assert found == recorded.read_text()


def test_every_recorded_result_belongs_to_a_file_of_sql() -> None:
    assert {file.stem for file in GOLDEN.glob("*.out")} == {file.stem for file in GOLDEN.glob("*.sql")}


def statements(text: str) -> list[str]:
    """Split a file into its statements; each ends with a semicolon at the end of a line."""
    code = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [statement.strip() for statement in re.split(r";$", code, flags=re.MULTILINE) if statement.strip()]


def result(spark: SparkSession, saltwise_lines: SaltwiseLines, statement: str) -> str:
    """Run one statement; return it with its columns, its rows, and what Saltwise says in its plan."""
    query = f"-- query\n{statement}"
    try:
        df = spark.sql(statement)
        if not statement.startswith("SELECT"):
            return query
        lines = saltwise_lines(df)
        plan = ["-- plan", *lines] if lines else []
        return "\n".join([query, "-- columns", df.schema.simpleString(), *plan, "-- rows", *printed(spark, df)])
    except Exception as e:  # noqa: BLE001 - what it is depends on where Spark was when it met the error
        return f"{query}\n-- error\n{reason(e)}"


def printed(spark: SparkSession, df: DataFrame) -> list[str]:
    """Return the lines that spark-sql prints."""
    session: Any = spark
    frame: Any = df
    hive = session._jvm.org.apache.spark.sql.execution.HiveResult
    lines = hive.hiveResultString(frame._jdf.queryExecution().executedPlan())
    return [lines.apply(i) for i in range(lines.size())]


def reason(error: Exception) -> str:
    """Return the sentence of Saltwise in an error, whatever Spark wrapped it in."""
    if isinstance(error, IllegalArgumentException):
        return str(error)
    for pattern in (r"SaltwiseException: ([^\n]*)", r"data type mismatch: (.*?)(?: SQLSTATE: \w+)?; line \d+ pos \d+"):
        if found := re.search(pattern, str(error)):
            return found[1]
    raise error
