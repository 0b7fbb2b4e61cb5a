"""Damages what Saltwise reads, again and again: each time there must be an answer, or an error of ours.

    python tests/fuzz.py --mutations 1000000 [--formats sketch,function,...] [--seed 1]

Cuts, flips bits, writes other counts and paths, repeats parts, nests deeply, and puts parts of one example into another.
Where a checksum guards a format, half of the mutations are made before it is computed: an attacker computes it too. Those
of event logs are made before the log is compressed. A reader must not raise anything but a SaltwiseError, take longer
than a second or 64 MB, run code, or write a file; otherwise the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import struct
import sys
import tempfile
import time
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from saltwise import SaltwiseError
from saltwise.advise.application import executions
from saltwise.advise.event_log import MAX_LINE, event_logs
from saltwise.advise.findings import findings
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.function_json import FORMAT as FUNCTION
from saltwise.placement.function_json import VERSION as FUNCTION_VERSION
from saltwise.placement.function_json import from_json, to_json
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.history import PlacementHistory, Weights
from saltwise.placement.key_groups import KeyGroups
from saltwise.placement.partition_function import UniformHash
from saltwise.placement.store import FORMAT as STORE
from saltwise.placement.store import VERSION as STORE_VERSION
from saltwise.placement.store import PlacementStore
from saltwise.sketches.space_saving import SpaceSaving
from saltwise.spark.state_folder import COMMIT, Commit, StateFolder
from saltwise.spark.state_folder import FORMAT as STATE
from saltwise.spark.state_folder import VERSION as STATE_VERSION
from saltwise.versioned_json import dump_versioned

MAX_SECONDS, MAX_BYTES = 1.0, 64 << 20
MAX_ADDRESSES = 1 << 30
"""Bytes that the whole process may take beyond what it had."""
DEEP = 5_000
PATHS = [b"../../x", b"/etc/passwd", b"file:///etc/passwd", b"a\\u0000b", b"version=0000000001/unit=0/../x.parquet"]
ENCODINGS = ("utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16", "utf-32")
"""Python runs their modules when they are used first, and that is not what the run looks for."""
_TEXT = re.compile(rb'"[^"\\]*"')

Reader = Callable[[bytes], object]


@dataclass(frozen=True)
class Format:
    """What is read, and how."""

    examples: list[bytes]
    read: Reader
    sign: Callable[[bytes], bytes]
    """Make damaged input pass what only finds accidents: give it the checksum that it needs, or compress it."""
    file: Path | None = None
    """Where the input lies, if it is not handed over."""
    max_bytes: int = MAX_BYTES


def sketch(folder: Path) -> Format:
    examples = []
    for items, item_type in ((["a", "b", None, "a", "é"], "string"), ([1, 2, 1, -7, None], "bigint")):
        counted = SpaceSaving(8, item_type)
        for item in items:
            counted.offer(item)
        examples.append(counted.to_bytes())
    sign = lambda data: data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")  # noqa: E731
    return Format(examples, SpaceSaving.from_bytes, sign)


def function(folder: Path) -> Format:
    functions = (
        HashPair(4, "string", {7: 1, -9: 3}),
        UniformHash(9),
        ConsistentHash(4, "string"),
        KeyGroups(3, "string", [0, 1, 2, 1]),
    )
    examples = [to_json(each).encode() for each in functions]
    return Format(examples, lambda data: from_json(data.decode(errors="replace")), signed(FUNCTION, FUNCTION_VERSION))


def store(folder: Path) -> Format:
    run = Weights("string", np.arange(9), np.arange(1.0, 10.0), 60.0)
    PlacementStore(folder).plan(run, 3)
    file = folder / "placement.json"
    return Format([file.read_bytes()], lambda data: PlacementStore(folder).function, signed(STORE, STORE_VERSION), file)


def log(folder: Path) -> Format:
    file = folder / "app"
    return Format(in_codecs(log_text()), lambda data: found_in(file), compressed, file, MAX_LINE + MAX_BYTES)


def rolling_log(folder: Path) -> Format:
    """A log of two files, of which the second one is damaged."""
    rolling = folder / "eventlog_v2_app"
    rolling.mkdir()
    lines = log_text().splitlines(keepends=True)
    (rolling / "events_1_app").write_bytes(b"".join(lines[:8]))
    examples = in_codecs(b"".join(lines[8:]))
    return Format(examples, lambda data: found_in(folder), compressed, rolling / "events_2_app", MAX_LINE + MAX_BYTES)


def found_in(path: Path) -> object:
    return findings(executions((line for log in event_logs(path) for line in log.lines()), with_keys=True))


def log_text() -> bytes:
    """Return an event log that is not compressed."""
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
        "metrics": [],
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
            "Accumulables": [{"ID": 4, "Update": str(rows)}],
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
        {"Event": "SparkListenerStageCompleted", "Stage Info": {"Stage ID": 0, "Accumulables": [{"ID": 4}]}},
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


def compressed(data: bytes) -> bytes:
    return [in_zstd, in_lz4, in_snappy][len(data) % 3](data)


def state(folder: Path) -> Format:
    history = PlacementHistory()
    history.next(Weights("string", np.arange(9), np.arange(1.0, 10.0), 60.0), 3)
    columns = StructType().add("k0", "string").add("hash", "long").add("n", "decimal(10,2)")
    files = {0: {"version=0000000001/unit=0/part-0.parquet": 17}, -1: {}}
    commit = Commit(1, 4, history, None, 77, files, (), columns, columns, {"n": "sum(v) AS n"}, ["sum"], None)
    opened = StateFolder(folder, commit)
    file = folder / COMMIT
    return Format([file.read_bytes()], lambda data: opened.read(), signed(STATE, STATE_VERSION), file)


def in_java(read: Callable[[Any, bytes], object]) -> Reader:
    """Return what reads with the plugin's own reader, in a session of its own."""
    from pyspark.errors import IllegalArgumentException

    jvm: Any = plain_session()._jvm
    plugin = jvm.org.apache.spark.sql.saltwise

    def reader(data: bytes) -> object:
        try:
            return read(plugin, data)
        except IllegalArgumentException as error:
            raised = error._origin.getClass()  # type: ignore[attr-defined]
            if "SaltwiseException" in (raised.getSimpleName(), raised.getSuperclass().getSimpleName()):
                raise SaltwiseError(str(error)) from error
            raise

    return reader


