"""What is compiled with numba, and the sort that it uses."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from types import CodeType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import saltwise
from saltwise._sort import ascending

pytest.importorskip("numba")

FLOORS = ("saltwise.sketches", "saltwise.splitting", "saltwise.placement", "saltwise.rebalancing")


@given(st.lists(st.floats(allow_nan=False)))
def test_ascending_sorts(values: list[float]) -> None:
    given_values = np.array(values, np.float64)
    positions = ascending(given_values)
    assert sorted(positions.tolist()) == list(range(len(values)))
    assert given_values[positions].tolist() == sorted(values)


def test_compiled_code_uses_no_sort_of_numba() -> None:
    functions = compiled_functions()
    assert {"ascending", "_mapping", "_update_d"} <= set(functions)
    sorts = {"sort", "argsort", "searchsorted", "unique", "median", "partition", "sorted"}
    assert {name for name, code in functions.items() if sorts & set(code.co_names)} == set()


def compiled_functions() -> dict[str, CodeType]:
    """The code of each function that numba compiles, by name."""
    from numba.core.dispatcher import Dispatcher

    modules = [module.name for module in walk_packages(saltwise.__path__, "saltwise.") if in_an_algorithm(module.name)]
    return {
        name: value.py_func.__code__
        for module in modules
        for name, value in vars(import_module(module)).items()
        if isinstance(value, Dispatcher)
    }


def in_an_algorithm(module: str) -> bool:
    return module == "saltwise._sort" or module.startswith(FLOORS)
