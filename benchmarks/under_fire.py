"""Writes docs/reference/under-fire.md from the recorded runs in results/fire.

    python benchmarks/under_fire.py
    python benchmarks/under_fire.py --add fuzz build/fuzz.jsonl

SECTIONS names the commands. They print a line of JSON for each result, or write it to their --out. --add appends the
columns that the page needs to results/fire/NAME.csv.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from common import RESULTS, console

FOLDER = RESULTS / "fire"
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "under-fire.md"
FINISHED = "finished"
TEXTS = ("why",)
"""Columns whose empty cells are empty texts."""
LEFT_OUT = ("package", "plan", "seen", "tries")
"""What the scripts print for whoever watches them, and no table shows."""

Lines = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/reference/under-fire.md from the recorded runs.")
    parser.add_argument("--add", nargs=2, metavar=("NAME", "FILE"), help="first record the lines of a run")
    options = parser.parse_args()
    if options.add:
        name, file = options.add
        added = [json.loads(line) for line in Path(file).read_text("utf-8").splitlines() if line.startswith("{")]
        record(name, [*lines_of(FOLDER / f"{name}.csv"), *added])
    sections = [
        section(title, command, says, table(lines))
        for name, (title, command, says, table) in SECTIONS.items()
        if (lines := lines_of(FOLDER / f"{name}.csv"))
    ]
    PAGE.write_text("\n\n".join([HEAD, *sections]) + "\n", encoding="utf-8")
    console.print(f"{PAGE.name}: {len(sections)} of {len(SECTIONS)} runs", soft_wrap=True)


def lines_of(path: Path) -> Lines:
    """Return the recorded lines. A line has no value where its cell is empty, but for texts."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{name: number(text) for name, text in row.items() if text or name in TEXTS} for row in rows]


def number(text: str) -> Any:
    """Return a number, or the text itself."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def record(name: str, lines: Lines) -> None:
    """Write the lines of a run, without the columns that no table shows."""
    columns = [column for column in dict.fromkeys(c for line in lines for c in line) if column not in LEFT_OUT]
    with (FOLDER / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def section(title: str, command: str, says: str, table: str) -> str:
    return f"## {title}\n\n```sh\n{command}\n```\n\n{says}\n\n{table}"


def drawn(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def losses(lines: Lines) -> str:
    """How runs ended: ours by plan, stock Spark's own, both by what was lost, and why jobs were aborted."""
    by_line = sorted(lines, key=lambda line: line["spark"])
    last = {(line["side"], _kill(line)): line for line in by_line}
    ours, stock = ([line for line in last.values() if line["side"] == side] for side in ("ours", "stock"))
    aborted = {_kill(line): _end(line).startswith("aborted") for line in stock}
    by_plan, by_spark = defaultdict(list), defaultdict(list)
    for line in ours:
        by_plan[line["spark"], line["strategy"]].append(line)
    for line in stock:
        by_spark[line["spark"]].append(line)
    plans = []
    for which, group in by_plan.items():
        alone = Counter(
            (_end(line).startswith("aborted"), aborted[_kill(line)]) for line in group if _kill(line) in aborted
        )
        plans.append([*which, *_ends(group), alone[True, False], alone[False, True]])
    why = Counter((line["why"], line["side"]) for line in last.values() if line["why"])
    return "\n\n".join(
        [
            drawn(["Spark", "plan", "runs", "executors killed", *HOW, "ours alone aborted", "stock's alone"], plans),
            "Stock Spark, with the same queries and losses:",
            drawn(
                ["Spark", "runs", "executors killed", *HOW],
                [[spark, *_ends(group)] for spark, group in by_spark.items()],
            ),
            "Aborted, by what was lost, and by what was computed:",
            drawn(
                ["lost or computed", "Saltwise", "stock Spark"],
                [
                    [value, *(_rate([line for line in side if line[name] == value]) for side in (ours, stock))]
                    for name in ("lost", "aggregates")
                    for value in dict.fromkeys(line[name] for line in ours)
                ],
            ),
            "Spark's reasons:",
            drawn(
                ["aborted because", "Saltwise", "stock Spark"],
                [[text, why[text, "ours"], why[text, "stock"]] for text in dict.fromkeys(text for text, _ in why)],
            ),
        ]
    )


