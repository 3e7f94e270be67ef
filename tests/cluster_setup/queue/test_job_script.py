"""Job scripts, read as the text they are: no queue is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import dask
import pytest

from cluster_setup import ClusterError, render

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(
    find_spec("dask_jobqueue") is None, reason="no job scripts: dask-jobqueue is not installed"
)


def lines(kind, **options):
    text = render(kind, **options)
    assert text is not None
    return text.splitlines()


def test_a_script_is_written_where_nothing_has_imported_dask_distributed():
    code = "from cluster_setup import render; print(render('slurm', tls=False))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert " tcp://SCHEDULER " in done.stdout


def test_a_gpu_job_of_slurm(tmp_path):
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


def test_workers_leave_before_the_walltime_and_not_together():
    job = lines("slurm", profile="sulis")
    assert "export DASK_DISTRIBUTED__WORKER__LIFETIME__DURATION=171600s" in job  # 20 min before
    assert "export DASK_DISTRIBUTED__WORKER__LIFETIME__STAGGER=600s" in job


def test_a_worker_does_not_pause_for_ever():
    assert "export DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=False" in lines("slurm", profile="sulis")


def test_a_cpu_job_of_slurm():
    job = lines("slurm", profile="sulis", device="cpu")
    assert "#SBATCH -p compute" in job
    assert not any("--gres" in line for line in job)
    assert any("-m distributed.cli.dask_worker tls://SCHEDULER" in line for line in job)


@pytest.mark.parametrize("scheme", ["tcp", "ucx"])
def test_a_job_without_tls(scheme):
    with dask.config.set({"distributed.comm.default-scheme": scheme}):
        text = "\n".join(lines("slurm", tls=False))
        assert "tls://SCHEDULER" in "\n".join(lines("slurm"))
    assert f"{scheme}://SCHEDULER" in text
    assert f"--protocol {scheme}://" in text
    assert "--tls" not in text


def test_a_workers_web_pages_are_for_its_node_alone():
    for kind in ("slurm", "pbs", "sge"):
        assert "--no-dashboard --dashboard-address 127.0.0.1:0" in "\n".join(lines(kind))


def test_a_job_of_grid_engine():
    job = lines("sge", profile="apocrita")
    assert job[0].startswith("#!")
    for line in ("#$ -l h_rt=240:00:00", "#$ -l gpu=1", "#$ -pe smp 8", "#$ -l h_vmem=11G"):
        assert line in job
    assert not any(line == "#$ -l gpu=1" for line in lines("sge", device="cpu"))


def test_a_job_of_pbs():
    job = lines("pbs")
    assert "#PBS -l select=1:ncpus=8:mem=32768mb:ngpus=1" in job
    assert "#PBS -l walltime=04:00:00" in job
    assert "#PBS -l select=1:ncpus=8:mem=32768mb" in lines("pbs", device="cpu")


def test_the_profiles_own_lines_are_there(tmp_path):
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


def test_lines_of_a_job_script_are_taken_as_they_are(tmp_path):
    profile = tmp_path / "site.yaml"
    profile.write_text("queue: slurm\ndirectives: ['#SBATCH --qos=a', '#SBATCH\t-x n1', '-c 2']\n")
    job = lines("slurm", profile=str(profile))
    assert {"#SBATCH --qos=a", "#SBATCH -x n1", "#SBATCH -c 2"} < set(job)
    profile.write_text("queue: sge\ndirectives: ['#$ -pe smp 8']\n")
    assert "#$ -pe smp 8" in lines("sge", profile=str(profile))


@pytest.mark.parametrize(
    ("walltime", "slurm", "other_queues", "lifetime"),
    [
        ("1-02:00:00", "1-02:00:00", "26:00:00", 93600 - 1200),
        ("26:00:00", "26:00:00", "26:00:00", 93600 - 1200),
        ("2-00", "2-00", "48:00:00", 172800 - 1200),
        ("0-01:30", "0-01:30", "01:30:00", 5400 - 540),
        ("1:00:05", "1:00:05", "01:00:05", 3605 - 360),
        ("10-00:00:00", "10-00:00:00", "240:00:00", 864000 - 1200),
    ],
)
def test_a_walltime_is_written_as_its_queue_knows_it(
    tmp_path, walltime, slurm, other_queues, lifetime
):
    profile = tmp_path / "site.yaml"
    for queue, line in {
        "slurm": f"#SBATCH -t {slurm}",
        "pbs": f"#PBS -l walltime={other_queues}",
        "sge": f"#$ -l h_rt={other_queues}",
    }.items():
        profile.write_text(f"queue: {queue}\nwalltime: {walltime}\n")
        job = lines(queue, profile=str(profile))
        assert line in job
        assert f"export DASK_DISTRIBUTED__WORKER__LIFETIME__DURATION={lifetime}s" in job


@pytest.mark.parametrize(
    ("memory", "slurm", "pbs", "worker"),
    [
        ("16G", "16G", 16384, "16.00GiB"),
        ("16GB", "16G", 16384, "16.00GiB"),
        ("1.5G", "1536M", 1536, "1.50GiB"),
        ("16503M", "16503M", 16503, "16.11GiB"),  # 16.116
        ("900M", "900M", 900, "900.00MiB"),
        ("2T", "2048G", 2**21, "2048.00GiB"),
    ],
)
def test_memory_is_what_the_profile_says_and_a_worker_has_no_more(
    tmp_path, memory, slurm, pbs, worker
):
    profile = tmp_path / "site.yaml"
    profile.write_text(f"queue: slurm\nmemory: {memory}\n")
    job = lines("slurm", profile=str(profile))
    assert f"#SBATCH --mem={slurm}" in job
    assert any(f" --memory-limit {worker} " in line for line in job)
    profile.write_text(f"queue: pbs\nmemory: {memory}\n")
    assert f"#PBS -l select=1:ncpus=4:mem={pbs}mb" in lines("pbs", profile=str(profile))


ODD = ["/a b", "/it's", '/q"q', "/100% %j", "/#1 $", "/x;y&z|(w)*?", "/é  ü", "/\u2019!"]


def words_of_the_worker(tmp_path, **keys):
    """Run a job of Slurm by bash; give the words its Python gets, and what bash complains of."""
    python = tmp_path / "my it's $1" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    python.chmod(0o700)
    profile = tmp_path / "site.yaml"
    profile.write_text(json.dumps({"queue": "slurm", "python": [str(python)]} | keys))
    script = "\n".join(lines("slurm", profile=str(profile)))
    done = subprocess.run(
        ["bash", "-c", script],
        env={"TMPDIR": "/tmp/a b", "HOME": "/h"},
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("path", ODD)
def test_paths_reach_the_worker_as_they_are(tmp_path, path):
    words, _ = words_of_the_worker(tmp_path, shared_folder=path, local_directory=path)
    arguments = dict(pairwise(words))
    assert arguments["--local-directory"] == path
    assert arguments["--tls-ca-file"] == arguments["--tls-cert"] == f"{path}/RUN/certificate.pem"
    assert arguments["--tls-key"] == f"{path}/RUN/key.pem"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("$TMPDIR/x y", "/tmp/a b/x y"),
        ('${TMPDIR}/"$', '/tmp/a b/"$'),
        ("${OF_NO_ONE:-/a  b#}/\\x", "/a  b#/\\x"),
        ("~/a b/$TMPDIR", "/h/a b//tmp/a b"),
        ("~", "/h"),
    ],
)
def test_variables_of_a_node_are_filled_in_there(tmp_path, text, path):
    assert (
        dict(pairwise(words_of_the_worker(tmp_path, local_directory=text)[0]))["--local-directory"]
        == path
    )


def test_a_variable_that_is_not_set_on_the_node_ends_the_job(tmp_path):
    words, error = words_of_the_worker(tmp_path, local_directory="$OF_NO_ONE/x")
    assert words == []
    assert "OF_NO_ONE: is not set on the node; correct local_directory in the profile" in error


def test_a_python_with_a_blank_in_its_path_is_no_command(tmp_path):
    python = tmp_path / "my env" / "python"
    python.parent.mkdir()
    python.touch()
    profile = tmp_path / "site.yaml"
    profile.write_text(f"queue: slurm\npython: {python}\n")
    assert any(line.startswith(f"'{python}' -m ") for line in lines("slurm", profile=str(profile)))
    profile.write_text("queue: slurm\npython: [srun, --label, my python]\n")
    assert any(
        line.startswith("srun --label 'my python' -m ")
        for line in lines("slurm", profile=str(profile))
    )


@pytest.mark.parametrize(
    ("folder", "output"),
    [
        ("/a", "/a/RUN/%j.log"),
        ("/a b", '"/a b/RUN/%j.log"'),
        ("/100%/%u", "/100%%/%%u/RUN/%j.log"),
        ('/it\'s "q" #1', '"/it\'s \\"q\\" #1/RUN/%j.log"'),
    ],
)
def test_the_log_of_slurm_is_named_as_sbatch_reads_it(tmp_path, folder, output):
    profile = tmp_path / "site.yaml"
    profile.write_text(json.dumps({"queue": "slurm", "shared_folder": folder}))
    assert f"#SBATCH --output={output}" in lines("slurm", profile=str(profile))


def test_a_gpu_where_the_profile_has_none(tmp_path):
    profile = tmp_path / "site.yaml"
    profile.write_text("queue: slurm\n")
    with pytest.raises(ClusterError, match="--device gpu needs gres in the profile"):
        render("slurm", profile=str(profile), device="gpu")


def test_a_pool_of_rmm_by_option_goes_before_the_profiles(tmp_path):
    profile = tmp_path / "site.yaml"
    profile.write_text("queue: slurm\ngres: gpu:1\nrmm_pool: 0.8\n")
    on = "--rmm-track-allocations --set-rmm-allocator-for-libs cupy"
    assert f" --rmm-pool-size 0.8 {on}" in "\n".join(lines("slurm", profile=str(profile)))
    pool_lines = lines("slurm", profile=str(profile), rmm_pool="8GB")
    assert f" --rmm-pool-size 8GB {on}" in "\n".join(pool_lines)
    for without in ({"profile": str(profile), "device": "cpu"}, {"profile": "sulis"}):
        assert "rmm" not in "\n".join(lines("slurm", **without))


def test_a_pool_of_rmm_where_jobs_have_no_gpu(tmp_path):
    profile = tmp_path / "site.yaml"
    profile.write_text("queue: slurm\n")
    with pytest.raises(ClusterError, match="--rmm-pool needs workers with a GPU, got 8GB for jobs"):
        render("slurm", rmm_pool="8GB", profile=str(profile))


def test_kinds_without_jobs_have_no_script():
    assert render("local") is None
    assert render("tcp://node1:8786") is None
