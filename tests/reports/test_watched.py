"""The tab in Spark's UI, the event log, and what a session that observes reports: in an application of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from saltwise.advise.event_log import event_logs

ROOT = Path(__file__).parents[2]
ROWS = 100_000
pytestmark = pytest.mark.slow
TAB = '<a class="nav-link" href="/saltwise/">'


def watched(folder: Path, *confs: str) -> dict[str, Any]:
    options = [option for conf in confs for option in ("--conf", conf)]
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "reports" / "watched.py", folder, "--rows", str(ROWS), *options],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cells(page: str) -> list[list[str]]:
    """Return the rows of the tables of a page, as text."""
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    return [
        [
            re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", cell)).strip()
            for cell in re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL)
        ]
        for row in rows
    ]


def group_events(folder: Path) -> list[dict[str, Any]]:
    """Return our events of groups in the event log of a folder."""
    [log] = event_logs(folder)
    return [json.loads(line) for line in log.lines() if b"saltwise.report.GroupByEvent" in line]


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("events")
    return watched(folder, "spark.saltwise.report.keys=true"), folder


def test_the_tab_says_what_ran_and_what_did_not(application: tuple[dict[str, Any], Path]) -> None:
    found, _ = application
    assert TAB in found["home"]
    ran = [(row[1].split(" by ")[0], row[3]) for row in cells(found["page"]) if len(row) == 10]
    by_placement = "Spark's own plan; with mode=on: placement, if spark.saltwise.placement.enabled is true"
    assert (
        "Window",
        "Spark's own plan; with mode=on: auto: a key with too many rows for one task runs in slices",
    ) in ran
    assert ("SkewWindow", "slices") in ran
    assert ("Window", "Spark's own plan: its keys were sampled, and none needs slices") in ran
    assert ("FlatMapGroupsInPandas", by_placement) in ran
    decided = r"auto: all keys combined in 100 % of the rows, 2\d\d rows a state, \d+\.\d MB less to send"
    assert any(re.fullmatch(decided, what) for _, what in ran)
    assert any(what == "dchoices" for _, what in ran)
    assert any("with mode=on: auto" in what for _, what in ran)
    assert any("with mode=on: dchoices" in what for _, what in ran)
    assert any("the map side already combines them" in what for _, what in ran)


def test_the_tab_knows_what_is_done_around_joins(application: tuple[dict[str, Any], Path]) -> None:
    found, _ = application
    ran = [(row[1].split(" max")[0], row[3]) for row in cells(found["page"]) if len(row) == 10]
    below = [what for operator, what in ran if operator.startswith("SortMergeJoin by k")]
    assert len(below) == 1
    assert re.fullmatch(
        r"auto: all keys combined in 100 % of the rows, [\d,]+ rows a state, \d+\.\d MB less to send", below[0]
    )
    said = {what for _, what in ran}
    assert "Spark's own plan; with mode=on: auto: rows are combined below the join by k" in said
    assert "Spark's own plan; with mode=on: auto: if a partition of the join below is skewed, it is split" in said
    assert "Spark's own plan: no partition of the join below is skewed, and its rows are grouped by key" in said


def test_a_skewed_worker_shows_as_one(application: tuple[dict[str, Any], Path]) -> None:
    found, _ = application
    windows = [row for row in cells(found["page"]) if len(row) == 10 and row[1].startswith("Window by k")]
    assert windows
    for row in windows:
        assert row[4] == f"{ROWS:,}"
        assert row[5] == "8"
        assert float(row[7]) > 5


def test_each_operator_has_a_verdict_and_says_what_it_counts(application: tuple[dict[str, Any], Path]) -> None:
    found, _ = application
    rows = [row for row in cells(found["page"]) if len(row) == 10]
    verdict = (
        r"even(: Spark combines the rows of a key before)?|nearly even, about \d+\.\d s to gain"
        r"|short: its longest task took \d+ ms"
        r"|it shares the tasks of what is below it|cannot tell: it failed before a task ended"
        r"|skewed: one task has \d+\.\d s of \d+\.\d s, about \d+\.\d s to gain"
    )
    assert all(re.fullmatch(verdict, row[2]) for row in rows), [row[2] for row in rows]
    observed = [row for row in rows if row[3].startswith("Spark's own plan; with mode=on")]
    assert {row[6] for row in observed} == {"keys are not counted"}
    sums = [row[4] for row in rows if row[1].startswith("HashAggregate by name")]
    assert sums
    assert all(re.fullmatch(r"\d+ states of 100,000 rows", text) for text in sums), sums


def test_a_query_that_failed_shows_the_rows_of_its_failed_task(
    application: tuple[dict[str, Any], Path],
) -> None:
    found, folder = application
    [row] = [row for row in cells(found["page"]) if len(row) == 10 and row[1].startswith("FlatMapGroups")]
    assert row[9].startswith("failed after ")
    [failed] = [event for event in group_events(folder) if event["failed"]]
    assert failed["operator"] == "FlatMapGroupsInPandas"
    assert failed["most"] >= ROWS * 3 / 4


@pytest.mark.classic("read an event")
def test_events_of_older_and_newer_versions_are_read(
    application: tuple[dict[str, Any], Path], spark: SparkSession
) -> None:
    _, folder = application
    json_protocol: Any = spark._jvm.org.apache.spark.util.JsonProtocol  # type: ignore[union-attr]
    [event] = [event for event in group_events(folder) if event["failed"]]
    assert json_protocol.sparkEventFromJson(json.dumps(event)).failed()
    del event["failed"]
    read = json_protocol.sparkEventFromJson(json.dumps({**event, "newer": [1]}))
    assert not read.failed()
    assert read.most() == event["most"]


def test_hot_keys_are_named_where_the_conf_allows_it_and_hashes_elsewhere(
    application: tuple[dict[str, Any], Path],
) -> None:
    found, _ = application
    pages = [page for page in found["groups"] if "<h4>Hot keys</h4>" in page]
    named = [page for page in pages if "<td>hot</td>" in page]
    [hashed] = [page for page in pages if page not in named]
    for function in ("percentile_approx", "max"):  # what auto combined, for its groups and below a join
        assert any(function in page for page in named)
    assert re.search(r"<td>[0-9a-f]{16}</td>", hashed)  # what dchoices routed


def test_functions_go_by_their_own_names(application: tuple[dict[str, Any], Path]) -> None:
    found, _ = application
    functions = [value for page in found["groups"] for value in re.findall(r"Functions</th><td>(.*?)</td>", page)]
    assert sorted(functions) == ["count"] * 2 + ["max"] * 3 + ["min"] * 2 + ["percentile_approx"] * 2 + ["sum"] * 2


def test_the_event_log_has_our_events_as_json(application: tuple[dict[str, Any], Path]) -> None:
    from saltwise.advise.application import executions

    _, folder = application
    [log] = event_logs(folder)
    events = group_events(folder)
    assert {event["operator"] for event in events} >= {"Window", "HashAggregate"}
    assert {tuple(event["keys"]) for event in events} == {("k",), ("g",), ("name",)}  # name is upper(k)
    hot_keys = [keys for execution in executions(log.lines(), with_keys=True) for keys in execution.hot_keys.values()]
    assert any(key.startswith("hot (") for keys in hot_keys for key in keys)


def test_savings_compare_the_same_query_with_a_hint_and_without(application: tuple[dict[str, Any], Path]) -> None:
    found, _ = application
    # The percentile, the window, the maximum over a join, and the routed aggregate; not the sum, the even window, the
    # join that was not split, and the function that failed.
    ran_both_ways = (
        r"[\d.]+ s (saved|lost) by 4 queries that ran with Saltwise and without it; 3 others ran one way only\."
    )
    assert re.match(ran_both_ways, found["savings"])


# In make test, tests/install/test_submit.py has an event log without it.
@pytest.mark.full
def test_one_conf_turns_it_off(tmp_path: Path) -> None:
    found = watched(tmp_path, "spark.saltwise.ui.enabled=false")
    assert TAB not in found["home"]
    [log] = [
        file
        for file in tmp_path.rglob("*")
        if file.is_file() and not file.name.startswith(".") and "appstatus" not in file.name
    ]
    assert b"saltwise.report" not in log.read_bytes()
