"""Ours and one peer on few rows; a peer that is not there is named, not hidden."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks.beside.__main__ import JOBS, main
from benchmarks.beside.measure import OURS, about, lines_of, programs, run


@pytest.mark.parametrize("job", JOBS)
def test_every_job_has_ours_and_peers_that_say_what_they_are(job):
    found = programs(job)
    assert found[0].stem == OURS
    assert len(found) > 2
    for program in found:
        compile(program.read_text(), program, "exec")
        assert len(about(program)) > 10
        assert 5 < lines_of(program) < 40


def test_ours_and_a_peer_find_the_same(tmp_path):
    small = ["--job", "grid", "--only", "scikit_learn", "--limit", "300", "--n-c", "3"]
    asked = [*small, "--n-gamma", "2", "--repeat", "1", "--results", str(tmp_path)]
    assert main(asked) == 0
    (kept,) = tmp_path.glob("*.json")
    ours, peer = json.loads(kept.read_text())["jobs"]["grid"]["lines"]
    assert ours["runs"][0]["cv_error"] == pytest.approx(peer["runs"][0]["cv_error"], abs=0.01)
    assert all(one["runs"][0]["peak_bytes"] > 5e7 for one in (ours, peer))
    assert "times as long as ours" in kept.with_suffix(".md").read_text()


def test_a_program_that_does_not_end_says_why(tmp_path):
    program = tmp_path / "absent.py"
    program.write_text('"""One that is not there."""\nimport no_such_package\n')
    found = run(sys.executable, program, tmp_path)
    assert found == {"missing": "ModuleNotFoundError: No module named 'no_such_package'"}


def test_a_python_that_is_not_there_is_one_line(tmp_path, capsys):
    small = ["--job", "grid", "--only", "none", "--limit", "300", "--n-c", "2", "--n-gamma", "1"]
    asked = [*small, "--repeat", "1", "--results", str(tmp_path), "--python", "/no/python"]
    assert main(asked) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--python must be a Python that starts, got /no/python" in line
