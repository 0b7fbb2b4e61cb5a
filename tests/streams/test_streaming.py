"""Aggregates of streams: the answers of a batch run, whatever happens in between, and what each batch tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState

import saltwise
from saltwise.spark.reports.stream_metrics import SkewBatch
from saltwise.strategies import ROUTING

if TYPE_CHECKING:
    from tests.agree import WithConf
    from tests.conftest import WaitFor

pytestmark = pytest.mark.classic("look into a sink of the client's")

Answer = dict[tuple[Any, ...], tuple[Any, ...]]

# Of the strategies that look at the rows before, D-Choices keeps most of them.
FEW = ("dchoices", "split")
ROUTED = [name if name in FEW else pytest.param(name, marks=pytest.mark.full) for name in (*ROUTING, "split")]
N = 4
MINUTES = 60_000_000


class Source:
    """A folder of Parquet files, one a micro-batch of ten minutes."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._rng = np.random.default_rng(1)
        self.files = 0
        folder.mkdir()

    def add(self, rows: int = 1000, rotate: int = 0, late: int = 0) -> None:
        """Write the next file: Zipf keys, of which `rotate` says which is the hottest, some of them `late` batches late."""
        rank = self._rng.zipf(1.5, rows) % 50
        batch = self.files - np.where(self._rng.random(rows) < 0.2, late, 0)
        self.write([None if k == 49 else f"key {k}" for k in (rank + rotate) % 50], batch)

    def write(self, keys: list[str | None], batch: Any = None) -> None:
        size = len(keys)
        minutes = 10 * (self.files if batch is None else batch) + self._rng.uniform(0, 10, size)
        start = 1_767_225_600_000_000  # the beginning of 2026
        table = pa.table(
            {
                "k": pa.array(keys, pa.string()),
                "v": self._rng.integers(0, 100, size),
                "t": pa.array((start + minutes * MINUTES).astype("int64"), pa.timestamp("us", tz="UTC")),
            }
        )
        unfinished, path = self._folder / ".unfinished", self._folder / f"{self.files:05d}.parquet"
        pq.write_table(table, unfinished)
        os.utime(unfinished, (self.files, self.files))  # the order in which Spark reads them
        unfinished.rename(path)
        self.files += 1

    def stream(self) -> DataFrame:
        reader = self._spark.readStream.schema("k string, v bigint, t timestamp").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self._folder))

    def table(self) -> DataFrame:
        return self._spark.read.schema("k string, v bigint, t timestamp").parquet(str(self._folder))


class Sink:
    """Keeps what each batch gave, by its number: a batch that runs again replaces what it gave before."""

    def __init__(self, mode: str, keys: int) -> None:
        self.mode, self._keys = mode, keys
        self.batches: dict[int, list[tuple[Any, ...]]] = {}
        self.stop_at: set[tuple[int, str]] = set()
        self.repeated = 0

    def __call__(self, df: DataFrame, batch: int) -> None:
        self._stop(batch, "before")
        rows = sorted((tuple(row) for row in df.collect()), key=repr)
        if batch in self.batches:
            self.repeated += 1
            assert rows == self.batches[batch], f"batch {batch} gave another answer when it ran again"
        self.batches[batch] = rows
        self._stop(batch, "after")

    def _stop(self, batch: int, when: str) -> None:
        if (batch, when) in self.stop_at:
            self.stop_at.remove((batch, when))
            raise RuntimeError("stopped by the test")

    def answer(self) -> Answer:
        """What the stream says of each key in the end."""
        last = max(self.batches)
        rows = [
            row
            for batch in sorted(self.batches)
            for row in self.batches[batch]
            if self.mode != "complete" or batch == last
        ]
        found: Answer = {}
        for row in rows:
            assert self.mode == "update" or row[: self._keys] not in found, f"{row[: self._keys]} came twice"
            found[row[: self._keys]] = row[self._keys :]
        return found


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path / "source")


