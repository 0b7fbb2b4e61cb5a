"""df.skew_groupby(...): a GROUP BY that stays balanced when a few keys own most of the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from ..._optional import required_by
from ...errors import SaltwiseError, SaltwiseValueError
from ...options import SkewOptions
from ...strategies import PLANNED_AHEAD, ROUTING, RoutingName, StrategyName
from ..aggregators.protocol import Aggregator
from ..compat import check_frame
from ..session import require_plugin
from .hot_keys import hot_json
from .request import Request

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.group import GroupedData
    from pyspark.sql.types import StructType

    from ...placement.partition_function import PartitionFunction
    from ...placement.store import PlacementStore

EngineName = Literal["plugin", "arrow"]
"""What runs a group-by: the plugin, or Spark's public functions alone."""


class SkewGroupedData:
    """A DataFrame grouped by key, so that no task gets more than its share of a hot key.

    :func:`saltwise.skew_groupby` returns it, for every engine, in classic sessions and over Connect. It has all methods
    of Spark's ``GroupedData``, with the same answers. In addition ``agg`` takes :class:`saltwise.Aggregator` and
    ``observation=``, and ``applyInPandas`` takes ``merge=``.

    With ``engine="arrow"`` it has agg, count, sum, avg, mean, min, max, and applyInPandas with ``merge=``.
    """

    def __init__(self, request: Request, engine: str) -> None:
        self._request = request
        self._engine = engine
        if not self._plans_ahead:
            self._grouped  # noqa: B018 - so that a wrong column is an error now

    @property
    def _plans_ahead(self) -> bool:
        """Whether a pass over the keys comes before the query. It waits for the method that needs the groups."""
        return self._request.placement is not None or self._request.options.strategy in PLANNED_AHEAD

    @cached_property
    def _grouped(self) -> Any:
        """Spark's GroupedData below the hint, or that of the arrow engine."""
        request = self._request
        if self._engine == "arrow":
            arrow = _module("..two_phases.arrow_groups", "engine='arrow'", "arrow")
            return arrow.ArrowGroups(request.rows, request.cols, request.settle(ROUTING, "dchoices"))
        options = request.options
        if self._plans_ahead:
            function = _module(*_PLACED_GROUPS).partition_function_json(request)
            options = replace(options, function=function)
        return request.rows.hint("skew_groupby", *options.hint()).groupBy(*request.cols)

    def agg(self, *exprs: Any, observation: Observation | None = None) -> DataFrame:
        """Aggregate by Spark's functions and by Aggregators, in one pass.

        Args:
            exprs: Columns and instances of :class:`saltwise.Aggregator`, in any order, or what ``GroupedData.agg``
                takes. Beside an Aggregator, a Column is one call of a function.
            observation: for Aggregators. When the query has run, it has ``groups``, ``states`` (the number that map
                tasks sent; rows of rare keys need no state), ``merges``, ``state_bytes``, ``largest_state`` (in bytes)
                and ``most_states`` (the most of one key).

        Raises:
            SaltwiseValueError: a Column beside an Aggregator is not one call, there is an observation without an
                Aggregator, or an option was given that Aggregators do not use.
            OptionalPackageError: numpy cannot be imported.
        """
        if any(isinstance(expr, Aggregator) for expr in exprs):
            plan = _module("..aggregators.plan", "An Aggregator", "aggregates")
            request = self._request
            request.refuse_unused("an Aggregator", "aggregate by Spark's functions")
            return plan.aggregate(  # type: ignore[no-any-return]
                request.rows,
                request.keys,
                exprs,
                options=request.settle(plan.USABLE_STRATEGIES),
                observation=observation,
            )
        if observation is not None:
            raise SaltwiseValueError("observation is given, and there is no Aggregator to observe: leave it out.")
        return self._grouped.agg(*exprs)  # type: ignore[no-any-return]

    def count(self) -> DataFrame:
        """Count the rows of each group."""
        return self._grouped.count()  # type: ignore[no-any-return]

    def sum(self, *cols: str) -> DataFrame:
        """Add up number columns, all by default."""
        return self._grouped.sum(*cols)  # type: ignore[no-any-return]

    def avg(self, *cols: str) -> DataFrame:
        """Average number columns, all by default."""
        return self._grouped.avg(*cols)  # type: ignore[no-any-return]

    def mean(self, *cols: str) -> DataFrame:
        """Average number columns, all by default."""
        return self.avg(*cols)

    def min(self, *cols: str) -> DataFrame:
        """Return the smallest values of number columns, all by default."""
        return self._grouped.min(*cols)  # type: ignore[no-any-return]

    def max(self, *cols: str) -> DataFrame:
        """Return the largest values of number columns, all by default."""
        return self._grouped.max(*cols)  # type: ignore[no-any-return]

    def pivot(self, pivot_col: str, values: list[Any] | None = None) -> GroupedData:
        """Pivot a column, as ``GroupedData.pivot``. What it returns is Spark's own."""
        return self._sparks("pivot")(pivot_col, values)  # type: ignore[no-any-return]

    def applyInPandas(
        self, func: Callable[..., Any], schema: StructType | str, merge: Callable[[Any], Any] | None = None
    ) -> DataFrame:
        """Apply a function of pandas DataFrames to each group, or, with `merge`, to parts of groups.

        Args:
            func: as for ``GroupedData.applyInPandas``.
            schema: the schema of its results.
            merge: gets the results of `func` for the parts of one group, one after another in one DataFrame. It returns
                what `func` would return for the whole group. Then groups are split, so no task gets more than its share
                of a hot key. Without `merge`, groups are placed as a whole.

        Raises:
            SaltwiseValueError: there is a merge, and a key is a struct, an array or a map, the strategy does not split,
                or an option was given that merge= does not use.
            SaltwiseError: there is no merge with ``engine="arrow"``.

        >>> rows = spark.createDataFrame([("a", 1), ("a", 2), ("b", 3)], "k string, v bigint")
        >>> def totals(rows):
        ...     return rows.groupby("k", as_index=False)["v"].sum()
        >>> rows.skew_groupby("k").applyInPandas(totals, "k string, v bigint", merge=totals).orderBy("k").collect()
        [Row(k='a', v=3), Row(k='b', v=3)]
        """
        if merge is not None:
            pandas_merge = _module(".pandas_merge", "merge=", "arrow")
            return pandas_merge.apply_split(self._request, func, schema, merge)  # type: ignore[no-any-return]
        if self._engine == "arrow":
            raise SaltwiseError("engine='arrow' places no groups: give merge=, or group by the plugin.")
        return self._grouped.applyInPandas(func, schema)  # type: ignore[no-any-return]

    def applyInArrow(self, func: Callable[..., Any], schema: StructType | str) -> DataFrame:
        """Apply a function of Arrow tables to each group, as ``GroupedData.applyInArrow``. Groups stay whole."""
        return self._sparks("applyInArrow")(func, schema)  # type: ignore[no-any-return]

    def apply(self, udf: Any) -> DataFrame:
        """Apply a grouped-map pandas UDF, as ``GroupedData.apply``. Groups stay whole."""
        return self._sparks("apply")(udf)  # type: ignore[no-any-return]

    def cogroup(self, other: Any) -> Any:
        """Cogroup with another grouped DataFrame, as ``GroupedData.cogroup``.

        Neither side is placed. Both need one partition function, and that is Spark's own hash.
        """
        return self._sparks("cogroup")(other)

    def applyInPandasWithState(self, *args: Any, **kwargs: Any) -> DataFrame:
        """Keep a state for each group of a stream, as ``GroupedData.applyInPandasWithState``."""
        return self._sparks("applyInPandasWithState")(*args, **kwargs)  # type: ignore[no-any-return]

    def transformWithState(self, *args: Any, **kwargs: Any) -> DataFrame:
        """Keep a state for each group of a stream, as ``GroupedData.transformWithState``."""
        return self._sparks("transformWithState")(*args, **kwargs)  # type: ignore[no-any-return]

    def transformWithStateInPandas(self, *args: Any, **kwargs: Any) -> DataFrame:
        """Keep a state for each group of a stream, as ``GroupedData.transformWithStateInPandas``."""
        return self._sparks("transformWithStateInPandas")(*args, **kwargs)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        options = ", ".join(["", *self._request.options.hint()])
        return f"SkewGroupedData[{', '.join(map(str, self._request.cols))}; engine={self._engine}{options}]"

    def _sparks(self, method: str) -> Any:
        """Return a method of Spark's GroupedData. The engine or this version of Spark may not have it."""
        if implementation := getattr(self._grouped, method, None):
            return implementation
        if self._engine == "arrow":
            raise SaltwiseError(f"engine='arrow' has no {method}: group by the plugin, or use df.groupBy for it.")
        raise SaltwiseError(f"{method} is not in Spark {self._request.rows.sparkSession.version}: use a later one.")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Spark's own cogroup reads private attributes of the other side.
            if name.startswith("__") or name == "_grouped":
                raise AttributeError(name)
            return getattr(self._grouped, name)


