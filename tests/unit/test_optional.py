"""What the package says where a package of an extra is missing, and where one is broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from saltwise._optional import OptionalPackageError, required_by
from saltwise.errors import SaltwiseError


def test_a_missing_package_is_named_with_its_extra() -> None:
    with pytest.raises(SaltwiseError) as error, required_by("merge=", extra="arrow"):
        import no_such_package.part  # type: ignore[import-not-found]  # noqa: F401
    assert str(error.value) == "merge= needs no_such_package: run pip install 'saltwise[arrow]'."


def test_a_broken_package_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import json.no_such_part\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SaltwiseError) as error, required_by("merge=", extra="arrow"):
        import half_installed  # type: ignore[import-not-found]  # noqa: F401
    assert str(error.value) == (
        "merge= needs the packages of 'saltwise[arrow]', and one that is installed is broken: "
        "No module named 'json.no_such_part'."
    )


def test_only_the_first_cause_of_a_broken_package_is_printed() -> None:
    error = ImportError("\n\nIMPORTANT: PLEASE READ THIS\n\nImporting numpy failed.")
    error.__cause__ = ImportError("libblas.so: cannot open shared object file")
    with pytest.raises(SaltwiseError) as raised, required_by("merge=", extra="arrow"):
        raise error
    assert str(raised.value).endswith(" is broken: libblas.so: cannot open shared object file.")


def test_the_inner_feature_is_the_one_that_is_named() -> None:
    with pytest.raises(SaltwiseError, match=r"^The demo needs wordfreq"), required_by("register", extra="arrow"):
        raise OptionalPackageError.from_error("The demo", "demo", ModuleNotFoundError(name="wordfreq"))


def test_ready_made_aggregates_say_what_to_install() -> None:
    code = "import sys; sys.modules['datasketches'] = None; import saltwise.aggregates"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().endswith(
        "OptionalPackageError: saltwise.aggregates needs datasketches: run pip install 'saltwise[aggregates]'."
    )
