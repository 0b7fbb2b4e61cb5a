"""PlacementStore: a function and its sliding counts live from run to run, and anything else in the folder is refused."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saltwise import SaltwiseError, SaltwiseValueError
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.history import PARTS, WINDOW, PlacementHistory
from saltwise.placement.result import Placement, max_to_mean
from saltwise.placement.store import FORMAT, PlacementStore, PlacementStoreError
from saltwise.placement.weights import Weights
from saltwise.streams import zipf_shares
from saltwise.versioned_json import dump_versioned, replace_file

RUNS = st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.integers(1, 1000), max_size=12)


def run_of(rows: dict[int, int], others: int = 0, key_type: str = "bigint") -> Weights:
    keys, weights = np.array([*rows], np.int64), np.array([*rows.values()], np.float64)
    return Weights(key_type, keys, weights, float(weights.sum()) + others)


def zipf_run(shift: int = 0, exponent: float = 0.9, keys: int = 300) -> Weights:
    """Return a run in which key i has the share of rank i + shift."""
    hashes = np.random.default_rng(5).integers(-(2**63), 2**63 - 1, keys)
    return Weights("string", hashes, np.roll(zipf_shares(keys, exponent), shift) * 100_000, 100_000.0)


@given(st.lists(st.tuples(RUNS, st.integers(0, 1000), st.integers(1, 6)), min_size=1, max_size=5))
@settings(max_examples=settings().max_examples // 4)
def test_a_store_gives_what_a_history_that_never_left_memory_gives(runs: list[tuple[dict[int, int], int, int]]) -> None:
    history = PlacementHistory()
    with tempfile.TemporaryDirectory() as folder:
        for rows, others, workers in runs:
            run = run_of(rows, others)
            kept, expected = PlacementStore(folder).plan(run, workers), history.next(run, workers)
            assert kept == expected
            assert PlacementStore(folder).function == expected.function
            assert {file.name for file in Path(folder).iterdir()} == {"placement.json"}


@given(st.lists(st.tuples(RUNS, st.integers(0, 1000)), min_size=1, max_size=5))
@settings(max_examples=settings().max_examples // 4)
def test_what_moved_is_what_two_functions_place_differently(runs: list[tuple[dict[int, int], int]]) -> None:
    history = PlacementHistory()
    known: set[int] = set()
    for i, (rows, others) in enumerate(runs):
        before, run = history.function, run_of(rows, others)
        placement = history.next(run, 2 + i % 3)
        known |= set(rows)
        if before is None:
            assert (placement.migration, placement.moved_keys, placement.moved_rows) == (0.0, 0, 0.0)
            continue
        moved = [key for key in known if before.place(np.array([key])) != placement.function.place(np.array([key]))]
        assert placement.moved_keys <= len(moved)  # less the keys of runs that are forgotten
        rows_moved = sum(rows.get(key, 0) for key in moved)
        assert rows_moved - 1e-6 <= placement.moved_rows <= rows_moved + others + 1e-6
        assert placement.migration >= 0


def test_the_first_run_is_largest_first_and_meets_the_lower_bound() -> None:
    run = zipf_run()
    placement = PlacementHistory().next(run, 16)
    assert placement.made_by == "largest first"
    assert placement.max_to_mean <= 1.05 * max(1.0, run.shares.max() * 16)
    assert placement.max_to_mean == pytest.approx(max_to_mean(placement.function, run.keys, run.shares), rel=1e-4)


def test_a_function_that_balances_is_kept_and_nothing_moves() -> None:
    history = PlacementHistory()
    first = history.next(zipf_run(exponent=0.6, keys=3000), 8)
    again = history.next(zipf_run(exponent=0.6, keys=3000), 8)
    assert first.imbalance <= 1
    assert (again.made_by, again.function) == ("kept", first.function)
    assert (again.migration, again.moved_keys, again.moved_rows) == (0.0, 0, 0.0)


@pytest.mark.parametrize("algorithm", ["scan", "redist", "readj", "level"])
def test_where_one_key_is_too_heavy_nothing_moves_for_nothing(algorithm: str) -> None:
    history = PlacementHistory()
    hot = run_of({1: 60_000, **dict.fromkeys(range(2, 400), 10)})
    first = history.next(hot, 8)
    again = history.next(hot, 8, algorithm)
    assert first.imbalance > 1
    assert (again.made_by, again.function, again.migration) == ("kept", first.function, 0.0)


def test_a_store_that_tolerates_more_keeps_a_function_for_longer(tmp_path: Path) -> None:
    runs = [zipf_run(shift=150 * i, exponent=0.6) for i in range(4)]
    made_by = {
        alpha: [PlacementStore(tmp_path / str(alpha), alpha=alpha).plan(run, 8).made_by for run in runs]
        for alpha in (1.05, 4.0)
    }
    assert made_by[4.0] == ["largest first", "kept", "kept", "kept"]
    assert "level" in made_by[1.05]


def test_a_store_balances_the_squares_of_rows_where_they_are_the_cost(tmp_path: Path) -> None:
    rows = {key: 4_000 if key < 3 else 100 for key in range(200)}
    placed = PlacementStore(tmp_path, resources="LQL", domain=200).plan(run_of(rows), 3)
    hot = placed.function.place(np.arange(3))
    assert sorted(hot.tolist()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"resources": "LXL"},
            "resources is 'LXL'; it must be three of C, L and Q, for state, computation and communication.",
        ),
        ({"alpha": 1.0}, "alpha is 1.0; it must be a number above 1."),
        ({"utility": "APN"}, "utility is 'APN'; it must be one of A, APM, APLM, ATM, ATLM."),
    ],
)
def test_a_store_refuses_aims_that_cannot_be(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SaltwiseValueError) as error:
        PlacementStore(tmp_path, **options)
    assert str(error.value).startswith(message)


def test_a_new_function_moves_no_more_than_it_may() -> None:
    for limit, made_by in ((0.01, "kept"), (4.0, "level")):
        history = PlacementHistory()
        history.next(zipf_run(exponent=0.6), 8)
        for _ in range(8):
            drifted = history.next(zipf_run(shift=150, exponent=0.6), 8, max_migration=limit)
            assert drifted.migration <= limit
            if drifted.made_by == made_by:
                break
        assert drifted.made_by == made_by


def test_a_new_function_over_the_budget_is_not_used() -> None:
    runs = [zipf_run(exponent=0.6), *[zipf_run(shift=150, exponent=0.6)] * 8]
    free, bounded = PlacementHistory(), PlacementHistory()
    for run in runs:
        placed = free.next(run, 8)
        if placed.made_by == "level":
            break
        bounded.next(run, 8)
    assert placed.migration > 0
    kept = bounded.next(run, 8, max_migration=placed.migration / 2)
    assert (kept.made_by, kept.migration) == ("kept", 0)


@pytest.mark.parametrize("algorithm", ["scan", "redist", "readj", "level"])
def test_more_workers_and_fewer_are_scaled_to_and_balanced(algorithm: str) -> None:
    history = PlacementHistory()
    history.next(zipf_run(exponent=0.6), 8)
    for workers in 12, 8:
        placement = history.next(zipf_run(exponent=0.6), workers, algorithm)
        assert (placement.made_by, placement.function.workers) == (algorithm, workers)
        assert placement.max_to_mean < 1.25
        assert placement.migration > 0
        assert 0 < placement.moved_keys < 300
        assert 0 < placement.moved_rows < 100_000


def test_level_moves_less_than_largest_first_would() -> None:
    history = PlacementHistory()
    history.next(zipf_run(), 8)
    scaled = history.next(zipf_run(), 9)
    anew = PlacementHistory()
    first = anew.next(zipf_run(), 8).function
    fresh = PlacementHistory().next(zipf_run(), 9).function
    keys, rows = zipf_run().keys, zipf_run().weights
    assert scaled.moved_rows < rows[first.place(keys) != fresh.place(keys)].sum() / 2


def test_the_heavy_keys_are_those_of_the_last_runs() -> None:
    history = PlacementHistory()
    for _ in range(4):
        history.next(run_of({1: WINDOW}), 2)
    assert history.counts.estimate(1).estimate == history.counts.total > 0
    for _ in range(4):
        history.next(run_of({2: WINDOW}), 2)
    assert history.counts.estimate(1).estimate == 0
    assert history.counts.estimate(2).estimate == history.counts.total >= WINDOW * PARTS


def test_a_run_counts_by_its_weight() -> None:
    history = PlacementHistory()
    first = history.next(run_of(dict.fromkeys(range(8), 100)), 4)
    small = history.next(run_of({0: 1}), 4)
    assert (small.made_by, small.function) == ("kept", first.function)
    assert history.counts.estimate(0).estimate == 101 * PARTS


def test_a_run_without_rows_changes_no_counts() -> None:
    history = PlacementHistory()
    first = history.next(run_of({1: 5, 2: 5}), 2)
    empty = history.next(run_of({}), 2)
    assert (empty.function, empty.moved_rows, history.counts.total) == (first.function, 0.0, 10 * PARTS)


def test_keys_that_are_not_known_count_as_spread_by_the_hash() -> None:
    function = HashPair(4)
    nobody, shares = np.empty(0, np.int64), np.empty(0)
    assert max_to_mean(function, nobody, shares) == pytest.approx(1, abs=0.1)
    key = np.array([7])
    assert max_to_mean(function, key, np.array([1.0])) == 4
    assert max_to_mean(function, key, np.array([0.5])) == pytest.approx(2.5, abs=0.1)


def test_a_placement_prints_as_a_table_and_renders_as_html() -> None:
    placement = Placement(HashPair(4, explicit={1: 2}), "level", 1.0571, 0.9, 0.25, 1234, 56789.0)
    assert str(placement) == (
        "workers        4\n"
        "made by        level\n"
        "keys placed    1\n"
        "max/mean       1.057\n"
        "b (imbalance)  0.900\n"
        "m (migration)  0.250\n"
        "moved keys     1,234\n"
        "moved rows     56,789"
    )
    assert "<tr><th>moved keys</th><td>1,234</td></tr>" in placement._repr_html_()


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A folder with the placement of one run."""
    PlacementStore(tmp_path).plan(run_of({1: 10, 2: 5}), 2)
    return tmp_path / "placement.json"


