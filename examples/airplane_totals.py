"""Running totals of real flights by airplane: batch by batch, exactly once, first on 8 and then on 12 workers.

Run it with: python examples/airplane_totals.py (needs pip install 'saltwise[demo,simulate]').
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import datasets

MONTHS = range(1, 5)


def main(spark: SparkSession) -> None:
    with TemporaryDirectory() as folder:
        flights = datasets.as_dataframe(spark, datasets.flights(), folder, "flights")
        totals = saltwise.StatefulAggregate(
            Path(folder, "totals"),
            "tailnum",
            {"flights": F.count("*"), "miles": F.sum("distance"), "destinations": F.collect_set("dest")},
            workers=8,
        )

        # With a stream, Spark calls totals.update: flights.writeStream.foreachBatch(totals.update).
        for number, month in enumerate(MONTHS):
            if month == 3:
                totals.rescale(12)
            totals.update(flights.where(F.col("month") == month), number)
            print(f"\nMonth {month}:\n{totals.report}")

        # If a batch comes again because the driver was lost, nothing changes.
        totals.update(flights.where(F.col("month") == MONTHS[-1]), len(MONTHS) - 1)

        state = totals.state(spark)
        state.orderBy(F.desc("miles")).select("tailnum", "flights", "miles", F.size("destinations")).show(5)
        stock = flights.where(F.col("month").isin(*MONTHS)).groupBy("tailnum").agg(F.count("*"), F.sum("distance"))
        assert state.select("tailnum", "flights", "miles").exceptAll(stock).isEmpty()
        print("The totals equal those of one aggregate over all months.")


if __name__ == "__main__":
    session = saltwise.configure(SparkSession.builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    main(session)
