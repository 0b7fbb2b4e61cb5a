"""Keeps a partition function and its sliding counts between runs, in a folder."""

from __future__ import annotations

from pathlib import Path

from ..addresses import is_address
from ..errors import SaltwiseError, SaltwiseValueError
from ..versioned_json import VersionedJsonError, dump_versioned, load_versioned, replace_file
from .aims import Aims
from .function_json import PartitionFormatError
from .history import PlacementHistory
from .partition_function import PartitionFunction
from .result import Placement
from .weights import Weights

FORMAT = "saltwise placement store"
VERSION = 1
FILE = "placement.json"


class PlacementStoreError(SaltwiseError):
    """A folder does not hold a placement that can be used here. Nothing in it is changed."""

    def __init__(self, path: Path, why: str) -> None:
        reason = why.removesuffix(".")
        super().__init__(f"{str(path)!r} cannot be used as a placement store, because {reason}; give another folder.")


class PlacementStore:
    """The placement of one group-by that runs again and again: a key stays with its worker from run to run.

    The folder gets one file, ``placement.json``. It holds the partition function, the 64-bit hashes of the heavy keys
    of the last runs (at least 10 million rows), a version and a checksum, but no keys. The file is replaced as a whole.
    If two runs plan at the same time, the function of the last one stays.

    Args:
        path: a folder of this machine, or a mounted one. The first plan makes it.
        resources: letters of the resource functions beta of state, computation and communication: C (constant), L
            (linear) or Q (quadratic), of the rows of a key.
        alpha: the largest load by the smallest that is tolerated, above 1.
        sigma: the part of the tolerated imbalance that one key without a worker of its own may use, above 0 and at
            most 1.
        utility: how imbalance and migration are weighed: A, APM, APLM, ATM or ATLM, as
            :func:`saltwise.placement.construct.construct` says.
        domain: |D|, the number of different keys; needed if a resource is quadratic.

    Raises:
        SaltwiseValueError: the path is the address of a remote store, or names a file, or an option is not allowed.

    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> run = Weights("bigint", np.array([7, 8, 9]), np.array([10.0, 20.0, 15.0]), total=45.0)
    >>> with TemporaryDirectory() as folder:
    ...     first = PlacementStore(folder).plan(run, workers=2)
    ...     again = PlacementStore(folder).plan(run, workers=3)
    >>> first.made_by, again.made_by, again.moved_keys
    ('largest first', 'level', 1)
    """

    def __init__(
        self,
        path: str | Path,
        resources: str = Aims.resources,
        alpha: float = Aims.alpha,
        sigma: float = Aims.sigma,
        utility: str = Aims.utility,
        domain: int | None = Aims.domain,
    ) -> None:
        self.aims = Aims(resources=resources, alpha=alpha, sigma=sigma, utility=utility, domain=domain)
        self.path = local_folder(path)

    @property
    def function(self) -> PartitionFunction | None:
        """The function that the last run used; None before the first one.

        Raises:
            PlacementStoreError: the file is damaged, newer, or not a placement.
        """
        return self._read().function

    def plan(self, run: Weights, workers: int, algorithm: str = "level") -> Placement:
        """Choose the function of this run, keep it, and say what it costs.

        Args:
            run: what the keys of this run cost, as :func:`saltwise.weights_of` finds it.
            workers: N. If the last run had another number, the function is scaled to this one.
            algorithm: level, readj, scan or redist, for every run but the first.

        Returns:
            The function, b, m, and how many keys and rows have another worker than in the last run.

        Raises:
            PlacementStoreError: the file is damaged, newer, not a placement, or has keys of another type.
            SaltwiseValueError: an argument is not allowed.
        """
        history = self._read()
        if history.function is not None and history.function.key_type != run.key_type:
            raise PlacementStoreError(
                self._file, f"it is of keys of type {history.function.key_type}, and these are of type {run.key_type}"
            )
        placement = history.next(run, workers, algorithm)
        self.path.mkdir(parents=True, exist_ok=True)
        replace_file(self._file, dump_versioned(FORMAT, VERSION, history.to_content()))
        return placement

    @property
    def _file(self) -> Path:
        return self.path / FILE

    def _read(self) -> PlacementHistory:
        if not self._file.exists():
            return PlacementHistory(self.aims)
        try:
            return PlacementHistory.from_content(
                load_versioned(self._file.read_text(encoding="utf-8"), FORMAT, VERSION), self.aims
            )
        except VersionedJsonError as error:
            raise PlacementStoreError(self._file, str(error)) from error
        except (PartitionFormatError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise PlacementStoreError(self._file, f"its content is wrong: {error}") from error


def local_folder(path: str | Path) -> Path:
    """Return the absolute path of a folder of this machine, which need not exist.

    Raises:
        SaltwiseValueError: it is the address of a remote store, or names a file.
    """
    if is_address(path):
        raise SaltwiseValueError(f"path is {str(path)!r}; it must be a folder of this machine, or one that is mounted.")
    folder = Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        raise SaltwiseValueError(f"path is {str(path)!r}, which is a file; it must be a folder.")
    return folder