def refused(file: Path, call: Callable[[PlacementStore], object]) -> str:
    before = file.read_bytes()
    with pytest.raises(PlacementStoreError) as error:
        call(PlacementStore(file.parent))
    assert file.read_bytes() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    return str(error.value)


def why(file: Path, reason: str) -> str:
    return f"{str(file)!r} cannot be used as a placement store, because {reason}; give another folder."


def test_keys_of_another_type_are_refused(stored: Path) -> None:
    message = refused(stored, lambda store: store.plan(run_of({1: 5}, key_type="string"), 2))
    assert message == why(stored, "it is of keys of type bigint, and these are of type string")


def dumped_again(file: Path, **changes: object) -> str:
    content = json.loads(file.read_text()) | changes
    for name in "format", "version", "crc32":
        del content[name]
    return dump_versioned(FORMAT, 1, content)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (lambda file: dump_versioned("saltwise partition function", 1, {}), "the text is JSON, but not a placement store"),
        (lambda file: dump_versioned(FORMAT, 2, {}), "the placement store has version 2, but this Saltwise reads version 1"),
        (lambda file: file.read_text().replace('"left": ', '"left": 1'), "the placement store is damaged: its checksum does not match"),
        (lambda file: dump_versioned(FORMAT, 1, {}), "its content is wrong: 'function'"),
        (lambda file: dumped_again(file, counters=[]), "its content is wrong: there are no counters"),
        (lambda file: dumped_again(file, function="{}"), "its content is wrong: the text is JSON, but not a partition function; give a text that to_json wrote"),
        (lambda file: dumped_again(file, window=0.5), "its content is wrong: window is 0.5; it must be a whole number from 1 to 1267650600228229401496703205376"),
        (lambda file: dumped_again(file, counters=[{"total": 9, "kept": [["7", 10, 0]]}]), "its content is wrong: a count is 10; it must be a whole number from 0 to 9"),
        (lambda file: dumped_again(file, counters=[{"total": 9, "kept": [[str(2**63), 1, 0]]}]), "its content is wrong: the hash of a key is 9223372036854775808; it must be a whole number from -9223372036854775808 to 9223372036854775807"),
    ],
)  # fmt: skip
def test_another_file_is_refused_and_left_as_it_is(stored: Path, text: Callable[[Path], str], reason: str) -> None:
    stored.write_text(text(stored))
    assert refused(stored, lambda store: store.plan(run_of({1: 5}), 2)) == why(stored, reason)
    assert refused(stored, lambda store: store.function) == why(stored, reason)


