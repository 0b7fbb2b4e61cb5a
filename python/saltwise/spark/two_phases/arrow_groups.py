"""The two-phase plan without the plugin: skew_groupby(..., engine="arrow").

``mapInArrow`` routes the rows. Spark does everything else::

    Final(k) ← Exchange(k) ← Partial(k) ← aggregate(k, worker) ← Exchange(worker) ← mapInArrow ← Sort ← hash of k
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StructType

from ..._jit import NUMBA_ERROR
from ..._optional import OptionalPackageError
from ...errors import SaltwiseError, SaltwiseValueError
from ...options import SettledOptions
from ..aggregate_calls import Call
from ..columns import as_column, flattened, quoted, with_names
from .merge_rules import Mergeable, mergeable, mergeable_call
from .routing import WORKER, routed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class ArrowGroups:
    """The groups of ``skew_groupby(..., engine="arrow")``, with those methods of GroupedData that may split groups.

    A strategy of the papers spreads the rows of a group over workers. Each worker aggregates its rows, and then the
    results are merged. Names, types and values are those of ``df.groupBy(*cols)``, apart from what Spark leaves open.

    A map task is a source. All strategies but ``hash`` choose a row's worker by the rows before it. A task that runs
    again must send every row to the same worker, so its rows are first sorted by a hash of the columns that are
    needed. This does not help if these columns differ when they are computed again: ``rand()``, a ``collect_list`` or a
    sum of doubles below the group-by. It does not help for maps either, because they have no hash. In both cases only
    ``strategy="hash"`` survives a lost executor.

    ``collect_set`` treats all NaNs as equal, like Spark 4.2 and later. Earlier versions of Spark may list several.

    Args:
        df: what to group.
        cols: as for ``DataFrame.groupBy``, at least one.
        options: the strategy and its parameters.

    Raises:
        SaltwiseValueError: there is no column to group by, or a key is or holds a map.
        SaltwiseError: the DataFrame is a stream.

    Warns:
        RuntimeWarning: numba cannot be imported.
    """

    def __init__(self, df: DataFrame, cols: Sequence[Column | str | int | list[Any]], options: SettledOptions) -> None:
        if df.isStreaming:
            raise SaltwiseError("The DataFrame is a stream, and engine='arrow' groups tables: use df.groupBy.")
        if NUMBA_ERROR is not None:
            warnings.warn(
                f"engine='arrow' chooses workers in interpreted Python, which is many times slower. "
                f"{OptionalPackageError.from_error('Compiled Python', 'arrow', NUMBA_ERROR)} "
                "Spark's Python workers need it, too.",
                RuntimeWarning,
                stacklevel=2,
            )
        keys = flattened(cols)
        if not keys:
            raise SaltwiseValueError("cols is empty; name at least one column to group by, or use df.agg.")
        self._df = df
        self._stock = df.groupBy(*cols)  # type: ignore[arg-type]
        self._keys = [as_column(df, key) for key in keys]
        self._options = options

    def agg(self, *exprs: Column | dict[str, str]) -> DataFrame:
        """Aggregate as ``GroupedData.agg``: Columns, or a dict from column to function name.

        Raises:
            SaltwiseValueError: a Column is not one call of a function that merges. The message lists these functions.

        >>> df.skew_groupby("k", engine="arrow").agg(F.sum("bytes").alias("total"))  # doctest: +SKIP
        DataFrame[k: string, total: bigint]
        """
        stock = self._stock.agg(*exprs)  # type: ignore[arg-type]
        columns: list[Any] = list(exprs)
        if len(exprs) == 1 and isinstance(exprs[0], dict):
            # Spark may give the columns of a dict another order, and other names than those of the functions.
            by_name = {self._stock.agg({name: of}).columns[-1]: _named_call(of, name) for name, of in exprs[0].items()}
            columns = [by_name[name] for name in stock.columns[-len(exprs[0]) :]]
        return self._two_phases([*map(mergeable, columns, stock.columns[-len(columns) :])], stock.schema)

    def count(self) -> DataFrame:
        """Count the rows of each group, as ``GroupedData.count``."""
        return self._two_phases([mergeable_call(Call("count", []))], self._stock.count().schema)

    def sum(self, *cols: str) -> DataFrame:
        """Add up number columns, all by default, as ``GroupedData.sum``."""
        return self._of_numbers("sum", cols)

    def avg(self, *cols: str) -> DataFrame:
        """Average number columns, all by default, as ``GroupedData.avg``."""
        return self._of_numbers("avg", cols)

    mean = avg

    def min(self, *cols: str) -> DataFrame:
        """Return the smallest values of number columns, all by default, as ``GroupedData.min``."""
        return self._of_numbers("min", cols)

    def max(self, *cols: str) -> DataFrame:
        """Return the largest values of number columns, all by default, as ``GroupedData.max``."""
        return self._of_numbers("max", cols)

    def _of_numbers(self, function: str, cols: Sequence[str]) -> DataFrame:
        stock = getattr(self._stock, function)(*cols)
        names = cols or [quoted(field.name) for field in self._df.schema if isinstance(field.dataType, NumericType)]
        return self._two_phases([mergeable_call(Call(function, [F.col(name)])) for name in names], stock.schema)

    def _two_phases(self, aggregates: Sequence[Mergeable], result: StructType) -> DataFrame:
        """Return the aggregates by group; `result` has the names and the types that Spark gives them."""
        fields = list(result)[len(result) - len(aggregates) :]
        columns, keys = with_names("k", self._keys)
        parts, merged = [], []
        for i, (aggregate, field) in enumerate(zip(aggregates, fields, strict=True)):
            rule, others = aggregate.rule, aggregate.others
            values, value_columns = with_names(f"v{i}_", aggregate.values)
            columns += values
            parts_of_rows, part_columns = with_names(f"p{i}_", rule.parts(value_columns, others, field.dataType))
            parts += parts_of_rows
            merged.append(rule.merge(part_columns, others, field.dataType).alias(f"r{i}"))
        # Only the columns that are needed go to workers. The names of the user's columns cannot clash with ours.
        rows = routed(self._df.select(*columns), len(keys), self._options)
        # If spark.sql.retainGroupColumns is off, Spark returns only the columns that agg names.
        named_keys, part_keys = with_names("part_k", keys)
        part_groups = rows.groupBy(*keys, WORKER).agg(*named_keys, *parts)
        named_keys, whole_keys = with_names("whole_k", part_keys)
        whole_groups = part_groups.groupBy(*part_keys).agg(*named_keys, *merged)
        shown = [*whole_keys, *(F.col(f"r{i}") for i in range(len(merged)))][-len(result) :]
        return whole_groups.select(
            *(column.alias(field.name, metadata=field.metadata) for column, field in zip(shown, result, strict=True))
        )


_ALIASES = {"average": "avg", "mean": "avg", "size": "count", "std": "stddev"}
"""The names of functions that ``GroupedData.agg`` reads in a dict in a way of its own."""


def _named_call(function: str, column: str) -> Column:
    """Return the call of a function by its name in a dict."""
    name = function.lower()
    return F.call_function(_ALIASES.get(name, name), F.col(column))
