"""What the commands survive, and how they go on: no row is lost, and none computed anew."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.run.progress import time_text
from pipelines.run_folder.journal import Journal
from pipelines.svm_grid import main
from tests.command_runs import (
    LONGER,
    SMALL,
    cells,
    command_line,
    record,
    start,
    summary,
    tasks_of,
    wait_for_tasks,
)

N_TASKS = {"svm_grid": 100, "cross_validate": 84, "nn_bagging": 4 * 3 + 4}
# What does not depend on which worker did it, beside the rows.
FACTS = {
    "svm_grid": ("best", "test_error"),
    "cross_validate": ("best", "test_scores", "fits_asked", "fits_made"),
    "nn_bagging": ("vote_test_error", "mean_test_error", "members", "selective_prediction"),
}


def assert_equal_runs(folder, expected):
    tables = (
        cells(run).drop(columns="n_steps_made", errors="ignore") for run in (folder, expected)
    )
    pd.testing.assert_frame_equal(*tables)
    for fact in FACTS[record(folder)["command"]]:
        assert record(folder)[fact] == record(expected)[fact]
    for path in expected.glob("member_probabilities.npz"):
        with np.load(folder / path.name) as ours, np.load(path) as theirs:
            np.testing.assert_array_equal(ours["probabilities"], theirs["probabilities"])
    assert len(list(folder.glob("members/*"))) == len(list(expected.glob("members/*")))


def left_off(finished, folder, **changes):
    """A copy of a run, as a killed launcher leaves it."""
    shutil.copytree(finished, folder)
    about = record(folder) | {"status": "running"} | changes
    (folder / "run.json").write_text(json.dumps(about))
    return folder


def write_journal(folder, lines):
    (folder / "journal.jsonl").write_text("".join(json.dumps(task) + "\n" for task in lines))


# Each command by another signal; svm_grid by others, too: tests/chaos, and behind Slurm.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "how", "n_tasks"),
    [
        ("svm_grid", signal.SIGINT, 10),
        ("cross_validate", signal.SIGTERM, 10),
        ("nn_bagging", signal.SIGKILL, 13),
    ],
)
def test_a_stopped_run_is_resumed_and_ends_the_same(
    command,
    how,
    n_tasks,
    tmp_path,
    undisturbed_of,
):
    folder = tmp_path / "run"
    program = start(command, *LONGER[command], "--results", str(folder))
    wait_for_tasks(folder, n_tasks, program)
    if how == signal.SIGINT:  # as a terminal does: to the whole group
        os.killpg(program.pid, how)
    else:
        program.send_signal(how)
        if how == signal.SIGTERM:  # asking again does not disturb the closing
            program.send_signal(signal.SIGINT)
    _, complaints = program.communicate()
    if how == signal.SIGKILL:
        assert program.returncode == -signal.SIGKILL
    else:
        assert program.returncode == 1
        lines = complaints.strip().splitlines()
        typed = command.replace("_", "-")
        assert lines[-1].startswith(f"{typed}: stopped on request; finished fits are saved in")
        assert "Traceback" not in complaints
        assert len(lines) == 1 or how == signal.SIGTERM
        assert record(folder)["status"] == "stopped"
    kept = (folder / "journal.jsonl").read_bytes()
    kept = kept[: kept.rindex(b"\n") + 1]
    resume = ["--resume", str(folder), "--quiet", "--cluster", "threads"]
    assert import_module(f"pipelines.{command}").main(resume) == 0
    after = (folder / "journal.jsonl").read_bytes()
    assert after.startswith(kept), "a finished row was lost or computed anew"
    tasks = [json.loads(line)["task"] for line in after.splitlines()]
    assert len(tasks) == len(set(tasks)) == N_TASKS[command]
    assert_equal_runs(folder, undisturbed_of(command))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["svm_grid", "cross_validate"])
def test_a_finished_run_has_nothing_to_resume(
    command,
    finished_of,
    capsys,
    monkeypatch,
):
    folder, output = finished_of(command)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.suffix != ".html"}
    monkeypatch.setattr("pipelines.run.cluster.open_cluster", None)  # needs no cluster
    monkeypatch.chdir(folder)  # nor the directory it was begun in
    assert import_module(f"pipelines.{command}").main(["--resume", str(folder)]) == 0
    assert summary(output, 5)[:-1] == summary(capsys.readouterr().out, 5)[:-1]
    assert before == {path: path.read_bytes() for path in before}


@pytest.mark.slow
def test_tasks_of_shared_fits_are_resumed_in_part(tmp_path, finished_of):
    """Of a group some rows are there: the others come out as if all had been fitted together."""
    finished, _ = finished_of("cross_validate")
    folder = left_off(finished, tmp_path / "copy")
    write_journal(folder, [task | {"rows": task["rows"][:1]} for task in tasks_of(folder)])
    resume = ["--resume", str(folder), "--quiet", "--cluster", "threads"]
    assert import_module("pipelines.cross_validate").main(resume) == 0
    counters = ["n_fits", "n_steps", "n_steps_made"]
    tables = (cells(run).drop(columns=counters) for run in (folder, finished))
    pd.testing.assert_frame_equal(*tables)


def test_a_run_is_gone_on_with_from_the_folds_that_a_long_task_left(tmp_path, finished_of):
    finished, _ = finished_of("svm_grid")
    folder = left_off(finished, tmp_path / "copy")
    lines = tasks_of(folder)
    rows = [row for row in lines[0]["rows"] if row["fold"] == 1]
    lines[0] |= {"task": "svm-gamma=… fold=1 3 C", "rows": rows}
    write_journal(folder, lines)
    assert main(["--resume", str(folder), "--quiet", "--cluster", "threads"]) == 0
    after = tasks_of(folder)
    assert after[:3] == lines
    # On a busy machine the two folds may be a line each, as those of a long task are.
    assert {row["fold"] for task in after[3:] for row in task["rows"]} == {0, 2}
    assert_equal_runs(folder, finished)


def test_wall_time_and_workers_of_all_sessions_are_counted(tmp_path, finished_of):
    finished, _ = finished_of("svm_grid")
    lost = {"address": "tcp://10.0.0.9:1", "host": "lost", "gpu": None}
    # Begun at 100 s on the clock, after 5 s of earlier sessions.
    began = {"wall_seconds": 5.0, "session_began": 100.0}
    cluster = record(finished)["cluster"] | {"workers": [lost]}
    folder = left_off(finished, tmp_path / "copy", cluster=cluster, **began)
    write_journal(folder, [tasks_of(folder)[0] | {"started": 130.0, "seconds": 10.0}])
    assert main(["--resume", str(folder), "--quiet", "--cluster", "threads", "--workers", "1"]) == 0
    about = record(folder)
    assert about["wall_seconds"] > 45
    assert about["cluster"]["workers"][1:] == [lost]
    assert about["cluster"]["n_workers"] == 1


def test_a_second_resumption_changes_nothing(
    tmp_path,
    finished_of,
    capsys,
):
    folder = left_off(finished_of("svm_grid")[0], tmp_path / "copy", argv=["the first"])
    about = record(folder)
    with Journal(folder / "journal.jsonl"):
        assert main(["--resume", str(folder), "--workers", "1"]) == 2
    assert "is in use by another process; wait for it to end" in capsys.readouterr().err
    assert record(folder) == about


def test_a_dry_run_says_what_is_left_of_a_run(tmp_path, undisturbed_of, capsys):
    finished = undisturbed_of("svm_grid")
    cluster = record(finished)["cluster"] | {"n_workers": 2}
    folder = left_off(
        finished, tmp_path / "run", status="stopped", wall_seconds=90.0, cluster=cluster
    )
    lines = [task | {"seconds": 4.8} for task in tasks_of(folder)]
    first_lines = lines[:25]  # two minutes in all

    def resume_line():
        assert main(["--resume", str(folder), "--dry-run"]) == 0
        (line,) = [text for text in capsys.readouterr().out.splitlines() if "resume" in text]
        return line

    write_journal(folder, first_lines)
    done, cost_left = (sum(task["cost"] for task in part) for part in (first_lines, lines[25:]))
    about_left = f"about {time_text(120 / 2 * cost_left / done)} with the same number of workers"
    assert resume_line().endswith(f"25 of 100 fits done in 1:30 min, 75 left, {about_left}")
    before = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    with Journal(folder / "journal.jsonl"):  # while another process goes on with it
        assert resume_line().startswith("resume")
    assert {path: path.read_bytes() for path in sorted(folder.iterdir())} == before
    (folder / "journal.jsonl").unlink()
    assert resume_line() == f"resume     {folder}: no fit is finished yet, 100 to do"


@pytest.mark.slow
def test_ctrl_c_ends_a_run_on_threads_at_once_with_its_rows(tmp_path):
    """The task at work cannot be ended, and the program does not wait for it."""
    folder = tmp_path / "run"
    long = ["--cluster", "threads", "--n-c", "60", "--n-gamma", "500", "--results", str(folder)]
    program = start("svm_grid", *long)
    wait_for_tasks(folder, 3, program)
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate()
    assert program.returncode == 1, errors
    assert "stopped on request; finished fits are saved in" in errors
    assert len(errors.splitlines()) == 1
    assert record(folder)["status"] == "stopped"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_what_a_terminal_sends_to_all_processes_ends_a_run_in_a_line(number, tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored
    try:
        folder = tmp_path / "run"
        long = ["--cluster", "local", "--n-c", "60", "--n-gamma", "500", "--results", str(folder)]
        program = start("svm_grid", *long)
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_for_tasks(folder, 3, program)
    os.killpg(program.pid, number)
    _, errors = program.communicate()
    assert program.returncode == 1, errors
    assert "stopped on request; finished fits are saved in" in errors
    assert len(errors.splitlines()) == 1, errors
    assert record(folder)["status"] == "stopped"


def test_an_interrupt_before_the_run_is_one_line(monkeypatch, capsys):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("pipelines.run.job.run_job", interrupt)
    assert main([]) == 1
    assert capsys.readouterr().err == "svm-grid: stopped on request\n"


@pytest.mark.slow
@pytest.mark.parametrize("line", ['"$@" | true', '"$@" >&- 2>&-'])
def test_nobody_needs_to_listen(line, tmp_path):
    """``"$@"`` in the line of bash is the command."""
    folder = tmp_path / "run"
    small = [*SMALL["svm_grid"], "--cluster", "threads"]
    words = command_line("svm_grid", *small, "--results", str(folder))
    shell = ["bash", "-o", "pipefail", "-c", line, "bash", *words]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert record(folder)["status"] == "finished"


@pytest.mark.slow
def test_an_ascii_terminal(finished_of):
    done = subprocess.run(
        command_line("svm_grid", "--resume", str(finished_of("svm_grid")[0])),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.stderr == ""
    assert " % ? " in done.stdout  # for the sign of plus and minus


def test_a_working_directory_that_is_gone(tmp_path):
    words = command_line("svm_grid", "--dry-run", "--cluster", "local")
    line = f'mkdir {tmp_path}/gone; cd {tmp_path}/gone; rmdir {tmp_path}/gone; "$@"'
    done = subprocess.run(
        ["bash", "-c", line, "bash", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert done.returncode == 2
    (message,) = done.stderr.splitlines()
    assert "the working directory no longer exists" in message


ENDLESS = """
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sklearn.dummy import DummyClassifier


