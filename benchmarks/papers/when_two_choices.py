"""Figures 1 and 3 to 12 of "When Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing"."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saltwise.options import EPSILON, default_theta
from saltwise.splitting.choices import find_optimal_choices
from saltwise.streams import zipf_shares

from .charts import Lines, panels
from .check import Own
from .experiment import Outcome, paper
from .lab import BALANCED, SCHEMES, Lab, top_share
from .partial_key_grouping import TABLE_II
from .rows import Numbers, Row, Rows, facts, mean, paired, pick

KEYS = 10_000

_REAL = ("WP*", "TW*", "CT*")
_FINE = tuple(round(0.1 * i, 1) for i in range(1, 21))
_THRESHOLDS = {"2/n": 2.0, "1/n": 1.0, "1/2n": 0.5, "1/4n": 0.25, "1/8n": 0.125}


def figure_1(lab: Lab) -> Outcome:
    """Average imbalance over the number of workers, on Wikipedia's stand-in; beside PKG's on WP in its own paper."""
    return Outcome(_by_workers(lab, ["WP*"], ("pkg", "dchoices", "wchoices")))


def figure_3(lab: Lab) -> Outcome:
    """Keys in the head, for the two extremes of theta; counted in a stream, and from the shares."""
    rows: list[Row] = []
    for z in lab.each(_FINE):
        shares = zipf_shares(KEYS, z)
        counts = np.bincount(lab.zipf(KEYS, z).keys.astype(np.int64)) / lab.grid.messages
        for n, (name, factor) in product((50, 100), (("2/n", 2.0), ("1/5n", 0.2))):
            row: Row = {"z": z, "n": n, "theta": name, "head": int((shares >= factor / n).sum())}
            rows.append(row | {"counted": int((counts >= factor / n).sum())})
    return Outcome(rows + facts({"2/p1": 2 / top_share(KEYS, 2.0)}))


def figure_4(lab: Lab) -> Outcome:
    """The d that Proposition 4.1 asks for, as a fraction of the workers."""
    rows: list[Row] = []
    for z, n in lab.each(product(_FINE, (5, 10, 50, 100))):
        shares = zipf_shares(KEYS, z)
        d = find_optimal_choices(shares[shares >= default_theta(n)].tolist(), n, EPSILON)
        rows.append({"z": z, "n": n, "d": d, "fraction": d / n})
    return Outcome(rows)


def figures_5_and_6(lab: Lab) -> Outcome:
    """Memory of D-C and W-C against PKG and SG, in states: counted in a stream, and from the formulas."""
    return Outcome(_memory(lab))


def figure_7(lab: Lab) -> Outcome:
    """Average imbalance of W-C and RR over the skew, for five thresholds."""
    rows: list[Row] = []
    for z in lab.each(lab.grid.exponents):
        for n, (name, factor), scheme in product((5, 10, 50, 100), _THRESHOLDS.items(), ("wchoices", "roundrobin")):
            imbalance = lab.run(lab.zipf(KEYS, z), scheme, n, theta=min(1.0, factor / n)).imbalance
            rows.append({"scheme": SCHEMES[scheme], "n": n, "z": z, "theta n": name, "imbalance": imbalance})
    return Outcome(rows + _message(lab))


def figure_8(lab: Lab) -> Outcome:
    """Load of each of five workers from head and tail, at z = 2.0 and theta = 1/(8n)."""
    n, schemes = 5, ("pkg", "wchoices", "roundrobin")
    stream = lab.zipf(KEYS, 2.0)
    counts = np.bincount(stream.keys.astype(np.int64))
    in_head = (counts >= stream.messages / (8 * n))[stream.keys.astype(np.int64)]
    rows: list[Row] = []
    for scheme in lab.each(schemes):
        workers = lab.route(stream, scheme, n, theta=1 / (8 * n))
        head = np.bincount(workers[in_head], minlength=n) / stream.messages
        tail = np.bincount(workers[~in_head], minlength=n) / stream.messages
        for w in range(n):
            rows.append({"scheme": SCHEMES[scheme], "worker": w + 1, "head": float(head[w]), "tail": float(tail[w])})
    return Outcome(rows)


def _stacked(rows: Rows) -> Figure:
    """Draw the load of each worker of figure 8."""
    schemes = list(dict.fromkeys(row["scheme"] for row in rows))
    figure, grid = panels(len(schemes))
    for axes, scheme in zip(grid, schemes, strict=True):
        workers = pick(rows, scheme=scheme)
        head, tail = ([100 * row[part] for row in workers] for part in ("head", "tail"))
        axes.bar([row["worker"] for row in workers], head, label="head")
        axes.bar([row["worker"] for row in workers], tail, bottom=head, label="tail")
        axes.axhline(100 / len(workers), color="#333333", linewidth=1, linestyle=":")
        axes.set_title(scheme)
        axes.set_xlabel("worker")
    figure.supylabel("load, % of messages", fontsize=10)
    grid[0].legend(fontsize=7)
    return figure


def _by_load(rows: Rows) -> list[Row]:
    """Rank the workers of each scheme, the fullest first."""
    loads = sorted((row | {"load": row["head"] + row["tail"]} for row in rows), key=lambda row: -row["load"])
    ranks: Counter[str] = Counter()
    ranked = []
    for row in loads:
        ranks[row["scheme"]] += 1
        ranked.append(row | {"load-rank": ranks[row["scheme"]]})
    return ranked


def figure_9(lab: Lab) -> Outcome:
    """The d of D-C, and the lowest d with which its imbalance matches W-C's (Min-d)."""
    rows: list[Row] = []
    for z, n in lab.each(product(lab.grid.exponents, (5, 10, 50, 100))):
        stream = lab.zipf(KEYS, z)
        solved = lab.run(stream, "dchoices", n)
        target = lab.run(stream, "wchoices", n).imbalance
        least = _least_choices(lab, z, n, target + EPSILON)
        row: Row = {"z": z, "n": n, "D-C": min(solved.choices, n), "Min-d": least, "imbalance": solved.imbalance}
        rows.append(row | {"W-C": target})
    return Outcome(rows)


