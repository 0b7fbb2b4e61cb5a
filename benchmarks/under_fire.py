"""Writes docs/reference/under-fire.md from the recorded runs in results/fire.

    python benchmarks/under_fire.py

SECTIONS names the commands. What they print, a line of JSON for each result, is kept: `>> results/fire/NAME.jsonl`,
where they have no --out.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from common import RESULTS, console

FOLDER = RESULTS / "fire"
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "under-fire.md"

Lines = list[dict[str, Any]]


def main() -> None:
    sections = [
        section(title, command, says, table(lines))
        for name, (title, command, says, table) in SECTIONS.items()
        if (lines := lines_of(FOLDER / f"{name}.jsonl"))
    ]
    PAGE.write_text("\n\n".join([HEAD, *sections]) + "\n", encoding="utf-8")
    console.print(f"{PAGE.name}: {len(sections)} of {len(SECTIONS)} runs", soft_wrap=True)


def lines_of(path: Path) -> Lines:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("{")]


def section(title: str, command: str, says: str, table: str) -> str:
    return f"## {title}\n\n```sh\n{command}\n```\n\n{says}\n\n{table}"


def drawn(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def losses(lines: Lines) -> str:
    """How runs ended, by plan and by what was lost, beside stock Spark's on the same kills."""
    stock = {_kill(line): _end(line) for line in lines if line["strategy"] == "stock"}
    ours = [line for line in lines if line["strategy"] != "stock"]
    by_plan: dict[tuple[str, str], Lines] = defaultdict(list)
    by_loss: dict[str, Lines] = defaultdict(list)
    for line in ours:
        by_plan[line["spark"], line["strategy"]].append(line)
        by_loss[line["lost"]].append(line)
    rows = []
    for (spark, plan), group in by_plan.items():
        mine, theirs = Counter(map(_end, group)), Counter(stock.get(_kill(line)) for line in group)
        rows.append([spark, plan, len(group), *(mine[how] for how in HOW), *(theirs[how] for how in HOW)])
    named = ["runs", *HOW, *(f"stock: {how}" for how in HOW)]
    rates = []
    for lost, group in by_loss.items():
        theirs = [stock[kill] for kill in {_kill(line) for line in group} if kill in stock]
        rates.append([lost, _rate([_end(line) for line in group]), _rate(theirs)])
    return (
        drawn(["Spark", "plan", *named], rows)
        + "\n\nAborted by Spark, by what was lost:\n\n"
        + drawn(["lost", "Saltwise", "stock"], rates)
    )


HOW = ("right", "aborted", "wrong", "nothing was lost")


def _kill(line: dict[str, Any]) -> tuple[object, ...]:
    return line["spark"], line["aggregates"], line["lost"], line["run"]


def _end(line: dict[str, Any]) -> str:
    """Return how a run ended, without Spark's message."""
    return str(line["end"].split(":")[0])


def _rate(ends: Sequence[str]) -> str:
    aborted = sum(end == "aborted" for end in ends)
    return f"{aborted} of {len(ends)} ({aborted / max(1, len(ends)):.0%})"


def cluster(lines: Lines) -> str:
    """By check and line of Spark, how it ended last."""
    last = {(line["check"], line["spark"]): line["how"] for line in lines}
    sparks = sorted({spark for _, spark in last})
    checks = dict.fromkeys(check for check, _ in last)
    return drawn(["", *sparks], [[check, *(last.get((check, spark), "") for spark in sparks)] for check in checks])


def random_queries(lines: Lines) -> str:
    """Of each Spark and seed, the sums of all runs: a long one may be cut by --first and --queries."""
    counted = ("queries", "different", "refused")
    sums: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for line in lines:
        counts = {name: count for name, count in line.items() if name not in ("seed", "spark")}
        sums[line["spark"], line["seed"]].update(counts)
    plans = sorted({name for each in sums.values() for name in each} - set(counted))
    return drawn(
        ["Spark", "seed", *counted, *(f"with {plan}" for plan in plans)],
        [[*which, *(f"{each[name]:,}" for name in (*counted, *plans))] for which, each in sums.items()],
    )


