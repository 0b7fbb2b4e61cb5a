"""Figures 3 to 14 of Gedik, "Partitioning functions for stateful data parallelism in stream processing"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from saltwise.placement.utility import UTILITIES

from .charts import Lines
from .check import Own
from .experiment import Outcome, paper
from .lab import FULL, Lab
from .partitioning_functions_splitter import SPLITTER
from .rows import Numbers, Row, Rows, curve, mean, pick, values
from .worker_steps import CONSTRUCTED, RINGS, RUNS, TECHNIQUES, Setting, Step, adapt, count, steps

_RESOURCES = ("CCL", "LCL", "LLL", "LQL")
_KINDS = _RESOURCES[1:]
_SKEWS = tuple(round(0.1 * i, 1) for i in range(1, 11))
_LOW_SKEWS = (0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
_SCALERS = (2**-7, 2**-6, 2**-5, 2**-4, 0.1, 2**-3, 2**-2, 2**-1, 1.0)
_WORKERS = (2, 4, 8, 12, 16, 20, 24, 28, 32)
_NEVER = 99.0
"""The skew at which something begins that never does."""

_M, _B = "migration m", "imbalance b"
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


def figure_3(lab: Lab) -> Outcome:
    """Migration and imbalance by the resource functions; also of `level`, which no claim is about."""
    return _measure(lab, [Setting(_domain(lab), resources=r) for r in _RESOURCES], (*TECHNIQUES, "level"))


def figure_4(lab: Lab) -> Outcome:
    """Migration and imbalance over the skew."""
    return _measure(lab, _over_skews(lab))


def figure_5(lab: Lab) -> Outcome:
    """Migration and imbalance over sigma."""
    return _by_scaler(lab, ("LCL", "LQL"))


def figure_6(lab: Lab) -> Outcome:
    """Migration and imbalance over the number of workers."""
    return _by_workers(lab, TECHNIQUES)


def figure_7(lab: Lab) -> Outcome:
    """Migration and imbalance by the utility function."""
    settings = [Setting(_domain(lab), resources=r, utility=u) for r in _KINDS for u in UTILITIES]
    return _measure(lab, settings, ("readj", "redist"))


def figure_8(lab: Lab) -> Outcome:
    """Migration and imbalance over the number of keys."""
    domains = sorted({max(1000, round(_domain(lab) * 10.0**e)) for e in range(-2, 3)})
    return _measure(lab, [Setting(domain) for domain in domains])


def figure_9(lab: Lab) -> Outcome:
    """Sizes of the lossy counter and of the explicit hash, over sigma."""
    return _sizes(lab, [Setting(_domain(lab), sigma=s, resources=r) for r in _KINDS for s in _scalers(lab)])


def figure_10(lab: Lab) -> Outcome:
    """Sizes of the lossy counter and of the explicit hash, over the skew."""
    return _sizes(lab, _over_skews(lab))


def figure_11(lab: Lab) -> Outcome:
    """Sizes of the lossy counter and of the explicit hash, over the number of workers."""
    return _sizes(lab, [Setting(_domain(lab), workers=n) for n in _WORKERS])


def figure_12(lab: Lab) -> Outcome:
    """Construction time over sigma."""
    return Outcome(pick(_by_scaler(lab, ("LCL",)).rows, technique=CONSTRUCTED))


def figure_13(lab: Lab) -> Outcome:
    """Construction time over the number of workers."""
    return Outcome(_by_workers(lab, TECHNIQUES[1:]).rows)


def figure_14(lab: Lab) -> Outcome:
    """Construction time over the skew."""
    return Outcome(_measure(lab, [Setting(_domain(lab), z=z) for z in _SKEWS], CONSTRUCTED).rows)


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


def _measure(lab: Lab, settings: Sequence[Setting], techniques: Sequence[str] = TECHNIQUES) -> Outcome:
    """Return a row for each setting and technique."""
    rings = _runs(lab, RINGS)
    measured = Outcome([], [[] for _ in rings])
    for setting in lab.each(settings):
        for technique in techniques:
            _add(measured, setting, technique, [adapt(setting, technique, ring) for ring in rings])
    return measured


def _by_scaler(lab: Lab, kinds: Sequence[str]) -> Outcome:
    return _measure(lab, [Setting(_domain(lab), sigma=sigma, resources=r) for r in kinds for sigma in _scalers(lab)])


def _by_workers(lab: Lab, techniques: Sequence[str]) -> Outcome:
    """Return rows for each number of workers, all of one chain of adaptations."""
    rings = _runs(lab, RINGS)
    measured = Outcome([], [[] for _ in rings])
    longest = Setting(_domain(lab), workers=max(_WORKERS))
    for technique in lab.each(techniques):
        found = [steps(longest, technique, ring, _WORKERS) for ring in rings]
        for n, each in zip(_WORKERS, zip(*found, strict=True), strict=True):
            _add(measured, replace(longest, workers=n), technique, each)
    return measured


def _add(measured: Outcome, setting: Setting, technique: str, each: Sequence[Step]) -> None:
    measured.rows.append(_row(setting, technique, each))
    for ring, step in enumerate(each):
        measured.runs[ring].append({"ring": ring, **_row(setting, technique, [step])})


def _row(setting: Setting, technique: str, each: Sequence[Step]) -> Row:
    row: Row = {"technique": technique, "resources": setting.resources, "z": setting.z, "|D|": setting.domain}
    row |= {"N": setting.workers, "sigma": setting.sigma, "utility": setting.utility}
    row |= {"b": mean(s.imbalance for s in each), "m": mean(s.migration for s in each)}
    row |= {f"b_{k}": mean(s.each[i] for s in each) for i, k in enumerate("scn")}
    row |= {"b (1 + m)": mean(s.objective for s in each)}
    row |= {"mappings": mean(s.mappings for s in each), "seconds": float(np.median([s.seconds for s in each]))}
    return row


def _sizes(lab: Lab, settings: Sequence[Setting]) -> Outcome:
    rows: list[Row] = []
    for setting in lab.each(replace(setting, counts=True) for setting in settings):
        row = _row(setting, "scan", [adapt(setting, "scan", run) for run in _runs(lab)])
        row["kept"] = mean(count(setting, run).kept for run in _runs(lab))
        rows.append({name: row[name] for name in ("resources", "z", "|D|", "N", "sigma", "kept", "mappings")})
    return Outcome(rows)


def _late_rise(rows: Rows) -> Numbers:
    """By how much more m rises from z = 0.8 to 1 than from 0.1 to 0.8."""
    m = {t: curve(rows, "z", "m", technique=t) for t in CONSTRUCTED}
    return {t: m[t][1.0] - m[t][0.8] - max(0.0, m[t][0.8] - m[t][0.1]) for t in CONSTRUCTED}


def _above_1(rows: Rows) -> list[Row]:
    """The first z with b above 1, for each technique and resource functions."""
    first: dict[tuple[str, str], float] = {}
    for row in rows:
        kind = row["resources"], row["technique"]
        first[kind] = min(first.get(kind, _NEVER), row["z"] if row["b"] > 1 else _NEVER)
    return [{"resources": r, "technique": t, "z": z} for (r, t), z in first.items()]


def _crossing(rows: Rows) -> Numbers:
    """From which z on uniform hash stays above readj, less the one from which on readj is above 1."""
    numbers: Numbers = {}
    for resources in dict.fromkeys(row["resources"] for row in rows):
        uniform, readj = (curve(rows, "z", "b", resources=resources, technique=t) for t in ("uniform", "readj"))
        crossing = next((x for x in uniform if all(uniform[y] > readj[y] for y in uniform if y >= x)), _NEVER)
        numbers[resources] = crossing - next((x for x, b in readj.items() if b > 1), _NEVER)
    return numbers


def _lowest_sigma(rows: Rows) -> list[Row]:
    return pick(rows, sigma=min(row["sigma"] for row in rows))


def _gain(rows: Rows) -> Numbers:
    """By which factor b falls from sigma = 0.25, below the jump of LQL, to the lowest sigma."""
    numbers: Numbers = {}
    for resources in ("LCL", "LQL"):
        before = values(rows, "b", resources=resources, sigma=0.25)
        after = values(_lowest_sigma(rows), "b", resources=resources)
        numbers[resources] = mean(x / y for x, y in zip(before, after, strict=True))
    return numbers


def _above_cheapest(rows: Rows) -> Numbers:
    """By how much the utility function that is said to move least is above the one that does."""
    numbers: Numbers = {}
    for resources, utility in (("LCL", "APLM"), ("LLL", "APM"), ("LQL", "APM")):
        m = {row["utility"]: row["m"] for row in pick(rows, technique="readj", resources=resources)}
        numbers[resources] = m[utility] - min(m.values())
    return numbers


def _best_balance(rows: Rows) -> Numbers:
    """The lowest b with the fewest keys and the most, and what ten times as many keys gain at either end."""
    best = [min(values(rows, "b", **{"|D|": d})) for d in sorted({row["|D|"] for row in rows})]
    gains = {"first gain": best[0] - best[1], "last gain": best[-2] - best[-1]}
    return {"ideal": 1.0, "most": best[-1], "fewest": best[0], **gains}


def _migration_of_ours(rows: Rows) -> Numbers:
    """The mean m of ours with the fewest keys and the most."""
    means = [mean(values(rows, "m", technique=CONSTRUCTED, **{"|D|": d})) for d in sorted({row["|D|"] for row in rows})]
    return {"ideal": 1.0, "most": means[-1], "fewest": means[0]}


def _growths(rows: Rows) -> Numbers:
    """How many mappings each of the last steps of z adds."""
    mapped = curve(rows, "z", "mappings")
    return {"first": mapped[0.8] - mapped[0.7], "last": mapped[1.0] - mapped[0.9]}


def _linearity(rows: Rows) -> Numbers:
    """r^2 of a line through the sizes over N; 0 where they are level."""
    numbers: Numbers = {}
    for column in ("kept", "mappings"):
        sizes = curve(rows, "N", column)
        level = len(set(sizes.values())) == 1
        numbers[column] = 0.0 if level else float(np.corrcoef(list(sizes), list(sizes.values()))[0, 1] ** 2)
    return numbers


def _exponent(rows: Rows) -> Numbers:
    """The power of the mappings with which the whole time grows, consistent hash included, where mappings are most."""
    largest, second = sorted(rows, key=lambda row: -row["mappings"])[:2]
    mappings, seconds = (np.log(largest[column] / max(1e-9, second[column])) for column in ("mappings", "seconds"))
    return {"": float(seconds / mappings) if mappings else 0.0}


def _explicit(rows: Rows) -> Numbers:
    """The time that each technique takes beside the consistent hash, by that of the hash."""
    seconds = {row["technique"]: row["seconds"] for row in rows}
    return {t: taken / seconds["consistent"] - 1 for t, taken in seconds.items() if t != "consistent"}


def _explicit_to_scan(rows: Rows) -> Numbers:
    explicit = _explicit(rows)
    return {t: explicit[t] / explicit["scan"] for t in ("redist", "readj")}


def _in_the_paper(said: Mapping[tuple[str, str], float], **at: object) -> list[Row]:
    return [{"technique": t, "what": quantity, "value": value, **at} for (t, quantity), value in said.items()]


def _two(x: str, paper: Sequence[Row] = ()) -> Lines:
    """Draw migration and imbalance side by side."""
    panel = ["resources", "what"]
    return Lines(
        x, "value", "technique", panel, y_label="relative to the ideal", level=1, paper=paper, melt={"m": _M, "b": _B}
    )


def _both_sizes(x: str) -> Lines:
    """Draw the items of the lossy counter and the mappings of the explicit hash side by side."""
    melt = {"kept": "lossy counter", "mappings": "explicit hash"}
    return Lines(x, "value", "resources", ["what"], y_label="items", floor=0.5, melt=melt)


OWN: dict[str, Own] = {
    "late-rise": _late_rise,
    "above-1": _above_1,
    "crossing": _crossing,
    "lowest-sigma": _lowest_sigma,
    "gain": _gain,
    "above-cheapest": _above_cheapest,
    "best-balance": _best_balance,
    "migration-of-ours": _migration_of_ours,
    "growths": _growths,
    "linearity": _linearity,
    "exponent": _exponent,
    "explicit": _explicit,
    "explicit-to-scan": _explicit_to_scan,
}
PAPER = paper(
    "gedik",
    "Partitioning functions for stateful data parallelism in stream processing",
    OWN,
    (
        "gedik-fig3",
        "Resource functions",
        figure_3,
        Lines(
            "what",
            "value",
            "technique",
            ["resources"],
            y_label="relative to the ideal",
            level=1,
            melt={"m": _M, "b": _B, "b_s": "state", "b_c": "computation", "b_n": "communication"},
        ),
    ),
    (
        "gedik-fig4",
        "Migration and imbalance over the skew",
        figure_4,
        _two("z", _in_the_paper(FIGURE_3, resources="LLL", z=1.0)),
    ),
    ("gedik-fig5", "Migration and imbalance over sigma", figure_5, _two("sigma")),
    (
        "gedik-fig6",
        "Migration and imbalance over the workers",
        figure_6,
        _two("N", _in_the_paper(FIGURE_6, resources="LCL", N=32)),
    ),
    (
        "gedik-fig7",
        "Utility functions",
        figure_7,
        Lines("resources", "value", "utility", ["technique", "what"], y_label="m and b", melt={"m": _M, "b": _B}),
    ),
    ("gedik-fig8", "Migration and imbalance over the number of keys", figure_8, _two("|D|")),
    ("gedik-fig9", "Sizes over sigma", figure_9, _both_sizes("sigma")),
    ("gedik-fig10", "Sizes over the skew", figure_10, _both_sizes("z")),
    ("gedik-fig11", "Sizes over the workers", figure_11, _both_sizes("N")),
    ("gedik-fig12", "Construction time over sigma", figure_12, Lines("sigma", "seconds", "technique")),
    ("gedik-fig13", "Construction time over the workers", figure_13, Lines("N", "seconds", "technique")),
    ("gedik-fig14", "Construction time over the skew", figure_14, Lines("z", "seconds", "technique")),
    *SPLITTER,
)
