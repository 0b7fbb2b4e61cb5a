"""Keeps a partition function and its sliding counts between runs, in a folder."""

from __future__ import annotations

from pathlib import Path

from ..errors import SaltwiseError, SaltwiseValueError
from ..versioned_json import SealError, replace_file, seal, unseal
from .function_json import PartitionFormatError
from .history import Placement, PlacementHistory, Weights
from .partition_function import PartitionFunction

FORMAT = "saltwise placement store"
VERSION = 1
FILE = "placement.json"


class PlacementStoreError(SaltwiseError):
    """A folder does not hold a placement that can be used here; it is left as it is."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{str(path)!r} is no placement to go on with, because {why}; give another folder.")


class PlacementStore:
    """The placement of one group-by that runs again and again: a key stays with its worker from run to run.

    The folder gets one file, ``placement.json``: the partition function, the heavy keys of the last runs (10 million
    rows of them at least) by their 64-bit hashes, no key itself, a version and a checksum. It is replaced as a whole.
    Of two runs that plan at the same time, the last one's function stays.

    Args:
        path: a folder of this machine or one that is mounted; it is made by the first plan.

    Raises:
        SaltwiseValueError: the path is the address of a remote store, or names a file.

    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> run = Weights("bigint", np.array([7, 8, 9]), np.array([10.0, 20.0, 15.0]), total=45.0)
    >>> with TemporaryDirectory() as folder:
    ...     first = PlacementStore(folder).plan(run, workers=2)
    ...     again = PlacementStore(folder).plan(run, workers=3)
    >>> first.made_by, again.made_by, again.moved_keys
    ('largest first', 'readj', 1)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = local_folder(path)

    @property
    def function(self) -> PartitionFunction | None:
        """The function that the last run used; None before the first one.

        Raises:
            PlacementStoreError: the file is damaged, newer, or no placement.
        """
        return self._read().function

    def plan(self, run: Weights, workers: int, algorithm: str = "readj") -> Placement:
        """Choose the function of this run, keep it, and say what it costs.

        Args:
            run: what the keys of this run cost, as :func:`saltwise.weights_of` finds it.
            workers: N. Where the last run had another one, the function is scaled to this one.
            algorithm: readj, scan or redist, for all runs but the first one.

        Returns:
            The function, and b, m and the keys and rows whose worker is another one than in the last run.

        Raises:
            PlacementStoreError: the file is damaged, newer, no placement, or one of keys of another type.
            SaltwiseValueError: an argument is not allowed.
        """
        history = self._read()
        if history.function is not None and history.function.key_type != run.key_type:
            raise PlacementStoreError(
                self._file, f"it is of keys of type {history.function.key_type}, and these are of type {run.key_type}"
            )
        placement = history.next(run, workers, algorithm)
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self._file, seal(FORMAT, VERSION, history.to_content()))
        return placement

    @property
    def _file(self) -> Path:
        return self.path / FILE

    def _read(self) -> PlacementHistory:
        if not self._file.exists():
            return PlacementHistory()
        try:
            return PlacementHistory.from_content(unseal(self._file.read_text(encoding="utf-8"), FORMAT, VERSION))
        except SealError as error:
            raise PlacementStoreError(self._file, str(error)) from error
        except (PartitionFormatError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise PlacementStoreError(self._file, f"its content is wrong: {error}") from error


def local_folder(path: str | Path) -> Path:
    """Return the absolute path of a folder of this machine, which need not exist.

    Raises:
        SaltwiseValueError: it is the address of a remote store, or names a file.
    """
    if "://" in str(path):
        raise SaltwiseValueError(f"path is {str(path)!r}; it must be a folder of this machine, or one that is mounted.")
    folder = Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        raise SaltwiseValueError(f"path is {str(path)!r}, which is a file; it must be a folder.")
    return folder
