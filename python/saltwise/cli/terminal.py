"""What a command needs around its work: a quiet Spark, a console, and a sign of life."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..errors import SaltwiseError
from ..spark.compat import spark_is_running
from ..spark.session import configure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def console() -> Console:
    """Return a console as wide as the terminal; where there is none, wide enough for plans."""
    return Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=120)


def progress_bar(screen: Console) -> Progress:
    """Return a bar for long work, which is shown in a terminal only and leaves nothing behind."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)


@contextmanager
def quiet_session() -> Iterator[SparkSession]:
    """Yield a session with the plugin, of its own: its confs and views are nobody else's.

    Where no Spark runs in this process, it starts without a word on the terminal, and stops in the end.

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


def _session(warehouse: str | None = None) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("saltwise").master("local[*]")
    if warehouse is not None:
        builder = builder.config("spark.sql.warehouse.dir", warehouse)
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    return configure(builder).getOrCreate()


@contextmanager
def _no_logging() -> Iterator[None]:
    """Stop pyspark from logging each error a second time, with its Java trace."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _stderr_of_children_kept() -> Iterator[None]:
    """Send what a child process says from now on to a file, and show its last line if the child fails.

    The Java that runs Spark keeps the stderr with which it starts: log4j, hints of the JVM, everything.
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
    """How many tasks of the running stages are done; it is asked each time the terminal draws it.

    >>> with console().status(SparkTasks(spark, "Counting")):  # doctest: +SKIP
    ...     spark.range(10**9).count()
    """

    def __init__(self, spark: SparkSession, doing: str) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._doing = doing

    def __rich__(self) -> str:
        stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage)
        total = sum(stage.numTasks for stage in stages if stage)
        return f"{self._doing}: {done} of {total} tasks done" if total else self._doing