HOW = ("right", "aborted: indeterminate", "aborted: lost too often", "aborted: otherwise", "wrong", "nothing was lost")


def _ends(group: Lines) -> list[int]:
    """Count runs, those in which an executor was killed, and how they ended."""
    ends = Counter(map(_end, group))
    kills = [line for line in group if line["lost"] not in ("files", "disk", "twice", "leaves")]
    return [len(group), sum(_end(line) != "nothing was lost" for line in kills), *(ends[how] for how in HOW)]


def _kill(line: dict[str, Any]) -> tuple[object, ...]:
    """What a run of ours and one of stock Spark have in common."""
    return line["spark"], line["strategy"], line["aggregates"], line["lost"], line["run"]


def _end(line: dict[str, Any]) -> str:
    return str(line["end"])


def _rate(group: Lines) -> str:
    aborted = sum(_end(line).startswith("aborted") for line in group)
    return f"{aborted} of {len(group)} ({aborted / max(1, len(group)):.0%})"


def cluster(lines: Lines) -> str:
    """By check and line of Spark, how it ended last."""
    last = {(line["check"], line["spark"]): line["how"] for line in lines}
    sparks = sorted({spark for _, spark in last})
    checks = dict.fromkeys(check for check, _ in last)
    return drawn(["", *sparks], [[check, *(last.get((check, spark), "") for spark in sparks)] for check in checks])


def random_queries(lines: Lines) -> str:
    """Of each Spark and seed, the sums of all runs: a long one may be cut by --first and --queries.

    What ran again counts once, as it ended last.
    """
    counted = ("queries", "different", "refused", "nothing of ours")
    sums: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    seen: dict[tuple[str, int], set[int]] = defaultdict(set)
    for line in reversed(lines):
        which = line["spark"], line["seed"]
        numbers = set(range(line["first"], line["first"] + line["queries"]))
        if seen[which].isdisjoint(numbers):
            seen[which] |= numbers
            sums[which].update({name: n for name, n in line.items() if name not in ("seed", "first", "spark")})
    plans = sorted({name for each in sums.values() for name in each} - set(counted))
    return drawn(
        ["Spark", "seed", *counted, *(f"with {plan}" for plan in plans)],
        [[*which, *(f"{each[name]:,}" for name in (*counted, *plans))] for which, each in sorted(sums.items())],
    )


def tight_memory(lines: Lines) -> str:
    """What each plan's heaps held for each query and size: an executor's, and the driver's."""
    plans = list(dict.fromkeys(line["side"] for line in lines))
    queries = list(dict.fromkeys(line["query"] for line in lines))
    ends: dict[tuple[str, str, int], dict[str, dict[str, Any]]] = defaultdict(dict)
    for line in sorted(lines, key=lambda line: (line["spark"], queries.index(line["query"]), line["size"])):
        ends[line["query"], line["spark"], line["size"]][line["side"]] = line
    header = ["query", "Spark", "size", *plans]
    tables = [
        drawn(
            header,
            (
                [query, spark, f"{size:,}", *(_heap(sides.get(plan), sides.get("stock"), name) for plan in plans)]
                for (query, spark, size), sides in ends.items()
            ),
        )
        for name in ("executor_mb", "driver_mb")
    ]
    return "\n\nThe driver's heap:\n\n".join(tables)


def _heap(end: dict[str, Any] | None, stock: dict[str, Any] | None, name: str) -> str:
    if end is None:
        return ""
    if end["how"] != FINISHED:
        return "failed"
    if stock is None or stock is end or stock["how"] != FINISHED:
        return str(end[name])
    return f"{end[name]} ({end[name] / stock[name]:.2f})"


