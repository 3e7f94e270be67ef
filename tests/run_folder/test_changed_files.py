"""A file that is not as the run left it is refused in one line, or made again.

A run of each command, of which each file that ``run.json`` names is cut to half, has one bit
flipped, or is gone; then the folder is asked to predict, drawn, and resumed.
"""

from __future__ import annotations

import importlib
import shutil
from functools import cache
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

from pipelines.commands import job_of
from pipelines.errors import InputError
from pipelines.report.__main__ import main as report
from pipelines.run_folder.digests import digests_read_again
from pipelines.run_folder.record import Record, read_record
from tests.chaos.checks import same
from tests.chaos.malformed import as_killed
from tests.command_runs import record

TABLE = ["--dataset", "iris.csv", "--folds", "2"]
OPTIONS = {
    "svm_grid": [*TABLE, "--n-c", "2", "--n-gamma", "1"],
    "nn_bagging": [*TABLE, "--n-bootstrap", "2", "--n-tuning", "1", "--max-epochs", "2"],
    "cross_validate": [*TABLE, "--estimator", "ridge", "--estimator", "bayes"],
    "pagerank": ["--nodes", "50"],
    "data_parallel": ["--dataset", "iris.csv", "--network", "mlp", "--epochs", "1"],
}
OF_SEARCH = ("candidates.parquet", "cv_results.parquet", "test_predictions.parquet")
FILES = {
    "svm_grid": (
        *OF_SEARCH,
        "importances.parquet",
        "model.safetensors",
        "test_decision_values.parquet",
    ),
    "nn_bagging": (
        *OF_SEARCH,
        "ensemble_sizes.parquet",
        "explained.npz",
        "importances.parquet",
        "members.csv",
        "member_probabilities.npz",
        "members/member-00.npz",
        "members/member-00.safetensors",
        "selective_prediction.safetensors",
    ),
    "cross_validate": (
        *OF_SEARCH,
        "comparison.parquet",
        "importances.parquet",
        "model.skops",
        "test_probabilities.parquet",
    ),
    "pagerank": ("iterations.parquet", "ranks.parquet"),
    "data_parallel": (
        "checkpoints/every-step-on-1-1.safetensors",
        "epochs.parquet",
        "model.safetensors",
        "test_predictions.parquet",
    ),
}
# What holds for these holds for the others, in make test-all.
FAST = ("svm_grid", "pagerank")
PREDICTS = ("svm_grid", "nn_bagging", "cross_validate")
ANSWER = ("best", "test_error", "vote_test_error", "top", "trainings")


def half(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.fixture(scope="session")
def run_of(tmp_path_factory):
    """The folder of a run of a command, made once; ``iris.csv`` lies beside it."""
    folder = tmp_path_factory.mktemp("changed")
    iris = load_iris(as_frame=True)
    table = iris.frame.assign(target=iris.target_names[iris.target])
    table.to_csv(folder / "iris.csv", index=False)

    @cache
    def make_run(command):
        cluster = "local" if command == "data_parallel" else "threads"
        where = ["--cluster", cluster, "--workers", "1", "--results", command, "--quiet"]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr("pipelines.report.page.draw_figures", lambda run, figures: {})
            main = importlib.import_module(f"pipelines.{command}").main
            assert main([*OPTIONS[command], *where]) == 0
        return folder / command

    return make_run


CASES = [
    pytest.param(
        command,
        name,
        damage,
        id=f"{command} {name} {damage.__name__}",
        marks=() if command in FAST and damage is not half else pytest.mark.slow,
    )
    for command in OPTIONS
    for name in ("journal.jsonl", *FILES[command])
    for damage in (half, flipped, Path.unlink)
    # Half a file is one of another digest, whosever it is; of a journal the whole lines are read.
    if damage is not half or command == "svm_grid" or name == "journal.jsonl"
    # The tables of a search are read by the same code in all commands.
    if damage is not flipped or command == "svm_grid" or name not in OF_SEARCH
]


@pytest.mark.parametrize(("command", "name", "damage"), CASES)
def test_it_is_refused_in_one_line_or_made_again(
    command,
    name,
    damage,
    run_of,
    tmp_path,
    monkeypatch,
    capsys,
):
    monkeypatch.chdir(run_of(command).parent)
    main = importlib.import_module(f"pipelines.{command}").main
    folder = Path(shutil.copytree(run_of(command), tmp_path / command))
    damage(folder / name)
    is_removed, model = damage is Path.unlink, name.endswith((".safetensors", ".skops"))
    predict = ["predict", str(folder), "iris.csv", "--output", str(tmp_path / "answers.csv")]

    def status(act, words):
        """The exit status, which is 0 or one line on stderr says why not, naming the file."""
        capsys.readouterr()
        ended = act(words)
        messages = capsys.readouterr().err.splitlines()
        assert len(messages) == (ended != 0), messages
        assert ended == 0 or Path(name).name in messages[0]
        return ended

    if command in PREDICTS:
        assert status(main, predict) == (2 if model else 0)
    # What is gone is left out of the page, as its message says; models are not drawn.
    drawn = not model and "/" not in name
    assert status(report, [str(folder)]) == (2 if drawn and not is_removed else 0)
    assert status(main, ["--resume", str(folder), "--quiet"]) == 0
    before, after = record(run_of(command)), record(folder)
    assert after["files"] == digests_read_again(folder, job_of(command).files)
    assert after["files"].keys() == before["files"].keys()
    for answer in ANSWER:
        assert without_seconds(after.get(answer)) == without_seconds(before.get(answer))
    assert status(report, [str(folder)]) == 0
    if command in PREDICTS:
        assert status(main, predict) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FILES["nn_bagging"] if "/" in name])
