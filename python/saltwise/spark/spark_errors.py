"""Turns errors of Spark, which have twenty lines, into one sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.errors import IllegalArgumentException, PySparkException

from ..errors import SaltwiseError, SaltwiseValueError

if TYPE_CHECKING:
    from collections.abc import Iterable

SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
"""The classes of the errors that pyspark raises for an error of the JVM."""

try:
    from py4j.protocol import Py4JJavaError
except ImportError:
    pass  # A Connect session works without py4j, and raises only PySparkException.
else:
    SPARK_ERRORS = (PySparkException, Py4JJavaError)


_QUOTED = re.compile(r"`((?:[^`]|``)*)`")


def _unquoted(name: re.Match[str]) -> str:
    return name[1].replace("``", "`")


def root_cause(error: Exception) -> str:
    """Return the message of the first cause: for a file, the message of its reader."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    return str(error if java is None else java.getMessage() or java.toString())


def first_sentence(text: object) -> str:
    """Return the first sentence of an error of Spark, without its class, its trace and its SQL state.

    >>> first_sentence("[WRONG_FORMAT] This is not a Parquet file. SQLSTATE: KD001\\n\\tat ...")
    'This is not a Parquet file'
    """
    line = str(text).strip().split("\n")[0]
    line = re.sub(r"^(?:[\w.$]+(?:Exception|Error): )?(?:\[[A-Z0-9_.]+\] )?", "", line)
    return re.split(r" SQLSTATE: |; line \d|\(line \d|(?<=[a-z`'\"\])])[.;] (?=[A-Z])", line)[0].rstrip(".; ")


def refused_query(error: Exception, tables: Iterable[str] = (), side: str = "") -> SaltwiseError:
    """Make the one-sentence error for a query that Spark refuses. It suggests the nearest name that exists.

    Args:
        error: one of SPARK_ERRORS.
        tables: names of the tables that the query may use.
        side: where Spark refuses the query, if it runs in several ways, such as " with Saltwise".

    >>> refused_query(error)  # doctest: +SKIP
    SaltwiseValueError("column is 'carier'; it must be one of carrier, origin; did you mean 'carrier'?")
    """
    parameters: dict[str, str] = getattr(error, "getMessageParameters", dict)() or {}
    unquoted = {name: re.sub(_QUOTED, _unquoted, str(value)) for name, value in parameters.items()}
    if "proposal" in unquoted:
        return SaltwiseValueError.unknown("column", unquoted["objectName"], unquoted["proposal"].split(", "))
    if "relationName" in unquoted:
        table, known = unquoted["relationName"], sorted(tables)
        if not known:
            return SaltwiseValueError(
                f"table is {table!r}, and there are no tables: name its file with --table {table}=PATH."
            )
        return SaltwiseValueError.unknown("table", table, known)
    if isinstance(error, IllegalArgumentException):  # one of the plugin's own errors, which are sentences
        return SaltwiseValueError(str(error).split("\n")[0])
    # Spark 3.5 has errors that pyspark does not know. They say only which call failed.
    said = root_cause(error) if hasattr(error, "java_exception") else error
    return SaltwiseError(f"Spark refuses the query{side}: {first_sentence(said)}.")
