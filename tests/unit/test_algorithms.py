"""Hashes, choices and predictions against the papers."""

from __future__ import annotations

import struct
import time

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltwise.hashing import candidates, worker
from saltwise.splitting.choices import find_optimal_choices
from saltwise.splitting.prediction import PREDICTED, predict
from saltwise.streams import zipf_shares

longs = st.integers(-(2**63), 2**63 - 1)


def head_of(shares: list[float], workers: int) -> list[float]:
    return [share for share in shares if share >= 1 / (5 * workers)]


@given(longs, st.integers(1, 100), st.integers(1, 1000))
def test_f_i_is_murmur3_of_the_eight_bytes_with_seed_i(key: int, i: int, n: int) -> None:
    assert worker(key, i, n) == mmh3.hash(struct.pack("<q", key), i) % n


@given(longs, st.integers(1, 30), st.integers(1, 50))
def test_candidates_are_distinct_workers_and_a_prefix_of_those_for_more_choices(key: int, d: int, n: int) -> None:
    chosen = candidates(key, d, n)
    assert len(set(chosen)) == len(chosen) <= min(d, n)
    assert candidates(key, d + 5, n)[: len(chosen)] == chosen


def test_no_head_needs_two_choices() -> None:
    assert find_optimal_choices([], workers=100) == 2


def test_d_is_never_below_the_share_of_the_hottest_key() -> None:
    for z in (0.5, 1.0, 1.5, 2.0):
        shares = zipf_shares(10_000, z).tolist()
        assert find_optimal_choices(head_of(shares, 100), 100) >= shares[0] * 100


def test_d_satisfies_every_prefix_constraint_of_proposition_4_1() -> None:
    n, epsilon = 100, 1e-4
    for z in (0.8, 1.0, 1.2):
        head = head_of(zipf_shares(10_000, z).tolist(), n)
        d = find_optimal_choices(head, n, epsilon)
        assert d < n
        for h in range(1, len(head) + 1):
            b = n - n * ((n - 1) / n) ** (h * d)
            load = sum(head[:h]) + (b / n) ** d * sum(head[h:]) + (b / n) ** 2 * (1 - sum(head))
            assert load <= b * (1 / n + epsilon) + 1e-12


def test_extreme_skew_switches_to_w_choices() -> None:
    assert find_optimal_choices([0.97, 0.01], workers=50) == 50


@given(st.lists(st.floats(0.002, 0.2), min_size=1, max_size=5), st.integers(1, 60))
def test_d_lies_between_two_and_n(shares: list[float], n: int) -> None:
    assert min(2, n) <= find_optimal_choices(sorted(shares, reverse=True), n) <= n


@pytest.mark.parametrize("strategy", PREDICTED)
def test_uniform_keys_are_predicted_to_be_balanced(strategy: str) -> None:
    assert predict([], strategy, workers=20, theta=0.01) == pytest.approx(1)


def test_a_key_of_half_of_the_rows_is_predicted_by_the_papers() -> None:
    def of(strategy: str) -> float:
        return predict([(42, 0.5)], strategy, workers=100, theta=0.002)

    assert of("hash") == pytest.approx(0.5 * 100 + 0.5)
    assert of("pkg") == pytest.approx(0.25 * 100, rel=0.01)
    assert of("split") == pytest.approx(1, abs=0.05)
    assert of("dchoices") == pytest.approx(1, abs=0.05)
    assert of("wchoices") == pytest.approx(1)


def test_predictions_are_those_of_keys_that_drop_small_portions_in_turn() -> None:
    n, portion = 40, 1 / 40_000
    keys = [*enumerate([0.2, 0.1, 0.05, *[0.01] * 20])]
    d = find_optimal_choices([share for _, share in keys], n)
    load = [0.0] * n
    for turn in range(round(0.2 / portion)):
        for key, share in keys:
            if turn < round(share / portion):
                load[min(candidates(key, d, n), key=load.__getitem__)] += portion
    assert predict(keys, "dchoices", n, theta=0.005) == pytest.approx(max(load) * n, abs=0.005)


def test_a_prediction_for_ten_thousand_workers_takes_seconds() -> None:
    start = time.process_time()
    assert predict([(42, 0.3)], "dchoices", 10_000, theta=2e-5) == pytest.approx(1.05, abs=0.1)
    assert time.process_time() - start < 10


def test_split_is_predicted_as_partitions_are_cut_and_packed() -> None:
    # Of 8 partitions, one with 0.3875 is read in 4 slices, and the 7 others, of 0.0875 each, in 5 tasks.
    assert predict([(42, 0.3)], "split", workers=8, theta=0.025) == pytest.approx(2 * 0.0875 * (4 + 5))
