"""The SQL functions for a session without the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._optional import required_by
from ..session import plugin_loaded, session_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> tuple[str, ...]:
    """Register Saltwise's SQL functions, as pandas UDFs, on a session without the plugin.

    They are temporary functions of this session. A registered UDF in Spark has one fixed result type, no argument
    types, and no partial aggregation. So they differ from the plugin's functions:

    * ``skew_worker(n, strategy, key_hash)`` takes the hash of a key instead of the key. Write
      ``skew_worker(8, 'pkg', xxhash64(carrier))`` for the plugin's ``skew_worker(8, 'pkg', carrier)``. Every row gets
      the same worker as with the plugin. Rows are routed in the order in which they come. A task that runs again must
      send each row to the same worker. So after a shuffle, select from
      ``(SELECT * FROM t SORT BY xxhash64(a, b, ...))`` with all columns of t.
    * ``heavy_hitters`` and ``space_saving_top`` return items as strings, and ``space_saving_top`` takes no type.
    * Items are whole numbers or strings. Other types are refused; count them as ``CAST(... AS STRING)``. Spark passes
      whole numbers among NULLs as doubles. They are counted as bigint, and refused beyond 2^53.
    * An aggregate gets all rows of a group in one task. In a query block with such a function, Spark allows no
      aggregate of its own. Without any rows, it returns no row.
    * Constants are checked when the query runs, not before. The default of ``capacity`` is the session's value when
      ``register`` is called.
    * For a NULL sketch, ``space_saving_estimate`` returns a struct of NULLs.

    Sketches have the same bytes as the plugin's, and each side reads the other's. The package must be installed where
    Spark's Python workers run (``pip``, or ``spark.addArtifacts`` on Connect).

    Args:
        spark: a classic or a Connect session.

    Returns:
        The names of the registered functions. If the plugin is loaded, its functions stay, and there are none.

    Raises:
        OptionalPackageError: pandas or numpy cannot be imported.

    >>> saltwise.register(spark)[0]  # doctest: +SKIP
    'heavy_hitters'
    """
    if plugin_loaded(spark):
        return ()
    with required_by("register", extra="arrow"):
        from .udfs import udfs
    registered = udfs(session_options(spark))
    for name, udf in registered.items():
        spark.udf.register(name, udf)
    return tuple(registered)