def test_a_member_that_was_changed_after_a_kill_is_trained_again(
    name, run_of, tmp_path, monkeypatch
):
    finished = run_of("nn_bagging")
    monkeypatch.chdir(finished.parent)
    folder = Path(shutil.copytree(finished, tmp_path / "run"))
    as_killed(folder, n_tasks=len((folder / "journal.jsonl").read_bytes().splitlines()))
    flipped(folder / name)
    assert importlib.import_module("pipelines.nn_bagging").main(["--resume", str(folder)]) == 0
    assert same(folder / name, finished / name)


def test_a_folder_in_place_of_a_file_is_one_line(run_of, tmp_path, capsys):
    folder = Path(shutil.copytree(run_of("pagerank"), tmp_path / "run"))
    (folder / "ranks.parquet").unlink()
    (folder / "ranks.parquet").mkdir()
    assert importlib.import_module("pipelines.pagerank").main(["--resume", str(folder)]) == 2
    assert "ranks.parquet: Is a directory; remove it" in capsys.readouterr().err


def test_a_checkpoint_with_a_flipped_bit_is_none(tmp_path):
    torch = pytest.importorskip("torch", reason="it comes with the extra nn")
    from pipelines.parallel.checkpoint import TrainingProgress, read, write_checkpoint

    write_checkpoint(tmp_path / "c", {"w": torch.ones(9)}, TrainingProgress(step=3))
    content = (tmp_path / "c").read_bytes()
    assert len(read(tmp_path / "c")) == len(content)
    flipped(tmp_path / "c")
    assert read(tmp_path / "c") is None


def without_seconds(value):
    if isinstance(value, dict):
        return {k: without_seconds(v) for k, v in value.items() if "seconds" not in k}
    return [without_seconds(entry) for entry in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "command", [pytest.param(c, marks=() if c in FAST else pytest.mark.slow) for c in FILES]
)
def test_every_file_of_a_run_is_tried(command, run_of):
    digests = record(run_of(command))["files"]
    second_member = {name for name in digests if "member-01" in name}
    assert {*FILES[command], "journal.jsonl"} == set(digests) - second_member


def test_no_name_in_a_record_leads_out_of_its_folder(run_of, tmp_path):
    folder = Path(shutil.copytree(run_of("pagerank"), tmp_path / "run"))
    (tmp_path / "mine").touch()
    text = (folder / "run.json").read_text()
    for name in ("../mine", "..", f"{tmp_path}/mine"):
        (folder / "run.json").write_text(text.replace("ranks.parquet", name))
        with pytest.raises(InputError, match="which is damaged"):
            read_record(folder, Record)
