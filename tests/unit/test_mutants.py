"""The table of mutants: each row fits the code, and every folder of the plugin and floor of the package has one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.mutants import MUTANTS, PLUGIN, PYTHON, ROOT, Mutant

FLOORS = (
    *("sketches", "splitting", "placement", "rebalancing", "spark", "spark/aggregators", "advise", "aggregates", "cli"),
    *("options.py", "simulate.py", "streams.py"),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_row_fits_the_code(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
    assert mutant.tests
    assert [name for name in mutant.tests if not (ROOT / "tests" / name).is_file()] == []


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 34


def test_every_folder_of_the_plugin_and_every_floor_of_the_package_has_a_mutant() -> None:
    folders = {file.parent.relative_to(ROOT) for file in (ROOT / PLUGIN).rglob("*.scala")}
    files = [Path(mutant.file) for mutant in MUTANTS]
    assert folders == {file.parent for file in files if file.suffix == ".scala"}
    for floor in FLOORS:
        assert any(file.is_relative_to(Path(PYTHON, floor)) for file in files), floor
