"""Damages what Saltwise reads, again and again: each time there must be an answer, or an error of ours.

    python tests/fuzz.py --mutations 1000000 [--formats sketch,function,store,state,log,java-sketch,java-function]
                         [--seed 1]

Cuts, flips bits, writes other counts, repeats parts, nests deeply, and puts parts of one example into another. Where a
checksum guards a format, half of the mutations are made before it is computed: an attacker computes it too. A reader
that raises anything but a SaltwiseError, or takes longer than a second or 64 MB, ends the run with 1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql.types import StructType

from saltwise import SaltwiseError
from saltwise.advise.application import application
from saltwise.advise.event_log import event_logs
from saltwise.placement.function_json import FORMAT as FUNCTION
from saltwise.placement.function_json import VERSION as FUNCTION_VERSION
from saltwise.placement.function_json import from_json, to_json
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.history import PlacementHistory, Weights
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
DEEP = 5_000

Reader = Callable[[bytes], object]


def sketch() -> tuple[list[bytes], Reader, Callable[[bytes], bytes]]:
    examples = []
    for items, item_type in ((["a", "b", None, "a", "é"], "string"), ([1, 2, 1, -7, None], "bigint")):
        counted = SpaceSaving(8, item_type)
        for item in items:
            counted.offer(item)
        examples.append(counted.to_bytes())
    return examples, SpaceSaving.from_bytes, lambda data: data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")


def function() -> tuple[list[bytes], Reader, Callable[[bytes], bytes]]:
    examples = [to_json(HashPair(4, "string", {7: 1, -9: 3})).encode(), to_json(UniformHash(9)).encode()]
    return examples, lambda data: from_json(data.decode(errors="replace")), signed(FUNCTION, FUNCTION_VERSION)


def store() -> tuple[list[bytes], Reader, Callable[[bytes], bytes]]:
    folder = Path(tempfile.mkdtemp(prefix="saltwise-fuzz-"))
    file = folder / "placement.json"
    run = Weights("string", np.arange(9), np.arange(1.0, 10.0), 60.0)
    PlacementStore(folder).plan(run, 3)

    def read(data: bytes) -> object:
        file.write_bytes(data)
        return PlacementStore(folder).function

    return [file.read_bytes()], read, signed(STORE, STORE_VERSION)


def log() -> tuple[list[bytes], Reader, Callable[[bytes], bytes]]:
    folder = Path(tempfile.mkdtemp(prefix="saltwise-fuzz-"))
    plan = {"nodeName": "HashAggregate", "simpleString": "HashAggregate(keys=[k#1])", "children": [], "metrics": []}
    events = [
        {"Event": "SparkListenerApplicationStart", "App Name": "a", "App ID": "app-1", "Timestamp": 0},
        {"Event": "SparkListenerExecutorAdded", "Executor ID": "1", "Executor Info": {"Total Cores": 4}},
        {
            "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
            "executionId": 0,
            "description": "d",
            "time": 1,
            "sparkPlanInfo": plan,
        },
        {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": 0,
            "Stage Attempt ID": 0,
            "Task End Reason": {"Reason": "Success"},
            "Task Info": {"Launch Time": 1, "Finish Time": 9},
            "Task Metrics": {"Shuffle Read Metrics": {"Total Records Read": 3, "Local Bytes Read": 5}},
        },
    ]
    text = "\n".join(json.dumps(event, separators=(",", ":")) for event in events).encode() + b"\n"

    def read(data: bytes) -> object:
        (folder / "app").write_bytes(data)
        return application(event_logs(folder / "app")[0].lines())

    return [text], read, lambda data: data


def state() -> tuple[list[bytes], Reader, Callable[[bytes], bytes]]:
    folder = Path(tempfile.mkdtemp(prefix="saltwise-fuzz-"))
    history = PlacementHistory()
    history.next(Weights("string", np.arange(9), np.arange(1.0, 10.0), 60.0), 3)
    columns = StructType().add("k0", "string").add("hash", "long").add("n", "decimal(10,2)")
    files = {0: {"version=0000000001/unit=0/part-0.parquet": 17}, -1: {}}
    commit = Commit(1, 4, history, None, 77, files, (), columns, columns, {"n": "sum(v) AS n"}, ["sum"], None)
    opened = StateFolder(folder, commit)

    def read(data: bytes) -> object:
        (folder / COMMIT).write_bytes(data)
        return opened.read()

    return [(folder / COMMIT).read_bytes()], read, signed(STATE, STATE_VERSION)


def in_java(read: Callable[[Any, bytes], object]) -> Reader:
    """Return what reads with the plugin's own reader, in a session of its own."""
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import SparkSession

    import saltwise

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = saltwise.configure(builder).getOrCreate()
    jvm: Any = spark._jvm
    plugin = jvm.org.apache.spark.sql.saltwise

    def reader(data: bytes) -> object:
        try:
            return read(plugin, data)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == "SaltwiseException":
                raise SaltwiseError(str(error.java_exception)) from error
            raise

    return reader


def java_sketch() -> tuple[list[bytes], Reader, Callable[[bytes], bytes]]:
    examples, _, sign = sketch()
    return examples, in_java(lambda plugin, data: plugin.sketch.ItemSketch.deserialize(bytearray(data))), sign


def java_function() -> tuple[list[bytes], Reader, Callable[[bytes], bytes]]:
    examples, _, sign = function()
    read = in_java(lambda plugin, data: plugin.placement.PartitionFunction.fromJson(data.decode(errors="replace")))
    return examples, read, sign


IN_JAVA = {"java-sketch": java_sketch, "java-function": java_function}
FORMATS = {"sketch": sketch, "function": function, "store": store, "state": state, "log": log}


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
        kind = rng.randrange(8)
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
        else:
            del data[at : at + rng.randrange(1, 9)]
    return bytes(data)


def check(name: str, mutations: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Read damaged examples of a format; return how it ended, and what must not be."""
    examples, read, sign = (FORMATS | IN_JAVA)[name]()
    rng = random.Random(f"{seed} {name}")
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for example in examples:
        read(example)
    for i in range(mutations):
        data = mutated(rng, examples)
        if rng.random() < 0.5:
            data = sign(data)
        begun = time.perf_counter()
        traced = i % 200 == 0
        if traced:
            tracemalloc.start()
        try:
            read(data)
            counts["read"] += 1
        except SaltwiseError:
            counts["refused"] += 1
        except Exception as error:  # noqa: BLE001 - this is what the run looks for
            wrong.append(f"{name}: {type(error).__name__}: {error}: {data[:200]!r}")
        if traced:
            if tracemalloc.get_traced_memory()[1] > MAX_BYTES:
                wrong.append(f"{name}: too much memory: {data[:200]!r}")
            tracemalloc.stop()
        if time.perf_counter() - begun > MAX_SECONDS:
            wrong.append(f"{name}: too long: {data[:200]!r}")
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
