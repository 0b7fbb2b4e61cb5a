"""Compiles with numba where it can be imported. Without it the same functions run as plain Python, slowly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

NUMBA_ERROR: ImportError | None = None
"""Why numba cannot be imported: it is not installed, or it is broken. None if it works."""

try:
    import numba
except ImportError as error:
    NUMBA_ERROR = error

COMPILED = NUMBA_ERROR is None


def jit(function: Function) -> Function:
    """Compile the function at its first call, keep the machine code on disk, and let other threads run meanwhile."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function)) if COMPILED else function


def inlined(function: Function) -> Function:
    """Compile the function into its callers: a call with many arrays costs more than a small function does."""
    return cast(Function, numba.njit(cache=True, inline="always")(function)) if COMPILED else function
