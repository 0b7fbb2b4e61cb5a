"""A state that batches update, as Parquet files in a folder: each batch is there as a whole, or not at all.

The folder, while version 7 is in use::

    commit.json                    the state: version, batch, how keys are placed, sizes of the files by unit
    version=0000000005/unit=2/     files that version 7 still uses: unit 2 has got no rows since
    version=0000000006/unit=1/     files of the version before, for those who still read it
    version=0000000007/unit=1/

A batch first writes the files of the units that it touches into the folder of the next version. Then it replaces
commit.json. Then it removes the files that neither of the last two versions uses. A batch takes effect only when
commit.json is replaced. commit.json names the batch, so the same batch is skipped when it comes again.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from ..errors import SaltwiseError, check_whole
from ..placement.function_json import PartitionFormatError
from ..placement.history import PlacementHistory, counts_from_content, counts_to_content
from ..placement.result import Placement, costs_from_content, costs_to_content
from ..placement.store import local_folder
from ..rebalancing.key_group_history import KeyGroupHistory
from ..sketches.sliding_counts import SlidingCounts
from ..versioned_json import PART, VersionedJsonError, dump_versioned, load_versioned, replace_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "saltwise stateful aggregate"
VERSION = 2
COMMIT = "commit.json"
UNIT = "unit"

Files = dict[str, int]
"""Path in the folder, to its length in bytes."""

MAX_VERSION = 10**10 - 2
"""The name of a folder has ten digits, and the next version needs one too."""

MAX_LONG = (1 << 63) - 1

WRONG = (
    PartitionFormatError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    PySparkException,
    TypeError,
    ValueError,
)
"""What reading values raises that are not those that were written. PySpark asserts what it reads of a schema."""

Names = TypeVar("Names", Files, list[str])
_NAME = re.compile(r"version=\d{10}/unit=-?\d{1,10}/[\w.-]{1,200}\.parquet", re.ASCII)
"""What Spark calls a file. Names of more than 255 bytes are errors of the file system."""


class StatefulAggregateError(SaltwiseError):
    """A folder does not hold a state that can be used here. It is not changed."""

    def __init__(self, path: Path, why: str) -> None:
        reason = why.removesuffix(".")
        super().__init__(f"{str(path)!r} does not hold a state to continue, because {reason}; give another folder.")


@dataclass(frozen=True)
class Commit:
    """The content of commit.json."""

    version: int
    """Number of commits so far."""
    batch: int | None
    """The last batch in the state; None before the first one."""
    history: PlacementHistory | KeyGroupHistory
    heads: SlidingCounts[int | None] | None
    """The rows of heavy keys in the recent past, if such keys are split."""
    latest: int | None
    """The latest time of a row, in microseconds since 1970, if rows have a time."""
    files: dict[int, Files]
    """The files of each unit."""
    previous: tuple[str, ...]
    """Files of the previous version."""
    state: StructType | None
    """The columns of the files: keys k0 ..., hash, split, seen, rows, and the parts p0_0 ... of each aggregate."""
    result: StructType | None
    """Names and types of the columns that users see."""
    shown: dict[str, str]
    """Name of each aggregate, to Spark's text of it."""
    functions: list[str]
    """The function of each aggregate, in order."""
    placement: Placement | None
    """The placement of the last batch."""

    def to_json(self) -> str:
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
                "aggregates": self.shown,
                "functions": self.functions,
                "state": None if self.state is None else self.state.jsonValue(),
                "result": None if self.result is None else self.result.jsonValue(),
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
        kept = content["history"]
        history = KeyGroupHistory.from_content(kept) if "groups" in kept else PlacementHistory.from_content(kept)
        files = {int(unit): _inside(sizes) for unit, sizes in content["files"].items()}
        if isinstance(history, KeyGroupHistory) and max(files, default=0) >= history.groups:
            raise ValueError(f"it has files of key group {max(files)}, and there are {history.groups}")
        for size in (size for sizes in files.values() for size in sizes.values()):
            check_whole("the size of a file", size, 0, MAX_LONG)
        costs = content["placement"]
        return cls(
            content["state_version"],
            content["batch"],
            history,
            None if content["heads"] is None else counts_from_content(content["heads"]),
            content["latest"],
            files,
            tuple(_inside(content["previous"])),
            _struct(content["state"]),
            _struct(content["result"]),
            dict(content["aggregates"]),
            _texts(content["functions"]),
            None if costs is None or history.function is None else costs_from_content(history.function, costs),
        )


