"""The hot keys and the worker loads of each micro-batch of a stream."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.listener import StreamingQueryListener

from ...tables import Printable, counted

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import QueryProgressEvent
    from pyspark.sql.streaming.query import StreamingQuery

_RECEIVED = ".received"
"""Suffix of the name of the workers' metrics. It follows the name of the aggregate."""
_NAME = re.compile(r"saltwise(?:\.\d+)?")
_FIELDS = {"strategy", "workers", "head"}
_FIELDS_OF_RECEIVED = {"most"}


@dataclass(frozen=True)
class SkewBatch(Printable):
    """One micro-batch of one aggregate whose rows Saltwise routed. Prints as one line.

    >>> batch = SkewBatch(7, "saltwise", "dchoices", 8, 3, 1000, (("UA", 400),), 150)
    >>> batch.share("UA"), batch.max_to_mean
    (0.4, 1.2)
    >>> print(batch)
    batch 7, saltwise: 1000 rows, 1 hot key, hottest UA 40.0 %, d = 3 of 8 workers, max/mean 1.200
    """

    batch: int
    """The number that Spark gave to the micro-batch."""
    name: str
    """Name of the aggregate: ``saltwise``. If a stream has several, the next are ``saltwise.2`` and so on."""
    strategy: str
    workers: int
    """n."""
    choices: int
    """d, the workers that a hot key may use."""
    rows: int
    hot: tuple[tuple[Any, int], ...]
    """The keys with a share of at least theta, and their rows as counted by sketches, highest first. A key is its hash
    of 64 bits, or its value if ``spark.saltwise.report.keys`` was true when the stream began. The value of a key of
    several columns is a dict, without the window."""
    max_rows: int
    """Rows of the fullest worker."""

    @property
    def max_to_mean(self) -> float:
        """Rows of the fullest worker, as a multiple of the mean; 1.0 if there are no rows."""
        return self.max_rows * self.workers / self.rows if self.rows else 1.0

    def share(self, key: Any) -> float:
        """The share of a hot key, as `hot` has it, among the rows of the batch; 0.0 for any other key."""
        # Keys may be dicts, which have no hash. NaN is found where it is the object that `hot` has.
        counts = (count for hot, count in self.hot if hot is key or hot == key)
        return next(counts, 0) / self.rows if self.rows else 0.0

    def _parts(self) -> Iterator[str]:
        yield str(self)

    def __str__(self) -> str:
        keys = counted(len(self.hot), "hot key")
        if self.hot:
            keys += f", hottest {self.hot[0][0]} {100 * self.hot[0][1] / self.rows:.1f} %"
        return (
            f"batch {self.batch}, {self.name}: {self.rows} rows, {keys}, "
            f"d = {self.choices} of {self.workers} workers, max/mean {self.max_to_mean:.3f}"
        )


def skew_batches(query: StreamingQuery) -> list[SkewBatch]:
    """Return the metrics of the latest micro-batches of a stream, the latest one last.

    Spark keeps the latest ``spark.sql.streaming.numRecentProgressUpdates`` batches. A stream whose aggregates were left
    alone has no metrics, and ``query.explain()`` says why.

    Args:
        query: a running or finished stream, of a classic or a Connect session.

    >>> skew_batches(stream.writeStream.start())[-1].hot  # doctest: +SKIP
    (('UA', 412), ('AA', 230))
    """
    return [batch for progress in query.recentProgress for batch in batches_of(progress)]


class SkewListener(StreamingQueryListener):
    """Calls a function with the metrics of each micro-batch, as soon as the batch has ended.

    If there is any listener in Python, pyspark keeps a connection and a thread for each stream that starts. So a driver
    that starts many streams should use :func:`skew_batches`.

    Args:
        on_batch: a function of a :class:`SkewBatch`. Spark calls it in a thread of its own.

    >>> spark.streams.addListener(SkewListener(print))  # doctest: +SKIP
    batch 0, saltwise: 5000 rows, 6 hot keys, hottest UA 38.9 %, d = 4 of 8 workers, max/mean 1.000
    """

    def __init__(self, on_batch: Callable[[SkewBatch], object]) -> None:
        self._on_batch = on_batch

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        for batch in batches_of(event.progress):
            self._on_batch(batch)

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: there was no batch."""

    def onQueryTerminated(self, event: Any) -> None:
        """Do nothing: all batches are known already."""


def batches_of(progress: Any) -> list[SkewBatch]:
    """Return the batches in one progress report of Spark: one for each aggregate.

    >>> head = {"rows": 10, "choices": 2, "hot": [{"item": 1, "count": 9, "error": 0}]}
    >>> metrics = {"saltwise": {"strategy": "pkg", "workers": 4, "head": head}, "saltwise.received": {"most": 5}}
    >>> batches_of({"batchId": 3, "observedMetrics": metrics})[0].hot
    ((1, 9),)
    """
    # Before Spark 4, listeners get an object that is no mapping.
    mapping = isinstance(progress, Mapping)
    number = progress["batchId"] if mapping else progress.batchId
    metrics = plain(progress.get("observedMetrics", {}) if mapping else progress.observedMetrics)
    batches = []
    for name in sorted(filter(_NAME.fullmatch, metrics), key=lambda name: (len(name), name)):
        rows, received = metrics[name], metrics.get(name + _RECEIVED, {})
        if rows.keys() != _FIELDS or received.keys() != _FIELDS_OF_RECEIVED:
            continue  # an observation of the user
        head = rows["head"]
        hot = tuple((key["item"], key["count"]) for key in head["hot"])
        batches.append(
            SkewBatch(
                batch=number,
                name=name,
                strategy=rows["strategy"],
                workers=rows["workers"],
                choices=head["choices"],
                rows=head["rows"],
                hot=hot,
                max_rows=received["most"],
            )
        )
    return batches


def plain(value: Any) -> Any:
    """Return a value with its structs as dicts. Structs come as Rows; over Connect, as values beside a schema.

    >>> fields = [{"name": "item", "type": "string"}, {"name": "count", "type": "long"}]
    >>> plain([Row(values=["UA", 9], schema={"type": "struct", "fields": fields}), Row(item="AA", count=3)])
    [{'item': 'UA', 'count': 9}, {'item': 'AA', 'count': 3}]
    """
    if isinstance(value, Row):
        value = value.asDict()
    if isinstance(value, Mapping):
        if value.keys() == {"values", "schema"}:
            value = dict(zip((field["name"] for field in value["schema"]["fields"]), value["values"], strict=True))
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value
