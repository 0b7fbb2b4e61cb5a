"""Figures 3 to 14 of Gedik, "Partitioning functions for stateful data parallelism in stream processing"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from saltwise.placement.utility import UTILITIES
from saltwise.streams import zipf_shares

from .charts import lines, melted
from .experiment import Claim, Claims, Experiment, Outcome, Row, mean, pick, unless, values
from .lab import FULL, Lab
from .levelled import Left, levelled
from .partitioning_functions_splitter import EXPERIMENTS as SPLITTER
from .worker_steps import CONSTRUCTED, RINGS, RUNS, TECHNIQUES, Setting, Step, adapt, count, steps

NEEDS_A_CLUSTER = [
    Claim(
        "1",
        "constructing the function is not the bottleneck of the migration delay",
        why="The rest of the delay is a stream processor's: on Spark the batch after a move of 100 MB takes 0.7 s "
        "longer (benchmarks/results/state_moves.csv), and figure 12 has what constructing takes.",
    ),
]
"""What the paper claims of a running stream processor."""

_RESOURCES = ("CCL", "LCL", "LLL", "LQL")
_KINDS = _RESOURCES[1:]
_SKEWS = tuple(round(0.1 * i, 1) for i in range(1, 11))
_LOW_SKEWS = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
_SCALERS = (2**-7, 2**-6, 2**-5, 2**-4, 0.1, 2**-3, 2**-2, 2**-1, 1.0)
_WORKERS = (2, 4, 8, 12, 16, 20, 24, 28, 32)

_M, _B = "migration m", "imbalance b"
_LEVEL_ALL = (
    "All three level the tracked keys nearly perfectly, and none knows the others, which lie where the ring has them: "
    "which of the three is ahead, by a few per cent, is a matter of the ring."
)
_WHERE_THEY_FALL = "Where the hottest keys fall on the ring decides."
_HASH_MOVES = (
    "The ring moves 1 in the mean over rings. Tracked keys that stay do not move, where the ring would have moved some."
)
_KEYS_BESIDE = "The algorithms place the hottest keys alike, and the others move as the ring has them."
_SAME_ORDER = (
    "Redist ranks by U / f, and f differs more than U does, so it takes most keys as scan does: the two make nearly "
    "the same function, as in the paper's figure 3, however much imbalance counts."
)
_HOTTEST = "The hottest key alone sets it, and no key is split."
_RANKS = (
    "A key's hash is its rank. With independent hashes N - 1 times the ideal would move: 31 with 32 workers, 9 with 10."
)
_SCAN_STAYS = (
    "By Algorithm 2 the hottest key is placed first, where every worker has the same balance penalty, so it stays. A "
    "further key moves only if that lowers the penalty by more than it costs: by no more than the gap of the two "
    "emptiest workers, 1/N of a load where N keys lie alone. For 3 times the ideal nearly every tracked key beyond the "
    "32 hottest would have to move: they have 8.8 % of the state, 2.8 times the ideal. Did imbalance count 100 times "
    "as much, scan would move 2.6 times the ideal, and so would redist."
)
FIGURE_3 = {
    ("uniform", _B): 1.55,
    ("consistent", _B): 1.75,
    ("scan", _M): 1.23,
    ("scan", _B): 1.32,
    ("redist", _M): 1.23,
    ("redist", _B): 1.32,
    ("readj", _M): 1.34,
    ("readj", _B): 1.2,
}
"""What the paper says of m and b with LLL and z = 1: these are points of figure 4, too."""
FIGURE_6 = {("uniform", _M): 22.0, ("consistent", _B): 2.0, ("scan", _M): 3.0, ("redist", _M): 1.15}
"""What the paper says of m and b with 32 workers."""
_SHORT_WINDOW = "The lossy counter has few buckets in a window this short."

Curves = Mapping[str, Mapping[float, float]]
"""A curve of each technique."""


class Drawn(NamedTuple):
    """What was measured with several rings."""

    rows: list[Row]
    """Means over the rings."""
    draws: list[list[Row]]
    """The same rows with each ring by itself, as the paper measured."""

    def each(self, holds: Callable[[list[Row]], bool]) -> list[bool]:
        """Return whether something is so, with each ring."""
        return [holds(rows) for rows in self.draws]

    def ranged(self, column: str, **where: object) -> str:
        """Show the mean of one row's column, and its range over the rings."""
        found = self.found(column, **where)
        return f"{mean(found):.2f} ({min(found):.2f} to {max(found):.2f})"

    def agrees(self, paper: float, column: str, **where: object) -> bool:
        """Whether a value of the paper lies in the range over the rings, to the paper's two digits."""
        found = self.found(column, **where)
        return min(found) - 0.005 <= paper <= max(found) + 0.005

    def found(self, column: str, **where: object) -> list[float]:
        """Return the column of one row with each ring."""
        return [only for rows in self.draws for only in values(rows, column, **where)]


def figure_3(lab: Lab) -> Outcome:
    """Migration and imbalance by the resource functions; also of `level`, which no claim is about."""
    settings = [Setting(_domain(lab), resources=r) for r in _RESOURCES]
    measured = _measure(lab, settings, (*TECHNIQUES, "level"))
    drawn = melted(
        measured.rows, {"m": _M, "b": _B, "b_s": "state", "b_c": "computation", "b_n": "communication"}, "what", "value"
    )
    figure = lines(
        drawn, "what", "value", "technique", ["resources"], x_label="", y_label="relative to the ideal", level=1
    )
    for axes in figure.axes:
        axes.tick_params(axis="x", rotation=60)
    claims = _hashes_in_figure_3(measured) + _ours_in_figure_3(measured, levelled(10, _domain(lab)))
    return Outcome(measured.rows, figure, claims)


def _hashes_in_figure_3(measured: Drawn) -> Claims:
    b, m = (_by_resources(measured.rows, column) for column in ("b", "m"))
    uniform = max(numbers["uniform"] for numbers in m.values())
    of_uniform = b["LLL"]["uniform"]

    def cheapest(rows: list[Row]) -> bool:
        found = _by_resources(rows, "m").values()
        return all(n["consistent"] == min(n.values()) for n in found) and any(n["consistent"] < 1 for n in found)

    def worst(rows: list[Row]) -> bool:
        return all(n["consistent"] == max(n.values()) for n in _by_resources(rows, "b").values())

    claims = Claims("5.3, figure 3")
    claims.add("uniform hash moves very much, up to more than 8 times the ideal", f"m = {uniform:.2f}", uniform > 8)
    claims.add(
        "consistent hash has the best migration cost, in some cases below 1",
        "LLL: " + _listed(m["LLL"]),
        measured.each(cheapest),
        _HASH_MOVES,
    )
    claims.add(
        "consistent hash has the worst balance", "LLL: " + _listed(b["LLL"]), measured.each(worst), _WHERE_THEY_FALL
    )
    claims.add(
        "for LLL it has an imbalance of 1.75, and uniform hash one of 1.55",
        f"{measured.ranged('b', resources='LLL', technique='consistent')} and {of_uniform:.2f}",
        measured.agrees(1.75, "b", resources="LLL", technique="consistent") and abs(of_uniform / 1.55 - 1) < 0.03,
        _WHERE_THEY_FALL,
        note="The key with rank 1 and worker 0 of ten set uniform hash's: the paper's is within 3 %.",
    )
    return claims


