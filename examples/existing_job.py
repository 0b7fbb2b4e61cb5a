"""One conf makes an existing job skew-safe, without a change to its code.

Run it with: python examples/existing_job.py (needs pip install 'saltwise[demo]'). Any job runs like this with
    spark-submit --jars "$(python -c 'import saltwise; print(saltwise.jar_path())')" \
        --conf spark.sql.extensions=org.apache.spark.sql.saltwise.SaltwiseExtensions \
        --conf spark.saltwise.enabled=true job.py
"""

from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import datasets
from saltwise.loads import worker_loads


def job(spark: SparkSession) -> DataFrame:
    """The existing job. Its code does not mention Saltwise."""
    flights = spark.table("flights").where("dep_delay IS NOT NULL")
    by_origin = flights.groupBy("origin").agg(
        F.count("*").alias("flights"),
        F.median("dep_delay").alias("median"),
        F.size(F.collect_set("tailnum")).alias("aircraft"),
    )
    return by_origin.orderBy("origin")


def main(spark: SparkSession) -> None:
    with TemporaryDirectory() as folder:
        datasets.as_dataframe(spark, datasets.flights(), folder, "flights")
        before = job(spark).collect()

        spark.conf.set("spark.saltwise.enabled", "true")
        # auto leaves an input as small as this alone, and EXPLAIN says so.
        spark.conf.set("spark.saltwise.strategy", "split")
        spark.conf.set("spark.saltwise.partitions", "12")
        ours = job(spark)
        after = worker_loads(spark, ours.collect)

        ours.show()
        print("The answers are the same." if after.result == before else "The answers differ!")
        print(f"Three airports, 12 workers: the fullest got {after.max_to_mean:.2f} times the mean.")
        print("Rows of each worker:", *after.rows)


if __name__ == "__main__":
    session = saltwise.configure(SparkSession.builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    main(session)
