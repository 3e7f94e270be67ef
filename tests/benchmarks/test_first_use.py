"""The benchmark of a first use, with programs that take no time."""

import json

import pytest

from benchmarks import first_use
from pipelines.svm.cpu import first_use as start


@pytest.fixture
def programs(monkeypatch):
    ours = "import os, pathlib; p = pathlib.Path(os.environ['NUMBA_CACHE_DIR']); "
    ours += "sum(range(0 if (p / 'all').exists() else 30_000_000))"
    compiling = "import os, pathlib; p = pathlib.Path(os.environ['NUMBA_CACHE_DIR']) / 'all'; "
    monkeypatch.setattr(first_use, "COMPILING", compiling + "p.mkdir(parents=True)")
    monkeypatch.setattr(first_use, "JOBS", {"a job": (("-c", ours), ("-c", "pass"))})


def test_the_first_turn_finds_nothing_compiled_and_the_next_all(programs, tmp_path, capsys):
    assert first_use.main(["--results", str(tmp_path), "--repeats", "1"]) == 0
    (kept,) = tmp_path.glob("*.json")
    (line,) = json.loads(kept.read_text())["lines"]
    assert line["first"]["cpu"] > line["again"]["cpu"] > 0
    assert f"| a job | {line['first']['cpu']:.1f}, " in capsys.readouterr().out


def test_a_program_that_cannot_run_is_named(monkeypatch, tmp_path, capsys):
    broken = ("-c", "raise SystemExit('there is no such thing')")
    monkeypatch.setattr(first_use, "COMPILING", "pass")
    monkeypatch.setattr(first_use, "JOBS", {"a job": (broken, broken)})
    assert first_use.main(["--results", str(tmp_path)]) == 2
    assert "there is no such thing" in capsys.readouterr().err


def test_a_process_in_the_background_is_held_back(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv(start.SWITCH, "background")
    monkeypatch.setattr(start, "PROGRAM", "raise SystemExit('begun')")
    monkeypatch.setattr(start, "_processes", [])
    start.compile_meanwhile.cache_clear()
    with first_use.nothing_beside(tmp_path / "cache"):
        start.compile_meanwhile()
    assert not start._processes
    start.compile_meanwhile.cache_clear()


def test_the_median_of_each_turn_is_by_its_cpu_seconds():
    turns = [
        {"job": "a"} | {turn: {"cpu": cpu, "wall": 9.0 - cpu} for turn in ("first", "again", "SVC")}
        for cpu in (3.0, 1.0, 2.0)
    ]
    assert first_use._median(turns)["first"] == {"cpu": 2.0, "wall": 7.0}
