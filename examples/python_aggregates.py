"""Aggregates in Python that merge, on 336,776 real flights: your own and the ready-made ones, beside Spark's.

Run it with: python examples/python_aggregates.py (needs pip install 'saltwise[aggregates,demo]').
"""

from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import Aggregator, datasets
from saltwise import aggregates as agg
from saltwise.aggregates.bloom_filter import might_contain
from saltwise.aggregates.histogram import split_points
from saltwise.aggregates.naive_bayes import classify


class HoursOfDay(Aggregator):
    """The number of hours of the day that have rows."""

    returns = "int"

    def zero(self) -> set[int]:
        return set()

    def update(self, state: set[int], batch: pa.RecordBatch) -> set[int]:
        return state | set(pc.unique(batch.column(0)).to_pylist())

    def merge(self, a: set[int], b: set[int]) -> set[int]:
        return a | b

    def finish(self, state: set[int]) -> int:
        return len(state)


@saltwise.aggregator(returns="double", zero=lambda: (0, 0), merge=lambda a, b: (a[0] + b[0], a[1] + b[1]),
                     finish=lambda state: state[0] / state[1])  # fmt: skip
def cancelled(state: tuple[int, int], batch: pa.RecordBatch) -> tuple[int, int]:
    """Share of rows where a column is NULL."""
    return state[0] + batch.column(0).null_count, state[1] + batch.num_rows


def main(spark: SparkSession) -> None:
    with TemporaryDirectory() as folder:
        flights = datasets.as_dataframe(spark, datasets.flights(), folder, "flights")
        own(flights)
        numbers(flights)
        sketches(flights)
        samples(flights)
        models(flights)


def own(flights: DataFrame) -> None:
    print("Your own aggregates, beside Spark's, in one pass:")
    by_carrier = flights.skew_groupby("carrier")
    by_carrier.agg(
        F.count("*").alias("flights"), cancelled("dep_delay").alias("cancelled"), HoursOfDay("hour").alias("hours")
    ).orderBy(F.desc("flights")).show(3)


def numbers(flights: DataFrame) -> None:
    results = flights.skew_groupby("origin").agg(
        agg.Moments("dep_delay").alias("delay"),
        agg.Covariance("dep_delay", "arr_delay").alias("both"),
        agg.LinearRegression("air_time", "distance").alias("line"),
    )
    for row in results.orderBy("origin").collect():
        print(
            f"{row.origin}: {row.delay['rows']:,} departures, {row.delay['mean']:.1f} minutes late; correlation with "
            f"the arrival {row.both['correlation']:.2f}; {60 / row.line['coefficients'][0]:.0f} miles an hour."
        )


def sketches(flights: DataFrame) -> None:
    results = flights.skew_groupby("carrier").agg(
        agg.KllQuantiles("arr_delay", [0.5, 0.9]).alias("kll"),
        agg.TDigestQuantiles("arr_delay", [0.99]).alias("tdigest"),
        agg.ApproxDistinct("tailnum").alias("planes"),
        agg.HeavyHitters("dest", k=1).alias("places"),
        agg.BloomFilter("dest", items=200, fpp=0.001).alias("known"),
    )
    row = results.where("carrier = 'UA'").first()
    assert row is not None
    print(
        f"UA: median delay {row.kll[0]:.0f}, 9 of 10 below {row.kll[1]:.0f}, 99 of 100 below {row.tdigest[0]:.0f} "
        f"minutes; about {row.planes} planes; most often to {row.places[0]['item']}; "
        f"to San Francisco: {might_contain(row.known, 'SFO')}, to Hilo: {might_contain(row.known, 'ITO')}."
    )


def samples(flights: DataFrame) -> None:
    results = flights.skew_groupby("origin").agg(
        agg.TopK("dep_delay", "tailnum", k=2, returns="array<struct<dep_delay: int, tailnum: string>>").alias("latest"),
        agg.ReservoirSample("dest", 3, returns="array<string>").alias("some"),
    )
    for row in results.orderBy("origin").collect():
        latest = ", ".join(f"{entry['tailnum']} by {entry['dep_delay']} minutes" for entry in row.latest)
        print(f"{row.origin}: latest {latest}; some went to {', '.join(row.some)}.")


def models(flights: DataFrame) -> None:
    rated = flights.dropna(subset=["arr_delay"]).withColumn(
        "late", F.when(F.col("arr_delay") > 15, "late").otherwise("ok")
    )
    results = rated.skew_groupby().agg(
        agg.NaiveBayes("late", "carrier", "origin", "hour").alias("counts"),
        agg.StreamingHistogram("hour", bins=20).alias("hours"),
    )
    [row] = results.collect()
    for hour in (6, 21):
        flight = {"carrier": "EV", "origin": "EWR", "hour": hour}
        print(f"A flight of EV from Newark at {hour} o'clock is likely {classify(row.counts, flight)}.")
    hours = ", ".join(f"{point:.1f}" for point in split_points(row.hours, 4))
    print(f"A tree would first try to split the hours at {hours}.")


if __name__ == "__main__":
    session = saltwise.configure(SparkSession.builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    main(session)
