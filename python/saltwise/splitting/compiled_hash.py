"""The hash functions F_1 ... F_d of :mod:`saltwise.hashing`, compiled, for one key and for arrays of keys."""

from __future__ import annotations

import numpy as np

from .. import hashing
from .._jit import COMPILED, jit
from ..arrays import Int32s, Int64s


@jit
def _compiled_worker_of(key_hash: int, i: int, n: int) -> int:
    """F_i(key): MurmurHash3 x86_32 of the 8 bytes of the hash with seed i, modulo n."""
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
"""F_i(key). Without numba it is mmh3's, because numpy's numbers warn when they wrap around."""


@jit
def workers_of(hashes: Int64s, i: int, n: int) -> Int32s:
    """F_i of each key."""
    workers = np.empty(len(hashes), np.int32)
    for key in range(len(hashes)):
        workers[key] = worker_of(hashes[key], i, n)
    return workers
