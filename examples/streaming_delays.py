"""Flights that stream in month by month: the delays of each destination so far, and the hottest one of each month.

Run it with: python examples/streaming_delays.py (needs pip install 'saltwise[demo]').
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import datasets


def main(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    spark.conf.set("spark.saltwise.report.keys", True)  # names of airports instead of their hashes
    # Spark maintains the states of a stopped stream for a while, so it may write while the folder is removed.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        flights = datasets.as_dataframe(spark, datasets.flights(), folder, "flights")
        months = str(Path(folder, "months"))
        for month in range(1, 5):
            flights.where(f"month = {month}").repartition(1).write.mode("append").parquet(months)

        stream = spark.readStream.schema(flights.schema).option("maxFilesPerTrigger", 1).parquet(months)
        delays = stream.skew_groupby("dest", strategy="dchoices", partitions=8).agg(
            F.percentile_approx("dep_delay", 0.99).alias("p99"), F.count("*").alias("flights")
        )
        writer = delays.writeStream.format("memory").queryName("delays").outputMode("complete")
        query = writer.option("checkpointLocation", str(Path(folder, "checkpoint"))).trigger(availableNow=True).start()
        query.awaitTermination()

        for batch in saltwise.skew_batches(query):
            print(batch)
        spark.table("delays").orderBy("p99", ascending=False).show(5)


if __name__ == "__main__":
    session = saltwise.configure(SparkSession.builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    main(session)
