"""Figures 10 to 14 of "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine": ALBIC and COLA."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure
from scipy import sparse

from saltwise.rebalancing.albic import albic
from saltwise.rebalancing.cluster import Cluster
from saltwise.rebalancing.cola import cola
from saltwise.rebalancing.traffic import Traffic

from .charts import panels
from .experiment import Claim, Claims, Experiment, Outcome, Row, mean, paired, values
from .jobs import OPERATORS, apart, one_to_one, real_job
from .lab import Lab
from .reconfiguration_milp import CLUSTERS, fluctuating

NEEDS_A_CLUSTER = [
    Claim(
        "5.4, figure 12",
        "on Real Job 2 ALBIC cuts the load index from 100 % to 50 %",
        why="By how much depends on what serialisation costs beside processing in Storm, which the paper does not say.",
    ),
    Claim(
        "5.4, figure 12",
        "COLA cuts it by 25 % only, because of its many migrations",
        why="It is about what a migration costs in Storm; in a simulation it would be a number of our choice.",
    ),
    Claim(
        "5.4, figure 13",
        "COLA on Real Job 3 needs the input rate halved",
        why="At which rate migrations overload the nodes depends on Storm and on the machines.",
    ),
    Claim(
        "5.4, figure 14",
        "COLA cannot run in each period of Real Job 4",
        why="Whether migrations end within a period depends on Storm and on the machines.",
    ),
]
"""What the paper claims of a real Storm: what serialisation and migrations cost. The jobs' CSV has a load index for
serialisation that costs as much as processing, and migrations that cost nothing."""

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
    more = [a - c for _, a, c in _both(rows, "collocation")]
    claims = _claims("5.3, figure 10", rows, "share")
    claims.add(
        "ALBIC has up to ten percent more collocation than COLA",
        f"{min(more):+.1%} to {max(more):+.1%}",
        max(more) > 0 and min(more) > -0.01,
        note="It begins with nothing collocated, and brings one pair together a period, until no pair is left.",
    )
    return Outcome(rows, _charts(rows, "share", "share of one-to-one key groups"), claims)


def figure_11(lab: Lab) -> Outcome:
    """Three sizes of cluster, where half of the key groups have one partner each."""
    sizes = CLUSTERS if not lab.quick else (SMALL,)
    rows = [row for size in lab.each(sizes) for row in _synthetic(lab, *size, 0.5)]
    return Outcome(rows, _charts(rows, "nodes", "nodes"), _claims("5.3, figure 11", rows, "nodes"))


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


def _claims(where: str, rows: list[Row], by: str) -> Claims:
    distances, collocations = _both(rows, "distance"), _both(rows, "collocation")
    claims = Claims(where)
    claims.add(
        "ALBIC has a smaller load distance than COLA",
        "; ".join(f"{by} {row[by]}: {a:.2f} and {c:.2f}" for row, a, c in distances),
        all(a < c for _, a, c in distances),
        note="COLA splits until the distance is at most maxLD = 10, and then stops.",
    )
    claims.add(
        "ALBIC has a better collocation than COLA",
        "; ".join(f"{by} {row[by]}: {a:.1%} and {c:.1%}" for row, a, c in collocations),
        all(a >= c - 1e-9 for _, a, c in collocations),
        note="Of the traffic between partners, the highest that can be obtained.",
    )
    return claims


def _both(rows: list[Row], column: str) -> list[tuple[Row, float, float]]:
    return paired(rows, column, "technique", "ALBIC", "COLA")


def _real(number: int, lab: Lab) -> Outcome:
    """A job on real data: collocation, load distance and load index of each period after one that was planned from."""
    groups = GROUPS[number]
    at = {technique: apart(OPERATORS[number], groups, NODES) for technique in ("ALBIC", "COLA")}
    first = at["ALBIC"]
    rng = lab.rng()
    rows: list[Row] = []
    year = real_job(number, lab.grid.periods, NODES, groups)
    # ALBIC brings one pair together a period, so the year passes until there was a period for each.
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
    shown = _HAVE | {"load index": "load index, %", "moved": "migrations"}
    return Outcome(rows, _charts(rows, "period", "period", shown), _claims_of_job(number, rows, years * len(year)))


def _claims_of_job(number: int, rows: list[Row], periods: int) -> Claims:
    last, techniques = max(1, periods // 10), ("ALBIC", "COLA")
    end = {t: mean(values(rows, "collocation", technique=t)[-last:]) for t in techniques}
    begin = values(rows, "collocation", technique="ALBIC")[0]
    distance = {t: mean(values(rows, "distance", technique=t)) for t in techniques}
    moved = {t: mean(values(rows, "moved", technique=t)) for t in techniques}
    most_moved = max(values(rows, "moved", technique="ALBIC"))
    index = mean(values(rows, "load index", technique="ALBIC")[-last:])
    claims = Claims(f"5.4, figure {number + 10}")
    claims.add(
        "ALBIC gradually reaches the collocation that COLA plans at once"
        + (" (61 % in the paper)" if number == 4 else ""),
        f"from {begin:.1%} in the first period to {end['ALBIC']:.1%} at the end; COLA has {end['COLA']:.1%}",
        end["ALBIC"] > end["COLA"] - 0.05,
        f"ALBIC collocates one pair a period, so {periods} pairs at most, and none that sends less "
        "than sF times the average; where its units leave a load distance above maxLD, it solves the MILP "
        "without them. COLA also brings together what sends less.",
    )
    claims.add(
        "ALBIC has a lower load distance than COLA",
        f"{distance['ALBIC']:.2f} and {distance['COLA']:.2f} in the mean",
        distance["ALBIC"] < distance["COLA"],
    )
    claims.add(
        "ALBIC migrates ten key groups a period, COLA nearly all",
        f"{moved['ALBIC']:.1f} in the mean, {most_moved:.0f} at most, and {moved['COLA']:.0f} of "
        f"{OPERATORS[number] * GROUPS[number]}",
        most_moved <= MIGRATIONS["real"] < moved["COLA"],
    )
    claims.add(
        "collocation lowers the load of the whole system",
        f"to {index:.0f} % at the end, if serialisation costs as much as processing",
        index < 100,
        note="By how much on a real system needs a cluster.",
    )
    if number == 3:
        claims.add(
            "the collocation is half of that of Job 2, because a route cannot be where the airplane's sum is",
            f"{end['COLA']:.1%} for COLA, {end['ALBIC']:.1%} for ALBIC",
            abs(end["COLA"] - 0.5) < 0.1,
        )
    return claims


def _charts(rows: list[Row], x: str, x_label: str, shown: dict[str, str] = _HAVE) -> Figure:
    """Draw a panel for each column, with a line for ALBIC and one for COLA."""
    figure, grid = panels(len(shown), shared=False)
    for axes, (column, title) in zip(grid, shown.items(), strict=True):
        for technique in ("ALBIC", "COLA"):
            points = values(rows, column, technique=technique)
            axes.plot(values(rows, x, technique=technique), points, marker=".", label=technique)
        axes.set_title(title)
        axes.set_xlabel(x_label)
        axes.grid(alpha=0.3)
    grid[0].legend(fontsize=7)
    return figure


EXPERIMENTS = [
    Experiment("albic-fig10", "ALBIC and COLA over the collocation that is possible", figure_10),
    Experiment("albic-fig11", "ALBIC and COLA on three clusters", figure_11),
    *(
        Experiment(f"albic-fig{number + 10}", f"ALBIC and COLA on Real Job {number}", partial(_real, number))
        for number in OPERATORS
    ),
]