class StateFolder:
    """Reads and writes the folder.

    Args:
        path: it need not exist.
        first: its content if it does not exist or is empty.

    Raises:
        SaltwiseValueError: the path cannot be a folder of this machine.
        StatefulAggregateError: it holds something else, or is damaged or newer.
    """

    def __init__(self, path: str | Path, first: Commit) -> None:
        self.path = local_folder(path)
        if self.path.exists() and {file.name for file in self.path.iterdir()} - {COMMIT + PART}:
            self.read()
        else:
            self.path.mkdir(parents=True, exist_ok=True)
            replace_file(self.path / COMMIT, first.to_json())

    def read(self) -> Commit:
        """Return the commit in use."""
        try:
            return Commit.from_json((self.path / COMMIT).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise StatefulAggregateError(self.path, f"it has other files but no {COMMIT}") from error
        except VersionedJsonError as error:
            raise StatefulAggregateError(self.path, f"of {COMMIT}: {error}") from error
        except WRONG as error:
            raise StatefulAggregateError(self.path, f"the content of {COMMIT} is wrong: {error}") from error

    def rows(self, spark: SparkSession, state: StructType, each: Iterable[Files]) -> DataFrame:
        """Return the rows of files, after a check that all of them are there."""
        sizes = {name: size for files in each for name, size in files.items()}
        for name, size in sizes.items():
            file = self.path / name
            if not file.is_file() or file.stat().st_size != size:
                found = f"has {file.stat().st_size} bytes" if file.is_file() else "is not there"
                raise StatefulAggregateError(self.path, f"{name} of {size} bytes {found}")
        if not sizes:
            return spark.createDataFrame([], state)
        return spark.read.schema(state).parquet(*(_address(self.path / name) for name in sizes))

    def write(self, rows: DataFrame, version: int) -> dict[int, Files]:
        """Write rows as files of a version that is not in use yet, by their column "unit"."""
        folder = self.path / f"version={version:010d}"
        if folder.exists():
            shutil.rmtree(folder)  # left by a batch that was not committed
        rows.write.partitionBy(UNIT).parquet(_address(folder))
        return {
            int(unit.name.removeprefix(f"{UNIT}=")): {
                file.relative_to(self.path).as_posix(): file.stat().st_size for file in sorted(unit.glob("*.parquet"))
            }
            for unit in sorted(folder.glob(f"{UNIT}=*"))
        }

    def commit(self, new: Commit) -> None:
        """Let a commit take effect, and remove the files that neither it nor the one before uses."""
        replace_file(self.path / COMMIT, new.to_json())
        names = {name for files in new.files.values() for name in files} | set(new.previous)
        used = {str(Path(name).parent) for name in names}
        for version in sorted(self.path.glob("version=*")):
            units = sorted(version.glob(f"{UNIT}=*"))
            unused = [unit for unit in units if unit.relative_to(self.path).as_posix() not in used]
            for folder in unused if len(unused) < len(units) else [version]:
                shutil.rmtree(folder)


def _inside(files: Names) -> Names:
    """Return the names of files, after a check that they lie in the folder.

    Raises:
        ValueError: one of them does not.
    """
    for name in files:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no file of a unit")
    return files


def _texts(values: list[str]) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"{values!r} are not names")
    return values


def _struct(content: dict[str, Any] | None) -> StructType | None:
    """Return the columns that JSON describes.

    Raises:
        ValueError: it names a user-defined type. Spark would load its class, or unpickle it.
    """
    if content is None:
        return None
    if has_user_type(content):
        raise ValueError("a column is of a user-defined type")
    return StructType.fromJson(content)


def has_user_type(content: Any) -> bool:
    """Whether the JSON of a type names a user-defined one."""
    if isinstance(content, dict):
        return content.get("type") == "udt" or any(map(has_user_type, content.values()))
    return isinstance(content, list) and any(map(has_user_type, content))


def _address(path: Path) -> str:
    return f"file://{path}"
