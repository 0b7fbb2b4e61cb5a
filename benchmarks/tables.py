"""Shows the measurements: tables, figures, which promises hold, and where we lose.

    python benchmarks/tables.py [benchmarks/results]

It reads grid.csv, waiting.csv, planning.csv and combine.csv in the folder. It writes table.md and the figures there,
and WHERE_WE_LOSE.md beside the folder. What was not measured is left out. Nothing here needs Spark.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import geometric_mean

from cells import CORES, Cell, read
from matplotlib import rc_context
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"
TINY = "10^4 rows"
DECLARATIVE = ("sum_count",)
COMMANDS = {
    "grid": "python benchmarks/grid.py --parts grid",
    "million": "python benchmarks/grid.py --parts million",
    "local": "python benchmarks/grid.py --parts local",
    "cluster": "python benchmarks/grid.py --parts cluster",
    "quick": "python benchmarks/grid.py --quick",
}

At = tuple[str, int, str, str]
Compared = dict[At, dict[str, Cell]]
Ratio = Callable[[dict[str, Cell]], float]


def main(folder: Path) -> None:
    cells = compared(read(folder / "grid.csv")) if (folder / "grid.csv").exists() else {}
    waiting, planning = folder / "waiting.csv", folder / "planning.csv"
    promises = [
        *promises_of_cells(cells),
        *promises_of_waiting(rows_of(waiting)),
        *promises_of_planning(rows_of(planning)),
    ]
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "saltwise", "font.size": 9}):
        shown = [save(folder, *figure) for figure in figures(cells, waiting)]
    (folder / "table.md").write_text("\n".join(table_page(cells, promises, shown, waiting, planning)) + "\n")
    (folder.parent / "WHERE_WE_LOSE.md").write_text(
        "\n".join(losses_page(cells, promises, folder / "combine.csv")) + "\n"
    )
    print("\n".join(promise_table(promises)))


def compared(cells: Iterable[Cell]) -> Compared:
    """Return the plans of each comparison by name."""
    found: Compared = {}
    for cell in cells:
        found.setdefault(cell.at, {})[cell.plan] = cell
    return found


def of_part(cells: Compared, part: str) -> Compared:
    return {at: plans for at, plans in cells.items() if at[0] == part}


def to_stock(plans: Mapping[str, Cell]) -> float:
    return plans["auto"].ratio


def error_to_stock(plans: Mapping[str, Cell]) -> float:
    return plans["auto"].error


def to_best(plans: Mapping[str, Cell]) -> float:
    return plans["auto"].ratio / best_of(plans).ratio


def best_of(plans: Mapping[str, Cell]) -> Cell:
    """Return the fastest plan. A plan with fewer rounds than auto was slower than auto, and was stopped."""
    return min((cell for cell in plans.values() if cell.rounds >= plans["auto"].rounds), key=lambda cell: cell.ratio)


def local_to_better(plans: Mapping[str, Cell]) -> float:
    """Return the time of local, divided by that of the better one of stock and bypass."""
    return plans["local"].ratio / min(1.0, plans["bypass"].ratio)


def may_be(at: At) -> float:
    """Return the limit of auto / stock."""
    return 1.1 if at[3] == TINY else 1.05


BEST_MAY_BE = 1.1


def local_may_be(at: At) -> float:
    """Return the limit of local / min(stock, bypass)."""
    if at[2] in DECLARATIVE:
        return 1.1
    return 1.05 if at[3] == "z=0.8" else 1.0


@dataclass(frozen=True)
class Promise:
    """A statement that the benchmark has to confirm."""

    what: str
    wanted: str
    found: str
    holds: bool


def at_most(
    what: str, cells: Compared, ratio: Ratio, limit: Callable[[At], float], error: Ratio | None = None
) -> Promise:
    """Promise that no ratio is above its limit. More than two standard errors above it are more than chance."""
    ratios = {at: ratio(plans) for at, plans in cells.items()}
    above = [at for at in ratios if ratios[at] > limit(at)]
    worst = max(ratios, key=lambda at: ratios[at] / limit(at))
    limits = " or ".join(f"{value:g}" for value in sorted({limit(at) for at in ratios}))
    mean = geometric_mean(ratios.values())
    found = (
        f"mean {mean:.2f}, worst {ratios[worst]:.2f} ({worst[2]}, {worst[3]}), above in {len(above)} of {len(ratios)}"
    )
    if above and error:
        found += f", in {sum(ratios[at] - 2 * error(cells[at]) > limit(at) for at in above)} by more than chance"
    return Promise(what, f"≤ {limits}", found, not above)


def at_least(what: str, found: float, wanted: float, where: str = "") -> Promise:
    return Promise(what, f"≥ {wanted:g}", f"{found:.2f}{where}", found >= wanted)


def with_plans(cells: Compared, *plans: str) -> Compared:
    return {at: found for at, found in cells.items() if set(plans) <= set(found)}


def timed(cells: Compared) -> Compared:
    """Return the cells whose times count. In the part `cluster`, tasks are cut for more cores than there are."""
    return {at: plans for at, plans in cells.items() if at[0] != "cluster"}


def promises_of_cells(cells: Compared) -> list[Promise]:
    promises = []
    known = with_plans(cells, "stock", "auto")
    for part in dict.fromkeys(at[0] for at in timed(known)):
        in_part = of_part(known, part)
        promises.append(at_most(f"auto / stock ({part})", in_part, to_stock, may_be, error_to_stock))
        promises.append(at_most(f"auto / best plan ({part})", in_part, to_best, lambda _: BEST_MAY_BE))
    if million := of_part(known, "million"):
        faster = [1 / to_stock(plans) for plans in million.values()]
        promises.append(at_least("stock / auto, 10⁶ keys, z = 0.8: geometric mean", geometric_mean(faster), 1.7))
        promises.append(at_least("stock / auto, 10⁶ keys, z = 0.8: least", min(faster), 1.2))
    if cluster := with_plans(of_part(known, "cluster"), "bypass"):
        shorter = {at: of_makespans(plans, "bypass", "auto") for at, plans in cluster.items()}
        least = min(shorter, key=shorter.__getitem__)
        where = f" ({least[2]}, {least[3]})"
        promises.append(at_least("makespan on 128 cores, bypass / auto: least", shorter[least], 5, where))
        promises.append(
            at_most(
                "makespan on 128 cores, auto / stock",
                cluster,
                lambda plans: of_makespans(plans, "auto", "stock"),
                lambda _: 1.0,
            )
        )
    if local := with_plans(of_part(cells, "local"), "stock", "bypass", "local"):
        promises.append(at_most("local / min(stock, bypass)", local, local_to_better, local_may_be))
    return promises


def of_makespans(plans: Mapping[str, Cell], plan: str, other: str, cores: int = 128) -> float:
    """Return one plan's makespan, divided by another's."""
    return ms(plans[plan], cores) / max(1, ms(plans[other], cores))


def ms(cell: Cell, cores: int) -> int:
    makespan: int = getattr(cell, f"makespan_{cores}_ms")
    return makespan


def promises_of_waiting(rows: Sequence[Mapping[str, str]]) -> list[Promise]:
    rates = throughputs(rows)
    promises = []
    for z in rates:
        for ours in ("dchoices", "wchoices"):
            promises.append(
                at_least(f"1 ms a row, z = {z}: {ours} / shuffle", rates[z][ours] / rates[z]["shuffle"], 0.95)
            )
    for ours in ("dchoices", "wchoices"):
        for other, wanted in (("pkg", 10), ("hash", 20)):
            if "2.0" in rates:
                what = f"1 ms a row, z = 2.0: {ours} / {other}"
                promises.append(at_least(what, rates["2.0"][ours] / rates["2.0"][other], wanted))
    return promises


def throughputs(rows: Sequence[Mapping[str, str]]) -> dict[str, dict[str, float]]:
    """Return rows per second, by z and strategy."""
    rates: dict[str, dict[str, float]] = {}
    for row in rows:
        rates.setdefault(row["z"], {})[row["strategy"]] = float(row["rows_a_second"])
    return rates


def promises_of_planning(rows: Sequence[Mapping[str, str]]) -> list[Promise]:
    stock = {row["query"]: float(row["milliseconds"]) for row in rows if row["side"] == "stock"}
    return [
        Promise(f"planning, plugin {row['side']}: {row['query']}", "≤ 1 ms more", f"{more:+.2f} ms", more <= 1)
        for row in rows
        if row["side"] != "stock"
        for more in [float(row["milliseconds"]) - stock[row["query"]]]
    ]


def rows_of(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def promise_table(promises: Sequence[Promise]) -> list[str]:
    rows = [(p.what, p.wanted, p.found, "yes" if p.holds else "**no**") for p in promises]
    return markdown(["what", "wanted", "measured", "holds"], rows)


def table_page(
    cells: Compared, promises: Sequence[Promise], shown: Sequence[str], waiting: Path, planning: Path
) -> list[str]:
    """Return table.md: the promises, the figures, then every cell."""
    lines = [
        "# What the benchmarks measured",
        "",
        "Made by `python benchmarks/tables.py`.",
        "",
        *promise_table(promises),
        *(line for figure in shown for line in ("", figure)),
    ]
    for part in dict.fromkeys(at[0] for at in cells):
        in_part = of_part(cells, part)
        some = next(iter(next(iter(in_part.values())).values()))
        plans = [
            plan for plan in dict.fromkeys(plan for found in in_part.values() for plan in found) if plan != "stock"
        ]
        lines += ["", f"## {part}", ""]
        lines += [
            f"`{COMMANDS[part]}`: {some.rows:,} rows, Spark {some.spark}. Times as a multiple of stock's.",
            "",
        ]
        lines += markdown(
            ["kind", "skew", "stock s", *plans, "auto did"],
            (
                [
                    at[2],
                    at[3],
                    f"{found['stock'].seconds:.2f}",
                    *(f"{found[plan].ratio:.2f}" if plan in found else "–" for plan in plans),
                    found["auto"].did if "auto" in found else "–",
                ]
                for at, found in in_part.items()
            ),
        )
    if cluster := of_part(cells, "cluster"):
        lines += ["", "### Makespans on 8, 32, 128 and 512 cores, in ms", ""]
        plans = list(dict.fromkeys(plan for found in cluster.values() for plan in found))
        lines += markdown(
            ["kind", "skew", *plans],
            (
                [at[2], at[3], *(", ".join(f"{ms(found[plan], cores):,}" for cores in CORES) for plan in plans)]
                for at, found in cluster.items()
            ),
        )
    if waiting.exists():
        lines += ["", "## Rows that wait", "", "`python benchmarks/waiting.py`, 80 workers, 1 ms a row:", ""]
        lines += waiting_table(waiting)
    if planning.exists():
        rows = [(row["query"], row["side"], f"{float(row['milliseconds']):.2f}") for row in rows_of(planning)]
        lines += [
            "",
            "## Planning",
            "",
            "`python benchmarks/planning.py`:",
            "",
            *markdown(["query", "plugin", "ms"], rows),
        ]
    return lines


def waiting_table(path: Path) -> list[str]:
    """Return a table of rows per second, with a row per z."""
    rates = throughputs(rows_of(path))
    strategies = list(dict.fromkeys(strategy for found in rates.values() for strategy in found))
    return markdown(
        ["z", *(f"{strategy}, rows/s" for strategy in strategies)],
        ([z, *(f"{found[strategy]:,.0f}" for strategy in strategies)] for z, found in rates.items()),
    )


def losses_page(cells: Compared, promises: Sequence[Promise], combine: Path) -> list[str]:
    """Return WHERE_WE_LOSE.md: every cell above a limit, and every query of combine.csv."""
    known = timed(with_plans(cells, "stock", "auto"))
    lines = [
        "# Where we lose",
        "",
        "`python benchmarks/tables.py` makes this page from `results/`. If auto did the same as stock Spark, the plan",
        "is Spark's own. Then a longer time comes from planning, or it is noise.",
        "",
    ]
    broken = [promise for promise in promises if not promise.holds]
    lines += ["## Promises that do not hold", "", *(promise_table(broken) if broken else ["None."]), ""]
    lines += ["## auto / stock > 1.05 (tiny inputs: > 1.1)", ""]
    lines += loss_table(known, to_stock, may_be, error_to_stock)
    lines += ["", f"## auto / best plan > {BEST_MAY_BE}", ""]
    lines += loss_table(known, to_best, lambda _: BEST_MAY_BE)
    local = timed(with_plans(cells, "stock", "bypass", "local"))
    lines += ["", "## local / min(stock, bypass) > 1.05", ""]
    lines += loss_table(local, local_to_better, lambda _: 1.05)
    if pairs := rows_of(combine):
        lines += ["", "## Where Combine cannot win", ""]
        lines += [
            "The other side is a bypass (raw) or stock Spark. `python benchmarks/combine.py` says what each query is.",
            "",
        ]
        lines += pairs_table(pairs)
    return lines


def loss_table(cells: Compared, ratio: Ratio, limit: Callable[[At], float], error: Ratio | None = None) -> list[str]:
    above = sorted((at for at in cells if ratio(cells[at]) > limit(at)), key=lambda at: -ratio(cells[at]))
    if not above:
        return [f"None of {len(cells)} cells."]

    def row(at: At) -> list[str]:
        plans = cells[at]
        best = best_of(plans)
        return [
            at[0],
            at[2],
            at[3],
            f"**{ratio(plans):.2f}**" + (f" ± {error(plans):.2f}" if error else ""),
            f"{plans['stock'].seconds:.2f}",
            f"{best.plan} {best.ratio:.2f}",
            plans["auto"].did if "auto" in plans else "–",
        ]

    heads = ["part", "kind", "skew", "ratio", "stock s", "best plan / stock", "auto did"]
    return [f"{len(above)} of {len(cells)} cells.", "", *markdown(heads, map(row, above))]


def pairs_table(pairs: Iterable[Mapping[str, str]]) -> list[str]:
    """Return a table of the pairs of a CSV file, the slowest first."""
    rows = [
        [
            pair["query"],
            f"{float(pair['ratio']):.2f} ± {float(pair['error']):.2f}",
            f"{float(pair['stock_seconds']):.2f}",
            pair["did"],
        ]
        for pair in sorted(pairs, key=lambda pair: -float(pair["ratio"]))
    ]
    return markdown(["query", "ratio", "other s", "auto did"], rows)


def figures(cells: Compared, waiting: Path) -> Iterator[tuple[str, str, Figure]]:
    """Yield the figures, each with its file name and the command that measured it."""
    if known := with_plans(of_part(cells, "grid"), "stock", "auto"):
        yield "auto_to_stock.svg", COMMANDS["grid"], heat_map("auto / stock", known, to_stock)
        yield "auto_to_best.svg", COMMANDS["grid"], heat_map("auto / best plan", known, to_best)
    if local := with_plans(of_part(cells, "local"), "stock", "bypass", "local"):
        figure = heat_map("local / min(stock, bypass)", local, local_to_better)
        yield "local_to_better.svg", COMMANDS["local"], figure
    if cluster := of_part(cells, "cluster"):
        yield "makespans.svg", COMMANDS["cluster"], makespan_lines(cluster)
    if waiting.exists():
        yield "waiting.svg", "python benchmarks/waiting.py", waiting_bars(throughputs(rows_of(waiting)))


def save(folder: Path, name: str, command: str, figure: Figure) -> str:
    """Write a figure with its commands under it; return the Markdown line that shows it."""
    figure.supxlabel(f"{command}; python benchmarks/tables.py", fontsize=7, color="#777777")
    figure.savefig(folder / name, metadata={"Date": None})
    return f"![{name.removesuffix('.svg').replace('_', ' ')}]({name})"


def heat_map(title: str, cells: Compared, ratio: Ratio) -> Figure:
    """Draw kinds by skews: blue if the ratio is below 1, red above."""
    kinds = list(dict.fromkeys(at[2] for at in cells))
    skews = list(dict.fromkeys(at[3] for at in cells))
    ratios = {at[2:]: ratio(plans) for at, plans in cells.items()}
    figure = Figure(figsize=(2.2 + 0.85 * len(skews), 1.2 + 0.34 * len(kinds)), layout="constrained")
    axes = figure.subplots()
    values = [[ratios.get((kind, skew), nan) for skew in skews] for kind in kinds]
    axes.imshow(values, cmap="RdBu_r", norm=TwoSlopeNorm(1.0, 0.4, 1.6), aspect="auto")
    for y, line in enumerate(values):
        for x, value in enumerate(line):
            if not isnan(value):
                axes.text(
                    x, y, f"{value:.2f}", ha="center", va="center", color="white" if abs(value - 1) > 0.4 else "black"
                )
    axes.set_xticks(range(len(skews)), skews)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_title(title, loc="left")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return figure


def makespan_lines(cells: Compared) -> Figure:
    """Draw a panel per kind and skew: makespan by cores, one line per plan."""
    kinds = list(dict.fromkeys(at[2] for at in cells))
    skews = list(dict.fromkeys(at[3] for at in cells))
    figure = Figure(figsize=(1 + 2.4 * len(kinds), 0.8 + 2.0 * len(skews)), layout="constrained")
    panels = figure.subplots(len(skews), len(kinds), sharex=True, sharey=True, squeeze=False)
    for at, plans in cells.items():
        axes = panels[skews.index(at[3])][kinds.index(at[2])]
        for plan, cell in plans.items():
            axes.plot(CORES, [ms(cell, cores) for cores in CORES], marker="o", markersize=3, label=plan)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(CORES, [str(cores) for cores in CORES])
        axes.set_title(f"{at[2]}, {at[3]}", fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].legend(fontsize=6)
    for axes in panels[-1]:
        axes.set_xlabel("cores")
    for row in panels:
        row[0].set_ylabel("makespan, ms")
    return figure


def waiting_bars(rates: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw rows per second by z, one bar per strategy."""
    strategies = list(next(iter(rates.values())))
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(strategies)
    for i, strategy in enumerate(strategies):
        axes.bar(
            [x + i * width for x in range(len(rates))], [rates[z][strategy] for z in rates], width * 0.9, label=strategy
        )
    axes.set_xticks([x + 0.4 - width / 2 for x in range(len(rates))], [f"z = {z}" for z in rates])
    axes.set_yscale("log")
    axes.set_ylabel("rows a second of 80 workers")
    axes.legend(fontsize=7, ncols=len(strategies), loc="upper center", bbox_to_anchor=(0.5, 1.14), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def doubtful(cells: Iterable[Cell]) -> set[At]:
    """Return the cells where auto was slower than its limit."""
    known = timed(with_plans(compared(cells), "stock", "auto"))
    return {at for at, plans in known.items() if to_stock(plans) > may_be(at) or to_best(plans) > BEST_MAY_BE}


def summary(cells: Iterable[Cell]) -> str:
    """Return the promises about these cells, one per line."""
    promises = promises_of_cells(compared(cells))
    return "\n".join(f"{p.what} {p.wanted}: {p.found}" + ("" if p.holds else "  <-- no") for p in promises)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
