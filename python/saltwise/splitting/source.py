"""A source, as arrays of records: what it knows of keys, loads and hot keys. The schemes route by it, compiled."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from .._jit import inlined
from ..arrays import Int32s, Int64s
from ..sketches.stream_summary import Records, Summary, empty_summary
from .compiled_hash import workers_of

HASH, SHUFFLE, PKG, DCHOICES, WCHOICES, ROUNDROBIN, GREEDY, POTC, ON_GREEDY, OFF_GREEDY = range(10)
WITH_SKETCH = (DCHOICES, WCHOICES, ROUNDROBIN)

KEY = np.dtype([("hash", "i8"), ("first", "i4"), ("second", "i4"), ("placed", "i4")])
"""A distinct key: its hash, its first two choices, and its worker (-1: none yet) in schemes that never split a key."""

SEARCH = np.dtype([("hash", "i8"), ("d", "i4"), ("cursor", "i4"), ("least_load", "i8")])
"""The search for the least loaded candidate of the key on a counter: the key's hash and the d it is for (0: none yet),
where it starts, and the load at which it may stop."""

CANDIDATES = np.dtype([("hash", "i8"), ("d", "i4"), ("count", "i4")])
"""A list of candidates: the key's hash and the d it was made for (0: none yet), and how many workers it has."""

CANDIDATE_LISTS = 1024
"""A source has this many lists of candidates, so their memory is O(n). A list for each of the 4/theta = 20 n counters
would take O(n^2). Keys that share a list rebuild it alternately."""

STATE = np.dtype([("index", "i8"), ("turn", "i8"), ("d", "i8"), ("solve_at", "i8")])
"""A source: its number, the next worker of round-robin, d, and the number of messages at which d is solved again."""


class Source(NamedTuple):
    """What a source knows."""

    state: Records
    """One STATE."""
    load: Int64s
    """Messages sent to each worker, as far as the source knows."""
    sketch: Summary
    counter_of: Int32s
    """By key: its counter, or -1."""
    key_on: Int32s
    """By counter: its key."""
    search: Records
    """By counter: SEARCH. The last record is for keys that may use all workers."""
    candidates: Records
    """By counter modulo their number: CANDIDATES. The last record is of all workers, and not counted in that number."""
    candidate_workers: Int32s
    """For each list of candidates: the workers that the key may use."""


class Settings(NamedTuple):
    """The parameters of a run."""

    scheme: int
    theta: float
    epsilon: float
    choices: int
    """d; 0 if it is to be solved."""


Sources: TypeAlias = Source
"""All sources: their `state` has a STATE for each, and every other array one more dimension in front, the source."""


def key_table(hashes: Int64s, workers: int, placed: Int32s | np.int32) -> Records:
    """Return a KEY for each of these hashes."""
    keys = np.empty(len(hashes), KEY)
    keys["hash"] = hashes
    keys["first"], keys["second"] = workers_of(hashes, 1, workers), workers_of(hashes, 2, workers)
    keys["placed"] = placed
    return keys


def new_sources(number: int, workers: int, settings: Settings, *, keys: int, capacity: int, first: int = 0) -> Sources:
    """Return sources that have seen nothing.

    Args:
        number: of sources.
        workers: n.
        settings: the parameters of the run.
        keys: |K|.
        capacity: counters of the sketch of each source.
        first: the number of the first source.
    """
    has_sketch = settings.scheme in WITH_SKETCH
    counters = capacity if has_sketch else 1
    lists = min(counters, CANDIDATE_LISTS)
    state = np.zeros(number, STATE)
    state["index"] = np.arange(first, first + number)
    state["turn"] = state["index"] % workers
    state["d"] = min(workers, settings.choices or 2)
    never = np.iinfo(np.int64).max
    state["solve_at"] = never if settings.choices else int(min(np.ceil(1 / settings.theta), never))
    search = np.zeros((number, counters + 1), SEARCH)
    search[:, counters]["cursor"] = state["turn"]
    candidates = np.zeros((number, lists + 1), CANDIDATES)
    candidates[:, lists]["count"] = workers
    candidate_workers = np.empty((number, lists + 1, workers), np.int32)
    candidate_workers[:, lists] = np.arange(workers)
    return Sources(
        state=state,
        load=np.zeros((number, workers), np.int64),
        sketch=Summary(*(np.repeat(part[np.newaxis], number, axis=0) for part in empty_summary(counters))),
        counter_of=np.full((number, keys if has_sketch else 1), -1, np.int32),
        key_on=np.empty((number, counters), np.int32),
        search=search,
        candidates=candidates,
        candidate_workers=candidate_workers,
    )


@inlined
def source_at(sources: Sources, i: int) -> Source:
    """Return source i, as views into the arrays of all."""
    sketch = sources.sketch
    return Source(
        state=sources.state[i : i + 1],
        load=sources.load[i],
        sketch=Summary(sketch.counters[i], sketch.buckets[i], sketch.whole[i]),
        counter_of=sources.counter_of[i],
        key_on=sources.key_on[i],
        search=sources.search[i],
        candidates=sources.candidates[i],
        candidate_workers=sources.candidate_workers[i],
    )


@inlined
def next_in_turn(state: Records, n: int) -> int:
    """Round-robin over n workers."""
    worker = state["turn"]
    state["turn"] = 0 if worker + 1 == n else worker + 1
    return int(worker)
