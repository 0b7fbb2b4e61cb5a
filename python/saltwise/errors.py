"""The errors that Saltwise raises, and the checks of arguments that raise them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from numbers import Real
from typing import Any


class SaltwiseError(Exception):
    """Base of every error that Saltwise raises on purpose."""


class SaltwiseValueError(SaltwiseError, ValueError):
    """An argument or a conf has a value that is not allowed."""

    @classmethod
    def unknown(cls, name: str, value: object, allowed: Iterable[str]) -> SaltwiseValueError:
        """Make the error for a name that does not exist. It suggests the nearest name that does.

        >>> SaltwiseValueError.unknown("strategy", "dchoise", ["pkg", "dchoices"])
        SaltwiseValueError("strategy is 'dchoise'; it must be one of pkg, dchoices; did you mean 'dchoices'?")
        """
        names = list(allowed)
        near = get_close_matches(str(value).lower(), names, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        return cls(f"{name} is {value!r}; it must be one of {', '.join(names)}{hint}")


def check_whole(name: str, value: object, least: int = 1, most: int | None = None, allowed: str | None = None) -> None:
    """Raise unless `value` is a whole number of at least `least`, and at most `most` if that is given.

    Args:
        name: of the argument, for the error.
        value: the argument.
        least: the smallest number that is allowed.
        most: the largest number that is allowed; any if not given.
        allowed: the range in words, if the error should say more than its two ends.

    Raises:
        SaltwiseValueError: the value is not such a number.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        in_words = allowed or (f"of at least {least}" if most is None else f"from {least} to {most}")
        raise SaltwiseValueError(f"{name} is {value!r}; it must be a whole number {in_words}.")


def check_number(name: str, value: object, is_allowed: Callable[[float], bool], allowed: str) -> None:
    """Raise unless `value` is a number that is allowed.

    Args:
        name: of the argument, for the error.
        value: the argument.
        is_allowed: whether a number is allowed. It says no to NaN.
        allowed: which numbers are allowed, in words.

    Raises:
        SaltwiseValueError: it is not.
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not is_allowed(_as_float(value)):
        raise SaltwiseValueError(f"{name} is {value!r}; it must be {allowed}.")


def _as_float(value: Any) -> float:
    """Return a number as a float, which is infinite if the number is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def check_share(name: str, value: object) -> None:
    """Raise unless `value` is a share above 0 and at most 1.

    Raises:
        SaltwiseValueError: it is not.
    """
    check_number(name, value, lambda share: 0 < share <= 1, "a share above 0 and at most 1")


def check_positive(name: str, value: object) -> None:
    """Raise unless `value` is a finite number above 0.

    Raises:
        SaltwiseValueError: it is not.
    """
    check_number(name, value, lambda number: 0 < number < math.inf, "a number above 0")


def check_not_negative(name: str, value: object) -> None:
    """Raise unless `value` is a finite number of at least 0.

    Raises:
        SaltwiseValueError: it is not.

    >>> check_not_negative("exponent", -1)
    Traceback (most recent call last):
    saltwise.errors.SaltwiseValueError: exponent is -1; it must be a number of at least 0.
    """
    check_number(name, value, lambda number: 0 <= number < math.inf, "a number of at least 0")


class PluginMissingError(SaltwiseError):
    """The session runs without the Saltwise extension."""


class AggregatorError(SaltwiseError):
    """A method of an Aggregator raised an error, or broke its contract."""
