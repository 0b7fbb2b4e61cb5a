"""The partition functions that df.skew_groupby constructs, or is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ..errors import SaltwiseValueError
from ..options import CONSTRUCTED, SkewOptions, default_capacity, default_theta
from ..placement.construction import construct
from ..placement.function_json import to_json
from ..placement.history import RESOURCES
from ..placement.partition_function import PartitionFunction
from ..placement.store import PlacementStore
from .key_weights import COSTS, weights_of
from .session import session_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LEAST_CAPACITY = 1_000
"""Keys that the pass may find, however few workers there are."""

BY_STRATEGY = ("auto", *CONSTRUCTED)


def constructed(
    df: DataFrame,
    keys: Sequence[Column | str],
    options: SkewOptions,
    placement: PartitionFunction | PlacementStore | None,
) -> str:
    """Return the partition function of a group-by, as JSON.

    Args:
        df: what is to be grouped.
        keys: the key columns.
        options: of the group-by.
        placement: the function, or the store that plans it; without, one is constructed from this DataFrame alone.

    Raises:
        SaltwiseValueError: `placement` is neither, or the strategy constructs nothing.
        PlacementStoreError: the store has a function for keys of another type, or is damaged.

    >>> constructed(df, ["k"], SkewOptions("readj", partitions=8), None)  # doctest: +SKIP
    '{"format": "saltwise partition function", "version": 1, "kind": "pair", ...}'
    """
    if placement is not None and not isinstance(placement, (PartitionFunction, PlacementStore)):
        raise SaltwiseValueError(f"placement is {placement!r}; it must be a partition function or a PlacementStore.")
    strategy = "auto" if options.strategy is None else options.strategy.lower()
    if strategy not in BY_STRATEGY:
        raise SaltwiseValueError(
            f"placement is given, and strategy is {strategy!r}; it must be one of {', '.join(BY_STRATEGY)}."
        )
    if isinstance(placement, PartitionFunction):
        return to_json(placement)
    algorithm = CONSTRUCTED[-1] if strategy == "auto" else strategy
    workers = options.partitions or int(session_options(df.sparkSession)["partitions"])
    cost: Any = options.cost or COSTS[0]
    capacity = options.sketch_capacity or max(LEAST_CAPACITY, default_capacity(default_theta(workers)))
    run = weights_of(df, keys, cost if cost in COSTS else F.col(cost), capacity)
    if placement is not None:
        return to_json(placement.plan(run, workers, algorithm).function)
    return to_json(
        construct(run.keys, run.shares, workers, algorithm=algorithm, resources=RESOURCES, key_type=run.key_type)
    )
