"""A source of rows outside of the simulator and of the plugin. It gets batch after batch, and may meet any key.

The schemes are those of :mod:`saltwise.splitting.schemes`, so a row gets the worker that the plugin's ``skew_worker``
gives it.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Int32s, Int64s
from ..options import SettledOptions
from .schemes import SPLITTING, Messages, run_source
from .source import Settings, key_table, new_sources


class Router:
    """One source: it gives each row the worker to which the strategy sends it.

    Args:
        options: the strategy, one of :data:`saltwise.strategies.ROUTING`, and its parameters.
        source: which source this is, at least 0.

    >>> router = Router(SettledOptions("shuffle", workers=3, theta=0.1), source=1)
    >>> router.route(np.array([7, 7, 7, 7])), router.route(np.array([7]))
    (array([1, 2, 0, 1], dtype=int32), array([2], dtype=int32))
    """

    def __init__(self, options: SettledOptions, source: int) -> None:
        self._settings = Settings(SPLITTING[options.strategy], options.theta, options.epsilon, options.choices or 0)
        self._workers = options.workers
        self._sources = new_sources(1, options.workers, self._settings, keys=0, capacity=options.capacity, first=source)
        self._hash_on = np.empty(options.capacity, np.int64)
        """By counter: the hash of its key."""

    def route(self, hashes: Int64s) -> Int32s:
        """Return the worker of each of the next rows, whose keys have these 64-bit hashes.

        Only keys on a counter are remembered, so memory is bounded by the sketch and the batch.
        """
        known = self._hash_on[: self._counters]
        distinct, inverse = np.unique(np.concatenate([known, hashes]), return_inverse=True)
        ids = inverse.astype(np.int32)
        sources = self._sources._replace(counter_of=np.full((1, len(distinct)), -1, np.int32))
        sources.key_on[0, : len(known)] = ids[: len(known)]
        sources.counter_of[0, ids[: len(known)]] = np.arange(len(known))
        stream = Messages(
            keys=key_table(distinct, self._workers, np.int32(-1)),
            ids=ids[len(known) :],
            source_of=np.empty(0, np.int32),
            edges=np.array([0, len(hashes)]),
            workers=np.empty(len(hashes), np.int32),
        )
        sent = np.zeros((1, self._workers), np.int64)
        run_source(sources, 0, stream, settings=self._settings, sent=sent)
        self._hash_on[: self._counters] = distinct[sources.key_on[0, : self._counters]]
        return stream.workers

    @property
    def _counters(self) -> int:
        """Counters in use."""
        return int(self._sources.sketch.whole[0, 0]["size"])
