"""The whole run inside one job of a real Slurm, and the site check."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_setup import ClusterError, open_cluster
from cluster_setup.__main__ import main

from .conftest import jobs_in_queue, wait_until

Profile = Callable[..., str]


def test_sbatch_writes_a_job_that_runs_everything(
    profile: Profile, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path.cwd()
    folder, file = tmp_path / "run", tmp_path / "job.sbatch"
    small = ["--limit", "200", "--n-c", "3", "--n-gamma", "2", "--folds", "2"]
    asked = ["--profile", profile(directives=["--chdir", str(root)]), "--workers", "3"]
    monkeypatch.chdir(tmp_path)
    assert main(["sbatch", *asked, "--script", str(file), "svm_grid", *small, "--solver",
                 "sklearn", "--results", str(folder)]) == 0  # fmt: skip
    subprocess.run(["sbatch", f"--chdir={root}", f"--output={tmp_path}/log", str(file)], check=True)
    wait_until(lambda: not jobs_in_queue())
    log = (tmp_path / "log").read_text()
    about = json.loads((folder / "run.json").read_text())
    assert about["status"] == "finished", log
    assert about["cluster"]["kind"] == "srun"
    assert about["cluster"]["workers"][0]["address"].startswith("tls://")
    assert list(shared.iterdir()) == []


def test_srun_outside_of_an_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with (
        pytest.raises(ClusterError, match="--cluster srun must run inside a Slurm allocation"),
        open_cluster("srun"),
    ):
        pass


def test_check_says_what_a_worker_sees(
    profile: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--profile", profile(directives=["--gres=gpu:1"])]) == 0
    said = capsys.readouterr().out
    python = ".".join(map(str, sys.version_info[:3]))
    assert "s until the job ran" in said
    assert "CUDA_VISIBLE_DEVICES 0" in said
    assert f"python     {python}, the same" in said
    assert "dask       2026.7.1, the same" in said
    assert "MB/s to the worker" in said
    assert "torch      " in said


def test_check_of_a_job_that_dies(profile: Profile, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--profile", profile(python="/no/such/python")]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert "/no/such/python: No such file or directory" in said