def _ours_in_figure_3(measured: Drawn, left: Left) -> Claims:
    b, m = (_by_resources(measured.rows, column) for column in ("b", "m"))
    computation = _by(measured.rows, "b_c", resources="LQL")
    best = {r: min(numbers.values()) for r, numbers in b.items()}
    thirties = all(30 <= computation[t] < 40 for t in CONSTRUCTED)

    def lowest(rows: list[Row]) -> list[bool]:
        return [n["readj"] <= min(n.values()) + 0.005 for n in _by_resources(rows, "b").values()]

    def apart(rows: list[Row]) -> float:
        found = [*_by_resources(rows, "b").values(), *_by_resources(rows, "m").values()]
        return max(abs(numbers["scan"] / numbers["redist"] - 1) for numbers in found)

    def moves_more(rows: list[Row]) -> bool:
        found = _by(rows, "m", resources="LLL")
        return found["readj"] > max(found["scan"], found["redist"])

    claims = Claims("5.3, figure 3")
    claims.add(
        "readj has the lowest imbalance for all resource functions",
        ", ".join(f"{r}: " + _listed(_ours(numbers)) for r, numbers in b.items()),
        [holds for rows in measured.draws for holds in lowest(rows)],
        _LEVEL_ALL,
    )
    claims.add(
        "for LLL redist and scan have an imbalance of 1.32",
        ", ".join(f"{t} {measured.ranged('b', resources='LLL', technique=t)}" for t in ("scan", "redist")),
        all(measured.agrees(1.32, "b", resources="LLL", technique=t) for t in ("scan", "redist")),
        _WHERE_THEY_FALL,
    )
    claims.add(
        "for LLL readj has one of 1.2, which is 10 % less",
        measured.ranged("b", resources="LLL", technique="readj"),
        [abs(b / 1.2 - 1) < 0.05 for b in measured.found("b", resources="LLL", technique="readj")],
        f"Were tracked keys level, those below delta would leave {left.mean:.2f} ± {left.deviation:.2f} on a ring of "
        f"1,000 replicas, and {left.even:.2f} on an even one.",
        "Of a million keys, the hottest has 6.95 % of the rows, and its worker a tenth of the 70.4 % that are not "
        "tracked. Every other worker has 9.55 %, such a tenth included: (0.0695 + 0.0704) / 0.0955 / 1.2 = 1.22.",
    )
    claims.add(
        "for LLL redist and scan move 1.23 times the ideal",
        ", ".join(f"{t} {measured.ranged('m', resources='LLL', technique=t)}" for t in ("scan", "redist")),
        all(measured.agrees(1.23, "m", resources="LLL", technique=t) for t in ("scan", "redist")),
        "Whether one of the hottest keys moves in the last step decides, and differs from ring to ring.",
    )
    claims.add(
        "for LLL readj moves 1.34 times the ideal, 8 % more",
        measured.ranged("m", resources="LLL", technique="readj"),
        [abs(m / 1.34 - 1) < 0.05 for m in measured.found("m", resources="LLL", technique="readj")],
        "Whether one of the hottest keys moves in the last step decides, and differs from ring to ring.",
    )
    claims.add(
        "readj moves slightly more than redist and scan", "LLL: " + _listed(_ours(m["LLL"])), measured.each(moves_more)
    )
    claims.add(
        "redist and scan are indistinguishable",
        f"b and m differ by {apart(measured.rows):.1%} at most in the mean over rings",
        measured.each(lambda rows: apart(rows) < 0.03),
        _KEYS_BESIDE,
    )
    claims.add(
        "linear and quadratic resource functions are more difficult to balance",
        "best b: " + _listed(best),
        list(best.values()) == sorted(best.values()),
    )
    claims.add(
        "for LQL computation is out of control with consistent hash, and too uneven with all others, in the 30s",
        _listed(computation),
        computation["consistent"] > 2 * max(_ours(computation).values()) and thirties,
        note=unless(thirties, _HOTTEST),
    )
    return claims


def figure_4(lab: Lab) -> Outcome:
    """Migration and imbalance over the skew."""
    measured = _measure(lab, _over_skews(lab))
    rows = measured.rows
    moves = _curves(rows, "z", "m", resources="LLL")
    skewed = {r: _late(rows, r) for r in ("LCL", "LLL")}

    def rises(rows: list[Row]) -> bool:
        m = _curves(rows, "z", "m", resources="LLL")
        return all(m[t][1.0] - m[t][0.8] > max(0.0, m[t][0.8] - m[t][0.1]) for t in CONSTRUCTED)

    def ordered(rows: list[Row]) -> bool:
        return all(
            found["scan"] >= found["readj"] >= found["redist"] for found in (_late(rows, r) for r in ("LCL", "LLL"))
        )

    claims = Claims("5.3, figure 4")
    claims.add(
        "uniform hash moves more than 8 times the ideal, the others nearly the ideal",
        f"uniform hash {mean(moves['uniform'].values()):.1f} in the mean over z; the others "
        f"{max(v for t in TECHNIQUES[1:] for v in moves[t].values()):.2f} at most (LLL)",
        mean(moves["uniform"].values()) > 8,
    )
    claims.add(
        "from z = 0.8 on, scan, redist and readj move more",
        "mean m at z = 0.1, 0.8 and 1 (LLL): "
        + "; ".join(f"{t} " + ", ".join(f"{moves[t][z]:.2f}" for z in (0.1, 0.8, 1.0)) for t in CONSTRUCTED),
        measured.each(rises),
        "From z = 0.8 on there are keys to place, and whether the hottest of them move is a matter of a ring.",
    )
    claims.add(
        "scan moves most, then readj, then redist",
        "mean m from z = 0.8 on: " + "; ".join(f"{r} " + _listed(numbers) for r, numbers in skewed.items()),
        measured.each(ordered),
        "For LLL at z = 1 the paper's own figure 3 has 1.34 for readj, and 1.23 for scan and redist alike.",
    )
    beside = _in_the_paper(FIGURE_3, resources="LLL", z=1.0)
    return Outcome(rows, _two(rows, "z", beside), claims + _hashes_in_figure_4(measured) + _ours_in_figure_4(measured))


def _late(rows: list[Row], resources: str) -> dict[str, float]:
    """Return the mean migration of ours where the skew is high."""
    hot = [row for row in rows if row["z"] >= 0.8]
    return {t: mean(values(hot, "m", resources=resources, technique=t)) for t in CONSTRUCTED}


