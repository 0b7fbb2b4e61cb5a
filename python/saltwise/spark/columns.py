"""Columns: those that ``groupBy`` takes, names as Spark reads them, names of ours for the way, and types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from ..errors import SaltwiseValueError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WITHOUT_HASH = ("map", "variant")
"""Types that xxhash64 does not take."""

NOT_IN_ARROW = ("yearmonthinterval", "interval")
"""Types that mapInArrow does not take."""


def flattened(cols: Sequence[Any]) -> list[Any]:
    """Return the arguments of ``groupBy`` as a list. They may be given as one list.

    >>> flattened((["k", "l"],)), flattened(("k", 2))
    (['k', 'l'], ['k', 2])
    """
    return list(cols[0]) if len(cols) == 1 and isinstance(cols[0], list) else list(cols)


def as_column(df: DataFrame, key: Any) -> Column:
    """Return the Column of one argument of ``groupBy``: a Column, a name, or a position counted from 1."""
    if isinstance(key, int):
        return df[key - 1]
    return F.col(key) if isinstance(key, str) else key


def quoted(name: str) -> str:
    """Return the name of a column as Spark reads it, whatever characters it has.

    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"


def with_names(prefix: str, columns: Sequence[Column]) -> tuple[list[Column], list[Column]]:
    """Give columns the names prefix0, prefix1, ...; return them, and the Columns that refer to these names."""
    names = [f"{prefix}{i}" for i in range(len(columns))]
    return [c.alias(name) for c, name in zip(columns, names, strict=True)], [F.col(name) for name in names]


def holds_type(data_type: DataType, names: Sequence[str]) -> bool:
    """Return whether a type, or one inside of it, has one of these names."""
    if isinstance(data_type, StructType):
        inner_types = [field.dataType for field in data_type]
    elif isinstance(data_type, ArrayType):
        inner_types = [data_type.elementType]
    else:
        inner_types = [data_type.keyType, data_type.valueType] if isinstance(data_type, MapType) else []
    return data_type.typeName() in names or any(holds_type(inner_type, names) for inner_type in inner_types)


def check_keys(keys: StructType, refused: Sequence[str] = WITHOUT_HASH) -> None:
    """Raise if a key column is or holds a type that cannot be a key here.

    Args:
        keys: the key columns.
        refused: names of types.

    Raises:
        SaltwiseValueError: a key is or holds such a type.
    """
    for key in keys:
        if holds_type(key.dataType, refused):
            raise SaltwiseValueError(
                f"key {key.name!r} is of type {key.dataType.simpleString()}; it must hold no {' or '.join(refused)}: "
                "take a part of it, or the map_entries of a map."
            )


def levels(data_type: DataType) -> int:
    """Return how many structs and arrays are inside of each other.

    >>> levels(ArrayType(ArrayType(DataType())))
    2
    """
    if isinstance(data_type, StructType):
        return 1 + max((levels(field.dataType) for field in data_type), default=0)
    return 1 + levels(data_type.elementType) if isinstance(data_type, ArrayType) else 0


def check_arrow_types(rows: DataFrame, keys: int) -> None:
    """Raise if a column cannot go through ``mapInArrow``, or a key has no hash.

    Args:
        rows: the columns of the key, and then the values.
        keys: how many columns the key has.

    Raises:
        SaltwiseValueError: a column is an interval of months, or a key is or holds a map.
    """
    for i, field in enumerate(rows.schema):
        if holds_type(field.dataType, NOT_IN_ARROW):
            raise SaltwiseValueError(
                f"a column is of type {field.dataType.simpleString()}, which pyspark does not carry by Arrow: cast it, "
                "or group by the plugin or by df.groupBy."
            )
        if i < keys and holds_type(field.dataType, WITHOUT_HASH):
            raise SaltwiseValueError(
                f"a key is of type {field.dataType.simpleString()}; with engine='arrow' a key may hold no map: group "
                "by map_entries of it, or by df.groupBy."
            )
