"""Writes the page of the papers' claims, docs/reference/claims.md, and the tables of docs/papers, from results.

    python benchmarks/claims.py

Simulations: results/papers (`make papers`, which continues where it was interrupted). Spark:
results/waiting.csv, periods.csv and papers_on_spark.csv, each from the benchmark of its name.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from common import RESULTS, console
from papers import EXPERIMENTS, FULL, PAPERS, kept_claims
from papers.experiment import Claim, Claims
from papers.lab import SCHEMES
from papers.over_seeds import over_seeds
from papers.page import page, table
from waiting import N as WORKERS

DOCS = Path(__file__).parent.parent / "docs" / "reference"
OWN_LIMIT = "The papers' Storm was near the limit of its machines whatever the scheme; here workers are the only limit."
BATCH = (
    "By section 5.2 the latency is mainly what tuples wait in buffers while state moves; most take less than 1.89 ms. "
    "Spark moves state between batches, a partition of this size in about 20 ms (figure 9 of the MILP's paper), and "
    "here a tuple waits two seconds in the mean for those before it in its batch, whatever the scheme."
)
MADE_BY = (
    "Made by `python benchmarks/claims.py` from committed results: simulations by `make papers`, "
    "an hour and a half for each seed on one core; and on Spark "
    "`python benchmarks/waiting.py`, `periods.py` and `papers_on_spark.py`."
)
NO_RESULTS = "it has no results in full size yet."

HEADLINES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "partial-key-grouping": (("pkg-table2", "pkg-fig7"), ("pkg",)),
    "when-two-choices": (("dchoices-fig1", "dchoices-fig10"), ("dchoices",)),
    "partitioning-functions": (("gedik-fig4", "gedik-fig6"), ()),
    "stateful-load-balancing": (("elb-fig3", "elb-fig4"), ("elb",)),
    "reconfiguration": (("milp-fig2", "milp-fig5", "albic-fig10"), ("milp",)),
}
"""Of each page in docs/papers: the experiments that it shows, and the papers whose claims Spark judged."""

Rows = Sequence[dict[str, str]]


def main() -> None:
    kept = kept_claims(RESULTS / "papers")
    found = {experiment: over_seeds(claims) for experiment, claims in kept.items()}
    on_spark = {paper: judge(rows) for paper, (name, judge) in ON_SPARK.items() if (rows := rows_of(RESULTS / name))}
    still = {
        paper: [
            claim for claim in module.NEEDS_A_CLUSTER if claim.says not in {c.says for c in on_spark.get(paper, ())}
        ]
        for paper, module in PAPERS.items()
    }
    pictures = DOCS / "claims"
    headlines = RESULTS / "claims"
    for folder in (pictures, headlines):
        folder.mkdir(exist_ok=True)
    for experiment in found:
        shutil.copyfile(RESULTS / "papers" / f"{experiment.name}.png", pictures / f"{experiment.name}.png")
    missing = {experiment: NO_RESULTS for experiment in EXPERIMENTS.values() if experiment not in found}
    seeds = min(map(len, kept.values()))
    text = page(found, missing, still, FULL.messages, on_spark, "claims/", seeds, MADE_BY)
    (DOCS / "claims.md").write_text(text, encoding="utf-8")
    for name, (experiments, ran) in HEADLINES.items():
        parts = [
            f"### {experiment.title}\n\n![{experiment.title}](../reference/claims/{experiment.name}.png)\n\n"
            + table(claims, "simulation")
            for experiment, claims in found.items()
            if experiment.name in experiments
        ]
        parts += ["### On Spark\n\n" + table(on_spark[paper], "Spark") for paper in ran if paper in on_spark]
        (headlines / f"{name}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    console.print(text.split("\n\n")[2], soft_wrap=True)


def rows_of(path: Path) -> Rows:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def dchoices(rows: Rows) -> list[Claim]:
    """Figures 13 and 14."""

    def by_skew(column: str) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for row in rows:
            found.setdefault(row["z"], {})[row["strategy"]] = float(row[column])
        return found

    def ratios(column: str, one: str, other: str) -> list[float]:
        return [found[one] / found[other] for found in by_skew(column).values()]

    ours = ("dchoices", "wchoices")
    rates = by_skew("rows_a_second")
    to_sg = {scheme: ratios("rows_a_second", scheme, "shuffle") for scheme in ours}
    over = 1 / min(to_sg["dchoices"]) - 1
    papers_rate = float(rows[0]["papers_rate"])
    to_pkg, to_kg = (
        max(ratio for scheme in ours for ratio in ratios("rows_a_second", scheme, other)) for other in ("pkg", "hash")
    )
    claims = Claims("Q4, figure 13")
    claims.add(
        "KG has the lowest throughput; PKG has more, but less than SG",
        "; ".join(
            f"z = {z}: {r['hash']:,.0f}, {r['pkg']:,.0f} and {r['shuffle']:,.0f} rows/s" for z, r in rates.items()
        ),
        all(r["hash"] < r["pkg"] < r["shuffle"] for r in rates.values()),
    )
    claims.add(
        "D-C and W-C match the throughput of SG",
        "times SG's: "
        + "; ".join(f"{SCHEMES[scheme]} {', '.join(f'{r:.2f}' for r in each)}" for scheme, each in to_sg.items()),
        min(map(min, to_sg.values())) > 0.95,
        f"D-C's fullest worker has up to {over / WORKERS:.1e} of the rows more than the "
        f"mean, as in the simulation of figure 10: of {WORKERS} workers, that is {over:.0%} of its load. In the paper "
        f"this cannot show: SG's throughput of 2.3 times KG's is {papers_rate:,.0f} rows/s, for which its workers are "
        f"busy {papers_rate / 1000 / WORKERS:.0%} of the time, and which D-C and W-C take as well.",
    )
    claims.add(
        "D-C and W-C have up to 1.5 times PKG's throughput, 2.3 times KG's",
        f"up to {to_pkg:.1f} times PKG's, {to_kg:.1f} times KG's",
        to_pkg >= 1.5 and to_kg >= 2.3,
        note=OWN_LIMIT,
    )
    worst, tail = by_skew("worst_worker_ms"), by_skew("p99_ms")
    last = max(worst, key=float)
    half = worst[last]["pkg"] / worst[last]["hash"]
    papers_worst = by_skew("papers_worst_worker_ms")[last]
    late = Claims("Q4, figure 14")
    late.add(
        "KG's latency is very high under high skew, PKG's is about half of it",
        f"at z = {last} the worst has {worst[last]['hash'] / 1000:,.0f} s with KG, {half:.2f} times it with PKG, "
        f"{worst[last]['shuffle']:.0f} ms with SG",
        0.3 < half < 0.7,
        note="Of a stream that 95 % of all workers could take, with queues that have no limit. Of "
        f"{papers_rate:,.0f} rows/s it is {papers_worst['pkg'] / papers_worst['hash']:.2f} times.",
    )
    close = {scheme: max(ratios("p99_ms", scheme, "shuffle")) for scheme in ours}
    papers_tail = by_skew("papers_p99_ms").values()
    papers_p99 = {scheme: max(ms[scheme] for ms in papers_tail) for scheme in (*ours, "shuffle")}
    late.add(
        "D-C's and W-C's latency is very close to SG's",
        f"the 99th percentile is at most {close['dchoices']:.0f} times SG's with D-C, {close['wchoices']:.2f} times "
        "with W-C",
        max(close.values()) < 2,
        f"In a stream that 95 % of all workers can take, the queue of a worker with {over:.0%} more rows grows to the "
        f"end. Of {papers_rate:,.0f} rows/s it is at most {papers_p99['dchoices']:.1f} ms with D-C, "
        f"{papers_p99['wchoices']:.1f} ms with W-C and {papers_p99['shuffle']:.1f} ms with SG, by whose turns "
        "no row waits.",
    )
    cut = {
        other: max(1 - tail[z][scheme] / tail[z][other] for z in tail for scheme in ours) for other in ("pkg", "hash")
    }
    late.add(
        "D-C and W-C cut PKG's 99th percentile by up to 60 %, KG's by over 75 %",
        f"by up to {cut['pkg']:.1%} and {cut['hash']:.1%}",
        cut["pkg"] >= 0.6 and cut["hash"] > 0.75,
        note=OWN_LIMIT,
    )
    return claims + late


def pkg(rows: Rows) -> list[Claim]:
    """Figure 10(b) and table III."""
    found = {(row["T"], row["scheme"]): row for row in rows}
    periods = list(dict.fromkeys(row["T"] for row in rows))

    def by_period(column: str, one: str, other: str) -> dict[str, float]:
        return {t: float(found[t, one][column]) / float(found[t, other][column]) for t in periods}

    def shown(ratios: dict[str, float]) -> str:
        return ", ".join(f"{ratio:.2f} for T = {t} s" for t, ratio in ratios.items())

    rate, memory = by_period("rows_a_second", "pkg", "shuffle"), by_period("counters", "pkg", "shuffle")
    to_kg, late = by_period("rows_a_second", "pkg", "hash"), by_period("mean_ms", "hash", "pkg")
    claims = Claims("Q5, figure 10(b)")
    claims.add(
        "PKG has more throughput than SG at each aggregation period",
        f"times SG's: {shown(rate)}",
        min(rate.values()) > 1,
        "SG's workers are as even, and merging its counters takes little beside a millisecond a row.",
    )
    claims.add(
        "PKG has less memory overhead than SG at each period", f"times SG's: {shown(memory)}", max(memory.values()) < 1
    )
    claims.add(
        "with aggregation periods of 30 s or more, PKG's throughput beats KG's",
        f"times KG's: {shown(to_kg)}",
        all(ratio > 1 for t, ratio in to_kg.items() if int(t) >= 30),
    )
    table = Claims("Q5, table III")
    table.add(
        "under high load, KG's latency is up to 45 % above PKG's",
        f"times PKG's: {shown(late)}",
        max(late.values()) >= 1.45,
        note="KG's hottest word, with those that share its worker, is more than that worker takes, and queues have no "
        "limit.",
    )
    return claims + table


def elb(rows: Rows) -> list[Claim]:
    """Table 2, figures 5 and 6."""
    of = {(row["scheme"], row["what"]): float(row["value"]) for row in rows if row["figures"] == "elb"}
    schemes = [scheme for scheme in dict.fromkeys(scheme for scheme, _ in of) if scheme != "stock"]
    mean = {s: of[s, "table 2: mean latency, ms"] for s in ("uhlb", "clb", "elb")}
    spread = {s: [v for (scheme, what), v in of.items() if scheme == s and "figure 5" in what] for s in schemes}
    wide = {s: max(v) - min(v) for s, v in spread.items()}
    speedup = {s: [v for (scheme, what), v in of.items() if scheme == s and "figure 6" in what] for s in schemes}
    table = Claims("5.2, table 2")
    table.add(
        "CLB's mean latency is lower by at least 17 %, ELB's by up to 50 %",
        ", ".join(f"{1 - mean[s] / mean['uhlb']:.0%} below UHLB's with {s.upper()}" for s in ("clb", "elb")),
        mean["clb"] <= 0.83 * mean["uhlb"] and mean["elb"] <= 0.83 * mean["uhlb"],
        BATCH,
    )
    five = Claims("5.2, figure 5")
    five.add(
        "latency varies more with n for UHLB and PKG than for CLB and ELB",
        ", ".join(f"by {gap:.2f} times that of one executor with {s.upper()}" for s, gap in wide.items()),
        wide["uhlb"] > max(wide["clb"], wide["elb"]),
        BATCH,
    )
    six = Claims("5.2, figure 6")
    six.add(
        "ELB's and CLB's speedup is about linear, PKG's and UHLB's is not",
        ", ".join(f"{v[-1]:.2f} on {len(v)} executors with {s.upper()}" for s, v in speedup.items()),
        min(speedup["elb"][-1], speedup["clb"][-1]) > 0.8 * len(speedup["elb"]) > speedup["uhlb"][-1],
        BATCH,
        note="One run. In another it did not hold: ELB, CLB and UHLB had 5.45, 5.47 and 5.81.",
    )
    return table + five + six


def milp(rows: Rows) -> list[Claim]:
    """Figures 6 to 9."""
    of = {(row["scheme"], row["what"]): float(row["value"]) for row in rows if row["figures"] == "milp"}
    mean, highest = "figure 6: load distance, mean, by the mean load", "figure 6: load distance, highest"
    pause, planned = "figure 9: pause a round, seconds", "figure 6: planned load distance, mean"
    limits = ("milp 4", "milp 10", "milp 100")
    six = Claims("5.2.1, figure 6")
    six.add(
        "on Real Job 1 the MILP's load distance is below 1 %, Flux's up to 7 %",
        f"planned, {of['milp 4', planned]:.1%} in the mean with the MILP, {of['flux 4', planned]:.1%} with Flux; in "
        f"the batches after, whose loads have drifted, {of['milp 4', mean]:.1%} and {of['flux 4', mean]:.1%}, at most "
        f"{of['milp 4', highest]:.1%} and {of['flux 4', highest]:.1%}",
        of["milp 4", planned] < 0.01 and of["milp 4", planned] < of["flux 4", planned],
        note="Of four executors with 25 key groups each; a key group is 1 % of the load in the mean.",
    )
    eight = Claims("5.2.2, figure 8")
    eight.add(
        "the more migrations allowed, the better the load distance",
        ", ".join(f"{of[s, planned]:.2%} planned with {s.split()[1]} a round" for s in limits),
        of[limits[0], planned] >= of[limits[1], planned] >= of[limits[2], planned],
    )
    nine = Claims("5.2.2, figure 9")
    nine.add(
        "without a limit, migrations cost very much latency; 2.5 s a key group",
        ", ".join(f"{of[s, pause]:.2f} s a round, as predicted, with a limit of {s.split()[1]}" for s in limits),
        of[limits[2], pause] > 2 * of[limits[0], pause],
    )
    return six + eight + nine


ON_SPARK: dict[str, tuple[str, Callable[[Rows], list[Claim]]]] = {
    "dchoices": ("waiting.csv", dchoices),
    "pkg": ("periods.csv", pkg),
    "elb": ("papers_on_spark.csv", elb),
    "milp": ("papers_on_spark.csv", milp),
}
"""By paper: the results, and what they say of its claims."""


if __name__ == "__main__":
    main()
