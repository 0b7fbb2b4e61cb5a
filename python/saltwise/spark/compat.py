"""Every use of private parts of pyspark, and every difference between its versions.

Spark has no public way to read which function a Column calls, whether a class is on the JVM's class path, or what its
status store has. When a new line of Spark breaks one of these, only this module has to change.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ..errors import SaltwiseValueError
from .aggregate_calls import Call, parse_call

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is a Spark Connect session."""
    return not hasattr(spark, "_jsparkSession")


def check_frame(name: str, value: object, allowed: str = "a DataFrame of Spark") -> None:
    """Raise unless a value is a DataFrame of Spark, classic or Connect.

    Args:
        name: of the argument, for the error.
        value: the argument.
        allowed: what it may be, in words.

    Raises:
        SaltwiseValueError: it is not.
    """
    if hasattr(value, "sparkSession"):
        return
    if isinstance(value, str):
        raise SaltwiseValueError(f"{name} is the text {value!r}; it must be {allowed}, such as spark.table({value!r}).")
    kind = type(value)
    given = repr(value) if kind.__module__ == "builtins" else f"a {kind.__module__.split('.')[0]}.{kind.__qualname__}"
    raise SaltwiseValueError(f"{name} is {given}; it must be {allowed}.")


def check_batch(name: str, value: Any) -> None:
    """Raise unless a value is a DataFrame of Spark that is no stream.

    Raises:
        SaltwiseValueError: it is not.
    """
    check_frame(name, value)
    if value.isStreaming:
        raise SaltwiseValueError(f"{name} is a stream; it must be a batch: read its source with spark.read.")


def analysed_plan(df: DataFrame) -> str:
    """Return the analysed plan of a DataFrame as text, printed with the confs of its session."""
    query: Any = df
    if is_connect(df.sparkSession):
        _, _, after = str(query._explain_string(extended=True)).partition("== Analyzed Logical Plan ==\n")
        return after.partition("\n== Optimized Logical Plan ==\n")[0]
    session: Any = query.sparkSession._jsparkSession
    active = session.getActiveSession()
    # A plan prints with the confs of the active session, which may be another.
    session.setActiveSession(session)
    try:
        return str(query._jdf.queryExecution().analyzed())
    finally:
        if active.isDefined():
            session.setActiveSession(active.get())
        else:
            session.clearActiveSession()


def physical_plan(df: DataFrame) -> str:
    """Return the physical plan of a DataFrame as text."""
    query: Any = df
    if is_connect(df.sparkSession):
        return str(query._explain_string())
    return str(query._jdf.queryExecution().executedPlan())


def is_answer_of_command(df: DataFrame) -> bool:
    """Return whether a DataFrame has the rows that a command gave when it ran, such as INSERT or SHOW TABLES."""
    query: Any = df
    if not is_connect(df.sparkSession):
        return _kind(query._jdf.queryExecution().commandExecuted()) == "CommandResult"
    plan = query._plan
    return type(plan).__name__ == "CachedRelation" and plan._plan.HasField("local_relation")


def builder_options(builder: SparkSession.Builder) -> dict[str, Any]:
    """Return the confs that were set on a session builder."""
    options: dict[str, Any] = builder._options
    return options


def spark_home() -> str:
    """Return the folder of the Spark that this process starts."""
    from pyspark.find_spark_home import _find_spark_home

    return _find_spark_home()


def spark_is_running() -> bool:
    """Return whether this process has a classic SparkContext."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def confs_of_jvm() -> dict[str, str] | None:
    """Return the confs of this process's SparkContext, or those that its next one begins with; None without a JVM."""
    from pyspark import SparkConf, SparkContext

    if SparkContext._jvm is None and not is_submitted():
        return None
    # The JVM of spark-submit runs before Python does, and pyspark connects to it when a session starts.
    SparkContext._ensure_initialized()
    context = SparkContext._active_spark_context
    return dict((SparkConf() if context is None else context.getConf()).getAll())


def is_submitted() -> bool:
    """Return whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def class_is_missing(name: str) -> bool:
    """Return whether the JVM of this process lacks a class; False if there is no JVM."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    if jvm is None:
        return False
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(name.replace(".", "/") + ".class") is None


def status_store(context: SparkContext) -> Any:
    """Return Spark's status store, after it has received all events so far."""
    scala_context: Any = context._jsc.sc()
    scala_context.listenerBus().waitUntilEmpty()
    return scala_context.statusStore()


def state_streams(spark: SparkSession) -> Any:
    """Return the plugin's StateStreams of a classic session."""
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.saltwise.state.StateStreams.of(spark._jsparkSession)


def call_of(column: Any) -> Call | None:
    """Return the one call that a Column consists of, without its alias; None if it is anything else.

    >>> call_of(F.sum("bytes").alias("total")).name  # doctest: +SKIP
    'sum'
    """
    # Only the module's name can be checked: Connect's class may not be importable, and a Column seems to have every
    # attribute.
    remote = type(column).__module__.startswith("pyspark.sql.connect.")
    return _connect_call(column._expr) if remote else _catalyst_call(column)


def _connect_call(expression: Any) -> Call | None:
    from pyspark.sql.connect.column import Column as ConnectColumn

    kind = type(expression).__name__
    if kind == "ColumnAlias":
        return _connect_call(getattr(expression, "_child", None) or expression._parent)
    if kind == "SQLExpression":
        return parse_call(expression._expr)
    if kind not in ("UnresolvedFunction", "CallFunction"):
        return None
    arguments = [] if repr(expression._args) == "[unresolvedstar()]" else expression._args
    distinct = getattr(expression, "_is_distinct", False)
    return Call(expression._name.lower(), [ConnectColumn(argument) for argument in arguments], distinct)


def _catalyst_call(column: Any) -> Call | None:
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
        # Up to Spark 4.1: whether the query says IGNORE NULLS. Since 4.2: an Option, set by IGNORE or RESPECT NULLS.
        nulls = expression.ignoreNulls()
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
    if _kind(expression) == "UnresolvedFunction":
        # From Spark 4.0 on, the others are those of WITHIN GROUP (ORDER BY ...).
        others = expression.children().size() - arguments.size() - int(condition.isDefined())
        if others > 0:
            return None
    return Call(
        name.lower(),
        columns,
        expression.isDistinct(),
        type(column)(to_column(condition.get())) if condition.isDefined() else None,
    )


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())