def _hashes_in_figure_4(measured: Drawn) -> Claims:
    b = {r: _curves(measured.rows, "z", "b", resources=r) for r in _KINDS}
    first = {r: {t: _first_above(curve) for t, curve in curves.items()} for r, curves in b.items()}
    least = {r: min(_ours(numbers).values()) for r, numbers in first.items()}
    low = max(y for curves in b.values() for curve in curves.values() for z, y in curve.items() if z <= 0.3)
    at_low = {t: mean(b[r][t][z] for r in ("LCL", "LLL") for z in (0.1, 0.2, 0.3)) for t in TECHNIQUES}
    gaps = [found["consistent"] / min(_ours(found).values()) - 1 for found in _at(measured, "z", 1.0, "LLL")]
    claims = Claims("5.3, figure 4")
    claims.add(
        "consistent hash is the first to violate the balance as the skew grows",
        "first z with b > 1: " + "; ".join(f"{r}: " + _listed(numbers, "g") for r, numbers in first.items()),
        all(numbers["consistent"] == min(numbers.values()) for numbers in first.values()),
    )
    claims.add(
        "its imbalance is up to 50 % above the best, readj, for LLL at z = 1",
        f"{min(gaps):.0%} to {max(gaps):.0%} above the best of ours",
        min(gaps) <= 0.5 <= max(gaps),
        _WHERE_THEY_FALL,
    )
    claims.add(
        "the balance is violated earliest for LQL and latest for LCL",
        "first z at which none of ours has b <= 1: " + _listed(least, "g"),
        least["LQL"] <= least["LLL"] <= least["LCL"],
    )
    claims.add(
        "at very low skew all are balanced",
        f"b is {low:.2f} at most for z <= 0.3",
        low <= 1,
        "It is LQL that is above 1, or that there are few keys.",
    )
    claims.add(
        "at low skew uniform hash is the best balanced",
        "mean b for z <= 0.3: " + _listed(at_low),
        at_low["uniform"] == min(at_low.values()),
    )
    claims.add(
        "uniform hash becomes worse than ours before b reaches 1 (LCL), or there (LLL)",
        "; ".join(
            f"{r}: from z = {_crossing(b[r]):g} on, first above 1 at {first[r]['readj']:g}" for r in ("LCL", "LLL")
        ),
        [
            _crossing(curves) <= _first_above(curves["readj"])
            for rows in measured.draws
            for curves in (_curves(rows, "z", "b", resources=r) for r in ("LCL", "LLL"))
        ],
        "Rank modulo N is as even as a ring can be until the hottest key alone decides.",
    )
    return claims


def _ours_in_figure_4(measured: Drawn) -> Claims:
    b = {r: _curves(measured.rows, "z", "b", resources=r) for r in _KINDS}
    ours = {r: {t: b[r][t][1.0] for t in CONSTRUCTED} for r in ("LCL", "LLL")}
    quadratic = {t: mean(b["LQL"][t].values()) for t in CONSTRUCTED}
    apart = max(abs(curves["scan"][z] / curves["redist"][z] - 1) for curves in b.values() for z in curves["scan"])
    best = [
        all(found["readj"] <= min(_ours(found).values()) for found in both)
        for both in zip(*(_at(measured, "z", 1.0, r) for r in ("LCL", "LLL")), strict=True)
    ]
    claims = Claims("5.3, figure 4")
    claims.add(
        "readj is best for LCL and LLL, by up to 8 % at z = 1",
        "; ".join(f"{r}: " + _listed(numbers, ".3f") for r, numbers in ours.items()),
        best,
        _LEVEL_ALL,
    )
    claims.add(
        "for LQL all three are close, readj 1 to 2 % above the others",
        "mean b: " + _listed(quadratic, ".3f"),
        max(quadratic.values()) / min(quadratic.values()) < 1.03,
    )
    claims.add("scan and redist have almost the same imbalance", f"they differ by {apart:.1%} at most", apart < 0.03)
    return claims


def figure_5(lab: Lab) -> Outcome:
    """Migration and imbalance over sigma."""
    measured = _by_scaler(lab, ("LCL", "LQL"))
    left = levelled(10, _domain(lab), sigma=min(_scalers(lab)))
    claims = _migration_in_figure_5(measured, min(_scalers(lab))) + _balance_in_figure_5(measured, left)
    return Outcome(measured.rows, _two(measured.rows, "sigma"), claims)


def _migration_in_figure_5(measured: Drawn, lowest: float) -> Claims:
    b, m = (_curves(measured.rows, "sigma", column, resources="LCL") for column in ("b", "m"))
    mean_m = _means(m)

    def trades(rows: list[Row]) -> bool:
        b, m = (_curves(rows, "sigma", column, resources="LCL") for column in ("b", "m"))
        return all(b[t][lowest] < b[t][1.0] and m[t][lowest] > m[t][1.0] for t in CONSTRUCTED)

    def moves(rows: list[Row]) -> dict[str, float]:
        return _means(_curves(rows, "sigma", "m", resources="LCL"))

    def between(found: Mapping[str, float]) -> bool:
        ours = _ours(found)
        return ours["redist"] == min(ours.values()) and ours["scan"] == max(ours.values())

    claims = Claims("5.3, figure 5")
    claims.add(
        "a lower sigma gives less imbalance and more migration",
        f"LCL, sigma = {lowest:.3f} against 1: b "
        + ", ".join(f"{t} {b[t][lowest]:.2f} and {b[t][1.0]:.2f}" for t in CONSTRUCTED)
        + "; m "
        + ", ".join(f"{t} {m[t][lowest]:.2f} and {m[t][1.0]:.2f}" for t in CONSTRUCTED),
        measured.each(trades),
        "Imbalance falls. Tracked keys that stay where they are need not move more, whatever their number.",
    )
    claims.add(
        "redist moves least of ours, scan most",
        "mean m for LCL: " + _listed(mean_m),
        measured.each(lambda rows: between(moves(rows))),
        _SAME_ORDER,
    )
    claims.add(
        "consistent hash moves least of all, uniform hash most",
        "mean m for LCL: " + _listed(mean_m),
        measured.each(
            lambda rows: (
                (found := moves(rows))["consistent"] == min(found.values()) and found["uniform"] == max(found.values())
            )
        ),
        _HASH_MOVES,
    )
    return claims


