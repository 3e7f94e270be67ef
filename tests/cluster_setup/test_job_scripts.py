"""Job scripts, read as the text they are: no queue is needed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from cluster_setup import ClusterError, render
from cluster_setup.__main__ import main
from cluster_setup.sbatch import script

pytestmark = pytest.mark.skipif(
    find_spec("dask_jobqueue") is None, reason="no job scripts: dask-jobqueue is not installed"
)


def lines(kind: str, **options: object) -> list[str]:
    text = render(kind, **options)  # type: ignore[arg-type]
    assert text is not None
    return text.splitlines()


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


def test_a_job_without_tls() -> None:
    text = "\n".join(lines("slurm", tls=False))
    assert "tcp://SCHEDULER" in text
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


def test_kinds_without_jobs_have_no_script() -> None:
    assert render("local") is None
    assert render("tcp://node1:8786") is None


def test_the_whole_run_as_one_job() -> None:
    text = script(
        "svm_grid", ["--dataset", "my file.csv"], profile="sulis", workers=12, device="auto"
    )
    assert "#SBATCH --ntasks=12\n" in text
    assert "#SBATCH --gpus-per-task=ampere_a100:1\n" in text
    assert "#SBATCH --mem-per-cpu=3850\n" in text
    assert "#SBATCH --signal=B:TERM@120\n" in text
    assert "-m pipelines.svm_grid --cluster srun --workers 12 " in text
    assert text.endswith("--profile sulis --dataset 'my file.csv'\n")


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("svm_gird", [], "a command such as svm_grid, got 'svm_gird'"),
        ("report", [], "a command such as svm_grid, got 'pipelines.report'"),
        ("svm_grid", ["--cluster", "local"], "--cluster must stand before svm_grid"),
        ("svm_grid", ["--fold", "3"], "--fold is not an option of this command; did you mean"),
        ("nn_bagging", ["--folds", "1"], "--folds must be at least 2, got 1"),
        ("nn_bagging", ["predict", "RUN"], "predict is not an option of this command"),
    ],
)
def test_a_job_that_cannot_be(command: str, arguments: list[str], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        script(command, arguments, profile="sulis", workers=None, device="auto")


def test_a_script_that_is_there_is_overwritten_only_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.sbatch"
    asked = ["sbatch", "--profile", "sulis", "--script", str(file)]
    assert main([*asked, "svm_grid"]) == 0
    earlier = file.read_text()
    assert main([*asked, "svm_grid", "--n-c", "3"]) == 2
    said = capsys.readouterr().err
    assert said == (
        f"cluster_setup: --script must be a new file, got {file}, which is there already; "
        "write over it with --force, or name another file\n"
    )
    assert file.read_text() == earlier
    assert main([*asked, "--force", "svm_grid", "--n-c", "3"]) == 0
    assert file.read_text().endswith(" --n-c 3\n")


def test_no_script_is_written_of_a_command_line_with_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.sbatch"
    asked = ["sbatch", "--profile", "sulis", "--script", str(file)]
    assert main([*asked, "svm_grid", "--n-c", "0"]) == 2
    assert capsys.readouterr().err == "cluster_setup: --n-c must be at least 1, got 0\n"
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sbatch", "--workers", "0", "svm_grid"], "--workers must be at least 1, got 0"),
        (["sbatch", "--workers", "x", "svm_grid"], "invalid int value: 'x'; see python -m "),
        (["chek"], "invalid choice: 'chek' (choose from "),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = int(ended.code or 0)
    (line,) = capsys.readouterr().err.splitlines()
    assert (status, line.startswith("cluster_setup: ")) == (2, True)
    assert words in line