def figure_10(lab: Lab) -> Outcome:
    """Average imbalance over the skew, for numbers of workers and of keys."""
    rows: list[Row] = []
    schemes = ("pkg", "dchoices", "wchoices", "roundrobin")
    for keys, z in lab.each(product(lab.grid.keys, lab.grid.exponents)):
        for n, scheme in product(lab.grid.workers, schemes):
            run = lab.run(lab.zipf(keys, z), scheme, n)
            row: Row = {"|K|": keys, "n": n, "z": z, "p1": top_share(keys, z), "scheme": SCHEMES[scheme]}
            rows.append(row | {"imbalance": run.imbalance, "states": run.states})
    settings = product(
        lab.grid.keys, (n for n in lab.grid.workers if n >= 50), (z for z in lab.grid.exponents if z >= 1)
    )
    costs = [_memory_by_formula(zipf_shares(keys, z), lab.grid.messages, n) for keys, n, z in settings]
    cost = mean((cost.dchoices - cost.pkg) / (cost.wchoices - cost.pkg) for cost in costs)
    return Outcome(rows + facts({"cost-by-RR": cost}))


def figure_11(lab: Lab) -> Outcome:
    """Average imbalance over the number of workers, on stand-ins of the real data."""
    return Outcome(_by_workers(lab, [*_REAL, "EN"], ("pkg", "dchoices", "wchoices")) + _message(lab))


def figure_12(lab: Lab) -> Outcome:
    """Imbalance over time, on stand-ins of the real data."""
    rows: list[Row] = []
    schemes = ("pkg", "dchoices", "wchoices")
    for data, n in lab.each(product(_REAL, (20, 50, 100))):
        for scheme in schemes:
            run = lab.run(lab.data(data), scheme, n)
            share = run.times / run.times[-1]
            rows += [
                {"data": data, "n": n, "scheme": SCHEMES[scheme], "time": t, "imbalance": i}
                for t, i in zip(share.tolist(), run.series.tolist(), strict=True)
            ]
    return Outcome(rows)


def _by_workers(lab: Lab, names: list[str], schemes: tuple[str, ...]) -> list[Row]:
    return [
        {"data": data, "n": n, "scheme": SCHEMES[scheme], "imbalance": lab.run(lab.data(data), scheme, n).imbalance}
        for data, n in lab.each(product(names, lab.grid.workers))
        for scheme in schemes
    ]


