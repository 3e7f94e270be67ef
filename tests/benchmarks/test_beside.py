"""Ours and a peer on few rows; a program that does not end says why."""

from __future__ import annotations

import json

import pytest

from benchmarks.beside.__main__ import JOBS, OURS, about, main, programs, run


@pytest.mark.parametrize("job", list(JOBS))
def test_every_job_has_ours_and_peers_that_say_what_they_are(job):
    first, *peers = programs(job)
    assert first.stem == OURS
    assert peers
    for program in (first, *peers):
        compile(program.read_text(), program, "exec")
        assert len(about(program)) > 10


def test_ours_and_a_peer_find_the_same(tmp_path):
    small = ["--job", "grid", "--only", "scikit_learn", "--limit", "300", "--n-c", "3"]
    assert main([*small, "--n-gamma", "2", "--repeat", "1", "--results", str(tmp_path)]) == 0
    (kept,) = tmp_path.glob("*.json")
    ours, peer = json.loads(kept.read_text())["jobs"]["grid"]["lines"]
    assert ours["runs"][0]["cv_error"] == pytest.approx(peer["runs"][0]["cv_error"], abs=0.01)
    assert all(line["runs"][0]["peak_bytes"] > 5e7 for line in (ours, peer))
    assert "times ours" in kept.with_suffix(".md").read_text()


def test_a_program_that_does_not_end_says_why(tmp_path):
    program = tmp_path / "absent.py"
    program.write_text('"""One that is not there."""\nimport no_such_package\n')
    missing = run(program, tmp_path)
    assert missing == {"missing": "ModuleNotFoundError: No module named 'no_such_package'"}
