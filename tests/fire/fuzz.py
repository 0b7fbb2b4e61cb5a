"""Damages what Saltwise reads, again and again: each time there must be an answer, or an error of ours.

    python tests/fire/fuzz.py --mutations 1000000 [--formats sketch,function,...] [--seed 1]

Cuts, flips bits, writes other counts and paths, repeats parts, nests deeply, puts parts of one example into another, and
gives JSON other values. Where a checksum guards a format, most mutations are made before it is computed: an attacker
computes it too. Most of those of event logs are made before the log is compressed, and some of these become very long.

What could be read is used: keys are placed, a store plans, sketches are merged, findings become a page. Reading and using
must not raise anything but a SaltwiseError, nor take more than a second of the processor and one more for each 256 KB, nor
more than 64 MB; otherwise the exit status is 1. In Python, the memory is what the process has resident beyond what it had,
and code that runs and files that change are noticed too. In Java, the memory is all that the thread allocates, and files
are looked at once, in the folder in which Java runs. `java-event` reads an event as a History Server does and draws the
tab.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import re
import resource
import struct
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType
from rich.cells import cell_len

from saltwise import SaltwiseError
from saltwise.advise.event_log import MAX_BLOCK, event_logs
from saltwise.advise.page import page
from saltwise.advise.report import Advice, advise
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.construct import construct
from saltwise.placement.function_json import FORMAT as FUNCTION
from saltwise.placement.function_json import VERSION as FUNCTION_VERSION
from saltwise.placement.function_json import from_json, to_json
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.history import PlacementHistory
from saltwise.placement.key_groups import KeyGroups
from saltwise.placement.partition_function import PartitionFunction, UniformHash
from saltwise.placement.store import FORMAT as STORE
from saltwise.placement.store import VERSION as STORE_VERSION
from saltwise.placement.store import PlacementStore
from saltwise.placement.weights import Weights
from saltwise.rebalancing.key_group_history import KeyGroupHistory
from saltwise.sketches.sliding_counts import SlidingCounts
from saltwise.sketches.space_saving import SpaceSaving
from saltwise.spark.kept_state.commit import FORMAT as STATE
from saltwise.spark.kept_state.commit import VERSION as STATE_VERSION
from saltwise.spark.kept_state.commit import Commit, KeptColumns
from saltwise.spark.kept_state.folder import COMMIT, StateFolder, StatefulAggregateError
from saltwise.splitting.compiled_hash import worker_of
from saltwise.splitting.head_split import head_splits
from saltwise.versioned_json import MAX_DEPTH, dump_versioned

MAX_SECONDS, MAX_BYTES = 1.0, 64 << 20
PER_SECOND = 256 << 10
"""Bytes of an example for which it may take a second more."""
MAX_ADDRESSES = 1 << 30
"""Bytes of addresses that the whole process may take beyond what it had."""
MAX_WRONG = 20
"""A run ends where more than so many things were wrong."""
COUNTS = [0, 1, 2, 10**6, 10**7, 10**8, 10**9, 2**31 - 1, 2**31, 2**32 - 1]
NUMBERS = [b"-1", b"1000000", b"100000000", b"1000000000", b"9" * 20, b"1e999", b"0.5", b"null", b"[]", b'"x"']
MARK = b"<b id=mark>"
"""Must not be in a page as it is."""
PATHS = [b"../../x", b"/etc/passwd", b"file:///etc/passwd", b"a\\u0000b", b"version=0000000001/unit=0/../x.parquet"]
PATHS += [MARK]
VALUES: list[Any] = [None, True, -1, 0.5, 1e308, float("inf"), float("nan"), [], {}, [[]], [0], {"x": 0}]
VALUES += [2**63 - 1, 2**63, -(2**63) - 1, 10**20, 10**400]
TEXTS = ["", "x", "-7", str(2**63), "9" * 5000, "\ud800", "a\x1b[31m", *(path.decode() for path in PATHS)]
EDGES = np.array([-(2**63), -1, 0, 1, 2**63 - 1])
ENCODINGS = ("utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16", "utf-32")
"""Python runs their modules when they are used first, and that is not what the run looks for."""
_TEXT = re.compile(rb'"[^"\\]*"')

Reader = Callable[[bytes], object]
Sign = Callable[[random.Random, bytes], bytes]


class Meter:
    """Measures what this process takes."""

    def start(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the highest resident memory is what it is now
        self._before = _resident("VmRSS")
        self._begun = time.process_time()

    def stop(self) -> tuple[float, int]:
        """Return the seconds of the processor since `start`, and the bytes."""
        seconds = time.process_time() - self._begun
        return seconds, _resident("VmHWM") - self._before


def _resident(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text[text.index(name) :].split(maxsplit=2)[1]) << 10


@dataclass(frozen=True)
class Format:
    """What is read, and how."""

    examples: list[bytes]
    read: Reader
    """Read an example, and use what was read."""
    sign: Sign
    """Make damaged input pass what only finds accidents: give it the checksum that it needs, or compress it."""
    file: Path | None = None
    """Where the input lies, if it is not handed over."""
    writes: bool = False
    """Whether using it replaces that file."""
    max_bytes: int = MAX_BYTES
    meter: Meter = field(default_factory=Meter)


def sketch(folder: Path) -> Format:
    examples = []
    for items, item_type in ((["a", "b", None, "a", "é"], "string"), ([1, 2, 1, -7, None], "bigint")):
        counted = SpaceSaving(8, item_type)
        for item in items:
            counted.offer(item)
        examples.append(counted.to_bytes())

    def sign(rng: random.Random, data: bytes) -> bytes:
        return data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")

    return Format(examples, use_sketch, sign)


def use_sketch(data: bytes) -> None:
    read = SpaceSaving.from_bytes(data)
    read.merge(SpaceSaving(3, read.item_type))
    for item in ("x", "y") if read.item_type == "string" else (7, 8):
        read.estimate(item)
        if read.total < 2**62:
            read.offer(item)
    assert SpaceSaving.from_bytes(read.to_bytes()).top() == read.top()
    read.merge(SpaceSaving.from_bytes(data))


FUNCTIONS: list[PartitionFunction] = [
    HashPair(4, "string", {7: 1, -9: 3}),
    UniformHash(9, "string"),
    ConsistentHash(4, "string"),
    KeyGroups(3, "string", [0, 1, 2, 1]),
]
RUN = Weights("string", np.arange(9), np.arange(1.0, 10.0), 60.0)


def function(folder: Path) -> Format:
    examples = [to_json(each).encode() for each in FUNCTIONS]
    return Format(examples, use_function, signed(FUNCTION, FUNCTION_VERSION))


def use_function(data: bytes) -> None:
    read = from_json(data.decode(errors="replace"))
    placed = read.place(EDGES)
    assert placed.min() >= 0
    assert placed.max() < read.workers
    assert from_json(to_json(read)) == read


def store(folder: Path) -> Format:
    file = folder / "placement.json"
    examples = []
    for each in FUNCTIONS:
        history = PlacementHistory()
        history.next(RUN, 3)
        history.function = each
        examples.append(dump_versioned(STORE, STORE_VERSION, history.to_content()).encode())

    def read(data: bytes) -> None:
        kept = PlacementStore(folder)
        str(kept.plan(RUN, 3))
        assert kept.function is not None

    return Format(examples, read, signed(STORE, STORE_VERSION), file, writes=True)


def log(folder: Path) -> Format:
    file = folder / "app"
    max_bytes = MAX_BYTES + 2 * MAX_BLOCK
    return Format(in_codecs(log_text()), lambda data: use_log(file), compressed, file, max_bytes=max_bytes)


def rolling_log(folder: Path) -> Format:
    """A log of two files, of which the second one is damaged."""
    rolling = folder / "eventlog_v2_app"
    rolling.mkdir()
    lines = log_text().splitlines(keepends=True)
    (rolling / "events_1_app").write_bytes(b"".join(lines[:8]))
    return replace(
        log(folder),
        examples=in_codecs(b"".join(lines[8:])),
        read=lambda data: use_log(folder),
        file=rolling / "events_2_app",
    )


def use_log(path: Path) -> Advice:
    """Read a log, and show what was found in each way."""
    found = advise(event_logs(path), with_keys=True)
    str(found)
    json.loads(found.to_json())
    for html in page(found.findings, found.summary, "fuzz"), found._repr_html_():
        assert MARK not in html.encode()
    return found


def log_text() -> bytes:
    """Return an event log that is not compressed, of a query whose keys are skewed."""
    scan = {"nodeName": "Scan", "simpleString": "Scan", "children": [], "metrics": []}
    metrics = [{"name": "records read", "accumulatorId": 4, "metricType": "sum"}]
    exchange = {
        "nodeName": "Exchange",
        "simpleString": "Exchange hashpartitioning(k#1, 2)",
        "children": [scan],
        "metrics": metrics,
    }
    plan = {
        "nodeName": "HashAggregate",
        "simpleString": "HashAggregate(keys=[k#1], functions=[sum(v#2)])",
        "children": [exchange],
        "metrics": [{"name": "number of output rows", "accumulatorId": 5, "metricType": "sum"}],
    }
    sql = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
        {"Event": "SparkListenerApplicationStart", "App Name": "a", "App ID": "app-1", "Timestamp": 0},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.task.cpus": "1"}},
        {"Event": "SparkListenerExecutorAdded", "Executor ID": "1", "Executor Info": {"Total Cores": 4}},
        {"Event": sql + "Start", "executionId": 0, "description": "d", "time": 1, "sparkPlanInfo": plan},
        {"Event": "SparkListenerJobStart", "Stage IDs": [0], "Properties": {"spark.sql.execution.id": "0"}},
    ]
    for task, rows in enumerate((3, 90_000)):
        info = {
            "Task ID": task,
            "Index": task,
            "Partition ID": task,
            "Launch Time": 1,
            "Finish Time": 9 + rows,
            "Accumulables": [{"ID": 4, "Update": str(rows)}, {"ID": 5, "Update": "1"}],
        }
        read = {"Total Records Read": rows, "Local Bytes Read": rows, "Remote Bytes Read": 0}
        events += [
            {"Event": "SparkListenerTaskStart", "Stage ID": 0, "Task Info": info},
            {
                "Event": "SparkListenerTaskEnd",
                "Stage ID": 0,
                "Task End Reason": {"Reason": "Success"},
                "Task Info": info,
                "Task Metrics": {"Shuffle Read Metrics": read, "Memory Bytes Spilled": 0},
            },
        ]
    events += [
        {"Event": "SparkListenerStageCompleted", "Stage Info": {"Stage ID": 0, "Accumulables": [{"ID": 4}, {"ID": 5}]}},
        {"Event": sql + "End", "executionId": 0, "time": 90_010},
        {
            "Event": "org.apache.spark.sql.saltwise.report.GroupByEvent",
            "executionId": 0,
            "keys": ["k"],
            "hotKeys": ["UA"],
            "hotRows": [80_000],
        },
        {"Event": "SparkListenerExecutorRemoved", "Executor ID": "1"},
    ]
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events).encode()


def in_codecs(text: bytes) -> list[bytes]:
    """Return a log as it is, and by each codec."""
    return [text, in_zstd(text), in_lz4(text), in_snappy(text)]


def in_zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)  # type: ignore[no-any-return]


def in_lz4(data: bytes) -> bytes:
    """Compress as lz4-java does, in one block."""
    block: bytes = pa.compress(data, "lz4_raw", asbytes=True)
    return struct.pack("<8sBiii", b"LZ4Block", 0x26, len(block), len(data), 0) + block


def in_snappy(data: bytes) -> bytes:
    """Compress as snappy-java does, in one block."""
    block: bytes = pa.compress(data, "snappy", asbytes=True)
    return b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", len(block)) + block


def compressed(rng: random.Random, data: bytes) -> bytes:
    """Compress a log. Some become very long first, by what takes few bytes afterwards."""
    if rng.random() < 0.05:
        part = rng.choice([b"\n", b" ", b"[],", b'{"Event":"x"}\n', data + b"\n"])
        data += part * ((1 << rng.randrange(10, 25)) // len(part))
    return rng.choice([in_zstd, in_lz4, in_snappy])(data)


def state(folder: Path) -> Format:
    placed, groups = PlacementHistory(), KeyGroupHistory(4)
    placement = placed.next(RUN, 3)
    groups.next(np.arange(4.0), np.ones(4), 2, "flux", "string")
    heads: SlidingCounts[int | None] = SlidingCounts(1000, 0.001)
    heads.offer_together({7: 600, None: 400})
    columns = StructType().add("k0", "string").add("hash", "long").add("n", "decimal(10,2)")
    files = {0: {"version=0000000001/unit=0/part-0.parquet": 17}, -1: {}}
    commit = Commit(
        history=placed,
        heads=heads,
        version=1,
        batch=4,
        latest=77,
        files=files,
        columns=KeptColumns(columns, columns, {"n": "sum(v) AS n"}, ["sum"]),
        placement=placement,
    )
    opened = StateFolder(folder, commit)

    def read(data: bytes) -> None:
        last = opened.read()
        assert repr(last.placement)
        assert last.to_json()
        if last.heads is not None:
            head_splits(last.heads, 3)
        if isinstance(last.history, KeyGroupHistory):
            # A planner may take its time with many groups.
            if last.history.groups < 100:
                ones = np.ones(last.history.groups)
                last.history.next(ones, ones, 2, "flux", "string")
        else:
            last.history.next(RUN, 3)
        assert all((folder / name).resolve().is_relative_to(folder) for each in last.files.values() for name in each)
        with suppress(StatefulAggregateError):
            # The files are not there, so no session is asked.
            if any(last.files.values()) and last.columns is not None:
                opened.rows(None, last.columns.state, last.files.values())  # type: ignore[arg-type]

    examples = [each.to_json().encode() for each in (commit, replace(commit, history=groups, heads=None))]
    return Format(examples, read, signed(STATE, STATE_VERSION), folder / COMMIT)


class JavaMeter(Meter):
    """Measures what the thread of Java takes that answers this one."""

    def __init__(self, jvm: Any) -> None:
        self._threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()

    def start(self) -> None:
        self._nanos, self._allocated = self._now()

    def stop(self) -> tuple[float, int]:
        nanos, allocated = self._now()
        return (nanos - self._nanos) / 1e9, allocated - self._allocated

    def _now(self) -> tuple[int, int]:
        return self._threads.getCurrentThreadCpuTime(), self._threads.getCurrentThreadAllocatedBytes()


def in_java(format: Format, read: Callable[[bytes], object]) -> Format:
    """Return a format that the plugin reads, in a session of its own."""
    from py4j import java_gateway, protocol

    jvm: Any = plain_session()._jvm
    class_of = jvm.org.apache.spark.util.Utils.classForName
    is_ours = class_of("org.apache.spark.sql.saltwise.SaltwiseException", True, False).isInstance

    def reader(data: bytes) -> object:
        try:
            # PySpark makes an error of its own of each, and asks Java forty times for that.
            with patch.object(java_gateway, "get_return_value", protocol.get_return_value):
                return read(data)
        except protocol.Py4JJavaError as error:
            if is_ours(error.java_exception):
                raise SaltwiseError(error.java_exception.toString()) from error
            raise

    return replace(format, read=reader, meter=JavaMeter(jvm))


@cache
def java_folder() -> Path:
    """The folder in which Java runs. It stays as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="saltwise-java-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def plain_session() -> Any:
    from pyspark.sql import SparkSession

    import saltwise

    here = Path.cwd()
    os.chdir(java_folder())
    try:
        builder = SparkSession.builder.master("local[1]").config("spark.ui.port", "0")
        return saltwise.configure(builder).getOrCreate()
    finally:
        os.chdir(here)


