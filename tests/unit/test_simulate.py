"""The simulator: the schemes of the papers, message by message, and what the papers claim of them."""

from __future__ import annotations

import doctest
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saltwise._jit
from saltwise.errors import SaltwiseError, SaltwiseValueError
from saltwise.hashing import candidates, worker
from saltwise.simulate import route, simulate
from saltwise.sketches.space_saving import SpaceSaving
from saltwise.splitting.choices import find_optimal_choices
from saltwise.streams import zipf

# Ten lines a scheme


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(sys.modules[simulate.__module__]).failed == 0


def greedy(choices: Callable[[int], list[int]], keys: list[int], n: int) -> list[int]:
    load = [0] * n
    out = []
    for key in keys:
        out.append(min(choices(key), key=load.__getitem__))
        load[out[-1]] += 1
    return out


def key_hash(key: int) -> int:
    from xxhash import xxh64_intdigest

    digest: int = xxh64_intdigest(key.to_bytes(8, "little", signed=True), seed=42)
    return digest - 2**64 if digest >= 2**63 else digest


def sticky(choices: Callable[[int], list[int]], keys: list[int], n: int) -> list[int]:
    placed: dict[int, int] = {}
    load = [0] * n
    for key in keys:
        if key not in placed:
            placed[key] = min(choices(key), key=load.__getitem__)
        load[placed[key]] += 1
    return [placed[key] for key in keys]


def off_greedy(keys: list[int], n: int) -> list[int]:
    load = [0] * n
    placed = {}
    for key in sorted(set(keys), key=lambda key: (-keys.count(key), keys.index(key))):
        placed[key] = min(range(n), key=load.__getitem__)
        load[placed[key]] += keys.count(key)
    return [placed[key] for key in keys]


def head_in_turn(keys: list[int], n: int) -> list[int]:
    sketch = SpaceSaving(20 * n)
    load, turn, out = [0] * n, 0, []
    for key in keys:
        sketch.offer(key)
        count = sketch.estimate(key).estimate
        if count >= max(16, sketch.total / (5 * n)):
            out.append(turn % n)
            turn += 1
        else:
            out.append(min((worker(key_hash(key), i, n) for i in (1, 2)), key=load.__getitem__))
        load[out[-1]] += 1
    return out


REFERENCE: dict[str, Callable[[list[int], int], list[int]]] = {
    "hash": lambda keys, n: [worker(key_hash(key), 1, n) for key in keys],
    "shuffle": lambda keys, n: [t % n for t in range(len(keys))],
    "pkg": lambda keys, n: greedy(lambda key: [worker(key_hash(key), i, n) for i in (1, 2)], keys, n),
    "greedy-d": lambda keys, n: greedy(lambda key: candidates(key_hash(key), 2, n), keys, n),
    "potc": lambda keys, n: sticky(lambda key: [worker(key_hash(key), i, n) for i in (1, 2)], keys, n),
    "on-greedy": lambda keys, n: sticky(lambda key: list(range(n)), keys, n),
    "off-greedy": off_greedy,
    "roundrobin": head_in_turn,
}


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=150), st.integers(2, 7), st.sampled_from(sorted(REFERENCE)))
def test_small_streams_go_where_ten_lines_of_python_send_them(keys: list[int], n: int, scheme: str) -> None:
    assert route(keys, scheme, n, sources=1).tolist() == REFERENCE[scheme](keys, n)


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(st.floats(1e-4, 1), max_size=20),
    st.integers(1, 300),
    st.sampled_from([1e-4, 1e-3, 0.1]),
)
def test_the_simulator_solves_d_as_the_report_does(shares: list[float], n: int, epsilon: float) -> None:
    from saltwise.splitting.head import solve_d

    head = sorted((share / max(1.0, sum(shares)) for share in shares), reverse=True)
    assert solve_d(np.array(head), n, epsilon) == find_optimal_choices(head, n, epsilon)


# What sources know, and where they get their messages from


def test_sources_that_know_all_loads_balance_as_one_source_does() -> None:
    keys = zipf(20_000, 100, 1.0).keys
    assert simulate(keys, "pkg", 10, load="global").final_imbalance <= simulate(keys, "pkg", 10).final_imbalance
    assert (route(keys, "pkg", 10, sources=1, load="global") == route(keys, "pkg", 10, sources=1)).all()


def test_sources_that_never_probe_know_their_own_messages() -> None:
    keys = zipf(5000, 100, 1.0).keys
    assert (route(keys, "pkg", 10, load="probing", probe=len(keys)) == route(keys, "pkg", 10)).all()


def test_sources_that_always_probe_know_all_loads() -> None:
    keys = zipf(5000, 100, 1.0).keys
    probing = simulate(keys, "wchoices", 10, load="probing", probe=1)
    assert (probing.load == simulate(keys, "wchoices", 10, load="global").load).all()


def test_a_key_that_chooses_the_source_stays_with_it() -> None:
    keys = [5] * 99 + [6]
    workers = route(keys, "shuffle", 100, feed="keyed").tolist()
    assert workers[:99] == [(workers[0] + i) % 100 for i in range(99)]
    by_other = route([7] * 6, "shuffle", 10, feed="keyed", source_keys=["a", "b", "a", "b", "a", "b"])
    assert len(set(by_other[::2])) == 3
    assert by_other[2] == (by_other[0] + 1) % 10


# What comes out


