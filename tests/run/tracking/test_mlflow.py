"""Runs in MLflow's own stores, read again by its client."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow import MlflowClient

from pipelines import svm_grid
from pipelines.errors import InputError
from pipelines.run.lifecycle import Session
from pipelines.run.tracking.mlflow import MlflowLogger
from pipelines.testing import LoggerContract
from tests.command_runs import cells, said_by

SMALL = ["--limit", "150", "--n-c", "2", "--n-gamma", "2", "--folds", "2"]
SMALL += ["--cluster", "threads", "--solver", "path"]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What MLflow would take from who runs the tests, and what a logger sets for the process."""
    monkeypatch.chdir(tmp_path)  # where MLflow's own default experiment has its artifacts
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_HTTP_REQUEST_MAX_RETRIES"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def client_of(folder: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")


def runs_of(client: MlflowClient, name: str = "pleasingly") -> list[Any]:
    experiment = client.get_experiment_by_name(name)
    return [] if experiment is None else list(client.search_runs([experiment.experiment_id]))


def record_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


@pytest.mark.figures
def test_a_run_is_there_with_all_it_left(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "grid"
    words = ["--results", str(folder), "--mlflow", str(store), "--mlflow-candidates"]
    said = said_by("svm_grid", *SMALL, *words)
    assert f"mlflow     run grid in {store}\n" in said
    record, client = record_of(folder), client_of(store)
    runs = {run.info.run_name: run for run in runs_of(client)}
    run = runs.pop("grid")
    assert run.info.status == "FINISHED"
    params, metrics = run.data.params, run.data.metrics
    expected = {"n_c": "2", "folds": "2", "seed": "0", "limit": "150", "cluster": "threads"}
    expected |= {"data.name": "digits", "data.fingerprint": record["dataset"]["fingerprint"]}
    expected |= {"version.numpy": record["versions"]["numpy"], "solver": record["solver"]}
    expected["best_C"] = str(record["best"]["C"])
    assert expected.items() <= params.items()
    assert not {"results", "mlflow", "data_dir", "quiet", "probability"} & params.keys()
    assert metrics["best_cv_score"] == record["best"]["score_mean"]
    assert metrics["test_error"] == record["test_error"]
    assert metrics["baseline_test_error"] == record["baseline"]["test_error"]
    assert "seed" not in metrics

    # Each fold of each candidate is a step.
    rows = [
        row
        for line in (folder / "journal.jsonl").read_text().splitlines()
        for row in json.loads(line)["rows"]
    ]
    history = client.get_metric_history(run.info.run_id, "fold_error")
    assert [(entry.step, entry.value) for entry in history] == [
        (number, row["error"]) for number, row in enumerate(rows)
    ]
    assert len(rows) == 8

    paths = [entry.path for entry in client.list_artifacts(run.info.run_id)]
    assert paths == ["figures", "model", "report.html", "run.json"]
    figures = {Path(entry.path).name for entry in client.list_artifacts(run.info.run_id, "figures")}
    assert figures == {path.name for kind in ("svg", "png") for path in folder.glob(f"*.{kind}")}
    assert {"heat_map.svg", "heat_map.png"} <= figures
    model = client.download_artifacts(run.info.run_id, "model/model.safetensors", str(tmp_path))
    assert Path(model).read_bytes() == (folder / "model.safetensors").read_bytes()
    assert run.data.tags["mlflow.note.content"].startswith("The best is C = ")
    (data,) = run.inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest) == ("digits", params["data.fingerprint"][:36])

    # Its candidates are its children.
    assert len(runs) == 4
    for child in runs.values():
        assert child.data.tags["mlflow.parentRunId"] == run.info.run_id
        assert child.data.params.keys() == {"C", "gamma"}
        scores = client.get_metric_history(child.info.run_id, "fold_score")
        assert [entry.step for entry in scores] == [0, 1]
        mean = sum(entry.value for entry in scores) / 2
        assert child.data.metrics["cv_score"] == pytest.approx(mean, abs=1e-12)
    best = max(child.data.metrics["cv_score"] for child in runs.values())
    assert best == metrics["best_cv_score"]


def test_results_do_not_depend_on_it(tmp_path: Path) -> None:
    """And without it nothing is logged."""
    said_by("svm_grid", *SMALL, "--results", str(tmp_path / "a"))
    said_by("svm_grid", *SMALL, "--results", str(tmp_path / "b"), "--mlflow", str(tmp_path / "m"))
    first, second = record_of(tmp_path / "a"), record_of(tmp_path / "b")
    assert "trackers" not in first
    assert first["fingerprint"] == second["fingerprint"]
    predictions = "test_predictions.parquet"
    assert first["files"][predictions] == second["files"][predictions]
    pd.testing.assert_frame_equal(cells(tmp_path / "a"), cells(tmp_path / "b"))
    assert first["best"] == second["best"]


