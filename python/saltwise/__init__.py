"""Saltwise keeps Spark GROUP BY fast when a few keys own most of the rows.

Importing the package installs ``DataFrame.skew_groupby``, for classic and Connect sessions. It is the one method
that Saltwise adds to Spark's classes; the function :func:`skew_groupby` does the same without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from ._version import __version__
from .errors import AggregatorError, PluginMissingError, SaltwiseError, SaltwiseValueError
from .spark.aggregators.check import check_aggregator
from .spark.aggregators.protocol import Aggregator, aggregator
from .spark.aggregators.sql_function import register_aggregator
from .spark.groupby import SkewGroupedData, skew_groupby
from .spark.register import register
from .spark.report import SkewReport, skew_report
from .spark.session import Status, configure, jar_path, status
from .spark.stream_metrics import SkewBatch, SkewListener, skew_batches

if TYPE_CHECKING:
    from .placement.store import PlacementStore
    from .spark.key_weights import weights_of
    from .spark.stateful_aggregate import StatefulAggregate

DataFrame.skew_groupby = skew_groupby  # type: ignore[attr-defined]

__all__ = [
    "Aggregator",
    "AggregatorError",
    "PlacementStore",
    "PluginMissingError",
    "SaltwiseError",
    "SaltwiseValueError",
    "SkewBatch",
    "SkewGroupedData",
    "SkewListener",
    "SkewReport",
    "StatefulAggregate",
    "Status",
    "__version__",
    "aggregator",
    "check_aggregator",
    "configure",
    "jar_path",
    "register",
    "register_aggregator",
    "skew_batches",
    "skew_groupby",
    "skew_report",
    "status",
    "weights_of",
]

_WITH_NUMPY = {
    "PlacementStore": "placement.store",
    "StatefulAggregate": "spark.stateful_aggregate",
    "weights_of": "spark.key_weights",
}
"""The modules of the names that need numpy or pandas. They are imported on first use: not all users have these."""


def __getattr__(name: str) -> Any:
    if name not in _WITH_NUMPY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_WITH_NUMPY[name]}", __name__), name)
    except ImportError as error:
        raise SaltwiseError(f"{name} needs {error.name}: run pip install 'saltwise[arrow]'.") from error
