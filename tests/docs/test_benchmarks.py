"""What the benchmarks compute from what they measured: makespans, files that can be resumed, tables."""

from __future__ import annotations

import csv
import doctest
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltwise.advise.schedule import makespan

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
FIGURES = {
    "bytes_shuffled": 100,
    "records_shuffled": 10,
    "states_shuffled": 5,
    "largest_task_ms": 30,
    "peak_memory": 1 << 20,
    "makespan_8_ms": 80,
    "makespan_32_ms": 40,
    "makespan_128_ms": 20,
    "makespan_512_ms": 10,
}
AT = ("grid", 1000, "median", "z=0.8")

sys.path.insert(0, str(FOLDER))
cells: ModuleType = import_module("cells")
measure: ModuleType = import_module("measure")
tables: ModuleType = import_module("tables")
front_page: ModuleType = import_module("front_page")
sys.path.remove(str(FOLDER))


def cell(plan: str, ratio: float = 1.0, at: tuple[str, int, str, str] = AT, **others: Any) -> Any:
    part, rows, kind, skew = at
    named = (
        {"did": "stock", "rounds": 3, "error": 0.01, "seconds": 2 * ratio, "spark": "4.3.0", "plugin": "abc"}
        | FIGURES
        | others
    )
    return cells.Cell(part=part, rows=rows, kind=kind, skew=skew, plan=plan, ratio=ratio, **named)


@pytest.fixture
def kept(tmp_path: Path) -> Any:
    """A file of the plans stock and auto of one cell."""
    found = cells.Cells(tmp_path / "results" / "grid.csv")
    found.add([cell("stock"), cell("auto", 0.5)])
    return found


TASKS = st.lists(st.integers(0, 10_000), max_size=50)


@given(TASKS, st.integers(1, 20))
def test_each_task_starts_on_the_core_that_is_free_first(tasks: list[int], cores: int) -> None:
    free = [0] * cores
    for milliseconds in tasks:
        free[free.index(min(free))] += milliseconds
    assert makespan(tasks, cores) == max(free) / 1000


@given(TASKS, st.integers(1, 20))
def test_a_makespan_keeps_grahams_bounds(tasks: list[int], cores: int) -> None:
    # In whole numbers: times the cores.
    longest, span = cores * max(tasks, default=0), cores * round(1000 * makespan(tasks, cores))
    assert max(longest, sum(tasks)) <= span <= sum(tasks) + longest - max(tasks, default=0)


def test_tasks_keep_their_order() -> None:
    assert makespan([1000, 1000, 4000], cores=2) == 5
    assert makespan([4000, 1000, 1000], cores=2) == 4


def test_no_task_of_a_stage_starts_before_the_stage_below_has_ended() -> None:
    assert cells.makespans([[10, 1, 1], [1, 1, 10]]) == {f"makespan_{n}_ms": 20 for n in (8, 32, 128, 512)}


@pytest.mark.parametrize("module", [cells, front_page], ids=["cells", "front_page"])
def test_the_examples_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 0


def test_the_first_pages_show_the_committed_figures() -> None:
    for page, text in front_page.pages().items():
        assert page.read_text() == text, "run python benchmarks/front_page.py"


def test_what_was_measured_is_read_back(kept: Any) -> None:
    assert cells.Cells(kept.path).all == [cell("stock"), cell("auto", 0.5)]


def test_a_resumed_run_measures_only_what_is_missing(kept: Any) -> None:
    resumed = cells.Cells(kept.path)
    assert resumed.has(AT, ["stock", "auto"], 3, "abc")
    assert not resumed.has(AT, ["stock", "auto", "split"], 3, "abc")
    assert not resumed.has(("grid", 1000, "median", "z=1.2"), ["stock"], 3, "abc")


def test_a_cell_of_fewer_rounds_or_of_another_plugin_is_missing(kept: Any) -> None:
    assert not kept.has(AT, ["stock"], 4, "abc")
    assert not kept.has(AT, ["stock"], 3, "def")


def test_a_cell_that_is_measured_again_replaces_all_its_plans(kept: Any) -> None:
    other = ("grid", 1000, "median", "z=1.2")
    kept.add([cell("stock", at=other)])
    kept.add([cell("stock", seconds=9.0)])
    assert cells.Cells(kept.path).all == [cell("stock", at=other), cell("stock", seconds=9.0)]


def test_a_fresh_run_forgets_once_it_has_measured(kept: Any) -> None:
    fresh = cells.Cells(kept.path, fresh=True)
    assert len(cells.Cells(kept.path).all) == 2
    fresh.add([cell("bypass")])
    assert cells.Cells(kept.path).all == [cell("bypass")]


