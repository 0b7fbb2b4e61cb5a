"""Figures 2 to 4 and Table 1 of "Stateful Load Balancing for Parallel Stream Processing"."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray

from saltwise.rebalancing.clb import clb
from saltwise.rebalancing.cluster import Floats, Ints, loads_of
from saltwise.rebalancing.elb import elb
from saltwise.rebalancing.uhlb import uhlb
from saltwise.simulate import route
from saltwise.splitting.compiled_hash import workers_of
from saltwise.streams import flights, zipf, zipf_shares

from .charts import lines
from .experiment import Claim, Claims, Experiment, Outcome, Row, mean, pick, values
from .lab import TWEETS, Lab, numbered

NEEDS_A_CLUSTER = [
    Claim(
        "5.2, table 2",
        "95 % of tuples have a latency below 1.89 ms, the highest is 1.5 s",
        why="A tuple's latency in Storm, which sends each one on at once; a batch of Spark takes longer than 1.89 ms.",
    ),
    Claim("5.2, table 2", "CLB's mean latency is lower by at least 17 %, ELB's by up to 50 %"),
    Claim("5.2, figure 5", "latency varies more with n for UHLB and PKG than for CLB and ELB"),
    Claim("5.2, figure 6", "ELB's and CLB's speedup is about linear, PKG's and UHLB's is not"),
]
"""What the paper claims of a real Storm."""

WINDOWS, SUBSTREAMS, INSTANCES = 120, 100, 10
EVERY = 24
"""Windows between two decisions of CLB."""
DECISIONS = WINDOWS // EVERY
"""Of CLB: five, of which the first places what has no place yet, by windows before the first one. So state moves four
times: 48.4 % of it, four times in 120 windows, are the 1.6 % of the paper."""
THETA = 0.45
"""CLB's threshold on the tweets and the flights. Our copy of the paper lacks it; with this one as much moves."""
DRAWN = 20
"""Draws of each synthetic stream: five decisions are few, and correlations of independent substreams are noise."""
DRAWS = 1_000
"""Functions that UHLB draws at most for a window."""
RATE = 10_000 * 60
"""Tuples a window: lambda = 10,000 a second."""
A_WINDOW = 6_030
"""Tweets a window: the paper has 10,637,691 of 29.4 hours."""

_DATA = ("TW*", "FL")
_SCHEMES = ("ELB", "CLB", "UHLB", "PKG")
_MOVED = {"PKG": 0.212, "UHLB": 0.242, "ELB": 0.145}
"""The share of the state that each scheme moves, by the paper."""

Window = tuple[int, float, float]
"""A window's number, the variance of the loads in it, and the share of the state that moves before it."""


