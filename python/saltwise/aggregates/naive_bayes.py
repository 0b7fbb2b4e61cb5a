"""The counts of a naive Bayes classifier: the running example of Nasir et al., "The Power of Both Choices", ICDE 2015,
section 2.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..spark.aggregators.protocol import Aggregator
from .columns import text

if TYPE_CHECKING:
    from pyspark.sql import Column

Counts = Counter[tuple[str, str | None, str | None]]


class NaiveBayes(Aggregator):
    """How often each value of each feature occurs with each label, as an array of structs for :func:`classify`.

    An entry without feature and value has the number of rows of a label. Labels and values are strings. Rows without a
    label are skipped, and so are features that are NULL.

    Args:
        label: the column to predict.
        feature: a column to predict it from.
        features: more such columns.

    >>> late = NaiveBayes("late", "carrier")
    >>> batch = pa.record_batch({"late": ["yes", "no", "no"], "carrier": ["EV", "UA", "UA"]})
    >>> classify(late.finish(late.update(late.zero(), batch)), {"carrier": "UA"})
    'no'
    """

    returns = "array<struct<label: string, feature: string, value: string, rows: bigint>>"

    def __init__(self, label: str | Column, feature: str | Column, *features: str | Column) -> None:
        super().__init__(label, feature, *features)

    def zero(self) -> Counts:
        return Counter()

    def update(self, state: Counts, batch: pa.RecordBatch) -> Counts:
        labels = batch.column(0).cast(pa.string())
        for name, column in zip(batch.schema.names[1:], batch.columns[1:], strict=True):
            pairs = pa.table({"label": labels, "value": column.cast(pa.string())}).drop_null()
            for row in pairs.group_by(["label", "value"]).aggregate([([], "count_all")]).to_pylist():
                state[row["label"], name, row["value"]] += row["count_all"]
        for row in labels.drop_null().value_counts().to_pylist():
            state[row["values"], None, None] += row["counts"]
        return state

    def merge(self, a: Counts, b: Counts) -> Counts:
        a.update(b)
        return a

    def finish(self, state: Counts) -> list[dict[str, Any]]:
        ordered = sorted(state.items(), key=lambda entry: tuple(part or "" for part in entry[0]))
        return [{"label": key[0], "feature": key[1], "value": key[2], "rows": rows} for key, rows in ordered]


def classify(counts: Iterable[Mapping[str, Any]], features: Mapping[str, object], smoothing: float = 1.0) -> str:
    """Return the label with the highest P(label) prod P(feature = value | label).

    Args:
        counts: the result of a :class:`NaiveBayes`, as dicts or as Rows.
        features: the value of each feature, in the type of its column, by the name of the column.
        smoothing: is added to each count, so that a value that was never seen has a probability above 0 (Laplace).
    """
    rows_of_label: dict[str, int] = {}
    seen: dict[tuple[str, str, str], int] = {}
    values: defaultdict[str, set[str]] = defaultdict(set)
    for entry in counts:
        if entry["feature"] is None:
            rows_of_label[entry["label"]] = entry["rows"]
        else:
            seen[entry["label"], entry["feature"], entry["value"]] = entry["rows"]
            values[entry["feature"]].add(entry["value"])

    def score(label: str) -> float:
        return math.log(rows_of_label[label]) + sum(
            math.log(
                (seen.get((label, name, text(value)), 0) + smoothing)
                / (rows_of_label[label] + smoothing * (len(values[name]) + 1))
            )
            for name, value in features.items()
        )

    return max(sorted(rows_of_label), key=score)
