"""Figures 10 to 14 of "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine": ALBIC and COLA."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from scipy import sparse

from saltwise.rebalancing.albic import albic
from saltwise.rebalancing.cluster import Cluster
from saltwise.rebalancing.cola import cola
from saltwise.rebalancing.traffic import Traffic

from .charts import Panels
from .experiment import Outcome, paper
from .jobs import OPERATORS, apart, one_to_one, real_job
from .lab import Lab
from .reconfiguration_milp import CLUSTERS, fluctuating
from .rows import Row, Rows

MIGRATIONS = {"synthetic": 20, "real": 10}
"""maxMigrations, as in the paper."""

NODES = 20
"""Of the jobs on real data."""

SMALL = (12, 240)
"""Nodes and key groups in place of the paper's, where streams are short too."""

GROUPS = {2: 100, 3: 100, 4: 40}
"""Key groups of each operator: five a node, as the paper has it for Job 2; two for Job 4, of which it says nothing."""

_HAVE = {"collocation": "collocation factor", "distance": "load distance, %"}


def figure_10(lab: Lab) -> Outcome:
    """Forty nodes, over the collocation that can be reached."""
    shares = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0) if not lab.quick else (0.0, 0.5, 1.0)
    nodes, groups = CLUSTERS[1] if not lab.quick else SMALL
    rows = [row for share in lab.each(shares) for row in _synthetic(lab, nodes, groups, share)]
    return Outcome(rows)


def figure_11(lab: Lab) -> Outcome:
    """Three sizes of cluster, where half of the key groups have one partner each."""
    sizes = CLUSTERS if not lab.quick else (SMALL,)
    rows = [row for size in lab.each(sizes) for row in _synthetic(lab, *size, 0.5)]
    return Outcome(rows)


def _synthetic(lab: Lab, nodes: int, groups: int, share: float) -> list[Row]:
    """Return a row for ALBIC and one for COLA, of the periods after ALBIC has brought together all that it will.

    Section 5.3 has the configuration of section 5.1, where key groups are evenly allocated, each operator on nodes of
    its own: nothing is collocated in the beginning. COLA plans from scratch in each period.
    """
    rng = lab.rng()
    cluster = fluctuating(nodes, groups, 0, rng)
    traffic = one_to_one(cluster, nodes // 2, share, rng)
    partners = _between_partners(traffic)
    highest = partners.out.sum() / traffic.out.sum()
    periods = max(2, lab.grid.periods // 12)
    pairs = round(share * groups / 2)
    seen: dict[str, list[tuple[float, float, int]]] = {"ALBIC": [], "COLA": []}
    at = dict.fromkeys(seen, cluster.node)
    load = cluster.load
    for period in range(pairs + periods):
        fifth = rng.choice(nodes, nodes // 5, replace=False)
        change = np.ones(nodes)
        change[fifth] += rng.uniform(-0.02, 0.02, len(fifth))
        load = load * change[at["ALBIC"]]
        for technique in at if period >= pairs else ("ALBIC",):
            now = replace(cluster, load=load, node=at[technique])
            at[technique] = _plan(technique, now, traffic, MIGRATIONS["synthetic"], lab.grid.seconds / 5, rng)
            if period >= pairs:
                moved = int(now.moved(at[technique]).sum())
                obtained = float(highest * partners.collocation(at[technique]))
                seen[technique].append((obtained, now.load_distance(at[technique]), moved))
    rows: list[Row] = []
    for technique, found in seen.items():
        means = dict(zip(("collocation", "distance", "moved"), np.mean(found, axis=0).tolist(), strict=True))
        rows.append({"nodes": nodes, "share": share, "technique": technique, **means})
    return rows


def _between_partners(traffic: Traffic) -> Traffic:
    """Return what key groups send that send to one other alone.

    Section 5.3 has a highest collocation factor, from 0 to 100 %, that is the share of key groups with one partner. So
    nothing else counts, though traffic from all to all is on one node, too, where chance or COLA has both ends there.
    """
    alone = np.diff(traffic.out.indptr) == 1
    return Traffic(sparse.diags_array(alone.astype(float)) @ traffic.out, traffic.operator)


def _plan(
    technique: str, cluster: Cluster, traffic: Traffic, max_migrations: int, seconds: float, rng: np.random.Generator
) -> np.ndarray:
    if technique == "COLA":
        return cola(cluster, traffic)
    return albic(cluster, traffic, max_migrations, rng, seconds=seconds)


def _real(number: int, lab: Lab) -> Outcome:
    """A job on real data: collocation, load distance and load index of each period after one that was planned from."""
    groups = GROUPS[number]
    at = {technique: apart(OPERATORS[number], groups, NODES) for technique in ("ALBIC", "COLA")}
    first = at["ALBIC"]
    rng = lab.rng()
    rows: list[Row] = []
    year = real_job(number, lab.grid.periods, NODES, groups)
    # ALBIC brings one pair together a period, so the year is repeated until each pair has had a period.
    years = math.ceil((OPERATORS[number] - 1) * groups / len(year)) if not lab.quick else 1
    for t, (job, after) in lab.each(enumerate(pairwise([*year * years, year[0]]))):
        for technique in at:
            now = job.cluster(at[technique], NODES)
            at[technique] = _plan(technique, now, job.traffic, MIGRATIONS["real"], lab.grid.seconds / 5, rng)
            then = after.cluster(at[technique], NODES)
            row: Row = {"period": t, "technique": technique, "collocation": after.traffic.collocation(then.node)}
            row |= {"distance": then.load_distance(), "planned distance": now.load_distance(then.node)}
            row |= {"load index": float(100 * then.load.sum() / after.load(first).sum())}
            rows.append(row | {"moved": int(now.moved(then.node).sum())})
    return Outcome(rows)


def _end(rows: Rows) -> list[Row]:
    """Take the last tenth of the periods."""
    periods = 1 + max(row["period"] for row in rows)
    return [row for row in rows if row["period"] >= periods - max(1, periods // 10)]


PAPER = paper(
    "albic",
    "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine: ALBIC",
    {"end": _end},
    ("albic-fig10", "ALBIC and COLA over the collocation that is possible", figure_10, Panels("share", _HAVE)),
    ("albic-fig11", "ALBIC and COLA on three clusters", figure_11, Panels("nodes", _HAVE)),
    *(
        (
            f"albic-fig{number + 10}",
            f"ALBIC and COLA on Real Job {number}",
            partial(_real, number),
            Panels("period", _HAVE | {"load index": "load index, %", "moved": "migrations"}),
        )
        for number in OPERATORS
    ),
)