def figure_2(lab: Lab) -> Outcome:
    """Imbalance of CLB through time, on substreams whose sizes are a Gaussian and a Zipf distribution.

    The histograms of both have equal means, so both streams have one rate; the Zipf's has the larger variance.
    """
    rng = lab.rng()
    ranked = zipf_shares(SUBSTREAMS, 1.0)
    key = np.arange(1, SUBSTREAMS + 1)
    bell = np.exp(-0.5 * ((key - key.mean()) / (SUBSTREAMS / 6)) ** 2)  # three deviations to either side
    rows: list[Row] = []
    for draw, (name, shares) in lab.each(product(range(DRAWN), (("Gaussian", bell / bell.sum()), ("Zipf", ranked)))):
        series = rng.poisson(RATE * shares, (EVERY + WINDOWS, SUBSTREAMS)).astype(float)
        for t, variance, _ in _correlated(series, 0.5):
            rows.append({"data": name, "draw": draw, "window": t, "variance": variance})
    figure = lines(pick(rows, draw=0), "window", "variance", "data", log=False)
    bells, zipfs = (
        np.array(values(rows, "variance", data=name)).reshape(DRAWN, WINDOWS) for name in ("Gaussian", "Zipf")
    )
    wide = {name: each.std(axis=1) for name, each in (("Gaussian", bells), ("Zipf", zipfs))}
    inside = (bells.min(axis=1) >= zipfs.min(axis=1)) & (bells.max(axis=1) <= zipfs.max(axis=1))
    apart = zipfs.mean(axis=1) / bells.mean(axis=1) - 1
    ours = (
        "CLB bounds no instance's load, so the sizes of its sets decide, and these follow the correlations, which are "
        "noise between independent substreams; the paper does not give the spread of its distributions."
    )
    by_theta = (
        "It depends on theta, which the paper does not give: the means on Gaussian and Zipf are 1.1e10 and 1.5e10 at "
        "0.4, 1.5e10 and 1.6e10 at 0.45, 2.0e10 and 2.2e10 at 0.5, the one used here, and 2.9e10 and 3.1e10 at 0.6."
    )
    claims = Claims("5.1, figure 2")
    mean_of_both = float(np.mean([bells, zipfs]))
    claims.add(
        "the mean imbalance is 2.09e10 with ten instances",
        f"{mean_of_both:.3g}, in the mean of {DRAWN} draws of each stream",
        abs(mean_of_both / 2.09e10 - 1) < 0.1,
        note=by_theta,
    )
    claims.add(
        "the mean imbalance is about the same on both (2.09e10 and 2.08e10)",
        f"{bells.mean():.2e} on Gaussian, {zipfs.mean():.2e} on Zipf in the mean of {DRAWN} draws, within 10 % of each "
        f"other in {(abs(apart) < 0.1).sum()}; the paper has one draw, and 0.3 %",
        (abs(apart) < 0.1).tolist(),
        ours,
        by_theta,
    )
    claims.add(
        "the imbalance varies more on Zipf (standard deviations 6.8e8 and 7.9e8)",
        f"standard deviation {wide['Gaussian'].mean():.2e} on Gaussian, {wide['Zipf'].mean():.2e} on Zipf",
        (wide["Zipf"] > wide["Gaussian"]).tolist(),
        ours,
    )
    claims.add(
        "highest and lowest imbalance are on Zipf; all of Gaussian's lie between",
        f"in {inside.sum()} of {DRAWN} draws",
        inside.tolist(),
        ours,
    )
    return Outcome(rows, figure, claims)


def figure_3(lab: Lab) -> Outcome:
    """Imbalance of four algorithms through time."""
    rows = _compared(lab)
    figure = lines(rows, "window", "variance", "scheme", ["data"])
    means = _means(rows, "variance")
    found = "; ".join(f"{data}: " + ", ".join(f"{s} {v:.2e}" for s, v in means[data].items()) for data in _DATA)
    beaten = {s: all(means[data][s] < min(means[data]["ELB"], means[data]["CLB"]) for data in _DATA) for s in _SCHEMES}
    tenfold = [means[data]["CLB"] / means[data][scheme] for data in _DATA for scheme in ("UHLB", "PKG")]
    chance = {data: _by_chance(lab, data) for data in _DATA}
    hashed = (
        "Of a random function, loads l of the substreams leave a variance of (n - 1)/n^2 times the sum of l^2 in the "
        "mean: " + ", ".join(f"{variance:.2e} on {data}" for data, variance in chance.items()) + ". UHLB keeps the "
        "first one within its bounds. ELB places the substreams by their loads, largest first."
    )
    claims = Claims("5.1, figure 3")
    claims.add("PKG beats ELB and CLB on imbalance", found, beaten["PKG"])
    claims.add("UHLB beats ELB and CLB on imbalance", found, beaten["UHLB"], hashed)
    claims.add(
        "UHLB and PKG have at least ten times less imbalance than CLB",
        f"{min(tenfold):.3g} to {max(tenfold):.3g} times less",
        min(tenfold) >= 10,
        hashed,
        "That leaves CLB "
        + ", ".join(f"{means[data]['CLB'] / variance:.1f} times as much on {data}" for data, variance in chance.items())
        + ".",
    )
    better = all(means[data]["ELB"] < means[data]["CLB"] for data in _DATA)
    claims.add("ELB outperforms CLB on imbalance", found, better)
    return Outcome(rows, figure, claims)


