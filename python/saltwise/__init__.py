"""Saltwise keeps Spark GROUP BY fast when a few keys own most of the rows.

Importing the package installs ``DataFrame.skew_groupby``, for classic and Connect sessions. Saltwise adds no other
method to Spark's classes. The function :func:`skew_groupby` does the same without the method.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._optional import OptionalPackageError, required_by
from ._pyspark import DataFrame
from ._version import __version__
from .errors import AggregatorError, PluginMissingError, SaltwiseError, SaltwiseValueError
from .spark.aggregators.check import check_aggregator
from .spark.aggregators.protocol import Aggregator, aggregator
from .spark.grouping.skew_groupby import SkewGroupedData, skew_groupby
from .spark.moving_state.report import state_report
from .spark.reports.audit import Audit, audit
from .spark.reports.explain import Explanation, explain
from .spark.reports.savings import Savings, savings
from .spark.reports.skew_report import SkewReport, skew_report
from .spark.reports.stream_metrics import SkewBatch, SkewListener, skew_batches
from .spark.session import Status, configure, jar_path, status
from .spark.sql_functions.aggregator_udf import register_aggregator
from .spark.sql_functions.register import register

if TYPE_CHECKING:
    from .placement.store import PlacementStore
    from .spark.grouping.key_weights import weights_of
    from .spark.kept_state.stateful_aggregate import StatefulAggregate
    from .spark.moving_state.balancer import StateBalancer

DataFrame.skew_groupby = skew_groupby  # type: ignore[attr-defined]

__all__ = [
    "Aggregator",
    "AggregatorError",
    "Audit",
    "Explanation",
    "OptionalPackageError",
    "PlacementStore",
    "PluginMissingError",
    "SaltwiseError",
    "SaltwiseValueError",
    "Savings",
    "SkewBatch",
    "SkewGroupedData",
    "SkewListener",
    "SkewReport",
    "StateBalancer",
    "StatefulAggregate",
    "Status",
    "__version__",
    "aggregator",
    "audit",
    "check_aggregator",
    "configure",
    "explain",
    "jar_path",
    "register",
    "register_aggregator",
    "savings",
    "skew_batches",
    "skew_groupby",
    "skew_report",
    "state_report",
    "status",
    "weights_of",
]

_IMPORTED_ON_USE = {
    "PlacementStore": ("placement.store", "arrow"),
    "StateBalancer": ("spark.moving_state.balancer", "streams"),
    "StatefulAggregate": ("spark.kept_state.stateful_aggregate", "streams"),
    "weights_of": ("spark.grouping.key_weights", "arrow"),
}
"""Names that need numpy, pandas or scipy, with their modules and the extra that installs these packages.

They are imported on first use, because not all users install these packages.
"""


def __getattr__(name: str) -> Any:
    if name not in _IMPORTED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra = _IMPORTED_ON_USE[name]
    with required_by(name, extra):
        return getattr(import_module(f".{module}", __name__), name)
