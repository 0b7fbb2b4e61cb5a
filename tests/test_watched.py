"""The tab in Spark's UI, the event log, and what a session that observes tells: in applications of their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow
TAB = '<a class="nav-link" href="/saltwise/">'


def watched(folder: Path, *confs: str) -> dict[str, Any]:
    options = [option for conf in confs for option in ("--conf", conf)]
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "watched.py", folder, *options], stdout=subprocess.PIPE, text=True, check=True
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


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("events")
    return watched(folder, "spark.saltwise.report.keys=true"), folder


def test_the_tab_tells_what_ran_and_why_not(application: tuple[dict[str, Any], Path]) -> None:
    found, _ = application
    assert TAB in found["home"]
    ran = [(row[1].split(" by ")[0], row[2]) for row in cells(found["page"]) if len(row) == 9]
    assert ("Window", "Spark's own plan") in ran
    assert any(what.startswith("auto: ") for _, what in ran)
    assert any(what == "dchoices" for _, what in ran)
    assert any("with mode=on: auto" in what for _, what in ran)
    assert any("with mode=on: dchoices" in what for _, what in ran)
    assert any("the map side already combines them" in what for _, what in ran)


def test_a_skewed_worker_shows_as_one(application: tuple[dict[str, Any], Path]) -> None:
    found, _ = application
    windows = [row for row in cells(found["page"]) if len(row) == 9 and row[1].startswith("Window")]
    assert windows
    for row in windows:
        assert row[3] == "400,000"
        assert row[4] == "8"
        assert float(row[6]) > 5


def test_hot_keys_are_named_where_the_conf_allows_it(application: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    found, _ = application
    with_keys = [page for page in found["groups"] if "<h4>Hot keys</h4>" in page]
    assert len(with_keys) == 2  # what auto combined, and what dchoices routed
    assert all("<td>hot</td>" in page for page in with_keys)
    hidden = watched(tmp_path)
    assert not any("<td>hot</td>" in page for page in hidden["groups"])
    assert any(re.search(r"<td>[0-9a-f]{16}</td>", page) for page in hidden["groups"])


def test_functions_go_by_their_own_names(application: tuple[dict[str, Any], Path]) -> None:
    found, _ = application
    functions = [value for page in found["groups"] for value in re.findall(r"Functions</th><td>(.*?)</td>", page)]
    assert sorted(functions) == ["count"] * 2 + ["percentile_approx"] * 2 + ["sum"] * 2


def test_the_event_log_has_our_events_as_json(application: tuple[dict[str, Any], Path]) -> None:
    from saltwise.advise.application import application as read
    from saltwise.advise.event_log import event_logs

    _, folder = application
    [log] = event_logs(folder)
    events = [json.loads(line) for line in log.lines() if b"saltwise.report.GroupByEvent" in line]
    assert {event["operator"] for event in events} >= {"Window", "HashAggregate"}
    assert {tuple(event["keys"]) for event in events} == {("k",), ("name",)}  # name is upper(k)
    hot = read(log.lines(), with_keys=True).hot_keys
    assert any(key.startswith("hot (") for keys in hot.values() for key in keys)


def test_savings_compare_the_same_query_with_a_hint_and_without(application: tuple[dict[str, Any], Path]) -> None:
    found, _ = application
    assert re.match(r"-?[\d.]+ s saved by [23] queries that ran with Saltwise and without it", found["savings"])


def test_one_conf_turns_it_off(tmp_path: Path) -> None:
    found = watched(tmp_path, "spark.saltwise.ui.enabled=false")
    assert TAB not in found["home"]
    [log] = [
        file
        for file in tmp_path.rglob("*")
        if file.is_file() and not file.name.startswith(".") and "appstatus" not in file.name
    ]
    assert b"saltwise.report" not in log.read_bytes()