def figure_4(lab: Lab) -> Outcome:
    """The share of the state that moves in each window, and the paper's mean at the end."""
    rows = _compared(lab)
    paper: list[Row] = [
        {"data": data, "window": WINDOWS, "scheme": scheme, "moved": mean}
        for data in _DATA
        for scheme, mean in _MOVED.items()
    ]
    figure = lines(rows, "window", "moved", "scheme", ["data"], y_label="share of state", log=False, paper=paper)
    means = _means(rows, "moved")
    decision = mean(row["moved"] for row in pick(rows, scheme="CLB") if row["moved"])
    amortised = mean(means[data]["CLB"] for data in _DATA)
    average = {scheme: mean(means[data][scheme] for data in _DATA) for scheme in _MOVED}
    found = ", ".join(f"{scheme} {share:.1%}" for scheme, share in average.items())
    ratio = max(average["ELB"] / average["PKG"], average["ELB"] / average["UHLB"])
    drawn = mean(row["moved"] > 0 for row in pick(rows, scheme="UHLB"))
    near = all(abs(average[scheme] - paper) < 0.05 for scheme, paper in _MOVED.items())
    claims = Claims("5.1, figure 4")
    claims.add(
        "ELB moves far less state than UHLB and PKG",
        found,
        ratio < 0.75,
        note="PKG keeps both parts of a substream where they are; counted is the state that its merging has to move.",
    )
    claims.add(
        "PKG, UHLB and ELB move 21.2 %, 24.2 % and 14.5 % of the state in the mean",
        found,
        near,
        "UHLB draws a function only where loads are out of bounds. A draw moves (n - 1)/n = 90 % of the state, so "
        f"24.2 % are a draw in 24.2/90 = 27 % of the windows; here it is {drawn:.0%} of them. The paper does not give "
        "the bounds. With bounds around the mean, what ELB moves does not depend on them.",
    )
    claims.add(
        "CLB moves 48.4 % at a decision, 1.6 % amortised over the windows",
        f"{decision:.1%} at a decision, {amortised:.1%} amortised",
        abs(decision - 0.484) < 0.1 and abs(amortised - 0.016) < 0.01,
        note="How much moves depends on the stream and on theta, which our copy of the paper lacks: on TW* and FL it "
        "is 59 and 62 % at a decision with theta = 0.4, 43 and 48 % with 0.45, the one used here, and 29 and 34 % with "
        "0.5.",
    )
    claims.add(
        "amortised, CLB's movement is negligible beside that of the others",
        f"{amortised:.1%}, and {min(average.values()):.1%} for the least of the others",
        amortised < min(average.values()) / 5,
        f"ELB moves {average['ELB']:.1%} here, and 14.5 % in the paper.",
    )
    return Outcome(rows, figure, claims)


def table_1(lab: Lab) -> Outcome:
    """Mean and standard deviation of the imbalance."""
    compared = _compared(lab)
    rows: list[Row] = []
    for data in _DATA:
        for scheme in ("PKG", "UHLB", "ELB", "CLB"):
            variances = np.array(values(compared, "variance", data=data, scheme=scheme))
            rows.append({"data": data, "scheme": scheme, "mean": variances.mean(), "deviation": variances.std()})
    figure = lines(rows, "scheme", "mean", "data", x_label="algorithm", y_label="mean variance of the instances' loads")
    ranked = {data: sorted(pick(rows, data=data), key=lambda row: row["mean"]) for data in _DATA}
    first, last = ({data: ranked[data][i]["scheme"] for data in _DATA} for i in (0, -1))
    claims = Claims("5.1, table 1")
    claims.add(
        "of the four, CLB has the highest mean imbalance (our copy of the paper lacks the numbers)",
        ", ".join(f"on {data} {last[data]} has, {first[data]} has the lowest" for data in _DATA)
        + f"; {DECISIONS} decisions in {WINDOWS} windows",
        all(scheme == "CLB" for scheme in last.values()),
    )
    return Outcome(rows, figure, claims)


def _windows(ids: Ints) -> Ints:
    """Return the window of each tuple, history first."""
    return np.arange(len(ids)) * (EVERY + WINDOWS) // len(ids)


def _by_chance(lab: Lab, data: str) -> float:
    """Return the variance of the instances' loads under a random function, in the mean over functions and windows."""
    ids = _substreams(data, lab.seed)
    series = _counts(_windows(ids), ids, SUBSTREAMS, EVERY + WINDOWS)[EVERY:]
    return float((series**2).sum(axis=1).mean() * (INSTANCES - 1) / INSTANCES**2)


