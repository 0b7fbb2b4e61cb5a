"""The command `saltwise`."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from .._version import __version__
from ..errors import SaltwiseError, SaltwiseValueError
from ..options import EPSILON, SkewOptions
from ..spark.spark_errors import SPARK_ERRORS
from ..strategies import STRATEGIES
from ..tables import Table
from .files import FORMATS, check_exists, column, format_of, read_file, unreadable
from .terminal import SparkTasks, console, progress_bar, quiet_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from rich.console import Console

WRONG_INPUT = 2
"""Exit status if the user's input cannot be used."""

_UsageError: Any = typer.BadParameter.__mro__[1]
"""Click's UsageError. Newer versions of typer contain their own click."""


class _OneSentence(TyperGroup):
    """A group of commands that prints each error as one sentence on stderr."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            sentence = error.format_message()
        except SaltwiseError as error:
            sentence = str(error)
        typer.echo(sentence, err=True)
        raise typer.Exit(WRONG_INPUT)


app = typer.Typer(
    cls=_OneSentence,
    help="Keep Spark GROUP BY fast when a few keys own most of the rows.",
    epilog="Start with: saltwise demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.") from None


Partitions = Annotated[
    int | None,
    typer.Option(
        parser=_whole_number, metavar="N", help="Number of workers; default: the number of shuffle partitions."
    ),
]

Query = Annotated[str, typer.Argument(metavar="SQL_OR_FILE", help="One SELECT, or a file with one SELECT.")]
Tables = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=PATH", help="A table of the query, and its file; repeat the option for more tables."),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"saltwise {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep Spark GROUP BY fast when a few keys own most of the rows."""


def main() -> None:
    """Run the command line. This is the entry point of the script `saltwise`."""
    app()


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The file for the picture.")] = Path("saltwise-demo.png"),
    partitions: Annotated[
        int, typer.Option(parser=_whole_number, metavar="N", help="Cores of a cluster, or workers of a strategy.")
    ] = 50,
    quick: Annotated[bool, typer.Option("--quick", help="Use fewer rows, and run each query once.")] = False,
    strategies: Annotated[
        bool, typer.Option("--strategies", help="Group by every strategy instead, and draw the workers' rows.")
    ] = False,
) -> None:
    """Run queries on real data with Spark and with Saltwise, and draw their tasks.

    The data are the 336,776 flights of a year, ten times, their airplanes
    and airlines, and a text with words as frequent as in English. It takes
    two minutes.

    With --strategies, one carrier has 17 % of the flights, cancelled flights
    have NULL keys, and tables show what each strategy does with them.

    \b
    Examples:
      saltwise demo
      saltwise demo --quick --out tasks.svg
      saltwise demo --strategies --partitions 20 --out loads.svg
    """
    from . import demo as gains
    from . import strategies as every

    SkewOptions(partitions=partitions)
    show = every.show if strategies else gains.show
    if not show(console(), partitions, out, quick):
        raise typer.Exit(1)


@app.command()
def report(
    path: Annotated[str, typer.Argument(help="A file, a folder, or an address that Spark can read.")],
    key: Annotated[
        list[str], typer.Option(metavar="COLUMN", help="A column to group by; repeat the option for more columns.")
    ],
    partitions: Partitions = None,
    theta: Annotated[
        float | None,
        typer.Option(
            parser=_number,
            metavar="SHARE",
            help="A key with at least this share of the rows is hot; default: 1/(5N).",
        ),
    ] = None,
    epsilon: Annotated[
        float,
        typer.Option(
            parser=_number, metavar="SHARE", help="The imbalance that dchoices may leave, as a share of all rows."
        ),
    ] = EPSILON,
    format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help=f"{', '.join(FORMATS)}; default: guessed from the file extension."),
    ] = None,
) -> None:
    """Find the hot keys of a file, and predict what each strategy does with them.

    The command reads the key columns once.

    \b
    Examples:
      saltwise report events.parquet --key user_id
      saltwise report clicks/ --format json --key country --key device --partitions 400
    """
    from ..spark.reports.skew_report import skew_report

    SkewOptions(partitions=partitions, theta=theta, epsilon=epsilon)
    format = format_of(path, format)
    screen = console()
    with spark_session(screen) as spark:
        df = read_file(spark, path, format)
        keys = [column(df, name) for name in key]
        try:
            with screen.status(SparkTasks(spark, f"Reading {path}")):
                skew = skew_report(df, *keys, partitions=partitions, theta=theta, epsilon=epsilon)
        except SPARK_ERRORS as error:
            raise unreadable(path, format, error) from error
        screen.print(skew)