class Endless(DummyClassifier):
    def fit(self, X, y):
        Path("begun").touch()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(threading.Event().wait).result()
"""
AS_A_COMMAND = """
import sys
from pipelines.cross_validate import main

sys.exit(main())
"""
FROM_PYTHON = """
import os
from pipelines import cross_validate

try:
    cross_validate.run(estimator="endless.Endless", cluster="threads", results="run")
except RuntimeError as error:
    print(f"the caller goes on: {error}", flush=True)
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "status"), [(AS_A_COMMAND, 1), (FROM_PYTHON, 0)], ids=["command", "Python"]
)
def test_nobody_waits_for_a_thread_that_nothing_interrupts(script, status, tmp_path):
    (tmp_path / "endless.py").write_text(ENDLESS)
    words = ["--estimator", "endless.Endless", "--cluster", "threads", "--results", "run"]
    program = subprocess.Popen(
        [sys.executable, "-c", script, *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "begun").exists():
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)
    program.send_signal(signal.SIGINT)
    output, complaint = program.communicate()
    assert program.returncode == status, complaint
    stopped = "stopped on request; nothing has finished yet in run; resume with"
    assert stopped in (complaint if status else output)
    assert len(complaint.splitlines()) == status
    assert record(tmp_path / "run")["status"] == "stopped"
