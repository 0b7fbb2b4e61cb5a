"""Airplanes stay on their worker from month to month: a store keeps the partition function of 336,776 real flights.

Run it with: python examples/place_and_stay.py (needs pip install 'saltwise[demo,simulate]').
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

import saltwise
from saltwise import datasets


def main(spark: SparkSession) -> None:
    with TemporaryDirectory() as folder:
        flights = datasets.as_dataframe(spark, datasets.flights(), folder, "flights")

        # Each month is a separate run; they share only the folder. From April on there are more workers.
        for month, workers in enumerate((8, 8, 8, 9, 9), start=1):
            store = saltwise.PlacementStore(Path(folder, "placement"))
            found = saltwise.weights_of(flights.where(f"month = {month}"), "tailnum", capacity=400)
            placement = store.plan(found, workers)
            print(f"\nMonth {month}, {found.total:,.0f} flights:\n{placement}")
        assert store.function == placement.function
        print("The next run continues with this function.")


if __name__ == "__main__":
    session = saltwise.configure(SparkSession.builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    main(session)