def tight_memory(lines: Lines) -> str:
    """Of each query and side: the largest size that it could do, and its heap at the largest that stock could."""
    found: dict[str, Lines] = defaultdict(list)
    for line in lines:
        found[line["query"]].append(line)
    rows = []
    for query, ends in found.items():
        most = {
            side: max((end["size"] for end in ends if end["side"] == side and end["how"] == "finished"), default=0)
            for side in dict.fromkeys(end["side"] for end in ends)
        }
        common = min(most.values())
        at = {end["side"]: end for end in ends if end["size"] == common}
        for side, size in most.items():
            end = at.get(side, {"executor_mb": 0, "driver_mb": 0, "seconds": 0})
            rows.append([query, side, f"{size:,}", end["executor_mb"], end["driver_mb"], end["seconds"]])
    return drawn(["query", "plan", "largest size", "executor, MB", "driver, MB", "seconds"], rows)


def fuzz(lines: Lines) -> str:
    return drawn(
        ["format", "mutations", "read", "refused by an error of ours", "anything else"],
        [
            [
                line["format"],
                f"{line['mutations']:,}",
                *(f"{line.get(name, 0):,}" for name in ("read", "refused", "wrong")),
            ]
            for line in lines
        ],
    )


def moving_states(lines: Lines) -> str:
    columns = ("query", "store", "spark", "batches", "sent", "arrived", "killed", "right")
    return drawn(
        ["query", "store", "Spark", "batches", "moves sent", "arrived in the next batch", "executors killed", "right"],
        [[line[name] for name in columns] for line in lines],
    )


def soak(lines: Lines) -> str:
    executors = ("executors_rss_mb", "executors_threads", "executors_files")
    columns = ("batch", "heap_mb", "threads", "files", "shuffles", *executors)
    named = ["executors' memory, MB", "their threads", "their files"]
    return drawn(
        ["batch", "heap, MB", "threads", "open files", "shuffles", *named],
        [[line[name] for name in columns] for line in lines if "heap_mb" in line],
    )


HEAD = """# Under fire

What happens when executors die, memory is short, input is hostile, and a stream runs for long. Each table is of a
recorded run. The lines that its command prints are in `benchmarks/results/fire`, and
`python benchmarks/under_fire.py` makes this page from them."""

SECTIONS = {
    "cluster": (
        "A real cluster",
        "python tests/cluster.py --out benchmarks/results/fire/cluster.jsonl",
        "Spark's own standalone master and three workers. A job comes by `spark-submit`, `spark-sql`, JDBC, Connect, "
        "and with a Python aggregate that is shipped as a file or as a packed environment. The event logs are read.",
        cluster,
    ),
    "losses": (
        "Lost executors, files and tasks",
        "python tests/retry.py --plan --out benchmarks/results/fire/losses.jsonl",
        "Rows come out of a shuffle, and one thing is lost in each run. An executor is killed while map tasks, "
        "reducers or slices run (*map*, *reduce*, *slices*), while AQE plans again (*replan*), or with the rows that "
        "it had cached (*cache*). Shuffle files are deleted (*files*), the disk takes nothing for some seconds "
        "(*disk*), a slow task runs twice (*twice*), an executor is told to leave (*leaves*). Spark ends a job whose "
        "rows may differ when they are computed again, in stock plans too.",
        losses,
    ),
    "random_queries": (
        "Random queries",
        "python tests/random_queries.py --queries 10000",
        "Each query ran as Spark plans it, and rewritten. *Refused*: by Spark, with the same error both times.",
        random_queries,
    ),
    "tight_memory": (
        "Executors of 512 MB",
        "python tests/tight_memory.py",
        "The largest size of each query that a side could do, and the largest heap that was left after a garbage "
        "collection, at the largest size that all sides could do.",
        tight_memory,
    ),
    "fuzz": (
        "Damaged input",
        "python tests/fuzz.py --mutations 1000000",
        "Each mutation ends with an answer or an error of Saltwise, within a second and 64 MB. An event log may take "
        "320 MB, since one of its blocks may say that it is as long as 256 MB. No code is run, and no file is written.",
        fuzz,
    ),
    "moving_states": (
        "Streams whose state moves",
        "python tests/moving_states.py --batches 300",
        "Every third batch moves state partitions at random; executors are killed, and the stream is stopped and "
        "started again. *Right*: the answer is that of a batch query over the same files.",
        moving_states,
    ),
    "soak": (
        "Two thousand micro-batches",
        "python tests/moving_states.py --batches 2000 --queries aggregate --stores rocksdb --watch 100",
        "The driver, after a garbage collection, and the three executors together. The run fails where, from its "
        "second quarter to its last one, the driver's heap grows by more than 16 MB, its threads by 3, its files by 10 "
        "or its shuffles by 20.",
        soak,
    ),
}
"""Of each file: its title, the command that made it, what its columns mean, and its table."""


if __name__ == "__main__":
    main()