def _balance_in_figure_5(measured: Drawn, left: Left) -> Claims:
    b = {r: _curves(measured.rows, "sigma", "b", resources=r) for r in ("LCL", "LQL")}
    scalers = list(b["LCL"]["readj"])
    apart = max(
        max(b[r][t][s] for t in CONSTRUCTED) / min(b[r][t][s] for t in CONSTRUCTED) - 1 for r in b for s in scalers
    )
    lowest = {t: b["LCL"][t][min(scalers)] for t in CONSTRUCTED}
    gain = {r: mean(b[r][t][0.25] / b[r][t][min(scalers)] for t in CONSTRUCTED) for r in b}
    jump = mean(b["LQL"][t][0.5] / b["LQL"][t][0.25] for t in CONSTRUCTED)

    def middle(rows: list[Row]) -> dict[str, float]:
        curves = _curves(rows, "sigma", "b", resources="LCL")
        return {t: mean(curves[t][s] for s in scalers if 0.03 < s < 0.3) for t in CONSTRUCTED}

    claims = Claims("5.3, figure 5")
    claims.add(
        "scan, redist and readj are similar in balance",
        f"they differ by {apart:.0%} at most, over sigma and both resource functions",
        apart < 0.15,
        "They differ most where many keys are tracked, or for quadratic loads.",
    )
    claims.add(
        "for LCL and a sigma in the middle, readj has slightly less imbalance",
        "mean b for sigma from 1/32 to 1/4: " + _listed(middle(measured.rows), ".3f"),
        measured.each(lambda rows: (found := middle(rows))["readj"] <= min(found.values())),
        _LEVEL_ALL,
    )
    claims.add(
        "for very low sigma, readj cannot keep the imbalance lower than the others",
        f"LCL, sigma = {min(scalers):.3f}: " + _listed(lowest, ".3f"),
        lowest["readj"] > min(lowest["scan"], lowest["redist"]) - 0.005,
        f"Were the tracked keys level, the others would leave {left.mean:.3f} ± {left.deviation:.3f}.",
    )
    claims.add(
        "low sigma improves the balance of LQL less than that of LCL",
        ", ".join(f"{r}: b falls to {1 / g:.0%}" for r, g in gain.items())
        + " from sigma = 0.25, below the jump of LQL, to the lowest",
        gain["LQL"] < gain["LCL"],
        "The more keys are placed, the more of the quadratic load is.",
    )
    claims.add(
        "for LQL the imbalance jumps for sigma between 0.25 and 0.5",
        f"b grows by {jump - 1:.0%} from 0.25 to 0.5",
        jump > 1.2,
        "Which sigma leaves one of the few hottest keys to the hash depends on the data.",
    )
    return claims


def figure_6(lab: Lab) -> Outcome:
    """Migration and imbalance over the number of workers."""
    measured = _by_workers(lab, TECHNIQUES)
    rows = measured.rows
    m = _curves(rows, "N", "m")
    at_32 = {t: curve[32] for t, curve in m.items()}
    mean_m, both = _means(m), _robustness(rows)

    def between(rows: list[Row]) -> bool:
        found = _means(_curves(rows, "N", "m"))
        return all(found["consistent"] <= found[t] <= found["uniform"] for t in CONSTRUCTED)

    def flat(rows: list[Row]) -> bool:
        found = _curves(rows, "N", "m")["redist"].values()
        return max(found) - min(found) < 0.5

    def readj_rises(rows: list[Row]) -> bool:
        m = _curves(rows, "N", "m")
        late = {t: mean(m[t][n] for n in _WORKERS if n > 20) for t in CONSTRUCTED}
        return late["readj"] > mean(m["readj"][n] for n in _WORKERS if n <= 8) and late["readj"] > late["redist"]

    claims = Claims("5.3, figure 6")
    claims.add(
        "uniform hash moves about 22 times the ideal with 32 workers",
        f"m = {at_32['uniform']:.1f}",
        abs(at_32["uniform"] - 22) < 1,
        note=_RANKS,
    )
    claims.add(
        "consistent hash moves least, and ours are in between",
        "mean m over N: " + _listed(mean_m),
        measured.each(between),
        _HASH_MOVES,
    )
    claims.add(
        "redist moves about 1.15 times the ideal, whatever N",
        f"m from {min(m['redist'].values()):.2f} to {max(m['redist'].values()):.2f} in the mean over rings",
        measured.each(flat),
        _one_move(lab, 32),
    )
    claims.add(
        "readj moves more with more workers",
        "m: " + ", ".join(f"{value:.2f} with {n:.0f}" for n, value in m["readj"].items()),
        measured.each(readj_rises),
        _one_move(lab, 32),
    )
    claims.add(
        "scan moves more with more workers, and more than 3 times the ideal with 32",
        "with 32 workers: " + _listed(at_32),
        at_32["scan"] > 3,
        _SCAN_STAYS,
    )
    claims += _balance_in_figure_6(measured, _domain(lab))
    claims.add(
        "by migration and imbalance together, redist is the most robust",
        "mean b (1 + m): " + _listed(both),
        measured.each(lambda rows: (found := _robustness(rows))["redist"] == min(found.values())),
        "Scan and redist do the same to keys that stay.",
    )
    beside = _in_the_paper(FIGURE_6, resources=rows[0]["resources"], N=32)
    return Outcome(rows, _two(rows, "N", beside), claims)


def _robustness(rows: list[Row]) -> dict[str, float]:
    """Return b (1 + m) in the mean over the numbers of workers."""
    b, m = (_curves(rows, "N", column) for column in ("b", "m"))
    return {t: mean(b[t][n] * (1 + m[t][n]) for n in _WORKERS) for t in CONSTRUCTED}


def _balance_in_figure_6(measured: Drawn, domain: int) -> Claims:
    b = _curves(measured.rows, "N", "b")
    few, many = ([n for n in _WORKERS if (n <= 20) == low] for low in (True, False))

    def means(rows: list[Row], workers: Sequence[int]) -> dict[str, float]:
        curves = _curves(rows, "N", "b")
        return {t: mean(curve[n] for n in workers) for t, curve in curves.items()}

    def worst(rows: list[Row]) -> bool:
        found = means(rows, few)
        return _curves(rows, "N", "b")["consistent"][32] > 2 and found["consistent"] == max(found.values())

    def over(rows: list[Row]) -> float:
        b = _curves(rows, "N", "b")
        return max(b["uniform"][n] / b["readj"][n] - 1 for n in few)

    def late(rows: list[Row]) -> bool:
        found = means(rows, many)
        return found["readj"] > max(found["scan"], found["redist"])

    claims = Claims("5.3, figure 6")
    claims.add(
        "consistent hash has the highest imbalance, above 2 with 32 workers",
        f"b = {b['consistent'][32]:.2f} with 32 workers; mean up to 20 workers: " + _listed(means(measured.rows, few)),
        measured.each(worst),
        "Computation is constant in LCL, so that a b of 2 asks for max/min above 4 in the other two.",
    )
    claims.add(
        "up to 20 workers uniform hash has clearly more imbalance, up to 36 % more than readj",
        f"up to {over(measured.rows):.0%} more",
        measured.each(lambda rows: over(rows) > 0.1 and means(rows, few)["uniform"] > 1.05 * means(rows, few)["readj"]),
        _LEVEL_ALL,
    )
    claims.add(
        "up to 20 workers readj is the best balanced",
        "mean b: " + _listed(means(measured.rows, few), ".3f"),
        measured.each(lambda rows: (found := means(rows, few))["readj"] == min(found.values())),
        _LEVEL_ALL,
    )
    claims.add(
        "above 20 workers readj has more imbalance than redist and scan",
        "mean b: " + _listed(_ours(means(measured.rows, many)), ".3f"),
        measured.each(late),
        "Were the tracked keys level, the others would leave "
        + ", ".join(f"{levelled(n, domain).mean:.3f} for N = {n}" for n in many)
        + " in the mean over rings.",
    )
    return claims


