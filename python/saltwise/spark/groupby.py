"""df.skew_groupby(...): a GROUP BY that stays balanced when a few keys own most of the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import SaltwiseError, SaltwiseValueError
from ..options import CONSTRUCTED, SkewOptions, hot_json
from .aggregators.plan import taking_aggregators
from .key_columns import as_column, flattened
from .session import require_plugin, session_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.group import GroupedData

    from ..placement.partition_function import PartitionFunction
    from ..placement.store import PlacementStore

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
    cost: str | None = None,
    placement: PartitionFunction | PlacementStore | None = None,
    engine: str = "plugin",
) -> GroupedData:
    """Group a DataFrame by key, so that no task gets more than its share of a hot key.

    The answers are those of ``df.groupBy(*cols)``. Where splitting would not help, Spark's own plan runs, and
    ``explain()`` says why. Groups that may not be split, those of ``applyInPandas``, ``applyInArrow`` and Python
    aggregates, stay whole, and their keys are placed on workers so that these are even: by the partition function that
    is given, else largest first, from a sketch of the keys that is made when the query runs.

    Args:
        df: what to group.
        cols: as for ``DataFrame.groupBy``.
        strategy: ``auto``, ``split``, ``local``, ``hash``, ``shuffle``, ``pkg``, ``dchoices``, ``wchoices`` or
            ``roundrobin``. These leave any group whole: ``hash``, ``consistent``, ``offgreedy`` (largest first), and
            ``scan``, ``redist`` and ``readj``, which construct a partition function, in a pass over the key columns
            at once.
        partitions: n, the number of workers among which rows are balanced.
        theta: share of rows from which a key is hot; 1/(5n) by default.
        epsilon: imbalance that ``dchoices`` may leave, as a share of all rows.
        choices: d, the workers that a hot key may use with ``dchoices``; solved by default.
        sketch_capacity: counters of a sketch, at least 1/theta.
        hot: hot keys that are known beforehand: a list of keys (tuples for several columns), a dict from key
            to its share of rows, or a report of :func:`saltwise.skew_report`. Routing then depends on the
            content of rows only.
        cost: what a key costs its worker, where groups stay whole: ``rows`` (the default), ``bytes``, ``rows^2``, or
            the name of a column of numbers to add up.
        placement: where the keys of groups that stay whole are: a partition function, or a store that keeps one from
            run to run, and which plans the next one, by ``readj``, in a pass over the key columns at once.
        engine: ``plugin``, or ``arrow`` for a session without it: rows are routed by ``mapInArrow`` then, to the same
            workers, and aggregates are merged by Spark's public functions. It has the
            methods and the limits of :class:`saltwise.spark.arrow_engine.ArrowGroupedData`, goes by ``dchoices`` where
            no strategy is named, and takes neither ``auto``, ``hot``, ``cost`` nor ``placement``. The package has to be
            installed where Spark's Python workers run.

    Returns:
        Spark's own GroupedData: agg, count, sum, pivot and all the others; with ``engine="arrow"`` an
        ArrowGroupedData, which has agg, count, sum, avg, mean, min and max. Both take :class:`saltwise.Aggregator` in
        ``agg``, as :meth:`saltwise.spark.aggregators.plan.TakesAggregators.agg` says.

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
        cost=cost,
    )
    if engine not in ENGINES:
        raise SaltwiseValueError.unknown("engine", engine, ENGINES)
    if engine == "arrow":
        for name, given in ("cost", cost), ("placement", placement):
            if given is not None:
                raise SaltwiseValueError(f"{name} is given, and engine='arrow' places nothing: group by the plugin.")
        return _by_arrow(df, cols, options)  # type: ignore[no-any-return]
    require_plugin(df.sparkSession)
    if placement is not None or options.strategy in CONSTRUCTED:
        options = replace(options, function=_constructed(df, cols, options, placement))
    grouped = df.hint("skew_groupby", *options.hint()).groupBy(*cols)  # type: ignore[arg-type]
    return taking_aggregators(grouped, df, cols, options)  # type: ignore[no-any-return]


def _constructed(
    df: DataFrame, cols: tuple[Any, ...], options: SkewOptions, placement: PartitionFunction | PlacementStore | None
) -> str:
    try:
        from .placed_groups import constructed
    except ImportError as error:
        raise SaltwiseError(f"placement needs {error.name}: run pip install 'saltwise[simulate]'.") from error
    return constructed(df, [as_column(df, key) for key in flattened(cols)], options, placement)


def _by_arrow(df: DataFrame, cols: tuple[Any, ...], options: SkewOptions) -> Any:
    try:
        from ..splitting.router import settled
        from .arrow_engine import ArrowGroupedData
    except ImportError as error:
        raise SaltwiseError(f"engine='arrow' needs {error.name}: run pip install 'saltwise[arrow]'.") from error
    if options.hot is not None:
        raise SaltwiseValueError("hot is given, and engine='arrow' takes none: leave hot out, or group by the plugin.")
    grouped = ArrowGroupedData(df, cols, settled(options, session_options(df.sparkSession)))
    return taking_aggregators(grouped, df, cols, options)
