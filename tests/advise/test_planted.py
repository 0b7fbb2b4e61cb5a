"""Advice on the event logs of stock Spark: each planted skew is found, with its keys and the change that helps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.advise.planted import cases

from saltwise.advise import findings
from saltwise.advise.report import advise, event_logs

pytestmark = pytest.mark.slow

FEW = "healthy: even groups|groups that collide$|window whose keys collide|without PARTITION BY|below the threshold"
"""A group map, two windows and a join; tests/unit/test_findings.py has logs of every kind."""


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("cores", "names", "wait"),
    [
        (8, FEW, 0.001),
        # Rows wait long beside what a busy machine adds.
        pytest.param(8, "", 0.002, marks=pytest.mark.full),
        pytest.param(2, "", 0.002, marks=pytest.mark.full),
    ],
    ids=["few", "waiting", "computing"],
)
def test_what_is_skewed_is_found_and_what_is_healthy_is_not(
    tmp_path: Path, cores: int, names: str, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a fast machine the small queries here lose less than what is worth a change.
    monkeypatch.setattr(findings, "MIN_SECONDS", 0.25)
    script = Path(__file__).with_name("planted.py")
    options = {"--cores": cores, "--cases": names, "--wait": wait}
    arguments = [str(part) for option in options.items() for part in option]
    subprocess.run([sys.executable, str(script), str(tmp_path), "--cold", *arguments], check=True)
    found = {finding.description: finding for finding in advise(event_logs(tmp_path)).findings}
    wanted = {name: case.finds for name, case in cases(cores, names).items() if case.finds is not None}
    assert set(found) == set(wanted)
    for name, (kind, keys, advice) in wanted.items():
        assert (found[name].kind.value, found[name].keys) == (kind, keys), name
        assert advice in found[name].advice
    assert all((finding.figures.spilled > 0) == ("spills" in name) for name, finding in found.items())
