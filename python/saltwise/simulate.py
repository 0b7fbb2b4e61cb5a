"""Simulates how a scheme spreads a stream over workers, and what that costs: the evaluations of both papers.

>>> import numpy as np
>>> keys = np.random.default_rng(1).zipf(2.0, 100_000)
>>> simulate(keys, "hash", workers=50).max_to_mean > 25
True
>>> simulate(keys, "wchoices", workers=50).max_to_mean < 1.01
True
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .errors import SaltwiseError, SaltwiseValueError
from .keys import XxhashMissingError, key_hashes
from .options import EPSILON
from .tables import Printable, Table

Stream = Sequence[int] | Sequence[str] | npt.NDArray[Any]

LOADS = ("local", "global", "probing")
FEEDS = ("shuffle", "keyed")
SAMPLES = 100
FEED_SEED = 7
"""Seed of the hash that sends keys to sources, another than those that send them to workers."""


class SimulatorMissingError(SaltwiseError):
    """numba or xxhash is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f"The simulator needs {package}: run pip install 'saltwise[simulate]'.")


@dataclass(frozen=True, repr=False)
class Simulation(Printable):
    """What a scheme did with a stream.

    Attributes:
        scheme: its name.
        messages: length m of the stream.
        workers: n.
        load: messages that each worker received.
        times: messages after which the imbalance was sampled.
        imbalance: I(t) = max load - mean load at these times, as a share of the messages so far.
        states_per_key: on how many workers each distinct key has a state, in the order of ``keys``.
        keys: the distinct keys.
        choices: d of each source at the end; 1 for hashing, n where a hot key may use any worker.
        head_size: keys in the head of each source at the end.
    """

    scheme: str
    messages: int
    workers: int
    load: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    imbalance: npt.NDArray[np.float64]
    keys: npt.NDArray[Any]
    states_per_key: npt.NDArray[np.int64]
    choices: list[int]
    head_size: list[int]

    @property
    def average_imbalance(self) -> float:
        """Mean of I(t) over the samples: the papers' average imbalance."""
        return float(self.imbalance.mean())

    @property
    def final_imbalance(self) -> float:
        """I(m)."""
        return float(self.imbalance[-1])

    @property
    def max_to_mean(self) -> float:
        """Largest load by mean load."""
        return float(self.load.max() / self.load.mean())

    @property
    def states(self) -> int:
        """States on all workers: the memory that the scheme needs, in keys."""
        return int(self.states_per_key.sum())

    @property
    def aggregation_cost(self) -> int:
        """States that have to be merged: those beyond one a key."""
        return self.states - int((self.states_per_key > 0).sum())

    def _parts(self) -> Iterator[Table]:
        rows = [
            ("scheme", self.scheme),
            ("messages, workers", f"{self.messages:,}, {self.workers}"),
            ("average imbalance", f"{self.average_imbalance:.3g}"),
            ("final imbalance", f"{self.final_imbalance:.3g}"),
            ("max/mean", f"{self.max_to_mean:.3f}"),
            ("states", f"{self.states:,} of {len(self.keys):,} keys"),
            ("choices d", ", ".join(map(str, self.choices))),
            ("head keys", ", ".join(map(str, self.head_size))),
        ]
        yield Table(rows)

    def __repr__(self) -> str:
        return str(self)