def _memory(lab: Lab) -> list[Row]:
    """Compare states, by section IV-B and counted in a stream."""
    rows: list[Row] = []
    for z, n in lab.each(product(lab.grid.exponents, (5, 10, 50, 100))):
        stream = lab.zipf(KEYS, z)
        cost = _memory_by_formula(zipf_shares(KEYS, z), lab.grid.messages, n)
        counted_pkg, counted_sg = lab.run(stream, "pkg", n).states, lab.run(stream, "shuffle", n).states
        for scheme, memory, width in (("dchoices", cost.dchoices, cost.d), ("wchoices", cost.wchoices, n)):
            counted = lab.run(stream, scheme, n).states
            row: Row = {"z": z, "n": n, "scheme": SCHEMES[scheme], "head": cost.head, "d": width}
            row |= {"above PKG, %": 100 * (memory / cost.pkg - 1), "against SG, %": 100 * (memory / cost.shuffle - 1)}
            row["counted above PKG, %"] = 100 * (counted / counted_pkg - 1)
            row["counted against SG, %"] = 100 * (counted / counted_sg - 1)
            rows.append(row)
    return rows


class _Memory(NamedTuple):
    """States by section IV-B: the sum over keys of min(f_k, w), with w workers of the key."""

    pkg: float
    dchoices: float
    wchoices: float
    shuffle: float
    head: int
    d: int


def _memory_by_formula(shares: NDArray[np.float64], messages: int, n: int) -> _Memory:
    in_head = shares >= default_theta(n)
    d = find_optimal_choices(shares[in_head].tolist(), n, EPSILON)

    def states(head: int, tail: int) -> float:
        return float(np.minimum(shares * messages, np.where(in_head, head, tail)).sum())

    two = min(2, n)
    return _Memory(states(two, two), states(d, two), states(n, two), states(n, n), int(in_head.sum()), d)


def _message(lab: Lab) -> list[Row]:
    """Return what one message is of a stream. Imbalances that differ by less are alike."""
    return facts({"message": 1 / lab.grid.messages})


def _saved(rows: Rows) -> Numbers:
    """How much less than W-C D-C adds to PKG, in the mean."""
    both = paired(rows, "above PKG, %", "scheme", "D-C", "W-C")
    return {"": mean(1 - d / w for _, d, w in both if w > 0)}


def _by_skew(rows: Rows) -> Numbers:
    """What D-C adds to PKG by what W-C adds: the most under moderate skew, the least under the highest."""
    both = paired(rows, "above PKG, %", "scheme", "D-C", "W-C")
    moderate = max(row["z"] for row in rows if row["z"] <= 1.4)
    ratios = {z: [d / w for row, d, w in both if row["z"] == z] for z in (moderate, 2.0)}
    return {"moderate": max(ratios[moderate]), "high": min(ratios[2.0])}


def _bump_to_head(rows: Rows) -> Numbers:
    """How far the bump of the memory is from the largest head, over z, for each number of workers."""
    numbers: Numbers = {}
    for n in dict.fromkeys(row["n"] for row in rows):
        of_n = pick(rows, n=n)
        numbers[f"n = {n}"] = abs(_bump(of_n)["z"] - max(of_n, key=lambda row: row["head"])["z"])
    return numbers


def _bump(rows: list[Row]) -> Row:
    """Return the row of the highest memory that is above its neighbours', over z: the ends of the range are no bump."""
    memory = [row["above PKG, %"] for row in rows]
    inner = range(1, len(rows) - 1)
    tops = [i for i in inner if memory[i - 1] <= memory[i] > memory[i + 1]] or inner
    return rows[max(tops, key=memory.__getitem__)]


def _first_and_highest(rows: Rows) -> Numbers:
    """The mean imbalance at the lowest skew, and the highest of all skews."""
    means = [
        mean(row["imbalance"] for row in pick(rows, z=z)) for z in sorted({row["z"] for row in rows if "z" in row})
    ]
    return {"first": means[0], "highest": max(means)}


def _off_by_n(rows: Rows) -> Numbers:
    """By how much D-C's d is above the lowest one that balances, as a share of the workers."""
    return {f"z = {row['z']}, n = {row['n']}": (row["D-C"] - row["Min-d"]) / row["n"] for row in rows}


def _ends(rows: Rows) -> list[Row]:
    """Call the lowest number of keys lowest, the highest highest; the same for workers and skew, in other columns."""
    rows = [row for row in rows if "n" in row]

    def end(row: Row, column: str) -> str:
        every = {each[column] for each in rows}
        return {min(every): "lowest", max(every): "highest"}.get(row[column], "between")

    return [row | {"|K|": end(row, "|K|"), "end-of-n": end(row, "n"), "end-of-z": end(row, "z")} for row in rows]