def plugin() -> Any:
    return plain_session()._jvm.org.apache.spark.sql.saltwise


def java_sketch(folder: Path) -> Format:
    deserialize = plugin().sketch.ItemSketch.deserialize

    def read(data: bytes) -> None:
        sketch = deserialize(bytearray(data))
        sketch.merge(deserialize(bytearray(data)))
        deserialize(sketch.serialize())

    values = ["struct('a' AS s, array(1, null) AS a)", "CAST(1.5 AS DECIMAL(20, 3))", "X'00ff'", "array(struct(1.5D))"]
    sketches = ", ".join(f"space_saving_agg({value}, 3)" for value in values)
    [row] = plain_session().sql(f"SELECT {sketches}").collect()
    plain = sketch(folder)
    return in_java(replace(plain, examples=[*plain.examples, *map(bytes, row)]), read)


def java_function(folder: Path) -> Format:
    functions = plugin().placement.PartitionFunctionJson
    parse, write = functions.read, functions.write

    def read(data: bytes) -> None:
        saved = parse(data.decode(errors="replace")).function()
        for key in EDGES.tolist():
            assert 0 <= saved.place(key) < saved.workers()
        parse(write(saved, "string"))

    return in_java(function(folder), read)


def java_hot(folder: Path) -> Format:
    """Hot keys, as ``hot=`` and ``spark.saltwise.hot`` give them."""
    columns = "s string, i int, d double, t timestamp, b binary, a array<int>, n struct<p: int, q: string>"
    rows = plain_session().createDataFrame([], columns)
    grouping = rows._jdf.queryExecution().analyzed().output()
    key = ["UA", 7, 0.5, "2020-01-01 00:00:00", "AQID", [1, None], {"p": 1, "q": "x"}]
    examples = [
        json.dumps([{"key": key, "share": 0.17}]).encode(),
        json.dumps([{"key": [None] * len(key)}, {"key": key}]).encode(),
    ]
    parse = plugin().routing.HotKeys.parse
    return in_java(
        Format(examples, lambda data: None, unsigned), lambda data: parse(data.decode(errors="replace"), grouping)
    )