def simulate(
    keys: Stream,
    scheme: str,
    workers: int,
    sources: int = 5,
    theta: float | None = None,
    epsilon: float = EPSILON,
    choices: int | None = None,
    load: str = "local",
    probe: int = 100_000,
    feed: str = "shuffle",
    source_keys: Stream | None = None,
) -> Simulation:
    """Send a stream through sources to workers, and measure imbalance and memory.

    Args:
        keys: the stream: whole numbers or strings.
        scheme: "hash" (KG), "shuffle" (SG), "pkg", "dchoices", "wchoices" or "roundrobin", as the plugin routes them;
            "greedy-d" (Greedy-d on all keys, d = `choices`), "potc" (two choices, no splitting), "on-greedy" (a new key
            goes to the least loaded worker and stays) and "off-greedy" (the same by descending frequency).
        workers: n.
        sources: s.
        theta: share of a source's messages from which a key is in the head; 1/(5n) by default.
        epsilon: imbalance that "dchoices" may leave, as a share of all messages.
        choices: d, for "dchoices" where it is not to be solved, and for "greedy-d" (2 by default).
        load: what sources know of the workers' loads: their own messages ("local", L), all ("global", G), or their own
            with the true loads every `probe` messages ("probing", LP).
        probe: messages of the stream between two probes.
        feed: messages come to the sources in turn ("shuffle"), or by the hash of a key ("keyed").
        source_keys: the keys of ``feed="keyed"``, one a message; `keys` by default.

    Raises:
        SaltwiseValueError: an argument is not allowed.
        SimulatorMissingError: numba or xxhash is not installed.
    """
    run = _run(keys, scheme, workers, sources, theta, epsilon, choices, load, probe, feed, source_keys)
    per_sample = run.sent.sum(axis=0).cumsum(axis=0)
    times = run.edges[1:]
    states = run.schemes.pairs(run.ids, run.out, len(run.keys), workers)
    return Simulation(
        scheme=scheme,
        messages=len(run.ids),
        workers=workers,
        load=per_sample[-1],
        times=times,
        imbalance=(per_sample.max(axis=1) - per_sample.mean(axis=1)) / times,
        keys=run.keys,
        states_per_key=states,
        choices=_choices(scheme, workers, choices, run.state),
        head_size=_head_size(run),
    )


def route(
    keys: Stream,
    scheme: str,
    workers: int,
    sources: int = 5,
    theta: float | None = None,
    epsilon: float = EPSILON,
    choices: int | None = None,
    load: str = "local",
    probe: int = 100_000,
    feed: str = "shuffle",
    source_keys: Stream | None = None,
) -> npt.NDArray[np.int32]:
    """Return the worker of each message; the arguments are those of :func:`simulate`.

    >>> route([7, 7, 7, 7], "shuffle", workers=3, sources=1)
    array([0, 1, 2, 0], dtype=int32)
    """
    out: npt.NDArray[np.int32] = _run(
        keys, scheme, workers, sources, theta, epsilon, choices, load, probe, feed, source_keys
    ).out
    return out


@dataclass(frozen=True)
class _Run:
    schemes: Any
    settings: Any
    state: Any
    keys: npt.NDArray[Any]
    ids: npt.NDArray[np.int32]
    edges: npt.NDArray[np.int64]
    sent: npt.NDArray[np.int64]
    out: npt.NDArray[np.int32]


def _run(
    stream: Stream,
    scheme: str,
    workers: int,
    sources: int,
    theta: float | None,
    epsilon: float,
    choices: int | None,
    load: str,
    probe: int,
    feed: str,
    source_keys: Stream | None,
) -> _Run:
    schemes = _schemes()
    codes = {
        **schemes.SPLITTING,
        "greedy-d": schemes.GREEDY,
        "potc": schemes.POTC,
        "on-greedy": schemes.ON_GREEDY,
        "off-greedy": schemes.GIVEN,
    }
    for what, given, allowed in (("scheme", scheme, codes), ("load", load, LOADS), ("feed", feed, FEEDS)):
        if given not in allowed:
            raise SaltwiseValueError.unknown(what, given, allowed)
    theta = 1 / (5 * max(1, workers)) if theta is None else theta
    _check("workers", workers, workers >= 1, "a whole number of at least 1")
    _check("sources", sources, sources >= 1, "a whole number of at least 1")
    _check("theta", theta, 0 < theta <= 1, "a share above 0 and at most 1")
    _check("epsilon", epsilon, 0 < epsilon < 1, "a share between 0 and 1")
    _check("probe", probe, probe >= 1, "a whole number of at least 1")
    if choices is not None:
        _check("choices", choices, 2 <= choices <= workers, f"a whole number from 2 to the {workers} workers")

    distinct, ids = _factorised(stream, "keys")
    hashes = _hashes(distinct)
    settings = schemes.Settings(codes[scheme], theta, epsilon, choices or (2 if scheme == "greedy-d" else 0))
    placed = (
        _off_greedy(ids, len(distinct), workers) if scheme == "off-greedy" else np.full(len(distinct), -1, np.int32)
    )
    table = schemes.key_table(hashes, workers, placed)
    capacity = math.ceil(4 / theta)
    state = schemes.new_sources(sources, workers, len(distinct), settings, capacity)
    source_of = np.empty(0, np.int32)
    if feed == "keyed":
        by, by_id = (distinct, ids) if source_keys is None else _factorised(source_keys, "source_keys")
        if len(by_id) != len(ids):
            raise SaltwiseValueError(
                f"source_keys has {len(by_id)} keys; it must have one for each of {len(ids)} messages."
            )
        source_of = schemes.workers_of(_hashes(by), FEED_SEED, sources)[by_id]
    samples = min(SAMPLES, len(ids))
    edges = np.arange(samples + 1) * len(ids) // samples
    sent = np.zeros((sources, samples, workers), np.int64)
    out = np.empty(len(ids), np.int32)
    stream_of: tuple[Any, ...] = (ids, source_of, edges, settings, out)
    if load == "local" and settings.scheme in schemes.WITH_SKETCH:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            alone = threads.map(
                lambda i: schemes.run_source(state.each[i], sources, table, *stream_of, sent[i]), range(sources)
            )
        list(alone)
    else:
        # Without a sketch a message costs less than what threads that write side by side lose.
        steps = {"global": 0, "probing": probe, "local": len(ids)}[load]
        schemes.run_together(state, table, *stream_of, sent[0], steps)
    return _Run(schemes, settings, state, distinct, ids, edges, sent, out)


