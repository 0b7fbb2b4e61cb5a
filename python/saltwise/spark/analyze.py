"""analyze: what the strategy auto should know of the keys of a table, found in one pass and kept with the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import IllegalArgumentException

from ..errors import SaltwiseError, SaltwiseValueError
from .session import require_plugin
from .spark_errors import SPARK_ERRORS, first_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class KeyStatistics:
    """What is kept of the keys of a table."""

    rows: int
    keys: int
    """Different keys, to about 2 %."""
    hottest: float | None
    """The largest share of a key, at most; None where there are no rows."""
    stored: str
    """Where it is kept: a property of the table, or a file beside the files."""


class KeyStatisticsError(SaltwiseError):
    """Statistics that are kept already are damaged, of a later version, or of another program."""


def analyze(spark: SparkSession, source: str, *keys: str) -> KeyStatistics:
    """Find how the rows of a table lie on its keys, and keep that for the strategy ``auto``.

    It takes one pass over the key columns. From then on ``auto`` samples nothing where the table is grouped by these
    columns, with nothing but projections in between, until its files have more than a fifth more or fewer bytes;
    ``explain()`` says what it goes by. In SQL: ``SELECT * FROM saltwise_analyze('events', 'user_id')``.

    Args:
        spark: a session with the plugin, classic or Connect.
        source: a table of files, as ``db.events``, or the path of a file or a folder. A path is read in Spark's default
            format, Parquet; another one is named as in ``"json.`/data/events`"``.
        keys: names of the key columns, in any order.

    Returns:
        What was found. It is kept in properties of the table, or beside the files as ``_saltwise_keys_....json``, which
        Spark's readers pass over; what was kept before for the same keys is replaced at the end, at once.

    Raises:
        SaltwiseValueError: there is no key, no such column, or the source is a view, or stands for several paths.
        KeyStatisticsError: what is kept already cannot be read, and so is not overwritten; it says where that is.
        SaltwiseError: Spark cannot read the source, or nothing can be written beside it.
        PluginMissingError: the session has no plugin.

    >>> saltwise.analyze(spark, "/data/events", "user_id")  # doctest: +SKIP
    KeyStatistics(rows=8000000, keys=999123, hottest=0.013, stored='file file:/data/events/_saltwise_keys_5d0c....json')
    """
    if not keys:
        raise SaltwiseValueError("keys is empty; name at least one column that is grouped by.")
    require_plugin(spark)
    arguments = [str(source), *map(str, keys)]
    places = ", ".join("?" for _ in arguments)
    try:
        [row] = spark.sql(f"SELECT * FROM saltwise_analyze({places})", args=arguments).collect()
    except IllegalArgumentException as error:
        raise _refused(str(error).split("\n")[0]) from error
    except SPARK_ERRORS as error:
        raise SaltwiseError(f"Spark cannot read {source!r}: {first_sentence(error)}.") from error
    return KeyStatistics(**row.asDict())


def _refused(sentence: str) -> SaltwiseError:
    """Name the error that a sentence of the plugin tells."""
    if sentence.startswith("the key statistics in "):
        return KeyStatisticsError(sentence)
    return SaltwiseError(sentence) if sentence.startswith("the key statistics ") else SaltwiseValueError(sentence)
