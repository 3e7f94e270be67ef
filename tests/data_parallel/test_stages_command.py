"""The command on a network in stages: what it says, refuses, and how it goes on after a death."""

from __future__ import annotations

import pandas as pd
import pytest

pytest.importorskip("torch", reason="networks are torch's")

import cluster_setup.workers
from pipelines.data.model_file import read_model
from pipelines.data_parallel import main
from pipelines.parallel.checkpoint import read
from tests.command_runs import record
from tests.data_parallel.test_command import killed_twice

LOCAL = ["--cluster", "local", "--dashboard", "off", "--workers", "2"]
MLP = ["--network", "mlp", "--dataset", "digits", "--hidden", "32,64,32"]
SMALL = [*LOCAL, *MLP, "--epochs", "2", "--stages", "2"]


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "staged"
    assert main([*SMALL, "--results", str(folder), "--quiet"]) == 0
    return folder


def test_each_rank_keeps_its_stages_and_the_model_is_whole(staged):
    files = sorted(file.name for file in (staged / "checkpoints").iterdir())
    steps = record(staged)["trainings"][0]["steps"]
    assert files == [
        f"every-step-on-2-1.step-{steps}.part-{part}-of-2.safetensors" for part in (1, 2)
    ]
    weights, about = read_model(staged / "model.safetensors")
    assert about["network"] == "mlp"
    assert [list(weights[f"{n}.weight"].shape) for n in (0, 2, 4, 6)] == [
        [32, 64],
        [64, 32],
        [32, 64],
        [10, 32],
    ]


def test_the_page_has_the_idle_share_beside_the_formula(staged):
    run = record(staged)
    assert run["stages"] == 2
    assert run["bubble"] == pytest.approx(1 / 9)
    assert 0 < run["trainings"][0]["wait_share"] < 1
    assert "cut into 2 stages" in (staged / "report.html").read_text()


def test_a_stage_whose_file_was_damaged_is_trained_again(staged, capsys):
    expected = record(staged)["trainings"][0]["validation_loss"]
    file = next((staged / "checkpoints").glob("*.part-2-of-2.safetensors"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert main(["--resume", str(staged)]) == 0
    output = capsys.readouterr().out
    assert f"warning    checkpoints/{file.name} is made again" in output
    assert "idle  " in output
    assert record(staged)["trainings"][0]["validation_loss"] == pytest.approx(expected, rel=1e-5)
    assert read(staged / "checkpoints" / "every-step-on-2-1.safetensors") is not None


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--stages", "2", "--workers", "1"], "--workers must be at least 2, the ranks that --st"),
        (["--ranks", "3"], "--workers must be at least 3, the ranks that --stages or --ranks ask"),
        (["--stages", "5", "--workers", "5"], "--stages must leave each stage a layer with weig"),
        (["--stages", "2", "--ranks", "1"], "--ranks must be a multiple of --stages, got 1 and 2"),
        (["--stages", "x"], "--stages must be a whole number of at least 1, or auto, got x"),
        (["--microbatches", "4"], "--microbatches is for a network in stages; add --stages 2"),
        (["--stages", "2", "--batch-size", "30"], "--batch-size must be a multiple of --microba"),
        (["--stages", "2", "--sync", "never"], "--stages is for --sync every-step, got never"),
        (["--stages", "2", "--precision", "bf16"], "--stages is for --precision fp32 or tf32"),
    ],
)
def test_what_cannot_be_cut_so_is_refused_in_a_line(options, line, tmp_path, capsys):
    folder = tmp_path / "run"
    assert main([*LOCAL, *MLP, *options, "--results", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert line in error
    assert not folder.exists()


def test_a_layer_in_which_rows_meet_is_said(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "class Centred(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x - x.mean(0)\n"
        "class Halved(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x / 2\n"
        "def make(n_features, n_classes):\n"
        "    layers = [nn.Linear(n_features, 8), Halved(), Centred(), nn.Linear(8, n_classes)]\n"
        "    return nn.Sequential(nn.Flatten(), *layers)\n"
    )
    network_options = [
        "--network",
        f"{tmp_path}/mine.py:make",
        "--dataset",
        "digits",
        "--stages",
        "2",
    ]
    assert main([*LOCAL, *network_options, "--results", str(tmp_path / "run"), "--dry-run"]) == 0
    line = "warning    --stages: what 1.3 gives for a row depends on the others of its micro-batch"
    assert line in capsys.readouterr().out


def test_stages_are_as_few_as_fit_into_the_memory_of_a_worker(tmp_path, capsys, monkeypatch):
    n_bytes = [1.5e5]
    monkeypatch.setattr(cluster_setup.workers, "memory_of_workers", lambda client, workers: n_bytes)
    auto = [*LOCAL, *MLP, "--epochs", "1", "--stages", "auto", "--batch-size", "16"]
    assert main([*auto, "--results", str(tmp_path / "two")]) == 0
    output = capsys.readouterr().out
    assert "stages     2, cut before" in output
    assert "idle " in output
    run = record(tmp_path / "two")
    assert (run["stages"], run["options"]["stages"]) == (2, "auto")
    n_bytes[:] = [1e4]
    assert main([*auto, "--results", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert "--stages auto must leave each worker a stage that fits into 80% of its memory" in error


def test_workers_beside_the_pipelines_are_said(tmp_path, capsys):
    options = ["--workers", "3", "--epochs", "1", "--results", str(tmp_path / "run")]
    assert main([*SMALL, *options]) == 0
    assert "ranks      2 of 3 workers, a multiple of the stages" in capsys.readouterr().out


def test_what_the_cut_changes_is_said(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def make(n_features, n_classes):\n"
        "    layers = [nn.Linear(n_features, 8), nn.BatchNorm1d(8), nn.Linear(8, n_classes)]\n"
        "    nn.init.orthogonal_(layers[0].weight)\n"
        "    return nn.Sequential(nn.Flatten(), *layers)\n"
    )
    network_options = [
        "--network",
        f"{tmp_path}/mine.py:make",
        "--dataset",
        "digits",
        "--stages",
        "2",
    ]
    assert main([*LOCAL, *network_options, "--results", str(tmp_path / "run"), "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "stages     2, cut before 1.2: 520, 106 weights" in output
    assert "warning    --stages: each rank begins with the whole network in memory" in output
    assert "note       batch normalisation goes by micro-batches, of 16 rows" in output


@pytest.mark.slow
def test_a_stage_is_killed_then_the_launcher_and_the_run_goes_on_from_there(tmp_path):
    folder = tmp_path / "run"
    options = [*SMALL, "--epochs", "12", "--batch-size", "16", "--checkpoint-seconds", "0.1"]
    reached = killed_twice(folder, *options, seconds=240)
    table = pd.read_parquet(folder / "epochs.parquet")
    assert table["epoch"].tolist() == list(range(1, 13))
    assert table["step"].iloc[-1] > reached
    whole = tmp_path / "whole"
    assert main([*options, "--results", str(whole), "--quiet"]) == 0
    losses = (
        pd.read_parquet(run / "epochs.parquet")["validation_loss"].iloc[-1]
        for run in (folder, whole)
    )
    assert next(losses) == pytest.approx(next(losses), rel=1e-3)