@overload
def skew_groupby(
    df: DataFrame,
    *cols: Column | str | int | list[Any],
    strategy: StrategyName | None = None,
    partitions: int | None = None,
    theta: float | None = None,
    epsilon: float | None = None,
    choices: int | None = None,
    sketch_capacity: int | None = None,
    hot: object = None,
    cost: str | None = None,
    placement: PartitionFunction | PlacementStore | None = None,
    engine: Literal["plugin"] = "plugin",
) -> SkewGroupedData: ...


@overload
def skew_groupby(
    df: DataFrame,
    *cols: Column | str | int | list[Any],
    strategy: RoutingName | None = None,
    partitions: int | None = None,
    theta: float | None = None,
    epsilon: float | None = None,
    choices: int | None = None,
    sketch_capacity: int | None = None,
    engine: Literal["arrow"],
) -> SkewGroupedData: ...


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
) -> SkewGroupedData:
    """Group a DataFrame by key, so that no task gets more than its share of a hot key.

    The answers are those of ``df.groupBy(*cols)``. If splitting does not help, Spark's own plan runs, and ``explain()``
    says why. The groups of ``applyInPandas``, ``applyInArrow`` and Python UDAFs may not be split. They stay whole, and
    their keys are placed on workers evenly: by the partition function that is given, or else largest first, from a
    sketch of the keys that is made when the query runs.

    Args:
        df: what to group.
        cols: as for ``DataFrame.groupBy``.
        strategy: ``auto``, ``split``, ``local``, ``hash``, ``shuffle``, ``pkg``, ``dchoices``, ``wchoices`` or
            ``roundrobin``. These leave every group whole: ``hash``, ``consistent``, ``offgreedy`` (largest first), and
            ``scan``, ``redist``, ``readj`` and ``level``. The last four make a partition function in a pass over the
            key columns, before the query runs.
        partitions: n, the number of workers.
        theta: the share of rows from which a key is hot; 1/(5n) by default.
        epsilon: the imbalance that ``dchoices`` may leave, as a share of all rows.
        choices: d, the workers that a hot key may use with ``dchoices``; solved by default.
        sketch_capacity: counters of a sketch, at least 1/theta.
        hot: hot keys that are known beforehand: a list of keys, a dict from key to its share of rows, or a report of
            :func:`saltwise.skew_report`. A key is the value as Spark gives it to Python; for several columns, a tuple
            or a Row of their values. Routing then depends only on the content of rows. The strategy must be one that
            routes rows; the default is ``dchoices``.
        cost: what a key costs its worker, if groups stay whole: ``rows`` (the default), ``bytes``, ``rows^2``, or the
            name of a column of numbers to add up.
        placement: the worker of each key, if groups stay whole: a partition function, or a store that keeps one from
            run to run. A store plans the next function by ``level``, in a pass over the key columns before the query
            runs. A function goes with no other option but ``partitions``.
        engine: ``plugin``, or ``arrow`` for a session without it. Then rows are routed by ``mapInArrow`` to the same
            workers, and aggregates are merged by Spark's public functions. The package must be installed where Spark's
            Python workers run. Without a strategy it uses ``dchoices``. It takes neither ``auto``, ``hot``, ``cost``
            nor ``placement``. :class:`saltwise.spark.two_phases.arrow_groups.ArrowGroups` has its other limits.

    Raises:
        SaltwiseValueError: `df` is no DataFrame, an option is out of range, or the engine does not use it.
        PluginMissingError: the session has no plugin.
        OptionalPackageError: ``engine="arrow"``, and numpy cannot be imported.

    >>> df.skew_groupby("k", strategy="dchoices", partitions=4).count()  # doctest: +SKIP
    DataFrame[k: string, count: bigint]
    """
    check_frame("df", df)
    if engine not in get_args(EngineName):
        raise SaltwiseValueError.unknown("engine", engine, get_args(EngineName))
    options = SkewOptions(
        strategy=strategy,
        partitions=partitions,
        theta=theta,
        epsilon=epsilon,
        choices=choices,
        sketch_capacity=sketch_capacity,
        cost=cost,
    )
    if hot is not None and options.strategy not in (None, "auto", *ROUTING):
        raise SaltwiseValueError(
            f"hot is given, and strategy {options.strategy!r} does not route rows; name one of {', '.join(ROUTING)}, "
            "or leave hot out."
        )
    request = Request(df, cols, options, placement)
    if hot is not None:
        types = [key.dataType for key in df.select(*request.keys).schema]
        request = replace(request, options=replace(options, hot=hot_json(hot, types)))
    if engine == "arrow":
        request.refuse_unused("engine='arrow'", "group by the plugin")
    else:
        require_plugin(df.sparkSession)
        if placement is not None:
            _module(*_PLACED_GROUPS).check_placement(request)
    return SkewGroupedData(request, engine)


_PLACED_GROUPS = (".planned_placement", "placement", "arrow")


def _module(name: str, feature: str, extra: str) -> Any:
    """Import a module of this package that needs the packages of an extra.

    Raises:
        OptionalPackageError: a package cannot be imported.
    """
    with required_by(feature, extra):
        return import_module(name, __package__)
