"""analyze: statistics of a table's keys for the strategy auto, found in one pass and kept with the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import IllegalArgumentException

from ..errors import SaltwiseError, SaltwiseValueError
from ..tables import Printable
from .session import require_plugin
from .spark_errors import SPARK_ERRORS, first_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class KeyStatistics(Printable):
    """Statistics of the keys of a table. Prints as a small table, in a notebook as HTML."""

    rows: int
    keys: int
    """Distinct keys. The error is about 2 %."""
    hottest: float | None
    """Upper bound of the share of the most frequent key; None if there are no rows."""
    stored: str
    """Where the statistics are kept: in properties of the table, or in a file beside its files."""


class KeyStatisticsError(SaltwiseError):
    """The existing statistics are damaged, or a later version or another program wrote them."""


def analyze(spark: SparkSession, source: str, *keys: str) -> KeyStatistics:
    """Find how the rows of a table are spread over its keys, and keep that for the strategy ``auto``.

    This takes one pass over the key columns. Afterwards ``auto`` does not sample a query that groups the table by these
    columns with only projections in between. It samples again once the size of the files has changed by more than a
    fifth. ``explain()`` says which of the two it used. In SQL: ``SELECT * FROM saltwise_analyze('events', 'user_id')``.

    Args:
        spark: a session with the plugin, classic or Connect.
        source: a table of files, such as ``db.events``, or the path of a file or a folder. A path is read in Spark's
            default format, Parquet. Name another format like this: ``"json.`/data/events`"``.
        keys: names of the key columns, in any order.

    Returns:
        The statistics. They are kept in properties of the table, or beside the files as ``_saltwise_keys_....json``,
        which Spark's readers skip. At the end they replace earlier statistics of the same keys, in one step.

    Raises:
        SaltwiseValueError: there is no key, a column does not exist, or the source is a view or several paths.
        KeyStatisticsError: the existing statistics cannot be read, so they are not overwritten. It says where they are.
        SaltwiseError: Spark cannot read the source, or cannot write beside it.
        PluginMissingError: the session has no plugin.

    >>> saltwise.analyze(spark, "/data/events", "user_id")  # doctest: +SKIP
    KeyStatistics(rows=8000000, keys=999123, hottest=0.013, stored='file file:/data/events/_saltwise_keys_5d0c....json')
    """
    if not keys:
        raise SaltwiseValueError("keys is empty; name at least one column to group by.")
    require_plugin(spark)
    arguments = [str(source), *map(str, keys)]
    places = ", ".join("?" for _ in arguments)
    try:
        [row] = spark.sql(f"SELECT * FROM saltwise_analyze({places})", args=arguments).collect()
    except IllegalArgumentException as error:
        raise _plugin_error(str(error).split("\n")[0]) from error
    except SPARK_ERRORS as error:
        raise SaltwiseError(f"Spark cannot read {source!r}: {first_sentence(error)}.") from error
    return KeyStatistics(**row.asDict())


def _plugin_error(sentence: str) -> SaltwiseError:
    """Return the error for a sentence of the plugin."""
    if sentence.startswith("the key statistics in "):
        return KeyStatisticsError(sentence)
    return SaltwiseError(sentence) if sentence.startswith("the key statistics ") else SaltwiseValueError(sentence)
