"""D-Choices, W-Choices and round robin for hot keys, PKG for all others.

Nasir et al., "When Two Choices Are not Enough", Algorithm 1. The head, which is the hot keys, comes from a SpaceSaving
sketch of the source's own messages.
"""

from __future__ import annotations

import numpy as np

from .._jit import inlined, jit
from .._sort import ascending
from ..arrays import Int64s
from ..sketches.stream_summary import Records, Summary, count_known, count_new
from .choices import find_optimal_choices
from .compiled_hash import worker_of
from .pkg import less_loaded
from .source import DCHOICES, WCHOICES, Settings, Source, Sources, next_in_turn, source_at

MIN_ROWS = 16
"""A key with fewer messages is never hot: while there are few messages, every key has a large share of them."""

solve_d = jit(find_optimal_choices)


@inlined
def by_head(source: Source, keys: Records, key: int, load: Int64s, settings: Settings) -> int:
    """The worker of a message: a key in the head is routed by the scheme, all others by PKG."""
    counter = _count(source, key)
    if settings.scheme == DCHOICES and source.sketch.whole[0]["total"] >= source.state[0]["solve_at"]:
        _update_d(source, settings, len(load))
    if not in_head(source.sketch, counter, settings.theta):
        return less_loaded(keys[key], load, source.state[0]["index"])
    if settings.scheme == DCHOICES:
        return _d_choices(source, keys[key], counter, load)
    if settings.scheme == WCHOICES:
        return _least_loaded_of_all(source, load)
    return next_in_turn(source.state[0], len(load))


@inlined
def in_head(sketch: Summary, counter: int, theta: float) -> bool:
    """Whether the key on this counter is in the head now."""
    count = sketch.counters[counter]["count"]
    return bool(count >= MIN_ROWS and count >= theta * sketch.whole[0]["total"])


@jit
def head_size(sources: Sources, i: int, theta: float) -> int:
    """Return the number of keys in the head of source i now."""
    sketch = source_at(sources, i).sketch
    size = 0
    for counter in range(sketch.whole[0]["size"]):
        size += in_head(sketch, counter, theta)
    return size


@inlined
def _count(source: Source, key: int) -> int:
    """Count the key in the sketch; return its counter."""
    counter = source.counter_of[key]
    if counter >= 0:
        count_known(source.sketch, counter, 1)
        return int(counter)
    size = source.sketch.whole[0]["size"]
    new = count_new(source.sketch, 1)
    if new < size:
        source.counter_of[source.key_on[new]] = -1
    source.counter_of[key] = new
    source.key_on[new] = key
    return new


@jit
def _update_d(source: Source, settings: Settings, n: int) -> None:
    """Solve d from the source's own estimates: after 1/theta messages, and when they have grown by a quarter."""
    total = source.sketch.whole[0]["total"]
    shares = np.empty(source.sketch.whole[0]["size"], np.float64)
    head = 0
    for counter in range(len(shares)):
        if in_head(source.sketch, counter, settings.theta):
            shares[head] = source.sketch.counters[counter]["count"] / total
            head += 1
    descending = ascending(shares[:head])[::-1]
    source.state[0]["d"] = solve_d(shares[descending], n, settings.epsilon)
    source.state[0]["solve_at"] = total + max(1, total // 4)


@inlined
def _d_choices(source: Source, key: Records, counter: int, load: Int64s) -> int:
    """The least loaded of the key's d candidates. The search starts anew when d or the key on the counter changes."""
    n = len(load)
    d = source.state[0]["d"]
    if d >= n:
        return _least_loaded_of_all(source, load)
    row = counter % (len(source.candidates) - 1)
    candidates = source.candidates[row]
    if candidates["d"] != d or candidates["hash"] != key["hash"]:
        count = 0
        for j in range(1, d + 1):
            worker = worker_of(key["hash"], j, n)
            if not (source.candidate_workers[row, :count] == worker).any():
                source.candidate_workers[row, count] = worker
                count += 1
        candidates["hash"] = key["hash"]
        candidates["d"] = d
        candidates["count"] = count
    search = source.search[counter]
    if search["d"] != d or search["hash"] != key["hash"]:
        search["hash"] = key["hash"]
        search["d"] = d
        search["cursor"] = source.state[0]["index"] % candidates["count"]
        search["least_load"] = 0
    return _least_loaded(source, counter, row, load)


@jit
def _least_loaded_of_all(source: Source, load: Int64s) -> int:
    return _least_loaded(source, len(source.search) - 1, len(source.candidates) - 1, load)


@inlined
def _least_loaded(source: Source, counter: int, row: int, load: Int64s) -> int:
    """MINLOAD over the candidates in `row`. Loads only grow, so the smallest load seen stays a lower bound."""
    search = source.search[counter]
    count = source.candidates[row]["count"]
    cursor = search["cursor"]
    best = cursor
    least_load = np.iinfo(np.int64).max
    left = count
    while left > 0 and least_load > search["least_load"]:
        candidate_load = load[source.candidate_workers[row, cursor]]
        if candidate_load < least_load:
            least_load = candidate_load
            best = cursor
        cursor += 1
        if cursor == count:
            cursor = 0
        left -= 1
    search["least_load"] = least_load
    search["cursor"] = best
    return int(source.candidate_workers[row, best])
