"""Compiles with numba where it is installed; without it the same functions run as plain Python, slowly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

try:
    import numba
except ImportError:
    COMPILED = False
else:
    COMPILED = True


def jit(function: F) -> F:
    """Compile the function at its first call, keep the machine code beside it, and let other threads run meanwhile."""
    return cast(F, numba.njit(cache=True, nogil=True)(function)) if COMPILED else function


def inlined(function: F) -> F:
    """Compile the function into its callers: calls with many arrays cost more than what small functions do."""
    return cast(F, numba.njit(cache=True, inline="always")(function)) if COMPILED else function