@given(st.data())
@settings(max_examples=settings().max_examples // 4)
def test_a_damaged_file_is_refused(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        PlacementStore(folder).plan(run_of({1: 10, 2: 5}), 2)
        file = Path(folder, "placement.json")
        text = file.read_bytes()
        at = data.draw(st.sampled_from([i for i, byte in enumerate(text) if not chr(byte).isspace()]))
        for damaged in text[:at], text[:at] + bytes([text[at] ^ data.draw(st.integers(1, 255))]) + text[at + 1 :]:
            file.write_bytes(damaged)
            refused(file, lambda store: store.plan(run_of({1: 5}), 2))


def test_a_run_that_is_stopped_while_it_writes_leaves_the_placement_before(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = PlacementStore(stored.parent).function

    def stop(path: Path, target: Path) -> None:
        raise OSError("stopped")

    with monkeypatch.context() as stopped:
        stopped.setattr(Path, "replace", stop)
        with pytest.raises(OSError, match="stopped"):
            PlacementStore(stored.parent).plan(run_of({1: 10, 2: 5}), 3)
    assert PlacementStore(stored.parent).function == before
    assert PlacementStore(stored.parent).plan(run_of({1: 10, 2: 5}), 3).function.workers == 3
    assert [file.name for file in stored.parent.iterdir()] == [stored.name]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for text in "long and longer", "short":
        replace_file(file, text)
        assert file.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def test_of_several_writers_at_once_each_writes_a_whole_file_and_the_last_one_stays(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    texts = [f"{number}" * 20_000 for number in range(8)]

    def write(text: str) -> None:
        for _ in range(10):
            replace_file(file, text)
            assert file.read_text() in texts

    with ThreadPoolExecutor(len(texts)) as writers:
        list(writers.map(write, texts))
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]
    replace_file(file, "the last")
    assert file.read_text() == "the last"


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    replace_file(file, "old")
    with pytest.raises(UnicodeEncodeError):
        replace_file(file, "\ud800")
    assert file.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def test_runs_that_plan_at_the_same_time_all_get_a_placement(tmp_path: Path) -> None:
    PlacementStore(tmp_path).plan(run_of({1: 10, 2: 5}), 2)

    def plan(workers: int) -> Placement:
        return PlacementStore(tmp_path).plan(run_of({1: 10, 2: workers}), workers)

    with ThreadPoolExecutor(8) as runs:
        planned = [placement.function for placement in runs.map(plan, range(2, 10))]
    assert PlacementStore(tmp_path).function in planned


@pytest.mark.parametrize(
    ("weights", "total", "message"),
    [
        ([1.0], 5.0, "weights have shape (1,); it must be that of keys, (2,), in one dimension."),
        ([1.0, -2.0], 5.0, "a weight is -2.0; it must be a number of at least 0: filter such rows, or give them 0."),
        (
            [1.0, float("nan")],
            5.0,
            "a weight is nan; it must be a number of at least 0: filter such rows, or give them 0.",
        ),
        (
            [1.0, float("inf")],
            5.0,
            "a weight is inf; it must be a number of at least 0: filter such rows, or give them 0.",
        ),
        ([1.0, 2.0], -1.0, "a weight is -1.0; it must be a number of at least 0: filter such rows, or give them 0."),
        ([1.0, 2.0], 2.5, "weights add up to 3; it must be 2.5, the total, or less."),
    ],
)
def test_weights_that_are_none(weights: list[float], total: float, message: str) -> None:
    with pytest.raises(SaltwiseError) as error:
        Weights("bigint", np.array([1, 2]), np.array(weights), total)
    assert str(error.value) == message


def test_a_key_that_is_there_twice() -> None:
    with pytest.raises(SaltwiseError) as error:
        Weights("bigint", np.array([1, 1]), np.array([1.0, 2.0]), 5.0)
    assert str(error.value) == "keys has the same hash twice; add the weights of equal keys up first."


@pytest.mark.parametrize(
    ("workers", "algorithm", "message"),
    [
        (0, "readj", "workers is 0; it must be a whole number of at least 1."),
        (2, "reajd", "algorithm is 'reajd'; it must be one of scan, redist, readj, level; did you mean 'readj'?"),
    ],
)
def test_arguments_out_of_range(tmp_path: Path, workers: int, algorithm: str, message: str) -> None:
    with pytest.raises(SaltwiseError) as error:
        PlacementStore(tmp_path).plan(run_of({1: 5}), workers, algorithm)
    assert str(error.value) == message
    assert not [*tmp_path.iterdir()]


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SaltwiseError) as error:
        PlacementStore(file)
    assert str(error.value) == f"path is {str(file)!r}, which is a file; it must be a folder."
    for address in "s3://bucket/placement", "dbfs:/placement", "hdfs:/placement":
        with pytest.raises(SaltwiseError) as error:
            PlacementStore(address)
        assert str(error.value) == (
            f"path is {address!r}; it must be a folder of this machine, or one that is mounted."
        )
