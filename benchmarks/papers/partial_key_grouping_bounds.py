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

from .charts import lines
from .experiment import Claims, Experiment, Outcome, Row, highest, mean, values
from .lab import SCHEMES, Lab

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
    figure = lines(rows, "n", "I by m/n", "d", y_label="imbalance by m/n")
    found = {d: values(rows, "by the bound", d=d) for d in (1, 2)}
    claims = Claims("Theorem 5.1")
    for d, bound in ((1, "m/n ln n / ln ln n"), (2, "m/n")):
        claims.add(
            f"with p1 <= 1/(5n), the imbalance with {'one choice' if d == 1 else 'two choices'} is O({bound}), and "
            "Omega of the same on the uniform distribution over 5n keys",
            f"{min(found[d]):.3f} to {max(found[d]):.3f} times {bound}, for n = {workers[0]} to {workers[-1]}",
            max(found[d]) < 5 * min(found[d]) and max(found[d]) < 5,
            "With few workers, whether a worker has too few keys is a matter of the draw.",
        )
    one, two = (values(rows, "I by m/n", d=d) for d in (1, 2))
    claims.add(
        "two choices can significantly reduce the imbalance, compared to key grouping",
        f"one choice has {min(a / b for a, b in zip(one, two, strict=True)):.1f} times the imbalance of two at least",
        all(a > 2 * b for a, b in zip(one, two, strict=True)),
    )
    return Outcome(rows, figure, claims)


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
    figure = lines(rows, "n", "error", "scheme", y_label="error of the most frequent, share of messages")
    most = {s: highest(rows, "error terms", scheme=SCHEMES[s]) for s in _SCHEMES}
    large = {s: values(rows, "error", scheme=SCHEMES[s], n=_APPLIED[-1])[0] for s in _SCHEMES}
    claims = Claims("4")
    counters = {s: highest(rows, "counters a word", scheme=SCHEMES[s]) for s in _SCHEMES}
    claims.add(
        "naive Bayes: a word has two counters with PKG, up to n with SG",
        f"at most {counters['pkg']:.2f} a word with PKG, {counters['shuffle']:.2f} with SG, in the mean over words",
        counters["pkg"] <= 2 < counters["shuffle"],
        "Most words occur too seldom to reach n workers.",
        where="3.1, example",
    )
    kept = {s: values(rows, "histograms", scheme=SCHEMES[s]) for s in _SCHEMES}
    claims.add(
        "decision tree: PKG keeps 2 D C L histograms, whatever the number of workers, and SG n D C L",
        f"{min(kept['pkg']):.2f} to {max(kept['pkg']):.2f} times D C L with PKG, "
        + ", ".join(f"{k:.0f} with SG for n = {n}" for n, k in zip(_APPLIED, kept["shuffle"], strict=True)),
        max(kept["pkg"]) <= 2 and all(round(k) == n for n, k in zip(_APPLIED, kept["shuffle"], strict=True)),
        where="4.1",
    )
    off = {s: mean(values(rows, "median off", scheme=SCHEMES[s])) for s in _SCHEMES}
    claims.add(
        "decision tree: the histograms of two workers merge into one of the whole stream",
        "the rank of the median is off by "
        + ", ".join(f"{gap:.2%} with {SCHEMES[s]}" for s, gap in off.items())
        + " in the mean",
        off["pkg"] < 0.01,
        where="4.1",
    )
    claims.add(
        "heavy hitters: the error of an item has two terms with PKG, whatever the number of workers, and n with SG",
        f"at most {most['pkg']:.0f} summaries count one of the {_TOP} most frequent with PKG, {most['shuffle']:.0f} "
        f"with SG, {most['hash']:.0f} with KG",
        most["pkg"] <= 2 and most["shuffle"] == _APPLIED[-1],
        where="4.2",
    )
    claims.add(
        "heavy hitters: so PKG has smaller errors than SG where there are many workers",
        f"for n = {_APPLIED[-1]} and {_COUNTERS} counters a worker, at most {large['pkg']:.1e} of the messages with "
        f"PKG, {large['shuffle']:.1e} with SG, {large['hash']:.1e} with KG",
        large["pkg"] < large["shuffle"],
        where="4.2",
    )
    return Outcome(rows, figure, claims)


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


EXPERIMENTS = [
    Experiment("pkg-theorem5", "The bound of theorem 5.1, and where it is tight", theorem_5_1),
    Experiment("pkg-section4", "Applications: counters, histograms and heavy hitters", section_4),
]
