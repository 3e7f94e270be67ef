"""Runs of Weights & Biases in its offline mode, whose files its own reader reads."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from wandb.proto.wandb_internal_pb2 import Record

from pipelines import svm_grid
from pipelines.errors import InputError
from pipelines.run.tracking.wandb import WandbLogger
from pipelines.testing import LoggerContract
from tests.command_runs import said_by

SMALL = ["--limit", "150", "--n-c", "2", "--n-gamma", "2", "--folds", "2"]
SMALL += ["--cluster", "threads", "--solver", "path"]


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No account, no server, and nothing of who runs the tests."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", "offline")


def records_of(folder: Path) -> list[Any]:
    """The records of an offline run: LevelDB's log format, after a header of seven bytes."""
    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    content, block, place = path.read_bytes(), 32_768, 7
    assert content[:4] == b":W&B"
    records, part = list[Any](), b""
    while place + 7 <= len(content):
        if block - place % block < 7:
            place += block - place % block
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        part += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last of its parts
            record = Record()
            record.ParseFromString(part)
            records.append(record)
            part = b""
    return records


def test_a_run_is_there(tmp_path: Path, offline: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "a-secret-of-the-environment")
    folder = tmp_path / "grid"
    words = ["--results", str(folder), "--log-to", "wandb:mine"]
    said = said_by("svm_grid", *SMALL, *words)
    assert f"wandb      run grid in {folder / 'wandb' / 'offline-run-'}" in said
    records = records_of(folder)
    (run,) = {
        record.run.run_id: record.run for record in records if record.HasField("run")
    }.values()
    assert (run.project, run.display_name, run.job_type) == ("mine", "grid", "svm-grid")
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert (config["n_c"], config["data.name"]) == (2, "digits")
    history = [
        {
            item.key or item.nested_key[0]: json.loads(item.value_json)
            for item in record.history.item
        }
        for record in records
        if record.HasField("history")
    ]
    scores = {line["step"]: line["fold_score"] for line in history if "fold_score" in line}
    rows = [
        row
        for line in (folder / "journal.jsonl").read_text().splitlines()
        for row in json.loads(line)["rows"]
    ]
    assert scores == {number: row["score"] for number, row in enumerate(rows)}
    summary = {
        item.key or item.nested_key[0]: item.value_json
        for record in records
        if record.HasField("summary")
        for item in record.summary.update
    }
    answer = json.loads((folder / "run.json").read_text())
    assert json.loads(summary["best_cv_score"]) == answer["best"]["score_mean"]
    files = (path for path in (folder / "wandb").rglob("*") if path.is_file())
    assert not any(b"a-secret-of-the-environment" in path.read_bytes() for path in files)


def test_without_an_account_nothing_is_begun(
    tmp_path: Path, offline: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    import wandb

    wandb.teardown()
    try:
        with pytest.raises(InputError, match=r"^log_to='wandb' needs an account at .*offline$"):
            svm_grid.run(results=tmp_path / "grid", log_to="wandb")
    finally:
        wandb.teardown()
    assert not (tmp_path / "grid").exists()


def test_a_target_is_a_project() -> None:
    with pytest.raises(InputError, match="must be followed by PROJECT or ENTITY/PROJECT"):
        WandbLogger("https://example.org/a")


class TestContract(LoggerContract):
    @pytest.fixture
    def make_logger(self, offline):
        import wandb

        wandb.teardown()  # it keeps the settings of its first use
        return WandbLogger
