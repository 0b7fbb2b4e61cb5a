"""What a group-by was asked for: the rows, the key, and the options."""

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
class Grouping:
    """The arguments of one ``skew_groupby``."""

    rows: DataFrame
    cols: tuple[Any, ...]
    """As ``DataFrame.groupBy`` takes them."""
    options: SkewOptions
    placement: PartitionFunction | PlacementStore | None = None

    @property
    def keys(self) -> list[Column]:
        """The columns of the key."""
        return [as_column(self.rows, col) for col in flattened(self.cols)]

    def settle(self, strategies: Collection[str] = STRATEGIES, default: str = "auto") -> SettledOptions:
        """Settle the options with those of the session: see :func:`saltwise.options.settle`."""
        return settle(self.options, session_options(self.rows.sparkSession), strategies, default)

    def refuse_unused(self, user: str, instead: str) -> None:
        """Raise where an option was given that this kind of group-by has no use for.

        Args:
            user: what has no use for hot keys and placement, such as "merge=".
            instead: what to do where the option is wanted.

        Raises:
            SaltwiseValueError: there is such an option.
        """
        given = {"hot": self.options.hot, "cost": self.options.cost, "placement": self.placement}
        for name, value in given.items():
            if value is not None:
                raise SaltwiseValueError(
                    f"{name} is given, and {user} has no use for it: leave {name} out, or {instead}."
                )
