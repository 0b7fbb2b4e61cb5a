"""How a StateBalancer steers: what it learns of batches, when it plans, and that a round that fails harms no stream."""

from __future__ import annotations

import json
import threading
from typing import Any
from unittest.mock import Mock

import pyspark
import pytest

from saltwise import PluginMissingError, SaltwiseValueError, state_report
from saltwise.spark.moving_state.batches import StateBatch, window_of
from saltwise.spark.moving_state.report import StateReport
from saltwise.spark.moving_state.steering import Steering, SteeringOptions, follow

MB = 1 << 20


def stage(
    millis: list[int], executors: list[str], operators: list[int] | None = None, size: int = MB
) -> dict[str, Any]:
    """Return what the plugin tells of a stage."""
    n = len(millis)
    return {
        "operators": operators or [0],
        "executor": executors,
        "millis": millis,
        "rows": [10 * each for each in millis],
        "remote": [0] * n,
        "keys": [1] * n,
        "bytes": [size] * n,
    }


def batch(number: int, *stages: dict[str, Any], leaving: str = "", run: str = "run", **more: Any) -> StateBatch:
    """Return a batch of a second on executors 1 and 2 of one core each."""
    executors = [{"id": each, "cores": 1, "leaving": each == leaving} for each in ("1", "2")]
    told = {"run": run, "batch": number, "ended": 1000 * number, "executors": executors, "pinned": [], "stages": stages}
    return StateBatch.parse(json.dumps(told | more))


UNEVEN = stage([400, 300, 200, 100], ["1", "1", "1", "1"])
EVEN = stage([250, 250, 250, 250], ["1", "1", "2", "2"])


def moves_after(steering: Steering, *batches: StateBatch) -> list[list[tuple[int, str]]]:
    """Return the moves after each batch, as partitions and where to."""
    return [[(move.partition, move.executor) for move in steering.after(each)] for each in batches]


@pytest.mark.parametrize("planner", ["milp", "flux", "elb"])
def test_a_round_comes_after_every_few_batches_and_evens_executors_out(planner: str) -> None:
    steering = Steering(SteeringOptions(planner, every=3))
    rounds = moves_after(steering, *(batch(i, UNEVEN) for i in range(6)))
    assert [bool(each) for each in rounds] == [False, False, True, False, False, True]
    assert {executor for _, executor in rounds[2]} == {"2"}
    report = steering.report("run")
    assert report is not None
    assert report.rounds[0].before == 2.0
    assert report.rounds[0].expected == pytest.approx(1.0, abs=0.2)
    assert report.executors == {"1": 1.0, "2": 0.0}
    assert report.held == {"1": 4, "2": 0}


def test_the_last_fifty_runs_are_known() -> None:
    steering = Steering(SteeringOptions())
    for i in range(52):
        steering.after(batch(0, EVEN, run="first" if i in (0, 50) else f"run {i}"))
    assert steering.report("run 1") is None
    assert steering.report("run 2") is not None
    assert steering.report("first") is not None


def test_even_loads_stay_and_the_report_says_so() -> None:
    steering = Steering(SteeringOptions(every=1))
    assert moves_after(steering, batch(0, EVEN)) == [[]]
    report = steering.report("run")
    assert report is not None
    assert report.rounds[0].reason == "loads are even: max/mean is 1.00"
    assert "loads are even" in str(report)


def test_a_round_moves_no_more_bytes_and_partitions_than_it_may() -> None:
    for options, most in (
        (SteeringOptions(max_migration="1m", every=1), 1),
        (SteeringOptions(max_moves=1, every=1), 1),
    ):
        [moves] = moves_after(Steering(options), batch(0, UNEVEN))
        assert len(moves) == most
    [nothing] = moves_after(Steering(SteeringOptions(max_migration="1k", every=1)), batch(0, UNEVEN))
    assert nothing == []


def test_a_move_that_takes_longer_than_it_gains_is_not_made() -> None:
    quick = stage([4, 3, 2, 1], ["1", "1", "1", "1"], size=100 * MB)
    steering = Steering(SteeringOptions(every=1, max_migration="1g"))
    assert moves_after(steering, batch(0, quick)) == [[]]
    report = steering.report("run")
    assert report is not None
    assert report.rounds[0].reason == "even loads would gain 0.005 s in each of 1 batches, and a move takes longer"


@pytest.mark.parametrize("leaving", ["decommissioned", "drained", "gone"])
def test_an_executor_that_leaves_is_emptied_at_once(leaving: str) -> None:
    steering = Steering(SteeringOptions(every=100))
    now = batch(0, EVEN, leaving="2" if leaving == "decommissioned" else "")
    if leaving == "drained":
        steering.drain("2")
    if leaving == "gone":
        now = batch(0, stage([250] * 4, ["1", "1", "7", "7"]))
    [moves] = moves_after(steering, now)
    assert {partition for partition, _ in moves} == {2, 3}
    assert {executor for _, executor in moves} <= {"1", "2"} - ({"2"} if leaving != "gone" else set())


@pytest.mark.parametrize("planner", ["milp", "albic", "cola", "flux", "elb", "uhlb"])
def test_a_pinned_partition_moves_only_from_an_executor_that_leaves(planner: str) -> None:
    steering = Steering(SteeringOptions(planner, every=1))
    [moves] = moves_after(steering, batch(0, UNEVEN, pinned=[0]))
    assert 0 not in {partition for partition, _ in moves}
    [moves] = moves_after(Steering(SteeringOptions(planner, every=1)), batch(0, UNEVEN, pinned=[0], leaving="1"))
    assert (0, "2") in moves


