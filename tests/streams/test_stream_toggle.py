"""The toggle and a streaming aggregate: the same answers on and off, and rows are routed with Saltwise on alone."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.plans.events import EVENTS

if TYPE_CHECKING:
    from tests.agree import WithConf


def test_a_streaming_aggregate_is_routed_with_saltwise_on_alone(
    spark: SparkSession, with_conf: WithConf, tmp_path: Path
) -> None:
    spark.sql(EVENTS).select("id", "k", "i").write.parquet(str(tmp_path / "in"))
    answers = {}
    for enabled in (False, True):
        with with_conf({"spark.saltwise.enabled": enabled, "spark.saltwise.strategy": "dchoices"}):
            stream = spark.readStream.schema("id bigint, k int, i int").parquet(str(tmp_path / "in"))
            totals = stream.groupBy("k").agg(F.count("*"), F.sum("i"), F.sort_array(F.collect_list("i")))
            writer = totals.writeStream.outputMode("complete").format("memory").queryName(f"totals_{enabled}")
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            with redirect_stdout(StringIO()) as plan:
                query.explain()
            assert "StateStoreSave" in plan.getvalue()
            assert ("SkewRoute [k" in plan.getvalue()) == enabled
            answers[enabled] = sorted(spark.table(f"totals_{enabled}").collect(), key=str)
            spark.catalog.dropTempView(f"totals_{enabled}")

    assert answers[True] == answers[False]
    assert len(answers[True]) > 3
