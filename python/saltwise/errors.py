"""The errors that Saltwise raises."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SaltwiseError(Exception):
    """Base of every error that Saltwise raises on purpose."""


class SaltwiseValueError(SaltwiseError, ValueError):
    """An argument or a conf has a value that is not allowed."""

    @classmethod
    def unknown(cls, what: str, given: object, allowed: Iterable[str]) -> SaltwiseValueError:
        """Make the error for a name that does not exist. It suggests the nearest name that does.

        >>> SaltwiseValueError.unknown("strategy", "dchoise", ["pkg", "dchoices"])
        SaltwiseValueError("strategy is 'dchoise'; it must be one of pkg, dchoices; did you mean 'dchoices'?")
        """
        names = list(allowed)
        near = get_close_matches(str(given).lower(), names, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        return cls(f"{what} is {given!r}; it must be one of {', '.join(names)}{hint}")


def check_whole(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Raise unless `value` is a whole number of at least `least`, and at most `most` if that is given.

    Raises:
        SaltwiseValueError: the value is not such a number.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise SaltwiseValueError(f"{name} is {value!r}; it must be a whole number {allowed}.")


class PluginMissingError(SaltwiseError):
    """The session runs without the Saltwise extension."""


class AggregatorError(SaltwiseError):
    """A method of an Aggregator raised an error, or broke its contract."""
