"""What a client has that knows Spark Connect alone; the other tests run over Connect too, by `pytest --connect`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import SaltwiseError
from saltwise.loads import worker_loads

if TYPE_CHECKING:
    from tests.agree import WithConf
    from tests.conftest import SaltwiseLines, WaitFor


@pytest.fixture
def server(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """The address of the Connect server that the session has."""
    if not request.config.getoption("--connect"):
        pytest.skip("there is a server with --connect only")
    port = spark.conf.get("spark.connect.grpc.binding.port")
    return f"sc://localhost:{port}/;token={os.environ['SPARK_CONNECT_AUTHENTICATE_TOKEN']}"


# As with pyspark-client: there is no py4j, and nothing of pyspark that needs it.
WITHOUT_PY4J = """
import json, sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "py4j" or name == "pyspark.core":
            raise ImportError(name)

sys.meta_path.insert(0, Without())

import pandas as pd
from pyspark.sql import SparkSession, functions as F
import saltwise
from saltwise.aggregates import Moments

address, folder = sys.argv[1:]
spark = saltwise.configure(SparkSession.builder.remote(address)).getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 4)
rows = spark.range(1000).selectExpr("if(id % 2 = 0, 0, id % 7) AS k", "id AS v")
rows.createTempView("rows")
rows.write.parquet(f"{folder}/rows")
store = saltwise.PlacementStore(f"{folder}/placement")
totals = saltwise.StatefulAggregate(f"{folder}/totals", "k", {"s": F.sum("v")}, workers=3)
totals.update(rows, batch_id=0)

def whole(group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"k": [group["k"].iloc[0]], "s": [group["v"].sum()]})

def answers(df):
    return sorted(map(list, df.collect()))

found = {
    "stock": answers(rows.groupBy("k").agg(F.sum("v"))),
    "answers": {
        "skew_groupby": answers(rows.skew_groupby("k", strategy="dchoices").agg(F.sum("v"))),
        "hint": answers(spark.sql("SELECT /*+ SKEW_GROUPBY(pkg) */ k, sum(v) FROM rows GROUP BY k")),
        "arrow": answers(rows.skew_groupby("k", engine="arrow").agg(F.sum("v"))),
        "placed": answers(rows.skew_groupby("k", partitions=3).applyInPandas(whole, "k long, s long")),
        "stored": answers(rows.skew_groupby("k", placement=store).applyInPandas(whole, "k long, s long")),
        "aggregator": answers(rows.skew_groupby("k").agg(Moments("v").alias("m")).selectExpr("k", "CAST(round(m.rows * m.mean) AS BIGINT)")),
        "state": answers(totals.state(spark)),
    },
    "status": str(saltwise.status(spark)).splitlines()[:2],
    "workers": store.function.workers,
    "hot": [list(key.key) for key in saltwise.skew_report(rows, "k", partitions=4).hot_keys[:1]],
    "py4j": [name for name in sys.modules if name.startswith("py4j")],
}
try:
    rows.skew_groupby("k", strategy="dchoice")
except saltwise.SaltwiseValueError as error:
    found["refused"] = str(error)
print(json.dumps(found))
"""


@pytest.mark.smoke
def test_a_client_without_py4j_has_everything(server: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PY4J, server, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["answers"] == dict.fromkeys(found["answers"], found["stock"])
    assert found["status"] == ["loaded           True", f"plugin_version   {saltwise.__version__}"]
    assert (found["workers"], found["hot"], found["py4j"]) == (4, [[0]], [])
    assert found["refused"].startswith("strategy is 'dchoice'; it must be one of ")
    assert found["refused"].endswith("did you mean 'dchoices'?")


@pytest.mark.smoke
def test_worker_loads_says_that_connect_has_no_status_store(server: str, spark: SparkSession) -> None:
    with pytest.raises(SaltwiseError) as error:
        worker_loads(spark, list)
    assert str(error.value) == (
        "worker_loads reads Spark's status store, which a Connect session does not have: use a classic session."
    )


def test_configure_leaves_a_server_elsewhere_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    options = saltwise.configure(SparkSession.builder.remote("sc://host:15002"))._options
    assert options == {"spark.remote": "sc://host:15002"}
    monkeypatch.setenv("SPARK_REMOTE", "sc://host:15002")
    assert saltwise.configure(SparkSession.builder)._options == {}


def test_a_hint_on_a_dataframe_is_for_the_aggregate_that_follows(
    spark: SparkSession, saltwise_lines: SaltwiseLines
) -> None:
    counted = spark.range(100).groupBy((F.col("id") % 3).alias("k")).agg(F.collect_list("id").alias("ids"))
    assert saltwise_lines(counted.hint("skew_groupby", "pkg").select("k")) == []


@pytest.mark.smoke
@pytest.mark.usefixtures("server")
def test_a_stream_over_connect_is_routed_and_reports_its_batches(
    spark: SparkSession, tmp_path: Path, wait_for: WaitFor, with_conf: WithConf
) -> None:
    rows = spark.range(1000).selectExpr("if(id % 2 = 0, 'hot', cast(id % 7 as string)) AS k", "id AS v")
    for part in range(2):
        rows.where(f"id % 2 = {part} OR k = 'hot'").coalesce(1).write.mode("append").parquet(str(tmp_path / "rows"))
    heard: list[saltwise.SkewBatch] = []
    ended: list[object] = []

    class Listener(saltwise.SkewListener):
        def onQueryTerminated(self, event: object) -> None:
            ended.append(event)

    listener = Listener(heard.append)
    spark.streams.addListener(listener)
    try:
        stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows"))
        grouped = saltwise.skew_groupby(stream, "k", strategy="wchoices", partitions=4)
        writer = grouped.agg(F.sum("v").alias("s")).writeStream.format("memory").outputMode("complete")
        writer = writer.queryName("streamed").option("checkpointLocation", str(tmp_path / "checkpoint"))
        with with_conf({"spark.saltwise.report.keys": True}):
            query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        # The last event of all: pyspark's client removes no listener while one is on its way, and waits for ever.
        wait_for(lambda: len(ended) == 1)
    finally:
        spark.streams.removeListener(listener)

    stock = spark.read.parquet(str(tmp_path / "rows")).groupBy("k").agg(F.sum("v").alias("s"))
    assert sorted(spark.table("streamed").collect()) == sorted(stock.collect())
    assert saltwise.skew_batches(query) == heard
    assert [(batch.batch, batch.hot[0][0], batch.max_to_mean) for batch in heard] == [(0, "hot", 1.0), (1, "hot", 1.0)]
