"""Simulates how a scheme spreads a stream over workers, and what that costs, as the key-splitting papers do.

>>> import numpy as np
>>> keys = np.random.default_rng(1).zipf(2.0, 100_000)
>>> simulate(keys, "hash", workers=50).max_to_mean > 25
True
>>> simulate(keys, "wchoices", workers=50).max_to_mean < 1.01
True
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import _jit
from ._optional import OptionalPackageError
from .arrays import Floats, Int32s, Int64s
from .errors import SaltwiseValueError, check_number, check_share, check_whole
from .keys import key_hashes
from .options import EPSILON, default_capacity, default_theta
from .splitting.compiled_hash import workers_of
from .splitting.greedy import off_greedy
from .splitting.head import head_size
from .splitting.schemes import SPLITTING, Messages, run_source, run_together, states_per_key
from .splitting.source import (
    GREEDY,
    OFF_GREEDY,
    ON_GREEDY,
    POTC,
    WITH_SKETCH,
    Settings,
    Sources,
    key_table,
    new_sources,
)
from .tables import Printable, Table

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing has it from Python 3.11 on

Stream = Sequence[int] | Sequence[str] | npt.NDArray[Any]

SCHEMES = SPLITTING | {"greedy-d": GREEDY, "potc": POTC, "on-greedy": ON_GREEDY, "off-greedy": OFF_GREEDY}
LOADS = ("local", "global", "probing")
FEEDS = ("shuffle", "keyed")
SAMPLES = 100
"""How often the imbalance is sampled."""
FEED_SEED = 7
"""Seed of the hash that sends keys to sources. The hashes that send keys to workers have other seeds."""


@dataclass(frozen=True, repr=False)
class Simulation(Printable):
    """What a scheme did with a stream.

    Attributes:
        scheme: its name.
        messages: length m of the stream.
        workers: n.
        load: messages that each worker received, shape (n,).
        times: numbers of messages after which the imbalance was sampled.
        imbalance: I(t) = max load - mean load at these times, as a share of the messages so far.
        states_per_key: on how many workers each distinct key has a state, in the order of ``keys``.
        keys: the distinct keys.
        choices: d of each source at the end: 1 for hashing, n where a hot key may use any worker.
        head_size: number of keys in the head of each source at the end.
    """

    scheme: str
    messages: int
    workers: int
    load: Int64s
    times: Int64s
    imbalance: Floats
    keys: npt.NDArray[Any]
    states_per_key: Int64s
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
        """Number of states on all workers: the memory that the scheme needs."""
        return int(self.states_per_key.sum())

    @property
    def aggregation_cost(self) -> int:
        """States that have to be merged: all but one for each key."""
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


class Options(TypedDict, total=False):
    """The options of :func:`simulate` and of :func:`route`, by keyword.

    Attributes:
        sources: s; 5 by default.
        theta: a key with at least this share of a source's messages is in the head; 1/(5n) by default.
        epsilon: the imbalance that "dchoices" may leave, as a share of all messages; 1e-4 by default.
        choices: d, for "dchoices" (solved by default) and for "greedy-d" (2 by default).
        load: what sources know of the workers' loads: their own messages ("local", L, the default), all messages
            ("global", G), or their own messages and, every `probe` messages, the true loads ("probing", LP).
        probe: messages of the stream between two probes; 100,000 by default.
        feed: messages reach the sources in turn ("shuffle", the default), or by the hash of a key ("keyed").
    """

    sources: int
    theta: float | None
    epsilon: float
    choices: int | None
    load: str
    probe: int
    feed: str


def simulate(
    keys: Stream, scheme: str, workers: int, *, source_keys: Stream | None = None, **options: Unpack[Options]
) -> Simulation:
    """Send a stream through sources to workers, and measure imbalance and memory.

    Args:
        keys: the stream: whole numbers or strings.
        scheme: "hash" (KG), "shuffle" (SG), "pkg", "dchoices", "wchoices" or "roundrobin", as the plugin routes them;
            "greedy-d" (Greedy-d on all keys, d = `choices`), "potc" (two choices, no splitting), "on-greedy" (a new key
            goes to the least loaded worker and stays) and "off-greedy" (the same by descending frequency).
        workers: n.
        source_keys: the key of each message for ``feed="keyed"``; `keys` by default.
        **options: see :class:`Options`.

    Raises:
        SaltwiseValueError: an argument is not allowed.
        OptionalPackageError: numba or xxhash cannot be imported.
    """
    setup = _Setup(scheme, workers, **options)
    run = _run(keys, source_keys, setup)
    per_sample = run.sent.sum(axis=0).cumsum(axis=0)
    times = run.edges[1:]
    return Simulation(
        scheme=scheme,
        messages=len(run.ids),
        workers=setup.workers,
        load=per_sample[-1],
        times=times,
        imbalance=(per_sample.max(axis=1) - per_sample.mean(axis=1)) / times,
        keys=run.keys,
        states_per_key=states_per_key(run.ids, run.workers, len(run.keys), setup.workers),
        choices=_choices(run, setup),
        head_size=_head_sizes(run, setup),
    )


def route(
    keys: Stream, scheme: str, workers: int, *, source_keys: Stream | None = None, **options: Unpack[Options]
) -> Int32s:
    """Return the worker of each message; the arguments are those of :func:`simulate`.

    >>> route([7, 7, 7, 7], "shuffle", workers=3, sources=1)
    array([0, 1, 2, 0], dtype=int32)
    """
    return _run(keys, source_keys, _Setup(scheme, workers, **options)).workers


@dataclass(frozen=True)
class _Setup:
    """A scheme and its :class:`Options`, with their defaults."""

    scheme: str
    workers: int
    sources: int = 5
    theta: float | None = None
    epsilon: float = EPSILON
    choices: int | None = None
    load: str = "local"
    probe: int = 100_000
    feed: str = "shuffle"

    def __post_init__(self) -> None:
        if _jit.NUMBA_ERROR is not None:
            raise OptionalPackageError.from_error("The simulator", "simulate", _jit.NUMBA_ERROR)
        for name, allowed in (("scheme", SCHEMES), ("load", LOADS), ("feed", FEEDS)):
            if getattr(self, name) not in allowed:
                raise SaltwiseValueError.unknown(name, getattr(self, name), allowed)
        for name in ("workers", "sources", "probe", "choices"):  # numpy's numbers are allowed too
            if isinstance(number := getattr(self, name), np.integer):
                object.__setattr__(self, name, int(number))
        for name in ("workers", "sources", "probe"):
            check_whole(name, getattr(self, name))
        if self.theta is not None:
            check_share("theta", self.theta)
        check_number("epsilon", self.epsilon, lambda share: 0 < share < 1, "a share between 0 and 1")
        if self.choices is not None:
            in_words = f"from 2 to the {self.workers} workers"
            check_whole("choices", self.choices, 2, self.workers, allowed=in_words)

    @property
    def settings(self) -> Settings:
        theta = default_theta(self.workers) if self.theta is None else self.theta
        choices = self.choices or (2 if self.scheme == "greedy-d" else 0)
        return Settings(SCHEMES[self.scheme], theta, self.epsilon, choices)


@dataclass(frozen=True)
class _Run:
    """A stream, and where its messages went."""

    keys: npt.NDArray[Any]
    """The distinct keys."""
    ids: Int32s
    """The key of each message."""
    edges: Int64s
    """Where the samples begin and end."""
    sources: Sources
    sent: Int64s
    """Messages by source, sample and worker."""
    workers: Int32s
    """The worker of each message."""


def _run(stream: Stream, source_keys: Stream | None, setup: _Setup) -> _Run:
    keys, ids = _distinct(stream, "keys")
    settings = setup.settings
    not_placed = np.int32(-1)
    placed = off_greedy(ids, len(keys), setup.workers) if setup.scheme == "off-greedy" else not_placed
    table = key_table(_hashes(keys), setup.workers, placed)
    capacity = default_capacity(settings.theta)
    sources = new_sources(setup.sources, setup.workers, settings, keys=len(keys), capacity=capacity)
    source_of = np.empty(0, np.int32)
    if setup.feed == "keyed":
        fed_keys, fed_ids = (keys, ids) if source_keys is None else _distinct(source_keys, "source_keys")
        if len(fed_ids) != len(ids):
            raise SaltwiseValueError(
                f"source_keys has {len(fed_ids)} keys; it must have one for each of {len(ids)} messages."
            )
        source_of = workers_of(_hashes(fed_keys), FEED_SEED, setup.sources)[fed_ids]
    samples = min(SAMPLES, len(ids))
    edges = np.arange(samples + 1) * len(ids) // samples
    sent = np.zeros((setup.sources, samples, setup.workers), np.int64)
    workers = np.empty(len(ids), np.int32)
    messages = Messages(keys=table, ids=ids, source_of=source_of, edges=edges, workers=workers)
    if setup.load == "local" and settings.scheme in WITH_SKETCH:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            results = threads.map(
                lambda i: run_source(sources, i, messages, settings=settings, sent=sent[i]),
                range(setup.sources),
            )
        list(results)  # raises what a thread raised
    else:
        # Without a sketch, messages are so cheap that threads would lose more than they save: they write side by side.
        probe = {"global": 0, "probing": setup.probe, "local": len(ids)}[setup.load]
        run_together(sources, messages, settings, sent=sent[0], probe=probe)
    return _Run(keys=keys, ids=ids, edges=edges, sources=sources, sent=sent, workers=workers)


def _distinct(stream: Stream, name: str) -> tuple[npt.NDArray[Any], Int32s]:
    """Return the distinct keys of a stream, and the position of each message's key among them."""
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


def _hashes(keys: npt.NDArray[Any]) -> Int64s:
    return key_hashes(keys.tolist(), "bigint" if keys.dtype.kind in "iu" else "string")


def _choices(run: _Run, setup: _Setup) -> list[int]:
    """Return d of each source."""
    if setup.scheme == "dchoices":
        return [int(d) for d in run.sources.state["d"]]
    n = setup.workers
    fixed = {"hash": 1, "potc": 1, "on-greedy": 1, "off-greedy": 1, "pkg": min(2, n), "greedy-d": setup.choices or 2}
    return [fixed.get(setup.scheme, n)] * setup.sources


def _head_sizes(run: _Run, setup: _Setup) -> list[int]:
    """Return the number of keys in the head of each source."""
    settings = setup.settings
    if settings.scheme not in WITH_SKETCH:
        return [0] * setup.sources
    return [head_size(run.sources, i, settings.theta) for i in range(setup.sources)]
