"""Theorem 5.1 and the applications of section 4 of "Partial Key Grouping".

The PKG paper's figures are in :mod:`benchmarks.papers.partial_key_grouping`.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from saltwise.errors import SaltwiseError
from saltwise.sketches.space_saving import SpaceSaving
from saltwise.streams import Stream

from .charts import Lines
from .experiment import Measured, Outcome
from .lab import SCHEMES, Lab
from .rows import Row, mean

_WORKERS = (30, 100, 300, 1000, 3000)
_APPLIED = (5, 20, 50)
"""Workers of the applications."""
_SCHEMES = ("pkg", "shuffle", "hash")
_COUNTERS = 200
"""Of a worker's SpaceSaving summary."""
_TOP = 20
_FEATURES, _CLASSES, _BINS = 20, 2, 64


def theorem_5_1(lab: Lab) -> Outcome:
    """Imbalance on the uniform distribution over 5n keys, on which the theorem is tight, with one choice and two."""
    rows: list[Row] = []
    workers = [n for n in _WORKERS if n * n <= lab.grid.messages]
    for n in lab.each(workers):
        stream = lab.zipf(5 * n, 0.0)
        for d, scheme in ((1, "hash"), (2, "pkg")):
            by_mean = float(lab.run(stream, scheme, n, load="global").series[-1]) * n
            growth = math.log(n) / math.log(math.log(n)) if d == 1 else 1.0
            rows.append({"n": n, "d": d, "I by m/n": by_mean, "by the bound": by_mean / growth})
    return Outcome(rows)


def section_4(lab: Lab) -> Outcome:
    """Naive Bayes, the histograms of a decision tree, and heavy hitters, each by PKG, SG and KG."""
    rows: list[Row] = []
    messages = min(lab.grid.messages, 1_000_000)
    stream = Stream("WP* for applications", lab.data("WP*").keys[:messages])
    for n in lab.each(_APPLIED):
        for scheme in _SCHEMES:
            worker = lab.route(stream, scheme, n).astype(np.int64)
            row: Row = {"n": n, "scheme": SCHEMES[scheme]}
            row |= {"counters a word": lab.run(stream, scheme, n).states / stream.distinct}
            rows.append(row | _heavy_hitters(stream.keys, worker, n) | _histograms(lab, scheme, n))
    return Outcome(rows)


def _heavy_hitters(keys: np.ndarray, worker: np.ndarray, n: int) -> Row:
    """Return how many summaries count one of the most frequent keys, and by how much all of them may be wrong."""
    summaries = [SpaceSaving(_COUNTERS) for _ in range(n)]
    for key, at in zip(keys.tolist(), worker.tolist(), strict=True):
        summaries[at].offer(key)
    found, counts = np.unique(keys, return_counts=True)
    top = found[np.argsort(-counts, kind="stable")[:_TOP]].tolist()
    terms = [np.unique(worker[keys == key]).tolist() for key in top]
    errors = [
        sum(estimate.upper - estimate.lower for at in holders for estimate in [summaries[at].estimate(key)])
        for key, holders in zip(top, terms, strict=True)
    ]
    return {"error terms": max(map(len, terms)), "error": max(errors) / len(keys)}


def _histograms(lab: Lab, scheme: str, n: int) -> Row:
    """Return how many histograms there are by D C L, and how far the median of merged ones is from the true one."""
    try:
        from saltwise.aggregates.histogram import StreamingHistogram, split_points
    except ImportError as error:
        raise SaltwiseError(f"section 4 needs {error.name}: run pip install 'saltwise[aggregates]'.") from error

    rng = lab.rng(n)
    m = min(lab.grid.messages, 200_000)
    feature, label, value = rng.integers(0, _FEATURES, m), rng.integers(0, _CLASSES, m), rng.lognormal(0, 1, m)
    worker = lab.route(Stream("features", feature), scheme, n).astype(np.int64)
    histogram = StreamingHistogram("value", bins=_BINS)
    kept, off = 0, []
    for f in range(_FEATURES):
        for c in range(_CLASSES):
            mine = (feature == f) & (label == c)
            merged = histogram.zero()
            for at in np.unique(worker[mine]):
                batch = pa.record_batch({"value": value[mine & (worker == at)]})
                merged = histogram.merge(merged, histogram.update(histogram.zero(), batch))
                kept += 1
            [middle] = split_points(histogram.finish(merged), 2)
            off.append(abs(float((value[mine] <= middle).mean()) - 0.5))
    return {"histograms": kept / (_FEATURES * _CLASSES), "median off": mean(off)}


BOUNDS: list[Measured] = [
    (
        "pkg-theorem5",
        "The bound of theorem 5.1, and where it is tight",
        theorem_5_1,
        Lines("n", "I by m/n", "d", y_label="imbalance by m/n"),
    ),
    (
        "pkg-section4",
        "Applications: counters, histograms and heavy hitters",
        section_4,
        Lines("n", "error", "scheme", y_label="error of the most frequent, share of messages"),
    ),
]
