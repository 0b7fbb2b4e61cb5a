"""Packages that an extra of Saltwise installs: one sentence where one is missing, another where one is broken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import SaltwiseError


class OptionalPackageError(SaltwiseError, ImportError):
    """A package of an extra is not installed, or it is installed and cannot be imported."""

    @classmethod
    def from_error(cls, feature: str, extra: str, error: ImportError) -> OptionalPackageError:
        """Make the error for a feature that needs the package.

        >>> OptionalPackageError.from_error("The demo", "demo", ModuleNotFoundError(name="wordfreq"))
        OptionalPackageError("The demo needs wordfreq: run pip install 'saltwise[demo]'.")
        >>> print(OptionalPackageError.from_error("The demo", "demo", ImportError("pandas is too old")))
        The demo needs the packages of 'saltwise[demo]', and one that is installed is broken: pandas is too old.
        """
        # A missing part of a package, such as numpy._core, means that the package is there and broken.
        if isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name:
            return cls(f"{feature} needs {error.name}: run pip install 'saltwise[{extra}]'.")
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        reason = (str(root).strip() or type(root).__name__).split("\n")[0].removesuffix(".")
        return cls(
            f"{feature} needs the packages of 'saltwise[{extra}]', and one that is installed is broken: {reason}."
        )


@contextmanager
def required_by(feature: str, extra: str) -> Iterator[None]:
    """Import what a feature needs within this block, so that a failed import says which extra to install.

    Raises:
        OptionalPackageError: an import failed.

    >>> with required_by("The demo", extra="demo"):
    ...     import wordfreq
    """
    try:
        yield
    except OptionalPackageError:
        raise
    except ImportError as error:
        raise OptionalPackageError.from_error(feature, extra, error) from error
