"""Partition functions: where they put keys, what moves when a worker comes, and how they are written."""

from __future__ import annotations

import json
import pickle
import struct
import sys

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from saltwise import SaltwiseError
from saltwise.arrays import Int64s
from saltwise.hashing import worker
from saltwise.keys import key_hashes
from saltwise.placement import consistent_hash
from saltwise.placement.consistent_hash import ConsistentHash
from saltwise.placement.function_json import PartitionFormatError, from_json, to_json
from saltwise.placement.hash_pair import HashPair
from saltwise.placement.key_groups import KeyGroups
from saltwise.placement.largest_first import largest_first
from saltwise.placement.partition_function import PartitionFunction, UniformHash
from saltwise.versioned_json import dump_versioned

LONGS = st.integers(-(2**63), 2**63 - 1)
EDGES = np.array([-(2**63), -1, 0, 1, 2**63 - 1])


def hashes(count: int, seed: int = 1) -> Int64s:
    return np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, count, endpoint=True)


def next_clockwise(workers: int, replicas: int, key: int) -> int:
    """Look a key up as the paper says it, on a ring built from the documented places of the replicas."""

    def half(replica: int, i: int) -> int:
        return mmh3.hash(replica.to_bytes(8, "little"), i) % (1 << 31)

    ids = [(w << 32) + r for w in range(workers) for r in range(replicas)]
    ring = sorted((half(i, 1) << 33 | half(i, 2) << 2, i >> 32) for i in ids)
    return next((w for place, w in ring if place >= key % 2**64), ring[0][1])


@given(st.integers(1, 6), st.integers(1, 8), st.lists(LONGS, min_size=1, max_size=20))
def test_a_key_goes_to_the_next_replica_clockwise(workers: int, replicas: int, keys: list[int]) -> None:
    placed = ConsistentHash(workers, replicas=replicas).place(np.array([*keys, *EDGES]))
    assert placed.tolist() == [next_clockwise(workers, replicas, int(key)) for key in [*keys, *EDGES]]


