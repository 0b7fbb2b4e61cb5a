"""How long the simulator takes for ten million messages, scheme by scheme, after warm-up.

Run it with: python benchmarks/simulator.py [rounds]
"""

import statistics
import sys
import time

from rich.console import Console
from rich.table import Table

from saltwise.simulate import simulate
from saltwise.streams import zipf

MESSAGES, KEYS, WORKERS = 10_000_000, 10_000, 100
CHEAP = ("hash", "shuffle", "pkg", "greedy-d", "potc", "on-greedy", "off-greedy")
WITH_SKETCH = ("dchoices", "wchoices", "roundrobin")


def seconds(keys, scheme: str, rounds: int) -> float:
    """Return the median time of one simulation."""
    simulate(keys[:10_000], scheme, WORKERS)
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        simulate(keys, scheme, WORKERS)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    streams = {z: zipf(MESSAGES, KEYS, z).keys for z in (0.8, 1.4, 2.0)}
    shown = Table("scheme", *(f"z = {z}, s" for z in streams), title=f"m = {MESSAGES:,}, n = {WORKERS}, s = 5")
    for scheme in (*CHEAP, *WITH_SKETCH):
        shown.add_row(scheme, *(f"{seconds(keys, scheme, rounds):.2f}" for keys in streams.values()))
    Console().print(shown)


if __name__ == "__main__":
    main()
