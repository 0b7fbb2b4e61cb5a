"""The stream partitioning schemes of both key-splitting papers, compiled: which worker gets the next message.

Nasir et al., "The Power of Both Choices" (PKG) and "When Two Choices Are not Enough" (D-Choices, W-Choices). Each
source keeps its own sketch and its own estimate of the workers' loads; `route` is the papers' P_t. Schemes that the
plugin has too give the same worker, message by message.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import inlined, jit
from ..arrays import Int32s, Int64s
from ..sketches.stream_summary import Records
from .greedy import greedy_d, placed_once
from .head import by_head
from .pkg import less_loaded
from .source import (
    DCHOICES,
    GREEDY,
    HASH,
    PKG,
    ROUNDROBIN,
    SHUFFLE,
    WCHOICES,
    WITH_SKETCH,
    Settings,
    Source,
    Sources,
    next_in_turn,
    source_at,
)

SPLITTING = {
    "hash": HASH,
    "shuffle": SHUFFLE,
    "pkg": PKG,
    "dchoices": DCHOICES,
    "wchoices": WCHOICES,
    "roundrobin": ROUNDROBIN,
}
"""The schemes that the plugin has too, by name."""


@inlined
def route(source: Source, keys: Records, key: int, load: Int64s, settings: Settings) -> int:
    """P_t: the worker to which the source sends its next message, which has this key."""
    if settings.scheme in WITH_SKETCH:
        return by_head(source, keys, key, load=load, settings=settings)
    return _route_without_sketch(source.state[0], keys[key], load, settings)


@inlined
def _route_without_sketch(state: Records, key: Records, load: Int64s, settings: Settings) -> int:
    scheme = settings.scheme
    if scheme == HASH:
        return int(key["first"])
    if scheme == SHUFFLE:
        return next_in_turn(state, len(load))
    if scheme == PKG:
        return less_loaded(key, load, state["index"])
    if scheme == GREEDY:
        return greedy_d(key, settings.choices, load)
    return placed_once(key, scheme, load, state["index"])


class Messages(NamedTuple):
    """A stream on its way to the workers."""

    keys: Records
    """The distinct keys, a KEY each."""
    ids: Int32s
    """The key of each message."""
    source_of: Int32s
    """The source of each message; empty where message t comes from source t modulo their number."""
    edges: Int64s
    """Where the stream is sampled: sample j ends before message edges[j + 1]."""
    workers: Int32s
    """Receives the worker of each message."""


@jit
def run_source(sources: Sources, i: int, stream: Messages, settings: Settings, sent: Int64s) -> None:
    """Route the messages of source i, which knows only its own messages. Such sources may run side by side.

    Args:
        sources: all sources; source i is changed.
        i: the row of the source in them.
        stream: the messages of all sources.
        settings: the parameters of the run.
        sent: receives the messages of each sample and worker.
    """
    keys, ids, source_of, edges, workers = stream
    source = source_at(sources, i)
    number = len(sources.state)
    index = source.state[0]["index"]
    in_turn = len(source_of) == 0
    for j in range(len(edges) - 1):
        start = edges[j]
        t = start + (index - start) % number if in_turn else start
        while t < edges[j + 1]:
            if in_turn or source_of[t] == index:
                worker = route(source, keys, ids[t], load=source.load, settings=settings)
                source.load[worker] += 1
                sent[j, worker] += 1
                workers[t] = worker
            t += number if in_turn else 1


@jit
def run_together(sources: Sources, stream: Messages, settings: Settings, sent: Int64s, probe: int) -> None:
    """Route a stream message by message, where sources share what they know.

    Args:
        sources: all sources; they are changed.
        stream: their messages.
        settings: the parameters of the run.
        sent: receives the messages of each sample and worker.
        probe: 0: all sources know the true loads at any time (the papers' G). Otherwise each source counts its own
            messages, and learns the true loads every `probe` messages (LP).
    """
    keys, ids, source_of, edges, workers = stream
    true = np.zeros(sent.shape[1], np.int64)
    has_sketch = settings.scheme in WITH_SKETCH
    for j in range(len(edges) - 1):
        for t in range(edges[j], edges[j + 1]):
            if probe > 0 and t % probe == 0:
                sources.load[:] = true
            i = source_of[t] if len(source_of) else t % len(sources.state)
            load = sources.load[i] if probe > 0 else true
            if has_sketch:
                worker = by_head(source_at(sources, i), keys, ids[t], load=load, settings=settings)
            else:
                worker = _route_without_sketch(sources.state[i], keys[ids[t]], load, settings)
            if probe > 0:
                load[worker] += 1
            true[worker] += 1
            sent[j, worker] += 1
            workers[t] = worker


@jit
def states_per_key(ids: Int32s, workers: Int32s, keys: int, n: int) -> Int64s:
    """Return on how many workers each key has a state."""
    seen = np.zeros((keys, n), np.bool_)
    for t in range(len(ids)):
        seen[ids[t], workers[t]] = True
    states = np.zeros(keys, np.int64)
    for key in range(keys):
        states[key] = seen[key].sum()
    return states
