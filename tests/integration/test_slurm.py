"""Runs behind a real Slurm, disturbed in every way that a queue knows."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from cluster_setup import ClusterError, open_cluster
from cluster_setup.workers import forecast_workers, workers_present
from pipelines.run.runners import OnCluster
from pipelines.svm_grid import main
from tests.command_runs import cells, record

from .conftest import SECONDS_TO_WAIT, jobs_in_queue, scontrol, wait_until, worker_processes
from .naps import all_done, begun, naps

Profile = Callable[..., str]
ROOT = Path(__file__).parents[2]
FIND_DASK_CUDA = "import importlib.util as u, sys; sys.exit(u.find_spec('dask_cuda') is None)"
COMMAND = [sys.executable, "-m", "pipelines.svm_grid"]
SMALL = ["--limit", "400", "--n-c", "3", "--n-gamma", "3", "--folds", "3"]
# A solver that shares nothing, so that there are many tasks to disturb.
LONGER = ["--solver", "sklearn"]


def test_a_run_equals_the_local_one(profile, shared, tmp_path):
    here, on_slurm = tmp_path / "local", tmp_path / "slurm"
    assert main([*SMALL, "--cluster", "threads", "--results", str(here)]) == 0
    where = ["--cluster", "slurm", "--profile", profile(), "--workers", "3"]
    done = subprocess.run(
        [*COMMAND, *SMALL, *where, "--results", str(on_slurm)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    pd.testing.assert_frame_equal(cells(on_slurm), cells(here))
    about = record(on_slurm)
    assert about["cluster"]["kind"] == "slurm"
    assert about["cluster"]["workers"][0]["address"].startswith("tls://")
    assert list(shared.iterdir()) == []


SCRIPT = """
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

class Mine(DecisionTreeClassifier):
    pass

X, y = load_iris(return_X_y=True)
machine = GridSearchCV(SVC(), {"C": [1, 10, 100], "gamma": [0.01, 0.1]}, cv=3).fit(X, y)
print(machine.cv_results_["mean_test_score"].tolist())
print(cross_val_score(Mine(random_state=0), X, y).tolist())
"""


def test_a_script_whose_searches_run_on_the_queue(profile, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    words = ["--cluster", "slurm", "--profile", profile(), "--workers", "2", "script.py"]
    plain, ours = (
        subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        for command in (["script.py"], ["-m", "pipelines.accelerate", *words])
    )
    assert ours.stdout == plain.stdout
    assert "GridSearchCV(SVC): 18 fits asked, 6 made, " in ours.stderr
    assert "cross_val_score(Mine): 5 fits asked, 5 made, " in ours.stderr


def test_paths_with_blanks_and_marks(profile, tmp_path, monkeypatch):
    monkeypatch.setenv("SCRATCH_HERE", str(tmp_path / "my scratch"))
    odd = """100% it's "#1" $ & %j é"""
    (tmp_path / odd).symlink_to(sys.prefix)
    settings = {
        "shared_folder": f"$SCRATCH_HERE/{odd}",
        "local_directory": f"$SCRATCH_HERE/local {odd}",
        "python": str(tmp_path / odd / "bin" / "python"),
        "directives": ["#SBATCH --comment='a b'"],
        "memory": "900M",
        "walltime": "0-00:10",
    }
    with open_cluster("slurm", 1, profile=profile(**settings)) as client:
        (folder,) = (tmp_path / "my scratch" / odd).iterdir()
        (job,) = jobs_in_queue()
        assert (folder / f"{job}.log").exists()
        (worker,) = client.scheduler_info()["workers"].values()
        assert worker["local_directory"].startswith(f"{tmp_path}/my scratch/local {odd}/")


def test_a_walltime_shorter_than_the_run(profile):
    # Workers leave 10 s before it and up to 5 s to either side; Slurm itself counts in minutes.
    with open_cluster("slurm", 4, profile=profile(walltime="00:00:30")) as client:
        outcomes, rest = begun(client, 120, 1.0)
        before = set(jobs_in_queue())
        outcomes += rest
        assert all_done(outcomes, 120)
        assert not before & set(jobs_in_queue())


