"""Job scripts, read as the text they are: no queue is needed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import dask
import pytest

from cluster_setup import ClusterError, render

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(
    find_spec("dask_jobqueue") is None, reason="no job scripts: dask-jobqueue is not installed"
)


def lines(kind: str, **options: object) -> list[str]:
    text = render(kind, **options)  # type: ignore[arg-type]
    assert text is not None
    return text.splitlines()


def test_a_script_is_written_where_nothing_has_imported_dask_distributed() -> None:
    code = "from cluster_setup import render; print(render('slurm', tls=False))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert " tcp://SCHEDULER " in done.stdout


def test_a_gpu_job_of_slurm(tmp_path: Path) -> None:
    job = lines("slurm", profile="sulis")
    assert "#SBATCH -p gpu" in job
    assert "#SBATCH --gres=gpu:ampere_a100:1" in job
    assert "#SBATCH --cpus-per-task=42" in job
    assert "#SBATCH --mem-per-cpu=3850" in job
    assert not any("--mem=" in line for line in job)
    assert "#SBATCH -t 48:00:00" in job
    assert "#SBATCH --no-requeue" in job
    worker = job[-1] or job[-2]
    assert " -m dask cuda worker tls://SCHEDULER " in worker
    assert " --nthreads 1 " in worker
    assert " --memory-limit 150.00GiB " in worker
    assert "--lifetime" not in worker  # dask cuda worker would refuse it
    assert "--tls-key " in worker


def test_workers_leave_before_the_walltime_and_not_together() -> None:
    job = lines("slurm", profile="sulis")
    assert "export DASK_DISTRIBUTED__WORKER__LIFETIME__DURATION=171600s" in job  # 20 min before
    assert "export DASK_DISTRIBUTED__WORKER__LIFETIME__STAGGER=600s" in job


def test_a_worker_does_not_pause_for_ever() -> None:
    assert "export DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=False" in lines("slurm", profile="sulis")


def test_a_cpu_job_of_slurm() -> None:
    job = lines("slurm", profile="sulis", device="cpu")
    assert "#SBATCH -p compute" in job
    assert not any("--gres" in line for line in job)
    assert any("-m distributed.cli.dask_worker tls://SCHEDULER" in line for line in job)


@pytest.mark.parametrize("scheme", ["tcp", "ucx"])
def test_a_job_without_tls(scheme: str) -> None:
    with dask.config.set({"distributed.comm.default-scheme": scheme}):
        text = "\n".join(lines("slurm", tls=False))
        assert "tls://SCHEDULER" in "\n".join(lines("slurm"))
    assert f"{scheme}://SCHEDULER" in text
    assert f"--protocol {scheme}://" in text
    assert "--tls" not in text


def test_a_workers_web_pages_are_for_its_node_alone() -> None:
    for kind in ("slurm", "pbs", "sge"):
        assert "--no-dashboard --dashboard-address 127.0.0.1:0" in "\n".join(lines(kind))


def test_a_job_of_grid_engine() -> None:
    job = lines("sge", profile="apocrita")
    assert job[0].startswith("#!")
    for line in ("#$ -l h_rt=240:00:00", "#$ -l gpu=1", "#$ -pe smp 8", "#$ -l h_vmem=11G"):
        assert line in job
    assert not any(line == "#$ -l gpu=1" for line in lines("sge", device="cpu"))


def test_a_job_of_pbs() -> None:
    job = lines("pbs")
    assert "#PBS -l select=1:ncpus=8:mem=32768mb:ngpus=1" in job
    assert "#PBS -l walltime=04:00:00" in job
    assert "#PBS -l select=1:ncpus=8:mem=32768mb" in lines("pbs", device="cpu")


def test_the_profiles_own_lines_are_there(tmp_path: Path) -> None:
    profile = tmp_path / "site.yaml"
    profile.write_text(
        "queue: slurm\naccount: a1\nprologue: [module load CUDA]\npython: /opt/py\n"
        "directives: ['--qos=high']\ninterface: ib0\nlocal_directory: /scratch\n"
    )
    job = lines("slurm", profile=str(profile))
    assert "#SBATCH -A a1" in job
    assert "#SBATCH --qos=high" in job
    assert "module load CUDA" in job
    worker = next(line for line in job if line.startswith("/opt/py -m distributed"))
    assert "--interface ib0" in worker
    assert "--local-directory /scratch" in worker


def test_a_gpu_where_the_profile_has_none(tmp_path: Path) -> None:
    profile = tmp_path / "site.yaml"
    profile.write_text("queue: slurm\n")
    with pytest.raises(ClusterError, match="--device gpu needs gres in the profile"):
        render("slurm", profile=str(profile), device="gpu")


def test_a_pool_of_rmm_by_option_goes_before_the_profiles(tmp_path: Path) -> None:
    profile = tmp_path / "site.yaml"
    profile.write_text("queue: slurm\ngres: gpu:1\nrmm_pool: 0.8\n")
    on = "--rmm-track-allocations --set-rmm-allocator-for-libs cupy"
    assert f" --rmm-pool-size 0.8 {on}" in "\n".join(lines("slurm", profile=str(profile)))
    own = lines("slurm", profile=str(profile), rmm_pool="8GB")
    assert f" --rmm-pool-size 8GB {on}" in "\n".join(own)
    for without in ({"profile": str(profile), "device": "cpu"}, {"profile": "sulis"}):
        assert "rmm" not in "\n".join(lines("slurm", **without))


def test_a_pool_of_rmm_where_jobs_have_no_gpu(tmp_path: Path) -> None:
    profile = tmp_path / "site.yaml"
    profile.write_text("queue: slurm\n")
    with pytest.raises(ClusterError, match="--rmm-pool needs workers with a GPU, got 8GB for jobs"):
        render("slurm", rmm_pool="8GB", profile=str(profile))


def test_kinds_without_jobs_have_no_script() -> None:
    assert render("local") is None
    assert render("tcp://node1:8786") is None
