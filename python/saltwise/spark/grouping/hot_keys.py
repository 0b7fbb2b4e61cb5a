"""Spells the hot keys of ``skew_groupby(hot=)`` as the plugin reads them: a text for each value, by its type."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    FractionalType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ...errors import SaltwiseValueError, check_number
from ..columns import WITHOUT_HASH, holds_type

_MICROSECONDS = [seconds * 1_000_000 for seconds in (86_400, 3_600, 60, 1)]
"""Of a day, an hour, a minute and a second, the fields of an interval."""

_INSIDE: dict[type, tuple[type[DataType], ...]] = {
    bool: (BooleanType, StringType),
    int: (NumericType, StringType),
    float: (FractionalType, StringType),
    Decimal: (DecimalType, StringType),
    datetime: (TimestampType, TimestampNTZType, StringType),
    date: (DateType, TimestampType, TimestampNTZType, StringType),
    str: (StringType, BinaryType, DecimalType, DateType, TimestampType, TimestampNTZType, DayTimeIntervalType),
}
"""The types that a value inside of a struct or an array may be read as. Anywhere else, its text is cast."""


def hot_json(hot: object, types: Sequence[DataType]) -> str:
    """Spell hot keys as the `hot` option does.

    Args:
        hot: the keys, or a mapping from key to its share of rows; a key of several columns is a tuple or a Row. A
            SkewReport gives its own.
        types: of the key columns.

    Raises:
        SaltwiseValueError: there is no key, a key cannot be one of these types, or a share is not above 0 and at most
            1.

    >>> hot_json(["UA", "B6"], [StringType()])
    '[{"key": ["UA"]}, {"key": ["B6"]}]'
    >>> hot_json({("UA", b"7"): 0.17}, [StringType(), BinaryType()])
    '[{"key": ["UA", "Nw=="], "share": 0.17}]'
    """
    if hasattr(hot, "hot_json"):
        return str(hot.hot_json())
    if isinstance(hot, str | bytes) or not isinstance(hot, Iterable):
        raise SaltwiseValueError(f"hot is {hot!r}; it must be a list of keys, or a dict from key to share.")
    for data_type in types:
        if holds_type(data_type, WITHOUT_HASH):
            raise SaltwiseValueError(
                f"hot is given, and a key is of type {data_type.simpleString()}, whose values have no spelling: leave "
                "hot out."
            )
    entries = []
    for key in hot:
        entry: dict[str, object] = {
            "key": [_spelled(*pair) for pair in zip(_values(key, types), types, strict=True)],
        }
        if isinstance(hot, Mapping):
            check_number("share of a hot key", hot[key], lambda share: 0 < share <= 1, "above 0 and at most 1")
            entry["share"] = float(hot[key])
        entries.append(entry)
    if not entries:
        raise SaltwiseValueError("hot is empty; name at least one key, or leave hot out.")
    return json.dumps(entries)


def _values(key: Any, types: Sequence[DataType]) -> Sequence[Any]:
    """Return the values of a key, one for each column. The value of a single column may be a tuple, too: a struct."""
    values = key if isinstance(key, tuple) else (key,)
    if len(types) == 1 and isinstance(types[0], StructType):
        is_struct = len(values) != 1 or not isinstance(values[0], tuple | dict | str | None)
        values = (key,) if is_struct or _names(key) == types[0].names else values
    if len(values) != len(types):
        raise SaltwiseValueError(
            f"hot key {key!r} has {len(values)} values; it must have one for each of the {len(types)} grouping columns."
        )
    return values


def _spelled(value: Any, data_type: DataType, inside: bool = False) -> Any:
    """Return a value as JSON has it.

    Args:
        value: of a key.
        data_type: its type in Spark.
        inside: whether it is inside of a struct or an array. There, JSON has to be of the same type.
    """
    if hasattr(value, "dtype"):  # numpy's
        value = (value.astype(f"{value.dtype.kind}8[us]") if value.dtype.kind in "mM" else value).tolist()
    kinds = [kind for kind in _INSIDE if isinstance(value, kind)][:1]
    if inside and kinds and not isinstance(data_type, _INSIDE[kinds[0]]):
        raise _misfit(value, data_type)
    match value, data_type:
        case None, _:
            return None
        case ((tuple() | dict()), StructType()):
            return _struct(value, data_type)
        case ((list() | tuple()), ArrayType()):
            return [_spelled(item, data_type.elementType, inside=True) for item in value]
        case ((bytes() | bytearray()), BinaryType()):
            return b64encode(value).decode()
        case timedelta(), DayTimeIntervalType():
            return _interval(value, data_type)
        case datetime(), _:
            return _timestamp(value, data_type)
        case ((date() | time() | Decimal()), _):
            return str(value)
        case float(), _ if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case ((bool() | int() | float() | str()), _):
            return value
    raise _misfit(value, data_type)


def _misfit(value: object, data_type: DataType) -> SaltwiseValueError:
    return SaltwiseValueError(
        f"hot key value {value!r} is of type {type(value).__name__}, and its column of type "
        f"{data_type.simpleString()}: give a value of that type."
    )


def _names(struct: Any) -> list[str] | None:
    """Return the names of the fields of a dict or a Row; None if there are no names."""
    names = struct if isinstance(struct, dict) else getattr(struct, "__fields__", None)
    return None if names is None else list(names)


def _struct(value: Any, data_type: StructType) -> dict[str, Any]:
    names = _names(value) or data_type.names
    values = list(value.values() if isinstance(value, dict) else value)
    if len(values) != len(names) or not set(names) <= set(data_type.names):
        raise SaltwiseValueError(
            f"hot key value {value!r} has other fields than its column of type {data_type.simpleString()}: give a "
            "value of that type."
        )
    return {
        name: _spelled(item, data_type[name].dataType, inside=True) for name, item in zip(names, values, strict=True)
    }


def _timestamp(value: datetime, data_type: DataType) -> str:
    """Return a point in time, or what a clock shows. As in pyspark, a datetime without a zone is in that of Python."""
    if isinstance(data_type, TimestampNTZType):
        value = value.replace(tzinfo=None)
    elif isinstance(data_type, TimestampType) and value.tzinfo is None:
        with suppress(OverflowError, ValueError):  # in the first and the last year
            value = value.astimezone()
    return value.isoformat(" ")


def _interval(value: timedelta, data_type: DayTimeIntervalType) -> str:
    """Return an interval by the fields of its type, such as '1 02:03:04.500000' of DAY TO SECOND."""
    microseconds = abs(value) // timedelta(microseconds=1)
    parts: list[str] = []
    for field in range(data_type.startField, data_type.endField + 1):
        count, microseconds = divmod(microseconds, _MICROSECONDS[field])
        parts.append(f"{count:02}" if parts else f"{count}")
    if data_type.endField == DayTimeIntervalType.SECOND:
        parts[-1] += f".{microseconds:06}"
    first, *others = parts
    after_first = " " if data_type.startField == DayTimeIntervalType.DAY else ":"
    return ("-" if value < timedelta(0) else "") + first + (after_first + ":".join(others) if others else "")