def _beaten(rows: Rows) -> Numbers:
    """Count the settings in which W-C is above 1e-4, and above another scheme."""
    others = [pair for scheme in ("PKG", "D-C", "RR") for pair in paired(rows, "imbalance", "scheme", "W-C", scheme)]
    return {"": sum(w > other * 1.001 and w > 1e-4 for _, w, other in others)}


def _below_bound(rows: Rows) -> Numbers:
    """By how much PKG's imbalance is below p1/2 - 1/n, where that is above 0."""
    hot = [row for row in pick(rows, scheme="PKG") if row["p1"] * row["n"] > 2]
    return {f"({i})": row["p1"] / 2 - 1 / row["n"] - row["imbalance"] for i, row in enumerate(hot)}


def _least_choices(lab: Lab, z: float, n: int, target: float) -> int:
    """Return the lowest d for the head with which the imbalance is at most the target. It need not fall as d grows.

    d workers of the hottest key give I(t) >= p1(t)/d - 1/n. A d with a mean of this bound above the target is left out.
    """
    stream = lab.zipf(KEYS, z)
    times = lab.run(stream, "wchoices", n).times
    hottest = int(np.bincount(stream.keys.astype(np.int64)).argmax())
    p1 = np.searchsorted(np.flatnonzero(stream.keys == hottest), times) / times
    possible = (d for d in range(2, n) if np.maximum(p1 / d - 1 / n, 0).mean() <= target)
    return next((d for d in possible if lab.run(stream, "dchoices", n, choices=d).imbalance <= target), n)


_WP: list[Row] = [
    {"n": n, "scheme": "PKG", "imbalance": imbalance}
    for n, imbalance in zip((5, 10, 50, 100), TABLE_II["PKG"], strict=False)
]
OWN: dict[str, Own] = {
    "saved": _saved,
    "by-skew": _by_skew,
    "bump-to-head": _bump_to_head,
    "first-and-highest": _first_and_highest,
    "by-load": _by_load,
    "off-by-n": _off_by_n,
    "ends": _ends,
    "beaten": _beaten,
    "below-bound": _below_bound,
}
PAPER = paper(
    "dchoices",
    "When Two Choices Are not Enough: Balancing at Scale in Distributed Stream Processing",
    OWN,
    (
        "dchoices-fig1",
        "Imbalance over the number of workers",
        figure_1,
        Lines("n", "imbalance", "scheme", level=BALANCED, paper=_WP),
    ),
    (
        "dchoices-fig3",
        "Size of the head",
        figure_3,
        Lines("z", "head", "theta", ["n"], y_label="keys in the head", floor=0.5),
    ),
    ("dchoices-fig4", "Choices d over the skew", figure_4, Lines("z", "fraction", "n", log=False)),
    (
        "dchoices-fig5",
        "Memory against PKG",
        figures_5_and_6,
        Lines("z", "above PKG, %", "scheme", ["n"], y_label="memory above PKG, %", floor=1e-2),
    ),
    (
        "dchoices-fig6",
        "Memory against SG",
        figures_5_and_6,
        Lines("z", "against SG, %", "scheme", ["n"], y_label="memory against SG, %", log=False),
    ),
    (
        "dchoices-fig7",
        "Thresholds of the head, W-C and RR",
        figure_7,
        Lines("z", "imbalance", "theta n", ["scheme", "n"]),
    ),
    ("dchoices-fig8", "Load from head and tail", figure_8, _stacked),
    (
        "dchoices-fig9",
        "d of D-C and the minimum",
        figure_9,
        Lines("z", "value", "what", ["n"], y_label="choices", log=False, melt={"D-C": "D-C", "Min-d": "Min-d"}),
    ),
    (
        "dchoices-fig10",
        "Imbalance over skew, workers and keys",
        figure_10,
        Lines("z", "imbalance", "scheme", ["|K|", "n"]),
    ),
    (
        "dchoices-fig11",
        "Imbalance on real data's stand-ins",
        figure_11,
        Lines("n", "imbalance", "scheme", ["data"], level=5 * EPSILON),
    ),
    (
        "dchoices-fig12",
        "Imbalance over time",
        figure_12,
        Lines("time", "imbalance", "scheme", ["data", "n"], y_label="imbalance, share of messages"),
    ),
)
