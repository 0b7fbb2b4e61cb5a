"""Reads which aggregate function a Column calls: the one place that looks inside of pyspark's Columns.

Spark has no public way to ask. A classic Column is a Catalyst expression, a Connect Column a tree of its own, which
keeps what :func:`pyspark.sql.functions.expr` got as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Call:
    """One call of an aggregate function."""

    name: str
    """In lower case, as it was written."""
    arguments: list[Column]
    """Empty for ``count(*)``."""
    distinct: bool = False
    condition: Column | None = None
    """That of FILTER (WHERE ...)."""


def call_of(column: Any) -> Call | None:
    """Return the call that a Column, its alias apart, consists of; None where it is anything else.

    >>> call_of(F.sum("bytes").alias("total")).name  # doctest: +SKIP
    'sum'
    """
    # By the name of its module, because Connect's may not be importable, and a Column has every attribute.
    remote = type(column).__module__.startswith("pyspark.sql.connect.")
    return _of_connect(column._expr) if remote else _of_catalyst(column)


def _of_connect(expression: Any) -> Call | None:
    from pyspark.sql.connect.column import Column as ConnectColumn

    kind = type(expression).__name__
    if kind == "ColumnAlias":
        return _of_connect(getattr(expression, "_child", None) or expression._parent)
    if kind == "SQLExpression":
        return _of_text(expression._expr)
    if kind not in ("UnresolvedFunction", "CallFunction"):
        return None
    arguments = [] if repr(expression._args) == "[unresolvedstar()]" else expression._args
    distinct = getattr(expression, "_is_distinct", False)
    return Call(expression._name.lower(), [ConnectColumn(argument) for argument in arguments], distinct)


def _of_catalyst(column: Any) -> Call | None:
    from pyspark import SparkContext

    sql: Any = SparkContext._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    if type(column).__module__ == "pyspark.sql.classic.column":  # Spark 4
        converter = getattr(getattr(sql.classic, "ColumnNodeToExpressionConverter$"), "MODULE$")
        expression, to_column = converter.apply(column._jc.node()), sql.classic.ExpressionUtils.column
    else:
        expression, to_column = column._jc.expr(), sql.Column
    if _kind(expression) == "Alias":
        expression = expression.child()
    if _kind(expression) == "UnresolvedFunction":
        name, arguments = expression.nameParts().mkString("."), expression.arguments()
        nulls = expression.ignoreNulls()  # whether IGNORE NULLS was said; from Spark 4.2 on, whether anything was
        if nulls is True or (nulls is not False and nulls.isDefined()):
            return None
    elif _kind(expression) == "AggregateExpression":
        function = expression.aggregateFunction()
        name, arguments = function.prettyName(), function.children()
    else:
        return None
    stars = arguments.mkString(",") == "*"
    columns = [] if stars else [type(column)(to_column(arguments.apply(i))) for i in range(arguments.size())]
    if _kind(expression) == "AggregateExpression" and name in ("any_value", "first"):
        columns.append(F.lit(function.ignoreNulls()))
    condition = expression.filter()
    return Call(
        name.lower(),
        columns,
        expression.isDistinct(),
        type(column)(to_column(condition.get())) if condition.isDefined() else None,
    )


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _of_text(text: str) -> Call | None:
    """Read ``name([DISTINCT] argument, ...) [FILTER (WHERE condition)] [[AS] alias]``."""
    start = re.match(r"\s*(\w+)\s*(?=\()", text)
    if start is None:
        return None
    inner, rest = _bracketed(text[start.end() :])
    distinct = re.match(r"\s*distinct\b", inner, re.I)
    inner = inner[distinct.end() :] if distinct else inner
    condition = None
    if re.match(r"\s*filter\s*\(", rest, re.I):
        where, rest = _bracketed(rest[rest.index("(") :])
        condition = F.expr(re.sub(r"^\s*where\b", "", where, flags=re.I))
    if not re.fullmatch(r"\s*((as\s+)?(`[^`]+`|\w+)\s*)?", rest, re.I):
        return None
    arguments = [] if inner.strip() == "*" else [F.expr(argument) for argument in _separated(inner)]
    return Call(start[1].lower(), arguments, distinct is not None, condition)


def _bracketed(text: str) -> tuple[str, str]:
    """Split a text that begins with a bracket into what is inside of it, and what follows."""
    end = next((at for at, sign, depth in _signs(text) if sign == ")" and depth == 0), len(text))
    return text[1:end], text[end + 1 :]


def _separated(text: str) -> list[str]:
    """Split a text at the commas that no bracket holds."""
    commas = [at for at, sign, depth in _signs(text) if sign == "," and depth == 0]
    return [text[a + 1 : b] for a, b in zip([-1, *commas], [*commas, len(text)], strict=True)]


def _signs(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield place and depth of brackets and commas, those in quotes apart."""
    depth = 0
    for found in re.finditer(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|([(),])", text, re.S):
        sign = found[1]
        if sign is not None:
            depth -= sign == ")"
            yield found.start(), sign, depth
            depth += sign == "("
