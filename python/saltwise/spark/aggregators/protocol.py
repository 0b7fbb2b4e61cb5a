"""Aggregates in Python that merge, for skew_groupby(...).agg. They are like Scala's Aggregator and Beam's CombineFn.

Each task makes states of the rows that it has, key by key, and the states of a key are merged. So no task ever holds a
whole group, and a hot key has as many states as there are tasks with its rows.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import SaltwiseValueError

if TYPE_CHECKING:
    from pyspark.sql import Column

A = TypeVar("A", bound="Aggregator")

BATCHES = ("arrow", "pandas")


class Aggregator(ABC):
    """An aggregate function in Python whose states merge.

    A subclass has four methods and a result type. ``update`` and ``merge`` may change their first argument and return
    it. States are merged in any order, so ``merge`` must be associative and commutative, and ``zero()`` must be its
    neutral element.

    Attributes:
        returns: the type of the result, as DDL or as a Spark type.
        state: the type of a state, as DDL or as a Spark type. A state must then be a plain value of this type; a struct
            is a dict. None: a state is any object that can be pickled. States exist only while the query runs.
        batches: what ``update`` gets: ``arrow`` (a pyarrow.RecordBatch) or ``pandas`` (a DataFrame). A batch has at
            least one row, and its columns are in the order of ``columns``.
        approximate: whether the result may depend on how rows are split, like that of a sketch or a sample. If it is
            False, each task checks on some of its rows that the result does not depend on it.

    Args:
        columns: the columns that ``update`` gets, as names or Columns; at least one.

    Raises:
        SaltwiseValueError: there is no column, ``returns`` is missing, or ``batches`` is unknown.

    >>> import pyarrow as pa
    >>> class Mean(Aggregator):
    ...     returns = "double"
    ...     state = "struct<rows: bigint, sum: double>"
    ...
    ...     def zero(self):
    ...         return {"rows": 0, "sum": 0.0}
    ...
    ...     def update(self, state, batch):
    ...         values = batch.column(0).drop_null().to_numpy()
    ...         return {"rows": state["rows"] + len(values), "sum": state["sum"] + float(values.sum())}
    ...
    ...     def merge(self, a, b):
    ...         return {"rows": a["rows"] + b["rows"], "sum": a["sum"] + b["sum"]}
    ...
    ...     def finish(self, state):
    ...         return state["sum"] / state["rows"] if state["rows"] else None
    >>> mean = Mean("ms")
    >>> state = mean.update(mean.zero(), pa.record_batch({"ms": [1.0, 2.0, None]}))
    >>> mean.finish(mean.merge(state, mean.zero()))
    1.5
    >>> rows = spark.createDataFrame([("a", 1.0), ("a", 4.0), ("b", None)], "k string, ms double")
    >>> rows.skew_groupby("k").agg(Mean("ms").alias("mean"), F.count("*")).orderBy("k").collect()
    [Row(k='a', mean=2.5, count(1)=2), Row(k='b', mean=None, count(1)=1)]
    """

    returns: Any = None
    state: Any = None
    batches: str = "arrow"
    approximate: bool = False
    name: str | None = None
    """The name that :meth:`alias` gave it."""

    def __init__(self, *columns: str | Column) -> None:
        name = type(self).__name__
        if not columns:
            raise SaltwiseValueError(f"{name} got no column; name at least one for its update.")
        if self.returns is None:
            raise SaltwiseValueError(f"{name} does not say what it returns; set returns to a type, such as 'double'.")
        if self.batches not in BATCHES:
            raise SaltwiseValueError.unknown(f"batches of {name}", self.batches, BATCHES)
        self.columns = columns

    def alias(self: A, name: str) -> A:
        """Return the same aggregate with a name for its column. The default is like ``Mean(ms)``."""
        renamed = copy.copy(self)
        renamed.name = name
        return renamed

    @abstractmethod
    def zero(self) -> Any:
        """Return the state of no rows: a new object in each call."""

    @abstractmethod
    def update(self, state: Any, batch: Any) -> Any:
        """Return the state with the rows of a batch added."""

    @abstractmethod
    def merge(self, a: Any, b: Any) -> Any:
        """Return the state of the rows of both states."""

    @abstractmethod
    def finish(self, state: Any) -> Any:
        """Return the result of a state."""


def aggregator(
    *,
    returns: Any,
    zero: Callable[[], Any],
    merge: Callable[[Any, Any], Any],
    finish: Callable[[Any], Any],
    state: Any = None,
    batches: str = "arrow",
    approximate: bool = False,
) -> Callable[[Callable[[Any, Any], Any]], type[Aggregator]]:
    """Make an :class:`Aggregator` of four functions. Decorate ``update``; its name becomes the name of the class.

    Args:
        returns: like the attribute of :class:`Aggregator`; `state`, `batches` and `approximate` likewise.
        zero: returns the state of no rows.
        merge: makes one state of two.
        finish: makes the result of a state.

    >>> @aggregator(returns="bigint", zero=int, merge=lambda a, b: a + b, finish=lambda state: state)
    ... def nulls(state, batch):
    ...     return state + batch.column(0).null_count
    >>> rows = spark.createDataFrame([("a", 1.0), ("a", None)], "k string, ms double")
    >>> rows.skew_groupby("k").agg(nulls("ms")).collect()
    [Row(k='a', nulls(ms)=1)]
    """

    def decorate(update: Callable[[Any, Any], Any]) -> type[Aggregator]:
        functions: dict[str, Callable[..., Any]] = {"zero": zero, "update": update, "merge": merge, "finish": finish}
        settings = {"returns": returns, "state": state, "batches": batches, "approximate": approximate}
        methods: dict[str, Any] = {name: staticmethod(function) for name, function in functions.items()}
        about = {"__doc__": update.__doc__, "__module__": update.__module__}
        return type(update.__name__, (Aggregator,), {**methods, **settings, **about})

    return decorate
