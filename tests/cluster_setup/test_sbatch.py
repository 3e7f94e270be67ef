"""The whole run as one job, read as text: no queue is needed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from cluster_setup import ClusterError
from cluster_setup.__main__ import main
from cluster_setup.sbatch import script

pytestmark = pytest.mark.skipif(
    find_spec("dask_jobqueue") is None, reason="no job scripts: dask-jobqueue is not installed"
)


def test_the_whole_run_as_one_job() -> None:
    text = script(
        "svm_grid", ["--dataset", "my file.csv"], profile="sulis", workers=12, device="auto"
    )
    assert "#SBATCH --ntasks=12\n" in text
    assert "#SBATCH --gpus-per-task=ampere_a100:1\n" in text
    assert "#SBATCH --mem-per-cpu=3850\n" in text
    assert "#SBATCH --signal=B:TERM@120\n" in text
    assert "-m pipelines.svm_grid --cluster srun --workers 12 " in text
    assert script("svm-grid", [], profile="sulis", workers=1, device="auto").count("svm_grid") == 1
    assert text.endswith("--profile sulis --dataset 'my file.csv'\n")


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("svm_gird", [], "a command such as svm-grid, got 'svm_gird'"),
        (".", [], "a command such as svm-grid, got '.'"),
        ("..pipelines", [], "a command such as svm-grid, got '..pipelines'"),
        ("report", [], "a command such as svm-grid, got 'pipelines.report'"),
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
        (["sbatch", "--workers", "x", "svm_grid"], "invalid int value: 'x'; see pleasingly "),
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


def test_an_error_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--profile", "none\x1b[2J"]) == 2
    assert "'none\\x1b[2J'" in capsys.readouterr().err.replace("\\\\", "\\")
