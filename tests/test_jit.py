"""What numba compiles, where several processes compile at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

COMPILES = """
import numpy as np
from saltwise.splitting.compiled_hash import workers_of
print("ready", flush=True)
input()
print(workers_of(np.arange(100), 1, 10).tolist(), sum(workers_of.stats.cache_misses.values()))
"""


def test_of_processes_that_start_together_one_compiles_and_the_others_take_what_it_made(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COMPILES],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate()[0].rsplit(" ", 1) for process in processes]
    assert sorted(int(compiled) for _, compiled in said) == [0, 0, 1]
    assert len({workers for workers, _ in said}) == 1
