"""df.skew_groupby(...): a GROUP BY that stays balanced when a few keys own most of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .aggregated import taking_aggregators
from .errors import SaltwiseError, SaltwiseValueError
from .options import SkewOptions, hot_json
from .session import require_plugin, session_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.group import GroupedData

ENGINES = ("plugin", "arrow")


def skew_groupby(
    df: DataFrame,
    *cols: Column | str | int | list[Any],
    strategy: str | None = None,
    partitions: int | None = None,
    theta: float | None = None,
    epsilon: float | None = None,
    choices: int | None = None,
    sketch_capacity: int | None = None,
    hot: object = None,
    engine: str = "plugin",
) -> GroupedData:
    """Group a DataFrame by key, so that no task gets more than its share of a hot key.

    The answers are those of ``df.groupBy(*cols)``. Where splitting would not help, or a group may not be split,
    Spark's own plan runs, and ``explain()`` says why.

    Args:
        df: what to group.
        cols: as for ``DataFrame.groupBy``.
        strategy: ``auto``, ``split``, ``local``, ``hash``, ``shuffle``, ``pkg``, ``dchoices``, ``wchoices`` or
            ``roundrobin``.
        partitions: n, the number of workers among which rows are balanced.
        theta: share of rows from which a key is hot; 1/(5n) by default.
        epsilon: imbalance that ``dchoices`` may leave, as a share of all rows.
        choices: d, the workers that a hot key may use with ``dchoices``; solved by default.
        sketch_capacity: counters of a sketch, at least 1/theta.
        hot: hot keys that are known beforehand: a list of keys (tuples for several columns), a dict from key
            to its share of rows, or a report of :func:`saltwise.skew_report`. Routing then depends on the
            content of rows only.
        engine: ``plugin``, or ``arrow`` for a session without it: rows are routed by ``mapInArrow`` then, to the same
            workers, and aggregates are merged by Spark's public functions. It has the
            methods and the limits of :class:`saltwise.arrow.ArrowGroupedData`, goes by ``dchoices`` where no strategy
            is named, and takes neither ``auto`` nor ``hot``. The package has to be installed where Spark's Python
            workers run.

    Returns:
        Spark's own GroupedData: agg, count, sum, pivot and all the others; with ``engine="arrow"`` an
        ArrowGroupedData, which has agg, count, sum, avg, mean, min and max. Both take :class:`saltwise.Aggregator` in
        ``agg``, as :meth:`saltwise.aggregated.TakesAggregators.agg` says.

    Raises:
        SaltwiseValueError: an option is out of range.
        PluginMissingError: the session has no plugin.
        SaltwiseError: ``engine="arrow"`` and numpy is not installed.

    >>> df.skew_groupby("k", strategy="dchoices", partitions=4).count()  # doctest: +SKIP
    DataFrame[k: string, count: bigint]
    """
    options = SkewOptions(
        strategy=strategy,
        partitions=partitions,
        theta=theta,
        epsilon=epsilon,
        choices=choices,
        sketch_capacity=sketch_capacity,
        hot=None if hot is None else hot_json(hot),
    )
    if engine not in ENGINES:
        raise SaltwiseValueError.unknown("engine", engine, ENGINES)
    if engine == "arrow":
        return _by_arrow(df, cols, options)  # type: ignore[no-any-return]
    require_plugin(df.sparkSession)
    grouped = df.hint("skew_groupby", *options.hint()).groupBy(*cols)  # type: ignore[arg-type]
    return taking_aggregators(grouped, df, cols, options)  # type: ignore[no-any-return]


def _by_arrow(df: DataFrame, cols: tuple[Any, ...], options: SkewOptions) -> Any:
    try:
        from .arrow import ArrowGroupedData
        from .routing import settled
    except ImportError as error:
        raise SaltwiseError(f"engine='arrow' needs {error.name}: run pip install 'saltwise[arrow]'.") from error
    if options.hot is not None:
        raise SaltwiseValueError("hot is given, and engine='arrow' takes none: leave hot out, or group by the plugin.")
    grouped = ArrowGroupedData(df, cols, settled(options, session_options(df.sparkSession)))
    return taking_aggregators(grouped, df, cols, options)