def test_the_milp_plans_around_a_pinned_partition() -> None:
    [moves] = moves_after(Steering(SteeringOptions("milp", every=1)), batch(0, UNEVEN, pinned=[0]))
    assert [partition for partition, _ in moves] in ([1, 2], [1, 2, 3])


def test_stages_are_planned_each_and_share_the_budget() -> None:
    two = batch(0, UNEVEN, stage([40, 30, 20, 10], ["2", "2", "2", "2"], [1]))
    moves = Steering(SteeringOptions(every=1, max_moves=3)).after(two)
    assert [move.operators for move in moves] == [[0], [0], [1]][: len(moves)]
    assert len(moves) <= 3


def test_albic_brings_partitions_together_that_send_each_other_much() -> None:
    first = stage([250] * 4, ["1", "1", "2", "2"], [0])
    sent = [[9_000_000 if i == j else 0 for j in range(4)] for i in range(4)]
    steering = Steering(SteeringOptions("albic", every=1))
    told = batch(
        0, first, stage([260, 250, 250, 200], ["2", "2", "1", "1"], [1]), traffic=[{"from": 0, "to": 1, "bytes": sent}]
    )
    window, executors = window_of([told], [0, 1], "time")
    assert window.traffic is not None
    assert window.traffic.out.sum() == 4 * 9_000_000
    assert executors == ["1", "2"]
    steering.after(told)
    report = steering.report("run")
    assert report is not None
    assert report.partitions == 8


def test_rows_may_be_the_load() -> None:
    uneven_rows = dict(EVEN, rows=[700, 100, 100, 100])
    window, _ = window_of([batch(0, uneven_rows)], [0], "rows")
    assert window.cluster.load.tolist() == pytest.approx([0.7, 0.1, 0.1, 0.1])


def test_it_says_how_many_executors_the_load_needs() -> None:
    busy = stage([900, 900, 900, 900], ["1", "1", "2", "2"])
    steering = Steering(SteeringOptions(every=2, utilisation=(0.3, 0.8)))
    moves_after(steering, batch(0, busy), batch(1, busy))
    report = steering.report("run")
    assert report is not None
    assert (report.needed or 0) > 2
    assert steering.missing("run") == (report.needed or 0) - 2


def test_a_query_that_changes_its_shape_is_seen_anew() -> None:
    steering = Steering(SteeringOptions(every=2))
    moves_after(steering, batch(0, UNEVEN), batch(1, stage([10] * 8, ["1"] * 4 + ["2"] * 4)))
    report = steering.report("run")
    assert report is not None
    assert report.partitions == 8


def test_a_report_reads_back_and_prints() -> None:
    steering = Steering(SteeringOptions(every=1))
    steering.after(batch(0, UNEVEN))
    report = steering.report("run")
    assert report is not None
    assert StateReport.from_json(report.to_json()) == report
    assert "executor" in str(report)
    assert "<table" in report._repr_html_()
    assert report.moved_bytes == MB * report.moved > 0


class Streams:
    """In place of the plugin's StateStreams."""

    def __init__(self, batches: list[str], stop: threading.Event) -> None:
        self.batches, self.stop, self.calls = batches, stop, []  # type: ignore[var-annotated]

    def next(self, millis: int, traffic: bool) -> str | None:
        if self.batches:
            return self.batches.pop(0)
        self.stop.set()
        return None

    def failure(self, run: str) -> str | None:
        return None

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.calls.append((name, *given))


def batch_json(number: int, *stages: dict[str, Any]) -> str:
    executors = [{"id": each, "cores": 1, "leaving": False} for each in ("1", "2")]
    batch = {"run": "run", "batch": number, "ended": number, "executors": executors, "pinned": [], "stages": stages}
    return json.dumps(batch)


def test_a_round_that_fails_is_told_and_the_next_one_is_made() -> None:
    broken = batch_json(0, dict(UNEVEN, millis=[-1, 0, 0, 0]))
    stop = threading.Event()
    streams = Streams([broken, batch_json(1, UNEVEN)], stop)
    steering = Steering(SteeringOptions(every=1, window=1))
    follow(streams, steering, stop=stop)
    names = [call[0] for call in streams.calls]
    assert names.count("move") == 1
    reports = [StateReport.from_json(call[2]) for call in streams.calls if call[0] == "report"]
    assert reports[-1].failure == ""


def test_queries_that_are_not_wanted_are_left_alone() -> None:
    stop = threading.Event()
    streams = Streams([batch_json(0, UNEVEN)], stop)
    follow(streams, Steering(SteeringOptions(every=1)), stop=stop, chosen=lambda run: run == "another")
    assert streams.calls == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"planner": "milk"},
            "planner is 'milk'; it must be one of flux, milp, albic, cola, elb, clb, uhlb; did you mean 'milp'?",
        ),
        ({"load": "bytes"}, "load is 'bytes'; it must be one of time, rows."),
        ({"every": 0}, "every is 0; it must be a whole number of at least 1."),
        ({"seed": -1}, "seed is -1; it must be a whole number of at least 0."),
        ({"max_moves": 0}, "max_moves is 0; it must be a whole number of at least 1."),
        ({"max_migration": "much"}, "max_migration is 'much'; it must be a size, such as 256m."),
        ({"utilisation": (0.8, 0.3)}, "utilisation is 0.8 to 0.3; it must be 0 < low < high <= 1."),
    ],
)
def test_an_option_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        SteeringOptions(**options)
    assert str(error.value) == message


def test_a_report_needs_the_plugin() -> None:
    session: Any = Mock(version=pyspark.__version__)
    session.catalog.functionExists.return_value = False
    session.conf.get.return_value = None
    with pytest.raises(PluginMissingError, match=r"^This session runs without the Saltwise extension: start it with "):
        state_report(session, Mock())
