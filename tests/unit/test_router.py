"""The router of engine="arrow" sends the same rows to the same workers, in batches of any size and without numba."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saltwise.options import SettledOptions
from saltwise.splitting.router import Router
from saltwise.strategies import ROUTING


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=120), max_size=6),
    st.integers(1, 7),
    st.sampled_from(sorted(ROUTING)),
    st.integers(0, 3),
)
def test_a_stream_is_routed_alike_in_batches_of_any_size(
    batches: list[list[int]], workers: int, strategy: str, source: int
) -> None:
    # A few counters, so that keys come and go.
    options = SettledOptions(strategy, workers, 0.3, counters=4)
    hashes = [np.array(batch, np.int64) * 0x9E3779B97F4A7C1 for batch in batches]
    in_batches, at_once = Router(options, source), Router(options, source)

    parts = [worker for batch in hashes for worker in in_batches.route(batch).tolist()]

    assert parts == at_once.route(np.concatenate([np.empty(0, np.int64), *hashes])).tolist()
    assert all(0 <= worker < workers for worker in parts)


WORKERS_OF_ALL = """
import sys, warnings
if "plain" in sys.argv:
    sys.modules["numba"] = None
warnings.simplefilter("error")
import numpy as np
from saltwise._jit import COMPILED
from saltwise.options import SettledOptions
from saltwise.splitting.router import Router
from saltwise.strategies import ROUTING
assert COMPILED == ("plain" not in sys.argv)
hashes = (np.random.default_rng(1).zipf(1.5, 1500) % 500).astype(np.int64) * 0x9E3779B97F4A7C1
print([Router(SettledOptions(name, 12, 1 / 60), 1).route(hashes).tolist() for name in ROUTING])
"""


def test_workers_are_the_same_without_numba() -> None:
    pytest.importorskip("numba")
    compiled, plain = (
        subprocess.run([sys.executable, "-c", WORKERS_OF_ALL, how], capture_output=True, text=True, check=True).stdout
        for how in ("compiled", "plain")
    )

    assert plain == compiled
    assert len(plain) > 9000