def fuzz(lines: Lines) -> str:
    """Show a row for each format, of all runs of it: each has a seed of its own."""
    summed, highest = ("mutations", "read", "refused", "wrong"), ("milliseconds", "megabytes")
    rows = []
    for format in dict.fromkeys(line["format"] for line in lines):
        runs = [line for line in lines if line["format"] == format]
        figures = [sum(run.get(name, 0) for run in runs) for name in summed]
        figures += [max(run[name] for run in runs) for name in highest]
        rows.append([format, *(f"{figure:,}" for figure in figures)])
    return drawn(
        ["format", "mutations", "read", "refused by an error of ours", "anything else", "longest, ms", "largest, MB"],
        rows,
    )


def moving_states(lines: Lines) -> str:
    columns = ("query", "store", "spark", "batches", "sent", "arrived", "killed", "right")
    return drawn(
        ["query", "store", "Spark", "batches", "moves sent", "arrived in the next batch", "executors killed", "right"],
        [[line[name] for name in columns] for line in lines],
    )


HELD = {
    "heap_mb": "heap, MB",
    "driver_mb": "driver, MB",
    "python_mb": "its Python, MB",
    "threads": "threads",
    "files": "files",
    "shuffles": "shuffles",
    "executor_mb": "executor, MB",
    "executor_threads": "its threads",
    "executor_files": "its files",
}
SOAKED = {
    "spark": "Spark",
    "batches": "batches",
    "sent": "moves by chance",
    "balanced": "by the balancer",
    "killed": "executors killed",
    "restarts": "restarts",
    "routed": "routed",
    "right": "right",
}


def soak(lines: Lines) -> str:
    """What there was in each quarter of a run, and how the run ended: its last line tells."""
    quarters, ends = [], []
    held: Lines = []
    for line in lines:
        if "heap_mb" in line:
            held.append(line)
            continue
        size = len(held) // 4
        for each in (held[i * size : (i + 1) * size] for i in range(4)):
            means = (f"{mean(one[name] for one in each):.1f}" for name in HELD)
            quarters.append([line["spark"], f"{each[0]['batch']} to {each[-1]['batch']}", *means])
        ends.append([line[name] for name in SOAKED])
        held = []
    return drawn(["Spark", "batches", *HELD.values()], quarters) + "\n\n" + drawn(list(SOAKED.values()), ends)


HEAD = """# Under fire

What happens when executors die, memory is short, input is hostile, and a stream runs for long. Each table is of a
recorded run. What its command found is in `benchmarks/results/fire`, and
`python benchmarks/under_fire.py` makes this page from them."""

