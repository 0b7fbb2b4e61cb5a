"""Advice on the event logs of stock Spark: each planted skew is found, with its keys and the change that helps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.planted import CASES

from saltwise.advise import findings
from saltwise.advise.report import advise, event_logs

pytestmark = pytest.mark.slow


@pytest.mark.smoke
@pytest.mark.parametrize("cores", [8, 2])
def test_what_is_skewed_is_found_and_what_is_healthy_is_not(
    tmp_path: Path, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a fast machine the small queries here lose less than what is worth a change.
    monkeypatch.setattr(findings, "MIN_SECONDS", 0.25)
    script = Path(__file__).with_name("planted.py")
    # Rows wait long beside what a busy machine adds.
    command = [sys.executable, str(script), str(tmp_path), "--cores", str(cores), "--cold", "--wait", "0.002"]
    subprocess.run(command, check=True)
    found = {each.description: each for each in advise(event_logs(tmp_path)).findings}
    wanted = {name: case.finds for name, case in CASES.items() if case.cores == cores and case.finds is not None}
    assert set(found) == set(wanted)
    for name, (kind, keys, advice) in wanted.items():
        assert (found[name].kind.value, found[name].keys) == (kind, keys), name
        assert advice in found[name].advice
    assert all((each.figures.spilled > 0) == ("spills" in name) for name, each in found.items())
