"""The command: what it leaves, what it refuses, how it goes on after a death."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch", reason="networks are torch's")

from pipelines.data.model_file import read_model
from pipelines.data_parallel import main
from pipelines.parallel import elastic
from pipelines.parallel.checkpoint import progress_of, read
from pipelines.parallel.training_problem import approximator
from tests.command_runs import record, start

SMALL = [
    "--points",
    "600",
    "--epochs",
    "3",
    "--batch-size",
    "32",
    "--cluster",
    "local",
    "--dashboard",
    "off",
    "--workers",
    "2",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "compared"
    compared = ["--compare", "every-step,every-k=4,never", "--ranks", "1,2", "--repeats", "2"]
    assert main([*SMALL, *compared, "--results", str(folder), "--quiet"]) == 0
    return folder


def test_the_baseline_is_what_numpy_says(finished):
    baseline = record(finished)["baseline"]
    problem = approximator(600, 0.1, 0)
    y = problem.test["y"]
    assert baseline["test_metric"] == pytest.approx(np.abs(y - problem.train["y"].mean()).mean())
    assert baseline["words"] == "always answering the mean"


def test_each_strategy_is_trained_on_each_number_of_ranks(finished):
    table = pd.read_parquet(finished / "epochs.parquet")
    assert len(table) == 3 * 2 * 2 * 3
    assert (table["status"] == "ok").all()
    assert (table["n_ranks"] == table["ranks"]).all()
    alone = table[(table["ranks"] == 1) & (table["repeat"] == 0)]
    by_strategy = alone.pivot(index="epoch", columns="strategy", values="loss")
    assert np.allclose(by_strategy["every-step"], by_strategy["never"])  # one rank has no other
    assert (table.loc[table["ranks"] == 1, "communication_seconds"] == 0).all()
    together = table[table["ranks"] == 2]
    assert (together.loc[together["strategy"] == "every-step", "communication_seconds"] > 0).all()
    run = record(finished)
    assert len(run["trainings"]) == run["n_cells"] == 12
    assert run["restarts"] == []


def test_the_model_of_the_lowest_validation_loss_is_kept_under_its_own_names(finished):
    weights, about = read_model(finished / "model.safetensors")
    assert about["network"] == "approximator"
    assert [array.shape for array in weights.values()][:2] == [(80,), (80, 1)]
    run = record(finished)
    best = min(run["trainings"], key=lambda training: training["validation_loss"])
    assert run["test_metric"] == pytest.approx(best["test_metric"], rel=1e-4)
    named = f"{best['strategy']} on {best['ranks']}, repeat {best['repeat'] + 1}"
    assert run["best"] == {"training": named}


def test_the_page_shows_strategies_side_by_side(finished):
    page = (finished / "report.html").read_text()
    for words in ("every-k=4", "never", "Trainings", "communication"):
        assert words in page
    for figure in ("convergence", "training_times"):
        assert (finished / f"{figure}.svg").exists()
    assert "cell" not in page.split("The run took")[1].split("not counting")[0]


def test_a_resumed_run_trains_nothing_twice(finished):
    journal = (finished / "journal.jsonl").read_text()
    assert main(["--resume", str(finished), "--quiet"]) == 0
    assert (finished / "journal.jsonl").read_text() == journal


# Steps enough to lose a rank in their midst: 113 an epoch.
LONG = [
    "--points",
    "2000",
    "--batch-size",
    "16",
    "--cluster",
    "local",
    "--dashboard",
    "off",
    "--workers",
    "2",
    "--checkpoint-seconds",
    "0.1",
]


def children(pid):
    """Worker processes: the children of a local cluster's launcher that Dask spawned."""
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words = (path / "cmdline").read_bytes().decode()
        except (OSError, IndexError, ValueError):
            continue
        if parent == pid and "spawn_main" in words:
            pids.append(int(path.name))
    return sorted(pids)


def killed_twice(folder, *options, seconds):
    """Kill a worker of a training, then its launcher; resume it. The step that it had reached."""
    program = start("data_parallel", *options, "--results", str(folder))
    checkpoint = folder / "checkpoints" / "every-step-on-2-1.safetensors"

    def wait_for_step(step):
        until = time.monotonic() + seconds
        while (content := read(checkpoint)) is None or progress_of(content).step < step:
            assert program.poll() is None, program.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)
        return progress_of(content).step

    reached = wait_for_step(1)
    os.kill(children(program.pid)[0], signal.SIGKILL)
    reached = wait_for_step(reached + 200)  # a new process group went on
    os.killpg(program.pid, signal.SIGKILL)
    program.communicate()
    ended = start("data_parallel", "--resume", str(folder))
    output, errors = ended.communicate(timeout=2 * seconds)
    assert ended.returncode == 0, errors
    assert "trained    every-step, 2 ranks" in output
    return reached


@pytest.mark.slow
def test_a_rank_is_killed_then_the_launcher_and_the_run_goes_on_from_there(tmp_path):
    folder = tmp_path / "run"
    reached = killed_twice(folder, *LONG, "--epochs", "8", seconds=120)
    table = pd.read_parquet(folder / "epochs.parquet")
    assert table["epoch"].tolist() == list(range(1, 9))
    assert table["step"].is_monotonic_increasing
    assert table["step"].iloc[-1] > reached
    assert table["validation_loss"].iloc[-1] < 0.1


