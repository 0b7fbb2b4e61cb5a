"""The examples in docstrings run; those that need a session do in tests/docs/test_session_docstrings.py."""

from __future__ import annotations

import doctest
import pkgutil
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import saltwise

MODULES = sorted(module.name for module in pkgutil.walk_packages(saltwise.__path__, "saltwise.") if not module.ispkg)


def takes_a_session(module: str) -> bool:
    """Whether an example in this module has the name spark or df."""
    spec = find_spec(module)
    assert spec
    assert spec.origin
    lines = Path(spec.origin).read_text().splitlines()
    return any(re.match(r"\s*(>>>|\.\.\.) .*(?<![\w.])(spark|df)\b", line) for line in lines)


ELSEWHERE = {"saltwise.simulate"}
"""The example compiles what the tests of the module compile, so it runs beside them, in tests/unit/test_simulate.py."""

WITH_A_SESSION = [module for module in MODULES if takes_a_session(module)]


@pytest.mark.parametrize("module", sorted({*MODULES} - {*WITH_A_SESSION} - ELSEWHERE))
def test_the_examples_of_docstrings_run_without_spark(module: str) -> None:
    assert doctest.testmod(import_module(module)).failed == 0
