"""Figures 2 to 5 of "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine": the MILP."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from saltwise.arrays import Int64s
from saltwise.rebalancing.cluster import Cluster
from saltwise.rebalancing.flux import flux, repeated
from saltwise.rebalancing.milp import milp

from .charts import Lines
from .experiment import Outcome, paper
from .lab import Lab
from .rows import Row, Rows, facts, pick

CLUSTERS = ((20, 400), (40, 800), (60, 1200))
"""Nodes and key groups."""
MEAN = 50.0
"""Mean load of a node, in percent; the paper does not give it."""

_PERIODS = 16


def fluctuating(nodes: int, groups: int, varies: float, rng: np.random.Generator) -> Cluster:
    """Return a cluster as section 5.1 describes it.

    Each key group has the mean load within 5 %. A fifth of the nodes get varies / 2 more or less, half of them each,
    by changing a random half of their key groups.

    >>> cluster = fluctuating(20, 400, 30, np.random.default_rng(1))
    >>> 13 < cluster.load_distance() < 17
    True
    """
    node = np.repeat(np.arange(nodes), groups // nodes)
    load = MEAN * nodes / groups * rng.uniform(0.95, 1.05, groups)
    for i, changed in enumerate(rng.choice(nodes, nodes // 5, replace=False)):
        some = rng.choice(np.flatnonzero(node == changed), groups // nodes // 2, replace=False)
        share = min(1.0, varies / 2 / load[some].sum())
        load[some] *= 1 + (share if i % 2 else -share)
    return Cluster(load, node, nodes)


def _against_flux(size: int, lab: Lab) -> Outcome:
    """Load distance of the MILP and of Flux, over the fluctuation and the migrations allowed."""
    nodes, groups = CLUSTERS[size]
    seconds = lab.grid.seconds * nodes / CLUSTERS[-1][0]
    rows: list[Row] = []
    for max_migrations, varies in lab.each(product(lab.grid.migrations, lab.grid.fluctuations)):
        cluster = fluctuating(nodes, groups, varies, lab.rng(varies))
        found = milp(cluster, max_migrations=max_migrations, seconds=seconds)
        plans = {
            "none": cluster.node,
            "Flux": flux(cluster, max_migrations),
            "Flux repeated": repeated(cluster, max_migrations),
        }
        for technique, node in (plans | {"MILP": found.node}).items():
            row: Row = {"migrations": max_migrations, "varies": varies, "technique": technique, "seconds": seconds}
            distance, moved = cluster.load_distance(node), int(cluster.moved(node).sum())
            rows.append(row | {"distance": distance, "moved": moved, "no less than": found.bound})
    cluster = fluctuating(nodes, groups, 30, lab.rng(30))
    times = {"least-time": 0.4, "most-time": 2.0}
    distances = {
        name: cluster.load_distance(milp(cluster, max_migrations=20, seconds=share * lab.grid.seconds).node)
        for name, share in times.items()
    }
    return Outcome(rows + facts(distances))


def figure_5(lab: Lab) -> Outcome:
    """Scale-in by ten of sixty nodes while one or five of the others are overloaded."""
    nodes, groups = CLUSTERS[-1]
    rows: list[Row] = []
    techniques = {"integrated": _integrated, "not integrated": _apart, "constraints 1 to 5": _literal}
    cases = (5,) if lab.quick else (1, 5)
    for overloaded, technique in lab.each(product(cases, techniques)):
        cluster = fluctuating(nodes, groups, 0, lab.rng(overloaded))
        load = np.where(cluster.node < overloaded, 100 / MEAN, 1.0) * cluster.load
        cluster = replace(cluster, load=load, kill=np.arange(nodes - 10, nodes))
        for period in range(_PERIODS + 1):
            left = int(np.isin(cluster.node, cluster.kill).sum())
            row: Row = {"case": f"{overloaded}OL", "technique": technique, "period": period}
            rows.append(row | {"distance": cluster.load_distance(), "left": left})
            if period < _PERIODS:
                cluster = replace(cluster, node=techniques[technique](cluster, lab.grid.seconds / 2))
    return Outcome(rows)


def _periods(rows: Rows) -> list[Row]:
    """From which period on each technique is well balanced, and the marked nodes are empty."""
    return [
        {
            "case": case,
            "technique": technique,
            "good": _since(line, "distance", 0.1 * MEAN),
            "empty": _since(line, "left", 0),
        }
        for case in dict.fromkeys(row["case"] for row in rows)
        for technique in dict.fromkeys(row["technique"] for row in rows)
        for line in [pick(rows, case=case, technique=technique)]
    ]


def _since(rows: Rows, column: str, at_most: float) -> int:
    """Return the first period from which on the column stays that low."""
    return max((row["period"] + 1 for row in rows if row[column] > at_most), default=0)


def _integrated(cluster: Cluster, seconds: float) -> Int64s:
    return milp(cluster, max_migrations=20, seconds=seconds).node


def _literal(cluster: Cluster, seconds: float) -> Int64s:
    return milp(cluster, max_migrations=20, seconds=seconds, literal=True).node


def _apart(cluster: Cluster, seconds: float) -> Int64s:
    """Return what a scale-in of its own gives: marked nodes are emptied evenly on the others, then all is balanced."""
    waiting = np.flatnonzero(np.isin(cluster.node, cluster.kill))
    if not len(waiting):
        return milp(cluster, max_migrations=20, seconds=seconds).node
    node = cluster.node.copy()
    others = np.flatnonzero(cluster.staying)
    node[waiting[:20]] = others[(len(waiting) + np.arange(len(waiting[:20]))) % len(others)]
    return np.asarray(node)


PAPER = paper(
    "milp",
    "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine: the MILP",
    {"periods": _periods},
    *(
        (
            f"milp-fig{size + 2}",
            f"MILP and Flux on {nodes} nodes",
            partial(_against_flux, size),
            Lines("varies", "distance", "technique", ["migrations"], log=False),
        )
        for size, (nodes, _) in enumerate(CLUSTERS)
    ),
    (
        "milp-fig5",
        "Scale-in with load balancing",
        figure_5,
        Lines("period", "distance", "technique", ["case"], x_label="adaptation period", log=False),
    ),
)