def plain_session() -> Any:
    from pyspark.sql import SparkSession

    import saltwise

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    return saltwise.configure(builder).getOrCreate()


def java_sketch(folder: Path) -> Format:
    read = in_java(lambda plugin, data: plugin.sketch.ItemSketch.deserialize(bytearray(data)))
    return replace(sketch(folder), read=read)


def java_function(folder: Path) -> Format:
    read = in_java(lambda plugin, data: plugin.placement.PartitionFunction.fromJson(data.decode(errors="replace")))
    return replace(function(folder), read=read)


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
    read = in_java(lambda plugin, data: plugin.routing.HotKeys.parse(data.decode(errors="replace"), grouping))
    return Format(examples, read, lambda data: data)


IN_JAVA = {"java-sketch": java_sketch, "java-function": java_function, "java-hot": java_hot}
FORMATS = {
    "sketch": sketch,
    "function": function,
    "store": store,
    "state": state,
    "log": log,
    "rolling-log": rolling_log,
}


def signed(format: str, version: int) -> Callable[[bytes], bytes]:
    """Return what gives damaged JSON the checksum that it needs."""

    def sign(data: bytes) -> bytes:
        try:
            content = json.loads(data)
            content = {name: value for name, value in content.items() if name not in ("format", "version", "crc32")}
            return dump_versioned(format, version, content).encode()
        except (ValueError, AttributeError, RecursionError):
            return data

    return sign


def mutated(rng: random.Random, examples: list[bytes]) -> bytes:
    data = bytearray(rng.choice(examples))
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(9)
        if kind == 0:
            del data[at:]
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[at : at + 4] = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**31]).to_bytes(4, "little")
        elif kind == 3:
            data[at:at] = data[at : at + rng.randrange(1, 40)] * rng.choice([1, 3, 50])
        elif kind == 4:
            other = rng.choice(examples)
            data[at : at + 8] = other[rng.randrange(len(other)) :][:8]
        elif kind == 5:
            numbers = [i for i, letter in enumerate(data) if 48 <= letter <= 57]
            if numbers:
                place = rng.choice(numbers)
                data[place : place + 1] = rng.choice([b"-1", b"99999999999999999999", b"1e999", b"null", b"[]", b'"x"'])
        elif kind == 6:
            data[at:at] = rng.choice([b"[", b'{"a":']) * rng.choice([3, DEEP])
        elif kind == 7 and (texts := [*_TEXT.finditer(data)]):
            chosen = rng.choice(texts)
            data[chosen.start() + 1 : chosen.end() - 1] = rng.choice(PATHS)
        else:
            del data[at : at + rng.randrange(1, 9)]
    return bytes(data)


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
    """Read damaged examples of a format; return how it ended, and what must not be."""
    with tempfile.TemporaryDirectory(prefix="saltwise-fuzz-") as name_of_folder:
        folder = Path(name_of_folder).resolve()
        format = (FORMATS | IN_JAVA)[name](folder)
        for example in format.examples:
            if format.file is not None:
                format.file.write_bytes(example)
            format.read(example)
        for encoding in ENCODINGS:
            "".encode(encoding)
        with limited():
            return damaged(name, format, folder, random.Random(f"{seed} {name}"), mutations)


def damaged(
    name: str, format: Format, folder: Path, rng: random.Random, mutations: int
) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for i in range(mutations):
        data = mutated(rng, format.examples)
        if rng.random() < 0.5:
            data = format.sign(data)
        if format.file is not None:
            format.file.write_bytes(data)
        before = files_in(folder)
        begun = time.perf_counter()
        traced = i % 200 == 0
        if traced:
            tracemalloc.start()
        with watch().over(folder) as seen:
            try:
                format.read(data)
                counts["read"] += 1
            except SaltwiseError:
                counts["refused"] += 1
            except Exception as error:  # noqa: BLE001 - this is what the run looks for
                wrong.append(f"{name}: {type(error).__name__}: {error}: {data[:200]!r}")
        seconds = time.perf_counter() - begun
        if traced:
            if tracemalloc.get_traced_memory()[1] > format.max_bytes:
                wrong.append(f"{name}: too much memory: {data[:200]!r}")
            tracemalloc.stop()
        if seconds > MAX_SECONDS:
            wrong.append(f"{name}: too long: {data[:200]!r}")
        wrong += [f"{name}: {event}: {data[:200]!r}" for event in seen]
        if files_in(folder) != before:
            wrong.append(f"{name}: a file was written: {data[:200]!r}")
        if len(wrong) > 20:
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
        counts, wrong = check(name, given.mutations, given.seed)
        print(json.dumps({"format": name, "mutations": given.mutations, **counts, "wrong": len(wrong)}), flush=True)
        print(*wrong, sep="\n", file=sys.stderr)
        failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