def figure_7(lab: Lab) -> Outcome:
    """Migration and imbalance by the utility function."""
    settings = [Setting(_domain(lab), resources=r, utility=u) for r in _KINDS for u in UTILITIES]
    measured = _measure(lab, settings, ("readj", "redist"))
    rows = measured.rows
    drawn = melted(rows, {"m": _M, "b": _B}, "quantity", "value")
    figure = lines(drawn, "resources", "value", "utility", ["technique", "quantity"], y_label="m and b")
    quadratic = _by_utility(rows, "b", technique="redist", resources="LQL")
    times = max(quadratic.values()) / quadratic["APM"]
    mean_b, mean_m = (_by_utility(rows, column, technique="redist") for column in ("b", "m"))
    overall = _by_utility(rows, "b (1 + m)")

    def balances(rows: list[Row]) -> bool:
        found = _by_utility(rows, "b", technique="redist")
        lql = _by_utility(rows, "b", technique="redist", resources="LQL")
        best = max(found["APM"], found["APLM"]) <= min(found["ATM"], found["ATLM"])
        return best and max(lql.values()) > 1.5 * lql["APM"]

    def moves(rows: list[Row]) -> bool:
        found = _by_utility(rows, "m", technique="redist")
        return found["APLM"] > 1.1 * found["APM"] and max(found["ATM"], found["ATLM"]) < 0.9 * found["APM"]

    redist = Claims("5.3, figure 7b")
    redist.add(
        "with redist U^APM and U^APLM balance best, for LQL up to 3 times better",
        f"LQL: {_listed(quadratic)}; the worst is {times:.1f} times U^APM's; mean of all: " + _listed(mean_b),
        measured.each(balances),
        _order_of(mean_b),
    )
    redist.add(
        "with redist U^APLM moves 30 to 35 % more than U^APM, U^ATM and U^ATLM 35 to 40 % less",
        "mean m: " + _listed(mean_m),
        measured.each(moves),
        _order_of(mean_m),
        _one_move(lab),
    )
    redist.add(
        "by migration and imbalance together, U^APM is the best choice",
        "mean b (1 + m): " + _listed(overall),
        measured.each(lambda rows: (found := _by_utility(rows, "b (1 + m)"))["APM"] == min(found.values())),
        _order_of(overall),
        _one_move(lab),
        where="5.3, figure 7",
    )
    return Outcome(rows, figure, _readj_in_figure_7(measured, _one_move(lab)) + redist)


def _readj_in_figure_7(measured: Drawn, one_move: str) -> Claims:
    def utilities(rows: list[Row], column: str) -> dict[str, dict[str, float]]:
        return {r: _by_utility(rows, column, technique="readj", resources=r) for r in _KINDS}

    def blind(rows: list[Row]) -> bool:
        return all(numbers["A"] >= max(numbers.values()) - 1e-9 for numbers in utilities(rows, "m").values())

    def cheapest(rows: list[Row]) -> list[bool]:
        m = utilities(rows, "m")
        return [m[r][u] <= min(m[r].values()) + 0.005 for r, u in (("LCL", "APLM"), ("LLL", "APM"), ("LQL", "APM"))]

    def lowest(rows: list[Row]) -> bool:
        b = utilities(rows, "b")
        apart = max(max(b[r].values()) / min(b[r].values()) - 1 for r in ("LCL", "LLL"))
        return apart < 0.05 and b["LQL"]["APM"] <= min(b["LQL"].values()) + 1e-9

    b, m = utilities(measured.rows, "b"), utilities(measured.rows, "m")
    claims = Claims("5.3, figure 7a")
    claims.add(
        "with U^A readj moves much, as it does not look at migration",
        "; ".join(f"{r}: " + _listed(numbers) for r, numbers in m.items()),
        measured.each(blind),
        one_move,
    )
    claims.add(
        "with readj U^APM moves least, but for LCL, where U^APLM does",
        "; ".join(f"{r}: " + _listed(numbers) for r, numbers in m.items()),
        [holds for rows in measured.draws for holds in cheapest(rows)],
        one_move,
        "By the geometric mean of the loads that count, LCL and LLL are one to the algorithms.",
    )
    claims.add(
        "readj's imbalance hardly differs, but for LQL, where U^APM has the lowest",
        "; ".join(f"{r}: " + _listed(numbers) for r, numbers in b.items()),
        measured.each(lowest),
        "readj takes only what balances better, so all utilities end near the same balance.",
    )
    return claims


def figure_8(lab: Lab) -> Outcome:
    """Migration and imbalance over the number of keys."""
    domains = sorted({max(1000, round(_domain(lab) * 10.0**e)) for e in range(-2, 3)})
    measured = _measure(lab, [Setting(domain) for domain in domains])
    rows = measured.rows
    b, m = (_curves(rows, "|D|", column) for column in ("b", "m"))
    mean_b, mean_m = _means(b), _means(m)
    best = {d: min(b[t][d] for t in TECHNIQUES) for d in domains}
    ends = [best[domains[0]] - best[domains[1]], best[domains[-2]] - best[domains[-1]]]
    ours = {d: mean(m[t][d] for t in CONSTRUCTED) for d in domains}

    def apart(rows: list[Row]) -> float:
        b = _curves(rows, "|D|", "b")
        return max(max(b[t][d] for t in CONSTRUCTED) / min(b[t][d] for t in CONSTRUCTED) - 1 for d in domains)

    def ordered(rows: list[Row]) -> bool:
        found = _means(_curves(rows, "|D|", "b"))
        return found["consistent"] == max(found.values()) and max(_ours(found).values()) < found["uniform"]

    def least(rows: list[Row]) -> bool:
        found = _means(_curves(rows, "|D|", "m"))
        return found["consistent"] == min(found.values()) and found["consistent"] < 1

    def falls(rows: list[Row]) -> bool:
        m = _curves(rows, "|D|", "m")
        first, last = (mean(m[t][d] for t in CONSTRUCTED) for d in (domains[0], domains[-1]))
        return first > last > 1

    def by_migration(rows: list[Row]) -> bool:
        found = _means(_curves(rows, "|D|", "m"))
        return found["redist"] <= found["readj"] <= found["scan"]

    claims = Claims("5.3, figure 8")
    claims.add(
        "scan, redist and readj balance better than the hashes, and consistent hash is the worst",
        "mean b: " + _listed(mean_b),
        measured.each(ordered),
    )
    claims.add(
        "the three are similar, redist up to 3 % above readj",
        f"they differ by {apart(rows):.1%} at most in the mean over rings",
        measured.each(lambda rows: apart(rows) < 0.05),
        _LEVEL_ALL,
    )
    claims.add(
        "more keys are easier to balance, though ever less so, and nobody reaches the ideal",
        "best b: " + ", ".join(f"{value:.2f} for {d:,}" for d, value in best.items()),
        best[domains[0]] > best[domains[-1]] > 1 and ends[0] > ends[1],
        note=unless(best[domains[-1]] > 1, _HOTTEST),
    )
    claims.add(
        "uniform hash moves 6.5 to 7.5 times the ideal, the more the more keys",
        "m: " + ", ".join(f"{value:.2f} for {d:,.0f}" for d, value in m["uniform"].items()),
        abs(m["uniform"][domains[0]] - 6.5) < 0.3 and abs(m["uniform"][domains[-1]] - 7.5) < 0.3,
        note=_RANKS,
    )
    claims.add(
        "consistent hash moves least, less than the ideal",
        "mean m: " + _listed(mean_m),
        measured.each(least),
        _HASH_MOVES,
    )
    claims.add(
        "ours move from 2.2 down to 1.25 times the ideal, the less the more keys",
        "mean m: " + ", ".join(f"{value:.2f} for {d:,}" for d, value in ours.items()),
        measured.each(falls),
        _one_move(lab),
    )
    claims.add(
        "redist moves least of ours, scan most",
        "mean m: " + _listed(_ours(mean_m)),
        measured.each(by_migration),
        _SAME_ORDER,
    )
    return Outcome(rows, _two(rows, "|D|"), claims)


