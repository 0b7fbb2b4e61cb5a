"""A state that batches update, as Parquet files in a folder. A batch is in the state as a whole, or not at all.

The folder, while version 7 is in use::

    commit.json                    the state: version, batch, how keys are placed, sizes of the files by unit
    version=0000000005/unit=2/     files that version 7 still uses: unit 2 has got no rows since
    version=0000000006/unit=1/     files of the version before, for those who still read it
    version=0000000007/unit=1/

A batch first writes the files of the units that it changes into the folder of the next version. Then it replaces
commit.json. Then it removes the files that neither of the last two versions uses. A batch takes effect only when
commit.json is replaced. commit.json has the number of the batch, so the same batch is skipped when it comes again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from ...errors import SaltwiseError
from ...placement.function_json import PartitionFormatError
from ...placement.store import local_folder
from ...versioned_json import VersionedJsonError, is_part, replace_file
from .commit import Commit, Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

COMMIT = "commit.json"
UNIT = "unit"
"""The column by which rows are written to the files of units."""

ERRORS_OF_WRONG_VALUES = (
    PartitionFormatError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    PySparkException,
    TypeError,
    ValueError,
)
"""What reading a commit may raise if a value is not the one that was written. PySpark asserts types of a schema."""


class StatefulAggregateError(SaltwiseError):
    """A folder does not hold a state that can be used here. It is not changed."""

    def __init__(self, path: Path, why: str) -> None:
        reason = why.removesuffix(".")
        super().__init__(f"{str(path)!r} does not hold a state to continue, because {reason}; give another folder.")


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
        if self.path.exists() and not all(is_part(file.name, of=COMMIT) for file in self.path.iterdir()):
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
        except ERRORS_OF_WRONG_VALUES as error:
            raise StatefulAggregateError(self.path, f"the content of {COMMIT} is wrong: {error}") from error

    def rows(self, spark: SparkSession, state: StructType, files_of_units: Iterable[Files]) -> DataFrame:
        """Return the rows of files, after a check that no file is missing or has another length."""
        sizes = {name: size for files in files_of_units for name, size in files.items()}
        for name, size in sizes.items():
            file = self.path / name
            if not file.is_file() or file.stat().st_size != size:
                problem = f"has {file.stat().st_size} bytes" if file.is_file() else "is not there"
                raise StatefulAggregateError(self.path, f"{name} of {size} bytes {problem}")
        if not sizes:
            return spark.createDataFrame([], state)
        return spark.read.schema(state).parquet(*(_address(self.path / name) for name in sizes))

    def write(self, rows: DataFrame, version: int) -> dict[int, Files]:
        """Write rows as files of a version that is not in use yet, by their column "unit".

        Returns:
            The files of each unit.
        """
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


def _address(path: Path) -> str:
    return f"file://{path}"
