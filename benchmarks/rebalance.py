"""How long the rebalancers take on 60 nodes with 1200 key groups, and what load distance they leave.

Clusters fluctuate as in section 5.1 of "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine".
Flux and the MILP have 20 migrations, and the MILP has five seconds. Then ten nodes are removed, with 20 migrations per
period.

Run it with: python benchmarks/rebalance.py [rounds]
"""

import sys
import time
from dataclasses import replace

import numpy as np
from papers.reconfiguration_milp import fluctuating
from rich.console import Console
from rich.progress import track
from rich.table import Table

from saltwise.rebalancing.flux import flux
from saltwise.rebalancing.milp import milp

NODES, GROUPS, MIGRATIONS, SECONDS = 60, 1200, 20, 5.0
FLUCTUATIONS = (10, 20, 30, 40, 50)
REMOVED, PERIODS = 10, 20


def over_fluctuations(rounds: int) -> Table:
    """Return medians of load distances and of the MILP's time, and the worst ratio to Flux."""
    shown = Table("varies, %", "before", "Flux", "MILP", "no less than", "MILP, s", "MILP / Flux, worst")
    shown.title = f"{NODES} nodes, {GROUPS} key groups, {MIGRATIONS} migrations: load distance, % of a node"
    for varies in track(FLUCTUATIONS, "fluctuations", transient=True):
        found = np.array([one_round(varies, seed) for seed in range(rounds)])
        ratio = (found[:, 2] / found[:, 1]).max()
        shown.add_row(str(varies), *(f"{median:.2f}" for median in np.median(found, axis=0)), f"{ratio:.3f}")
    return shown


def one_round(varies: int, seed: int) -> tuple[float, float, float, float, float]:
    """Return the load distance before, with Flux and with the MILP, the bound, and the MILP's seconds."""
    cluster = fluctuating(NODES, GROUPS, varies, np.random.default_rng(seed))
    started = time.perf_counter()
    found = milp(cluster, max_migrations=MIGRATIONS, seconds=SECONDS)
    taken = time.perf_counter() - started
    of_flux = cluster.load_distance(flux(cluster, MIGRATIONS))
    return cluster.load_distance(), of_flux, cluster.load_distance(found.node), found.bound, taken


def scale_in() -> Table:
    """Return the key groups left on the removed nodes, and the load distance, period by period."""
    shown = Table("period", "left", "load distance, %", title=f"{REMOVED} of {NODES} nodes removed, five overloaded")
    cluster = fluctuating(NODES, GROUPS, 0, np.random.default_rng(1))
    load = np.where(cluster.node < 5, 2.0, 1.0) * cluster.load
    cluster = replace(cluster, load=load, kill=np.arange(NODES - REMOVED, NODES))
    for period in range(PERIODS + 1):
        left = int(np.isin(cluster.node, cluster.kill).sum())
        shown.add_row(str(period), str(left), f"{cluster.load_distance():.2f}")
        if not left:
            break
        cluster = replace(cluster, node=milp(cluster, max_migrations=MIGRATIONS, seconds=SECONDS).node)
    return shown


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    console = Console()
    console.print(over_fluctuations(rounds))
    console.print(scale_in())


if __name__ == "__main__":
    main()
