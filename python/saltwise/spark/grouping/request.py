"""The arguments of one ``skew_groupby``: the rows, the key, and the options."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import SaltwiseValueError
from ...options import SettledOptions, SkewOptions, settle
from ...strategies import STRATEGIES
from ..columns import as_column, flattened
from ..session import session_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ...placement.partition_function import PartitionFunction
    from ...placement.store import PlacementStore


@dataclass(frozen=True)
class Request:
    """What one ``skew_groupby`` asks for."""

    rows: DataFrame
    cols: tuple[Any, ...]
    """The key, as ``DataFrame.groupBy`` takes it."""
    options: SkewOptions
    placement: PartitionFunction | PlacementStore | None = None

    @property
    def keys(self) -> list[Column]:
        """The columns of the key."""
        return [as_column(self.rows, col) for col in flattened(self.cols)]

    def settle(self, strategies: Collection[str] = STRATEGIES, default: str = "auto") -> SettledOptions:
        """Settle the options with those of the session, as :func:`saltwise.options.settle` says."""
        return settle(self.options, session_options(self.rows.sparkSession), strategies, default)

    def refuse_unused(self, user: str, instead: str) -> None:
        """Raise if an option for hot keys or for placement was given to a group-by that does not use it.

        Args:
            user: the part of the group-by that does not use these options, such as "merge=".
            instead: what to do to use the option.

        Raises:
            SaltwiseValueError: there is such an option.
        """
        given = {"hot": self.options.hot, "cost": self.options.cost, "placement": self.placement}
        for name, value in given.items():
            if value is not None:
                raise SaltwiseValueError(
                    f"{name} is given, and {user} has no use for it: leave {name} out, or {instead}."
                )