def test_a_stopped_run_goes_on_in_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, folder = tmp_path / "store", tmp_path / "grid"

    def interrupt(session: Session, metadata: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Session, "finish", interrupt)
        words = ["--results", str(folder), "--mlflow", str(store)]
        assert svm_grid.main([*SMALL, *words]) == 1
    (stopped,) = runs_of(client_of(store))
    assert stopped.info.status == "KILLED"
    assert "best_cv_score" not in stopped.data.metrics
    # As if it had been stopped after the first task.
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(lines[0])
    capsys.readouterr()
    assert svm_grid.main(["--resume", str(folder)]) == 0
    assert f"mlflow     run grid in {store}\n" in capsys.readouterr().out
    (run,) = runs_of(client_of(store))
    assert (run.info.run_id, run.info.status) == (stopped.info.run_id, "FINISHED")
    tracker = record_of(folder)["trackers"][f"mlflow:{store}"]
    assert tracker["state"]["run_id"] == run.info.run_id
    assert tracker["is_whole"]
    history = client_of(store).get_metric_history(run.info.run_id, "fold_error")
    assert {entry.step for entry in history} == set(range(8))

    # A finished run that is looked at again is not logged again.
    assert svm_grid.main(["--resume", str(folder)]) == 0
    assert "mlflow     " not in capsys.readouterr().out
    assert len(client_of(store).get_metric_history(run.info.run_id, "test_error")) == 1


def test_a_finished_run_is_logged_afterwards(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "grid"
    said_by("svm_grid", *SMALL, "--results", str(folder))
    before = record_of(folder)
    said_by("svm_grid", "--resume", str(folder), "--mlflow", str(store))
    (run,) = runs_of(client_of(store))
    assert run.info.status == "FINISHED"
    assert run.data.metrics["best_cv_score"] == before["best"]["score_mean"]
    history = client_of(store).get_metric_history(run.info.run_id, "fold_score")
    assert [entry.step for entry in history] == list(range(8))


def test_a_dry_run_logs_nothing(tmp_path: Path) -> None:
    said_by("svm_grid", *SMALL, "--dry-run", "--mlflow", str(tmp_path / "store"))
    assert not (tmp_path / "store").exists()


def test_a_store_that_fails_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that is not taken is said once; the next session sends it."""
    store, folder = tmp_path / "store", tmp_path / "grid"

    def fail(*of_any: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_batch", fail)
        words = ["--results", str(folder), "--mlflow", str(store)]
        assert svm_grid.main([*SMALL, *words]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("warning    mlflow does not take the log (OSError: ") == 1
    assert captured.err == ""
    record = record_of(folder)
    assert record["status"] == "finished"
    assert not record["trackers"][f"mlflow:{store}"]["is_whole"]
    said_by("svm_grid", "--resume", str(folder))
    run = next(run for run in runs_of(client_of(store)) if run.info.status == "FINISHED")
    assert run.data.metrics["test_error"] == record["test_error"]
    history = client_of(store).get_metric_history(run.info.run_id, "fold_score")
    assert [entry.step for entry in history] == list(range(8))


def test_a_folder_that_is_a_file_store_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient(tracking_uri=str(tmp_path / "store"))
    client.create_experiment("mine")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    words = ["--results", str(tmp_path / "grid"), "--log-to", f"mlflow:{tmp_path / 'store'}"]
    said_by("svm_grid", *SMALL, *words)
    (run,) = runs_of(client, "mine")
    assert run.info.status == "FINISHED"
    assert not (tmp_path / "store" / "mlflow.db").exists()
    assert len(client.get_metric_history(run.info.run_id, "fold_score")) == 8


def test_within_an_active_run_it_is_its_child(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'store' / 'mlflow.db'}"
    (tmp_path / "store").mkdir()
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        with mlflow.start_run(run_name="notebook") as mine:
            options = {"limit": 150, "n_c": 2, "n_gamma": 2, "folds": 2, "cluster": "threads"}
            options["solver"] = "path"
            svm_grid.run(**options, results=tmp_path / "a", quiet=True, log_to="mlflow")
            svm_grid.run(**options, results=tmp_path / "b", quiet=True, mlflow=tmp_path / "other")
            assert mlflow.active_run().info.run_id == mine.info.run_id
    finally:
        mlflow.set_tracking_uri(before)
    children = MlflowClient(tracking_uri=uri).search_runs(
        [mine.info.experiment_id], f"tags.`mlflow.parentRunId` = '{mine.info.run_id}'"
    )
    assert [run.info.run_name for run in children] == ["a"]
    (own,) = runs_of(client_of(tmp_path / "other"))
    assert "mlflow.parentRunId" not in own.data.tags


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("https://me:secret@example.org", "without a password.*got one for example.org; put it"),
        ("http://127.0.0.1:9", r"a server that answers, got http://127.0.0.1:9 \(.*\); start it"),
        ("ftp://example.org/a", "address that MLflow can log to, got ftp://example.org/a"),
    ],
)
def test_an_address_that_cannot_be_logged_to_is_refused(
    target: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert svm_grid.main(["--results", str(tmp_path / "grid"), "--mlflow", target]) == 2
    error = capsys.readouterr().err
    assert error.startswith("svm-grid: --mlflow must be ")
    assert error.count("\n") == 1
    assert "secret" not in error
    with pytest.raises(InputError, match=f"^mlflow must be .*{why}"):
        svm_grid.run(results=tmp_path / "grid", mlflow=target)
    assert not (tmp_path / "grid").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="mlflow must be a folder that can be written"):
        svm_grid.run(mlflow=tmp_path / "file")


@pytest.mark.parametrize("missing", ["mlflow", "sqlalchemy"])
def test_a_missing_package_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.run.tracking import mlflow as module

    monkeypatch.setattr(module, "find_spec", lambda name: None if name == missing else True)
    with pytest.raises(InputError, match=r"^mlflow needs .*, which is not installed; run .*mlflow"):
        MlflowLogger("folder")


class TestContract(LoggerContract):
    @pytest.fixture
    def make_logger(self, tmp_path):
        return lambda: MlflowLogger(str(tmp_path / "store"))
