"""The stream partitioning schemes of both key-splitting papers, compiled: which worker gets the next message.

Nasir et al., "The Power of Both Choices" (PKG) and "When Two Choices Are not Enough" (D-Choices, W-Choices). Each
source keeps its own sketch and its own estimate of the workers' loads; `route` is the papers' P_t. The schemes that the
plugin has too give the same worker, message by message.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import hashing
from .._jit import COMPILED, inlined, jit
from ..sketches.space_saving import Records, Summary, count_known, count_new, empty_summary
from .choices import find_optimal_choices

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]

HASH, SHUFFLE, PKG, DCHOICES, WCHOICES, ROUNDROBIN, GREEDY, POTC, ON_GREEDY, GIVEN = range(10)
WITH_SKETCH = (DCHOICES, WCHOICES, ROUNDROBIN)

SPLITTING = {
    "hash": HASH,
    "shuffle": SHUFFLE,
    "pkg": PKG,
    "dchoices": DCHOICES,
    "wchoices": WCHOICES,
    "roundrobin": ROUNDROBIN,
}
"""The schemes that the plugin has too, by name."""

MINIMUM_ROWS = 16
"""Fewer messages than this never make a key hot: of a few, every key owns a large share."""

_solve = jit(find_optimal_choices)


KEY = np.dtype([("hash", "i8"), ("first", "i4"), ("second", "i4"), ("placed", "i4")])
"""A distinct key: its hash, its first two choices, and its worker (-1: none yet) in schemes that never split one."""

CHOICE = np.dtype([("hash", "i8"), ("d", "i4"), ("count", "i4"), ("cursor", "i4"), ("bound", "i8")])
"""The candidates of the key on a counter: for which key's hash and d (0: none yet) they were built, and where MINLOAD
stands."""

SOURCE = np.dtype([("index", "i8"), ("turn", "i8"), ("choices", "i8"), ("solve_at", "i8")])
"""A source: which it is, the next worker of round-robin, d, and the number of messages at which d is solved anew."""


class Source(NamedTuple):
    """What a source knows."""

    itself: Records
    """One SOURCE."""
    load: Longs
    """Messages sent to each worker, as far as the source knows."""
    sketch: Summary
    counter_of: Ints
    """By key: its counter, or -1."""
    key_on: Ints
    """By counter: its key."""
    choices: Records
    """By counter: a CHOICE; the last one is that of all workers."""
    candidates: Ints
    """By counter: the workers that its key may use."""


class Settings(NamedTuple):
    """The parameters of a run; `fixed` is a given d, or 0 where it is solved."""

    scheme: int
    theta: float
    epsilon: float
    fixed: int


def key_table(hashes: Longs, workers: int, placed: Ints | np.int32) -> Records:
    """Return a KEY for each of these hashes."""
    keys = np.empty(len(hashes), KEY)
    keys["hash"] = hashes
    keys["first"], keys["second"] = workers_of(hashes, 1, workers), workers_of(hashes, 2, workers)
    keys["placed"] = placed
    return keys


class Sources(NamedTuple):
    """All of them; the first two hold, row by row, what `each` has as its own."""

    itselves: Records
    loads: Longs
    each: tuple[Source, ...]


def new_sources(number: int, workers: int, keys: int, settings: Settings, capacity: int, first: int = 0) -> Sources:
    """Return sources that have seen nothing, numbered from `first` on."""
    itselves = np.zeros(number, SOURCE)
    itselves["index"] = np.arange(first, first + number)
    itselves["turn"] = itselves["index"] % workers
    itselves["choices"] = min(workers, settings.fixed or 2)
    itselves["solve_at"] = np.iinfo(np.int64).max if settings.fixed else int(np.ceil(1 / settings.theta))
    loads = np.zeros((number, workers), np.int64)
    each = tuple(_source(itselves[i : i + 1], loads[i], keys, settings, capacity) for i in range(number))
    return Sources(itselves, loads, each)


def _source(itself: Records, load: Longs, keys: int, settings: Settings, capacity: int) -> Source:
    """Return a source; only schemes with a sketch get room for one."""
    workers = len(load)
    sketches = settings.scheme in WITH_SKETCH
    counters = capacity if sketches else 1
    choices = np.zeros(counters + 1, CHOICE)
    choices[counters] = (0, 0, workers, itself[0]["turn"], 0)
    candidates = np.empty((counters + 1, workers), np.int32)
    candidates[counters] = np.arange(workers)
    return Source(
        itself=itself,
        load=load,
        sketch=empty_summary(counters),
        counter_of=np.full(keys if sketches else 1, -1, np.int32),
        key_on=np.empty(counters, np.int32),
        choices=choices,
        candidates=candidates,
    )


@jit
def _compiled_worker_of(key_hash: int, i: int, n: int) -> int:
    """F_i(key): MurmurHash3 x86_32 of the 8 bytes of the hash with seed i, modulo n; see saltwise.hashing."""
    bits = np.uint64(key_hash)
    h = np.uint32(i)
    for shift in (0, 32):
        k = np.uint32((bits >> np.uint64(shift)) & np.uint64(0xFFFFFFFF))
        k = np.uint32(k * np.uint32(0xCC9E2D51))
        k = np.uint32((k << np.uint32(15)) | (k >> np.uint32(17)))
        k = np.uint32(k * np.uint32(0x1B873593))
        h = np.uint32(h ^ k)
        h = np.uint32((h << np.uint32(13)) | (h >> np.uint32(19)))
        h = np.uint32(np.uint32(h * np.uint32(5)) + np.uint32(0xE6546B64))
    h = np.uint32(h ^ np.uint32(8))
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    h = np.uint32(h ^ (h >> np.uint32(16)))
    return int(np.int64(np.int32(h)) % n)


worker_of = _compiled_worker_of if COMPILED else hashing.worker
"""F_i(key). Without numba it is mmh3's, because numpy's numbers warn where they wrap around."""


@jit
def workers_of(hashes: Longs, i: int, n: int) -> Ints:
    """F_i of each key."""
    workers = np.empty(len(hashes), np.int32)
    for key in range(len(hashes)):
        workers[key] = worker_of(hashes[key], i, n)
    return workers


@inlined
def _least_loaded(s: Source, row: int, load: Longs) -> int:
    """MINLOAD over the candidates in `row`. Loads only grow, so the smallest seen stays a lower bound."""
    choice = s.choices[row]
    count = choice["count"]
    at = choice["cursor"]
    best = at
    least = np.iinfo(np.int64).max
    left = count
    while left > 0 and least > choice["bound"]:
        here = load[s.candidates[row, at]]
        if here < least:
            least = here
            best = at
        at += 1
        if at == count:
            at = 0
        left -= 1
    choice["bound"] = least
    choice["cursor"] = best
    return int(s.candidates[row, best])


@inlined
def _less_loaded(key: Records, load: Longs, index: int) -> int:
    """Partial key grouping; ties go to the first choice on even sources, to the second on odd ones."""
    first, second = key["first"], key["second"]
    if load[first] < load[second] or (load[first] == load[second] and index % 2 == 0):
        return int(first)
    return int(second)


@inlined
def _greedy(key: Records, d: int, load: Longs) -> int:
    """Greedy-d: the least loaded of F_1(key) ... F_d(key), the first of them on ties."""
    best = int(key["first"])
    for j in range(2, d + 1):
        other = worker_of(key["hash"], j, len(load))
        if load[other] < load[best]:
            best = other
    return best


@inlined
def _in_turn(itself: Records, n: int) -> int:
    worker = itself["turn"]
    itself["turn"] = 0 if worker + 1 == n else worker + 1
    return int(worker)


@inlined
def in_head(sketch: Summary, counter: int, theta: float) -> bool:
    """Whether the key on this counter is in the head now."""
    count = sketch.counters[counter]["count"]
    return bool(count >= MINIMUM_ROWS and count >= theta * sketch.whole[0]["total"])


@inlined
def _observe(s: Source, key: int) -> int:
    """Count the key in the sketch; return its counter."""
    counter = s.counter_of[key]
    if counter >= 0:
        count_known(s.sketch, counter, 1)
        return int(counter)
    size = s.sketch.whole[0]["size"]
    new = count_new(s.sketch, 1)
    if new < size:
        s.counter_of[s.key_on[new]] = -1
    s.counter_of[key] = new
    s.key_on[new] = key
    return new


@jit
def _solve_choices(s: Source, settings: Settings, n: int) -> None:
    """d from the source's own estimates, after 1/theta messages and whenever they have grown by a quarter."""
    total = s.sketch.whole[0]["total"]
    shares = np.empty(s.sketch.whole[0]["size"], np.float64)
    head = 0
    for counter in range(len(shares)):
        if in_head(s.sketch, counter, settings.theta):
            shares[head] = s.sketch.counters[counter]["count"] / total
            head += 1
    s.itself[0]["choices"] = _solve(np.sort(shares[:head])[::-1].copy(), n, settings.epsilon)
    s.itself[0]["solve_at"] = total + max(1, total // 4)


@inlined
def _d_choices(s: Source, keys: Records, key: int, counter: int, load: Longs) -> int:
    n = len(load)
    d = s.itself[0]["choices"]
    if d >= n:
        return _least_loaded(s, len(s.choices) - 1, load)
    choice = s.choices[counter]
    if choice["d"] != d or choice["hash"] != keys[key]["hash"]:
        found = 0
        for j in range(1, d + 1):
            worker = worker_of(keys[key]["hash"], j, n)
            if not (s.candidates[counter, :found] == worker).any():
                s.candidates[counter, found] = worker
                found += 1
        choice["hash"] = keys[key]["hash"]
        choice["d"] = d
        choice["count"] = found
        choice["cursor"] = s.itself[0]["index"] % found
        choice["bound"] = 0
    return _least_loaded(s, counter, load)


@inlined
def _head_choice(s: Source, keys: Records, key: int, load: Longs, settings: Settings) -> int:
    """Algorithm 1 of "When Two Choices Are not Enough": the head is routed by the scheme, the tail by PKG."""
    counter = _observe(s, key)
    if settings.scheme == DCHOICES and s.sketch.whole[0]["total"] >= s.itself[0]["solve_at"]:
        _solve_choices(s, settings, len(load))
    if not in_head(s.sketch, counter, settings.theta):
        return _less_loaded(keys[key], load, s.itself[0]["index"])
    if settings.scheme == DCHOICES:
        return _d_choices(s, keys, key, counter, load)
    if settings.scheme == WCHOICES:
        return _least_loaded(s, len(s.choices) - 1, load)
    return _in_turn(s.itself[0], len(load))


@inlined
def _without_sketch(itself: Records, keys: Records, key: int, load: Longs, settings: Settings) -> int:
    scheme = settings.scheme
    if scheme == HASH:
        return int(keys[key]["first"])
    if scheme == SHUFFLE:
        return _in_turn(itself, len(load))
    if scheme == PKG:
        return _less_loaded(keys[key], load, itself["index"])
    if scheme == GREEDY:
        return _greedy(keys[key], settings.fixed, load)
    if keys[key]["placed"] < 0:
        keys[key]["placed"] = _less_loaded(keys[key], load, itself["index"]) if scheme == POTC else np.argmin(load)
    return int(keys[key]["placed"])


@inlined
def route(s: Source, keys: Records, key: int, load: Longs, settings: Settings) -> int:
    """P_t: the worker to which the source sends the next message, of this key."""
    if settings.scheme in WITH_SKETCH:
        return _head_choice(s, keys, key, load, settings)
    return _without_sketch(s.itself[0], keys, key, load, settings)


@jit
def run_source(
    s: Source,
    number: int,
    keys: Records,
    ids: Ints,
    source_of: Ints,
    edges: Longs,
    settings: Settings,
    out: Ints,
    sent: Longs,
) -> None:
    """Route the messages of one source, which knows its own only: sources may run beside each other.

    Args:
        number: of sources.
        keys: the distinct keys, a KEY each.
        ids: the key of each message.
        source_of: the source of each message; empty where message t comes from source t modulo their number.
        edges: where the stream is sampled: sample j ends before message edges[j + 1].
        out: receives the worker of each message.
        sent: receives the messages of each sample and worker.
    """
    index = s.itself[0]["index"]
    in_turn = len(source_of) == 0
    for j in range(len(edges) - 1):
        start = edges[j]
        t = start + (index - start) % number if in_turn else start
        while t < edges[j + 1]:
            if in_turn or source_of[t] == index:
                worker = route(s, keys, ids[t], s.load, settings)
                s.load[worker] += 1
                sent[j, worker] += 1
                out[t] = worker
            t += number if in_turn else 1


@jit
def run_together(
    sources: Sources,
    keys: Records,
    ids: Ints,
    source_of: Ints,
    edges: Longs,
    settings: Settings,
    out: Ints,
    sent: Longs,
    probe: int,
) -> None:
    """Route a stream message by message, where sources share what they know.

    Args:
        sent: receives the messages of each sample and worker.
        probe: 0: all sources know the true loads at any time (the papers' G); else each counts its own and learns the
            true loads every `probe` messages (LP).
    """
    true = np.zeros(sent.shape[1], np.int64)
    sketches = settings.scheme in WITH_SKETCH
    for j in range(len(edges) - 1):
        for t in range(edges[j], edges[j + 1]):
            if probe > 0 and t % probe == 0:
                sources.loads[:] = true
            i = source_of[t] if len(source_of) else t % len(sources.itselves)
            load = sources.loads[i] if probe > 0 else true
            if sketches:
                worker = route(sources.each[i], keys, ids[t], load, settings)
            else:
                worker = _without_sketch(sources.itselves[i], keys, ids[t], load, settings)
            if probe > 0:
                load[worker] += 1
            true[worker] += 1
            sent[j, worker] += 1
            out[t] = worker


@jit
def pairs(ids: Ints, workers: Ints, keys: int, n: int) -> Longs:
    """Return on how many workers each key has a state."""
    seen = np.zeros((keys, n), np.bool_)
    for t in range(len(ids)):
        seen[ids[t], workers[t]] = True
    states = np.zeros(keys, np.int64)
    for key in range(keys):
        states[key] = seen[key].sum()
    return states