def test_the_run_does_not_wait_for_jobs_that_wait(profile):
    work, tasks = naps(12, 0.1)
    with open_cluster("slurm", 6, profile=profile(directives=["--gres=gpu:2"])) as client:
        assert all_done(list(OnCluster(client).outcomes(work, 100, tasks)), 12)
        wait_until(lambda: len(client.scheduler_info()["workers"]) == 4)
        assert len(jobs_in_queue()) == 6
        ahead = forecast_workers(client)
        assert (ahead.wanted, ahead.coming, ahead.reason) == (6, True, None)


def test_a_full_queue_is_waited_for_and_said(profile):
    echoed_lines = []

    def echo(line):
        echoed_lines.append(line)
        if "will not start" in line:
            scontrol("partitionname=all", "state=up")

    scontrol("partitionname=all", "state=down")
    try:
        with open_cluster("slurm", 2, profile=profile(), echo=echo) as client:
            assert client.submit(sum, (1, 2)).result() == 3
    finally:
        scontrol("partitionname=all", "state=up")
    # At the first look the second job may still be on its way.
    waiting = r"queue      (1 job|2 jobs) waiting \(PartitionDown\)"
    assert re.fullmatch(waiting, echoed_lines[0])
    way_out = "its administrators have closed the partition; change partition in the profile"
    assert any(
        re.fullmatch(rf"{waiting}; . will not start by \w+: {way_out}", line)
        for line in echoed_lines
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cores": 64}, "the partition does not have what a job asks for; change cores (64), "),
        ({"directives": ["--hold"]}, "a job is held; scontrol release "),
        ({"walltime": "02:00:00"}, "a job may not be that long; change walltime (02:00:00), "),
    ],
)
def test_jobs_that_will_not_start_are_said_with_what_to_change(profile, tmp_path, changes, words):
    log = tmp_path / "said"
    scontrol("partitionname=all", "maxtime=60")
    try:
        with log.open("w") as stdout:
            launcher = _start(profile(**changes), "--results", str(tmp_path / "run"), stdout=stdout)
            line = f"; 2 will not start by themselves: {words}"
            wait_until(lambda: line in log.read_text())
    finally:
        launcher.send_signal(signal.SIGTERM)
        launcher.wait()
        scontrol("partitionname=all", "maxtime=infinite")


def test_who_is_there_is_told_when_all_jobs_are_cancelled_and_none_may_start(
    profile,
):
    echoed_lines = []
    with open_cluster("slurm", 2, profile=profile(), echo=echoed_lines.append) as client:
        client.wait_for_workers(2, timeout=SECONDS_TO_WAIT)
        assert str(workers_present(client)) == "2 workers"
        scontrol("partitionname=all", "state=down")
        try:
            subprocess.run(["scancel", *jobs_in_queue()], check=True)
            nobody = "0 of 2 workers, 2 jobs waiting (PartitionDown)"
            wait_until(lambda: str(workers_present(client)) == nobody)
            wait_until(
                lambda: echoed_lines and "2 will not start by themselves" in echoed_lines[-1]
            )
        finally:
            scontrol("partitionname=all", "state=up")
        wait_until(lambda: str(workers_present(client)) == "2 workers")


