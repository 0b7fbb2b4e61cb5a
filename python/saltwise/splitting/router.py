"""A source of rows outside of the simulator and of the plugin: it is fed batch by batch, with keys as they come.

The schemes are those of :mod:`saltwise.splitting.schemes`, so a row gets the worker that the plugin's ``skew_worker``
gives it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ..errors import SaltwiseValueError
from ..options import EPSILON, SkewOptions, default_capacity, default_theta
from .schemes import SPLITTING, Ints, Longs, Settings, key_table, new_sources, run_source

N = TypeVar("N", int, float)

DEFAULT_STRATEGY = "dchoices"


@dataclass(frozen=True)
class Routing:
    """A strategy and its parameters, all settled."""

    strategy: str
    workers: int
    theta: float
    epsilon: float
    choices: int | None
    capacity: int

    @property
    def depends_on_order(self) -> bool:
        """Whether a row's worker depends on the rows before it."""
        return self.strategy != "hash"


def settled(options: SkewOptions, session: Mapping[str, str]) -> Routing:
    """Settle options as the plugin does: first those that were given, then those of the session, then the defaults.

    Args:
        options: of one group-by.
        session: the options that the session has, by name, of which "partitions" must be there.

    Raises:
        SaltwiseValueError: the strategy routes nothing, or a value is out of range.

    >>> settled(SkewOptions(partitions=8), {}).theta
    0.025
    """
    strategy = (options.strategy or session.get("strategy", "auto")).lower()
    if strategy == "auto" and options.strategy is None:
        strategy = DEFAULT_STRATEGY
    if strategy not in SPLITTING:
        raise SaltwiseValueError.unknown("strategy", strategy, SPLITTING)
    workers, theta = settled_head(options, session)
    epsilon = options.epsilon
    if epsilon is None:
        epsilon = _number("epsilon", session["epsilon"], float) if "epsilon" in session else EPSILON
    # What the session says of all group-bys is fitted to the workers and to theta of this one.
    choices = options.choices
    if choices is None and "choices" in session:
        choices = min(workers, _number("choices", session["choices"], int))
    capacity = options.sketch_capacity
    if capacity is None and "sketch_capacity" in session:
        capacity = max(math.ceil(1 / theta), _number("sketch_capacity", session["sketch_capacity"], int))
    SkewOptions(strategy, workers, theta, epsilon, choices, capacity)
    return Routing(strategy, workers, theta, epsilon, choices, capacity or default_capacity(theta))


def settled_head(options: SkewOptions, session: Mapping[str, str]) -> tuple[int, float]:
    """Return the workers n, and theta, the share of rows from which on a key is in the head.

    >>> settled_head(SkewOptions(partitions=8), {"theta": "0.1"})
    (8, 0.1)
    """
    workers = options.partitions or _number("partitions", session["partitions"], int)
    if options.theta is not None:
        return workers, options.theta
    return workers, _number("theta", session["theta"], float) if "theta" in session else default_theta(workers)


def _number(name: str, text: str, kind: type[N]) -> N:
    try:
        return kind(text)
    except ValueError as error:
        raise SaltwiseValueError(f"{name} is {text!r}; it must be a number.") from error


class Router:
    """One source: it gives each row the worker to which the strategy sends it.

    Args:
        routing: the strategy and its parameters.
        source: which source this is, at least 0.

    >>> options = SkewOptions(strategy="shuffle", partitions=3)
    >>> router = Router(settled(options, {}), source=1)
    >>> router.route(np.array([7, 7, 7, 7])), router.route(np.array([7]))
    (array([1, 2, 0, 1], dtype=int32), array([2], dtype=int32))
    """

    def __init__(self, routing: Routing, source: int) -> None:
        self._settings = Settings(SPLITTING[routing.strategy], routing.theta, routing.epsilon, routing.choices or 0)
        self._workers = routing.workers
        [self._source] = new_sources(1, routing.workers, 0, self._settings, routing.capacity, source).each
        self._hash_on = np.empty(routing.capacity, np.int64)
        """By counter: the hash of its key."""

    def route(self, hashes: Longs) -> Ints:
        """Return the worker of each of the next rows, whose keys have these 64-bit hashes.

        Only keys on a counter are remembered, so memory is bounded by the sketch and the batch.
        """
        known = self._hash_on[: self._counters]
        distinct, inverse = np.unique(np.concatenate([known, hashes]), return_inverse=True)
        ids = inverse.astype(np.int32)
        source = self._source._replace(counter_of=np.full(len(distinct), -1, np.int32))
        source.key_on[: len(known)] = ids[: len(known)]
        source.counter_of[ids[: len(known)]] = np.arange(len(known))
        out = np.empty(len(hashes), np.int32)
        run_source(
            source,
            1,
            key_table(distinct, self._workers, np.int32(-1)),
            ids[len(known) :],
            np.empty(0, np.int32),
            np.array([0, len(hashes)]),
            self._settings,
            out,
            np.zeros((1, self._workers), np.int64),
        )
        self._hash_on[: self._counters] = distinct[source.key_on[: self._counters]]
        return out

    @property
    def _counters(self) -> int:
        """Counters in use."""
        return int(self._source.sketch.whole[0]["size"])
