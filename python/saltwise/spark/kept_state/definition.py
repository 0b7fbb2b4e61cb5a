"""The keys and aggregates of a state, and the Columns that compute the parts of a group, fold parts, and merge them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructType

from ...errors import SaltwiseValueError
from ..columns import WITHOUT_HASH, holds_type, quoted, with_names
from ..two_phases.merge_rules import RULES, Mergeable, two_phases
from .commit import HASH, ROWS, SEEN, SPLIT, KeptColumns, has_user_type
from .folder import StatefulAggregateError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Definition:
    """What a state keeps. :meth:`of` makes it from the arguments of :class:`saltwise.StatefulAggregate`."""

    keys: list[str]
    columns: dict[str, Column]
    """Name of each aggregate in the result, to its Column."""
    aggregates: list[Mergeable]
    """The same aggregates in two phases, in order."""

    @classmethod
    def of(cls, keys: str | Sequence[str], columns: Mapping[str, Column]) -> Definition:
        """Check the keys and the aggregates.

        Raises:
            SaltwiseValueError: there is none, a name is given twice, or an aggregate does not merge.
        """
        key_names = [keys] if isinstance(keys, str) else list(keys)
        names = [*key_names, *columns]
        for what, given in ("keys", key_names), ("aggregates", columns):
            if not given:
                raise SaltwiseValueError(f"{what} is empty; name at least one.")
        for name in names:
            if names.count(name) > 1:
                raise SaltwiseValueError(f"{name!r} is given twice; each column of the result must have its own name.")
        return cls(key_names, dict(columns), [_mergeable(name, column) for name, column in columns.items()])

    @property
    def names(self) -> list[str]:
        """The names of the columns that users see."""
        return [*self.keys, *self.columns]

    @property
    def functions(self) -> list[str]:
        """The function of each aggregate, in order."""
        return [aggregate.name for aggregate in self.aggregates]

    def check_keys(self, batch: DataFrame) -> None:
        """Check that a batch has the key columns, and that they can be keys.

        Raises:
            SaltwiseValueError: a key is missing, or holds a map.
        """
        for key in self.keys:
            if key not in batch.columns:
                raise SaltwiseValueError.unknown("key", key, batch.columns)
            key_type = batch.schema[key].dataType
            if holds_type(key_type, WITHOUT_HASH):
                raise SaltwiseValueError(
                    f"key {key!r} is of type {key_type.simpleString()}; a key must not hold a map: group by its "
                    "map_entries."
                )

    def result(self, batch: DataFrame) -> StructType:
        """Return the columns of the result. Names and types are those that Spark gives for this batch.

        Raises:
            SaltwiseValueError: a column is of a user-defined type.
        """
        stock = batch.groupBy(*map(quoted, self.keys)).agg(*(c.alias(n) for n, c in self.columns.items()))
        aggregates = list(stock.schema)[-len(self.columns) :]
        result = StructType([*(batch.schema[key] for key in self.keys), *aggregates])
        for field in result:
            if has_user_type(field.jsonValue()):
                raise SaltwiseValueError(
                    f"column {field.name!r} is of a user-defined type, which a state cannot keep: select its parts."
                )
        return result

    def shown(self, batch: DataFrame) -> dict[str, str]:
        """Return the name of each aggregate, to Spark's text of it."""
        return dict(zip(self.columns, batch.agg(*self.columns.values()).columns, strict=True))

    def parts(self, batch: DataFrame, result: StructType, split: Column, seen: Column) -> DataFrame:
        """Return the parts of each group of a batch, in the columns of the files.

        Args:
            batch: the rows.
            result: the columns of the result.
            split: the worker of a row if its key is split, else NULL. A group has one part for each worker.
            seen: the time of a row.
        """
        named_keys, keys = with_names("k", [F.col(quoted(key)) for key in self.keys])
        named_values, named_parts, parts = [], [], []
        for i, (aggregate, field) in enumerate(zip(self.aggregates, list(result)[len(keys) :], strict=True)):
            named, values = with_names(f"v{i}_", aggregate.values)
            named_values += named
            named, columns = with_names(f"p{i}_", aggregate.rule.parts(values, aggregate.others, field.dataType))
            named_parts += named
            parts += columns
        rows = batch.select(*named_keys, split.alias(SPLIT), seen.alias(SEEN), *named_values)
        named_group_keys, group_keys = with_names("kept_k", keys)
        latest = F.max(SEEN).alias(f"kept_{SEEN}")
        groups = rows.groupBy(*keys, SPLIT).agg(*named_group_keys, latest, F.count(F.lit(1)).alias(ROWS), *named_parts)
        return groups.select(
            *with_names("k", group_keys)[0],
            F.xxhash64(*group_keys).alias(HASH),
            SPLIT,
            F.col(f"kept_{SEEN}").alias(SEEN),
            ROWS,
            *parts,
        )

    def check_columns(self, kept: KeptColumns, path: Path, batch: KeptColumns | None = None) -> None:
        """Check that a state has these keys and aggregates, and the columns of a batch.

        Args:
            kept: the columns of the state.
            path: the folder of the state.
            batch: the columns of a batch, if there is one.

        Raises:
            StatefulAggregateError: the columns differ.
        """
        before, functions = kept.texts(), self.functions
        if batch is not None:
            now = batch.texts()
        else:
            now = [
                *self.keys,
                *(f"{name} as {function}" for name, function in zip(self.columns, functions, strict=True)),
            ]
        is_other_definition = kept.result.names != self.names or kept.functions != functions
        if is_other_definition or (batch is not None and now != before):
            raise StatefulAggregateError(path, f"its columns are {', '.join(before)}, and these are {', '.join(now)}")

    def folds(self, state: StructType) -> list[Column]:
        """Return the aggregates that fold the parts of a group into one, under names with "kept_" before them.

        Args:
            state: the columns of the files.
        """
        folded = [F.max(SEEN), F.sum(ROWS)]
        for i, aggregate in enumerate(self.aggregates):
            folded += aggregate.rule.fold(_parts_of(state, i), aggregate.others)
        fields = [state[name] for name in state.names if name in (SEEN, ROWS) or name.startswith("p")]
        # A sum of decimals has more digits than its parts.
        return [
            (column.cast(field.dataType) if isinstance(field.dataType, DecimalType) else column).alias(
                f"kept_{field.name}"
            )
            for column, field in zip(folded, fields, strict=True)
        ]

    def merged(self, rows: DataFrame, kept: KeptColumns) -> DataFrame:
        """Return one row for each group, as users see it, from the rows of the files."""
        keys = [F.col(f"k{i}") for i in range(len(self.keys))]
        fields = list(kept.result)
        merged = [
            aggregate.rule.merge(_parts_of(kept.state, i), aggregate.others, field.dataType).alias(f"r{i}")
            for i, (aggregate, field) in enumerate(zip(self.aggregates, fields[len(keys) :], strict=True))
        ]
        groups = rows.groupBy(*keys).agg(*with_names("kept_k", keys)[0], *merged)
        return groups.select(
            *(F.col(a).alias(b.name) for a, b in zip(groups.columns[-len(fields) :], fields, strict=True))
        )


def _parts_of(state: StructType, i: int) -> list[Column]:
    """Return the columns with the parts of an aggregate."""
    return [F.col(name) for name in state.names if name.startswith(f"p{i}_")]


def _mergeable(name: str, column: Column) -> Mergeable:
    aggregate = two_phases(column)
    if aggregate is None:
        raise SaltwiseValueError(
            f"aggregate {name!r} must be one call, without DISTINCT, of {', '.join(RULES)}; compute further on the "
            "DataFrame of state."
        )
    return aggregate