def figure_9(lab: Lab) -> Outcome:
    """Sizes of the lossy counter and of the explicit hash, over sigma."""
    rows = _sizes(lab, [Setting(_domain(lab), sigma=s, resources=r) for r in _KINDS for s in _scalers(lab)])
    kept = {r: _over(rows, "sigma", "kept", resources=r) for r in _KINDS}
    mapped = {r: _over(rows, "sigma", "mappings", resources=r) for r in _KINDS}
    differ = max(abs(mapped["LCL"][s] - mapped["LQL"][s]) for s in _scalers(lab))
    claims = Claims("5.4, figure 9")
    claims.add(
        "the lower sigma, the more items the lossy counter keeps",
        "LCL: " + ", ".join(f"{kept['LCL'][s]:,.0f} for {s:.3g}" for s in (0.1, _scalers(lab)[0])),
        all(_falling(curve.values()) for curve in kept.values()),
        _SHORT_WINDOW,
    )
    claims.add(
        "for sigma = 0.1 it keeps about 2,500 items, for LQL 50 thousand",
        f"{kept['LCL'][0.1]:,.0f}, and {kept['LQL'][0.1]:,.0f}, of {_domain(lab):,} keys",
        1_500 <= kept["LCL"][0.1] <= 3_500 and 35_000 <= kept["LQL"][0.1] <= 65_000,
        note=unless(35_000 <= kept["LQL"][0.1] <= 65_000, _SHORT_WINDOW),
    )
    claims.add(
        "the explicit hash has 1 to 500 mappings, and about 50 for sigma = 0.1",
        f"{min(mapped['LCL'].values()):.0f} to {max(mapped['LCL'].values()):.0f}, and {mapped['LCL'][0.1]:.0f}",
        1 <= min(mapped["LCL"].values()) <= 10
        and 400 <= max(mapped["LCL"].values()) <= 600
        and 30 <= mapped["LCL"][0.1] <= 70,
        note=unless(400 <= max(mapped["LCL"].values()) <= 600, "The window is too short to count keys of low share."),
    )
    claims.add(
        "it is the same size for all resource functions, by the second filter of quadratic ones",
        f"for LQL it differs by {differ:.1f} mappings at most, of up to {max(mapped['LCL'].values()):.0f} for LCL",
        differ <= 0.05 * max(mapped["LCL"].values()),
    )
    return Outcome(rows, _both_sizes(rows, "sigma"), claims)


def figure_10(lab: Lab) -> Outcome:
    """Sizes of the lossy counter and of the explicit hash, over the skew."""
    rows = _sizes(lab, _over_skews(lab))
    kept = {r: _over(rows, "z", "kept", resources=r) for r in _KINDS}
    mapped = {r: _over(rows, "z", "mappings", resources=r) for r in _KINDS}
    linear, quadratic = (list(kept[r].values()) for r in ("LCL", "LQL"))
    flat = max(linear[:-3]) / max(1.0, min(linear[:-3]))
    growth = np.diff([mapped["LCL"][z] for z in (0.7, 0.8, 0.9, 1.0)])
    claims = Claims("5.4, figure 10")
    claims.add(
        "for linear functions the lossy counter hardly depends on the skew, and falls a little for high skew",
        ", ".join(f"{n:,.0f} for z = {z}" for z, n in kept["LCL"].items()),
        flat < 1.5 and linear[-1] < max(linear),
        note=unless(flat < 1.5, _SHORT_WINDOW),
    )
    claims.add(
        "for quadratic ones it rises first, and falls a little then",
        ", ".join(f"{n:,.0f} for z = {z}" for z, n in kept["LQL"].items()),
        quadratic[0] < max(quadratic) > quadratic[-1],
        "At the end of a window of M rows most keys have the few rows of the last bucket, at any of these z.",
    )
    claims.add(
        "the explicit hash grows with the skew, ever faster",
        ", ".join(f"{n:.0f} for z = {z}" for z, n in mapped["LCL"].items()),
        _falling([-n for n in mapped["LCL"].values()]) and growth[-1] > growth[0],
        "The keys near delta are counted with an error, which adds some that have less.",
    )
    claims.add(
        "LCL and LLL are the same",
        f"{sum(kept['LCL'].values()):,.0f} and {sum(kept['LLL'].values()):,.0f} items in all",
        kept["LCL"] == kept["LLL"] and mapped["LCL"] == mapped["LLL"],
    )
    return Outcome(rows, _both_sizes(rows, "z"), claims)


def figure_11(lab: Lab) -> Outcome:
    """Sizes of the lossy counter and of the explicit hash, over the number of workers."""
    rows = _sizes(lab, [Setting(_domain(lab), workers=n) for n in _WORKERS])
    kept, mapped = (_over(rows, "N", column) for column in ("kept", "mappings"))
    fits = {"lossy counter": _linearity(kept), "explicit hash": _linearity(mapped)}
    claims = Claims("5.4, figure 11")
    claims.add(
        "both sizes grow linearly with the number of workers",
        f"{kept[2]:,.0f} to {kept[32]:,.0f} items, {mapped[2]:.0f} to {mapped[32]:.0f} mappings; r^2 of a line: "
        + _listed(fits, ".3f"),
        min(fits.values()) > 0.95,
        _SHORT_WINDOW,
    )
    return Outcome(rows, _both_sizes(rows, "N"), claims)