def _schemes() -> Any:
    from ._jit import COMPILED
    from .splitting import schemes

    if not COMPILED:
        raise SimulatorMissingError("numba")
    return schemes


def _check(name: str, value: float, allowed: bool, what: str) -> None:
    if not allowed:
        raise SaltwiseValueError(f"{name} is {value}; it must be {what}.")


def _factorised(stream: Stream, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Return the distinct keys of a stream, and the number of each message's key among them."""
    if len(stream) == 0:
        raise SaltwiseValueError(f"{name} is empty; give a stream of at least one key.")
    if not isinstance(stream, np.ndarray) or stream.dtype == object:
        types = sorted({type(key).__name__ for key in stream})
        if len(types) > 1:
            raise SaltwiseValueError(f"{name} are of the types {', '.join(types)}; give whole numbers or strings.")
    keys = np.asarray(stream)
    if keys.ndim != 1:
        raise SaltwiseValueError(f"{name} are of type {keys.dtype} in {keys.ndim} dimensions; give a flat stream.")
    if keys.dtype.kind not in "iuU" and not (keys.dtype == object and isinstance(keys[0], str)):
        raise SaltwiseValueError(f"{name} are of type {keys.dtype}; give whole numbers or strings.")
    if keys.dtype.kind in "iu" and keys.min() >= 0 and keys.max() < min(len(keys), 1 << 20):
        present = np.flatnonzero(np.bincount(keys))
        number = np.zeros(int(present[-1]) + 1, np.int32)
        number[present] = np.arange(len(present))
        return present, number[keys]
    encoded = pa.array(keys).dictionary_encode()
    return encoded.dictionary.to_numpy(zero_copy_only=False), encoded.indices.to_numpy().astype(np.int32)


def _hashes(keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    try:
        return key_hashes(keys.tolist(), "bigint" if keys.dtype.kind in "iu" else "string")
    except XxhashMissingError as error:
        raise SimulatorMissingError("xxhash") from error


def _off_greedy(ids: npt.NDArray[np.int32], keys: int, workers: int) -> npt.NDArray[np.int32]:
    """Place keys by descending frequency, of equal ones the first seen first, on the worker that is least loaded."""
    counts = np.bincount(ids, minlength=keys)
    first_seen = np.empty(keys, np.int64)
    first_seen[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    heap = [(0, worker) for worker in range(workers)]
    placed = np.empty(keys, np.int32)
    for key in np.lexsort((first_seen, -counts)):
        load, worker = heap[0]
        placed[key] = worker
        heapq.heapreplace(heap, (load + int(counts[key]), worker))
    return placed


def _choices(scheme: str, workers: int, choices: int | None, state: Any) -> list[int]:
    d = {"hash": 1, "potc": 1, "on-greedy": 1, "off-greedy": 1, "pkg": min(2, workers), "greedy-d": choices or 2}
    if scheme == "dchoices":
        return [int(d) for d in state.itselves["choices"]]
    return [d.get(scheme, workers)] * len(state.each)


def _head_size(run: _Run) -> list[int]:
    if run.settings.scheme not in run.schemes.WITH_SKETCH:
        return [0] * len(run.state.each)
    return [
        sum(run.schemes.in_head(s.sketch, c, run.settings.theta) for c in range(s.sketch.whole[0]["size"]))
        for s in run.state.each
    ]