def test_a_simulation_counts_messages_and_states() -> None:
    found = simulate(["x", "y", "x", "x", "z", "x"], "shuffle", workers=2, sources=1)
    assert found.load.tolist() == [3, 3]
    assert dict(zip(found.keys.tolist(), found.states_per_key.tolist(), strict=True)) == {"x": 2, "y": 1, "z": 1}
    assert (found.states, found.aggregation_cost, found.messages) == (4, 1, 6)
    assert found.times.tolist() == [1, 2, 3, 4, 5, 6]
    assert found.imbalance == pytest.approx([0.5, 0, 0.5 / 3, 0, 0.5 / 5, 0])
    assert found.average_imbalance == pytest.approx(np.mean([0.5, 0, 0.5 / 3, 0, 0.1, 0]))
    assert found.max_to_mean == 1.0
    assert "<th>scheme</th><td>shuffle</td>" in found._repr_html_()
    assert "states             4 of 3 keys" in repr(found)


def test_the_solved_d_and_the_head_are_told_source_by_source() -> None:
    found = simulate(zipf(100_000, 1000, 1.4).keys, "dchoices", workers=50, sources=3)
    assert len(found.choices) == len(found.head_size) == 3
    assert all(2 < d < 50 for d in found.choices)
    assert all(10 < head < 60 for head in found.head_size)
    assert simulate(zipf(10_000, 1000, 1.4).keys, "dchoices", workers=50, choices=7).choices == [7] * 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("messages", "z"),
    [(1_000_000, 2.0), *(pytest.param(10_000_000, z, marks=pytest.mark.full) for z in (0.5, 1.0, 1.4, 2.0))],
)
def test_the_claims_of_the_papers_hold(messages: int, z: float) -> None:
    keys = zipf(messages, 10_000, z).keys
    p1 = np.bincount(keys).max() / len(keys)
    for n in (5, 100):
        assert simulate(keys, "wchoices", n).average_imbalance < 100 / messages
        for scheme, limit in (("pkg", p1 / 2 - 1 / n), ("hash", p1 - 1 / n)):
            imbalance = simulate(keys, scheme, n).average_imbalance
            assert imbalance > limit - 1000 / messages
            if p1 > 16 / n:  # where the hottest key weighs less, those that share its workers count as well
                assert imbalance == pytest.approx(limit, rel=0.1)
    assert simulate(keys, "dchoices", 100).average_imbalance <= 5000 / messages


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keys": []}, "keys is empty; give a stream of at least one key."),
        ({"keys": [1, "a"]}, "keys are of the types int, str; give whole numbers or strings."),
        ({"keys": [1.5, 2.5]}, "keys are of type float64; give whole numbers or strings."),
        ({"keys": np.zeros((2, 2), int)}, "keys are of type int64 in 2 dimensions; give a flat stream."),
        ({"scheme": "dchoise"}, "did you mean 'dchoices'?"),
        ({"workers": 0}, "workers is 0; it must be a whole number of at least 1."),
        ({"workers": 2.5}, "workers is 2.5; it must be a whole number of at least 1."),
        ({"sources": 0}, "sources is 0; it must be a whole number of at least 1."),
        ({"theta": 0.0}, "theta is 0.0; it must be a share above 0 and at most 1."),
        ({"theta": 1.5}, "theta is 1.5; it must be a share above 0 and at most 1."),
        ({"epsilon": 1.0}, "epsilon is 1.0; it must be a share between 0 and 1."),
        ({"choices": 5}, "choices is 5; it must be a whole number from 2 to the 4 workers."),
        ({"choices": 1}, "choices is 1; it must be a whole number from 2 to the 4 workers."),
        ({"load": "locl"}, "load is 'locl'; it must be one of local, global, probing; did you mean 'local'?"),
        ({"probe": 0}, "probe is 0; it must be a whole number of at least 1."),
        ({"feed": "keys"}, "feed is 'keys'; it must be one of shuffle, keyed; did you mean 'keyed'?"),
        (
            {"feed": "keyed", "source_keys": [1]},
            "source_keys has 1 keys; it must have one for each of 3 messages.",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(arguments: dict[str, Any], message: str) -> None:
    valid: dict[str, Any] = {"keys": [1, 2, 1], "scheme": "pkg", "workers": 4}
    with pytest.raises(SaltwiseValueError) as refused:
        simulate(**valid | arguments)
    assert str(refused.value).endswith(message)


def test_a_missing_numba_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saltwise._jit, "NUMBA_ERROR", ModuleNotFoundError(name="numba"))
    with pytest.raises(SaltwiseError) as refused:
        simulate([1], "pkg", 2)
    assert str(refused.value) == "The simulator needs numba: run pip install 'saltwise[simulate]'."


def test_a_numba_that_is_broken_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saltwise._jit, "NUMBA_ERROR", ImportError("Numba needs NumPy 2.2 or less. Got NumPy 2.3."))
    with pytest.raises(SaltwiseError) as refused:
        simulate([1], "pkg", 2)
    assert str(refused.value) == (
        "The simulator needs the packages of 'saltwise[simulate]', and one that is installed is broken: "
        "Numba needs NumPy 2.2 or less. Got NumPy 2.3."
    )


def test_a_missing_xxhash_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xxhash", None)
    with pytest.raises(SaltwiseError) as refused:
        simulate([1], "pkg", 2)
    assert str(refused.value) == "The hash of a key needs xxhash: run pip install 'saltwise[simulate]'."
