"""Table II and figures 4 to 10 of "Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams"."""

from __future__ import annotations

from itertools import pairwise, product
from statistics import median

import numpy as np

from saltwise.streams import Stream

from .charts import Lines
from .check import Own
from .experiment import Outcome, paper
from .lab import BALANCED, SCHEMES, Lab, top_share
from .partial_key_grouping_bounds import BOUNDS
from .rows import Numbers, Row, Rows, facts, mean, paired

TABLE_II = {
    "PKG": (3.7e-8, 1.3e-7, 2.7e-2, 3.7e-2, 3.4e-10, 1.4e-9, 2.3e-9, 3.4e-3),
    "Off-Greedy": (3.7e-8, 4.1e-8, 7.4e-2, 8.3e-2, 3.4e-10, 6e-10, 6.7e-3, 1.7e-2),
    "On-Greedy": (3.6e-7, 6.4e-3, 7.4e-2, 8.3e-2, 7.2e-9, 7.9e-8, 1.0e-2, 1.7e-2),
    "PoTC": (7.3e-7, 7.8e-3, 7.4e-2, 8.3e-2, 1.9e-5, 4.3e-6, 1.2e-2, 1.7e-2),
    "H": (6.4e-2, 7.8e-2, 9.2e-2, 9.2e-2, 3.5e-2, 3.2e-2, 2.0e-2, 2.8e-2),
}
"""The paper's numbers: on WP with 5, 10, 50 and 100 workers, then on TW."""

_DRIFT = ("TW*", "WP*", "CT*")
_DAYS = {"TW*": 31, "WP*": 1, "CT*": 30}
"""TW is of July 2012, WP of a day; CT is of November 2013."""
_KNOWN_LOADS = ("WP*", "TW31*")
_GRAPHS = ("DEB in", "DEB out")
_WORKERS = (5, 10, 50, 100)
_HIGH_SKEW = 1.6
"""An exponent with p1 > 2/5: two choices are too few for five workers or more."""


def table_2(lab: Lab) -> Outcome:
    """Imbalance of five schemes that know the true loads."""
    rows: list[Row] = []
    for data, n, scheme in lab.each(
        product(_KNOWN_LOADS, _WORKERS, ("pkg", "off-greedy", "on-greedy", "potc", "hash"))
    ):
        stream = lab.data(data)
        run = lab.run(stream, scheme, n, load="global")
        row: Row = {"data": data, "scheme": SCHEMES[scheme], "n": n, "imbalance": run.at_the_end}
        rows.append(row | {"in the mean": run.imbalance, "messages": stream.messages, **_load(stream.top_share, n)})
    return Outcome(rows)


def _load(top_share: float, n: int) -> Row:
    return {"n p1 / 2": top_share * n / 2}


def _in_messages(rows: Rows) -> list[Row]:
    """Off-Greedy's imbalance where it balances, as a number of messages."""
    return [
        row | {column: row[column] * row["messages"] for column in ("imbalance", "in the mean")}
        for row in rows
        if row["scheme"] == "Off-Greedy" and row["imbalance"] < BALANCED / 10
    ]


def _unbalanced(rows: Rows) -> Numbers:
    """Count the settings in which a scheme is not balanced."""
    return {s: sum(row["imbalance"] > BALANCED for row in rows if row["scheme"] == s) for s in ("PoTC", "PKG")}


def _growth(rows: Rows) -> Numbers:
    """By how much PKG's imbalance grows with the workers, plus a message on each worker: that is no difference."""
    growth: Numbers = {}
    for data in dict.fromkeys(row["data"] for row in rows):
        for few, many in pairwise(row for row in rows if (row["data"], row["scheme"]) == (data, "PKG")):
            grown = many["imbalance"] - few["imbalance"] + many["n"] / many["messages"]
            growth[f"{data} to n = {many['n']}"] = grown
    return growth


def figure_4(lab: Lab) -> Outcome:
    """Imbalance of hashing, of the oracle (G), and of local estimation with s sources (Ls)."""
    rows: list[Row] = []
    for data, n in lab.each(product(lab.grid.data, _WORKERS)):
        stream = lab.data(data)
        found = {"H": lab.run(stream, "hash", n), "G": lab.run(stream, "pkg", n, load="global")}
        found |= {f"L{s}": lab.run(stream, "pkg", n, sources=s) for s in lab.grid.sources}
        rows += [
            {"data": data, "n": n, "technique": name, "imbalance": run.at_the_end, "messages": stream.messages}
            for name, run in found.items()
        ]
    return Outcome(rows)


def _to_oracle(rows: Rows) -> Numbers:
    """The imbalance of local estimation by the oracle's, of a message of each source at least.

    A source of its own can be off by a message on each worker, so an imbalance below that is none.
    """
    numbers: Numbers = {}
    for name in dict.fromkeys(row["technique"] for row in rows if row["technique"].startswith("L")):
        for row, local, oracle in paired(rows, "imbalance", "technique", name, "G"):
            least = int(name[1:]) / row["messages"]
            numbers[f"{name} {row['data']} {row['n']}"] = max(local, least) / max(oracle, least)
    return numbers


