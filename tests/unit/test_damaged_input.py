"""Damaged input is read or refused and nothing else, a small part of what tests/fire/fuzz.py does; and no data is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fire import fuzz

import saltwise

RUNS_DATA = re.compile(
    r"\b(pickle|cloudpickle|marshal|shelve|dill|joblib)\.(loads?|Unpickler|open)\b"
    r"|from (pickle|pyspark\.cloudpickle|marshal|shelve|dill|joblib) import"
    r"|\bread_pickle\b|\ballow_pickle\b|\bnp\.load\b|\b(eval|exec)\("
)
"""What makes code of data."""


@pytest.mark.parametrize("mutations", [150, pytest.param(1_500, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", fuzz.FORMATS)
def test_damaged_input_is_read_or_refused_and_nothing_else(name: str, mutations: int) -> None:
    counts, wrong = fuzz.check(name, mutations, 1)
    assert not wrong, "\n".join(wrong)
    assert counts["refused"] + counts["read"] == counts["mutations"] == mutations


def test_the_event_logs_have_a_finding_before_they_are_damaged(tmp_path: Path) -> None:
    logs = fuzz.log(tmp_path)
    assert logs.file is not None
    for example in logs.examples:
        logs.file.write_bytes(example)
        [found] = fuzz.use_log(logs.file).findings
        assert found.keys == ["k"]
        assert found.hot_keys == ["UA (80,000 rows)"]


def test_only_the_reduce_side_of_aggregators_unpickles() -> None:
    package = Path(saltwise.__file__).parent
    found = [
        path.relative_to(package).as_posix()
        for path in sorted(package.rglob("*.py"))
        for _ in RUNS_DATA.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == ["spark/aggregators/reduce_side.py"]