def java_event(folder: Path) -> Format:
    """Our events in an event log, as a History Server reads and draws them."""
    from py4j.protocol import Py4JJavaError

    spark = plain_session()
    jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
    report, parse = plugin().report, jvm.org.apache.spark.util.JsonProtocol.sparkEventFromJson
    conf = context.conf().clone().set("spark.sql.ui.retainedExecutions", "3")
    kept = jvm.org.apache.spark.status.ElementTrackingStore(jvm.org.apache.spark.util.kvstore.InMemoryStore(), conf)
    listener, store = report.ReportListener(conf, kept), report.ReportStore(kept)
    tab = report.SaltwiseTab(store, context.ui().get())
    pages = [report.AllGroupsPage(tab), report.OneGroupPage(tab)]
    answer = jvm.java.util.concurrent.atomic.AtomicReference()
    request = request_of(spark, answer)
    string_builder = jvm.scala.collection.mutable.StringBuilder

    def read(data: bytes) -> None:
        try:
            event = parse(data.decode(errors="replace"))
        except Py4JJavaError as error:
            raise SaltwiseError("Spark itself does not read it") from error
        listener.onOtherEvent(event)
        groups = store.groupBys()
        answer.set("" if groups.isEmpty() else str(groups.head().id()))
        for each in pages:
            # The page stays in Java, since a long text waits for the network.
            assert each.render(request).addString(string_builder()).indexOf(MARK.decode()) < 0

    package = "org.apache.spark.sql.saltwise.report."
    group = dict.fromkeys(("executionId", "number", "ended", "millis", "workers", "rows", "most", "read"), 3)
    group |= dict.fromkeys(("all", "head", "raw", "states", "memory", "saved", "fingerprint"), 3)
    texts = dict.fromkeys(("description", "operator", "strategy", "reason", "wouldRun"), "x")
    lists = {"keys": ["k"], "functions": ["sum(v)"], "received": [1, 2], "hotKeys": ["UA"], "hotRows": [2]}
    batch = {"run": "r", "name": "n", "batch": 1, "aggregate": "saltwise", "strategy": "dchoices", "workers": 4}
    batch |= {"choices": 2, "rows": 9, "most": 3, "hotKeys": ["UA"], "hotRows": [2]}
    states = {"run": "r", "batch": 1, "executors": ["1", "2"], "millis": [3, 4], "moved": 1}
    examples = [
        {"Event": f"{package}GroupByEvent", **group, **texts, **lists, "failed": False},
        {"Event": f"{package}StreamBatchEvent", **batch},
        {"Event": f"{package}StateBalanceEvent", **states},
    ]
    text = [json.dumps(example).encode() for example in examples]
    return in_java(Format(text, lambda data: None, unsigned), read)


