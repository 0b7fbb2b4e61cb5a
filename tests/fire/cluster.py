"""Runs Saltwise on a real cluster on this machine: Spark's own master, three workers, and its servers.

    python tests/fire/cluster.py [--python PYTHON] [--only submit,sql,jdbc,connect,files,packed,history] [--out FILE]

A standalone master with three workers of one core each, a Connect server, a Thrift server and a History Server start on
free ports of the loopback interface, from the pyspark of PYTHON, and end with this script. Each check prints a line,
and appends it as JSON to the file that --out names. Exits with 1 where one fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socket import socket
from urllib.error import URLError
from urllib.request import urlopen

from saltwise._java import ensure_java

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
"""127.0.0.1 as Linux writes it, and within an address of IPv6."""
WAIT_SECONDS = 120
EXTENSION = "org.apache.spark.sql.saltwise.SaltwiseExtensions"

JOB = """
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
df = spark.range(0, 200000, 1, 8).groupBy((F.col("id") % 50).alias("k")).agg(F.collect_list("id").alias("all"))
rows = df.collect()
assert sorted(row.k for row in rows) == list(range(50))
assert all(sorted(row["all"]) == list(range(row.k, 200000, 50)) for row in rows)
plan = df._jdf.queryExecution().executedPlan().toString()
assert "Combine [" in plan or "SkewSplit" in plan, plan
print("DONE", spark.version)
spark.stop()
"""

CONNECT = """
import os
import shutil
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
import saltwise
from saltwise.spark.compat import physical_plan

assert shutil.which("java") is None and "JAVA_HOME" not in os.environ
spark = SparkSession.builder.remote("{url}").getOrCreate()
rows = spark.range(1000).select((F.col("id") % 7).alias("k"), "id")
numbers = F.sort_array(F.collect_list("id")).alias("numbers")
ours = rows.skew_groupby("k", strategy="split").agg(numbers)
assert "SkewSplit" in physical_plan(ours), physical_plan(ours)
found = sorted(ours.collect())
spark.conf.set("spark.saltwise.mode", "off")
stock = rows.groupBy("k").agg(numbers)
assert "Skew" not in physical_plan(stock), physical_plan(stock)
assert found == sorted(stock.collect()) and len(found) == 7, found
children = list(Path("/proc/self/task").glob("*/children"))
assert children and not any(each.read_text() for each in children), "it has started a process"
print("DONE", spark.version, saltwise.status(spark).loaded)
"""

AGGREGATE = """
import sys
from math import isclose
from pyspark.sql import SparkSession, functions as F
import saltwise
from saltwise.aggregates import Moments


def place(_):
    import saltwise

    return saltwise.__file__