def figure_12(lab: Lab) -> Outcome:
    """Construction time over sigma."""
    rows = [row for row in _by_scaler(lab, ("LCL",)).rows if row["technique"] in CONSTRUCTED]
    seconds = {t: _over(rows, "sigma", "seconds", technique=t) for t in CONSTRUCTED}
    low = {t: seconds[t][_scalers(lab)[0]] for t in CONSTRUCTED}
    growth = {t: _exponent(rows, t) for t in CONSTRUCTED}
    claims = Claims("5.5, figure 12")
    claims.add(
        "for sigma = 0.008 readj takes longest, about 10 s, then redist, slightly above 0.5 s, and scan is fast",
        ", ".join(f"{t} {1000 * taken:.1f} ms" for t, taken in low.items()),
        low["readj"] > low["redist"] > low["scan"],
        note="The paper measured on another machine.",
    )
    claims.add(
        "for sigma = 0.1 readj takes less than 0.05 s",
        f"{1000 * seconds['readj'][0.1]:.1f} ms",
        seconds["readj"][0.1] < 0.05,
    )
    claims.add(
        "by the number R of tracked keys, scan takes R, redist R^2, and readj R^2 for each of up to c R moves",
        "the whole time, consistent hash included, grows as R to the power " + _listed(growth) + ", where R is largest",
        growth["scan"] <= 1.3 and growth["redist"] <= 2.3 and growth["readj"] <= 3.3,
        "Times are of one step each, and the median of five runs.",
        where="4.2, figure 12",
    )
    figure = lines(rows, "sigma", "seconds", "technique")
    return Outcome(rows, figure, claims)


def figure_13(lab: Lab) -> Outcome:
    """Construction time over the number of workers."""
    rows = _by_workers(lab, TECHNIQUES[1:]).rows
    seconds = {t: _over(rows, "N", "seconds", technique=t) for t in TECHNIQUES[1:]}
    growth = {t: seconds[t][32] / seconds[t][8] for t in CONSTRUCTED}
    at_32 = {t: seconds[t][32] for t in TECHNIQUES[1:]}
    explicit = at_32["scan"] - at_32["consistent"]
    claims = Claims("5.5, figure 13")
    claims.add(
        "all three grow faster than linearly with the number of workers",
        "from 8 to 32 workers, 4 times as many: " + _listed(growth),
        all(times > 4 for times in growth.values()),
        "What does not depend on N, such as looking keys up, is a large part of a millisecond or two.",
    )
    claims.add(
        "scan is the cheapest",
        "for N = 32: " + ", ".join(f"{t} {1000 * taken:.1f} ms" for t, taken in at_32.items()),
        at_32["scan"] < min(at_32["redist"], at_32["readj"]),
    )
    claims.add(
        "with scan, the consistent hash of 1,000 replicas takes about as long as the explicit hash",
        f"{1000 * at_32['consistent']:.1f} ms of {1000 * at_32['scan']:.1f} ms",
        0.5 < explicit / at_32["consistent"] < 2,
        "Placing takes less here than making the ring.",
    )
    claims.add(
        "with redist and readj the explicit hash takes much longer",
        f"{(at_32['redist'] - at_32['consistent']) / explicit:.1f} and "
        f"{(at_32['readj'] - at_32['consistent']) / explicit:.1f} times as long as with scan",
        min(at_32["redist"], at_32["readj"]) - at_32["consistent"] > 1.5 * explicit,
        "With some hundred keys they need single milliseconds, compiled.",
    )
    return Outcome(rows, lines(rows, "N", "seconds", "technique"), claims)


def figure_14(lab: Lab) -> Outcome:
    """Construction time over the skew."""
    rows = _measure(lab, [Setting(_domain(lab), z=z) for z in _SKEWS], CONSTRUCTED).rows
    seconds = {t: _over(rows, "z", "seconds", technique=t) for t in CONSTRUCTED}
    growth = {t: seconds[t][1.0] / seconds[t][0.8] for t in CONSTRUCTED}
    before = {t: seconds[t][0.8] / seconds[t][0.1] for t in CONSTRUCTED}
    claims = Claims("5.5, figure 14")
    claims.add(
        "scan's time hardly depends on the skew",
        f"{growth['scan']:.2f} times as long at z = 1 as at z = 0.8, {before['scan']:.2f} times there as at 0.1",
        seconds["scan"][1.0] < 2 * seconds["scan"][0.1],
        "At z = 0.1 there is no key to place at all.",
    )
    claims.add(
        "redist's and readj's time is flat up to z = 0.8, and grows then, that of readj faster",
        "from z = 0.8 to 1: " + _listed(growth) + "; from 0.1 to 0.8: " + _listed(before),
        growth["readj"] > growth["redist"] > 1.05,
        "With 39 keys at z = 1 nearly all of a time is the consistent hash.",
    )
    return Outcome(rows, lines(rows, "z", "seconds", "technique"), claims)


def _domain(lab: Lab) -> int:
    """|D|: the paper's million in full size."""
    return lab.grid.messages // 10


def _runs(lab: Lab, runs: int = RUNS) -> range:
    """Return the numbers of the runs of a seed, other ones for each."""
    return range((lab.seed - 1) * runs, lab.seed * runs)


def _scalers(lab: Lab) -> tuple[float, ...]:
    """Return sigma in ascending order. With few keys, a low sigma tracks so many of them that readj takes minutes."""
    return _SCALERS if lab.grid.messages >= FULL.messages else _SCALERS[2:]


def _over_skews(lab: Lab) -> list[Setting]:
    kinds = (("LCL", _SKEWS), ("LLL", _SKEWS), ("LQL", _LOW_SKEWS))
    return [Setting(_domain(lab), z=z, resources=r) for r, skews in kinds for z in skews]


def _measure(lab: Lab, settings: Sequence[Setting], techniques: Sequence[str] = TECHNIQUES) -> Drawn:
    """Return a row for each setting and technique."""
    rings = _runs(lab, RINGS)
    measured = Drawn([], [[] for _ in rings])
    for setting in lab.each(settings):
        for technique in techniques:
            _add(measured, setting, technique, [adapt(setting, technique, ring) for ring in rings])
    return measured


def _by_scaler(lab: Lab, kinds: Sequence[str]) -> Drawn:
    return _measure(lab, [Setting(_domain(lab), sigma=sigma, resources=r) for r in kinds for sigma in _scalers(lab)])


def _by_workers(lab: Lab, techniques: Sequence[str]) -> Drawn:
    """Return rows for each number of workers, all of one chain of adaptations."""
    rings = _runs(lab, RINGS)
    measured = Drawn([], [[] for _ in rings])
    longest = Setting(_domain(lab), workers=max(_WORKERS))
    for technique in lab.each(techniques):
        found = [steps(longest, technique, ring, _WORKERS) for ring in rings]
        for n, each in zip(_WORKERS, zip(*found, strict=True), strict=True):
            _add(measured, replace(longest, workers=n), technique, each)
    return measured


