"""Advice from event logs: every codec reads, what is skewed is found, and what is healthy is not."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltwise import SaltwiseError
from saltwise.advise import application, event_log
from saltwise.advise.application import PlanNode, executions
from saltwise.advise.event_log import EventLogError, event_logs
from saltwise.advise.fragments import Kind, fragments, keys_of, kind_of, needs_shuffle
from saltwise.advise.schedule import evened, gain, makespan

LINES = [
    b'{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}',
    *(b'{"Event":"Other","n":%d}' % i for i in range(5000)),
]
TEXT = b"\n".join(LINES) + b"\n"


def plain(text: bytes) -> bytes:
    return text


def zstd(text: bytes) -> bytes:
    """Two frames, as a writer makes that flushes."""
    half = len(text) // 2
    return b"".join(pa.compress(part, "zstd", asbytes=True) for part in (text[:half], text[half:]))


def lz4(text: bytes) -> bytes:
    out = b""
    for at in range(0, len(text), 32_768):
        block = text[at : at + 32_768]
        packed = pa.compress(block, "lz4_raw", asbytes=True)
        raw = at == 32_768  # one block as it is
        out += struct.pack("<8sBiii", b"LZ4Block", 0x10 if raw else 0x20, len(block if raw else packed), len(block), 0)
        out += block if raw else packed
    return out + struct.pack("<8sBiii", b"LZ4Block", 0x10, 0, 0, 0)


def snappy(text: bytes) -> bytes:
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for at in range(0, len(text), 32_768):
        packed = pa.compress(text[at : at + 32_768], "snappy", asbytes=True)
        out += struct.pack(">i", len(packed)) + packed
    return out


CODECS = [plain, zstd, lz4, snappy, gzip.compress]


@pytest.mark.parametrize("codec", CODECS)
def test_a_log_reads_line_by_line_whatever_it_is_compressed_with(
    tmp_path: Path, codec: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "app-1").write_bytes(codec(TEXT))
    [log] = event_logs(tmp_path / "app-1")
    read: list[int] = []
    assert list(log.lines(read.append)) == LINES
    assert sum(read) == log.size


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_a_log_that_was_cut_ends_there(
    tmp_path_factory: Any, codec: Callable[[bytes], bytes], data: st.DataObject
) -> None:
    whole = codec(TEXT)
    cut = data.draw(st.integers(20, len(whole)))
    path = tmp_path_factory.mktemp("logs") / "app"
    path.write_bytes(whole[:cut])
    found = list(event_logs(path)[0].lines())
    assert found == LINES[: len(found)]


def test_a_log_that_rolls_is_read_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "appstatus_app-1").write_bytes(b"")
    for number in range(1, 12):
        (folder / f"events_{number}_app-1").write_bytes(b'{"Event":"E","n":%d}\n' % number)
    [log] = event_logs(tmp_path)
    assert [json.loads(line)["n"] for line in log.lines()] == list(range(1, 12))
    (folder / "events_4_app-1.compact").write_bytes(b'{"Event":"E","n":0}\n')
    [log] = event_logs(folder)
    assert [json.loads(line)["n"] for line in log.lines()] == [0, *range(5, 12)]


@pytest.mark.parametrize("codec", CODECS)
def test_a_line_that_is_too_long_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(event_log, "MAX_LINE", 100_000)
    monkeypatch.setattr(event_log, "_CHUNK", 1000)
    long = b'{"Event":"' + b"x" * 100_001 + b'"}'
    (tmp_path / "app-1").write_bytes(codec(b"\n".join([*LINES, long, *LINES, long])))
    assert list(event_logs(tmp_path / "app-1")[0].lines()) == [*LINES, *LINES]


@pytest.mark.parametrize("chunk", [1, 7, 40, 1 << 20])
def test_lines_that_are_no_events_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(event_log, "_CHUNK", chunk)
    other = b'a note on {"Event":"E"}'
    (tmp_path / "app-1").write_bytes(b"\n".join([LINES[0], b"", b"", other, *LINES[1:], other]))
    assert list(event_logs(tmp_path / "app-1")[0].lines()) == LINES


def test_a_log_that_is_far_larger_than_its_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(zstd(TEXT + b"\n" * (16 << 20)))
    lines = event_logs(tmp_path / "app-1")[0].lines()
    with pytest.raises(EventLogError, match="it is more than 250 times as large as its file"):
        list(lines)


def test_a_folder_with_links_to_itself_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(TEXT)
    for name in "ab":
        (tmp_path / name).symlink_to(tmp_path)
    assert [log.path.name for log in event_logs(tmp_path)] == ["app-1"]


def test_a_file_that_is_no_log_is_refused_or_passed_over(tmp_path: Path) -> None:
    for path, why in (
        (tmp_path / "none", "the path does not exist"),
        (tmp_path, "the folder has no event log"),
    ):
        with pytest.raises(EventLogError) as error:
            event_logs(path)
        assert (
            str(error.value)
            == f"{str(path)!r} is not an event log that can be read, because {why}; give one that Spark wrote."
        )
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "app").write_bytes(TEXT)
    assert [log.path.name for log in event_logs(tmp_path)] == ["app"]
    with pytest.raises(SaltwiseError, match="it begins neither with an event nor like lz4, snappy, zstd or gzip"):
        list(event_logs(tmp_path / "notes.txt")[0].lines())


def test_of_files_with_gzip_only_those_of_events_are_logs(tmp_path: Path) -> None:
    (tmp_path / "eventlog-2026-11-24.gz").write_bytes(gzip.compress(TEXT))
    (tmp_path / "log4j-2026-11-24.log.gz").write_bytes(gzip.compress(b"26/11/24 INFO ready\n" * 99))
    assert [log.path.name for log in event_logs(tmp_path)] == ["eventlog-2026-11-24.gz"]


def test_a_log_with_lzf_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "app.lzf").write_bytes(b"ZV\x01\x00\x05\x00\x07abcde")
    [log] = event_logs(tmp_path)
    with pytest.raises(EventLogError, match="because it is compressed with lzf, which cannot be read here; "):
        list(log.lines())


def test_a_frame_that_is_damaged_is_no_end_of_a_log(tmp_path: Path) -> None:
    damaged = bytearray(gzip.compress(TEXT))
    damaged[-6] ^= 1  # in the checksum
    (tmp_path / "app").write_bytes(damaged)
    with pytest.raises(EventLogError, match=r"because a frame of gzip cannot be decompressed: .*incorrect data check"):
        list(event_logs(tmp_path)[0].lines())
    (tmp_path / "app").write_bytes(zstd(TEXT) + b"no frame")
    with pytest.raises(EventLogError, match="because a frame of zstd cannot be decompressed: "):
        list(event_logs(tmp_path)[0].lines())


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EventLogError, match=r"because .*File name too long"):
        event_logs(tmp_path / ("x" * 300))


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=60), st.integers(1, 16))
def test_even_tasks_are_never_slower_than_the_best_schedule(millis: list[int], cores: int) -> None:
    now, even = makespan(millis, cores), evened(millis, cores)
    assert even.low <= now + 1e-9
    assert now <= sum(millis) / 1000 + 1e-9
    assert 0 <= gain(millis, cores).low <= gain(millis, cores).high


def node(name: str, text: str = "", metrics: tuple[int, ...] = (), *children: PlanNode) -> PlanNode:
    return PlanNode(name, text or name, frozenset(metrics), children)


def test_a_stage_is_known_by_its_accumulators() -> None:
    scan = node("Scan parquet", "", (1,))
    partial = node("ObjectHashAggregate", "ObjectHashAggregate(keys=[k#1], functions=[partial_x])", (2,), scan)
    read = node("AQEShuffleRead", "", (5,), node("ShuffleQueryStage", "", (), node("Exchange", "", (3,), partial)))
    final = node("ObjectHashAggregate", "ObjectHashAggregate(keys=[k#1], functions=[x])", (4,), read)
    above, below = fragments(node("AdaptiveSparkPlan", "", (), node("WholeStageCodegen (1)", "", (6,), final)))
    assert above.accumulators == {4, 5, 6}
    assert below.accumulators == {1, 2}
    assert needs_shuffle(above.reads[0]) is final
    assert below.reads == []


@pytest.mark.parametrize(
    ("name", "text", "kind", "keys"),
    [
        (
            "HashAggregate",
            "HashAggregate(keys=[a#1, pmod(b#2L, 7) AS c#3L], functions=[sum(d#4)])",
            Kind.AGGREGATE,
            ["a", "pmod(b, 7) AS c"],
        ),
        (
            "Window",
            "Window [rank(x#1) windowspecdefinition(k#2, x#1 ASC) AS r#5], [k#2], [x#1 ASC NULLS FIRST]",
            Kind.WINDOW,
            ["k"],
        ),
        ("FlatMapGroupsInPandas", "FlatMapGroupsInPandas [k#1L], f(k#1L, v#2)#3, [v#4]", Kind.GROUP_MAP, ["k"]),
        ("SortMergeJoin", "SortMergeJoin [k#1], [id#9], Inner", Kind.JOIN, ["k"]),
        ("BroadcastHashJoin", "BroadcastHashJoin [k#1], [id#9], Inner, BuildRight", Kind.OTHER, ["k"]),
        ("Project", "Project", Kind.OTHER, []),
    ],
)
def test_the_keys_of_an_operator_are_those_of_its_plan(name: str, text: str, kind: Kind, keys: list[str]) -> None:
    assert kind_of(node(name, text)) is kind
    assert keys_of(node(name, text), node(name, text)) == keys


def test_a_long_plan_is_read_in_linear_time() -> None:
    letters, calls = "x" * 10**6, "f(" * 300_000
    one = node("ObjectHashAggregate", f"ObjectHashAggregate(keys=[{letters}], functions=[{calls}])")
    assert keys_of(one, one) == [letters]
    computed = [f"_groupingexpression#{i}" for i in range(20_000)]
    below = node("Project", f"Project [{', '.join(f'f({i}) AS {name}' for i, name in enumerate(computed))}]")
    several = node("ObjectHashAggregate", f"ObjectHashAggregate(keys=[{', '.join(computed)}])", (), below)
    assert keys_of(several, several)[-1] == "f(19999)"
    assert keys_of(node("Exchange", "hashpartitioning(" * 50_000), one) == []
    assert makespan([1000, 3000], cores=10**18) == 3.0


def executed(**changes: object) -> list[bytes]:
    """Return the lines of an execution, with other values at its start."""
    plan = {"nodeName": "Scan", "simpleString": "Scan", "children": [], "metrics": []}
    sql = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    event = {"Event": sql, "executionId": 7, "description": "d", "time": 1, "sparkPlanInfo": plan} | changes
    return [json.dumps(event, separators=(",", ":")).encode()]


@pytest.mark.parametrize(
    "changes",
    [
        {"executionId": "<b>"},
        {"executionId": 10**20},
        {"time": -1},
        {"description": ["d"]},
        {"modifiedConfigs": {"spark.task.cpus": 1}},
        {"sparkPlanInfo": {"nodeName": 7, "simpleString": "", "children": [], "metrics": []}},
    ],
)
def test_an_event_with_values_of_a_wrong_type_is_passed_over(changes: dict[str, object]) -> None:
    assert [each.id for each in executions(executed())] == [7]
    assert list(executions(executed(**changes))) == []


def test_a_plan_of_too_many_operators_is_passed_over() -> None:
    scan = {"nodeName": "Scan", "simpleString": "Scan", "children": [], "metrics": []}
    deep: dict[str, Any] = scan
    for _ in range(350):
        deep = scan | {"children": [deep]}
    assert list(executions(executed(sparkPlanInfo=deep))) == []
    assert list(executions(executed(sparkPlanInfo=scan | {"children": [scan] * 10_000}))) == []


def test_a_text_is_shown_without_orders_to_the_terminal() -> None:
    [execution] = executions(executed(description="a\x1b[31m\ud800\nb"))
    assert execution.description == "a [31m \nb"


def test_of_executions_that_never_end_only_the_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "_MAX_EXECUTIONS", 3)
    found = executions(line for i in range(9) for line in executed(executionId=i))
    assert [next(found).id for _ in range(6)] == [0, 1, 2, 3, 4, 5]


def test_lines_that_are_damaged_are_passed_over() -> None:
    lines = [b'{"Event":"SparkListenerLogStart","Spark Version":"3.5.9"}', b"{", b'{"Event":"SparkListenerTaskEnd"']
    assert list(executions(lines)) == []
