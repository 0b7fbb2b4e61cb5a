"""Section 4.5 of Gedik, "Partitioning functions for stateful data parallelism": what a splitter does for each tuple."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from saltwise.placement.construct import construct
from saltwise.placement.resources import threshold
from saltwise.sketches.sliding_counts import SlidingCounts
from saltwise.streams import zipf, zipf_shares

from .charts import lines
from .experiment import Claims, Experiment, Outcome, Row, values
from .lab import Lab
from .worker_steps import ERROR

_WORKERS = 10
_TUPLES = 100_000
_TRIES = 5
_GROWTH = 3.0
"""A time that does not depend on |D| may grow so much from the fewest keys to a hundred times as many: by caches."""


def section_4(lab: Lab) -> Outcome:
    """Time to count a tuple's key, and to look up its worker, over the number of keys."""
    rows: list[Row] = []
    for domain in lab.each([max(100, lab.grid.messages // share) for share in (1_000, 100, 10)]):
        hashes = lab.rng(domain).integers(-(2**63), 2**63, domain, dtype=np.int64)
        function = construct(hashes, zipf_shares(domain, 1.0), _WORKERS)
        stream = hashes[zipf(_TUPLES, domain, 1.0, lab.seed).keys.astype(np.int64) - 1]
        row: Row = {"|D|": domain, "count": _seconds(partial(_count, stream.tolist())) / _TUPLES}
        rows.append(row | {"look up": _seconds(partial(function.place, stream)) / _TUPLES})
    figure = lines(
        [{"|D|": row["|D|"], "what": what, "seconds": row[what]} for row in rows for what in ("count", "look up")],
        "|D|",
        "seconds",
        "what",
        y_label="seconds a tuple",
    )
    times = {what: values(rows, what) for what in ("count", "look up")}
    rate = min(1 / (count + place) for count, place in zip(*times.values(), strict=True))
    claims = Claims("4.5")
    claims.add(
        "a splitter counts and looks up each tuple in O(1), at streaming speed",
        "; ".join(f"{what} in " + ", ".join(f"{1e9 * s:.0f} ns" for s in found) for what, found in times.items())
        + f" for |D| = {', '.join(format(row['|D|'], ',') for row in rows)}: {rate:,.0f} tuples a second at least",
        all(found[-1] < _GROWTH * found[0] for found in times.values()),
        note="One splitter. Counts are in Python, look-ups compiled; the paper has no number for streaming speed.",
    )
    return Outcome(rows, figure, claims)


def _count(stream: list[int]) -> None:
    recent: SlidingCounts[int] = SlidingCounts(_TUPLES, ERROR * threshold("LLL", _WORKERS))
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


EXPERIMENTS = [Experiment("gedik-section4", "Time of a splitter for each tuple", section_4)]