spark = SparkSession.builder.getOrCreate()
places = set(spark.sparkContext.range(0, 6, 1, 6).map(place).collect())
print("driver", saltwise.__file__, "executors", places)
assert all(sys.argv[1] in each for each in places), places
rows = spark.range(0, 10000, 1, 6).select((F.col("id") % 5).alias("k"), F.col("id").cast("double").alias("v"))
found = rows.skew_groupby("k").agg(Moments("v").alias("m")).select("k", "m.*").sort("k").collect()
spark.conf.set("spark.saltwise.mode", "off")
stock = rows.groupBy("k").agg(F.count("v"), F.avg("v"), F.var_samp("v")).sort("k").collect()
assert len(found) == 5 and len(stock) == 5, (found, stock)
assert all(isclose(a, b) for ours, theirs in zip(found, stock) for a, b in zip(ours, theirs)), (found, stock)
print("DONE", spark.version)
spark.stop()
"""

QUERY = "SELECT id % 3 AS k, size(collect_list(id)) AS n FROM range(900) GROUP BY 1 ORDER BY 1"

PACKAGES = (
    "*datasketches*",
    "mmh3*",
    "numpy",
    "numpy.libs",
    "pandas",
    "pyarrow",
    "pyarrow.libs",
    "dateutil",
    "pytz",
    "tzdata",
    "six.py",
)
"""What Python aggregates need on executors, beside Saltwise."""


class Cluster:
    """The processes, and what they share."""

    def __init__(self, python: str, folder: Path, stack: ExitStack) -> None:
        self.python, self.folder, self.stack = python, folder, stack
        [where] = self.output([python, "-c", "import pyspark, pathlib; print(pathlib.Path(pyspark.__file__).parent)"])
        self.home = Path(where)
        [version] = self.output([python, "-c", "import pyspark; print(pyspark.__version__)"])
        self.version = version
        scala = "2.12" if version.startswith("3.") else "2.13"
        self.jar = ROOT / "python" / "saltwise" / "jars" / f"saltwise_{scala}.jar"
        self.events = folder / "events"
        self.events.mkdir()
        self.environment = {
            **os.environ,
            "SPARK_HOME": str(self.home),
            "PYSPARK_PYTHON": python,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_CLASSPATH": str(self.jar),
            "SPARK_HISTORY_OPTS": f"-Dspark.history.fs.logDirectory={self.events.as_uri()} -Dspark.history.fs.update.interval=2s",
        }
        self.environment.pop("PYTHONPATH", None)
        port, self.web = free_port(), free_port()
        self.master = f"spark://{HOST}:{port}"
        self.spawn("org.apache.spark.deploy.master.Master", "--host", HOST, "--port", port, "--webui-port", self.web)
        wait_for(port)
        for number in range(3):
            web = free_port()
            work = folder / f"worker-{number}"
            self.spawn(
                "org.apache.spark.deploy.worker.Worker",
                *("--host", HOST, "--cores", "1", "--memory", "1g", "--webui-port", web, "--work-dir", str(work)),
                self.master,
            )
            wait_for(web)

    def output(self, command: list[str]) -> list[str]:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()

    def spawn(self, main: str, *arguments: object) -> None:
        """Start a class of Spark; it ends with the cluster."""
        self.start([self.home / "bin" / "spark-class", main, *arguments])

    def start(self, command: list[object]) -> subprocess.Popen[bytes]:
        log = (self.folder / "servers.log").open("a")
        process = subprocess.Popen(
            [str(part) for part in command], env=self.environment, stdout=log, stderr=log, start_new_session=True
        )
        self.stack.callback(ended, process)
        return process

    def confs(self) -> list[str]:
        confs = {
            "spark.master": self.master,
            "spark.sql.extensions": EXTENSION,
            "spark.saltwise.enabled": "true",
            "spark.saltwise.auto.smallInput": "0",
            "spark.sql.shuffle.partitions": "6",
            "spark.driver.host": HOST,
            "spark.executor.memory": "700m",
            "spark.cores.max": "3",
            "spark.ui.enabled": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self.folder / 'metastore'};create=true",
        }
        return [part for key, value in confs.items() for part in ("--conf", f"{key}={value}")]

    def run(self, *command: object, without: tuple[str, ...] = ()) -> str:
        environment = {key: value for key, value in self.environment.items() if key not in without}
        if "JAVA_HOME" in without:
            environment["PATH"] = os.pathsep.join(
                part for part in environment["PATH"].split(os.pathsep) if not Path(part, "java").exists()
            )
        done = subprocess.run(
            [str(part) for part in command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    def script(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path


def submit(cluster: Cluster) -> None:
    """An unchanged job, by spark-submit with a jar and confs."""
    job = cluster.script("job.py", JOB)
    out = cluster.run(cluster.home / "bin" / "spark-submit", "--jars", cluster.jar, *cluster.confs(), job)
    assert f"DONE {cluster.version}" in out, out[-2000:]


def sql(cluster: Cluster) -> None:
    """The shell spark-sql."""
    shell = cluster.home / "bin" / "spark-sql"
    out = cluster.run(shell, "--jars", cluster.jar, *cluster.confs(), "-e", f"{QUERY}; EXPLAIN {QUERY}")
    assert "0\t300\n1\t300\n2\t300" in out, out[-2000:]
    assert is_ours(out), out[-2000:]


def jdbc(cluster: Cluster) -> None:
    """A client of the Thrift server."""
    port = free_port()
    main = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
    confs = [*cluster.confs(), "--conf", f"spark.hadoop.hive.server2.thrift.port={port}"]
    confs += ["--conf", f"spark.hadoop.hive.server2.thrift.bind.host={HOST}"]
    server = cluster.start(
        [cluster.home / "bin" / "spark-submit", "--class", main, "--jars", cluster.jar, *confs, "spark-internal"]
    )
    wait_for(port)
    queries = f"{QUERY}; EXPLAIN {QUERY};"
    url = f"jdbc:hive2://{HOST}:{port}/default"
    try:
        out = cluster.run(cluster.home / "bin" / "beeline", "-u", url, "-n", "tester", "--silent=true", "-e", queries)
    finally:
        ended(server)  # it holds all cores
    assert re.findall(r"\| (\d+) +\| 300 +\|", out) == ["0", "1", "2"], out[-2000:]
    assert is_ours(out), out[-2000:]


def connect(cluster: Cluster) -> str | None:
    """A Connect client in an environment without Java."""
    if cluster.version.startswith("3."):
        return "not on 3.5"  # pyspark lacks the jar of its server: it comes from Maven alone
    port = free_port()
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    confs = [*cluster.confs(), "--conf", f"spark.connect.grpc.binding.port={port}"]
    confs += ["--conf", f"spark.connect.grpc.binding.address={HOST}"]
    server = cluster.start(
        [
            *(cluster.home / "bin" / "spark-submit", "--class", main, "--jars", cluster.jar, *confs),
            "spark-internal",
        ]
    )
    wait_for(port)
    client = cluster.script("client.py", CONNECT.format(url=f"sc://{HOST}:{port}"))
    try:
        out = cluster.run(cluster.python, client, without=("JAVA_HOME", "SPARK_HOME"))
    finally:
        ended(server)
    assert f"DONE {cluster.version} True" in out, out[-2000:]
    return None


def files(cluster: Cluster) -> None:
    """A Python aggregate whose package travels with the job, and is used though the cluster's Python has one too."""
    packed = cluster.folder / "saltwise.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sources():
            archive.write(path, path.relative_to(ROOT / "python"))
    aggregate(cluster, packed.name, "--py-files", packed)


