"""What the tests of StatefulAggregate share: rows of a key and a number, their totals, and what a folder holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from saltwise import StatefulAggregate

Rows = Sequence[tuple[str | None, int]]


def table(spark: SparkSession, rows: Rows) -> DataFrame:
    """Return rows of a key and a number, as one partition without Python in it."""
    values = ", ".join(f"({'NULL' if key is None else repr(key)}, {value})" for key, value in rows)
    return spark.sql(
        f"SELECT CAST(k AS string) AS k, CAST(v AS int) AS v FROM VALUES {values or '(0, 0)'} AS t(k, v) {'' if rows else 'WHERE false'}"
    )


def totals(path: Path, workers: int = 3, **options: Any) -> StatefulAggregate:
    return StatefulAggregate(
        path, "k", {"n": F.count("*"), "total": F.sum("v"), "most": F.max("v")}, workers, **options
    )


def expected(rows: Rows) -> set[tuple[Any, ...]]:
    groups = defaultdict(list)
    for key, value in rows:
        groups[key].append(value)
    return {(key, len(values), sum(values), max(values)) for key, values in groups.items()}


def rows_of(state: DataFrame) -> set[tuple[Any, ...]]:
    rows = [tuple(row) for row in state.collect()]
    assert len(rows) == len(set(rows))
    return set(rows)


def files_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
