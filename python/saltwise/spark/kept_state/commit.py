"""The content of commit.json: what a state knows of the batches so far, and which files are in use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql.types import StructType

from ...errors import check_whole
from ...placement.history import PlacementHistory, counts_from_content, counts_to_content
from ...placement.result import Placement, costs_from_content, costs_to_content
from ...rebalancing.key_group_history import KeyGroupHistory
from ...sketches.sliding_counts import SlidingCounts
from ...versioned_json import dump_versioned, load_versioned

FORMAT = "saltwise stateful aggregate"
VERSION = 2

HASH, SPLIT, SEEN, ROWS = "hash", "split", "seen", "rows"
"""Columns of the files: the hash of the key, the worker of a part of a split key, the latest time, and the rows."""

Files = dict[str, int]
"""Path in the folder, to its length in bytes."""

MAX_VERSION = 10**10 - 2
"""The name of a folder has ten digits, and the next version needs one too."""

MAX_LONG = (1 << 63) - 1

FileNames = TypeVar("FileNames", Files, list[str])
_FILE_NAME = re.compile(r"version=\d{10}/unit=-?\d{1,10}/[\w.-]{1,200}\.parquet", re.ASCII)
"""The path of a file in the folder. Names of more than 255 bytes are errors of the file system."""


@dataclass(frozen=True)
class KeptColumns:
    """The columns of a state. The first batch fixes them."""

    state: StructType
    """The columns of the files: keys k0 ..., hash, split, seen, rows, and the parts p0_0 ... of each aggregate."""
    result: StructType
    """Names and types of the columns that users see."""
    shown: Mapping[str, str]
    """Name of each aggregate, to Spark's text of it."""
    functions: list[str]
    """The function of each aggregate, in order."""

    def texts(self) -> list[str]:
        """Return each column that users see as text, such as ``bytes bigint as sum(bytes)``."""
        return [
            f"{column.name} {column.dataType.simpleString()}"
            + (f" as {self.shown[column.name]}" if column.name in self.shown else "")
            for column in self.result
        ]


@dataclass(frozen=True)
class Commit:
    """The content of commit.json."""

    history: PlacementHistory | KeyGroupHistory
    heads: SlidingCounts[int | None] | None
    """The rows of heavy keys in the recent past, if such keys are split."""
    version: int = 0
    """Number of commits so far."""
    batch: int | None = None
    """The last batch in the state; None before the first one."""
    latest: int | None = None
    """The latest time of a row, in microseconds since 1970, if rows have a time."""
    files: Mapping[int, Files] = field(default_factory=dict)
    """The files of each unit."""
    previous: tuple[str, ...] = ()
    """Files of the previous version."""
    columns: KeptColumns | None = None
    """None before the first batch."""
    placement: Placement | None = None
    """The placement of the last batch."""

    def to_json(self) -> str:
        columns = self.columns
        return dump_versioned(
            FORMAT,
            VERSION,
            {
                "state_version": self.version,
                "batch": self.batch,
                "placement": None if self.placement is None else costs_to_content(self.placement),
                "history": self.history.to_content(),
                "heads": None if self.heads is None else counts_to_content(self.heads),
                "latest": self.latest,
                "aggregates": {} if columns is None else columns.shown,
                "functions": [] if columns is None else columns.functions,
                "state": None if columns is None else columns.state.jsonValue(),
                "result": None if columns is None else columns.result.jsonValue(),
                "files": {str(unit): files for unit, files in self.files.items()},
                "previous": self.previous,
            },
        )

    @classmethod
    def from_json(cls, text: str) -> Commit:
        """Read what :meth:`to_json` wrote.

        Raises:
            VersionedJsonError: the text is not a commit, or it is newer or damaged.
            PartitionFormatError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError: its values are
                wrong.
        """
        content = load_versioned(text, FORMAT, VERSION)
        check_whole("state_version", content["state_version"], 0, MAX_VERSION)
        for name in "batch", "latest":
            if content[name] is not None:
                check_whole(name, content[name], -MAX_LONG, MAX_LONG)
        history_type = KeyGroupHistory if "groups" in content["history"] else PlacementHistory
        history = history_type.from_content(content["history"])
        files = {int(unit): _checked_names(sizes) for unit, sizes in content["files"].items()}
        if isinstance(history, KeyGroupHistory) and max(files, default=0) >= history.groups:
            raise ValueError(f"it has files of key group {max(files)}, and there are {history.groups}")
        for size in (size for sizes in files.values() for size in sizes.values()):
            check_whole("the size of a file", size, 0, MAX_LONG)
        function, costs = history.function, content["placement"]
        return cls(
            history=history,
            heads=None if content["heads"] is None else counts_from_content(content["heads"]),
            version=content["state_version"],
            batch=content["batch"],
            latest=content["latest"],
            files=files,
            previous=tuple(_checked_names(content["previous"])),
            columns=_columns(content),
            placement=None if costs is None or function is None else costs_from_content(function, costs),
        )


def _columns(content: dict[str, Any]) -> KeptColumns | None:
    state, result = _struct(content["state"]), _struct(content["result"])
    shown, functions = dict(content["aggregates"]), _texts(content["functions"])
    if state is None or result is None:
        return None
    return KeptColumns(state, result, shown, functions)


def _checked_names(files: FileNames) -> FileNames:
    """Return the names of files, after a check that they lie in the folder.

    Raises:
        ValueError: one of them does not.
    """
    for name in files:
        if not _FILE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no file of a unit")
    return files


def _texts(values: list[str]) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"{values!r} are not names")
    return values


def _struct(content: dict[str, Any] | None) -> StructType | None:
    """Return the columns that JSON describes.

    Raises:
        ValueError: one of them is of a user-defined type. Spark would load its class, or unpickle it.
    """
    if content is None:
        return None
    if has_user_type(content):
        raise ValueError("a column is of a user-defined type")
    return StructType.fromJson(content)


def has_user_type(content: Any) -> bool:
    """Return whether the JSON of a type has a user-defined type in it."""
    if isinstance(content, dict):
        return content.get("type") == "udt" or any(map(has_user_type, content.values()))
    return isinstance(content, list) and any(map(has_user_type, content))
