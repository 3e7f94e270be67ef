"""Event files, read by TensorBoard's own accumulator."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pipelines import svm_grid
from pipelines.errors import InputError
from pipelines.run.tracking.tensorboard import TensorBoardLogger
from pipelines.testing import LoggerContract
from tests.command_runs import said_by


def scalars(folder: Path, tag: str) -> dict[int, float]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return {event.step: event.value for event in events.Scalars(tag)}


def test_losses_of_a_training_by_epoch(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["--network", "approximator", "--points", "400", "--epochs", "4", "--workers", "1"]
    words += ["--cluster", "local", "--results", str(run), "--log-to", "tensorboard"]
    said = said_by("data_parallel", *words)
    assert f"tensorboard run run in {run / 'tensorboard'}\n" in said
    epochs = pd.read_parquet(run / "epochs.parquet").set_index("epoch")
    (folder,) = (path for path in (run / "tensorboard").iterdir() if path.is_dir())
    assert folder.name == "every-step on 1, repeat 1"
    for name in ("loss", "validation_loss"):
        logged = scalars(folder, name)
        assert list(logged) == list(epochs.index)
        assert list(logged.values()) == pytest.approx(list(epochs[name]), rel=1e-6)


def test_losses_of_members_by_epoch(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = "--limit 150 --n-bootstrap 2 --n-tuning 1 --folds 2 --max-epochs 3 --cluster threads"
    words += f" --results {run} --log-to tensorboard:{tmp_path / 'logs'}"
    said_by("nn_bagging", *words.split())
    rows = [
        row
        for line in (run / "journal.jsonl").read_text().splitlines()
        for row in json.loads(line)["rows"]
        if row["fold"] < 0
    ]
    assert len(rows) == 2
    for row in rows:
        logged = scalars(tmp_path / "logs" / "run" / f"member {row['member']}", "training_loss")
        losses = json.loads(row["losses"])
        assert list(logged) == list(range(1, 1 + len(losses)))
        assert list(logged.values()) == pytest.approx(losses, rel=1e-6)
    assert len(scalars(tmp_path / "logs" / "run", "fold_loss")) == 4


def test_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="log_to='tensorboard' must be followed by a folder"):
        svm_grid.run(log_to=f"tensorboard:{tmp_path / 'file'}")


class TestContract(LoggerContract):
    @pytest.fixture(params=[True, False], ids=["in the run's folder", "in a folder of logs"])
    def make_logger(self, request, tmp_path):
        if request.param:
            return TensorBoardLogger
        return lambda: TensorBoardLogger(str(tmp_path / "logs"))
