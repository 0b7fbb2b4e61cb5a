"""Puts figures from results/ on the first pages, README.md and docs/index.md: where Saltwise wins, and where it loses.

    python benchmarks/front_page.py

It writes between two comments in each page. The site's page also gets the README's table of what Saltwise helps.
Nothing here needs Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tables import RESULTS, rows_of

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
SITE = ROOT / "docs" / "index.md"
HELPS = re.compile(r"^\| your query \|.*?(?=\n\n)", re.DOTALL | re.MULTILINE)
LINKS = {"](docs/": "](", "](benchmarks/WHERE_WE_LOSE.md": "](reference/where-we-lose.md"}
"""What links of the README are on the site."""

WINS = {
    ("joins", "Zipf 1.2, avg, inner, shared"): "`avg(v)` over a join, keys of Zipf 1.2",
    ("joins", "60 %, set, inner, shared"): "`collect_set(v)` over a join, one key has 60 %",
    ("windows", "no PARTITION BY, running sum"): "`sum(v) OVER (ORDER BY x)`",
    ("windows", "60 %, row_number"): "`row_number() OVER (PARTITION BY k ORDER BY x)`, one key has 60 %",
}
"""What the table calls a cell of a file. Each has 3.2 million rows."""
HEAD = (
    "| query | Spark | Saltwise | Spark, 128 cores, computed | Saltwise, 128 cores, computed |\n|---|---|---|---|---|\n"
)


def main() -> None:
    for page, text in pages().items():
        page.write_text(text)


def pages() -> dict[Path, str]:
    """Return the texts that the pages should have."""
    figures = f"{table()}\n{loss()}\n"
    readme = with_part(README.read_text(), "figures", figures)
    found = HELPS.search(readme)
    assert found, "README.md has no table of what Saltwise helps"
    helps = found[0] + "\n"
    for ours, theirs in LINKS.items():
        helps = helps.replace(ours, theirs)
    return {README: readme, SITE: with_part(with_part(SITE.read_text(), "figures", figures), "table", helps)}


def with_part(page: str, part: str, text: str) -> str:
    """Return a page with a text between the comments of a part.

    >>> with_part("a\\n<!-- b: front_page.py -->\\nold\\n<!-- end of b -->\\n", "b", "new\\n")
    'a\\n<!-- b: front_page.py -->\\nnew\\n<!-- end of b -->\\n'
    """
    begin, end = f"<!-- {part}: front_page.py -->\n", f"<!-- end of {part} -->"
    before, rest = page.split(begin)
    return before + begin + text + end + rest.split(end)[1]


def table() -> str:
    return HEAD + "".join(row(called, cell_of(*at)) for at, called in WINS.items())


def cell_of(file: str, name: str) -> Mapping[str, str]:
    return next(row for row in rows_of(RESULTS / f"{file}.csv") if row["cell"] == name)


def row(called: str, cell: Mapping[str, str]) -> str:
    """Return a row of the table.

    >>> cell = {"stock_seconds": "2.0", "ratio": "0.5", "stock_makespan_128_ms": "400", "makespan_128": "0.1"}
    >>> row("`sum(v)`", cell)
    '| `sum(v)` | 2.0 s | 1.0 s | 0.40 s | 0.04 s |\\n'
    """
    stock, many = float(cell["stock_seconds"]), float(cell["stock_makespan_128_ms"]) / 1000
    ours, ours_many = stock * float(cell["ratio"]), many * float(cell["makespan_128"])
    return f"| {called} | {stock:.1f} s | {ours:.1f} s | {many:.2f} s | {ours_many:.2f} s |\n"


def loss() -> str:
    """Return a sentence about the cell of orders.csv where Saltwise loses most."""
    worst = max(rows_of(RESULTS / "orders.csv"), key=lambda cell: float(cell["ratio"]) - 2 * float(cell["error"]))
    order, keys, _, function, _ = worst["cell"].split(", ")
    return (
        f"It loses where nothing is skewed and rows suit Spark's sort: `{function}` over rows that come {order}, of "
        f"{int(keys):,} keys, takes {float(worst['ratio']):.2f} ± {float(worst['error']):.2f} times Spark's time.\n"
    )


if __name__ == "__main__":
    main()
