"""An explanation prints both plans side by side, without what tells a reader nothing."""

from __future__ import annotations

from saltwise.spark.reports.explain import Explanation


def test_an_explanation_prints_both_plans_side_by_side() -> None:
    stock = "== Physical Plan ==\nHashAggregate(keys=[k#1L])\n+- Exchange a\n   +- *(1) Scan [k#1L] Batched: x"
    ours = "== Physical Plan ==\nHashAggregate(keys=[k#1L])\n+- SkewRoute [k#1L], pkg, n=4\n   +- *(1) Scan"
    found = Explanation(stock, ours, "Rewritten: because.")
    lines = str(found).split("\n")
    assert [cell.strip() for cell in lines[1].strip("┃").split("┃")] == ["stock Spark", "Saltwise"]
    assert [[cell.rstrip() for cell in line.strip("│").split("│")] for line in lines[3:6]] == [
        [" HashAggregate(keys=[k])", " HashAggregate(keys=[k])"],
        [" +- Exchange a", " +- SkewRoute [k], pkg, n=4"],
        ["  +- Scan [k]", "  +- Scan"],
    ]
    assert lines[-1] == "Rewritten: because."
    assert "<pre>HashAggregate(keys=[k])\n+- Exchange a" in found._repr_html_()
    assert found._repr_html_().endswith("<p>Rewritten: because.</p>")
