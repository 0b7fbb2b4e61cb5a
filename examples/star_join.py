"""A join and sums over flights, airplanes and airlines: rows are combined below the join.

Run it with: python examples/star_join.py (needs pip install 'saltwise[demo]').
"""

from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

import saltwise
from saltwise import datasets

# The hint stands for a table of airplanes that is too large to broadcast.
QUERY = """
    SELECT /*+ MERGE(planes) */ name, manufacturer, count(*) AS flights, sum(distance) AS miles
    FROM flights JOIN planes USING (tailnum) JOIN airlines USING (carrier)
    GROUP BY name, manufacturer
    ORDER BY miles DESC LIMIT 3
"""


def main(spark: SparkSession) -> None:
    with TemporaryDirectory() as folder:
        for name in ("flights", "planes", "airlines"):
            datasets.as_dataframe(spark, getattr(datasets, name)(), folder, name)
        stock = spark.sql(QUERY).collect()

        spark.conf.set("spark.saltwise.enabled", "true")
        # auto leaves inputs as small as these alone.
        spark.conf.set("spark.saltwise.auto.smallInput", "0")
        spark.sql(QUERY).show(truncate=False)
        print("The answers are the same." if spark.sql(QUERY).collect() == stock else "The answers differ!")
        print(saltwise.explain(spark, QUERY).reason)


if __name__ == "__main__":
    session = saltwise.configure(SparkSession.builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    main(session)
