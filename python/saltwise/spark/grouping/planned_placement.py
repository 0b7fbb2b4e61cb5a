"""The partition function of df.skew_groupby, if it is given or is planned before the query runs."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from ...errors import SaltwiseValueError
from ...placement.aims import DEFAULT_AIMS
from ...placement.construct import construct
from ...placement.function_json import to_json
from ...placement.partition_function import PartitionFunction
from ...placement.store import PlacementStore
from ...strategies import PLANNED_AHEAD
from ..columns import quoted
from .key_weights import COSTS, key_capacity, weights_of
from .request import Request

STRATEGIES_WITH_PLACEMENT = ("auto", *PLANNED_AHEAD)
"""The strategies that the argument `placement` goes with."""


def check_placement(request: Request) -> None:
    """Check the argument `placement`.

    Raises:
        SaltwiseValueError: it is of a wrong type, or does not go with another option.
    """
    placement = request.placement
    if placement is not None and not isinstance(placement, (PartitionFunction, PlacementStore)):
        raise SaltwiseValueError(f"placement is {placement!r}; it must be a partition function or a PlacementStore.")
    strategy = request.options.strategy or "auto"
    if strategy not in STRATEGIES_WITH_PLACEMENT:
        allowed = ", ".join(STRATEGIES_WITH_PLACEMENT)
        raise SaltwiseValueError(f"placement is given, and strategy is {strategy!r}; it must be one of {allowed}.")
    if request.options.hot is not None:
        raise SaltwiseValueError("hot is given, and placement leaves every group whole: leave one of them out.")
    if isinstance(placement, PartitionFunction):
        options = vars(request.options) | {"strategy": None if strategy == "auto" else strategy}
        for name, value in options.items():
            if value is not None and name != "partitions":
                raise SaltwiseValueError(
                    f"{name} is {value!r}, and placement is a partition function, which has no use for it: leave "
                    f"{name} out, or give a PlacementStore."
                )


def partition_function_json(request: Request) -> str:
    """Return the partition function of a group-by as JSON: the one that is given, or one that is planned now.

    Raises:
        PlacementStoreError: the store has a function for keys of another type, or is damaged.

    >>> partition_function_json(Request(df, ("k",), SkewOptions("level", partitions=8)))  # doctest: +SKIP
    '{"format": "saltwise partition function", "version": 1, "kind": "pair", ...}'
    """
    placement = request.placement
    if isinstance(placement, PartitionFunction):
        return to_json(placement)
    settled = request.settle(PLANNED_AHEAD, default="level")
    cost: Any = settled.cost
    if cost not in COSTS:
        cost = F.col(quoted(cost) if cost in request.rows.columns else cost)
    aims = DEFAULT_AIMS if placement is None else placement.aims
    run = weights_of(request.rows, request.keys, cost, key_capacity(settled, cost, aims))
    if placement is not None:
        return to_json(placement.plan(run, settled.workers, settled.strategy).function)
    return to_json(
        construct(
            run.keys,
            run.shares,
            settled.workers,
            algorithm=settled.strategy,
            key_type=run.key_type,
        )
    )
