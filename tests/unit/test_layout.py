"""Which files of a kept state a batch has to write."""

from __future__ import annotations

from typing import Any

import pytest

from saltwise.placement.hash_pair import HashPair
from saltwise.spark.kept_state.layout import Layout


def test_a_key_that_moves_changes_the_worker_it_leaves_and_the_one_it_goes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    no_rows: Any = None
    monkeypatch.setattr(Layout, "units_of", lambda layout, rows: set())
    before, after = (Layout(HashPair(4, "bigint", {7: worker})) for worker in (0, 3))
    assert after.changed_units(before, range(4), no_rows) == {0, 3}
    assert after.changed_units(after, range(4), no_rows) == set()
