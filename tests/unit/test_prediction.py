"""What placements of keys come to is predicted from the keys that a sketch knows."""

from __future__ import annotations

import numpy as np
import pytest

from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.partition_function import UniformHash
from saltwise.placement.prediction import predict_placements
from saltwise.streams import zipf_shares


@pytest.mark.parametrize("exponent", [0.4, 0.8, 1.2])
def test_unknown_keys_change_a_prediction_by_a_few_deviations(exponent: float) -> None:
    workers, capacity = 16, 320
    shares = zipf_shares(3000, exponent)
    keys = np.random.default_rng(8).integers(-(2**63), 2**63 - 1, 3000)
    known = [*zip(keys[:capacity].tolist(), shares[:capacity].tolist(), strict=True)]
    deviation = (workers * shares[capacity:].sum() / capacity) ** 0.5
    predicted = predict_placements(known, workers, theta=0.0125)
    for name, function in {"hash": UniformHash(workers), "consistent": ConsistentHash(workers)}.items():
        fullest = np.bincount(function.place(keys), shares, workers).max() * workers
        assert abs(predicted[name] - fullest) <= 3 * deviation
    assert predicted["offgreedy"] <= predicted["level"] + deviation <= predicted["consistent"] + deviation