def request_of(spark: Any, answer: Any) -> Any:
    """Return a request of a browser whose headers and parameters all have the value of an AtomicReference."""
    jvm, new_array = spark._jvm, spark.sparkContext._gateway.new_array
    invoke, reflect, named = jvm.java.lang.invoke, jvm.java.lang.reflect, jvm.java.lang.Class.forName
    arguments, kinds = new_array(jvm.java.lang.Class, 3), new_array(jvm.java.lang.Class, 1)
    for i, name in enumerate(("java.lang.Object", "java.lang.reflect.Method", "[Ljava.lang.Object;")):
        arguments[i] = named(name)
    kinds[0] = named("jakarta.servlet.http.HttpServletRequest")
    get = invoke.MethodHandles.publicLookup().bind(answer, "get", invoke.MethodType.methodType(arguments[0]))
    handle = invoke.MethodHandles.dropArguments(get, 0, arguments)
    handler = invoke.MethodHandleProxies.asInterfaceInstance(named("java.lang.reflect.InvocationHandler"), handle)
    return reflect.Proxy.newProxyInstance(kinds[0].getClassLoader(), kinds, handler)


def unsigned(rng: random.Random, data: bytes) -> bytes:
    """Return the same: no checksum guards it."""
    return data


IN_JAVA = {
    "java-sketch": java_sketch,
    "java-function": java_function,
    "java-hot": java_hot,
    "java-event": java_event,
}
FORMATS = {
    "sketch": sketch,
    "function": function,
    "store": store,
    "state": state,
    "log": log,
    "rolling-log": rolling_log,
}


