"""The ready-made aggregators: their results are those of one machine that has all rows, however these are split."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saltwise import Aggregator, SaltwiseValueError
from saltwise import aggregates as agg
from saltwise.aggregates.bloom_filter import might_contain
from saltwise.aggregates.histogram import split_points
from saltwise.aggregates.naive_bayes import classify
from saltwise.spark.aggregators.check import alike

Rows = list[dict[str, Any]]

SCHEMA = pa.schema([("x", pa.float64()), ("y", pa.float64()), ("i", pa.int64()), ("s", pa.string())])
VALUES = st.one_of(st.none(), st.floats(-1e6, 1e6).map(lambda x: round(x, 3)))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "x": VALUES,
            "y": VALUES,
            "i": st.one_of(st.none(), st.integers(-50, 50)),
            "s": st.sampled_from(["a", "b", "é", None]),
        }
    ),
    max_size=40,
)


def of_tree(aggregator: Aggregator, rows: Rows, rng: random.Random) -> Any:
    """The result of rows cut at random into batches and states that are pickled, and merged two by two at random."""
    names = [str(column) for column in aggregator.columns]
    states = [aggregator.zero()]
    rest = rows
    while rest:
        size = rng.randint(1, len(rest))
        batch = pa.RecordBatch.from_pylist(rest[:size], SCHEMA).select(names)
        at = rng.randrange(len(states) + 1)
        if at == len(states):
            states.append(aggregator.zero())
        states[at] = aggregator.update(states[at], batch)
        rest = rest[size:]
    while len(states) > 1:
        a, b = (pickle.loads(pickle.dumps(states.pop(rng.randrange(len(states))))) for _ in range(2))
        states.append(aggregator.merge(a, b))
    return aggregator.finish(states[0])


def column(rows: Rows, name: str) -> list[Any]:
    return [row[name] for row in rows if row[name] is not None]


def moments(rows: Rows) -> Any:
    x = column(rows, "x")
    return {
        "rows": len(x),
        "mean": float(np.mean(x)) if x else None,
        "variance": float(np.var(x, ddof=1)) if len(x) > 1 else None,
    }


def covariance(rows: Rows) -> Any:
    pairs = [(row["x"], row["y"]) for row in rows if row["x"] is not None and row["y"] is not None]
    x, y = np.array(pairs, float).reshape(-1, 2).T
    return {
        "rows": len(pairs),
        "covariance": float(np.cov(x, y)[0, 1]) if len(pairs) > 1 else None,
        "correlation": float(np.corrcoef(x, y)[0, 1]) if len({*x}) > 1 and len({*y}) > 1 else None,
    }


def top(rows: Rows) -> Any:
    held = [(-row["i"], row["s"] is None, row["s"] or "") for row in rows if row["i"] is not None]
    return [{"i": -i, "s": None if null else s} for i, null, s in sorted(held)[:4]]


def bayes(rows: Rows) -> Any:
    counts: Counter[Any] = Counter()
    for row in rows:
        if row["s"] is not None:
            counts[row["s"], None, None] += 1
            if row["i"] is not None:
                counts[row["s"], "i", str(row["i"])] += 1
    return {(entry[0], entry[1], entry[2]): n for entry, n in counts.items()}


EXACT: dict[str, tuple[Aggregator, Callable[[Rows], Any], Callable[[Any], Any]]] = {
    "moments": (agg.Moments("x"), moments, lambda result: result),
    "covariance": (agg.Covariance("x", "y"), covariance, lambda result: result),
    "top k": (agg.TopK("i", "s", k=4, returns="array<struct<i: bigint, s: string>>"), top, lambda result: result),
    "naive Bayes": (
        agg.NaiveBayes("s", "i"),
        bayes,
        lambda result: {(e["label"], e["feature"], e["value"]): e["rows"] for e in result},
    ),
    # With a counter for each value there is no error.
    "heavy hitters": (
        agg.HeavyHitters("s", k=5),
        lambda rows: Counter(column(rows, "s")),
        lambda result: {e["item"]: e["count"] for e in result},
    ),
    # Few values are counted one by one.
    "distinct": (agg.ApproxDistinct("i"), lambda rows: len({*column(rows, "i")}), lambda result: result),
    "reservoir of all": (
        agg.ReservoirSample("i", 100, returns="array<bigint>"),
        lambda rows: Counter(row["i"] for row in rows),
        Counter,
    ),
    "histogram of all": (
        agg.StreamingHistogram("i", bins=200),
        lambda rows: Counter(column(rows, "i")),
        lambda result: {e["center"]: e["rows"] for e in result},
    ),
}


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=settings().max_examples // 4)
@given(rows=ROWS, rng=st.randoms(use_true_random=False))
def test_random_merge_trees_give_what_one_machine_gives(name: str, rows: Rows, rng: random.Random) -> None:
    aggregator, reference, shown = EXACT[name]

    wanted, result = reference(rows), shown(of_tree(aggregator, rows, rng))

    largest = max((abs(v) for row in rows for v in row.values() if isinstance(v, float)), default=0.0)
    # A variance of numbers of this size has no digits beyond.
    assert alike(result, wanted, 1e-9 * (1 + largest) ** (2 if name == "covariance" else 1)) or alike(
        result, wanted, 1e-9 * (1 + largest) ** 2
    )


@settings(max_examples=settings().max_examples // 4)
@given(rows=ROWS, rng=st.randoms(use_true_random=False))
def test_a_bloom_filter_forgets_nothing_and_is_the_same_for_every_tree(rows: Rows, rng: random.Random) -> None:
    for name in ("i", "s"):
        whole, again = (of_tree(agg.BloomFilter(name, items=50), rows, rng) for _ in range(2))

        assert whole == again
        assert all(might_contain(whole, value) for value in column(rows, name))


@pytest.mark.parametrize(
    ("values", "same", "other"),
    [
        ([7], np.int64(7), np.int64(8)),
        ([1.0], 1.0, 2.0),
        ([True], True, False),
        ([date(2026, 1, 1)], date(2026, 1, 1), date(2026, 1, 2)),
        ([Decimal("1.10")], Decimal("1.10"), Decimal("1.11")),
        (["a"], "a", "b"),
    ],
)
def test_a_value_is_looked_up_in_the_type_of_its_column(values: list[Any], same: object, other: object) -> None:
    bloom = agg.BloomFilter("x", items=50)
    known = bloom.finish(bloom.update(bloom.zero(), pa.record_batch({"x": values})))
    assert might_contain(known, same)
    assert not might_contain(known, other)
    bayes = agg.NaiveBayes("label", "x")
    rows = {"label": ["rare", *["often"] * 4], "x": [*values, None, None, None, None]}
    counts = bayes.finish(bayes.update(bayes.zero(), pa.record_batch(rows)))
    assert classify(counts, {"x": same}, smoothing=0.01) == "rare"
    assert classify(counts, {"x": other}, smoothing=0.01) == "often"


@pytest.mark.parametrize("quantiles", [agg.KllQuantiles, agg.TDigestQuantiles])
@pytest.mark.parametrize("size", [1, 10, 1000, 100_000])
def test_quantiles_are_within_their_bound(quantiles: Any, size: int) -> None:
    probabilities = [0.01, 0.25, 0.5, 0.99]
    x = np.random.default_rng(size).lognormal(0, 2, size)
    aggregator = quantiles("x", probabilities)
    states = [
        aggregator.update(aggregator.zero(), pa.record_batch({"x": part})) for part in np.array_split(x, 7) if len(part)
    ]
    whole = states.pop()
    for state in states:
        whole = aggregator.merge(whole, pickle.loads(pickle.dumps(state)))

    found = aggregator.finish(whole)

    ranks = np.searchsorted(np.sort(x), found, side="right") / size
    assert np.abs(ranks - probabilities).max() <= 0.0266 + 1 / size  # twice what KLL promises at 99 %


def test_no_numbers_have_no_quantiles() -> None:
    for aggregator in (agg.KllQuantiles("x"), agg.TDigestQuantiles("x")):
        nothing = aggregator.update(aggregator.zero(), pa.record_batch({"x": pa.array([None], pa.int32())}))

        assert aggregator.finish(nothing) is None


def test_distinct_values_are_counted_within_five_standard_errors() -> None:
    aggregator = agg.ApproxDistinct("i")
    halves = [
        aggregator.update(aggregator.zero(), pa.record_batch({"i": range(at, at + 60_000)})) for at in (0, 40_000)
    ]

    assert aggregator.finish(aggregator.merge(*halves)) == pytest.approx(100_000, rel=5 * 0.016)


def test_every_row_is_as_likely_to_be_drawn() -> None:
    aggregator = agg.ReservoirSample("i", 5, returns="array<bigint>")
    drawn: Counter[int] = Counter()
    for _ in range(2000):
        # Parts of very different size, so that a draw by parts would show.
        parts = [aggregator.update(aggregator.zero(), pa.record_batch({"i": part})) for part in ([0], range(1, 20))]
        drawn.update(aggregator.finish(aggregator.merge(*parts)))

    assert sum(drawn.values()) == 10_000
    # 2000 draws of probability 1/4: five standard deviations are 97.
    assert all(abs(drawn[i] - 500) < 97 for i in range(20))


@pytest.mark.parametrize("seed", range(3))
def test_regression_is_that_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(5, 2, (200, 3))
    y = x @ [1.0, -2.0, 0.5] + 7 + rng.normal(0, 0.1, 200)
    aggregator = agg.LinearRegression("y", "a", "b", "c")
    batch = pa.record_batch([y, *x.T], ["y", "a", "b", "c"])
    parts = [aggregator.update(aggregator.zero(), batch.slice(at, 50)) for at in range(0, 200, 50)]

    found = aggregator.finish(aggregator.merge(aggregator.merge(*parts[:2]), aggregator.merge(*parts[2:])))

    wanted, *_ = np.linalg.lstsq(np.column_stack([np.ones(200), x]), y, rcond=None)
    assert [found["intercept"], *found["coefficients"]] == pytest.approx(wanted.tolist())
    assert found["rows"] == 200
    assert 0.99 < found["r2"] < 1


def test_a_feature_with_tiny_deviations_has_its_coefficient() -> None:
    rng = np.random.default_rng(0)
    small, large = rng.normal(0.05, 0.01, 1000), rng.normal(1e7, 3e6, 1000)
    aggregator = agg.LinearRegression("y", "small", "large")
    batch = pa.record_batch({"y": 1000 * small + 1e-5 * large, "small": small, "large": large})

    found = aggregator.finish(aggregator.update(aggregator.zero(), batch))

    assert found["coefficients"] == pytest.approx([1000, 1e-5])


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_a_correlation_does_not_depend_on_the_size_of_the_numbers(size: float) -> None:
    aggregator = agg.Covariance("x", "y")
    batch = pa.record_batch({"x": [0, size, 2 * size], "y": [0, 3 * size, 2 * size]})

    assert aggregator.finish(aggregator.update(aggregator.zero(), batch))["correlation"] == pytest.approx(0.654653671)


def test_variance_does_not_cancel() -> None:
    aggregator = agg.Moments("x")
    parts = [
        aggregator.update(aggregator.zero(), pa.record_batch({"x": 1e9 + np.arange(i, i + 10.0)})) for i in (0, 10)
    ]

    assert aggregator.finish(aggregator.merge(*parts))["variance"] == pytest.approx(35.0, rel=1e-12)


def test_a_histogram_keeps_all_rows_in_its_bins_and_cuts_them_evenly() -> None:
    x = np.random.default_rng(3).normal(0, 1, 50_000)
    aggregator = agg.StreamingHistogram("x", bins=50)
    whole = aggregator.zero()
    for part in np.array_split(x, 9):
        whole = aggregator.merge(aggregator.update(aggregator.zero(), pa.record_batch({"x": part})), whole)

    bins = aggregator.finish(whole)
    splits = split_points(bins, 4)

    assert len(bins) <= 50
    assert sum(entry["rows"] for entry in bins) == 50_000
    assert [entry["center"] for entry in bins] == sorted(entry["center"] for entry in bins)
    shares = np.diff([0, *np.searchsorted(np.sort(x), splits), 50_000]) / 50_000
    assert shares == pytest.approx([0.25] * 4, abs=0.03)


def test_a_histogram_of_one_point_has_no_splits() -> None:
    assert split_points([{"center": 1.0, "rows": 4}], 3) == []


def test_a_classifier_takes_the_likelier_label() -> None:
    aggregator = agg.NaiveBayes("late", "carrier", "hour")
    batch = pa.record_batch(
        {
            "late": ["yes", "yes", "no", "no", "no"],
            "carrier": ["EV", "EV", "UA", "UA", "EV"],
            "hour": [20, 21, 6, 7, None],
        }
    )
    counts = aggregator.finish(aggregator.update(aggregator.zero(), batch))

    assert classify(counts, {"carrier": "EV", "hour": 20}) == "yes"
    assert classify(counts, {"carrier": "UA"}) == "no"
    assert classify(counts, {"carrier": "never seen"}) == "no"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agg.KllQuantiles("x", [1.5]), "probabilities are [1.5]; name at least one, each from 0 to 1."),
        (lambda: agg.TDigestQuantiles("x", []), "probabilities are []; name at least one, each from 0 to 1."),
        (lambda: agg.KllQuantiles("x", k=7), "k is 7; it must be a whole number from 8 to 65535."),
        (lambda: agg.TDigestQuantiles("x", k=9), "k is 9; it must be a whole number from 10 to 65535."),
        (lambda: agg.ApproxDistinct("x", lg_k=6), "lg_k is 6; it must be a whole number from 7 to 21."),
        (lambda: agg.ReservoirSample("x", 0, "array<int>"), "k is 0; it must be a whole number of at least 1."),
        (lambda: agg.TopK("x", "x", k=1, returns="array<int>"), "columns are x, x; name each of them once."),
        (lambda: agg.BloomFilter("x", items=5, fpp=1), "fpp is 1; it must be above 0 and below 1."),
        (lambda: agg.StreamingHistogram("x", bins=1), "bins is 1; it must be a whole number of at least 2."),
        (lambda: agg.HeavyHitters("x", capacity=0), "capacity is 0; it must be a whole number from 1 to 16777216."),
    ],
)
def test_arguments_that_are_not_allowed_are_refused(make: Callable[[], Aggregator], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as refused:
        make()

    assert str(refused.value) == message
