"""The options of a skew-safe group-by: what is allowed, what the defaults are, and how a hint spells them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .conf_words import word
from .errors import SaltwiseValueError, check_number, check_share, check_whole
from .strategies import STRATEGIES

Number = TypeVar("Number", int, float)

EPSILON = 1e-4
"""The imbalance that D-Choices may leave, as a share of all rows."""

COUNTERS_PER_HEAD_KEY = 4
"""Sketch counters for each 1/theta. A key that the sketch puts into the head then has a share of at least 3/4 theta."""

MAX_CAPACITY = 1 << 24
"""The most counters that a sketch may have."""

PLACEMENT_CAPACITY = 10_000
"""The most keys that get a worker of their own."""

SPELLED = {"sketch_capacity": "sketch.capacity", "cost": "placement.cost", "function": "placement.function"}
"""How hints and confs spell the options that have another name in Python."""


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
    return _counters(COUNTERS_PER_HEAD_KEY, theta)


def _counters(number: int, theta: float) -> int:
    """Return this number of counters for each 1/theta, but no more than a sketch may have."""
    return math.ceil(min(MAX_CAPACITY, number / theta))


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
        if self.strategy is not None:
            object.__setattr__(self, "strategy", checked_strategy(self.strategy, STRATEGIES))
        if self.partitions is not None:
            check_whole("partitions", self.partitions)
        if self.theta is not None:
            check_share("theta", self.theta)
        if self.epsilon is not None:
            check_number("epsilon", self.epsilon, lambda share: 0 < share < 1, "a share between 0 and 1")
        if self.choices is not None:
            allowed = None if self.partitions is None else f"from 2 to the {self.partitions} partitions"
            check_whole("choices", self.choices, 2, self.partitions, allowed=allowed)
        if self.sketch_capacity is not None:
            least = 1 if self.theta is None else _counters(1, self.theta)
            shown = least if least in (1, MAX_CAPACITY) else f"1/theta = {least}"
            allowed = f"from {shown} to {MAX_CAPACITY}"
            check_whole("sketch_capacity", self.sketch_capacity, least, MAX_CAPACITY, allowed=allowed)

    def hint(self) -> list[str]:
        """Return the parameters of the SKEW_GROUPBY hint: the strategy, then 'option=value' strings."""
        named = {SPELLED.get(name, name): value for name, value in vars(self).items() if name != "strategy"}
        strategy = [] if self.strategy is None else [self.strategy]
        return strategy + [f"{name}={value}" for name, value in named.items() if value is not None]


@dataclass(frozen=True)
class SettledOptions:
    """The options of one group-by: its arguments, then the confs of the session, then the defaults."""

    strategy: str
    workers: int
    theta: float
    epsilon: float = EPSILON
    choices: int | None = None
    """d; None if it is to be solved."""
    counters: int | None = None
    """Counters of a sketch, if somebody has set them."""
    cost: str = "rows"

    @property
    def capacity(self) -> int:
        """The counters of each source's sketch."""
        return self.counters or default_capacity(self.theta)

    @property
    def placement_capacity(self) -> int:
        """The most keys that get a worker of their own."""
        return self.counters or PLACEMENT_CAPACITY


def settle(
    options: SkewOptions, session: Mapping[str, str], strategies: Collection[str] = STRATEGIES, default: str = "auto"
) -> SettledOptions:
    """Settle options as the plugin does: an argument first, then the session's conf, then the default.

    Confs of the session apply to group-bys of all kinds. So they are fitted to this one: `choices` to its workers (with
    one worker there is nothing to choose), `sketch_capacity` to its theta. If the session has a strategy that this kind
    of group-by cannot use, `default` takes its place.

    Args:
        options: the arguments of one group-by.
        session: the options that the session sets, by their names in Python; "partitions" must be there.
        strategies: what this kind of group-by can use.
        default: its strategy if neither the arguments nor the session name one that it can use.

    Raises:
        SaltwiseValueError: the strategy is not one of `strategies`, or a value is out of range.

    >>> settle(SkewOptions(partitions=8), {"theta": "0.1"}).theta
    0.1
    """
    if options.strategy is not None:
        strategy = checked_strategy(options.strategy, strategies)
    else:
        named = word(session.get("strategy", default))
        strategy = named if named in strategies else default
    workers = options.partitions or _number("partitions", session["partitions"], int)
    theta = options.theta
    if theta is None:
        theta = _number("theta", session["theta"], float) if "theta" in session else default_theta(workers)
    epsilon = options.epsilon
    if epsilon is None:
        epsilon = _number("epsilon", session["epsilon"], float) if "epsilon" in session else EPSILON
    choices = options.choices
    counters = options.sketch_capacity
    shared: dict[str, Any] = {"strategy": strategy, "theta": theta, "epsilon": epsilon}
    # Raises if a value is out of range.
    SkewOptions(**shared, partitions=workers, choices=choices, sketch_capacity=counters)
    if choices is None and "choices" in session:
        of_session = _number("choices", session["choices"], int)
        check_whole("choices", of_session, 2)
        choices = min(workers, of_session) if workers > 1 else None
    if counters is None and "sketch_capacity" in session:
        of_session = _number("sketch_capacity", session["sketch_capacity"], int)
        check_whole("sketch_capacity", of_session, 1, MAX_CAPACITY)
        counters = min(MAX_CAPACITY, max(_counters(1, theta), of_session))
    cost = options.cost or session.get("cost", "rows")
    return SettledOptions(**shared, workers=workers, choices=choices, counters=counters, cost=cost)


def checked_strategy(name: object, allowed: Collection[str]) -> str:
    """Return the name of a strategy as the table spells it.

    Raises:
        SaltwiseValueError: it is not one of `allowed`.

    >>> checked_strategy("READJ", STRATEGIES)
    'readj'
    """
    spelled = str(name).lower()
    if spelled not in allowed:
        raise SaltwiseValueError.unknown("strategy", name, allowed)
    return spelled


def _number(name: str, text: str, kind: type[Number]) -> Number:
    try:
        return kind(text)
    except ValueError as error:
        raise SaltwiseValueError(f"{name} is {text!r}; it must be a number.") from error
