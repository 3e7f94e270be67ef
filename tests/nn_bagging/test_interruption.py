"""What the command survives, and how it goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.nn_bagging import main
from tests.chaos.checks import same
from tests.command_runs import cells, record, start, wait_for_tasks

from .conftest import LONGER, said_by_members

pytestmark = pytest.mark.usefixtures("without_figures")


def assert_equal_runs(folder: Path, expected: Path) -> None:
    pd.testing.assert_frame_equal(cells(folder), cells(expected))
    np.testing.assert_array_equal(said_by_members(folder), said_by_members(expected))
    for fact in ("vote_test_error", "mean_test_error", "members", "selective_prediction"):
        assert record(folder)[fact] == record(expected)[fact]
    networks = [sorted(run.glob("members/*")) for run in (folder, expected)]
    for one, other in zip(*networks, strict=True):
        assert one.name == other.name
        assert same(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "n_tasks"), [(signal.SIGTERM, 2), (signal.SIGKILL, 13)])
def test_a_stopped_run_is_resumed_and_ends_the_same(
    how: signal.Signals, n_tasks: int, tmp_path: Path, undisturbed: Path
) -> None:
    folder = tmp_path / "run"
    program = start("nn_bagging", *LONGER, "--results", str(folder))
    wait_for_tasks(folder, n_tasks, program)
    program.send_signal(how)
    _, said = program.communicate()
    if how != signal.SIGKILL:
        assert program.returncode == 1
        assert said.startswith("nn_bagging: stopped on request; finished fits are saved in")
        assert len(said.splitlines()) == 1
    before = (folder / "journal.jsonl").read_bytes()
    before = before[: before.rindex(b"\n") + 1]
    assert main(["--resume", str(folder), "--quiet"]) == 0
    after = (folder / "journal.jsonl").read_bytes()
    assert after.startswith(before), "a finished row was lost or computed anew"
    tasks = [json.loads(line)["task"] for line in after.splitlines()]
    assert len(tasks) == len(set(tasks)) == 4 * 3 + 4
    assert_equal_runs(folder, undisturbed)


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(tmp_path: Path, undisturbed: Path) -> None:
    folder = tmp_path / "run"
    program = start("nn_bagging", *LONGER, "--workers", "2", "--results", str(folder))
    wait_for_tasks(folder, 3, program)
    os.kill(record(folder)["cluster"]["workers"][0]["pid"], signal.SIGKILL)
    said, complaints = program.communicate()
    assert (program.returncode, complaints) == (0, ""), said
    assert_equal_runs(folder, undisturbed)


def test_a_member_whose_file_is_gone_is_made_again(tmp_path: Path, undisturbed: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(undisturbed, folder)
    (folder / "members" / "member-02.safetensors").unlink()
    (folder / "run.json").write_text(json.dumps(record(folder) | {"status": "running"}))
    assert main(["--resume", str(folder), "--quiet", "--workers", "1"]) == 0
    lines = (folder / "journal.jsonl").read_text().splitlines()
    assert len(lines) == 17
    assert json.loads(lines[-1])["task"] == "refit-member=2"
    assert_equal_runs(folder, undisturbed)


def test_a_finished_run_has_nothing_to_resume_but_may_explain_more(
    tmp_path: Path, finished: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    monkeypatch.setattr("pipelines.run.cluster.open_cluster", None)  # needs no cluster
    assert main(["--resume", str(folder), "--quiet", "--explain", "11"]) == 0
    with np.load(folder / "explained.npz", allow_pickle=False) as arrays:
        assert arrays["name"].tolist()[6:] == ["test sample 11", "mine.png"]
    assert_equal_runs(folder, finished[0])
    assert record(folder)["wall_seconds"] == record(finished[0])["wall_seconds"]


def test_too_little_memory_is_said_and_more_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "run")
    tiny = ["--limit", "100", "--n-bootstrap", "2", "--n-tuning", "1", "--folds", "2",
            "--max-epochs", "2", "--cluster", "local", "--workers", "1"]  # fmt: skip
    assert main([*tiny, "--memory", "0.0001", "--results", folder]) == 1
    said = capsys.readouterr().err
    assert said.startswith("nn_bagging: no member could be trained: ")
    assert len(said.splitlines()) == 1
    assert record(Path(folder))["status"] == "stopped"
    assert main(["--resume", folder, "--quiet", "--memory", "4"]) == 0
    assert set(cells(Path(folder)).status) == {"ok"}
