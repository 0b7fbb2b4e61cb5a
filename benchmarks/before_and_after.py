"""Draws docs/images/before-and-after.svg: flights by carrier on 50 workers, by key and by D-Choices.

Run it with: python benchmarks/before_and_after.py (needs pip install 'saltwise[demo]').
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import saltwise
from saltwise import datasets
from saltwise.loads import WorkerLoads, worker_loads

WORKERS = 50
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "before-and-after.svg"


def measured(spark: SparkSession) -> tuple[WorkerLoads, WorkerLoads]:
    """Return the rows behind each partition of a shuffle by key, and the rows of each worker of D-Choices."""
    with TemporaryDirectory() as folder:
        flights = datasets.as_dataframe(spark, datasets.flights(), folder, "flights")
        by_key = flights.select("carrier").repartition(WORKERS, "carrier")
        before = worker_loads(spark, lambda: by_key.write.format("noop").mode("overwrite").save())
        medians = flights.skew_groupby("carrier", strategy="dchoices", partitions=WORKERS).agg(F.median("dep_delay"))
        return before, worker_loads(spark, medians.collect)


def draw(before: WorkerLoads, after: WorkerLoads, path: Path) -> None:
    """Draw one above the other, so that the picture can also be read on a phone."""
    # Text stays text, and every run writes the same file.
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "saltwise", "font.size": 12}
    figure = Figure(figsize=(7, 5), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True, sharey=True)
    titles = ("GROUP BY carrier in Spark", "the same with skew_groupby (dchoices)")
    for axes, load, colour, title in zip(panels, (before, after), ("#b4452c", "#1f6f8b"), titles, strict=True):
        axes.bar(range(len(load.rows)), load.rows, width=0.85, color=colour)
        axes.axhline(load.mean, color="#333333", linewidth=1.2, linestyle=(0, (4, 3)))
        fullest = f"the fullest worker has {load.max_to_mean:.1f} times the mean"
        axes.set_title(f"{title}:\n{fullest}", fontsize=13, color=colour, loc="left")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda rows, _: f"{rows:,.0f}"))
        axes.set_ylabel("rows")
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.01)
    panels[1].set_xlabel(f"worker 0 to {len(after.rows) - 1}; the dashed line is the mean")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    session = saltwise.configure(SparkSession.builder.master("local[2]")).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    draw(*measured(session), PICTURE)
    print(f"Picture: {PICTURE}")
