"""The list of what scikit-learn's own tests leave, and how it is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import peer_suites
from benchmarks.peers.left import LEFT, REASONS, reason_of


def outcome(test, outcome="passed", says=""):
    return {"test": test, "outcome": outcome, "uses": ["PathSVC"], "says": says}


def test_every_test_that_is_left_has_a_reason():
    assert set(LEFT.values()) <= set(REASONS)
    assert reason_of("test_bad_input[42-lil_matrix]") == "taken"
    assert reason_of("test_svc_iris") is None


@pytest.mark.parametrize(("test", "status"), [("test_bad_input[1]", 0), ("test_new", 1)])
def test_a_failure_that_is_not_on_the_list_is_one(
    test,
    status,
    monkeypatch,
    tmp_path,
    capsys,
):
    outcomes = [outcome("test_svc_iris"), outcome(test, "failed", "ValueError: no")]
    monkeypatch.setattr(peer_suites, "run_suite", lambda module, replaces: outcomes)
    assert peer_suites.main(["--suite", "svm", "--results", str(tmp_path)]) == status
    streams = capsys.readouterr()
    assert ("not on the list: svm: test_new" in streams.err) == bool(status)
    (kept,) = tmp_path.glob("*-peer-suites.md")
    assert test in kept.read_text()


def test_a_failure_under_the_backend_is_one_where_a_plain_run_passes(monkeypatch, tmp_path, capsys):
    outcomes = {
        "nothing": [outcome("test_both", "failed"), outcome("test_bad_input")],
        "backend": [outcome("test_both", "failed"), outcome("test_bad_input", "failed")],
    }
    monkeypatch.setattr(peer_suites, "run_suite", lambda module, replaces: outcomes[replaces])
    options = ["--suite", "backend_halving", "--results", str(tmp_path)]
    assert peer_suites.main(options) == 1
    streams = capsys.readouterr()
    assert "not on the list: backend_halving: test_bad_input" in streams.err
    assert "test_both" not in streams.err
    (line,) = [line for line in streams.out.splitlines() if "test_both" in line]
    assert peer_suites.FAILS_PLAIN in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replaces", "module", "tests", "met"),
    [
        ("SVC", "svm.tests.test_svm", "test_svc_clone or test_svr", ["PathSVC"]),
        (
            "backend",
            "model_selection.tests.test_search",
            "test_grid_search_precomputed_kernel or test_parameter_grid",
            ["backend"],
        ),
    ],
)
def test_the_suites_tests_meet_what_is_ours(replaces, module, tests, met, tmp_path):
    path = tmp_path / "outcomes.json"
    root = str(Path(peer_suites.__file__).parents[1])
    options = ["-p", "benchmarks.peers.plugin", "-p", "no:cacheprovider", "-q", "-k", tests]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--pyargs", f"sklearn.{module}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PEER_SUITE_RESULTS": str(path),
            "PEER_SUITE_REPLACES": replaces,
            "PYTHONPATH": root,
        },
    )
    assert path.exists(), done.stdout + done.stderr
    uses = [outcome["uses"] for outcome in json.loads(path.read_text())]
    assert met in uses
    assert [] in uses
