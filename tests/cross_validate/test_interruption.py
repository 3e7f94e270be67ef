"""What the command survives, and how it goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pandas as pd
import pytest

from pipelines.cross_validate import main
from tests.command_runs import cells, record, start, summary, tasks_of, wait_for_tasks

from .conftest import LONGER, SMALL

pytestmark = pytest.mark.usefixtures("without_figures")


def rows(folder: Path) -> pd.DataFrame:
    """The cells, less what depends on which worker had transformed rows at hand."""
    return cells(folder).drop(columns="n_steps_made")


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_is_resumed_and_ends_the_same(
    how: signal.Signals, tmp_path: Path, undisturbed: Path
) -> None:
    folder = tmp_path / "run"
    program = start("cross_validate", *LONGER, "--results", str(folder))
    wait_for_tasks(folder, 10, program)
    if how == signal.SIGINT:  # as a terminal does: to the whole group
        os.killpg(program.pid, how)
    else:
        program.send_signal(how)
    _, said = program.communicate()
    if how == signal.SIGKILL:
        assert program.returncode == -signal.SIGKILL
    else:
        assert program.returncode == 1
        assert said.startswith("cross_validate: stopped on request; finished fits are saved in")
    before = (folder / "journal.jsonl").read_bytes()
    before = before[: before.rindex(b"\n") + 1]
    assert main(["--resume", str(folder), "--quiet"]) == 0
    after = (folder / "journal.jsonl").read_bytes()
    assert after.startswith(before), "a finished row was lost or computed anew"
    tasks = [json.loads(line)["task"] for line in after.splitlines()]
    assert len(tasks) == len(set(tasks)) == 84
    pd.testing.assert_frame_equal(rows(folder), rows(undisturbed))
    for fact in ("best", "test_scores", "fits_asked", "fits_made"):
        assert record(folder)[fact] == record(undisturbed)[fact]


@pytest.mark.slow
def test_a_killed_worker_costs_no_row(tmp_path: Path, undisturbed: Path) -> None:
    folder = tmp_path / "run"
    program = start("cross_validate", *LONGER, "--workers", "2", "--results", str(folder))
    wait_for_tasks(folder, 5, program)
    os.kill(record(folder)["cluster"]["workers"][0]["pid"], signal.SIGKILL)
    said, complaints = program.communicate()
    assert (program.returncode, complaints) == (0, ""), said
    pd.testing.assert_frame_equal(rows(folder), rows(undisturbed))


def test_one_and_four_workers_give_the_same_rows(tmp_path: Path) -> None:
    folders = [tmp_path / n_workers for n_workers in ("1", "4")]
    for folder in folders:
        done = main([*SMALL, "--workers", folder.name, "--quiet", "--results", str(folder)])
        assert done == 0
    pd.testing.assert_frame_equal(rows(folders[0]), rows(folders[1]))


@pytest.mark.slow
def test_tasks_of_shared_fits_are_resumed_in_part(
    tmp_path: Path, finished: tuple[Path, str]
) -> None:
    """Of a group some rows are there: the others come out as if all had been fitted together."""
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    kept = [task | {"rows": task["rows"][:1]} for task in tasks_of(folder)]
    (folder / "journal.jsonl").write_text("".join(json.dumps(one) + "\n" for one in kept))
    (folder / "run.json").write_text(json.dumps(record(folder) | {"status": "running"}))
    assert main(["--resume", str(folder), "--quiet", "--workers", "1"]) == 0
    told = ["n_fits", "n_steps"]
    pd.testing.assert_frame_equal(
        rows(folder).drop(columns=told), rows(finished[0]).drop(columns=told)
    )


def test_a_finished_run_has_nothing_to_resume(
    finished: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, said = finished
    monkeypatch.setattr("pipelines.run.cluster.open_cluster", None)  # needs no cluster
    assert main(["--resume", str(folder)]) == 0
    assert summary(said, 4) == summary(capsys.readouterr().out, 4)
