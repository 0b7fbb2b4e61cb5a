"""Words in Spark's confs, read as Spark reads them: in any case, and with blanks around them."""

from __future__ import annotations

from collections.abc import Callable

Conf = Callable[[str], str | None]
"""Returns the value of a conf; None if it is not set."""


def word(value: str | None) -> str:
    """Return a word of a conf as its documentation spells it; an empty text if the conf is not set.

    >>> word(" DChoices ")
    'dchoices'
    """
    return (value or "").strip().lower()


def is_true(value: str | None) -> bool:
    """Return whether a conf is set to true.

    >>> is_true("True"), is_true(None)
    (True, False)
    """
    return word(value) == "true"


def mode_of(conf: Conf) -> str:
    """Return the mode of Saltwise: off, observe or on. ``spark.saltwise.enabled`` counts where there is no mode.

    >>> mode_of({"spark.saltwise.enabled": "TRUE"}.get)
    'on'
    """
    return word(conf("spark.saltwise.mode")) or ("on" if is_true(conf("spark.saltwise.enabled")) else "off")
