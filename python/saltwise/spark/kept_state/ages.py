"""How old rows and groups of a state may be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ...errors import SaltwiseValueError
from ..columns import quoted
from .commit import SEEN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class AgeLimits:
    """Which rows are too late, and which groups have expired. :class:`saltwise.StatefulAggregate` says what each means.

    Raises:
        SaltwiseValueError: a limit is no timedelta of at least 0, or there is no column with the time of a row.
    """

    time: str | None = None
    late: timedelta | None = None
    ttl: timedelta | None = None

    def __post_init__(self) -> None:
        if self.time is None and (self.late is not None or self.ttl is not None):
            raise SaltwiseValueError("late or ttl is given without time; name the column with the time of each row.")
        for name, limit in (("late", self.late), ("ttl", self.ttl)):
            if limit is not None and not (isinstance(limit, timedelta) and limit >= timedelta(0)):
                raise SaltwiseValueError(
                    f"{name} is {limit!r}; it must be a timedelta of at least 0, such as timedelta(hours=1)."
                )

    @property
    def seen(self) -> Column:
        """The time of a row of a batch; NULL if rows have no time."""
        seen = F.lit(None) if self.time is None else F.col(quoted(self.time))
        return seen.cast("timestamp")

    def in_time(self, batch: DataFrame, latest: int | None) -> DataFrame:
        """Return the rows of a batch that have a time and are not too late: neither for `late` nor for `ttl`.

        Args:
            batch: the rows.
            latest: the latest time of the batches before, in microseconds since 1970.

        Raises:
            SaltwiseValueError: the batch has no column with the time.
        """
        if self.time is None:
            return batch
        if self.time not in batch.columns:
            raise SaltwiseValueError.unknown("time", self.time, batch.columns)
        limits = [_micros(limit) for limit in (self.late, self.ttl) if limit is not None]
        if latest is None or not limits:
            return batch.where(self.seen.isNotNull())
        return batch.where(F.unix_micros(self.seen) >= latest - min(limits))

    def alive(self, rows: DataFrame, latest: int | None) -> DataFrame:
        """Return the rows of a state without the groups that have expired.

        Args:
            rows: rows of the files.
            latest: the latest time of all batches, in microseconds since 1970.
        """
        if self.ttl is None or latest is None:
            return rows
        return rows.where(F.unix_micros(SEEN) >= latest - _micros(self.ttl))


def _micros(limit: timedelta) -> int:
    return limit // timedelta(microseconds=1)
