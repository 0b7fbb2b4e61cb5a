"""The hash functions F_1 ... F_d of the papers, equal row by row to the plugin's.

A key is its 64-bit hash h, Spark's ``xxhash64`` of the grouping columns; F_i(key) is MurmurHash3 x86_32 of h
(8 bytes, little endian) with seed i, modulo n.
"""

from __future__ import annotations

import struct

import mmh3

MIN_HASH, MAX_HASH = -(1 << 63), (1 << 63) - 1
"""Hashes of keys are whole numbers of 64 bits."""


def worker(key: int, i: int, workers: int) -> int:
    """Return F_i(key), a worker in [0, workers).

    Args:
        key: the key's 64-bit hash, signed.
        i: which function, at least 1.
        workers: n.

    >>> worker(42, 1, 100)
    0
    """
    return mmh3.hash(struct.pack("<q", key), i) % workers


def candidates(key: int, choices: int, workers: int) -> list[int]:
    """Return F_1(key) ... F_d(key) without repetition, in that order: at most d workers.

    >>> len(candidates(42, 10, 4))
    4
    """
    return list(dict.fromkeys(worker(key, i, workers) for i in range(1, choices + 1)))
