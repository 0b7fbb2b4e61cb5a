"""The JVMs that tests start on this machine: their options, and the executors among them."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

from pyspark.sql import SparkSession

# Tests run for seconds, so a JVM that compiles quickly and does little in the background is done sooner. The processes
# that tests start inherit it. What Spark generates and how Spark plans stay as they are.
# The code cache is as large as it is without the first option, or the JVM would throw away what it compiled.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


def jvms(spark: SparkSession) -> list[int]:
    """Return the process ids of the executors."""
    application = spark.sparkContext.applicationId
    assert application is not None
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if application.encode() in command and any(b"CoarseGrainedExecutorBackend" in part for part in command):
            found.append(int(process.name))
    return sorted(found)


def kill_one(spark: SparkSession, rng: random.Random) -> bool:
    """Kill one of the executors; return whether there was one."""
    found = jvms(spark)
    if found:
        os.kill(rng.choice(found), signal.SIGKILL)
    return bool(found)