SECTIONS = {
    "cluster": (
        "A real cluster",
        "python tests/fire/cluster.py --out build/cluster.jsonl",
        "Spark's own standalone master and three workers. A job comes by `spark-submit`, `spark-sql`, JDBC, Connect, "
        "and with a Python aggregate that is shipped as a file or as a packed environment. The event logs are read. "
        "Answers are stock Spark's. Connect's client finds no Java. Connect is left out on 3.5: no wheel of pyspark "
        "has that server.",
        cluster,
    ),
    "losses": (
        "Lost executors, files and tasks",
        "python tests/fire/retry.py --plan --out build/losses.jsonl",
        "Rows come out of a shuffle, and one thing is lost in each run. Stock Spark runs the same query, and loses the "
        "same. An executor is killed while map tasks or reducers run (*map*, *reduce*), while partitions are read in "
        "slices (*slices*), while routed rows become states (*workers*), when AQE plans again (*replan*), or with the "
        "rows that it had cached (*cache*). Shuffle files are deleted (*files*). Files take no byte for some seconds "
        "(*disk*; a limit on their size does it, so the error is *File too large*). A slow task and its copy run "
        "together (*twice*). An executor is decommissioned (*leaves*). Spark's event log has to show each loss, or the "
        "run is made again. A task may fail 200 times, and a stage be tried 20 times in a row. Spark's own limits are "
        "4 and 4.\n\n"
        "*Indeterminate*: Spark ends a job whose rows may differ when they are computed again. *Lost too often*: a "
        "task or a stage reached its limit. *Ours alone aborted*: of pairs of a run of ours and one of stock Spark.",
        losses,
    ),
    "random_queries": (
        "Random queries",
        "python -m tests.fire.random_queries --queries 10000",
        "Each query ran as Spark plans it, and twice with Saltwise, by a strategy with a plan of its own and by one "
        "that routes or places rows. *Refused*: by Spark, with the same error each time. *Nothing of ours*: both "
        "times the whole plan was Spark's own. `Combine` and the reads of slices were changed after seed 1, so seed 2 "
        "(`--queries 1000 --seed 2`) ran on those changes.",
        random_queries,
    ),
    "tight_memory": (
        "Executors of 512 MB",
        "python tests/fire/tight_memory.py",
        "The most megabytes that the heap of an executor ever held, in brackets divided by stock Spark's. Each plan "
        "runs on more and more rows, until it fails. A heap grows for what is in use, large buffers that were in use a "
        "moment before, and 16 MB of new objects. *Failed*: "
        "a task ran out of memory or lost its executor, or a heap stayed full, collection after collection. Adaptive "
        "execution makes few tasks of the 100,000 partitions, and is kept from it where they are fewer. The run "
        "fails where Saltwise fails and stock Spark does not, has more than 1.2 times its heap, or left a query alone."
        "\n\n"
        "`split` is over that at the smaller sizes of strings and of wide rows. A slice has up to 64 MB of rows, and "
        "Spark writes a list of them through buffers that double; a map task's lists are smaller. Wide rows are sorted "
        "behind the shuffle, in the memory that Spark gives to a sort before it spills. Neither grows with the rows. "
        "Its driver is over that with 10,000 partitions: states of slices are merged in as many tasks again, and the "
        "driver keeps what each task reported.",
        tight_memory,
    ),
    "fuzz": (
        "Damaged input",
        "for seed in $(seq 20); do python tests/fire/fuzz.py --mutations 50000 --seed $seed; done",
        "What could be read was used: keys were placed, stores planned, sketches were merged, findings became a page. "
        "Each mutation must end with an answer or an error of Saltwise, within a second of the processor, and one more "
        "for each 256 KB, and within 64 MB, or 128 MB for an event log. In Python that is the largest resident memory "
        "beyond what was before; no code may run, no file change but the store's own, and none outside of the folder. "
        "In Java (*java-...*) it is all that the thread allocates; code is not watched there, and files once for each "
        "format. *Longest* and *largest* are of any mutation. What was wrong counts under *anything else*, and a run "
        "ends where more than 20 things were.",
        fuzz,
    ),
    "moving_states": (
        "Streams whose state moves",
        "python tests/fire/moving_states.py --batches 300",
        "Every third batch moves state partitions at random; executors are killed, and the stream is stopped and "
        "started again. *Right*: the answer is that of a batch query over the same files.",
        moving_states,
    ),
    "soak": (
        "Two thousand micro-batches",
        "python tests/fire/moving_states.py --batches 2000 --watch 25 --stores rocksdb",
        "An aggregate whose rows are routed by hot keys that drift. A `StateBalancer` and chance move its state by "
        "turns, a `StatefulAggregate` keeps the same totals, executors are killed, and the stream restarts. *Right*: "
        "at the end, the stream's state and the kept totals are those of a batch query over the same files. Means of "
        "each quarter: the driver's heap after a full collection, and the memory of its JVM, of its Python and of an "
        "executor that is never killed. The run fails where an answer is wrong, a batch is not routed, the balancer "
        "moves nothing, or something grows from the second quarter to the last one: the heap by more than 4 KB a "
        "batch, Python by 8 KB, the driver or the executor by 16 KB; their threads by 3 in all, the driver's files "
        "by 10, the executor's files or the shuffles by 20. When it was recorded, the run compared medians and said "
        "that the threads had grown by 5.5. They are about 385 soon after a kill and about 401 later, so half of the "
        "readings are near each, and a median jumps between them. Now it compares means.",
        soak,
    ),
}
"""Of each file: its title, the command that made it, what its columns mean, and its table."""


if __name__ == "__main__":
    main()