def test_jobs_that_die_at_once_end_the_run_in_one_line(profile, tmp_path, capfd):
    dying = profile(prologue=["echo module: cuda/99 is not here", "exit 1"])
    done = subprocess.run(
        [
            *COMMAND,
            *SMALL,
            "--cluster",
            "slurm",
            "--profile",
            dying,
            "--workers",
            "2",
            "--results",
            str(tmp_path / "run"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "jobs in a row ended before their worker connected" in done.stderr
    assert "printed: module: cuda/99 is not here" in done.stderr
    (log,) = re.findall(r"its log is (\S+)", done.stderr)
    assert Path(log).read_text() == "module: cuda/99 is not here\n"
    assert not (tmp_path / "run").exists()


def test_jobs_that_the_queue_refuses_end_the_run_in_one_line(profile):
    nowhere = profile(partition="nowhere")
    with pytest.raises(ClusterError) as caught, open_cluster("slurm", 2, profile=nowhere):
        pass
    assert "sbatch rejected the job: sbatch: error: invalid partition" in str(caught.value)


def test_adaptive_asks_for_more_and_lets_go(profile):
    work, tasks = naps(100, 0.5)  # more than one worker does before others have come
    with open_cluster("slurm", adaptive=(1, 3), profile=profile()) as client:
        most = 0
        for outcome in OnCluster(client).outcomes(work, 100, tasks):
            assert outcome.error is None
            most = max(most, len(client.scheduler_info()["workers"]))
        assert most == 3
        wait_until(lambda: len(client.scheduler_info()["workers"]) == 1)


def test_workers_end_by_themselves_when_the_launcher_is_killed(profile, shared):
    launcher = _start(profile(death_timeout=5), "--results", str(shared.parent / "run"))
    wait_until(lambda: len(worker_processes(shared)) >= 4)
    wait_until(lambda: _rows(shared.parent / "run") > 10)
    processes = worker_processes(shared)
    launcher.kill()
    launcher.wait()
    wait_until(lambda: not any(process.is_running() for process in processes))
    wait_until(lambda: not jobs_in_queue())
    assert len(list(shared.iterdir())) == 1  # nobody was left to remove it
    with open_cluster("slurm", 1, profile=profile()):
        assert len(list(shared.iterdir())) == 1
    assert list(shared.iterdir()) == []


def test_a_run_that_is_stopped_leaves_no_job(profile, tmp_path):
    folder = tmp_path / "run"
    launcher = _start(profile(), "--results", str(folder), stderr=subprocess.PIPE)
    wait_until(lambda: _rows(folder) > 10)
    launcher.send_signal(signal.SIGTERM)
    _, complaints = launcher.communicate()
    assert launcher.returncode == 1
    assert len(complaints.splitlines()) == 1
    assert f"--resume {folder}" in complaints
    assert jobs_in_queue() == []


def test_gpu_jobs_run_dask_cuda_workers(profile):
    python = _python_with_dask_cuda()
    # dask-cuda's own switch for a machine without a GPU.
    prologue = ["export DASK_CUDA_TEST_DISABLE_DEVICE_SPECIFIC=1"]
    # Four of them import the GPU packages at once: that takes its time.
    gpu_profile = profile(gres="gpu:1", prologue=prologue, python=python, death_timeout=300)
    done = subprocess.run(
        [python, "-m", "tests.integration.gpu_jobs", gpu_profile],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert len({(node, gpu) for node, gpu, _ in seen["workers"]}) == 4
    assert {threads for _, _, threads in seen["workers"]} == {1}
    assert seen["errors"] == []
    assert sorted(seen["results"]) == list(range(100, 120))


def _python_with_dask_cuda():
    """This Python, or the one of the GPU packages that the CI has installed before the tests."""
    beside = ROOT / ".venv-gpu" / "bin" / "python"
    for python in (sys.executable, str(beside)):
        if Path(python).exists() and not subprocess.call([python, "-c", FIND_DASK_CUDA]):
            return python
    pytest.skip("no dask cuda worker: dask-cuda is not installed; make test-gpu-install does it")


def _start(profile, *options, **how):
    return subprocess.Popen(
        [*COMMAND, *LONGER, "--cluster", "slurm", "--profile", profile, "--workers", "2", *options],
        text=True,
        **{"stdout": subprocess.DEVNULL, **how},
    )


def _rows(folder):
    journal = folder / "journal.jsonl"
    return journal.read_text().count("\n") if journal.exists() else 0
