"""Writes docs/reference/under-fire.md from the recorded runs in results/fire.

    python benchmarks/under_fire.py

SECTIONS names the commands. What they print, a line of JSON for each result, is kept: `>> results/fire/NAME.jsonl`.
"""

from __future__ import annotations

import json
from collections import defaultdict
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
    """By line of Spark and plan: how many runs were right, aborted and wrong, over all aggregates and losses."""
    total: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for line in lines:
        for i, how in enumerate(("right", "aborted", "wrong")):
            total[line["spark"], line["strategy"]][i] += line[how]
    by_plan = drawn(
        ["Spark", "plan", "right", "aborted by Spark", "wrong"],
        [[spark, plan, *ends] for (spark, plan), ends in sorted(total.items())],
    )
    by_loss: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for line in lines:
        by_loss[line["aggregates"], line["lost"]][line["strategy"]] += line["aborted"]
    plans = list(dict.fromkeys(line["strategy"] for line in lines))
    return (
        by_plan
        + "\n\nAborted, by what was computed and what was lost:\n\n"
        + drawn(
            ["aggregate", "lost", *plans],
            [[kind, lost, *(ends[plan] for plan in plans)] for (kind, lost), ends in sorted(by_loss.items())],
        )
    )


def random_queries(lines: Lines) -> str:
    counted = ("queries", "different", "refused")
    plans = sorted({name for line in lines for name in line} - {*counted, "seed", "spark"})
    return drawn(
        ["Spark", "seed", *counted, *(f"with {plan}" for plan in plans)],
        [[line["spark"], line["seed"], *(f"{line.get(name, 0):,}" for name in (*counted, *plans))] for line in lines],
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
    columns = ("batch", "heap_mb", "threads", "files", "shuffles")
    return drawn(
        ["batch", "heap, MB", "threads", "open files", "shuffles"],
        [[line[name] for name in columns] for line in lines if "heap_mb" in line],
    )


HEAD = """# Under fire

What happens when executors die, memory is short, input is hostile, and a stream runs for long. Each table is of a
recorded run. The lines that its command prints are in `benchmarks/results/fire`, and
`python benchmarks/under_fire.py` makes this page from them."""

SECTIONS = {
    "losses": (
        "Lost executors, files and tasks",
        "python tests/retry.py --runs 5 --lose reduce,map,files,twice,leaves --aggregates ... --strategies ...",
        "Rows come out of a shuffle, and one thing is lost in each run. Spark ends a job whose rows may differ when "
        "they are computed again, in stock plans too.",
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
        "Each mutation ends with an answer or an error of Saltwise, within a second and 64 MB.",
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
        "The driver, after a garbage collection.",
        soak,
    ),
}
"""Of each file: its title, the command that made it, what its columns mean, and its table."""


if __name__ == "__main__":
    main()
