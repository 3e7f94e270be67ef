"""What the command survives, and how it goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from pipelines.run.progress import clock
from pipelines.run_folder.journal import Journal
from pipelines.svm_grid import main
from tests.command_runs import cells, record, start, summary, tasks_of, wait_for_tasks

from .conftest import LONGER, SMALL

pytestmark = pytest.mark.usefixtures("without_figures")


def workers_of(folder: Path) -> list[int]:
    return [worker["pid"] for worker in record(folder)["cluster"]["workers"]]


def test_an_interrupt_before_the_run_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipelines.run.job.run_job", interrupt)
    assert main([]) == 1
    assert capsys.readouterr().err == "svm_grid: stopped on request\n"


@pytest.mark.slow
def test_nobody_needs_to_listen(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with start("svm_grid", *SMALL, "--results", str(folder)) as program:
        assert program.stdout is not None
        program.stdout.close()
    assert record(folder)["status"] == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_is_resumed_and_ends_the_same(
    how: signal.Signals, tmp_path: Path, undisturbed: Path
) -> None:
    folder = tmp_path / "run"
    program = start("svm_grid", *LONGER, "--results", str(folder))
    wait_for_tasks(folder, 10, program)
    if how == signal.SIGINT:  # as a terminal does: to the whole group
        os.killpg(program.pid, how)
    else:
        program.send_signal(how)
    _, said = program.communicate()
    if how == signal.SIGKILL:
        assert program.returncode == -signal.SIGKILL
    else:
        assert program.returncode == 1
        assert said.strip().startswith("svm_grid: stopped on request; finished fits are saved in")
        assert len(said.splitlines()) == 1
        assert record(folder)["status"] == "stopped"
    before = (folder / "journal.jsonl").read_bytes()
    before = before[: before.rindex(b"\n") + 1]
    assert main(["--resume", str(folder), "--quiet"]) == 0
    after = (folder / "journal.jsonl").read_bytes()
    assert after.startswith(before), "a finished row was lost or computed anew"
    tasks = [json.loads(line)["task"] for line in after.splitlines()]
    assert len(tasks) == len(set(tasks)) == 100
    pd.testing.assert_frame_equal(cells(folder), cells(undisturbed))
    assert record(folder)["best"] == record(undisturbed)["best"]
    assert record(folder)["test_error"] == record(undisturbed)["test_error"]


def test_wall_time_and_workers_of_all_sessions_are_counted(
    tmp_path: Path, finished: tuple[Path, str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    # As a killed launcher leaves it: begun at 100 s on the clock, after 5 s of earlier sessions.
    left = tasks_of(folder)[0] | {"started": 130.0, "seconds": 10.0}
    (folder / "journal.jsonl").write_text(json.dumps(left) + "\n")
    about = record(folder)
    lost = {"address": "tcp://10.0.0.9:1", "host": "lost", "gpu": None}
    about |= {"status": "running", "wall_seconds": 5.0, "session_began": 100.0}
    about["cluster"]["workers"] = [lost]
    (folder / "run.json").write_text(json.dumps(about))
    assert main(["--resume", str(folder), "--quiet", "--workers", "1"]) == 0
    about = record(folder)
    assert about["wall_seconds"] > 45
    assert len(about["cluster"]["workers"]) == 2
    assert about["cluster"]["workers"][1] == lost
    assert about["cluster"]["n_workers"] == 1


def test_a_finished_run_has_nothing_to_resume(
    finished: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, said = finished
    before = {name: (folder / name).read_bytes() for name in ("run.json", "model.safetensors")}
    monkeypatch.setattr("pipelines.run.cluster.open_cluster", None)  # needs no cluster
    monkeypatch.chdir(folder)  # nor the directory it was begun in
    assert main(["--resume", str(folder)]) == 0
    assert summary(said, 5)[:-1] == summary(capsys.readouterr().out, 5)[:-1]
    assert before == {name: (folder / name).read_bytes() for name in before}


def test_a_second_resumption_changes_nothing(
    tmp_path: Path, finished: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    about = record(folder) | {"status": "running", "argv": ["the first"]}
    (folder / "run.json").write_text(json.dumps(about))
    with Journal(folder / "journal.jsonl"):
        assert main(["--resume", str(folder), "--workers", "1"]) == 2
    assert "is in use by another process; wait for it to end" in capsys.readouterr().err
    assert record(folder) == about


def test_a_dry_run_says_what_is_left_of_a_run(
    tmp_path: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    records = [task | {"seconds": 4.8} for task in tasks_of(folder)]
    some = records[:25]  # two minutes in all

    def write() -> None:
        (folder / "journal.jsonl").write_text("".join(json.dumps(one) + "\n" for one in some))

    write()
    about = record(folder) | {"status": "stopped", "wall_seconds": 90.0}
    about["cluster"]["n_workers"] = 2
    (folder / "run.json").write_text(json.dumps(about))

    def said(options: list[str]) -> str:
        assert main(["--resume", str(folder), "--dry-run", *options]) == 0
        (line,) = [one for one in capsys.readouterr().out.splitlines() if "resume" in one]
        return line

    done, left = (sum(one["cost"] for one in part) for part in (some, records[25:]))
    about_left = f"about {clock(120 / 2 * left / done)} with the same number of workers"
    assert said([]).endswith(f"75 left, {about_left}")
    for one in some:
        del one["cost"]  # of a journal without predictions
    write()
    before = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    assert said([]) == (
        f"resume     {folder}: 25 of 100 fits done in 1:30 min, 75 left, "
        "about 3:00 min with the same number of workers"
    )
    with Journal(folder / "journal.jsonl"):  # while another process goes on with it
        assert said([]).startswith("resume")
    assert {path: path.read_bytes() for path in sorted(folder.iterdir())} == before
    (folder / "journal.jsonl").unlink()
    assert said([]) == f"resume     {folder}: no fit is finished yet, 100 to do"
    (folder / "run.json").write_text(json.dumps(about | {"status": "finished"}))
    assert said([]) == f"resume     {folder} is finished; it took 1:30 min"


def test_a_run_is_gone_on_with_from_the_folds_that_a_long_task_left(
    tmp_path: Path, finished: tuple[Path, str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    lines = tasks_of(folder)
    told = lines[0] | {"task": "svm-gamma=… fold=1 3 C"}
    told["rows"] = [row for row in told["rows"] if row["fold"] == 1]
    lines[0] = told
    (folder / "journal.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    (folder / "run.json").write_text(json.dumps(record(folder) | {"status": "running"}))
    assert main(["--resume", str(folder), "--quiet", "--workers", "1"]) == 0
    after = tasks_of(folder)
    assert after[:3] == lines
    # On a busy machine the two folds may be a line each, as those of a long task are.
    assert {row["fold"] for one in after[3:] for row in one["rows"]} == {0, 2}
    pd.testing.assert_frame_equal(cells(folder), cells(finished[0]))


@pytest.mark.slow
def test_asking_again_does_not_disturb_the_closing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    program = start("svm_grid", *LONGER, "--results", str(folder))
    wait_for_tasks(folder, 3, program)
    program.send_signal(signal.SIGTERM)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate()
    assert program.returncode == 1
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith(
        "svm_grid: stopped on request; finished fits are saved in"
    )
    assert record(folder)["status"] == "stopped"


def test_a_killed_worker_costs_no_row(tmp_path: Path, undisturbed: Path) -> None:
    folder = tmp_path / "run"
    program = start("svm_grid", *LONGER, "--workers", "2", "--results", str(folder))
    wait_for_tasks(folder, 5, program)
    os.kill(workers_of(folder)[0], signal.SIGKILL)
    said, complaints = program.communicate()
    assert (program.returncode, complaints) == (0, ""), said
    pd.testing.assert_frame_equal(cells(folder), cells(undisturbed))


def test_a_journal_cut_in_its_last_record_loses_that_record_alone(
    tmp_path: Path, finished: tuple[Path, str]
) -> None:
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(finished[0]), str(folder)], check=True)
    journal = folder / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-40])
    (folder / "run.json").write_text(json.dumps(record(folder) | {"status": "running"}))
    assert main(["--resume", str(folder), "--quiet", "--workers", "1"]) == 0
    assert journal.read_bytes().count(b"\n") == whole.count(b"\n") == 3
    pd.testing.assert_frame_equal(cells(folder), cells(finished[0]))
