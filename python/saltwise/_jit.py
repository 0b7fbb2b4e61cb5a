"""Compiles with numba where it is installed; without it the same functions run as plain Python, slowly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

try:
    import numba
    from filelock import FileLock
except ImportError:
    COMPILED = False
else:
    COMPILED = True


def jit(function: F) -> F:
    """Compile the function at its first call, keep the machine code beside it, and let other threads run meanwhile."""
    return cast(F, _one_at_a_time(numba.njit(cache=True, nogil=True)(function))) if COMPILED else function


def inlined(function: F) -> F:
    """Compile the function into its callers: calls with many arrays cost more than what small functions do."""
    return cast(F, _one_at_a_time(numba.njit(cache=True, inline="always")(function))) if COMPILED else function


def _one_at_a_time(dispatcher: Any) -> Any:
    """Let no other process compile meanwhile.

    Processes that compile the same functions at once, as Python workers on an executor do, keep machine code that
    crashes or computes something else: https://github.com/numba/numba/issues/4807 and 10128.
    """
    compile_now = dispatcher.compile

    def compile_alone(signature: Any) -> Any:
        with FileLock(Path(dispatcher.stats.cache_path, "compiling.lock"), is_singleton=True):
            return compile_now(signature)

    dispatcher.compile = compile_alone
    return dispatcher