def _add(measured: Drawn, setting: Setting, technique: str, each: Sequence[Step]) -> None:
    measured.rows.append(_row(setting, technique, each))
    for rows, step in zip(measured.draws, each, strict=True):
        rows.append(_row(setting, technique, [step]))


def _row(setting: Setting, technique: str, each: Sequence[Step]) -> Row:
    row: Row = {"technique": technique, "resources": setting.resources, "z": setting.z, "|D|": setting.domain}
    row |= {"N": setting.workers, "sigma": setting.sigma, "utility": setting.utility}
    row |= {"b": mean(s.imbalance for s in each), "m": mean(s.migration for s in each)}
    row |= {f"b_{k}": mean(s.each[i] for s in each) for i, k in enumerate("scn")}
    row |= {"b (1 + m)": mean(s.objective for s in each)}
    row |= {"mappings": mean(s.mappings for s in each), "seconds": float(np.median([s.seconds for s in each]))}
    return row


def _sizes(lab: Lab, settings: Sequence[Setting]) -> list[Row]:
    rows: list[Row] = []
    for setting in lab.each(replace(setting, counts=True) for setting in settings):
        row = _row(setting, "scan", [adapt(setting, "scan", run) for run in _runs(lab)])
        row["kept"] = mean(count(setting, run).kept for run in _runs(lab))
        rows.append({name: row[name] for name in ("resources", "z", "|D|", "N", "sigma", "kept", "mappings")})
    return rows


def _two(rows: Sequence[Row], x: str, paper: Sequence[Row] = ()) -> Figure:
    """Draw migration and imbalance side by side."""
    drawn = melted(rows, {"m": _M, "b": _B}, "quantity", "value")
    panels = ["resources", "quantity"]
    return lines(drawn, x, "value", "technique", panels, y_label="relative to the ideal", level=1, paper=paper)


def _in_the_paper(said: Mapping[tuple[str, str], float], **at: object) -> list[Row]:
    return [{"technique": t, "quantity": quantity, "value": value, **at} for (t, quantity), value in said.items()]


def _both_sizes(rows: Sequence[Row], x: str) -> Figure:
    """Draw the items of the lossy counter and the mappings of the explicit hash side by side."""
    drawn = melted(rows, {"kept": "lossy counter", "mappings": "explicit hash"}, "size of", "items")
    return lines(drawn, x, "items", "resources", ["size of"], floor=0.5)


def _over(rows: Iterable[Row], x: str, column: str, **where: object) -> dict[float, float]:
    """Return a column over another."""
    return {float(row[x]): float(row[column]) for row in pick(rows, **where)}


def _curves(rows: Sequence[Row], x: str, column: str, **where: object) -> Curves:
    """Return a column over another, for each technique."""
    return {technique: _over(rows, x, column, technique=technique, **where) for technique in TECHNIQUES}


def _means(curves: Curves) -> dict[str, float]:
    return {technique: mean(curve.values()) for technique, curve in curves.items()}


def _ours(numbers: Mapping[str, float]) -> dict[str, float]:
    return {technique: numbers[technique] for technique in CONSTRUCTED}


def _by(rows: Iterable[Row], column: str, **where: object) -> dict[str, float]:
    """Return a column by technique."""
    return {str(row["technique"]): float(row[column]) for row in pick(rows, **where)}


def _by_resources(rows: Sequence[Row], column: str) -> dict[str, dict[str, float]]:
    """Return a column by resource functions and technique."""
    return {r: _by(rows, column, resources=r) for r in _RESOURCES}


def _at(measured: Drawn, x: str, value: float, resources: str) -> list[dict[str, float]]:
    """Return b of each technique at one point, with each ring."""
    return [_by(rows, "b", resources=resources, **{x: value}) for rows in measured.draws]


def _by_utility(rows: Sequence[Row], column: str, **where: object) -> dict[str, float]:
    """Return the mean of a column for each utility function."""
    return {utility: mean(values(rows, column, utility=utility, **where)) for utility in UTILITIES}


def _first_above(curve: Mapping[float, float]) -> float:
    """Return the first point above 1, or infinity if there is none."""
    return next((x for x, value in curve.items() if value > 1), float("inf"))


def _crossing(curves: Curves) -> float:
    """Return from where on uniform hash stays above readj."""
    uniform, readj = curves["uniform"], curves["readj"]
    return next((x for x in uniform if all(uniform[y] > readj[y] for y in uniform if y >= x)), float("inf"))


def _exponent(rows: Sequence[Row], technique: str) -> float:
    """Return with which power of the mappings the whole time grows, consistent hash included, where there are most."""
    largest, second = sorted(pick(rows, technique=technique), key=lambda row: -row["mappings"])[:2]
    mappings, seconds = (np.log(largest[column] / max(1e-9, second[column])) for column in ("mappings", "seconds"))
    return float(seconds / mappings) if mappings else 0.0


def _linearity(curve: Mapping[float, float]) -> float:
    """Return r^2 of the line through the points; 0 where they are level."""
    if len(set(curve.values())) == 1:
        return 0.0
    return float(np.corrcoef(list(curve), list(curve.values()))[0, 1] ** 2)


def _listed(numbers: Mapping[str, float], form: str = ".2f") -> str:
    return ", ".join(f"{name} {value:{form}}" for name, value in numbers.items())


def _and(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _order_of(numbers: Mapping[str, float]) -> str:
    return "The order here is " + ", ".join(sorted(numbers, key=lambda name: numbers[name])) + ", lowest first."


def _one_move(lab: Lab, workers: int = 10) -> str:
    share = float(zipf_shares(_domain(lab), 1.0)[0])
    return f"A move of the hottest key alone adds p1 N = {share * workers:.2f} to m with N = {workers}."


def _falling(numbers: Iterable[float]) -> bool:
    return all(a >= b for a, b in pairwise(numbers))


EXPERIMENTS = [
    Experiment("gedik-fig3", "Resource functions", figure_3),
    Experiment("gedik-fig4", "Migration and imbalance over the skew", figure_4),
    Experiment("gedik-fig5", "Migration and imbalance over sigma", figure_5),
    Experiment("gedik-fig6", "Migration and imbalance over the workers", figure_6),
    Experiment("gedik-fig7", "Utility functions", figure_7),
    Experiment("gedik-fig8", "Migration and imbalance over the number of keys", figure_8),
    Experiment("gedik-fig9", "Sizes over sigma", figure_9),
    Experiment("gedik-fig10", "Sizes over the skew", figure_10),
    Experiment("gedik-fig11", "Sizes over the workers", figure_11),
    Experiment("gedik-fig12", "Construction time over sigma", figure_12),
    Experiment("gedik-fig13", "Construction time over the workers", figure_13),
    Experiment("gedik-fig14", "Construction time over the skew", figure_14),
    *SPLITTER,
]
