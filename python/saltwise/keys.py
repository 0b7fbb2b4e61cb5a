"""The 64-bit hash h of a key, Spark's ``xxhash64``. Everything that routes or places rows works with this hash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as StructError

import numpy as np

from ._optional import required_by
from .arrays import Int64s
from .errors import SaltwiseValueError

Item = int | str | None
"""A key of one column: None is SQL's NULL."""

SEED = 42
"""The seed in Spark, and the hash of NULL."""

_PACK: dict[str, Callable[..., bytes]] = {
    "bigint": Struct("<q").pack,
    "int": Struct("<i").pack,
    "smallint": Struct("<i").pack,
    "tinyint": Struct("<i").pack,
    "string": str.encode,
}
"""The bytes that Spark hashes: it widens numbers below 32 bits first."""

ITEM_TYPES = tuple(_PACK)
"""The SQL types of the keys that are hashed, sketched and placed."""


def key_hashes(keys: Sequence[Item], key_type: str = "bigint") -> Int64s:
    """Return ``xxhash64(key)`` of Spark for keys of this type.

    Args:
        keys: whole numbers or strings, and None for SQL's NULL.
        key_type: the keys' type in SQL: bigint, int, smallint, tinyint or string. The hash of a bigint differs
            from that of the same number in a narrower type.

    Returns:
        The hashes, shape (len(keys),).

    Raises:
        SaltwiseValueError: the type is not one of these, or a key has another type.
        OptionalPackageError: xxhash cannot be imported.

    >>> key_hashes(["a", None], "string")
    array([-8582455328737087284,                   42])
    """
    with required_by("The hash of a key", extra="simulate"):
        from xxhash import xxh64_intdigest
    if key_type not in ITEM_TYPES:
        raise SaltwiseValueError.unknown("key_type", key_type, ITEM_TYPES)
    pack = _PACK[key_type]
    digests = (SEED if key is None else xxh64_intdigest(pack(key), seed=SEED) for key in keys)
    try:
        return np.fromiter(digests, np.uint64, len(keys)).view(np.int64)
    except (TypeError, StructError, UnicodeEncodeError) as refused:
        misfit = next(key for key in keys if not _fits(key, pack))
        raise SaltwiseValueError(
            f"key is {misfit!r}; it must be a {key_type}, the type of the keys, or None."
        ) from refused


def _fits(key: Item, pack: Callable[..., bytes]) -> bool:
    try:
        return key is None or isinstance(pack(key), bytes)
    except (TypeError, StructError, UnicodeEncodeError):
        return False


def is_unicode(text: str) -> bool:
    """Return whether a text has an encoding in UTF-8, which half of a surrogate pair has not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
