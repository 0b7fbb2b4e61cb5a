"""The options of a skew-safe group-by: what they are, what is allowed, and how a hint spells them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .errors import SaltwiseValueError

CONSTRUCTED = ("scan", "redist", "readj")
"""Strategies whose partition function is constructed from the keys, and from the function in use."""

PLACEMENT = ("hash", "consistent", "offgreedy", *CONSTRUCTED)
"""Strategies that leave every group whole."""

STRATEGIES = (
    *("auto", "split", "local", "hash", "shuffle", "pkg", "dchoices", "wchoices", "roundrobin"),
    *PLACEMENT[1:],
)

EPSILON = 1e-4
"""Imbalance that D-Choices may leave, as a share of all rows."""

COUNTERS_PER_HEAD_KEY = 4
"""Sketch counters for each 1/theta: a key taken for head then has a share of at least 3/4 theta."""


def default_theta(workers: int) -> float:
    """Return 1/(5n), the share from which a key is hot ("When Two Choices Are not Enough", section III-A).

    >>> default_theta(100)
    0.002
    """
    return 1 / (5 * workers)


def default_capacity(theta: float) -> int:
    """Return the number of sketch counters for a threshold.

    >>> default_capacity(0.002)
    2000
    """
    return math.ceil(COUNTERS_PER_HEAD_KEY / theta)


@dataclass(frozen=True)
class SkewOptions:
    """The options of one group-by. None leaves an option to the conf of the same name.

    Raises:
        SaltwiseValueError: a value is out of range; the message names it and what is allowed.

    >>> SkewOptions(strategy="dchoices", partitions=200).hint()
    ['dchoices', 'partitions=200']
    """

    strategy: str | None = None
    partitions: int | None = None
    theta: float | None = None
    epsilon: float | None = None
    choices: int | None = None
    sketch_capacity: int | None = None
    hot: str | None = None
    cost: str | None = None
    function: str | None = None

    def __post_init__(self) -> None:
        if self.strategy is not None and str(self.strategy).lower() not in STRATEGIES:
            raise SaltwiseValueError.unknown("strategy", self.strategy, STRATEGIES)
        most = "" if self.partitions is None else f" to the {self.partitions} partitions"
        _check("partitions", self.partitions, _whole(1), "a whole number of at least 1")
        _check("theta", self.theta, lambda x: 0 < x <= 1, "a share above 0 and at most 1")
        _check("epsilon", self.epsilon, lambda x: 0 < x < 1, "a share between 0 and 1")
        _check("choices", self.choices, _whole(2, self.partitions), f"a whole number from 2{most or ' on'}")
        needed = 1 if self.theta is None else math.ceil(1 / self.theta)
        _check(
            "sketch_capacity",
            self.sketch_capacity,
            _whole(needed),
            "a whole number from " + ("1 on" if self.theta is None else f"1/theta = {needed} on"),
        )

    def hint(self) -> list[str]:
        """Return the parameters of the SKEW_GROUPBY hint: the strategy, then 'option=value' strings."""
        named = {
            "partitions": self.partitions,
            "theta": self.theta,
            "epsilon": self.epsilon,
            "choices": self.choices,
            "sketch.capacity": self.sketch_capacity,
            "hot": self.hot,
            "placement.cost": self.cost,
            "placement.function": self.function,
        }
        first = [] if self.strategy is None else [self.strategy.lower()]
        return first + [f"{name}={value}" for name, value in named.items() if value is not None]


def hot_json(hot: object) -> str:
    """Spell hot keys as the `hot` option does.

    Args:
        hot: the keys, or a mapping from key to its share of rows; a key of several columns is a tuple. A
            SkewReport gives its own.

    Raises:
        SaltwiseValueError: there is no key, or a share is not above 0 and at most 1.

    >>> hot_json(["UA", "B6"])
    '[{"key": ["UA"]}, {"key": ["B6"]}]'
    >>> hot_json({("UA", 7): 0.17})
    '[{"key": ["UA", 7], "share": 0.17}]'
    """
    if hasattr(hot, "hot_json"):
        return str(hot.hot_json())
    if isinstance(hot, str) or not isinstance(hot, Iterable):
        raise SaltwiseValueError(f"hot is {hot!r}; it must be a list of keys, or a dict from key to share.")
    entries = []
    for key in hot:
        entry: dict[str, object] = {"key": list(key) if isinstance(key, tuple) else [key]}
        if isinstance(hot, Mapping):
            _check("share of a hot key", hot[key], lambda x: 0 < x <= 1, "above 0 and at most 1")
            entry["share"] = hot[key]
        entries.append(entry)
    if not entries:
        raise SaltwiseValueError("hot is empty; name at least one key, or leave hot out.")
    return json.dumps(entries, default=str)


def _whole(low: int, high: int | None = None) -> object:
    return lambda x: isinstance(x, int) and x >= low and (high is None or x <= high)


def _check(name: str, value: object, allowed: object, words: str) -> None:
    if value is None:
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not allowed(value):  # type: ignore[operator]
        raise SaltwiseValueError(f"{name} is {value!r}; it must be {words}.")