def test_ranks_on_several_hosts_need_consent(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(elastic, "hosts_of", lambda members: {"10.0.0.1", "10.0.0.2"})
    folder, short = tmp_path / "run", [*SMALL, "--epochs", "1"]
    assert main([*short, "--results", str(folder)]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "got 2 (10.0.0.1, 10.0.0.2); add --open-ranks where nobody else" in line
    assert not folder.exists()
    assert main([*short, "--results", str(tmp_path / "open"), "--open-ranks"]) == 0
    assert "warning    --open-ranks: whoever reaches" in capsys.readouterr().out


def test_a_replacement_from_another_host_stops_a_run_that_did_not_consent(
    tmp_path, capsys, monkeypatch
):
    hosts = iter([{"10.0.0.1"}, {"10.0.0.1", "10.0.0.2"}])
    monkeypatch.setattr(elastic, "hosts_of", lambda members: next(hosts))
    folder = tmp_path / "run"
    assert main([*SMALL, "--epochs", "1", "--results", str(folder)]) == 1
    assert "add --open-ranks where nobody else" in capsys.readouterr().err
    assert record(folder)["status"] == "stopped"


@pytest.mark.slow
def test_a_network_of_ones_own_learns_a_table_of_numbers(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def make(n_features, n_classes):\n"
        "    return nn.Sequential(nn.Linear(n_features, 8), nn.BatchNorm1d(8), nn.ReLU(),\n"
        "                         nn.Linear(8, n_classes))\n"
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    frame["colour"] = rng.choice(["red", "green"], 300)
    frame["price"] = 1000 + 50 * frame.a - 80 * (frame.colour == "red") + rng.normal(size=300)
    frame.to_csv(tmp_path / "t.csv", index=False)
    folder = tmp_path / "run"
    options = [
        "--network",
        f"{tmp_path}/mine.py:make",
        "--dataset",
        str(tmp_path / "t.csv"),
        "--target",
        "price",
        "--epochs",
        "30",
        "--batch-size",
        "16",
        "--sync",
        "average",
        "--learning-rate",
        "0.02",
        "--cluster",
        "local",
        "--dashboard",
        "off",
        "--workers",
        "2",
        "--results",
        str(folder),
        "--quiet",
    ]
    assert main(options) == 0
    run = record(folder)
    assert run["test_metric"] < 0.3 * frame.price.std()  # in units of the price
    weights, _ = read_model(folder / "model.safetensors")
    assert "1.running_mean" in weights


@pytest.mark.slow
def test_what_fails_and_what_diverges_is_said_and_the_rest_goes_on(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\n"
        "from torch import nn\n"
        "class Fails(nn.Linear):\n"
        "    def forward(self, x):\n"
        f"        if not Path('{tmp_path}/mended').exists():\n"
        f"            Path('{tmp_path}/tried').touch()\n"
        "            raise RuntimeError('no forward today')\n"
        "        return super().forward(x.flatten(1))\n"
        "def make(n_features, n_classes):\n"
        f"    if Path('{tmp_path}/tried').exists():\n"
        f"        Path('{tmp_path}/mended').touch()\n"
        "    return Fails(n_features, n_classes)\n"
    )
    options = ["--epochs", "2", "--cluster", "local", "--dashboard", "off", "--workers", "1"]
    network_options = ["--network", f"{tmp_path}/mine.py:make", "--dataset", "digits"]
    folder = tmp_path / "failed"
    assert main([*options, *network_options, "--results", str(folder), "--quiet"]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "no training gave a network: failed: RuntimeError: no forward today; nothing has" in line
    run = record(folder)
    assert run["status"] == "stopped"
    assert pd.read_parquet(folder / "epochs.parquet")["status"][0].startswith("failed: RuntimeErr")
    again = ["--resume", str(folder), "--quiet", *network_options[:2]]
    assert main(again) == 0  # what failed is tried again
    assert record(folder)["n_failed"] == 0
    (tmp_path / "tried").unlink()
    (tmp_path / "mended").unlink()
    folder = tmp_path / "once"
    assert (
        main([*options, *network_options, "--repeats", "2", "--results", str(folder), "--quiet"])
        == 0
    )
    run = record(folder)
    assert run["n_failed"] == 1
    assert run["trainings"][0]["status"] == "failed: RuntimeError: no forward today"
    assert run["best"] == {"training": "every-step on 1, repeat 2"}
    wild = ["--optimizer", "sgd", "--learning-rate", "100000", "--points", "500"]
    assert main([*options, *wild, "--results", str(tmp_path / "wild"), "--quiet"]) == 1
    assert "no training gave a network: diverged" in capsys.readouterr().err


@pytest.mark.slow
def test_the_bagging_network_learns_images_and_says_which_it_gets_wrong(tmp_path):
    folder = tmp_path / "run"
    options = [
        "--network",
        "bagging",
        "--dataset",
        "digits",
        "--epochs",
        "6",
        "--batch-size",
        "16",
        "--cluster",
        "local",
        "--dashboard",
        "off",
        "--workers",
        "2",
        "--results",
        str(folder),
        "--quiet",
    ]
    assert main(options) == 0
    run = record(folder)
    predictions = pd.read_parquet(folder / "test_predictions.parquet")
    assert run["n_test_errors"] == (predictions["true"] != predictions["predicted"]).sum()
    assert run["test_error"] < 0.1
