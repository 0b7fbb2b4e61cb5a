"""Every kind of aggregate, on every kind of skew, with every plan: what `auto` is worth, and where it loses.

    python benchmarks/grid.py [--quick] [--rows 2000000] [--kinds sum_count,median,...] [--skews z=0.8,...]
                              [--plans stock,auto,...] [--rounds 3] [--out build/benchmarks/grid.csv]

Two cores, adaptive execution on, 32 shuffle partitions, 16 map tasks; the plans of a cell run in turn, after one round
that does not count. A cell's figures are medians: seconds and their ratio to stock's; and of one run the bytes and
records shuffled, the largest task, the peak memory of a task, and the makespan that list scheduling gives its tasks on
more cores, stage by stage: what skew costs on a cluster.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import CACHE, console, parquet_folder, session, zipf_keys
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.progress import track
from rich.table import Table

from saltwise import skew_groupby
from saltwise.loads import measured_tasks

KEYS = 1_000_000
CORES = (8, 32, 128, 512)

KINDS: dict[str, Callable[[], list[Column]]] = {
    "sum_count": lambda: [F.sum("v"), F.count("*")],
    "max_string": lambda: [F.max("s")],
    "approx_count_distinct": lambda: [F.approx_count_distinct("v")],
    "hll": lambda: [F.hll_sketch_agg("v")],
    "percentile_approx": lambda: [F.percentile_approx("v", 0.5)],
    "median": lambda: [F.median("v")],
    "mode": lambda: [F.mode("v")],
    "collect_set": lambda: [F.collect_set("v")],
    "max_by": lambda: [F.max_by("s", "v")],
}

SKEWS: dict[str, Callable[[int], np.ndarray]] = {
    "uniform": lambda rows: np.random.default_rng(1).integers(0, KEYS, rows),
    "z=0.8": lambda rows: zipf_keys(rows, KEYS, 0.8),
    "z=1.2": lambda rows: zipf_keys(rows, KEYS, 1.2),
    "z=1.6": lambda rows: zipf_keys(rows, KEYS, 1.6),
    "z=2.0": lambda rows: zipf_keys(rows, KEYS, 2.0),
    "one key 30%": lambda rows: np.where(np.random.default_rng(3).random(rows) < 0.3, -1, SKEWS["uniform"](rows)),
    "NULL 50%": lambda rows: np.where(np.random.default_rng(4).random(rows) < 0.5, -2, SKEWS["uniform"](rows)),
    "20 keys": lambda rows: np.random.default_rng(5).integers(0, 20, rows),
    "all distinct": lambda rows: np.random.default_rng(6).permutation(rows),
    "10^4 rows": lambda rows: zipf_keys(10_000, KEYS, 1.2),
}

BYPASS = "spark.sql.execution.bypassPartialAggregation"
OURS = ("shuffle", "pkg", "dchoices", "wchoices", "split", "local", "auto")
PLANS = ("stock", "bypass", "rebalance", "salted", *OURS)
QUICK = {
    "kinds": ["sum_count", "percentile_approx", "collect_set"],
    "skews": ["uniform", "z=0.8", "z=1.6", "20 keys"],
    "plans": ["stock", "bypass", "split", "local", "auto"],
}


@dataclass
class Cell:
    """What one plan did in one cell of the grid."""

    kind: str
    skew: str
    plan: str
    seconds: float
    ratio: float
    bytes_shuffled: int
    records_shuffled: int
    largest_task_ms: int
    peak_memory: int
    makespans: dict[int, float]

    def row(self) -> dict[str, object]:
        fields = {name: value for name, value in vars(self).items() if name != "makespans"}
        return fields | {f"makespan_{cores}_ms": ms for cores, ms in self.makespans.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int)
    for name, all_of in (("kinds", KINDS), ("skews", SKEWS), ("plans", PLANS)):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), help=", ".join(all_of))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--out", type=Path, default=CACHE / "grid.csv")
    given = parser.parse_args()
    rows = given.rows or (1_000_000 if given.quick else 2_000_000)
    kinds, skews, plans = (
        getattr(given, name) or (QUICK[name] if given.quick else list(all_of))
        for name, all_of in (("kinds", KINDS), ("skews", SKEWS), ("plans", PLANS))
    )
    spark = session(
        spark__sql__adaptive__enabled="true",
        spark__sql__shuffle__partitions="32",
        spark__sql__files__maxPartitionBytes=f"{max(rows * 2, 65536)}",
    )
    cells = []
    for skew, kind in track([(s, k) for s in skews for k in kinds], "grid", console=console, transient=True):
        df = spark.read.parquet(data(skew, rows))
        cells += cell(spark, df, kind, skew, plans, given.rounds or 3)
        write(cells, given.out)
    for kind in kinds:
        console.print(table(kind, [found for found in cells if found.kind == kind], plans))
    summary(cells)
    console.print(f"{rows:,} rows, {KEYS:,} keys; all figures: {given.out}")


def data(skew: str, rows: int) -> str:
    """Return a folder of 16 Parquet files of this skew: k (bigint, NULL for -2), v (double), s (string)."""

    def tables() -> Iterator[pa.Table]:
        keys = SKEWS[skew](rows)
        values = np.random.default_rng(2).integers(0, 1000, len(keys))
        for i in range(16):
            k, v = keys[i::16], values[i::16]
            columns = {"k": pa.array(k, mask=k == -2), "v": v.astype(float), "s": pa.array(v).cast(pa.string())}
            yield pa.table(columns)

    return parquet_folder(f"grid-{skew.replace(' ', '-').replace('%', '')}-{rows}", tables)


def planned(spark: SparkSession, df: DataFrame, kind: str, plan: str) -> DataFrame | None:
    """The aggregate with this plan; None where it cannot be written so."""
    calls = KINDS[kind]()
    if plan == "salted":
        if kind != "sum_count":
            return None
        salted = df.groupBy("k", F.floor(F.rand(1) * 16).alias("salt")).agg(
            F.sum("v").alias("s"), F.count("*").alias("n")
        )
        return salted.groupBy("k").agg(F.sum("s"), F.sum("n"))
    if plan == "rebalance":
        return df.hint("rebalance", "k").groupBy("k").agg(*calls)
    if plan in OURS:
        return skew_groupby(df, "k", strategy=plan).agg(*calls)
    return df.groupBy("k").agg(*calls)


def cell(spark: SparkSession, df: DataFrame, kind: str, skew: str, plans: Sequence[str], rounds: int) -> list[Cell]:
    seconds: dict[str, list[float]] = {plan: [] for plan in plans}
    tasks = {}
    for i in range(rounds + 2):
        for plan in plans:
            spark.conf.set(BYPASS, str(plan == "bypass").lower())
            query = planned(spark, df, kind, plan)
            if query is None:
                seconds.pop(plan, None)
                continue
            write_away = query.write.format("noop").mode("overwrite").save
            if i > rounds:
                tasks[plan] = measured_tasks(spark, write_away)
                continue
            started = time.perf_counter()
            write_away()
            if i > 0:
                seconds[plan].append(time.perf_counter() - started)
    spark.conf.unset(BYPASS)
    medians = {plan: statistics.median(times) for plan, times in seconds.items()}
    return [measured(kind, skew, plan, medians, tasks[plan]) for plan in medians]


def measured(kind: str, skew: str, plan: str, medians: dict[str, float], stages: list[list[dict[str, int]]]) -> Cell:
    tasks = [task for stage in stages for task in stage]
    return Cell(
        kind, skew, plan, medians[plan], medians[plan] / medians.get("stock", medians[plan]),
        bytes_shuffled=sum(task["bytes_written"] for task in tasks),
        records_shuffled=sum(task["records_written"] for task in tasks),
        largest_task_ms=max(task["milliseconds"] for task in tasks),
        peak_memory=max(task["peak_memory"] for task in tasks),
        makespans={n: sum(makespan([task["milliseconds"] for task in stage], n) for stage in stages) for n in CORES},
    )  # fmt: skip


def makespan(times: Sequence[int], cores: int) -> float:
    """When the last task ends, if each starts on the core that is free first, in order: list scheduling."""
    free = [0.0] * min(cores, len(times))
    for time_of_task in times:
        heapq.heapreplace(free, free[0] + time_of_task)
    return max(free, default=0.0)


def write(cells: list[Cell], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(cells[0].row()))
        writer.writeheader()
        writer.writerows(found.row() for found in cells)


def table(kind: str, cells: list[Cell], plans: Sequence[str]) -> Table:
    """One kind: a row a skew, stock's seconds, and each plan's time as a multiple of it."""
    shown = Table(
        "skew", "stock s", *(f"{plan}" for plan in plans if plan != "stock"), title=kind, title_justify="left"
    )
    for skew in dict.fromkeys(found.skew for found in cells):
        of = {found.plan: found for found in cells if found.skew == skew}
        ratios = (f"{of[plan].ratio:.2f}" if plan in of else "-" for plan in plans if plan != "stock")
        shown.add_row(skew, f"{of['stock'].seconds:.3f}", *ratios)
    return shown


def summary(cells: list[Cell]) -> None:
    """How far auto is from stock, and from the best plan of each cell."""
    grid = {(found.kind, found.skew): {} for found in cells}
    for found in cells:
        grid[found.kind, found.skew][found.plan] = found.seconds
    known = {at: times for at, times in grid.items() if "auto" in times and "stock" in times}
    if not known:
        return
    to_stock = {at: times["auto"] / times["stock"] for at, times in known.items()}
    to_best = {at: times["auto"] / min(times.values()) for at, times in known.items()}
    for name, ratios, limit in (("stock", to_stock, 1.05), ("the best plan", to_best, 1.15)):
        over = {at: ratio for at, ratio in ratios.items() if ratio > limit}
        worst = max(ratios, key=ratios.__getitem__)
        console.print(
            f"auto / {name}: geometric mean {statistics.geometric_mean(ratios.values()):.3f}, "
            f"worst {ratios[worst]:.2f} ({', '.join(worst)}); above {limit} in {len(over)} of {len(ratios)} cells"
        )


if __name__ == "__main__":
    main()
