"""The one table of strategies: what each is called, what it does with a key, and what kind it is.

Saltwise has two families of strategies. Those that *split* give the rows of a hot key to several workers, so the
aggregate has to merge. Those that *place* leave every group whole. The plugin has the same table in
``Strategies.scala``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

RoutingName = Literal["hash", "shuffle", "pkg", "dchoices", "wchoices", "roundrobin"]
"""Strategies that choose a worker for each row."""

StrategyName = Literal[
    "auto",
    "split",
    "local",
    RoutingName,
    "consistent",
    "offgreedy",
    "scan",
    "redist",
    "readj",
    "level",
]
"""Every strategy."""


@dataclass(frozen=True)
class Strategy:
    """What a strategy does."""

    hot_key: str
    """Where the rows of a hot key go, in words."""
    other_key: str
    """Where the rows of any other key go."""
    choices: int | Literal["d", "n"] = 1
    """How many workers a hot key may use: "d" is solved from the data, "n" is all of them."""
    looks_back: bool = False
    """Whether the worker of a row depends on the rows before it."""
    whole_groups: bool = False
    """Whether every group stays whole, so that groups that may not be split can have it."""
    plans_ahead: bool = False
    """Whether it makes its partition function in a pass over the keys, before the query runs."""


def _planned_ahead(algorithm: str) -> Strategy:
    hot_key = f"one worker, by Gedik's {algorithm}"
    return Strategy(hot_key, "one worker, by a consistent hash", whole_groups=True, plans_ahead=True)


STRATEGIES: dict[str, Strategy] = {
    "auto": Strategy("one worker, as states or as rows, read in slices where these are many", "one worker, by hash"),
    "split": Strategy("as many tasks as its partition needs", "one worker, by hash"),
    "local": Strategy("one worker, as states", "one worker, by hash"),
    "hash": Strategy("one worker, by hash", "one worker, by hash", whole_groups=True),
    "shuffle": Strategy("all workers in turn", "all workers in turn", "n", looks_back=True),
    "pkg": Strategy("the less loaded of 2", "the less loaded of 2", 2, looks_back=True),
    "dchoices": Strategy("the least loaded of d, solved from the data", "the less loaded of 2", "d", looks_back=True),
    "wchoices": Strategy("the least loaded of all", "the less loaded of 2", "n", looks_back=True),
    "roundrobin": Strategy("all workers in turn", "the less loaded of 2", "n", looks_back=True),
    "consistent": Strategy("one worker, by a consistent hash", "one worker, by a consistent hash", whole_groups=True),
    "offgreedy": Strategy("one worker, the largest key first", "one worker, by hash", whole_groups=True),
    "scan": _planned_ahead("scan"),
    "redist": _planned_ahead("redist"),
    "readj": _planned_ahead("readj"),
    "level": _planned_ahead("level"),
}
"""Every strategy by its name. A new strategy is a row here, and its name above."""

ROUTING: tuple[RoutingName, ...] = get_args(RoutingName)
"""What ``skew_worker`` takes, and ``engine="arrow"``."""

PLACEMENT = tuple(name for name, strategy in STRATEGIES.items() if strategy.whole_groups)
"""Strategies for groups that may not be split."""

PLANNED_AHEAD = tuple(name for name, strategy in STRATEGIES.items() if strategy.plans_ahead)
"""Strategies whose partition function is made before the query runs."""
