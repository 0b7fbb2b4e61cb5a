"""Every kind of aggregate, on every kind of skew, with every plan: where `auto` wins, and where it loses.

    python benchmarks/grid.py [--parts grid,million,local,cluster | --quick] [--fresh] [--minutes 9]
                              [--kinds sum_count,median,...] [--skews z=0.8,...] [--plans stock,auto,...]
                              [--rows 400000] [--rounds 3] [--seconds 4] [--doubtful]
                              [--out benchmarks/results/grid.csv]

It runs on two cores, with adaptive execution. The results are kept cell by cell. So a run that was interrupted, or
that stopped after its minutes, continues where it ended; `--fresh` starts again. A cell is measured again if it was
measured with another build of the plugin or in fewer rounds. `--doubtful --rounds 9` measures only the cells where auto
was above a limit. `python benchmarks/tables.py` makes the tables and figures.

Each plan first runs once in this process. In each round, the plans of a cell run in another order, which depends on the
name of the cell. Ratios are relative to stock Spark's time in the same round. All figures are medians. In every round,
the answer of every plan is compared with stock Spark's. Spark's own metrics give the bytes, records and states
shuffled, the largest task, the peak memory of a task, and the makespan of the tasks on more cores. Plans that are
rarely the best run only in the first round, unless they were faster there than auto. After the last common round,
stock, auto, and every plan that was faster than auto so far run on until the cell has taken its seconds. So a short
query gets more rounds than a long one.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from cells import Cell, Cells, standard_error
from common import CACHE, RESULTS, console, parquet_folder, register_users_aggregates, session, users_jar, zipf_keys
from kinds import KINDS
from measure import Run, measured
from pairs import plugin
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from rich.progress import Progress
from tables import At, doubtful, summary

from saltwise import skew_groupby

SALTS = 16
ROWS_TO_A_KEY = 8

SKEWS: dict[str, Callable[[int], np.ndarray]] = {
    "uniform": lambda rows: np.random.default_rng(1).integers(0, rows // ROWS_TO_A_KEY, rows),
    "z=0.8": lambda rows: zipf_keys(rows, rows // ROWS_TO_A_KEY, 0.8),
    "z=1.2": lambda rows: zipf_keys(rows, rows // ROWS_TO_A_KEY, 1.2),
    "z=1.6": lambda rows: zipf_keys(rows, rows // ROWS_TO_A_KEY, 1.6),
    "z=2.0": lambda rows: zipf_keys(rows, rows // ROWS_TO_A_KEY, 2.0),
    "one key 30%": lambda rows: np.where(np.random.default_rng(3).random(rows) < 0.3, -1, SKEWS["uniform"](rows)),
    "NULL 50%": lambda rows: np.where(np.random.default_rng(4).random(rows) < 0.5, -2, SKEWS["uniform"](rows)),
    "20 keys": lambda rows: np.random.default_rng(5).integers(0, 20, rows),
    "all distinct": lambda rows: np.random.default_rng(6).permutation(rows),
    "10^4 rows": lambda rows: zipf_keys(10_000, 10_000 // ROWS_TO_A_KEY, 1.2),
}

BYPASS = "spark.sql.execution.bypassPartialAggregation"
OURS = ("hash", "shuffle", "pkg", "dchoices", "wchoices", "roundrobin", "split", "local", "auto")
PLANS = ("stock", "bypass", "rebalance", "salted", *OURS)
TIMED = ("stock", "bypass", "split", "local", "auto")
"""Plans that run in every round of a part."""
WARM = 1.5
"""Seconds for which each of those runs before it is timed, but at least once. The JVM compiles in this time."""
GROWING = ("percentile_approx", "median", "mode", "collect_set")


@dataclass(frozen=True)
class Part:
    """A part of the benchmark."""

    rows: int
    kinds: Sequence[str] = tuple(KINDS)
    skews: Sequence[str] = tuple(SKEWS)
    plans: Sequence[str] = PLANS
    rounds: int = 3
    seconds: float = 4.0
    """The shortest time of all rounds together."""
    maps: int = 8
    """Number of map tasks."""
    partitions: int = 16
    coalesced: bool = True
    """Whether adaptive execution may coalesce small partitions, as it does for few cores."""


PARTS = {
    "grid": Part(400_000),
    "million": Part(8_000_000, GROWING, ["z=0.8"], TIMED, rounds=2, maps=16, partitions=32),
    "local": Part(
        1_000_000,
        ["sum_count", "approx_count_distinct", "hll", "percentile_approx", "median", "collect_set"],
        ["z=0.8", "z=1.2", "z=1.6"],
        ["stock", "bypass", "local", "auto"],
        maps=16,
        partitions=32,
    ),
    # Enough rows that a task takes longer than its start.
    "cluster": Part(
        16_000_000, GROWING, ["z=1.6", "z=2.0"], ["stock", "bypass", "auto"], 5, 0, 128, 128, coalesced=False
    ),
}
QUICK = Part(
    400_000, ["sum_count", "percentile_approx", "collect_set", "user_scala"],
    ["uniform", "z=0.8", "z=1.6", "20 keys", "10^4 rows"], TIMED,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="four kinds, five skews and five plans")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no cell after so many")
    for name, all_of in (("parts", PARTS), ("kinds", KINDS), ("skews", SKEWS), ("plans", PLANS)):
        parser.add_argument(f"--{name}", type=some_of(all_of), help=", ".join(all_of).replace("%", "%%"))
    parser.add_argument("--rows", type=int, help="other rows than a part has: the cells go to build/benchmarks")
    parser.add_argument("--rounds", type=int, help="at least so many")
    parser.add_argument(
        "--seconds", type=float, help="more rounds, of the fastest plans, until a cell has taken so long"
    )
    parser.add_argument("--doubtful", action="store_true", help="only where auto was slower than it may be")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.plans and "stock" not in given.plans:
        parser.error(f"--plans is {','.join(given.plans)}; it must name stock, which ratios are to.")
    parts = {"quick": QUICK} if given.quick else {name: PARTS[name] for name in given.parts or PARTS}
    wanted = {
        name: value
        for name in ("kinds", "skews", "plans", "rows", "rounds", "seconds")
        if (value := getattr(given, name))
    }
    parts = {name: replace(part, **wanted) for name, part in parts.items()}
    other = "quick" if given.quick else f"grid-{given.rows}" if given.rows else None
    out = given.out or (CACHE / f"{other}.csv" if other else RESULTS / "grid.csv")
    cells = Cells(out, fresh=given.fresh)
    run(parts, cells, given.minutes, doubtful(cells.all) if given.doubtful else None)


def some_of(all_of: Mapping[str, object] | Sequence[str]) -> Callable[[str], list[str]]:
    def chosen(text: str) -> list[str]:
        unknown = [name for name in text.split(",") if name not in all_of]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(all_of)}")
        return text.split(",")

    return chosen


def run(parts: Mapping[str, Part], cells: Cells, minutes: float, only: set[At] | None) -> None:
    """Measure the cells that the file lacks; only the given ones of these, if any."""
    ends = time.monotonic() + 60 * minutes
    build = plugin()
    missing = [
        (name, part, skew, kind)
        for name, part in parts.items()
        for kind in part.kinds
        for skew in part.skews
        for at in [(name, part.rows, kind, skew)]
        if not cells.has(at, plans_of(kind, part.plans), part.rounds, build) and (only is None or at in only)
    ]
    all_of = sum(len(part.skews) * len(part.kinds) for part in parts.values())
    console.print(f"{len(missing)} of {all_of} cells are to be measured, into {cells.path}", soft_wrap=True)
    if missing:
        grid = Grid(spark := session_with_users_functions(), build)
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task("", total=len(missing))
            for name, part, skew, kind in missing:
                if time.monotonic() > ends:
                    break
                progress.update(bar, description=f"{name}: {kind}, {skew}")
                found = grid.cell(name, part, kind, skew)
                cells.add(found)
                console.print(line(found), soft_wrap=True)
                progress.advance(bar)
        spark.stop()
    console.print(summary(cells.all), soft_wrap=True)


def session_with_users_functions() -> SparkSession:
    spark = session(spark__jars=users_jar(), spark__sql__adaptive__enabled="true")
    register_users_aggregates(spark)
    return spark


def plans_of(kind: str, plans: Sequence[str]) -> list[str]:
    """Return those of the plans that a kind of aggregate can use."""
    if not KINDS[kind].merges:
        return [plan for plan in plans if plan in ("stock", "rebalance", "auto")]
    return [plan for plan in plans if plan != "salted" or KINDS[kind].salted]


class Grid:
    """Measures cells in one session."""

    def __init__(self, spark: SparkSession, build: str) -> None:
        self.spark = spark
        self.build = build
        self.warm: set[tuple[str, ...]] = set()

    def cell(self, name: str, part: Part, kind: str, skew: str) -> list[Cell]:
        """Measure the plans of one cell.

        Raises:
            AssertionError: the answer of a plan differs from stock Spark's.
        """
        rows = part.rows // KINDS[kind].rows_to_one
        self.configure(part, rows)
        df = self.spark.read.parquet(data(skew, rows, part.maps))
        plans = plans_of(kind, part.plans)
        self.warm_up(df, kind, skew, plans)
        order = random.Random(f"{name} {kind} {skew}")
        rounds: list[dict[str, Run]] = []
        while len(rounds) < part.rounds or taken(rounds) < part.seconds:
            rounds.append({})
            # In a fixed order, a plan would always suffer from what the same other plan leaves behind in the process.
            order.shuffle(plans)
            answers = {}
            for plan in plans:
                query, answer = self.query(df, kind, plan)
                rounds[-1][plan] = measured(self.spark, query)
                answers[plan] = answer()
            compare(kind, skew, answers)
            if len(rounds) in (1, part.rounds):
                plans = going_on(rounds, ("stock", "auto") if len(rounds) == part.rounds else TIMED)
        return [self.summed_up(name, part, kind, skew, plan, rounds) for plan in rounds[0]]

    def configure(self, part: Part, rows: int) -> None:
        """Give each file its own map task, and every stage at least two tasks.

        By default, adaptive execution makes no task of less than 1 MB. So for a shuffle of 2 MB, a few bytes decide
        whether it makes one task or two. With more rows there would always be two, but the benchmark would take too
        long.
        """
        for key, value in {
            "spark.sql.shuffle.partitions": part.partitions,
            "spark.sql.adaptive.coalescePartitions.minPartitionSize": "16k",
            "spark.sql.files.maxPartitionBytes": max(32 * rows // part.maps, 65536),
            "spark.sql.adaptive.coalescePartitions.enabled": str(part.coalesced).lower(),
        }.items():
            self.spark.conf.set(key, str(value))

    def warm_up(self, df: DataFrame, kind: str, skew: str, plans: Sequence[str]) -> None:
        """Collect garbage, read the data once, and run each plan that has not run with this kind in this session."""
        self.spark._jvm.System.gc()
        if (path := df.inputFiles()[0],) not in self.warm:
            df.write.format("noop").mode("overwrite").save()
            self.warm.add((path,))
        for plan in plans:
            if (kind, plan) not in self.warm:
                until = time.monotonic() + (WARM if plan in TIMED else 0)
                self.query(df, kind, plan)[0]()
                while time.monotonic() < until:
                    self.query(df, kind, plan)[0]()
                self.warm.add((kind, plan))

    def query(self, df: DataFrame, kind: str, plan: str) -> tuple[Callable[[], object], Callable[[], dict[str, float]]]:
        """Return a function that runs the aggregate with this plan, and one for the digest of the answer afterwards."""
        seen = Observation()
        answer = planned(df, kind, plan).observe(
            seen, F.count("*").alias("groups"), KINDS[kind].digest().alias("digest")
        )
        write_away = answer.write.format("noop").mode("overwrite").save

        def run() -> None:
            self.spark.conf.set(BYPASS, str(plan == "bypass").lower())
            write_away()

        return run, lambda: seen.get

    def summed_up(
        self, name: str, part: Part, kind: str, skew: str, plan: str, rounds: Sequence[Mapping[str, Run]]
    ) -> Cell:
        both = [(of_round[plan], of_round["stock"].seconds) for of_round in rounds if plan in of_round]
        ratios = [run.seconds / stock for run, stock in both]
        return Cell(
            name, part.rows, kind, skew, plan, both[-1][0].did,
            rounds=len(both),
            seconds=round(statistics.median(run.seconds for run, _ in both), 4),
            ratio=round(statistics.median(ratios), 4),
            error=round(standard_error(ratios), 4),
            spark=self.spark.version,
            plugin=self.build,
            **{name: round(statistics.median(run.figures[name] for run, _ in both)) for name in both[0][0].figures},
        )  # fmt: skip


def planned(df: DataFrame, kind: str, plan: str) -> DataFrame:
    """Return the aggregate with this plan."""
    if plan == "salted":
        return KINDS[kind].salted_by_hand(df, SALTS)
    if plan == "rebalance":
        return KINDS[kind].grouped(df.hint("rebalance", "k").groupBy("k"))
    if plan in OURS:
        return KINDS[kind].grouped(skew_groupby(df, "k", strategy=plan))
    return KINDS[kind].grouped(df.groupBy("k"))


def taken(rounds: Sequence[Mapping[str, Run]]) -> float:
    return sum(run.seconds for of_round in rounds for run in of_round.values())


def going_on(rounds: Sequence[Mapping[str, Run]], always: Sequence[str]) -> list[str]:
    """Return the plans that run again: the given ones, and all others that were faster than auto so far."""

    def so_far(plan: str) -> float:
        return statistics.median(of_round[plan].seconds for of_round in rounds if plan in of_round)

    fastest = so_far("auto" if "auto" in rounds[-1] else "stock")
    return [plan for plan in rounds[-1] if plan in always or so_far(plan) < fastest]


def compare(kind: str, skew: str, answers: Mapping[str, Mapping[str, float]]) -> None:
    """Raise AssertionError if the answer of a plan differs from stock Spark's."""
    stock, tolerance = answers["stock"], KINDS[kind].tolerance
    for plan, answer in answers.items():
        close = tolerance and math.isclose(answer["digest"], stock["digest"], rel_tol=tolerance)
        if answer["groups"] != stock["groups"] or not (answer["digest"] == stock["digest"] or close):
            raise AssertionError(f"{kind}, {skew}: {plan} gives {answer}, and stock Spark {stock}.")


def line(cell: Sequence[Cell]) -> str:
    by_plan = {found.plan: found for found in cell}
    ratios = ", ".join(f"{plan} {found.ratio:.2f}" for plan, found in by_plan.items() if plan != "stock")
    stock = by_plan["stock"]
    return f"{stock.part}: {stock.kind}, {stock.skew}: stock {stock.seconds:.2f} s; {ratios}"


def data(skew: str, rows: int, files: int = 16) -> str:
    """Return a folder of Parquet files of this skew: k (bigint, NULL for -2), v (double), s (string).

    Values are written without encoding. So the size by which Spark judges an input is that of its rows.
    """

    def tables() -> Iterator[pa.Table]:
        keys = SKEWS[skew](rows)
        values = np.random.default_rng(2).integers(0, 1000, len(keys))
        for i in range(files):
            k, v = keys[i::files], values[i::files]
            columns = {"k": pa.array(k, mask=k == -2), "v": v.astype(float), "s": pa.array(v).cast(pa.string())}
            yield pa.table(columns)

    name = f"grid-{skew.replace(' ', '-').replace('%', '')}-{rows}-{files}"
    return parquet_folder(name, tables, use_dictionary=False, compression="none")


if __name__ == "__main__":
    main()
