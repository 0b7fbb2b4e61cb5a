"""Parts of every command: a quiet Spark session, a console, and a progress display."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..datasets import as_dataframe
from ..errors import SaltwiseError
from ..spark.compat import spark_is_running
from ..spark.session import configure

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def console() -> Console:
    """Return a console as wide as the terminal. Without a terminal, it is wide enough for plans."""
    return Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=120)


def progress_bar(screen: Console) -> Progress:
    """Return a progress bar. It is shown only in a terminal, and disappears at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)


@contextmanager
def quiet_session() -> Iterator[SparkSession]:
    """Yield a new session with the plugin. It shares no confs and no views with other sessions.

    If this process has no running Spark, Spark starts without output on the terminal, and stops at the end.

    Raises:
        SaltwiseError: Spark does not start.

    >>> with quiet_session() as spark:  # doctest: +SKIP
    ...     spark.range(3).count()
    3
    """
    with _no_logging():
        if spark_is_running():
            yield _session().newSession()
            return
        with TemporaryDirectory(prefix="saltwise-", ignore_cleanup_errors=True) as folder:
            with _stderr_of_children_kept():
                spark = _session(warehouse=folder)
            try:
                yield spark
            finally:
                spark.stop()


@contextmanager
def session_over(
    screen: Console, steps: int, tables: Callable[[], dict[str, pa.Table]]
) -> Iterator[tuple[SparkSession, Callable[[str], object], Callable[[], object]]]:
    """Read tables, and yield a new session with a view of each, what names the current step, and what ends a step.

    Args:
        screen: where a terminal shows the progress.
        steps: how many there are.
        tables: returns the tables by name.
    """
    with progress_bar(screen) as progress, TemporaryDirectory(prefix="saltwise-", ignore_cleanup_errors=True) as folder:
        task = progress.add_task("Reading the data", total=steps)
        read = tables()
        progress.update(task, description="Starting Spark")
        with quiet_session() as spark:
            for name, rows in read.items():
                as_dataframe(spark, rows, folder, name)
            yield spark, lambda name: progress.update(task, description=name), lambda: progress.advance(task)


def _session(warehouse: str | None = None) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("saltwise").master("local[*]")
    if warehouse is not None:
        builder = builder.config("spark.sql.warehouse.dir", warehouse)
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    return configure(builder).getOrCreate()


@contextmanager
def _no_logging() -> Iterator[None]:
    """Keep pyspark from logging each error again with its Java trace."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _stderr_of_children_kept() -> Iterator[None]:
    """Send the stderr of child processes that start in this block to a file. If one fails, the error has its last line.

    Spark's Java process keeps the stderr of its start. It writes log4j messages and hints of the JVM there.
    """
    sys.stderr.flush()
    own = os.dup(2)
    with TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except SaltwiseError:
            raise
        except Exception as error:
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().split("\n")
            raise SaltwiseError(f"Spark does not start: {lines[-1] or error}.") from error
        finally:
            os.dup2(own, 2)
            os.close(own)


class SparkTasks:
    """Shows how many tasks of the running stages are done. The terminal evaluates it each time it draws.

    >>> with console().status(SparkTasks(spark, "Counting")):  # doctest: +SKIP
    ...     spark.range(10**9).count()
    """

    def __init__(self, spark: SparkSession, activity: str) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._activity = activity

    def __rich__(self) -> str:
        stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage)
        total = sum(stage.numTasks for stage in stages if stage)
        return f"{self._activity}: {done} of {total} tasks done" if total else self._activity
