"""The list of what scikit-learn's own tests leave, and how it is kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import peer_suites
from benchmarks.peers.left import LEFT, REASONS, reason_of


def outcome(test: str, outcome: str = "passed", says: str = "") -> dict[str, Any]:
    return {"test": test, "outcome": outcome, "uses": ["PathSVC"], "says": says}


def test_every_test_that_is_left_has_a_reason() -> None:
    assert set(LEFT.values()) <= set(REASONS)
    assert reason_of("test_bad_input[42-lil_matrix]") == "taken"
    assert reason_of("test_svc_iris") is None


@pytest.mark.parametrize(("test", "status"), [("test_bad_input[1]", 0), ("test_new", 1)])
def test_a_failure_that_is_not_on_the_list_is_one(
    test: str,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = [outcome("test_svc_iris"), outcome(test, "failed", "ValueError: no")]
    monkeypatch.setattr(peer_suites, "run_suite", lambda module, replaces: found)
    assert peer_suites.main(["--suite", "svm", "--results", str(tmp_path)]) == status
    said = capsys.readouterr()
    assert ("not on the list: svm: test_new" in said.err) == bool(status)
    (kept,) = tmp_path.glob("*-peer-suites.md")
    assert test in kept.read_text()


@pytest.mark.slow
def test_the_suites_tests_meet_our_estimators(tmp_path: Path) -> None:
    program = """
import json, sys
import pytest
status = pytest.main(["-p", "benchmarks.peers.plugin", "-p", "no:cacheprovider", "-q",
                      "--pyargs", "sklearn.svm.tests.test_svm", "-k", "test_svc_clone or test_svr"])
"""
    path = tmp_path / "outcomes.json"
    root = str(Path(peer_suites.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PEER_SUITE_RESULTS": str(path), "PYTHONPATH": root},
    )
    assert path.exists(), done.stdout + done.stderr
    assert '"uses": ["PathSVC"]' in path.read_text()
    assert '"uses": []' in path.read_text()