@pytest.fixture(autouse=True)
def _few_states(with_conf: WithConf) -> Any:
    # For few rows, to compile a query takes longer than to run it.
    codegen = {"spark.sql.codegen.wholeStage": False, "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    with with_conf({"spark.sql.shuffle.partitions": 2, **codegen}):
        yield


def run(df: DataFrame, sink: Sink, checkpoint: Path) -> StreamingQuery:
    """Read all that is there, and start again wherever the test stops the stream."""
    while True:
        writer = df.writeStream.foreachBatch(sink).outputMode(sink.mode).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            query.awaitTermination()
            return query
        except StreamingQueryException as error:
            if "stopped by the test" not in str(error):
                raise


def aggregates(grouped: Any) -> DataFrame:
    return grouped.agg(  # type: ignore[no-any-return]
        F.count("*").alias("n"),
        F.sum("v").alias("sum"),
        F.max("v").alias("max"),
        F.sort_array(F.collect_set("v")).alias("set"),
        F.percentile_approx("v", 0.5, 1_000_000).alias("median"),
    )


def answer_of(df: DataFrame, keys: int) -> Answer:
    return {tuple(row)[:keys]: tuple(row)[keys:] for row in df.collect()}


def by_key(df: DataFrame, **options: Any) -> DataFrame:
    return aggregates(saltwise.skew_groupby(df, "k", **options) if options else df.groupBy("k"))


def by_window(df: DataFrame, **options: Any) -> DataFrame:
    keys: list[Column | str] = [F.window("t", "20 minutes", "10 minutes"), "k"]
    df = df.withWatermark("t", "15 minutes")
    return aggregates(saltwise.skew_groupby(df, *keys, **options) if options else df.groupBy(*keys))


def by_session(df: DataFrame, **options: Any) -> DataFrame:
    keys: list[Column | str] = [F.session_window("t", "30 seconds"), "k"]
    df = df.withWatermark("t", "15 minutes")
    return aggregates(saltwise.skew_groupby(df, *keys, **options) if options else df.groupBy(*keys))


@pytest.mark.parametrize("strategy", ROUTED)
def test_a_stream_gives_the_answers_of_a_batch_run(source: Source, tmp_path: Path, strategy: str) -> None:
    for batch in range(2):
        source.add(rotate=batch)
    sink = Sink("update", keys=1)

    run(by_key(source.stream(), strategy=strategy, partitions=N), sink, tmp_path / "checkpoint")

    assert sink.answer() == answer_of(by_key(source.table()), 1)


@pytest.mark.parametrize(
    ("mode", "grouped"),
    [
        ("update", by_window),
        ("append", by_session),
        pytest.param("complete", by_window, marks=pytest.mark.full),
        pytest.param("append", by_window, marks=pytest.mark.full),
        pytest.param("complete", by_session, marks=pytest.mark.full),
        # Spark has no update mode for sessions.
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_windows_late_rows_and_output_modes_are_those_of_stock(
    source: Source, tmp_path: Path, grouped: Any, mode: str
) -> None:
    for batch in range(4):
        source.add(rows=400, rotate=batch, late=3)
    stock, ours = Sink(mode, keys=2), Sink(mode, keys=2)

    run(grouped(source.stream()), stock, tmp_path / "stock")
    query = run(grouped(source.stream(), strategy="dchoices", partitions=N), ours, tmp_path / "ours")

    assert ours.batches == stock.batches
    assert [batch.rows > 0 for batch in saltwise.skew_batches(query)].count(True) == 4
    assert len(stock.answer()) > 0


def test_a_checkpoint_goes_on_with_saltwise_on_and_off(source: Source, tmp_path: Path) -> None:
    sink = Sink("update", keys=1)
    for options in {}, {"strategy": "dchoices", "partitions": N}, {}:
        source.add()
        run(by_key(source.stream(), **options), sink, tmp_path / "checkpoint")

    assert sorted(sink.batches) == [0, 1, 2]
    assert sink.answer() == answer_of(by_key(source.table()), 1)


@pytest.mark.parametrize(
    ("batches", "stops"),
    [
        (6, {1: "before", 3: "after", 4: "after", 5: "after"}),
        pytest.param(
            200,
            {17: "before", 40: "after", 41: "after", 90: "before", 133: "after", 199: "after"},
            marks=pytest.mark.full,
        ),
    ],
    ids=["6", "200"],
)
def test_drifting_batches_with_stops_and_restarts_lose_and_repeat_nothing(
    source: Source, tmp_path: Path, batches: int, stops: dict[int, str]
) -> None:
    sink = Sink("update", keys=1)
    # A stop after the sink has all, and before Spark notes it, runs the batch a second time, with another head known.
    sink.stop_at = set(stops.items())
    df = by_key(source.stream(), strategy="dchoices", partitions=N)
    for batch in range(batches):
        source.add(rows=300, rotate=batch * 10 // batches)

    run(df, sink, tmp_path / "checkpoint")

    assert sorted(sink.batches) == list(range(batches))
    assert not sink.stop_at
    assert sink.repeated == [*stops.values()].count("after")
    assert sink.answer() == answer_of(by_key(source.table()), 1)


SHOWN = {"spark.saltwise.report.keys": True}


def test_progress_has_hashes_of_hot_keys_unless_their_values_are_allowed(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        source.add(rows=5000)
    [[hashed]] = source.table().sparkSession.sql("SELECT xxhash64('key 1')").collect()
    df = by_key(source.stream(), strategy="dchoices", partitions=8)

    query = run(df, Sink("update", keys=1), tmp_path / "checkpoint")

    assert [batch.hot[0][0] for batch in saltwise.skew_batches(query) if batch.rows] == [hashed, hashed]
    assert "key 1" not in str(query.recentProgress)
    query.explain()
    assert "hot keys known: " in capsys.readouterr().out


def test_a_head_that_drifts_is_followed_and_every_batch_is_balanced(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str], wait_for: WaitFor, with_conf: WithConf
) -> None:
    for batch in range(4):
        source.add(rows=5000, rotate=10 * (batch // 2))
    heard: list[SkewBatch] = []
    session = source.table().sparkSession
    listener = saltwise.SkewListener(heard.append)
    session.streams.addListener(listener)
    try:
        df = by_window(source.stream(), strategy="dchoices", partitions=8)
        with with_conf(SHOWN):
            query = run(df, Sink("update", keys=2), tmp_path / "checkpoint")
        batches = [batch for batch in saltwise.skew_batches(query) if batch.rows]
        wait_for(lambda: len([batch for batch in heard if batch.rows]) == 4)
    finally:
        session.streams.removeListener(listener)

    assert [batch for batch in heard if batch.rows] == batches
    assert [batch.hot[0][0] for batch in batches] == ["key 1", "key 1", "key 11", "key 11"]
    assert [batch.batch for batch in batches] == [0, 1, 2, 3]
    assert all(batch.share(batch.hot[0][0]) == pytest.approx(0.38, abs=0.03) for batch in batches)
    assert all(4 <= batch.choices <= 8 and batch.workers == 8 and batch.strategy == "dchoices" for batch in batches)
    assert max(batch.max_to_mean for batch in batches) < 1.05
    capsys.readouterr()
    query.explain()
    plan = capsys.readouterr().out
    assert "SkewRoute [k#" in plan, "the window is no part of the key"
    assert "hot keys known: " in plan


LOCAL_TIME = "timestamp_ntz'2026-01-01 00:00:00' + make_dt_interval(0, 0, cast(v as int))"
KEYS_OF_EACH_TYPE = [
    "k",
    "cast(v as int)",
    "cast(v as decimal(10, 2))",
    "cast(v as double)",
    "cast(k as binary)",
    "named_struct('a', k, 'b', v)",
    "array(k)",
    "timestamp_seconds(v)",
    "date_add(date'2026-01-01', cast(v as int))",
    LOCAL_TIME,
]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(f"struct({', '.join(KEYS_OF_EACH_TYPE)})", id="all of them"),
        *(pytest.param(key, marks=pytest.mark.full) for key in KEYS_OF_EACH_TYPE),
    ],
)
def test_the_next_batch_knows_a_hot_key_of_any_type_at_once(
    spark: SparkSession, source: Source, tmp_path: Path, with_conf: WithConf, key: str
) -> None:
    if spark.version < "4":
        if key == LOCAL_TIME:
            pytest.skip("Spark 3.5 cannot show such a key, and leaves it alone")
        key = key.replace(f", {LOCAL_TIME}", "")
    source.write(["UA"] * 1000)
    source.write(["UA"] * 15)  # too few to make a key hot by themselves
    df = source.stream().withColumn("v", F.lit(7)).select(F.expr(key).alias("key"), "v")
    grouped = df.skew_groupby("key", strategy="wchoices", partitions=5)

    with with_conf(SHOWN):
        query = run(grouped.agg(F.max("v")), Sink("update", keys=1), tmp_path / "checkpoint")

    first, second = saltwise.skew_batches(query)
    assert [count for _, count in first.hot] == [1000]
    assert (second.rows, second.max_rows) == (15, 3)


def test_a_batch_knows_the_head_of_the_newest_batches(source: Source, tmp_path: Path) -> None:
    source.write(["AA"] * 5000)
    source.write(["UA"] * 5000)
    source.write(["UA"] * 15)  # too few to make a key hot by themselves
    grouped = source.stream().skew_groupby("k", strategy="wchoices", partitions=5)

    query = run(grouped.agg(F.max("v")), Sink("update", keys=1), tmp_path / "checkpoint")

    last = saltwise.skew_batches(query)[-1]
    assert (last.rows, last.max_rows) == (15, 3)


def test_a_stream_by_a_key_that_progress_cannot_show_is_left_alone(
    spark: SparkSession, source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str], with_conf: WithConf
) -> None:
    if spark.version >= "4":
        pytest.skip("Spark 4 shows keys of all types that can be sorted")
    source.write(["UA"] * 1000)
    df = source.stream().withColumn("v", F.lit(7)).select(F.expr(LOCAL_TIME).alias("key"), "v")
    grouped = df.skew_groupby("key", strategy="wchoices", partitions=5)

    with with_conf(SHOWN):
        query = run(grouped.agg(F.max("v")), Sink("update", keys=1), tmp_path / "checkpoint")

    query.explain()
    assert "left alone: this Spark cannot show keys of TIMESTAMP_NTZ in a stream's progress" in capsys.readouterr().out
    assert query.lastProgress is not None


def test_each_aggregate_of_a_stream_has_metrics_of_its_own(source: Source, tmp_path: Path, with_conf: WithConf) -> None:
    for _ in range(3):
        source.add()
    rows = source.stream().withWatermark("t", "1 minute").withColumn("even", F.col("v") % 2 == 0)
    per_window = saltwise.skew_groupby(
        rows, F.window("t", "10 minutes"), "k", "even", strategy="wchoices", partitions=N
    ).agg(F.count("*").alias("n"))
    totals = saltwise.skew_groupby(
        per_window, F.window("window", "20 minutes"), "even", strategy="pkg", partitions=3
    ).agg(F.sum("n").alias("n"))

    with with_conf(SHOWN):
        query = run(totals, Sink("append", keys=2), tmp_path / "checkpoint")

    batches = [batch for batch in saltwise.skew_batches(query) if batch.rows]
    assert {(batch.name, batch.strategy, batch.workers) for batch in batches} == {
        ("saltwise", "wchoices", 4),
        ("saltwise.2", "pkg", 3),
    }
    key = next(batch.hot[0][0] for batch in batches if batch.name == "saltwise")
    assert sorted(key) == ["even", "k"]


def test_rows_from_a_shuffle_are_put_into_a_repeatable_order(
    source: Source, tmp_path: Path, with_conf: WithConf
) -> None:
    for batch in range(2):
        source.add(rotate=batch)
    session = source.table().sparkSession
    names = session.range(50).select(F.format_string("key %d", "id").alias("k"), (F.col("id") % 3).alias("group"))
    sink = Sink("update", keys=1)

    with with_conf({"spark.sql.autoBroadcastJoinThreshold": -1}):
        rows = source.stream().join(names, "k")
        joined = saltwise.skew_groupby(rows, "group", strategy="dchoices", partitions=N)
        query = run(aggregates(joined), sink, tmp_path / "checkpoint")

    assert sink.answer() == answer_of(aggregates(source.table().join(names, "k").groupBy("group")), 1)
    assert max(batch.max_to_mean for batch in saltwise.skew_batches(query)) < 1.05


def test_the_toggle_routes_streams_too_and_hot_keys_can_be_given(
    source: Source, tmp_path: Path, with_conf: WithConf
) -> None:
    source.add()
    sink = Sink("complete", keys=1)
    confs = {
        "spark.saltwise.enabled": "true",
        "spark.saltwise.strategy": "wchoices",
        "spark.saltwise.partitions": N,
        "spark.saltwise.hot": '[{"key": ["key 1"], "share": 0.4}]',
    }

    with with_conf(confs | SHOWN):
        query = run(by_key(source.stream()), sink, tmp_path / "checkpoint")

    [batch] = saltwise.skew_batches(query)
    assert (batch.strategy, batch.workers, batch.hot[0][0]) == ("wchoices", N, "key 1")
    assert sink.answer() == answer_of(by_key(source.table()), 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"strategy": "auto"},
            "the map side of a streaming aggregate already combines; name a strategy to route its rows",
        ),
        (
            {"strategy": "offgreedy"},
            "strategy offgreedy has no plan for streams: Spark keeps the states of streams by its own hash",
        ),
        ({"strategy": "pkg", "partitions": 1}, "there is one partition, so there is nothing to balance"),
        pytest.param(
            {"strategy": "local"},
            "strategy local has no plan for streams: Spark keeps the states of streams by its own hash",
            marks=pytest.mark.full,
        ),
    ],
    ids=["auto", "offgreedy", "one partition", "local"],
)
def test_a_stream_that_is_left_alone_says_why(
    source: Source, tmp_path: Path, options: dict[str, Any], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source.add(rows=100)
    sink = Sink("complete", keys=1)

    query = run(by_key(source.stream(), **options), sink, tmp_path / "checkpoint")

    query.explain()
    assert f"SkewGroupBy left alone: {reason}" in capsys.readouterr().out
    assert saltwise.skew_batches(query) == []
    assert sink.answer() == answer_of(by_key(source.table()), 1)


def test_functions_with_a_state_of_their_own_are_left_alone(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def count(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        state.update(((state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames),))
        yield pd.DataFrame({"k": [key[0]], "n": [state.get[0]]})

    for _ in range(2):
        source.add(rows=100)
    sink = Sink("update", keys=1)
    grouped = source.stream().skew_groupby("k", strategy="offgreedy")
    counts = grouped.applyInPandasWithState(count, "k string, n bigint", "n bigint", "update", "NoTimeout")

    query = run(counts, sink, tmp_path / "checkpoint")

    query.explain()
    assert "SkewGroupBy left alone: Spark keeps the states of streams by its own hash" in capsys.readouterr().out
    assert sink.answer() == answer_of(source.table().groupBy("k").count(), 1)


def test_streams_are_untouched_with_saltwise_off(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source.add(rows=100)

    query = run(by_key(source.stream()), Sink("complete", keys=1), tmp_path / "checkpoint")

    query.explain()
    assert "Skew" not in capsys.readouterr().out
