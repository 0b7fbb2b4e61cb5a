"""The progress of a stream has metrics of Saltwise beside those of its user."""

from __future__ import annotations

from typing import Any

import pytest

from saltwise.spark.reports.stream_metrics import SkewBatch, batches_of


def progress(**observed: Any) -> dict[str, Any]:
    """Return a progress report with the metrics of an aggregate that was routed, and with those of observations."""
    head = {"rows": 10, "choices": 2, "hot": [{"item": 7, "count": 9, "error": 0}]}
    ours = {"saltwise": {"strategy": "pkg", "workers": 4, "head": head}, "saltwise.received": {"most": 5}}
    return {"batchId": 3, "observedMetrics": ours | observed}


def test_the_share_of_a_key_of_several_columns_is_known() -> None:
    hot = (({"carrier": "UA", "origin": None}, 400), ({"carrier": "AA", "origin": "JFK"}, 100))
    batch = SkewBatch(7, "saltwise", "dchoices", 8, 3, rows=1000, hot=hot, max_rows=150)
    assert [batch.share(key) for key, _ in hot] == [0.4, 0.1]
    assert batch.share({"carrier": "UA", "origin": "JFK"}) == batch.share("UA") == 0.0


@pytest.mark.parametrize(
    "name", ["saltwise_quality", "saltwise quality", "saltwiser", "saltwise.quality", "saltwise.2"]
)
def test_an_observation_of_the_user_is_no_batch(name: str) -> None:
    [batch] = batches_of(progress(**{name: {"rows": 10}, f"{name}.received": {"rows": 10}}))
    assert (batch.name, batch.hot, batch.max_rows) == ("saltwise", ((7, 9),), 5)


def test_an_observation_that_takes_our_name_is_no_batch() -> None:
    assert batches_of({"batchId": 3, "observedMetrics": {"saltwise": {"head": 3}}}) == []


def test_aggregates_come_by_their_numbers() -> None:
    ours = progress()["observedMetrics"]
    observed = {f"saltwise.{i}{end}": ours[f"saltwise{end}"] for i in (10, 2) for end in ("", ".received")}
    assert [batch.name for batch in batches_of(progress(**observed))] == ["saltwise", "saltwise.2", "saltwise.10"]
