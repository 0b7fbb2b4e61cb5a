"""Checks that the result of an aggregate in Python does not depend on how its rows are split and merged."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from ...errors import AggregatorError, SaltwiseValueError
from .protocol import Aggregator

RANDOM_ORDERS = 20
"""How many random orders of merging check_aggregator tries."""

TOLERANCE = 1e-6
"""How much two results may differ, as a share of the largest number in them. Floating sums depend on their order."""


def check_aggregator(aggregator: Aggregator, batches: Iterable[Any], seed: int = 1) -> None:
    """Check that states give the same result in any order of merging. Use it to test an Aggregator.

    Args:
        aggregator: the Aggregator to check; not an approximate one.
        batches: rows of one key, as its update gets them; at least three batches.
        seed: seed of the random orders.

    Raises:
        SaltwiseValueError: there are fewer than three batches, or the aggregator is approximate.
        AggregatorError: the results differ; the message says which.

    >>> import pyarrow as pa
    >>> import saltwise
    >>> @saltwise.aggregator(returns="double", zero=float, merge=lambda a, b: (a + b) / 2, finish=float)
    ... def mean(state, batch):
    ...     return batch.column(0).to_numpy().mean()
    >>> check_aggregator(mean("x"), [pa.record_batch({"x": [float(i)]}) for i in (1, 2, 6)])
    Traceback (most recent call last):
    saltwise.errors.AggregatorError: mean.merge is not associative: (a + b) + c is 3.75, and a + (b + c) is 2.5.
    """
    name, parts = type(aggregator).__name__, list(batches)
    if len(parts) < 3:
        raise SaltwiseValueError(f"batches has {len(parts)} entries; give at least three.")
    if aggregator.approximate:
        raise SaltwiseValueError(f"{name} is approximate, so its results may differ; test its error bound instead.")
    wrong = disagreement(aggregator, parts[:2] + parts[2:3])
    rng = random.Random(seed)
    for _ in range(RANDOM_ORDERS):
        if wrong is not None:
            raise AggregatorError(f"{name}.{wrong}")
        wrong = _differ("the parts in order", _left(aggregator, parts), "a random tree", _tree(aggregator, parts, rng))
    if wrong is not None:
        raise AggregatorError(f"{name}.{wrong}")


def disagreement(aggregator: Aggregator, parts: Sequence[Any]) -> str | None:
    """Merge up to three batches of one key in several ways. Return how the results differ; None if they do not."""
    if len(parts) < 3:
        return None
    a, b, c = parts
    merge, finish = aggregator.merge, aggregator.finish
    left = _left(aggregator, parts)
    right = finish(merge(_state(aggregator, a), merge(_state(aggregator, b), _state(aggregator, c))))
    other = finish(merge(merge(_state(aggregator, c), _state(aggregator, b)), _state(aggregator, a)))
    first_two = merge(_state(aggregator, a), _state(aggregator, b))
    zero = finish(merge(aggregator.zero(), merge(first_two, _state(aggregator, c))))
    whole = finish(reduce(aggregator.update, parts, aggregator.zero()))
    return (
        _differ("(a + b) + c", left, "a + (b + c)", right)
        or _differ("(a + b) + c", left, "(c + b) + a", other)
        or _differ("(a + b) + c", left, "zero + ((a + b) + c)", zero)
        or _differ("(a + b) + c", left, "one state updated by all", whole)
    )


def _state(aggregator: Aggregator, batch: Any) -> Any:
    """Return a new state, because merge may change it."""
    return aggregator.update(aggregator.zero(), batch)


def _left(aggregator: Aggregator, parts: Sequence[Any]) -> Any:
    return aggregator.finish(reduce(aggregator.merge, (_state(aggregator, part) for part in parts)))


def _tree(aggregator: Aggregator, parts: Sequence[Any], rng: random.Random) -> Any:
    """Merge two random states until one state is left. Return its result."""
    states = [_state(aggregator, part) for part in parts]
    while len(states) > 1:
        a = states.pop(rng.randrange(len(states)))
        b = states.pop(rng.randrange(len(states)))
        states.append(aggregator.merge(a, b))
    return aggregator.finish(states[0])


def _differ(one: str, first: Any, other: str, second: Any) -> str | None:
    if alike(first, second, TOLERANCE * max(map(abs, _floats(first) + _floats(second)), default=0.0)):
        return None
    return f"merge is not associative: {one} is {first!r}, and {other} is {second!r}."


def alike(a: Any, b: Any, within: float) -> bool:
    """Return whether two results are equal. Floats may differ by `within`.

    >>> alike({"mean": 0.1 + 0.2, "rows": [3]}, {"mean": 0.3, "rows": [3]}, 1e-9), alike(1, 2, 0.1)
    (True, False)
    """
    a, b = (value.tolist() if hasattr(value, "tolist") else value for value in (a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= within
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(value, b[name], within) for name, value in a.items())
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(alike(x, y, within) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _floats(value: Any) -> list[float]:
    """Return the finite floats in a result."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, float):
        return [value] if math.isfinite(value) else []
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [number for item in inside for number in _floats(item)]
