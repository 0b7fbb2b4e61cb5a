"""Section 4.5 of Gedik, "Partitioning functions for stateful data parallelism": what a splitter does for each tuple."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from saltwise.placement.aims import DEFAULT_AIMS
from saltwise.placement.construct import construct
from saltwise.placement.resources import threshold
from saltwise.sketches.sliding_counts import SlidingCounts
from saltwise.streams import zipf, zipf_shares

from .charts import Lines
from .experiment import Measured, Outcome
from .lab import Lab
from .rows import Row
from .worker_steps import ERROR

_WORKERS = 10
_TUPLES = 100_000
_TRIES = 5


def section_4(lab: Lab) -> Outcome:
    """Time to count a tuple's key, and to look up its worker, over the number of keys."""
    rows: list[Row] = []
    for domain in lab.each([max(100, lab.grid.messages // share) for share in (1_000, 100, 10)]):
        hashes = lab.rng(domain).integers(-(2**63), 2**63, domain, dtype=np.int64)
        function = construct(hashes, zipf_shares(domain, 1.0), _WORKERS)
        stream = hashes[zipf(_TUPLES, domain, 1.0, lab.seed).keys.astype(np.int64) - 1]
        row: Row = {"|D|": domain, "count": _seconds(partial(_count, stream.tolist())) / _TUPLES}
        rows.append(row | {"look up": _seconds(partial(function.place, stream)) / _TUPLES})
    return Outcome(rows)


def _count(stream: list[int]) -> None:
    recent: SlidingCounts[int] = SlidingCounts(_TUPLES, ERROR * threshold(DEFAULT_AIMS, _WORKERS))
    for key in stream:
        recent.offer(key)


def _seconds(call: Callable[[], object]) -> float:
    """Return the least time of a few calls."""
    found = []
    for _ in range(_TRIES):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return min(found)


SPLITTER: list[Measured] = [
    (
        "gedik-section4",
        "Time of a splitter for each tuple",
        section_4,
        Lines(
            "|D|",
            "value",
            "what",
            y_label="seconds a tuple",
            melt={"count": "count", "look up": "look up"},
        ),
    )
]
