"""How long it takes to construct a partition function and to look keys up in it, after warm-up.

Run it with: python benchmarks/placement.py [rounds]
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from saltwise.placement.aims import DEFAULT_AIMS, Aims
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.construct import ALGORITHMS, construct
from saltwise.placement.resources import threshold
from saltwise.streams import zipf_shares

DOMAIN, LOOK_UPS = 1_000_000, 1_000_000
TRACKED, WORKERS = (125, 250, 500), (8, 16, 32)


def median(work: Callable[[], object], rounds: int) -> float:
    """Return the median time in milliseconds, without the first round."""
    taken = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - started))
    return statistics.median(taken[1:])


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    keys = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, LOOK_UPS)
    shares = zipf_shares(DOMAIN, 1.0)
    shown = Table(
        "R", "N", "H_c, ms", *(f"{a}, ms" for a in ALGORITHMS), title=f"z = 1, |D| = {DOMAIN:,}, {Aims.resources}"
    )
    for tracked in TRACKED:
        for workers in WORKERS:
            hot, frequencies = keys[:tracked], shares[:tracked]
            # With this sigma the last of these keys is just tracked, beginning with the function for one worker less.
            sigma = Aims.sigma * frequencies[-1] / threshold(DEFAULT_AIMS, workers) * 0.999
            cells = [median(lambda n=workers: ConsistentHash(n).ring, rounds)]
            for algorithm in ALGORITHMS:
                before = ConsistentHash(1)
                for n in range(2, workers):
                    before = construct(hot, frequencies, n, before, algorithm=algorithm, sigma=sigma)

                def work(algorithm=algorithm, before=before, workers=workers, sigma=sigma, hot=hot, f=frequencies):
                    made = construct(hot, f, workers, before, algorithm=algorithm, sigma=sigma)
                    assert len(made.explicit) == len(hot)

                cells.append(median(work, rounds))
            shown.add_row(str(tracked), str(workers), *(f"{cell:.1f}" for cell in cells))
    Console().print(shown)

    pair = construct(keys[:500], shares[:500], 32, algorithm="scan", sigma=0.01)
    consistent = pair.others
    shown = Table("look-ups", "ms", title=f"{LOOK_UPS:,} keys, N = 32")
    shown.add_row("consistent hash", f"{median(lambda: consistent.place(keys), rounds):.0f}")
    shown.add_row(f"hash pair, {len(pair.explicit)} mappings", f"{median(lambda: pair.place(keys), rounds):.0f}")
    Console().print(shown)


if __name__ == "__main__":
    main()