@app.command()
def explain(
    sql: Query,
    table: Tables = None,
    strategy: Annotated[
        str | None, typer.Option(metavar="STRATEGY", help=f"One of {', '.join(STRATEGIES)}; default: auto.")
    ] = None,
    partitions: Partitions = None,
) -> None:
    """Show Spark's plan of a query beside Saltwise's plan, and the reason.

    The query does not run.

    \b
    Examples:
      saltwise explain "SELECT id % 3, collect_list(id) FROM range(9) GROUP BY 1"
      saltwise explain daily.sql --table flights=flights.parquet --strategy pkg
    """
    from ..spark.reports.explain import explain as explain_query

    SkewOptions(strategy=strategy, partitions=partitions)
    query = _query(sql)
    files = _tables(table)
    screen = console()
    with spark_session(screen) as spark:
        _register(spark, files)
        screen.print(explain_query(spark, query, strategy, partitions))


@app.command()
def advise(
    log: Annotated[Path, typer.Argument(help="An event log of Spark, or a folder of them.")],
    key: Annotated[bool, typer.Option("--key", help="Name hot keys, if the log has Saltwise's own events.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page that draws the tasks.")] = None,
) -> None:
    """Find the skew in yesterday's event logs, and what it cost.

    It reads plain, zstd, lz4, snappy and gzip logs, in one file or rolling,
    of Spark 3.5 and later. It starts neither Spark nor Java, and the cluster
    needs no plugin. The exit status is 1 if there is something to gain.

    \b
    Examples:
      saltwise advise /var/log/spark/app-20260101000000-0001.zstd
      saltwise advise /var/log/spark --html skew.html
      saltwise advise /var/log/spark --json
    """
    from ..advise import report as advice

    screen = console()
    logs = advice.event_logs(log)
    with progress_bar(screen) as progress:
        task = progress.add_task("Reading", total=sum(one.size for one in logs))
        advised = advice.advise(logs, with_keys=key, read=lambda size: progress.advance(task, size))
    if html is not None:
        advice.write_page(advised, html)
    if as_json:
        typer.echo(advised.to_json())
    else:
        screen.print(advised)
        if html is not None:
            screen.print(f"Page: {html}", highlight=False, soft_wrap=True)
    if advised.gain.high:
        raise typer.Exit(1)


@app.command()
def audit(
    sql: Query,
    table: Tables = None,
    rounds: Annotated[
        int, typer.Option(parser=_whole_number, metavar="N", help="Timed runs with Saltwise, and as many without it.")
    ] = 3,
) -> None:
    """Run a query with Saltwise and without it, and compare the answers.

    It also says what was rewritten, and prints the medians of time, of the
    longest task and of memory, with their ratios. To compare answers, it
    rewrites small inputs too; the timed runs may leave them alone. A query
    that writes is refused. The exit status is 1 if the answers differ.

    \b
    Examples:
      saltwise audit "SELECT id % 3, collect_list(id) FROM range(9) GROUP BY 1"
      saltwise audit daily.sql --table flights=flights.parquet
    """
    from ..spark.reports.audit import audit as audit_query

    query, files = _query(sql), _tables(table)
    screen = console()
    with spark_session(screen) as spark:
        _register(spark, files)
        with screen.status(SparkTasks(spark, "Running both ways")):
            audited = audit_query(query, spark, rounds)
        screen.print(audited)
    if not audited.same:
        raise typer.Exit(1)


@app.command()
def status() -> None:
    """Start Spark, and show whether it has the plugin, which version, and which settings.

    \b
    Example:
      saltwise status
    """
    from ..spark.session import status as session_status

    screen = console()
    with spark_session(screen) as spark:
        values = session_status(spark).to_dict()
        screen.print(Table([(name.replace("_", " "), str(value)) for name, value in values.items()]))


@contextmanager
def spark_session(screen: Console) -> Iterator[SparkSession]:
    """Yield a session. While it starts, a terminal shows so."""
    with ExitStack() as stack:
        with screen.status("Starting Spark"):
            spark = stack.enter_context(quiet_session())
        yield spark


def _query(sql: str) -> str:
    """Return the query: the argument itself, or the content of the file that it names."""
    if not sql.endswith(".sql") and not _is_file(sql):
        return sql
    check_exists(sql)
    try:
        return Path(sql).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SaltwiseError(f"{sql!r} cannot be read ({error}); it must be a file in UTF-8 with one SELECT.") from error


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # no path is as long as a query may be
        return False


def _tables(entries: list[str] | None) -> dict[str, tuple[str, str]]:
    """Return the path and the format of each table, by table name."""
    files = dict(_name_and_path(entry) for entry in entries or [])
    return {name: (path, format_of(path)) for name, path in files.items()}


def _register(spark: SparkSession, files: dict[str, tuple[str, str]]) -> None:
    for name, (path, format) in files.items():
        read_file(spark, path, format).createOrReplaceTempView(name)


def _name_and_path(entry: str) -> tuple[str, str]:
    name, equals, path = entry.partition("=")
    if not (name.isidentifier() and equals and path):
        raise SaltwiseValueError(f"table is {entry!r}; it must be NAME=PATH, such as t=flights.parquet.")
    return name, path
