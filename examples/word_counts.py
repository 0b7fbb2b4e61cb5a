"""Words as frequent as in English, in SQL: the functions, the hint, and two phases written by hand.

Run it with: python examples/word_counts.py (needs pip install 'saltwise[demo]').
"""

from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

import saltwise
from saltwise import datasets

HEAVY_HITTERS = """
    SELECT top.item AS word, top.count, top.error
    FROM (SELECT explode(heavy_hitters(word, 5)) AS top FROM words)
"""

HINT = """
    SELECT /*+ SKEW_GROUPBY(wchoices, 'partitions=16') */ word, count(*) AS n
    FROM words GROUP BY word ORDER BY n DESC, word LIMIT 5
"""

# The same in two steps by hand, to see each step or to add another aggregate in between.
BY_HAND = """
    WITH routed AS (SELECT word, skew_worker(16, 'wchoices', word) AS worker FROM words),
         partial AS (SELECT word, worker, count(*) AS n FROM routed GROUP BY word, worker)
    SELECT word, sum(n) AS n, count(*) AS workers
    FROM partial GROUP BY word ORDER BY n DESC, word LIMIT 5
"""


def main(spark: SparkSession) -> None:
    with TemporaryDirectory() as folder:
        datasets.as_dataframe(spark, datasets.words(200_000), folder, "words")

        print("The most frequent words; the true count lies between count - error and count:")
        spark.sql(HEAVY_HITTERS).show()

        print("Counted by GROUP BY with the hint:")
        spark.sql(HINT).show()

        print("Counted in two phases, on as many workers as each word needs:")
        spark.sql(BY_HAND).show()


if __name__ == "__main__":
    session = saltwise.configure(SparkSession.builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    main(session)