def test_very_many_workers_have_fewer_replicas_each(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = hashes(1000)
    expected = ConsistentHash(3, replicas=10).place(keys)
    monkeypatch.setattr(consistent_hash, "MAX_RING", 32)
    assert ConsistentHash(3, replicas=1000).place(keys).tolist() == expected.tolist()


@pytest.mark.parametrize("workers", [1, 2, 9, 31])
def test_a_worker_that_comes_takes_its_share_and_no_other_key_moves(workers: int) -> None:
    keys = hashes(100_000)
    before, after = ConsistentHash(workers).place(keys), ConsistentHash(workers + 1).place(keys)
    moved = before != after
    assert set(after[moved].tolist()) == {workers}
    assert moved.mean() == pytest.approx(1 / (workers + 1), rel=0.15)


def test_consistent_hash_gives_each_worker_nearly_the_same_share() -> None:
    share = np.bincount(ConsistentHash(10).place(hashes(200_000))) / 200_000
    assert share == pytest.approx(np.full(10, 0.1), rel=0.15)


def test_uniform_hash_is_that_of_key_grouping_and_moves_nearly_all() -> None:
    keys = hashes(10_000)
    placed = UniformHash(9).place(keys)
    assert placed[:50].tolist() == [worker(int(key), 1, 9) for key in keys[:50]]
    assert (placed != UniformHash(10).place(keys)).mean() == pytest.approx(0.9, abs=0.02)


@given(st.dictionaries(LONGS, st.integers(0, 4)), st.lists(LONGS, max_size=20))
def test_a_hash_pair_looks_into_its_table_first(explicit: dict[int, int], others: list[int]) -> None:
    pair = HashPair(5, explicit=explicit, replicas=10)
    keys = np.array([*explicit, *others], np.int64)
    fallback = ConsistentHash(5, replicas=10).place(keys)
    expected = [explicit.get(key, other) for key, other in zip(keys.tolist(), fallback.tolist(), strict=True)]
    assert pair.place(keys).tolist() == expected


def test_a_hash_pair_does_not_change_with_the_callers_table() -> None:
    table = {7: 1}
    pair = HashPair(2, explicit=table)
    table[7] = 0
    assert pair.place(np.array([7])).tolist() == [1]


def test_a_function_can_be_sent_to_another_process() -> None:
    pair = HashPair(4, "string", {7: 3})
    assert pair.place(np.array([7])).tolist() == [3]
    assert pickle.loads(pickle.dumps(pair)) == pair


def test_keys_are_placed_by_their_hash() -> None:
    pair = HashPair(4, "string", {int(key_hashes(["hot"], "string")[0]): 3})
    assert pair.place_keys(["hot", None]).tolist() == [3, int(ConsistentHash(4).place(np.array([42]))[0])]


def test_hashes_are_those_of_spark() -> None:
    # Spark's documentation has xxhash64('Spark', array(123), 2) = 5602566077635097486; each value seeds the next one.
    seed = int(key_hashes(["Spark"], "string").view(np.uint64)[0])
    for number in (123, 2):
        seed = xxh64_intdigest(struct.pack("<i", number), seed=seed)
    assert seed == 5602566077635097486
    assert key_hashes([123], "int").view(np.uint64)[0] == xxh64_intdigest(struct.pack("<i", 123), seed=42)
    assert key_hashes([None], "string").tolist() == [42]
    assert key_hashes([1]).tolist() == [-7001672635703045582]
    assert key_hashes([1], "int").tolist() == key_hashes([1], "tinyint").tolist() == [-6698625589789238999]


@pytest.mark.parametrize(
    ("key", "key_type"), [("a", "bigint"), (1, "string"), ("\ud800", "string"), (2**63, "bigint"), (2**31, "int")]
)
def test_a_key_of_another_type_is_refused(key: int | str, key_type: str) -> None:
    with pytest.raises(SaltwiseError) as refused:
        key_hashes([None, key], key_type)
    assert str(refused.value) == f"key is {key!r}; it must be a {key_type}, the type of the keys, or None."


def test_keys_need_xxhash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xxhash", None)
    with pytest.raises(SaltwiseError) as refused:
        UniformHash(2).place_keys([1])
    assert str(refused.value) == "The hash of a key needs xxhash: run pip install 'saltwise[simulate]'."


@pytest.mark.parametrize("workers", [0, -1, 2.0, True, 100_001])
def test_workers_out_of_range(workers: int) -> None:
    for make in UniformHash, ConsistentHash, HashPair:
        with pytest.raises(SaltwiseError) as refused:
            make(workers)
        assert str(refused.value) == f"workers is {workers!r}; it must be a whole number from 1 to 100000."


def test_arguments_out_of_range() -> None:
    with pytest.raises(SaltwiseError) as refused:
        ConsistentHash(2, replicas=0)
    assert str(refused.value) == "replicas is 0; it must be a whole number of at least 1."
    with pytest.raises(SaltwiseError) as refused:
        UniformHash(2, "")
    assert str(refused.value) == "key_type is ''; it must be a type in SQL, such as bigint."
    with pytest.raises(SaltwiseError) as refused:
        UniformHash(2, "date").place_keys([1])
    assert str(refused.value) == "key_type is 'date'; it must be one of bigint, int, smallint, tinyint, string."
    with pytest.raises(SaltwiseError) as refused:
        HashPair(4, explicit={7: 4})
    assert (
        str(refused.value)
        == "explicit has worker 4 for the key of hash 7; it must be from 0 to 3, as there are 4 workers."
    )


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.lists(LONGS, min_size=1))
def test_a_key_is_where_its_group_is(table: list[int], keys: list[int]) -> None:
    placed = KeyGroups(7, table=table).place(np.array(keys))
    assert placed.tolist() == [table[key % len(table)] for key in keys]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ([], "table is empty; it must have the worker of at least one key group."),
        ([0, 4], "table has worker 4 for key group 1; it must be from 0 to 3, as there are 4 workers."),
        ([0.0], "table has worker 0.0 for key group 0; it must be from 0 to 3, as there are 4 workers."),
    ],
)
def test_a_table_of_key_groups_has_workers_only(table: list[int], why: str) -> None:
    with pytest.raises(SaltwiseError) as refused:
        KeyGroups(4, table=table)
    assert str(refused.value) == why


FUNCTIONS: list[PartitionFunction] = [
    UniformHash(7, "string"),
    ConsistentHash(3, "int", replicas=20),
    HashPair(4),
    HashPair(4, "string", {-(2**63): 0, 2**63 - 1: 3}, replicas=5),
    KeyGroups(3, "date", [0, 2, 1, 1, 0]),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=repr)
def test_a_function_reads_back_equal(function: PartitionFunction) -> None:
    read = from_json(to_json(function))
    assert read == function
    assert read.place(EDGES).tolist() == function.place(EDGES).tolist()


@given(st.integers(1, 50), st.dictionaries(LONGS, st.just(0)), st.sampled_from(["bigint", "string"]))
def test_any_table_reads_back_equal(workers: int, explicit: dict[int, int], key_type: str) -> None:
    pair = HashPair(workers, key_type, explicit)
    assert from_json(to_json(pair)) == pair


def refused(text: str) -> str:
    with pytest.raises(PartitionFormatError) as error:
        from_json(text)
    return str(error.value)


def dumped(**changes: object) -> str:
    """Return the JSON of a function with some fields changed, and the checksum that fits."""
    content = json.loads(to_json(HashPair(4, "string", {7: 3}))) | changes
    del content["crc32"]
    return dump_versioned(content.pop("format"), content.pop("version"), content)


