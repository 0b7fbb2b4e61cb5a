"""The SQL functions for a session without the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SaltwiseError
from .session import plugin_loaded, session_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> tuple[str, ...]:
    """Register Saltwise's SQL functions, as pandas UDFs, on a session that has no plugin.

    They are temporary functions of this session. Spark gives a registered UDF one type for its result, no type for its
    arguments, and no partial aggregation, so they differ from the plugin's:

    * ``skew_worker(n, strategy, key_hash)`` takes the hash of a key in place of the key: write
      ``skew_worker(8, 'pkg', xxhash64(carrier))`` for the plugin's ``skew_worker(8, 'pkg', carrier)``, and every row
      has the same worker. Rows are routed as they come: over a shuffle, select from
      ``(SELECT * FROM t SORT BY xxhash64(a, b, ...))``, all its columns, so that a task that runs again sends them
      where they went before.
    * ``heavy_hitters`` and ``space_saving_top`` show items as strings, and ``space_saving_top`` takes no type.
    * Items are whole numbers or strings; others are refused, and are counted as ``CAST(... AS STRING)``. Whole numbers
      among NULLs come as doubles: they are counted as bigint, and refused beyond 2^53.
    * An aggregate sees all rows of a group in one task, Spark takes no aggregate of its own beside it in a query block,
      and over no rows at all it returns no row.
    * Constants are checked when the query runs, not before, and ``capacity`` is by default what the session says when
      ``register`` is called.
    * Of a sketch that is NULL, ``space_saving_estimate`` returns a struct of NULLs.

    Sketches are the plugin's, byte by byte, and travel both ways. The package has to be installed where Spark's Python
    workers run (``pip``, or ``spark.addArtifacts`` on Connect).

    Args:
        spark: a classic or a Connect session.

    Returns:
        The names of the functions that were registered: none where the plugin is loaded, whose functions stay.

    Raises:
        SaltwiseError: pandas or numpy is not installed.

    >>> saltwise.register(spark)[0]  # doctest: +SKIP
    'heavy_hitters'
    """
    if plugin_loaded(spark):
        return ()
    try:
        from .udfs import udfs
    except ImportError as error:
        raise SaltwiseError(f"register needs {error.name}: run pip install 'saltwise[arrow]'.") from error
    registered = udfs(session_options(spark))
    for name, udf in registered.items():
        spark.udf.register(name, udf)
    return tuple(registered)
