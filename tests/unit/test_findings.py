"""Which stages of a log are skewed, by which keys, and what the advice is: logs of a few events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from saltwise import SaltwiseValueError
from saltwise.advise.application import executions
from saltwise.advise.event_log import event_logs
from saltwise.advise.findings import Finding, findings
from saltwise.advise.fragments import Kind
from saltwise.advise.page import heading
from saltwise.advise.report import advise, write_page

Event = dict[str, Any]
READ = 90
"""The accumulator that counts what is read from an exchange."""


def node(name: str, text: str = "", metrics: Sequence[int] = (), *children: Event) -> Event:
    listed = [{"name": "m", "accumulatorId": each, "metricType": "sum"} for each in metrics]
    return {"nodeName": name, "simpleString": text or name, "metrics": listed, "children": list(children)}


SCAN = node("Scan parquet", "", [1])


def exchange(
    by: str = "hashpartitioning(k#1, 200), ENSURE_REQUIREMENTS", child: Event = SCAN, read: int = READ
) -> Event:
    found = node("Exchange", f"Exchange {by}", [], child)
    found["metrics"] = [{"name": "records read", "accumulatorId": read, "metricType": "sum"}]
    return node("ShuffleQueryStage", "", [], found)


def aggregate(
    text: str = "keys=[k#1], functions=[collect_list(v#2, 0, 0)]", *below: Event, of: str = "Object"
) -> Event:
    return node(f"{of}HashAggregate", f"{of}HashAggregate({text})", [4], *(below or [exchange()]))


def started(
    plan: Event, number: int = 0, description: str = "q", stage: int = 1, conf: dict[str, str] | None = None
) -> list[Event]:
    sql = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
    return [
        {
            "Event": f"{sql}Start",
            "executionId": number,
            "description": description,
            "time": 0,
            "sparkPlanInfo": plan,
            "modifiedConfigs": conf or {},
        },
        {
            "Event": "SparkListenerJobStart",
            "Job ID": number,
            "Stage IDs": [stage - 1, stage],
            "Properties": {"spark.sql.execution.id": str(number)},
        },
    ]


def task(
    millis: int,
    rows: int,
    partition: int,
    stage: int = 1,
    attempt: int = 0,
    size: int | None = None,
    reason: Event | None = None,
    updates: dict[int, int] | None = None,
) -> Event:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": attempt,
        "Task End Reason": reason or {"Reason": "Success"},
        "Task Info": {
            "Task ID": partition,
            "Index": 0,
            "Partition ID": partition,
            "Launch Time": 0,
            "Finish Time": millis,
            "Accumulables": [{"ID": each, "Update": str(by)} for each, by in ({4: 1} | (updates or {})).items()],
        },
        "Task Metrics": {
            "Shuffle Read Metrics": {
                "Total Records Read": rows,
                "Remote Bytes Read": 0,
                "Local Bytes Read": rows * 100 if size is None else size,
            }
        },
    }


def hot(tasks: int = 16, stage: int = 1, **more: Any) -> list[Event]:
    """All tasks take a second, and the last one 100."""
    return [task(1000, 10, i, stage) for i in range(tasks - 1)] + [task(100_000, 10_000, tasks - 1, stage, **more)]


CLUSTER: list[Event] = [
    {"Event": "SparkListenerExecutorAdded", "Executor ID": "1", "Executor Info": {"Total Cores": 8}}
]


def found_in(events: Iterable[Event]) -> list[Finding]:
    lines = [json.dumps(event, separators=(",", ":")).encode() for event in [*CLUSTER, *events]]
    return findings(executions(lines, with_keys=True))


def test_a_hot_task_is_found_before_its_stage_has_ended() -> None:
    [found] = found_in([*started(aggregate()), *hot()])
    assert (found.kind, found.keys, found.figures.tasks, found.figures.slowest) == (Kind.AGGREGATE, ["k"], 16, 100.0)


@pytest.mark.parametrize("tasks", [2, 3])
def test_adaptive_execution_may_have_left_few_tasks(tasks: int) -> None:
    [found] = found_in([*started(aggregate()), *hot(tasks)])
    assert found.figures.rows == 1000


def test_one_task_is_skewed_if_adaptive_execution_would_not_join_so_much() -> None:
    assert found_in([*started(aggregate()), task(100_000, 10_000, 0, size=60 << 20)]) == []
    [found] = found_in([*started(aggregate()), task(100_000, 10_000, 0, size=70 << 20)])
    assert found.gain == (0.0, 87.5)
    once = aggregate("keys=[], functions=[collect_list(v#2, 0, 0)]", exchange("SinglePartition"))
    assert found_in([*started(once), task(100_000, 10_000, 0, size=70 << 20)]) == []


def test_a_hot_task_of_another_attempt_counts_once() -> None:
    lost = task(500, 0, 15, reason={"Reason": "FetchFailed"})
    [found] = found_in([*started(aggregate()), *hot()[:-1], lost, task(100_000, 10_000, 15, attempt=1)])
    assert (found.figures.tasks, found.figures.unfinished) == (16, False)
    [again] = found_in([*started(aggregate()), *hot(), task(90_000, 10_000, 15, attempt=1)])
    assert (again.figures.tasks, again.figures.slowest) == (16, 90.0)


def test_a_task_that_was_killed_after_an_hour_is_found() -> None:
    killed = task(3_600_000, 0, 15, reason={"Reason": "TaskKilled", "Kill Reason": "Stage cancelled"})
    [found] = found_in([*started(aggregate()), *hot()[:-1], killed])
    assert (found.figures.slowest, found.figures.unfinished) == (3600.0, True)


def test_a_task_that_still_runs_is_found() -> None:
    begun = {
        "Event": "SparkListenerTaskStart",
        "Stage ID": 1,
        "Stage Attempt ID": 0,
        "Task Info": {"Task ID": 99, "Index": 0, "Partition ID": 15, "Launch Time": 0},
    }
    late = task(600_000, 1, 3, stage=7)  # of another job
    [found] = found_in([*started(aggregate()), begun, *hot()[:-1], late])
    assert (found.figures.slowest, found.figures.unfinished) == (600.0, True)


def test_executors_that_die_of_one_partition_are_found() -> None:
    lost = {"Reason": "ExecutorLostFailure", "Loss Reason": "The executor with id 2 exited with exit code 137(SIGKILL)"}
    failed = [task(1000, 0, 15, reason=lost) for _ in range(4)]
    [found] = found_in([*started(aggregate()), *hot()[:-1], *failed])
    assert (found.figures.out_of_memory, found.figures.unfinished) == (4, True)
    assert found_in([*started(aggregate()), *(task(60_000, 10, i, reason=lost) for i in range(16))]) == []


def test_a_task_that_lost_against_its_copy_is_no_failure() -> None:
    beaten = task(50_000, 10_000, 3, reason={"Reason": "TaskKilled", "Kill Reason": "another attempt succeeded"})
    [found] = found_in([*started(aggregate()), beaten, *hot()])
    assert (found.figures.failures, found.figures.unfinished) == ({}, False)


def test_the_batches_of_a_stream_are_one_finding() -> None:
    events = []
    for i in range(50):
        batch = f"clicks\nid = 1\nrunId = 2\nbatch = {i}"
        events += started(aggregate(), i, batch, 2 * i + 1)
        events += [task(100, 10, j, 2 * i + 1) for j in range(15)] + [task(800, 10_000, 15, 2 * i + 1)]
    [found] = found_in(events)
    assert found.times == 50
    assert 20 < found.gain.high < 40
    assert found.gain.high < found.took == pytest.approx(50 * 0.9)
    assert heading(1, found).endswith(f" of {found.took:.1f} s to gain")


def test_of_many_executions_the_one_that_lost_most_is_shown() -> None:
    events = []
    for i, slowest in enumerate([9000, 1000, 5000]):
        batch = f"clicks\nid = 1\nrunId = 2\nbatch = {i}"
        events += started(aggregate(), i, batch, 2 * i + 1)
        events += [task(100, 10, j, 2 * i + 1) for j in range(15)] + [task(slowest, 10_000, 15, 2 * i + 1)]
    [found] = found_in(events)
    assert (found.times, found.execution, found.figures.slowest) == (3, 0, 9.0)
    assert found.most_lost < found.lost


def test_nothing_helps_a_window_that_keeps_first_rows() -> None:
    limit = node("WindowGroupLimit", "WindowGroupLimit [u#1], [t#2 DESC], row_number(), 1, Final", [5], exchange())
    window = node("Window", "Window [row_number() AS rn#9], [u#1], [t#2 DESC]", [4], limit)
    [found] = found_in([*started(window), *hot()])
    assert (found.kind, found.keys) == (Kind.WINDOW, ["u"])
    assert found.advice.startswith("nothing helps here: Spark drops most rows")


def test_a_repartition_of_the_query_is_named_before_the_aggregate_above() -> None:
    partial = node(
        "HashAggregate",
        "HashAggregate(keys=[d#5], functions=[partial_sum(v#2)])",
        [4],
        exchange("hashpartitioning(country#1, upper(x#2), 200), REPARTITION_BY_NUM"),
    )
    plan = aggregate("keys=[d#5], functions=[sum(v#2)]", exchange(child=partial, read=91), of="")
    plan["metrics"] = []
    [found] = found_in([*started(plan), *hot()])
    assert (found.kind, found.keys) == (Kind.REPARTITION, ["country", "upper(x)"])
    assert found.advice == (
        "the query itself repartitions by country, upper(x): leave that out, or repartition without columns"
    )


@pytest.mark.parametrize(
    ("text", "of", "conf", "advice"),
    [
        ("keys=[k#1], functions=[count(distinct u#2)]", "", {}, "nothing helps here: Saltwise leaves DISTINCT"),
        ("keys=[k#1], functions=[]", "", {}, "nothing helps here: Saltwise leaves DISTINCT"),
        ("keys=[k#1], functions=[sum(v#2)]", "", {}, "write /*+ SKEW_GROUPBY(dchoices) */"),
        (
            "keys=[k#1], functions=[sum(v#2)]",
            "",
            {"spark.sql.execution.bypassPartialAggregation": "TRUE"},
            "set spark.sql.execution.bypassPartialAggregation=false",
        ),
        ("keys=[k#1], functions=[percentile(v#2)]", "Object", {"spark.saltwise.enabled": "true"}, "it was on"),
        ("keys=[k#1], functions=[percentile(v#2)]", "Object", {"spark.saltwise.enabled": " True"}, "it was on"),
        ("keys=[k#1], functions=[percentile(v#2)]", "Object", {"spark.saltwise.mode": "ON"}, "it was on"),
        (
            "keys=[k#1], functions=[percentile(v#2)]",
            "Object",
            {"spark.saltwise.enabled": "true", "spark.saltwise.mode": "observe"},
            "set spark.saltwise.mode=on, or write",
        ),
        (
            "keys=[k#1], functions=[percentile(v#2), collect_list(v#2)]",
            "Object",
            {},
            "set spark.saltwise.enabled=true, or write",
        ),
        (
            "keys=[k#1], functions=[collect_list(coalesce(v#2, length(w#3)), 0, 0) FILTER (WHERE c#4), listagg(v#2)]",
            "Object",
            {},
            "nothing helps a key whose collect_list or listagg alone is too large, because one task must hold it; "
            "if one task has several such keys, more spark.sql.shuffle.partitions separate them",
        ),
    ],
)
def test_the_advice_for_an_aggregate_is_what_would_change_its_plan(
    text: str, of: str, conf: dict[str, str], advice: str
) -> None:
    [found] = found_in([*started(aggregate(text, of=of), conf=conf), *hot()])
    assert found.advice.startswith(advice)


@pytest.mark.parametrize("functions", ["sum(v#2)", "percentile(v#2)"])
def test_keys_may_have_any_characters(functions: str) -> None:
    of = "Object" if functions.startswith("percentile") else ""
    keyed = f"keys=[{{a#1, %s %{{0}}#2], functions=[{functions}]"
    [found] = found_in([*started(aggregate(keyed, of=of)), *hot()])
    assert found.advice.endswith("in the SELECT that groups by {a, %s %{0}")


def test_an_aggregate_of_a_stream_needs_a_strategy_that_is_named() -> None:
    restore = node("StateStoreRestore", "StateStoreRestore [k#1]", [7], exchange())
    [found] = found_in([*started(aggregate("keys=[k#1], functions=[percentile(v#2)]", restore)), *hot()])
    assert found.advice.startswith("write /*+ SKEW_GROUPBY(dchoices) */")


def test_a_window_over_a_join_that_stays_whole_needs_a_cache_first() -> None:
    join = node("BroadcastHashJoin", "BroadcastHashJoin [a#1], [b#2], Inner, BuildRight", [8], SCAN)
    window = node("Window", "Window [median(v#3) AS r#9], [k#1], [t#2]", [4], exchange(child=join))
    [found] = found_in([*started(window), *hot()])
    assert found.advice.startswith("cache the rows below the window")
    [on] = found_in([*started(window, conf={"spark.saltwise.placement.enabled": "True"}), *hot()])
    assert on.advice.startswith("it was on already")


@pytest.mark.parametrize(
    ("conf", "advice"),
    [
        ({}, "set spark.saltwise.enabled=true: a key that has too many rows for one task then runs in slices"),
        (
            {"spark.saltwise.enabled": "true"},
            "set spark.saltwise.placement.enabled=true, which spreads the keys evenly",
        ),
        (
            {"spark.saltwise.enabled": "true", "spark.saltwise.placement.enabled": "true"},
            "it was on already",
        ),
    ],
)
def test_a_hot_key_of_a_window_runs_in_slices_and_keys_that_meet_are_spread(conf: dict[str, str], advice: str) -> None:
    window = node("Window", "Window [rank() AS r#9], [k#1], [t#2]", [4], exchange())
    [found] = found_in([*started(window, conf=conf), *hot()])
    assert found.advice.startswith(advice)


JOIN = "spark.sql.adaptive.skewJoin"


@pytest.mark.parametrize(
    ("kind", "megabytes", "conf", "advice"),
    [
        ("FullOuter", (1, 40), {}, "nothing helps here: Spark cannot split the partitions of a full outer join"),
        (
            "Inner",
            (1, 40),
            {},
            f"set {JOIN}.skewedPartitionThresholdInBytes=20m, spark.sql.adaptive.advisoryPartitionSizeInBytes=10m "
            "for this query only: Spark itself then splits this join's partitions",
        ),
        (
            "Inner",
            (200, 600),
            {},
            f"set {JOIN}.skewedPartitionFactor=1.5 for this query only: Spark itself then splits this join's partitions",
        ),
        (
            "Inner",
            (1, 600),
            {},
            "set spark.sql.adaptive.forceOptimizeSkewedJoin=true: Spark itself then splits this join's partitions",
        ),
        (
            "Inner",
            (1, 600),
            {"spark.sql.adaptive.enabled": "False"},
            "set spark.sql.adaptive.enabled=true: Spark itself then splits this join's partitions",
        ),
        (
            "Inner",
            (1, 300),
            {"spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "-1"},
            "set spark.sql.adaptive.forceOptimizeSkewedJoin=true: Spark itself then splits this join's partitions",
        ),
    ],
)
def test_the_advice_for_a_join_names_the_confs_that_split_it(
    kind: str, megabytes: tuple[int, int], conf: dict[str, str], advice: str
) -> None:
    join = node("SortMergeJoin", f"SortMergeJoin [k#1], [k#2], {kind}", [4], exchange(), exchange(read=91))
    usual, most = (size << 20 for size in megabytes)
    tasks = [task(1000, 10, i, size=usual) for i in range(15)] + [task(100_000, 10_000, 15, size=most)]
    [found] = found_in([*started(join, conf=conf), *tasks])
    assert (found.kind, found.advice) == (Kind.JOIN, advice)


SALES = node("Scan parquet", "FileScan parquet [k#1,v#2] Location: InMemoryFileIndex(1 paths)[file:/data/sales], ...")
SHOPS = node("Scan parquet", "FileScan parquet [k#5,c#6] Location: InMemoryFileIndex(1 paths)[file:/data/shops], ...")


def joined(functions: str, kind: str = "Inner", key: str = "c#6") -> Event:
    """A sum over a join, of which the map side's step, and for the join's key the other step too, are in its stage."""
    sides = exchange(child=SALES), exchange("hashpartitioning(k#5, 200), ENSURE_REQUIREMENTS", SHOPS, read=91)
    join = node("SortMergeJoin", f"SortMergeJoin [k#1], [k#5], {kind}", [4], *sides)
    partial = node("HashAggregate", f"HashAggregate(keys=[{key}], functions=[partial_{functions}])", [5], join)
    final = f"HashAggregate(keys=[{key}], functions=[{functions}])"
    if key == "k#1":
        return node("HashAggregate", final, [6], partial)
    return node(
        "HashAggregate", final, [7], exchange(f"hashpartitioning({key}, 200), ENSURE_REQUIREMENTS", partial, 92)
    )


BELOW = (
    "set spark.saltwise.enabled=true: the rows of {} are then combined below this join, so a hot key crosses the "
    "shuffle as a few states"
)


@pytest.mark.parametrize(
    ("plan", "advice"),
    [
        (joined("sum(v#2)"), BELOW.format("sum grouped by c")),
        (joined("count(1)"), BELOW.format("count grouped by c")),
        (joined("max(c#6)", "RightOuter"), BELOW.format("max grouped by c")),
        (
            joined("sum((v#2 * c#6))", key="k#1"),
            "set spark.saltwise.enabled=true: Spark itself then splits this join, which sum grouped by k forbids otherwise",
        ),
        # The shuffle between the two steps lets Spark split the join.
        (joined("sum((v#2 * c#6))"), "set spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes="),
        # An outer join adds rows of NULL on the other side.
        (joined("max(c#6)", "LeftOuter"), "set spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes="),
        (joined("sum(distinct v#2)"), "set spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes="),
    ],
)
def test_the_advice_for_a_join_below_a_group_by_is_what_runs_around_it(plan: Event, advice: str) -> None:
    [found] = found_in([*started(plan), *hot()])
    assert found.kind is Kind.JOIN
    assert found.advice.startswith(advice)
    assert found.command == "saltwise report /data/sales --key k"


FRAME = "specifiedwindowframe(RowFrame, unboundedpreceding$(), currentrow$())"
ORDER = "t#2 ASC NULLS FIRST"


@pytest.mark.parametrize(
    ("functions", "advice", "gain"),
    [
        (
            f"row_number() windowspecdefinition({ORDER}, {FRAME}) AS rn#9",
            "set spark.saltwise.enabled=true: a window",
            87.5,
        ),
        (f"sum(v#3) windowspecdefinition({ORDER}, {FRAME}) AS s#9", "set spark.saltwise.enabled=true: a window", 87.5),
        (
            f"sum(v#3) windowspecdefinition({ORDER}, specifiedwindowframe(RowFrame, -3, currentrow$())) AS s#9",
            "set spark.saltwise.enabled=true: a window",
            87.5,
        ),
        (
            f"lag(v#3, -1, null) windowspecdefinition({ORDER}, specifiedwindowframe(RowFrame, -1, -1)) AS l#9",
            "set spark.saltwise.enabled=true: a window",
            87.5,
        ),
        (
            f"sum(v#3) windowspecdefinition({ORDER}, specifiedwindowframe(RowFrame, -101, currentrow$())) AS s#9",
            "nothing helps this window as it is, because one task needs all rows; give it a PARTITION BY",
            0,
        ),
        (
            f"max(v#3) windowspecdefinition({ORDER}, specifiedwindowframe(RangeFrame, -300, currentrow$())) AS s#9",
            "set spark.saltwise.enabled=true: a window",
            87.5,
        ),
        (
            f"max(v#3) windowspecdefinition({ORDER}, specifiedwindowframe(RangeFrame, -3, unboundedfollowing$())) AS s#9",
            "nothing helps this window as it is",
            0,
        ),
        (f"median(v#3) windowspecdefinition({ORDER}, {FRAME}) AS m#9", "nothing helps this window as it is", 0),
    ],
)
def test_a_window_without_partition_by_runs_in_slices_or_nothing_helps(
    functions: str, advice: str, gain: float
) -> None:
    window = node("Window", f"Window [{functions}], [{ORDER}]", [4], exchange("SinglePartition, ENSURE_REQUIREMENTS"))
    [found] = found_in([*started(window), task(100_000, 10_000, 0)])
    assert (found.kind, found.keys, found.command, found.lost) == (Kind.WINDOW, [], "", 87.5)
    assert found.advice.startswith(advice)
    assert found.gain.high == gain
    assert heading(1, found).startswith("1. window over all rows: ")


def test_a_query_that_python_ran_goes_by_its_functions_and_its_file() -> None:
    scan = node("Scan parquet", "FileScan parquet [k#1] Location: InMemoryFileIndex(1 paths)[file:/data/sales], x", [1])
    gateway = "save at NativeMethodAccessorImpl.java:0"
    plan = aggregate("keys=[k#1], functions=[collect_set(v#2, 0, 0), max(v#2)]", exchange(child=scan))
    [found] = found_in([*started(plan, description=gateway), *hot()])
    assert found.description == "collect_set, max of /data/sales"
    udf = node("FlatMapGroupsInPandas", "FlatMapGroupsInPandas [k#1], f(k#1, v#2)", [4], exchange())
    [found] = found_in([*started(udf, description=gateway), *hot()])
    assert found.description == ""


@pytest.mark.parametrize(
    ("key", "argument"),
    [
        ("k", '"k"'),
        ("user id", '"`user id`"'),
        ("a.b", '"`a.b`"'),
        ('concat(k, ")', 'F.expr("concat(k, \\")")'),
    ],
)
def test_the_advice_for_a_function_over_groups_is_python_code(key: str, argument: str) -> None:
    udf = node("FlatMapGroupsInPandas", f"FlatMapGroupsInPandas [{key}#1], f(v#2)", [4], exchange())
    [found] = found_in([*started(udf), *hot()])
    assert found.advice.startswith(f"df.skew_groupby({argument}) places")


def test_the_next_command_is_quoted_for_a_shell() -> None:
    scan = node("Scan parquet", "FileScan parquet [k#1] Location: InMemoryFileIndex(1 paths)[file:/a$b;c], x", [1])
    [found] = found_in([*started(aggregate("keys=[k#1], functions=[max(v#2)]", exchange(child=scan))), *hot()])
    assert found.command == "saltwise report '/a$b;c' --key k"


@pytest.mark.parametrize(
    ("plan", "low", "high"),
    [
        (aggregate("keys=[k#1], functions=[percentile(v#2)]"), True, True),
        (node("Window", "Window [rank() AS r#9], [k#1], [t#2]", [4], exchange()), True, True),
        # Whole groups go to other tasks, and the largest may be one key.
        (node("Window", "Window [median(v#3) AS r#9], [k#1], [t#2]", [4], exchange()), False, True),
        (node("FlatMapGroupsInPandas", "FlatMapGroupsInPandas [k#1], f(k#1, v#2)", [4], exchange()), False, True),
        (node("FlatMapGroupsInR", "FlatMapGroupsInR", [4], exchange()), False, False),
    ],
)
def test_the_gain_is_what_the_advice_gains_if_one_key_has_all_the_rows(plan: Event, low: bool, high: bool) -> None:
    [found] = found_in([*started(plan), *hot()])
    assert (found.gain.low > 0, found.gain.high > 0) == (low, high)
    assert found.lost > 80


def test_a_join_of_streams_has_state_to_move() -> None:
    join = node("StreamingSymmetricHashJoin", "StreamingSymmetricHashJoin [a#1], [b#2], Inner", [4], exchange())
    [found] = found_in([*started(join), *hot()])
    assert (found.kind, found.advice) == (
        Kind.STATE,
        "saltwise.StateBalancer moves state partitions to other executors",
    )


def test_of_two_shuffles_the_one_that_the_slowest_task_read_counts() -> None:
    one = aggregate("keys=[a#1], functions=[collect_list(v#2)]", exchange(read=90))
    other = aggregate("keys=[b#1], functions=[collect_list(v#2)]", exchange(read=91))
    [found] = found_in([*started(node("Union", "Union", [], one, other)), *hot(updates={90: 3, 91: 9_997})])
    assert found.keys == ["b"]


def test_group_maps_in_scala_and_r_are_not_taken_for_python() -> None:
    for text in ("MapGroups f, value#3: int, [value#3], [id#1L], obj#5", "FlatMapGroupsInR [1, 2], [4], [], [k#1]"):
        plan = node(text.split(" ")[0], text, [4], exchange())
        [found] = found_in([*started(plan), *hot()])
        assert (found.kind, found.keys) == (Kind.OTHER_GROUP_MAP, [])


def test_a_key_that_spark_computes_goes_by_its_expression() -> None:
    project = node("Project", "Project [v#2, upper(k#1) AS _groupingexpression#12]", [2], SCAN)
    plan = aggregate("keys=[_groupingexpression#12], functions=[collect_list(v#2)]", exchange(child=project))
    [found] = found_in([*started(plan), *hot()])
    assert found.keys == ["upper(k)"]


def test_the_cores_are_those_of_the_time_of_the_stage() -> None:
    conf = {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.task.cpus": "4"}}
    later = {"Event": "SparkListenerExecutorAdded", "Executor ID": "2", "Executor Info": {"Total Cores": 200}}
    [found] = found_in([conf, *started(aggregate()), *hot(), later])
    assert found.took == 107.0  # seven tasks before it on each of two slots


def test_hot_keys_belong_to_the_group_by_that_has_them() -> None:
    told = {
        "Event": "org.apache.spark.sql.saltwise.report.GroupByEvent",
        "executionId": 0,
        "keys": ["k"],
        "hotKeys": ["UA"],
        "hotRows": [10_000],
    }
    [found] = found_in([*started(aggregate()), *hot(), told, told | {"keys": ["other"], "hotKeys": ["x"]}])
    assert found.hot_keys == ["UA (10,000 rows)"]


def test_the_terminal_the_page_and_the_json_say_the_same(tmp_path: Path) -> None:
    lost = {"Reason": "ExceptionFailure", "Class Name": "java.lang.OutOfMemoryError", "Description": "<b>heap</b>"}
    events = [*CLUSTER, *started(aggregate()), task(1000, 10_000, 15, reason=lost), *hot()]
    log = tmp_path / "app-1"
    log.write_text("\n".join(json.dumps(event, separators=(",", ":")) for event in events) + "\n")
    found = advise(event_logs(log))
    assert "1 task ran out of memory." in " ".join(str(found).split())
    write_page(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "1 task ran out of memory." in page
    assert "&lt;b&gt;heap" in page
    [told] = json.loads(found.to_json())["findings"]
    assert told["task_rows"][0] == 10_000
    assert told["kind"] == "aggregate"


def test_a_log_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    events = [*CLUSTER, *started(aggregate()), *hot()]
    day = tmp_path / "2026-11-24"
    day.mkdir()
    (day / "app-1").write_text("\n".join(json.dumps(event, separators=(",", ":")) for event in events))
    (day / "app-2").write_bytes(b"LZ4Block" + b"\xff" * 13)
    (day / "eventlog_v2_app-3").mkdir()  # an application that has just begun
    (day / "eventlog_v2_app-3" / "appstatus_app-3.inprogress").write_bytes(b"")
    found = advise(event_logs(tmp_path))
    assert (found.applications, len(found.findings), len(found.unreadable)) == (1, 1, 1)
    assert "a block of lz4 has a wrong head" in " ".join(str(found).split())


def test_what_may_not_be_read_is_named_and_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "app-1", "app-2", "private/app-3":
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(json.dumps(event, separators=(",", ":")) for event in CLUSTER))

    def forbidden(method: Any) -> Any:
        def call(path: Path, *arguments: Any) -> Any:
            if path.name in ("app-2", "private"):
                raise PermissionError(13, "Permission denied", str(path))
            return method(path, *arguments)

        return call

    logs = event_logs(tmp_path)
    assert len(logs) == 3
    # Root may read everything.
    for name in "iterdir", "open":
        monkeypatch.setattr(Path, name, forbidden(getattr(Path, name)))
    logs = event_logs(tmp_path)
    (tmp_path / "app-1").rename(tmp_path / "app-4")
    assert logs[0].size == 0
    (tmp_path / "app-4").rename(tmp_path / "app-1")
    found = advise(logs)
    assert found.applications == 1
    assert [*found.unreadable.values()] == [
        f"{str(path)!r} is not an event log that can be read, because [Errno 13] Permission denied: {str(path)!r}; give "
        "one that Spark wrote."
        for path in (tmp_path / "app-2", tmp_path / "private")
    ]


def test_a_page_without_a_name_is_refused() -> None:
    with pytest.raises(SaltwiseValueError) as error:
        write_page(advise([]), Path("."))
    assert str(error.value).startswith("html is '.'; it must be a file that can be written (")


def test_a_log_that_has_an_execution_twice_counts_it_once() -> None:
    ended = {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd",
        "executionId": 0,
        "time": 9,
    }
    [found] = found_in([*started(aggregate()), *hot(), ended] * 2)
    assert (found.times, found.figures.tasks) == (1, 16)


def test_a_log_of_many_executions_is_not_kept() -> None:
    import gc

    from saltwise.advise.application import Execution

    def events() -> Iterable[bytes]:
        for i in range(300):
            ended = {
                "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd",
                "executionId": i,
                "time": 9,
            }
            for event in [*started(aggregate(), i, "q", 2 * i + 1), *hot(4, 2 * i + 1), ended]:
                yield json.dumps(event, separators=(",", ":")).encode()

    alive = []
    for number, _ in enumerate(executions(events())):
        if number == 200:
            alive = [each for each in gc.get_objects() if isinstance(each, Execution)]
    assert 0 < len(alive) < 20