def packed(cluster: Cluster) -> None:
    """The same, on executors whose Python has no package, from an archive of all that are needed."""
    bare = cluster.folder / "bare"
    cluster.run(cluster.python, "-m", "venv", "--without-pip", bare)
    archive = cluster.folder / "packed.tar"
    [site] = cluster.output(
        [cluster.python, "-c", "import numpy, pathlib; print(pathlib.Path(numpy.__file__).parents[1])"]
    )
    with tarfile.open(archive, "w") as tar:
        for path in sources():
            tar.add(path, path.relative_to(ROOT / "python"))
        for name in PACKAGES:
            for path in Path(site).glob(name):
                tar.add(path, path.name)
    confs = {
        "spark.pyspark.python": bare / "bin" / "python",
        "spark.pyspark.driver.python": cluster.python,
        "spark.executorEnv.PYTHONPATH": "./packed",
    }
    options = [part for key, value in confs.items() for part in ("--conf", f"{key}={value}")]
    aggregate(cluster, "packed", "--archives", f"{archive}#packed", *options)


def aggregate(cluster: Cluster, place: str, *options: object) -> None:
    """Run a Python aggregate; executors must import the package from a place."""
    job = cluster.script("aggregate.py", AGGREGATE)
    submitted = cluster.home / "bin" / "spark-submit"
    out = cluster.run(submitted, "--jars", cluster.jar, *options, *cluster.confs(), job, place)
    assert f"DONE {cluster.version}" in out, out[-2000:]


def sources() -> list[Path]:
    return sorted((ROOT / "python" / "saltwise").rglob("*.py"))


def is_ours(plan: str) -> bool:
    return "Combine [" in plan or "SkewSplit" in plan


def history(cluster: Cluster) -> None:
    """The event logs of these jobs, in a History Server, and read by advise."""
    if not closed_logs(cluster):
        submit(cluster)
    port = free_port()
    cluster.environment["SPARK_HISTORY_OPTS"] += f" -Dspark.history.ui.port={port}"
    cluster.spawn("org.apache.spark.deploy.history.HistoryServer")
    wait_for(port)
    logs = closed_logs(cluster)
    name = logs[0].removeprefix("eventlog_v2_")
    page = ""
    until = time.monotonic() + WAIT_SECONDS
    while "group operator" not in page and time.monotonic() < until:
        try:
            with urlopen(f"http://{HOST}:{port}/history/{name}/saltwise/") as answer:
                page = answer.read().decode()
        except URLError:
            time.sleep(1)
    assert "ObjectHashAggregate by" in page, page[:2000]
    done = subprocess.run(
        [sys.executable, "-c", "from saltwise.cli.commands import main; main()", "advise", cluster.events, "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    found = json.loads(done.stdout)
    assert found["applications"] >= len(logs), found
    assert not found["unreadable"], found


def closed_logs(cluster: Cluster) -> list[str]:
    """Return the names of the event logs of applications that have ended."""
    return sorted(path.name for path in cluster.events.iterdir() if not path.name.endswith(".inprogress"))


CHECKS: dict[str, Callable[[Cluster], str | None]] = {
    check.__name__: check for check in (submit, sql, jdbc, connect, files, packed, history)
}
"""By name. A check that returns a text has not run, and the text says why."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="a Python with pyspark and saltwise")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CHECKS))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the servers end
    ensure_java()
    failed = False
    with started(str(given.python.absolute())) as cluster:
        for name in given.only:
            begun = time.monotonic()
            try:
                how = CHECKS[name](cluster) or "right"
            except Exception as error:  # noqa: BLE001 - the other checks run all the same
                how = "failed"
                failed = True
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            seconds = round(time.monotonic() - begun)
            print(f"{name}: {how} on Spark {cluster.version}, {seconds} s", flush=True)
            if given.out:
                line = {"check": name, "spark": cluster.version, "how": how, "seconds": seconds}
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    return int(failed)


@contextmanager
def started(python: str) -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="saltwise-cluster-"))
    try:
        with ExitStack() as stack:
            yield Cluster(python, folder, stack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ended(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started."""
    if process.poll() is None:
        os.killpg(process.pid, 15)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def free_port() -> int:
    with socket() as free:
        free.bind((HOST, 0))
        port: int = free.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    """Wait for a server, and look that only this machine reaches it."""
    until = time.monotonic() + WAIT_SECONDS
    while not (addresses := listening(port)):
        if time.monotonic() > until:
            raise TimeoutError(f"nothing listens on port {port}")
        time.sleep(0.2)
    assert addresses <= LOOPBACK, f"port {port} listens on {addresses}"


def listening(port: int) -> set[str]:
    """Return the addresses on which a port listens, as Linux writes them."""
    tables = [Path("/proc/net") / name for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return {line[1].split(":")[0] for line in lines if line[3] == "0A" and int(line[1].split(":")[1], 16) == port}


if __name__ == "__main__":
    sys.exit(main())