def test_an_interrupted_write_leaves_the_file_of_before(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kept.path.read_bytes()

    def interrupted(cell: Any) -> Iterator[Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(cells, "asdict", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kept.add([cell("bypass")])
    assert kept.path.read_bytes() == before


def test_a_file_of_another_version_is_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "grid.csv"
    path.write_text("kind,skew\nmedian,z=0.8\n")
    with pytest.raises(ValueError, match="other columns") as refusal:
        cells.Cells(path)
    assert str(refusal.value) == f"{path} has other columns than cells of this version: measure anew, with --fresh."


def plan(*operators: tuple[str, Mapping[str, str | None]]) -> dict[int, Any]:
    """A plan of one child each, top to bottom."""
    return {i: measure.Node(*named, [i + 1] if i + 1 < len(operators) else []) for i, named in enumerate(operators)}


EXCHANGE = ("Exchange", {"shuffle records written": "1,234"})


def test_what_an_aggregate_sends_is_states() -> None:
    nodes = plan(("HashAggregate", {}), EXCHANGE, ("AQEShuffleRead", {}), ("ObjectHashAggregate", {}), ("Scan", {}))
    assert measure.states_shuffled(nodes) == 1234


def test_raw_rows_are_no_states() -> None:
    rows = ("Exchange", {"shuffle records written": "9,999"})
    assert measure.states_shuffled(plan(("HashAggregate", {}), rows, ("Scan", {}))) == 0
    assert measure.states_shuffled(plan(EXCHANGE, ("HashAggregate", {}), rows, ("SkewRoute", {}))) == 1234


def test_combine_sends_rows_and_counts_its_states() -> None:
    assert measure.states_shuffled(plan(EXCHANGE, ("Combine", {"states sent": "17"}), ("Scan", {}))) == 17


def test_an_exchange_that_did_not_run_sent_nothing() -> None:
    unseen: tuple[str, dict[str, str | None]] = ("Exchange", {"shuffle records written": None})
    assert measure.states_shuffled(plan(unseen, ("HashAggregate", {}))) == 0


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("SlicedPartitions", "sliced"), ("SkewRoute", "online"), ("SkewLeftAlone", "stock"), ("WholePartitions", "stock")],
)
def test_what_auto_did_is_seen_in_the_plan(operator: str, expected: str) -> None:
    assert measure.did(plan(("HashAggregate", {}), (operator, {}), ("Scan", {}))) == expected


def test_combine_did_what_it_did_with_most_rows() -> None:
    rows = {
        "rows taken as all": "2,048",
        "rows taken as head": "8,192",
        "rows taken as raw": "989,760",
    }
    assert measure.did(plan(("Combine", rows), ("Scan", {}))) == "raw"
    assert measure.did(plan(("SlicedPartitions", {}), ("Combine", rows), ("Scan", {}))) == "raw sliced"


def compared(*found: Any) -> Any:
    return tables.compared(found)


def test_a_ratio_above_its_limit_is_a_promise_broken() -> None:
    tiny = ("grid", 1000, "median", "10^4 rows")
    grid = compared(cell("stock"), cell("auto", 1.08), cell("stock", at=tiny), cell("auto", 1.08, at=tiny))
    stock, best = tables.promises_of_cells(grid)
    assert stock == tables.Promise(
        "auto / stock (grid)",
        "≤ 1.05 or 1.1",
        "mean 1.08, worst 1.08 (median, z=0.8), above in 1 of 2, in 1 by more than chance",
        False,
    )
    assert best.holds


def test_a_ratio_within_two_standard_errors_of_its_limit_may_be_chance() -> None:
    grid = compared(cell("stock"), cell("auto", 1.08, error=0.02))
    stock, _ = tables.promises_of_cells(grid)
    assert (stock.found, stock.holds) == (
        "mean 1.08, worst 1.08 (median, z=0.8), above in 1 of 1, in 0 by more than chance",
        False,
    )
    assert "**1.08** ± 0.02" in tables.loss_table(grid, tables.to_stock, tables.may_be, tables.error_to_stock)[-1]


def test_the_best_plan_may_be_any() -> None:
    grid = compared(cell("stock"), cell("auto", 0.9), cell("salted", 0.6))
    assert [promise.holds for promise in tables.promises_of_cells(grid)] == [True, False]
    assert tables.doubtful([cell("stock"), cell("auto", 0.9), cell("salted", 0.6)]) == {AT}


def test_a_plan_that_was_slower_than_auto_and_went_no_further_is_not_the_best() -> None:
    grid = compared(cell("stock"), cell("auto", 0.9), cell("salted", 0.6, rounds=1))
    assert [promise.holds for promise in tables.promises_of_cells(grid)] == [True, True]


def test_local_is_compared_with_the_better_of_stock_and_bypass() -> None:
    plans = {"stock": cell("stock"), "bypass": cell("bypass", 0.8), "local": cell("local", 0.9)}
    assert tables.local_to_better(plans) == pytest.approx(1.125)
    plans["bypass"] = cell("bypass", 1.5)
    assert tables.local_to_better(plans) == pytest.approx(0.9)


def test_makespans_are_compared_on_128_cores() -> None:
    at = ("cluster", 1000, "median", "z=1.6")
    of = [cell(plan, at=at, makespan_128_ms=ms) for plan, ms in (("stock", 20), ("bypass", 90), ("auto", 20))]
    shorter, to_stock = tables.promises_of_cells(compared(*of))
    assert (shorter.found, shorter.holds) == ("4.50 (median, z=1.6)", False)
    assert to_stock.holds


def test_throughputs_of_the_waiting_rows() -> None:
    waiting = [
        {"z": "2.0", "strategy": name, "rows_a_second": str(rate)}
        for name, rate in (
            ("shuffle", 80_000),
            ("hash", 1_600),
            ("pkg", 3_200),
            ("dchoices", 72_000),
            ("wchoices", 80_000),
        )
    ]
    assert {promise.what: promise.holds for promise in tables.promises_of_waiting(waiting)} == {
        "1 ms a row, z = 2.0: dchoices / shuffle": False,
        "1 ms a row, z = 2.0: wchoices / shuffle": True,
        "1 ms a row, z = 2.0: dchoices / pkg": True,
        "1 ms a row, z = 2.0: dchoices / hash": True,
        "1 ms a row, z = 2.0: wchoices / pkg": True,
        "1 ms a row, z = 2.0: wchoices / hash": True,
    }


def test_planning_is_compared_with_stock_sparks() -> None:
    planning = [{"query": "q", "side": side, "milliseconds": ms} for side, ms in (("stock", "5"), ("off", "7.5"))]
    assert tables.promises_of_planning(planning) == [
        tables.Promise("planning, plugin off: q", "≤ 1 ms more", "+2.50 ms", False)
    ]


def test_a_page_says_where_we_lose() -> None:
    grid = compared(cell("stock"), cell("auto", 1.2, did="local"), cell("bypass", 0.8))
    lines = tables.loss_table(grid, tables.to_stock, tables.may_be)
    assert lines == [
        "1 of 1 cells.",
        "",
        "| part | kind | skew | ratio | stock s | best plan / stock | auto did |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| grid | median | z=0.8 | **1.20** | 2.00 | bypass 0.80 | local |",
    ]
    assert tables.loss_table(compared(cell("stock"), cell("auto")), tables.to_stock, tables.may_be) == [
        "None of 1 cells."
    ]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """All that is measured, each of it once."""
    folder = tmp_path / "results"
    plans = ("stock", "bypass", "local", "auto")
    parts = [
        (part, 1000, "median", skew) for part in ("grid", "million", "local", "cluster") for skew in ("z=0.8", "z=1.6")
    ]
    found = cells.Cells(folder / "grid.csv")
    for at in parts:
        found.add([cell(plan, at=at) for plan in plans])
    waiting = [("z", "strategy", "rows_a_second")]
    waiting += [("2.0", name, "1000") for name in ("shuffle", "hash", "pkg", "dchoices", "wchoices")]
    planning = [("query", "side", "milliseconds"), ("q", "stock", "5"), ("q", "off", "6"), ("q", "on", "6")]
    combine = [("query", "ratio", "error", "stock_seconds", "did")]
    combine += [("all median", "0.871", "0.013", "2.79", "raw"), ("wide 1 KB", "1.049", "0.05", "0.51", "all")]
    for name, rows in (("waiting", waiting), ("planning", planning), ("combine", combine)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    return folder


def test_tables_and_figures_are_made_of_what_was_measured(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables.main(results)
    page = (results / "table.md").read_text()
    assert "| median | z=0.8 | 2.00 | 1.00 | 1.00 | 1.00 | stock |" in page
    assert "| 2.0 | 1,000 | 1,000 | 1,000 | 1,000 | 1,000 |" in page
    assert "| q | on | 6.00 |" in page
    assert "stock / auto, 10⁶ keys, z = 0.8: least | ≥ 1.2 | 1.00 | **no** |" in page
    losses = (results.parent / "WHERE_WE_LOSE.md").read_text()
    assert "stock / auto, 10⁶ keys" in losses
    assert "auto / stock (grid)" not in losses
    assert losses.endswith("| wide 1 KB | 1.05 ± 0.05 | 0.51 | all |\n| all median | 0.87 ± 0.01 | 2.79 | raw |\n")
    assert "auto / stock (grid)" in capsys.readouterr().out
    figures = {
        "auto_to_stock.svg": "benchmarks/grid.py --parts grid",
        "auto_to_best.svg": "benchmarks/grid.py --parts grid",
        "local_to_better.svg": "benchmarks/grid.py --parts local",
        "makespans.svg": "benchmarks/grid.py --parts cluster",
        "waiting.svg": "benchmarks/waiting.py",
    }
    assert {path.name for path in results.glob("*.svg")} == set(figures)
    for name, command in figures.items():
        assert command in (results / name).read_text()
        assert f"]({name})" in page


def test_what_was_not_measured_is_left_out(tmp_path: Path) -> None:
    tables.main(tmp_path)
    assert not list(tmp_path.glob("*.svg"))
    assert "## " not in (tmp_path / "table.md").read_text()
