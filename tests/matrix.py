"""Runs the smoke tests on several Spark lines, from the built wheel: `make test-matrix`.

    python tests/matrix.py WHEEL VERSION... [--select smoke] [--install]

--select says which tests run, as the option -m of pytest does. With --install it only makes the environments. Each
version has an environment of its own in .matrix/, which is kept, and beside it a log of what it printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TextIO

from saltwise._java import ensure_java

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ["pytest", "pytest-timeout", "hypothesis", "pandas<3"]
# applyInPandasWithState of Spark 3.5 fails with pyarrow 26, with Saltwise and without.
TOOLS_OF_LINE = {"3.5": ["pyarrow<26"]}
AT_ONCE = 2
"""Versions that run beside each other: a Spark of small queries keeps one core busy."""

FOREIGN = {"PYTHONPATH", "SPARK_HOME", "PYSPARK_DRIVER_PYTHON"}


def main() -> int:
    """Print a line for each version, and return 1 if one of them failed, else 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--select", default="smoke")
    parser.add_argument("--install", action="store_true")
    given = parser.parse_args()
    ensure_java()
    (ROOT / ".matrix").mkdir(exist_ok=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        test = partial(smoke_test, given.wheel.resolve(), given.select, given.install)
        passed = list(pool.map(test, given.versions))
    return 0 if all(passed) else 1


def smoke_test(wheel: Path, select: str, only_install: bool, version: str) -> bool:
    """Install one Spark and the wheel, run the smoke tests there, and print one line, or the log as well."""
    venv = ROOT / ".matrix" / version
    log = venv.with_name(f"{version}.log")
    started = time.monotonic()
    with log.open("w") as output:
        steps = commands(venv, wheel, version, select)
        passed = all(succeeds(command, venv, output) for command in (steps[:-1] if only_install else steps))
    seconds = time.monotonic() - started
    how = ("installed" if only_install else "passed") if passed else "FAILED"
    print(f"Spark {version}   {how}   {seconds:4.0f} s", flush=True)
    if not passed:
        print(log.read_text(), flush=True)
    return passed


def commands(venv: Path, wheel: Path, version: str, select: str) -> list[list[str | Path]]:
    """Return what to run in turn; the wheel is installed anew, since its version stays the same."""
    python: list[str | Path] = [venv / "bin" / "python", "-m"]
    # Most of what is installed is never imported, and Python compiles the rest when it is.
    install = [*python, "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    make_venv: list[list[str | Path]] = (
        [] if (venv / "bin" / "pip").exists() else [[sys.executable, "-m", "venv", venv]]
    )
    # Other files may import what only the newest environment has.
    files = [path for path in sorted(ROOT.glob("tests/**/test_*.py")) if "mark.smoke" in path.read_text()]
    smoke: list[str | Path] = [
        "-q",
        "-m",
        select,
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        *files,
    ]
    return [
        *make_venv,
        [
            *install,
            f"pyspark=={version}",
            f"{wheel}[aggregates,connect,simulate]",
            *TOOLS,
            *TOOLS_OF_LINE.get(version.rpartition(".")[0], []),
        ],
        [*install, "--force-reinstall", "--no-deps", wheel],
        [venv / "bin" / "pytest", *smoke],
    ]


def succeeds(command: list[str | Path], venv: Path, output: TextIO) -> bool:
    """Run a command without what would lead it to another Spark, another saltwise or another Python."""
    environment = {key: value for key, value in os.environ.items() if key not in FOREIGN}
    environment["PYSPARK_PYTHON"] = str(venv / "bin" / "python")
    # What numba compiles is the same on every Spark and runs in make test. To compile it takes longer than it runs here.
    environment["NUMBA_DISABLE_JIT"] = "1"
    run = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    return run.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