def signed(format: str, version: int) -> Sign:
    """Return what gives damaged JSON the checksum that it needs."""

    def sign(rng: random.Random, data: bytes) -> bytes:
        try:
            content = json.loads(data)
            content = {name: value for name, value in content.items() if name not in ("format", "version", "crc32")}
            return dump_versioned(format, version, content).encode()
        except (ValueError, AttributeError, RecursionError):
            return data

    return sign


def mutated(rng: random.Random, examples: list[bytes]) -> bytes:
    data = bytearray(rng.choice(examples))
    if rng.random() < 0.5 and (changed := revalued(rng, bytes(data))) is not None:
        return changed
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(9)
        if kind == 0:
            del data[at:]
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[at : at + 4] = rng.choice(COUNTS).to_bytes(4, "little")
        elif kind == 3:
            data[at:at] = data[at : at + rng.randrange(1, 40)] * rng.choice([1, 3, 50])
        elif kind == 4:
            other = rng.choice(examples)
            data[at : at + 8] = other[rng.randrange(len(other)) :][:8]
        elif kind == 5:
            numbers = [i for i, letter in enumerate(data) if 48 <= letter <= 57]
            if numbers:
                place = rng.choice(numbers)
                data[place : place + 1] = rng.choice([*NUMBERS, nested(rng)])
        elif kind == 6:
            data[at:at] = rng.choice([b"[", b'{"a":']) * depth(rng)
        elif kind == 7 and (texts := [*_TEXT.finditer(data)]):
            chosen = rng.choice(texts)
            data[chosen.start() + 1 : chosen.end() - 1] = rng.choice(PATHS)
        else:
            del data[at : at + rng.randrange(1, 9)]
    return bytes(data)


