"""The streams are the papers', repeatable, and say in one sentence what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saltwise import SaltwiseError, datasets, streams
from saltwise.streams import Stream

MAKERS: list[Callable[[], Stream]] = [
    lambda: streams.zipf(1_000, 50, 1.1),
    lambda: streams.lognormal(1_000, "LN1"),
    lambda: streams.drifting(1_000, 50, 1.1, periods=4, shift=3),
    lambda: streams.words(1_000, 100),
]


@given(st.integers(1, 500), st.floats(0, 3))
def test_zipf_shares_are_a_distribution_in_descending_order(keys: int, exponent: float) -> None:
    shares = streams.zipf_shares(keys, exponent)
    assert shares.sum() == pytest.approx(1)
    assert (np.diff(shares) <= 0).all()
    assert shares[0] / shares[-1] == pytest.approx(keys**exponent)


def test_zipf_draws_follow_the_shares() -> None:
    stream = streams.zipf(200_000, 100, 1.0)
    drawn = np.bincount(stream.keys.astype(np.int64), minlength=101)[1:] / stream.messages
    assert np.abs(drawn - streams.zipf_shares(100, 1.0)).max() < 0.005
    assert stream.top_share == drawn[0]
    halves = np.split(stream.keys == 1, 2)
    assert abs(halves[0].mean() - halves[1].mean()) < 0.01


@pytest.mark.parametrize(("which", "keys", "top_share"), [("LN1", 16_000, 0.147), ("LN2", 1_100, 0.070)])
@pytest.mark.slow
def test_log_normals_have_the_keys_and_p1_of_the_papers_table(which: str, keys: int, top_share: float) -> None:
    stream = streams.lognormal(10_000_000, which)
    assert stream.distinct == pytest.approx(keys, rel=0.05)
    assert stream.top_share == pytest.approx(top_share, abs=0.001)


def test_a_drifting_stream_has_a_new_hottest_key_in_each_period() -> None:
    stream = streams.drifting(40_000, 1_000, 1.2, periods=4, shift=20)
    hottest = [np.bincount(part).argmax() for part in np.split(stream.keys.astype(np.int64), 4)]
    assert hottest == [1, 21, 41, 61]


@pytest.mark.parametrize("make", MAKERS)
def test_streams_are_the_same_at_each_call(make: Callable[[], Stream]) -> None:
    one, other = make(), make()
    assert (one.name, one.keys.dtype.kind in "iU", one.source_keys) == (other.name, True, None)
    assert (one.keys == other.keys).all()


def test_another_seed_is_another_stream() -> None:
    assert (streams.zipf(1_000, 50, 1.1, seed=2).keys != streams.zipf(1_000, 50, 1.1).keys).any()


def test_flights() -> None:
    stream = streams.flights("carrier")
    assert (stream.messages, stream.distinct) == (336_776, 16)
    assert "" in streams.flights("tailnum").keys


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: streams.zipf(0, 5, 1.0), "messages is 0; it must be a whole number of at least 1."),
        (lambda: streams.zipf(5, -2, 1.0), "keys is -2; it must be a whole number of at least 1."),
        (lambda: streams.zipf(5, 5, -1.0), "exponent is -1.0; it must be a number of at least 0."),
        (lambda: streams.zipf(5, 5, float("nan")), "exponent is nan; it must be a number of at least 0."),
        (lambda: streams.zipf(5, 5, 1.0, seed=-1), "seed is -1; it must be a whole number of at least 0."),
        (lambda: streams.drifting(5, 5, 1.0, 2, 1, seed=-3), "seed is -3; it must be a whole number of at least 0."),
        (lambda: streams.lognormal(5, seed=-2), "seed is -2; it must be a whole number of at least 0."),
        (lambda: datasets.words(0), "rows is 0; it must be a whole number of at least 1."),
        (lambda: datasets.words(5, True), "vocabulary is True; it must be a whole number of at least 1."),
        (lambda: streams.lognormal(5, "LN3"), "which is 'LN3'; it must be one of LN1, LN2."),
        (lambda: streams.drifting(5, 5, 1.0, 0, 1), "periods is 0; it must be a whole number of at least 1."),
        (lambda: streams.drifting(5, 5, 1.0, 2, -1), "shift is -1; it must be a whole number of at least 0."),
        (lambda: streams.words(5, 0), "vocabulary is 0; it must be a whole number of at least 1."),
        (
            lambda: streams.flights("carier"),
            "column is 'carier'; it must be one of carrier, tailnum, origin, dest; did you mean 'carrier'?",
        ),
    ],
)
def test_what_is_not_allowed_is_said_in_one_sentence(make: Callable[[], Stream], sentence: str) -> None:
    with pytest.raises(SaltwiseError) as error:
        make()
    assert str(error.value) == sentence
