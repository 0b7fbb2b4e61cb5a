"""Delays of 336,776 real flights by carrier, with df.skew_groupby. No task gets more than its share.

Run it with: python examples/flights_delays.py (needs pip install 'saltwise[demo]').
"""

from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import datasets

WORKERS = 16


def main(spark: SparkSession) -> None:
    with TemporaryDirectory() as folder:
        flights = datasets.as_dataframe(spark, datasets.flights(), folder, "flights")

        # Which keys are hot, and how evenly would each strategy spread the rows?
        report = saltwise.skew_report(flights, "carrier", partitions=WORKERS)
        print(report)

        # The same methods as after groupBy, and the same answers.
        delays = (
            flights.skew_groupby("carrier", strategy="dchoices", partitions=WORKERS)
            .agg(
                F.count("*").alias("flights"),
                F.count_if(F.col("dep_delay").isNull()).alias("cancelled"),
                F.median("dep_delay").alias("median delay"),
                F.percentile("dep_delay", F.lit(0.9)).alias("9 of 10 below"),
            )
            .orderBy(F.desc("9 of 10 below"))
        )
        print("\nMinutes of delay at departure:")
        delays.show()

        # The hot keys of a report can route later runs. Then every retry sends rows to the same workers.
        again = flights.skew_groupby("carrier", strategy="dchoices", partitions=WORKERS, hot=report)
        busiest = again.agg(F.mode("dest").alias("favourite")).orderBy("carrier").first()
        assert busiest is not None
        print(f"{busiest['carrier']} flies most often to {busiest['favourite']}.")


if __name__ == "__main__":
    session = saltwise.configure(SparkSession.builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    main(session)