def revalued(rng: random.Random, data: bytes) -> bytes | None:
    """Replace, remove or repeat some values of the JSON in a line, or in a sketch; None if that has none."""
    if data.startswith(b"SALT"):
        end = 9 + int.from_bytes(data[5:9], "little")
        declared = revalued(rng, data[9:end])
        return declared and data[:5] + len(declared).to_bytes(4, "little") + declared + data[end:]
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        content = json.loads(lines[at])
    except (ValueError, RecursionError):
        return None
    for _ in range(rng.choice([1, 1, 2, 5])):
        places = [*places_in(content)]
        if not places:
            break
        inside, name = rng.choice(places)
        other, other_name = rng.choice(places)
        value = inside[name]
        kind = rng.randrange(6)
        if isinstance(value, str) and value.startswith('{"format"'):
            inside[name] = signed(FUNCTION, FUNCTION_VERSION)(rng, mutated(rng, [value.encode()])).decode("latin-1")
        elif kind == 0:
            del inside[name]
        elif kind == 1:
            with suppress(RecursionError):
                inside[name] = json.loads(json.dumps(other[other_name]))
        elif kind == 2 and isinstance(value, list):
            inside[name] = value * 3
        elif kind == 3 and isinstance(inside, dict):
            inside[rng.choice(TEXTS)] = inside.pop(name)
        else:
            inside[name] = deepcopy(rng.choice([*COUNTS, *VALUES, *TEXTS]))
    with suppress(RecursionError):
        lines[at] = json.dumps(content, separators=(",", ":")).encode()
    return b"\n".join(lines)


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place of a value: the list or the object, and the index or the name."""
    waiting = [value]
    while waiting:
        inside = waiting.pop()
        if isinstance(inside, (dict, list)):
            for name in inside if isinstance(inside, dict) else range(len(inside)):
                yield inside, name
                waiting.append(inside[name])


def depth(rng: random.Random) -> int:
    """Return how deep to nest: a little, or about as deep as we read, as Python reads, or as Java does."""
    around = rng.choice([MAX_DEPTH, sys.getrecursionlimit(), 1000])
    return rng.choice([3, rng.randrange(around // 2, around + 10), 5 * around])


def nested(rng: random.Random) -> bytes:
    """Return JSON that is nested and whole."""
    levels = depth(rng)
    begin, end = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return begin * levels + b"0" + end * levels


class Watch:
    """Notes what code is run, and what is written outside of a folder, by the audit events of Python."""

    NEVER = ("pickle.find_class", "exec", "compile", "subprocess.Popen", "os.system", "socket.connect")
    CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "shutil.rmtree")

    def __init__(self) -> None:
        self.folder: Path | None = None
        """Where files may be written; None while nothing is watched."""
        self.seen: list[str] = []
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event in self.NEVER:
            self.seen.append(f"{event} {arguments!r:.200}")
        elif event in self.CHANGES or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
            path = Path(os.fsdecode(arguments[0]))
            if not path.resolve().is_relative_to(self.folder):
                self.seen.append(f"{event} {path}")

    @contextmanager
    def over(self, folder: Path) -> Iterator[list[str]]:
        """Watch a block; give the list of what must not be."""
        self.seen = []
        self.folder = folder
        try:
            yield self.seen
        finally:
            self.folder = None


@contextmanager
def limited() -> Iterator[None]:
    """Limit the memory of this process in a block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MAX_ADDRESSES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def files_in(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


@cache
def watch() -> Watch:
    """A hook stays as long as the process."""
    return Watch()


def check(name: str, mutations: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Read damaged examples of a format; return how it ended, the largest figures, and what must not be."""
    with tempfile.TemporaryDirectory(prefix="saltwise-fuzz-") as name_of_folder:
        folder = Path(name_of_folder).resolve()
        format = (FORMATS | IN_JAVA)[name](folder)
        for example in format.examples:
            if format.file is not None:
                format.file.write_bytes(example)
            format.read(example)
        for encoding in ENCODINGS:
            "".encode(encoding)
        # numba reads what it has compiled, and rich the widths of characters, when they are used first.
        worker_of(7, 1, 3)
        cell_len("中")
        for previous in (None, *FUNCTIONS):
            construct(RUN.keys, RUN.shares, 2, previous, key_type="string")
        with limited():
            before = files_in(java_folder())
            counts, wrong = damaged(name, format, folder, random.Random(f"{seed} {name}"), mutations)
        if files_in(java_folder()) != before:
            wrong.append(f"{name}: Java has written {files_in(java_folder()).keys() - before.keys()}")
        return counts, wrong


def damaged(
    name: str, format: Format, folder: Path, rng: random.Random, mutations: int
) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for i in range(mutations):
        data = mutated(rng, format.examples)
        if rng.random() < 0.75:
            data = format.sign(rng, data)
        if format.file is not None:
            format.file.write_bytes(data)
        before = files_in(folder)
        found: list[str] = []
        done = False
        format.meter.start()
        with watch().over(folder) as seen:
            try:
                format.read(data)
                done = True
            except SaltwiseError:
                pass
            except Exception as error:  # noqa: BLE001 - this is what the run looks for
                found.append(f"{type(error).__name__}: {error}")
        seconds, size = format.meter.stop()
        counts.update(mutations=1, read=done, refused=not done and not found)
        counts["milliseconds"] = max(counts["milliseconds"], round(1000 * seconds))
        counts["megabytes"] = max(counts["megabytes"], size >> 20)
        if size > format.max_bytes:
            found.append(f"{size >> 20} MB")
        if seconds > MAX_SECONDS + len(data) / PER_SECOND:
            found.append(f"{seconds:.1f} s for {len(data):,} bytes")
        after = files_in(folder)
        if done and format.writes and format.file is not None:
            after[format.file] = before[format.file]
        if after != before:
            found.append("a file was written")
        wrong += [f"{name}: mutation {i}: {each:.500}: {data[:200]!r}" for each in [*found, *seen]]
        if len(wrong) > MAX_WRONG:
            break
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--mutations", type=int, default=2_000)
    parser.add_argument("--formats", type=lambda text: text.split(","), default=[*FORMATS, *IN_JAVA])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    failed = False
    for name in given.formats:
        begun = time.perf_counter()
        counts, wrong = check(name, given.mutations, given.seed)
        seconds = round(time.perf_counter() - begun)
        print(
            json.dumps({"format": name, "seed": given.seed, **counts, "wrong": len(wrong), "seconds": seconds}),
            flush=True,
        )
        print(*wrong, sep="\n", file=sys.stderr)
        failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