def _compared(lab: Lab) -> list[Row]:
    rows: list[Row] = []
    for data in lab.each(_DATA):
        ids = _substreams(data, lab.seed)
        length = EVERY + WINDOWS
        window = _windows(ids)
        series = _counts(window, ids, SUBSTREAMS, length)
        sent = np.split(route(ids, "pkg", INSTANCES, sources=1), np.searchsorted(window, np.arange(1, length)))
        split = [
            _counts(ids[window == t].astype(np.int64), workers, INSTANCES, SUBSTREAMS) for t, workers in enumerate(sent)
        ]
        found = {
            "ELB": _eager(series),
            "CLB": _correlated(series, THETA),
            "UHLB": _hashed(series, lab.rng()),
            # The state that moves is what is not where most of its substream's state is.
            "PKG": [
                (t, float(load.sum(axis=0).var()), float(1 - load.max(axis=1).sum() / load.sum()))
                for t, load in enumerate(split[EVERY:])
            ],
        }
        for scheme, windows in found.items():
            for t, variance, moved in windows:
                rows.append({"data": data, "scheme": scheme, "window": t, "variance": variance, "moved": moved})
    return rows


def _substreams(data: str, seed: int) -> Ints:
    """Return the substream of each tuple: a hash of its key, by another function for each seed."""
    if data == "TW*":
        keys = zipf(A_WINDOW * (EVERY + WINDOWS), *TWEETS, seed).keys.astype(np.int64)  # TW*, at any size of the grid
    else:
        airplanes = flights("tailnum").keys
        keys = numbered(airplanes[airplanes != ""])  # cancelled flights without one are no substream
    return workers_of(keys, seed, SUBSTREAMS).astype(np.int64)


def _counts(row: Ints, column: NDArray[np.integer], columns: int, rows: int) -> Floats:
    return np.bincount(row * columns + column, minlength=rows * columns).reshape(rows, columns).astype(float)


def _eager(series: Floats) -> list[Window]:
    """ELB decides after each window."""

    def decide(t: int, instance: Ints) -> Ints:
        load = series[t - 1]
        return elb(load, instance, INSTANCES, *_bounds(load)).instance

    return _replayed(series, decide)


def _correlated(series: Floats, theta: float) -> list[Window]:
    """CLB decides every 24 windows, from those before."""
    return _replayed(series, lambda t, now: now if t % EVERY else clb(series[t - EVERY : t], INSTANCES, theta))


def _hashed(series: Floats, rng: np.random.Generator) -> list[Window]:
    """UHLB keeps its function while loads are within ELB's bounds; where they are not, it draws until they are."""

    def decide(t: int, instance: Ints) -> Ints:
        load = series[t - 1]
        v, u = _bounds(load)
        for _ in range(DRAWS):
            loads = loads_of(load, instance, INSTANCES)
            if v <= loads.min() and loads.max() <= u:
                break
            instance = uhlb(SUBSTREAMS, INSTANCES, rng)
        return instance

    return _replayed(series, decide)


def _bounds(load: Floats) -> tuple[float, float]:
    """Return v and u around the mean: (u - v)/2 is the largest substream, the least that section 3 allows."""
    average, half = load.sum() / INSTANCES, load.max()
    return average - half, average + half


def _replayed(series: Floats, decide: Callable[[int, Ints], Ints]) -> list[Window]:
    """Decide before each window from its number and from the instances of the substreams.

    The first 24 windows of the series are history. Before the first window after them, nothing has a place yet.
    """
    instance = decide(EVERY, np.arange(SUBSTREAMS) % INSTANCES)
    found = [(0, float(loads_of(series[EVERY], instance, INSTANCES).var()), 0.0)]
    for t in range(EVERY + 1, len(series)):
        before, instance = instance, decide(t, instance)
        variance = float(loads_of(series[t], instance, INSTANCES).var())
        state = series[t - 1]  # of a substream: a tenth of its load, so its load says the share
        found.append((t - EVERY, variance, float(state[before != instance].sum() / state.sum())))
    return found


def _means(rows: list[Row], column: str) -> dict[str, dict[str, float]]:
    return {d: {s: mean(values(rows, column, data=d, scheme=s)) for s in _SCHEMES} for d in _DATA}


EXPERIMENTS = [
    Experiment("elb-fig2", "CLB on Gaussian and Zipf substreams", figure_2),
    Experiment("elb-fig3", "Variance of the load through time", figure_3),
    Experiment("elb-fig4", "Share of the state moved", figure_4),
    Experiment("elb-table1", "Mean and standard deviation of the variance", table_1),
]
