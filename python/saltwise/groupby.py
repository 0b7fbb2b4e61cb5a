"""df.skew_groupby(...): a GROUP BY that stays balanced when a few keys own most of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .options import SkewOptions, hot_json
from .session import require_plugin

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.group import GroupedData


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
) -> GroupedData:
    """Group a DataFrame by key, so that no task gets more than its share of a hot key.

    The answers are those of ``df.groupBy(*cols)``. Where splitting would not help, or a group may not be split,
    Spark's own plan runs, and ``explain()`` says why.

    Args:
        df: what to group.
        cols: as for ``DataFrame.groupBy``.
        strategy: ``auto``, ``split``, ``hash``, ``shuffle``, ``pkg``, ``dchoices``, ``wchoices`` or ``roundrobin``.
        partitions: n, the number of workers among which rows are balanced.
        theta: share of rows from which a key is hot; 1/(5n) by default.
        epsilon: imbalance that ``dchoices`` may leave, as a share of all rows.
        choices: d, the workers that a hot key may use with ``dchoices``; solved by default.
        sketch_capacity: counters of a sketch, at least 1/theta.
        hot: hot keys that are known beforehand: a list of keys (tuples for several columns), a dict from key
            to its share of rows, or a report of :func:`saltwise.skew_report`. Routing then depends on the
            content of rows only.

    Returns:
        Spark's own GroupedData: agg, count, sum, pivot and all the others.

    Raises:
        SaltwiseValueError: an option is out of range.
        PluginMissingError: the session has no plugin.

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
    require_plugin(df.sparkSession)
    return df.hint("skew_groupby", *options.hint()).groupBy(*cols)  # type: ignore[arg-type]