def _unequal(rows: Rows) -> Numbers:
    """The highest imbalance where the most and the fewest sources differ by a factor of more than two."""
    names = [name for name in dict.fromkeys(row["technique"] for row in rows) if name.startswith("L")]
    both = [(x, y) for _, x, y in paired(rows, "imbalance", "technique", names[-1], names[0])]
    return {"": max((max(pair) for pair in both if max(pair) > 2 * min(pair)), default=0.0)}


def figure_5(lab: Lab) -> Outcome:
    """Imbalance through time: the oracle, five sources, and five sources that probe."""
    rows: list[Row] = []
    for data, n in lab.each(product(_DRIFT, (10, 50))):
        stream = lab.data(data)
        minute = max(1, stream.messages // (1440 * _DAYS[data]))
        runs = {
            "G": lab.run(stream, "pkg", n, load="global"),
            "L5": lab.run(stream, "pkg", n),
            "L5P1": lab.run(stream, "pkg", n, load="probing", probe=minute),
            "L5P0.1": lab.run(stream, "pkg", n, load="probing", probe=max(1, minute // 10)),
        }
        setting: Row = {"data": data, "n": n, **_load(_hottest(stream), n)}
        for technique, run in runs.items():
            days = (_DAYS[data] * run.times / stream.messages).tolist()
            points = zip(days, run.series.tolist(), strict=True)
            rows += [setting | {"technique": technique, "day": t, "imbalance": imbalance} for t, imbalance in points]
    stream = lab.data("WP*")
    agreement = float(np.mean(lab.route(stream, "pkg", 10, load="global") == lab.route(stream, "pkg", 10)))
    return Outcome(rows + facts({"agreement": agreement, "overlap": agreement / (2 - agreement)}))


def _medians(rows: Rows) -> list[Row]:
    """The median over time of each line, since spikes are claims of their own."""
    lines: dict[tuple[str, int, str], list[Row]] = {}
    for row in rows:
        if "day" in row:
            lines.setdefault((row["data"], row["n"], row["technique"]), []).append(row)
    return [line[0] | {"imbalance": median(row["imbalance"] for row in line)} for line in lines.values()]


def figure_6(lab: Lab) -> Outcome:
    """How often sources that estimate locally choose another worker than the oracle."""
    rows: list[Row] = []
    for z in lab.each((0.2, 0.4, 0.6, 0.8, 1.0)):
        stream = lab.zipf(10_000, z)
        oracle = lab.route(stream, "pkg", 10, load="global")
        for s in lab.grid.sources:
            local = lab.route(stream, "pkg", 10, sources=s)
            agreement = float(np.mean(oracle == local))
            imbalance = float(np.bincount(local, minlength=10).max()) / stream.messages - 1 / 10
            rows.append({"z": z, "sources": s, "disagreement": 100 * (1 - agreement), "imbalance": imbalance})
    return Outcome(rows)


def figure_7(lab: Lab) -> Outcome:
    """Imbalance of PKG over the Zipf exponent."""
    rows: list[Row] = []
    for keys, z in lab.each(product(lab.grid.keys, lab.grid.exponents)):
        for n in _WORKERS:
            imbalance = lab.run(lab.zipf(keys, z), "pkg", n).at_the_end
            rows.append({"|K|": keys, "z": z, "n": n, **_load(top_share(keys, z), n), "imbalance": imbalance})
    return Outcome(rows)


def _last_balanced(rows: Rows) -> list[Row]:
    """Up to which z PKG is balanced, and which step of z that is, for each number of keys and workers."""
    exponents = [0.0, *sorted({row["z"] for row in rows})]
    lasts: dict[tuple[int, int], float] = {}
    for row in rows:
        setting = row["|K|"], row["n"]
        lasts[setting] = max(lasts.get(setting, 0.0), row["z"] if row["imbalance"] < BALANCED else 0.0)
    return [{"|K|": keys, "n": n, "z": z, "step": exponents.index(z)} for (keys, n), z in lasts.items()]


def _to_bound(rows: Rows) -> Numbers:
    over_limit = [row for row in rows if row["n p1 / 2"] > 1]
    return {f"({i})": r["imbalance"] / ((r["n p1 / 2"] - 1) / r["n"]) for i, r in enumerate(over_limit)}


def figure_8(lab: Lab) -> Outcome:
    """Imbalance where the sources are skewed themselves: the edges of a graph, by one end and the other."""
    rows: list[Row] = []
    for data, s, n, feed in lab.each(product(_GRAPHS, lab.grid.sources, _WORKERS, ("shuffle", "keyed"))):
        stream = lab.data(data)
        imbalance = lab.run(stream, "pkg", n, sources=s, feed=feed).at_the_end
        row: Row = {"data": data, "sources": s, "n": n, "feed": feed, "imbalance": imbalance}
        row |= {"split": f"{'uniform' if feed == 'shuffle' else 'skewed'}, s = {s}"}
        rows.append(row | {"messages": stream.messages, **_load(stream.top_share, n)})
    return Outcome(rows)


def _by_sources(rows: Rows) -> list[Row]:
    """Call the highest number of sources most, and the lowest fewest."""
    names = {max(row["sources"] for row in rows): "most", min(row["sources"] for row in rows): "fewest"}
    return [row | {"sources": names.get(row["sources"], "some")} for row in rows]


def figure_9(lab: Lab) -> Outcome:
    """Imbalance of Greedy-d over d, where two choices are too few for any number of workers."""
    rows: list[Row] = []
    stream = lab.zipf(10_000, _HIGH_SKEW)
    d_of = {5: (2, 3, 4, 5), 10: (2, 3, 4, 6, 9, 10), 40: (2, 4, 9, 15, 20, 30, 40), 50: (2, 9, 20, 30, 40, 50)}
    d_of[100] = (2, 9, 20, 40, 60, 80, 100)
    for n, d in lab.each([(n, d) for n, tried in d_of.items() for d in tried]):
        found = lab.run(stream, "greedy-d", n, choices=d)
        rows.append({"n": n, "d": d, "imbalance": found.at_the_end, "states": found.states})
    steep = lab.run(lab.zipf(10_000, 2.0), "greedy-d", 10, choices=9).at_the_end
    return Outcome(rows + facts({"z = 2, n = 10": steep, "states-of-SG": lab.run(stream, "shuffle", 100).states}))


def figure_10(lab: Lab) -> Outcome:
    """Counters that the workers hold, and those that travel, at several aggregation periods (memory only)."""
    rows: list[Row] = []
    messages = min(lab.grid.messages, 2_000_000)
    for data, scheme in lab.each(product(("WP*", "TW*"), ("pkg", "shuffle", "hash"))):
        stream = lab.data(data)
        keys = stream.keys[:messages].astype(np.int64)
        workers = lab.route(stream, scheme, 8)[:messages].astype(np.int64)
        for periods in (60, 20, 10, 1):
            counters = [len(np.unique(pairs)) for pairs in np.array_split(keys * 8 + workers, periods)]
            row: Row = {"data": data, "scheme": SCHEMES[scheme], "messages a period": messages // periods}
            rows.append(row | {"counters": mean(counters), "sent": sum(counters)})
    return Outcome(rows)


def _hottest(stream: Stream) -> float:
    """Return the highest share that a key has in a quarter of the stream: p1, under drift."""
    m = stream.messages
    return max(Stream("", stream.keys[i * m // 4 : (i + 1) * m // 4]).top_share for i in range(4))


_PAPER: list[Row] = [
    {"data": data, "n": n, "scheme": scheme, "imbalance": imbalance}
    for scheme, imbalances in TABLE_II.items()
    for (data, n), imbalance in zip(product(_KNOWN_LOADS, _WORKERS), imbalances, strict=True)
]
OWN: dict[str, Own] = {
    "in-messages": _in_messages,
    "unbalanced": _unbalanced,
    "growth": _growth,
    "to-oracle": _to_oracle,
    "unequal": _unequal,
    "medians": _medians,
    "late": lambda rows: [row for row in rows if row.get("day", 0) > _DAYS["CT*"] / 10],
    "lasts": _last_balanced,
    "to-bound": _to_bound,
    "by-sources": _by_sources,
}
PAPER = paper(
    "pkg",
    "Partial Key Grouping: Load-Balanced Partitioning of Distributed Streams",
    OWN,
    (
        "pkg-table2",
        "Imbalance of five schemes with knowledge of the loads",
        table_2,
        Lines("n", "imbalance", "scheme", ["data"], floor=1e-7, paper=_PAPER),
    ),
    ("pkg-fig4", "Local load estimation against the oracle", figure_4, Lines("n", "imbalance", "technique", ["data"])),
    (
        "pkg-fig5",
        "Imbalance through time",
        figure_5,
        Lines("day", "imbalance", "technique", ["data", "n"], y_label="imbalance, share of messages"),
    ),
    (
        "pkg-fig6",
        "Disagreement between sources and oracle",
        figure_6,
        Lines("z", "disagreement", "sources", y_label="disagreement with G, %", log=False),
    ),
    ("pkg-fig7", "Skew of the keys", figure_7, Lines("z", "imbalance", "n", ["|K|"])),
    ("pkg-fig8", "Skew of the sources", figure_8, Lines("n", "imbalance", "split", ["data"])),
    ("pkg-fig9", "Number of choices", figure_9, Lines("d", "imbalance", "n")),
    (
        "pkg-fig10",
        "Memory (the figure's throughput needs a cluster)",
        figure_10,
        Lines("messages a period", "counters", "scheme", ["data"], y_label="counters held", log=False),
    ),
    *BOUNDS,
)
