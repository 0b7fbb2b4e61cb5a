"""Partition functions as JSON, version 1: kept between runs, and read where rows are placed.

The type of the keys is written too, because their hash depends on it, and a checksum of all other fields::

    {"format": "saltwise partition function", "version": 1, "kind": "pair", "key_type": "string", "hash": "xxhash64",
     "workers": 4, "replicas": 1000, "explicit": {"-8582455328737087284": 3}, "crc32": 3172302873}

A kind is "uniform", "consistent", "pair" or "groups", which has a "table". The keys of "explicit" are 64-bit hashes.
They are text, because JSON's numbers are less exact in other languages.
"""

from __future__ import annotations

from typing import Any

from ..errors import SaltwiseError
from ..versioned_json import VersionedJsonError, dump_versioned, load_versioned
from .consistent_hash import ConsistentHash
from .hash_pair import HashPair
from .key_groups import KeyGroups
from .partition_function import PartitionFunction, UniformHash

FORMAT = "saltwise partition function"
VERSION = 1
HASH = "xxhash64"

_FIELDS = {"uniform": (), "consistent": ("replicas",), "pair": ("replicas", "explicit"), "groups": ("table",)}
"""By kind: its fields besides workers and key_type."""

_KINDS: dict[str, type[PartitionFunction]] = {
    "uniform": UniformHash,
    "consistent": ConsistentHash,
    "pair": HashPair,
    "groups": KeyGroups,
}


class PartitionFormatError(SaltwiseError):
    """A text is not a partition function that can be read here."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; give a text that to_json wrote.")


def to_json(function: PartitionFunction) -> str:
    """Return a partition function as JSON.

    >>> from_json(to_json(UniformHash(4, "string")))
    UniformHash(workers=4, key_type='string')
    """
    kind = next(name for name, function_type in _KINDS.items() if type(function) is function_type)
    content: dict[str, Any] = {"kind": kind, "key_type": function.key_type, "hash": HASH, "workers": function.workers}
    content |= {field: getattr(function, field) for field in _FIELDS[kind]}
    if isinstance(function, HashPair):
        content["explicit"] = {str(key): worker for key, worker in function.explicit.items()}
    return dump_versioned(FORMAT, VERSION, content)


def from_json(text: str) -> PartitionFunction:
    """Return the partition function in a text. It equals the one that was written.

    Raises:
        PartitionFormatError: the text is not a partition function, or it is newer or damaged.
    """
    try:
        content = load_versioned(text, FORMAT, VERSION)
    except VersionedJsonError as error:
        raise PartitionFormatError(str(error)) from error
    kind = content.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS or content.get("hash") != HASH:
        raise PartitionFormatError(
            f"the partition function is {kind!r} by {content.get('hash')!r}; it must be {' or '.join(_KINDS)} by {HASH}"
        )
    values: dict[str, Any] = {name: content.get(name) for name in ("workers", "key_type", *_FIELDS[kind])}
    try:
        if "explicit" in values:
            values["explicit"] = {int(key): worker for key, worker in values["explicit"].items()}
        return _KINDS[kind](**values)
    except (AttributeError, ValueError, TypeError) as error:
        raise PartitionFormatError(f"the partition function is damaged: {str(error).removesuffix('.')}") from error
