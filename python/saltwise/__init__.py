"""Saltwise keeps Spark GROUP BY fast when a few keys own most of the rows.

Importing the package installs ``DataFrame.skew_groupby``, for classic and Connect sessions. It is the one method
that Saltwise adds to Spark's classes; the function :func:`skew_groupby` does the same without it.
"""

from pyspark.sql import DataFrame

from ._version import __version__
from .aggregator import Aggregator, aggregator
from .associativity import check_aggregator
from .errors import AggregatorError, PluginMissingError, SaltwiseError, SaltwiseValueError
from .functions import register
from .groupby import skew_groupby
from .report import SkewReport, skew_report
from .session import Status, configure, jar_path, status
from .sqlaggregate import register_aggregator

DataFrame.skew_groupby = skew_groupby  # type: ignore[attr-defined]

__all__ = [
    "Aggregator",
    "AggregatorError",
    "PluginMissingError",
    "SaltwiseError",
    "SaltwiseValueError",
    "SkewReport",
    "Status",
    "__version__",
    "aggregator",
    "check_aggregator",
    "configure",
    "jar_path",
    "register",
    "register_aggregator",
    "skew_groupby",
    "skew_report",
    "status",
]
