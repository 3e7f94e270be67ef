"""``--cluster mpi`` on three and four ranks of a real MPI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest

from cluster_setup import ClusterError, open_cluster

pytest.importorskip("dask_mpi", reason="no MPI cluster: dask-mpi is not installed")
if shutil.which("mpirun") is None:
    pytest.skip("no MPI cluster: mpirun is not installed", allow_module_level=True)

SMALL = ["--limit", "200", "--n-c", "3", "--n-gamma", "2", "--folds", "2"]


def mpirun(ranks, *arguments):
    """The command on so many ranks; Open MPI wants to be told that few cores are meant."""
    return subprocess.run(
        [
            "mpirun",
            "--oversubscribe",
            "-n",
            str(ranks),
            sys.executable,
            "-m",
            "pipelines.svm_grid",
            *SMALL,
            "--cluster",
            "mpi",
            *arguments,
        ],
        env=os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        capture_output=True,
        text=True,
    )


def test_four_ranks_are_a_cluster_of_two_workers(tmp_path):
    done = mpirun(4, "--results", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("best       C = ") == 1  # one rank alone runs the program
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["status"] == "finished"
    assert len(about["cluster"]["workers"]) == 2
    assert all(worker["address"].startswith("tls://") for worker in about["cluster"]["workers"])
    assert len(pd.read_parquet(tmp_path / "run" / "cv_results.parquet")) == 12


def test_more_workers_than_ranks_end_all_ranks_in_one_line(tmp_path):
    done = mpirun(3, "--workers", "9", "--results", str(tmp_path / "run"))
    assert done.returncode != 0
    assert "--workers must be 1 here, the ranks of MPI less two, got 9" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_that_ends_early_ends_all_ranks(tmp_path):
    done = mpirun(3, "--dataset", str(tmp_path / "none.csv"), "--target", "y")
    assert done.returncode == 2
    assert "none.csv" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_mpirun_the_way_out_is_said():
    with (
        pytest.raises(ClusterError, match="must be started on at least 3 ranks"),
        open_cluster("mpi"),
    ):
        pass
