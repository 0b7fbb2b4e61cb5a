"""Reads the aggregates over all batches so far from the folder of a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .ages import AgeLimits
from .definition import Definition
from .folder import StateFolder, StatefulAggregateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class StateReader:
    """Reads a state."""

    folder: StateFolder
    definition: Definition
    ages: AgeLimits

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the key columns, then one column for each aggregate.

        Raises:
            StatefulAggregateError: there was no batch yet, or the folder is of other keys or aggregates, or damaged.
        """
        last = self.folder.read()
        if last.columns is None:
            raise StatefulAggregateError(self.folder.path, "it has no batch yet")
        self.definition.check_columns(last.columns, self.folder.path)
        rows = self.folder.rows(spark, last.columns.state, last.files.values())
        return self.definition.merged(self.ages.alive(rows, last.latest), last.columns)
