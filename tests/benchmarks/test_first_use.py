"""The benchmark of a first use, with programs that take no time."""

import json

import pytest

from benchmarks import first_use


@pytest.fixture
def programs(monkeypatch):
    ours = "import os, pathlib; p = pathlib.Path(os.environ['NUMBA_CACHE_DIR']); "
    ours += "sum(range(0 if p.exists() else 30_000_000)); p.mkdir(exist_ok=True)"
    monkeypatch.setattr(first_use, "JOBS", {"a job": (("-c", ours), ("-c", "pass"))})


def test_the_first_turn_finds_nothing_compiled_and_the_next_what_it_left(
    programs, tmp_path, capsys
):
    assert first_use.main(["--results", str(tmp_path)]) == 0
    (kept,) = tmp_path.glob("*.json")
    (line,) = json.loads(kept.read_text())["lines"]
    assert line["first"]["cpu"] > line["again"]["cpu"] > 0
    assert f"| a job | {line['first']['cpu']:.1f}, " in capsys.readouterr().out


def test_a_program_that_cannot_run_is_named(monkeypatch, tmp_path, capsys):
    broken = ("-c", "raise SystemExit('there is no such thing')")
    monkeypatch.setattr(first_use, "JOBS", {"a job": (broken, broken)})
    assert first_use.main(["--results", str(tmp_path)]) == 2
    assert "there is no such thing" in capsys.readouterr().err