def test_a_foreign_text_is_refused() -> None:
    assert refused("SALT").startswith("the text is not JSON: ")
    for text in "[]", "{}", '{"format": "parquet"}', "7":
        assert refused(text) == "the text is JSON, but not a partition function; give a text that to_json wrote."


def test_a_newer_one_is_refused() -> None:
    assert refused(dumped(version=2)) == (
        "the partition function has version 2, but this Saltwise reads version 1; give a text that to_json wrote."
    )


@given(st.data())
def test_a_damaged_one_is_refused(data: st.DataObject) -> None:
    text = to_json(HashPair(4, "string", {7: 3}))
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
    with pytest.raises(PartitionFormatError):
        from_json(damaged)
    with pytest.raises(PartitionFormatError):
        from_json(text[:at])


@pytest.mark.parametrize("levels", [*range(150, 250, 7), *range(300, 1100, 13), 100_000])
def test_text_that_is_nested_deeply_is_refused(levels: int) -> None:
    nested = "[" * levels + "]" * levels
    written = to_json(UniformHash(4))
    for text in nested, written.replace('"uniform"', nested), written.replace('"version": 1', f'"version": {nested}'):
        with pytest.raises(PartitionFormatError):
            from_json(text)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": "ring"}, "the partition function is 'ring' by 'xxhash64'; it must be uniform or consistent or pair or groups by xxhash64"),
        ({"hash": "md5"}, "the partition function is 'pair' by 'md5'; it must be uniform or consistent or pair or groups by xxhash64"),
        ({"workers": "4"}, "the partition function is damaged: workers is '4'; it must be a whole number from 1 to 100000"),
        ({"workers": 1_000_000_000}, "the partition function is damaged: workers is 1000000000; it must be a whole number from 1 to 100000"),
        ({"explicit": {"7": 9}}, "the partition function is damaged: explicit has worker 9 for the key of hash 7; it must be from 0 to 3, as there are 4 workers"),
        ({"explicit": {"7": 0.5}}, "the partition function is damaged: explicit has worker 0.5 for the key of hash 7; it must be from 0 to 3, as there are 4 workers"),
        ({"explicit": {str(10**20): 1}}, "the partition function is damaged: a hash in explicit is 100000000000000000000; it must be a whole number from -9223372036854775808 to 9223372036854775807"),
        ({"explicit": {"x": 1}}, "the partition function is damaged: invalid literal for int() with base 10: 'x'"),
        ({"explicit": None}, "the partition function is damaged: 'NoneType' object has no attribute 'items'"),
    ],
)  # fmt: skip
def test_wrong_content_is_refused(changes: dict[str, object], why: str) -> None:
    assert refused(dumped(**changes)) == f"{why}; give a text that to_json wrote."


def test_largest_first_places_the_hottest_key_on_the_least_loaded_worker() -> None:
    keys = np.array([10, 11, 12, 13, 14])
    pair = largest_first(keys, np.array([0.1, 0.3, 0.2, 0.15, 0.05]), workers=2, key_type="int")
    assert pair == HashPair(2, "int", {11: 0, 12: 1, 13: 1, 10: 0, 14: 1})


@given(st.lists(st.floats(0, 1), max_size=30), st.integers(1, 5))
def test_largest_first_is_within_four_thirds_of_any_bound(frequencies: list[float], workers: int) -> None:
    shares = np.array(frequencies)
    pair = largest_first(np.arange(len(shares)), shares, workers)
    load = np.bincount(pair.place(np.arange(len(shares))), shares, workers)
    largest = np.sort(shares)[::-1]
    # No placement is better than the mean, than the largest key, or than two of the workers + 1 largest on one worker.
    pigeonhole = largest[workers - 1 : workers + 1].sum() if len(shares) > workers else 0.0
    mean = shares.sum() / workers
    if load.max() > 4 / 3 * max(mean, largest.max(initial=0), pigeonhole) + 1e-12:
        assert load.max() <= mean + largest[workers:].max() * (1 - 1 / workers) + 1e-12


@pytest.mark.parametrize(
    ("keys", "frequencies", "message"),
    [
        ([1, 2], [0.1], "frequencies have shape (1,); it must be that of keys, (2,), in one dimension."),
        ([1, 2], [0.1, -0.1], "frequencies has -0.1; it must be shares of all rows, from 0 to 1."),
        ([1, 2], [0.1, float("nan")], "frequencies has nan; it must be shares of all rows, from 0 to 1."),
        ([1, 2], [0.1, 7.0], "frequencies has 7.0; it must be shares of all rows, from 0 to 1."),
        ([1, 1], [0.1, 0.1], "keys has the same hash twice; add the frequencies of equal keys up first."),
    ],
)
def test_frequencies_that_are_none(keys: list[int], frequencies: list[float], message: str) -> None:
    with pytest.raises(SaltwiseError) as error:
        largest_first(np.array(keys), np.array(frequencies), 2)
    assert str(error.value) == message
