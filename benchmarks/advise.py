"""What `saltwise advise` predicts, against what is gained where its advice is followed.

    python benchmarks/advise.py [--rounds 3] [--out benchmarks/results/advise.csv]
    python benchmarks/advise.py --size 1g

The queries are those of tests/advise/planted.py: stock Spark runs them in one application, and as advised in another.
Both leave event logs, which tell all times. The applications take turns. With `--size`, such a log is repeated until it
is so large, and `saltwise advise` reads it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from common import RESULTS, console, write_csv
from rich.table import Table

from saltwise.advise.application import executions
from saltwise.advise.event_log import event_logs
from saltwise.advise.findings import findings
from saltwise.advise.schedule import Range
from saltwise.sizes import bytes_of

WAIT = 0.004
"""Seconds that a row takes: long beside the start of Python workers, which is not skew."""

PLANTED = Path(__file__).parent.parent / "tests" / "advise" / "planted.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="applications of each side; each runs a query once, warm")
    parser.add_argument("--out", type=Path, default=RESULTS / "advise.csv")
    parser.add_argument("--size", help="of a log that is only read, such as 1g")
    given = parser.parse_args()
    if given.size is not None:
        read_large(bytes_of("size", given.size))
        return
    predicted: dict[str, list[Range]] = {}
    seconds: dict[tuple[str, bool], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(given.rounds):
            for cores in (8, 2):
                for follow in (False, True):
                    logs = Path(folder) / f"{i}-{cores}-{follow}"
                    command = [sys.executable, PLANTED, logs, "--cores", str(cores), "--wait", str(WAIT)]
                    command += ["--follow"] if follow else []
                    subprocess.run(command, check=True)
                    read(logs, follow, predicted, seconds)
    changed = [name for name in predicted if (name, True) in seconds]
    rows = [row(name, predicted[name], seconds[name, False], seconds[name, True]) for name in changed]
    write_csv(given.out, rows)
    table = Table(*rows[0])
    for each in rows:
        table.add_row(*map(str, each.values()))
    console.print(table)


def read(
    logs: Path, follow: bool, predicted: dict[str, list[Range]], seconds: dict[tuple[str, bool], list[float]]
) -> None:
    """Add the seconds of each query, and what it would gain."""
    [log] = event_logs(logs)
    longest: dict[str, float] = {}
    for execution in executions(log.lines()):
        if execution.description == "warm-up" or execution.seconds is None:
            continue
        # A case may run a small query first, to find its keys.
        longest[execution.description] = max(execution.seconds, longest.get(execution.description, 0.0))
        if not follow:
            for finding in findings([execution]):
                predicted.setdefault(finding.description, []).append(finding.gain)
    for description, taken in longest.items():
        seconds.setdefault((description, follow), []).append(taken)


def row(name: str, predicted: list[Range], stock: list[float], followed: list[float]) -> dict[str, object]:
    """Return the figures of a query: the predicted range, and what was gained."""
    low, high = (statistics.median(ends) for ends in zip(*predicted, strict=True))
    gained = statistics.median(stock) - statistics.median(followed)
    return {
        "query": name,
        "stock_seconds": round(statistics.median(stock), 2),
        "followed_seconds": round(statistics.median(followed), 2),
        "predicted_low": round(low, 2),
        "predicted_high": round(high, 2),
        "gain": round(gained, 2),
        "high_by_gain": round(high / gained, 2) if gained > 0 else "",
    }


def read_large(size: int) -> None:
    """Print how long `saltwise advise` takes for a log of so many bytes, and the most memory that it has."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, PLANTED, Path(folder) / "one", "--cold"], check=True)
        [one] = event_logs(Path(folder) / "one")
        path = Path(folder) / "large"
        with path.open("wb") as file:
            for line in repeated([*one.lines()], size):
                file.write(line + b"\n")
        begun = time.perf_counter()
        command = [sys.executable, "-c", "from saltwise.cli.commands import main; main()", "advise", path]
        _, _, used = os.wait4(subprocess.Popen(command, stdout=subprocess.DEVNULL).pid, 0)
        seconds = time.perf_counter() - begun
        console.print(
            f"{path.stat().st_size / 2**30:.2f} GB in {seconds:.1f} s, at most {used.ru_maxrss / 1024:.0f} MB"
        )


def repeated(lines: list[bytes], size: int) -> Iterator[bytes]:
    """Yield the events of an application again and again, as executions, jobs and stages with numbers of their own."""
    events = [json.loads(line) for line in lines]
    written = turn = 0
    while written < size:
        for event in events:
            text = json.dumps(renumbered(event, turn * 1000), separators=(",", ":")).encode()
            written += len(text) + 1
            yield text
        turn += 1


NUMBERED = {"Stage ID", "Job ID", "executionId", "rootExecutionId"}


def renumbered(value: object, by: int) -> object:
    if isinstance(value, list):
        return [renumbered(each, by) for each in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, object] = {}
    for name, each in value.items():
        if name in NUMBERED and each is not None:
            found[name] = each + by
        elif name == "Stage IDs":
            found[name] = [stage + by for stage in each]
        elif name == "spark.sql.execution.id":
            found[name] = str(int(each) + by)
        else:
            found[name] = renumbered(each, by)
    return found


if __name__ == "__main__":
    main()
