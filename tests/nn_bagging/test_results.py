"""What the command prints and leaves behind."""

from __future__ import annotations

import os
from typing import Any

import dask
import numpy as np
import pandas as pd
import pytest
from distributed import Client, KilledWorker

from pipelines.bagging import answer
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.predict import ask_members
from pipelines.bagging.reductions import reduce_members
from pipelines.data.load import load_dataset
from pipelines.nn.member import Ensemble
from pipelines.nn_bagging import main
from tests.command_runs import SMALL, cells, record, tasks_of, undisturbed_run

from .conftest import said_by_members


def test_the_terminal_shows_the_answer(finished):
    folder, output = finished
    about = record(folder)
    assert "300 training rows, images of 8 x 8 pixels, 10 classes; 360 test rows" in output
    assert "3 members x 2 candidates x 3 folds = 18 fits in 6 tasks, and 3 refits" in output
    assert "dashboard  http://127.0.0.1:" in output
    n_wrong = about["n_vote_errors"]
    error = f"{n_wrong / 360 * 100:.2f} %"
    assert f"vote       test error {error} ({n_wrong} of 360, 95 % interval" in output
    assert "test samples are deferred to a human" in output
    before, scaled = about["test_calibration_error"], about["calibration"]
    after = f"{100 * scaled['test_calibration_error']:.2f} % at temperature"
    assert (
        f"calibration error {100 * before:.2f} %, {after} {scaled['temperature']:.2f}\n" in output
    )
    assert f"report     {folder / 'report.html'}" in output


def test_the_folder_holds_the_run(finished):
    folder, _ = finished
    about, table = record(folder), cells(folder)
    assert len(table) == 18
    assert about["status"] == "finished"
    assert about["space"]["network"] == "conv"
    assert 0 < about["busy_share"] <= 1
    members = pd.read_csv(folder / "members.csv", float_precision="round_trip")
    for row in members.to_dict("records"):
        losses = table[table.member == row["member"]].groupby("candidate").loss.mean()
        assert row["cv_loss"] == pytest.approx(losses.min())
    assert [member["test_error"] for member in about["members"]] == members.test_error.tolist()
    p = said_by_members(folder)
    assert p.dtype == np.float32
    assert p.shape == (3, 360, 10)
    truth = load_dataset("digits", limit=300).y_test
    np.testing.assert_allclose(members.test_error, (p.argmax(axis=2) != truth).mean(axis=1))
    assert about["members_mean_test_error"] == pytest.approx(members.test_error.mean())
    predictions = pd.read_parquet(folder / "test_predictions.parquet")
    np.testing.assert_array_equal(predictions.true, truth)
    assert about["vote_test_error"] == np.mean(predictions.predicted != truth)
    assert about["mean_test_error"] == np.mean(p.mean(axis=0).argmax(axis=1) != truth)
    votes = (p.argmax(axis=2) == predictions.predicted.to_numpy()).mean(axis=0)
    np.testing.assert_allclose(predictions.disagreement, 1 - votes)
    for name in (
        "certainty_disagreement",
        "certainty_chosen",
        "certainty_own",
        "ensemble_size",
        "calibration",
        "selective_prediction",
        "confusion_matrix",
    ):
        assert (folder / f"{name}.svg").stat().st_size > 1000
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text()
    calibration = about["calibration"]
    assert calibration["temperature"] < 1  # three members that disagree
    assert calibration["test_log_loss"] < about["test_log_loss"]
    assert f"Calibration on out-of-bag rows: {calibration['line']}." in page
    assert f"{about['vote_test_error'] * 100:.2f}" in page
    assert "mine.png: vote" in page


def test_what_is_explained_is_what_the_members_said(finished):
    folder, _ = finished
    with np.load(folder / "explained.npz", allow_pickle=False) as arrays:
        names, probabilities = arrays["name"].tolist(), arrays["probabilities"]
        true, groups, X = arrays["true"], arrays["group"].tolist(), arrays["X"]
    assert names[6:] == ["test sample 7", "test sample 18", "mine.png"]
    assert groups == ["disagreement"] * 6 + ["chosen"] * 2 + ["own"]
    np.testing.assert_array_equal(probabilities[:, 6], said_by_members(folder)[:, 7])
    assert true[-1] == -1
    (outputs, _), classes = ask_members(folder, X[-1:])
    np.testing.assert_allclose(probabilities[:, -1], outputs[:, 0], atol=1e-6)
    assert classes == list("0123456789")


def test_the_stored_members_give_the_stored_answers(finished):
    folder, _ = finished
    (outputs, _), _ = ask_members(folder, load_dataset("digits", limit=300).X_test)
    np.testing.assert_allclose(outputs, said_by_members(folder), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", ["2", "4"])
def test_members_do_not_depend_on_the_number_of_workers(n_workers, tmp_path, undisturbed):
    folder = tmp_path / "run"
    undisturbed_run("nn_bagging", folder, "--workers", n_workers)
    pd.testing.assert_frame_equal(cells(folder), cells(undisturbed))
    np.testing.assert_array_equal(said_by_members(folder), said_by_members(undisturbed))
    for name in ("members.csv", "ensemble_sizes.parquet"):
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes()
    stored, expected = (
        Ensemble.load(run / "members" / "member-03.safetensors").members[0]
        for run in (folder, undisturbed)
    )
    assert stored.spec == expected.spec
    for name, weights in expected.weights.items():
        np.testing.assert_array_equal(stored.weights[name], weights)


@pytest.mark.figures
@pytest.mark.slow
def test_a_table_of_ones_own(tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 3)) * [1, 100, 0.01], columns=["a", "b", "c"])
    table["kind"] = np.where(table.a + table.b / 100 > 0, "up", "down")
    table.to_csv(tmp_path / "mine.csv", index=False)
    folder = tmp_path / "run"
    options = ["--dataset", str(tmp_path / "mine.csv"), "--target", "kind", "--explain", "3"]
    small = ["--n-bootstrap", "2", "--n-tuning", "2", "--folds", "3"]
    assert main([*options, *small, "--cluster", "threads", "--results", str(folder)]) == 0
    about = record(folder)
    assert about["space"]["network"] == "table"
    assert about["vote_test_error"] < 0.2
    assert "n_conv_layer" not in pd.read_csv(folder / "members.csv")
    (outputs, _), classes = ask_members(folder, table[["a", "b", "c"]].to_numpy())
    assert classes == ["down", "up"]
    right = np.array(classes)[outputs.mean(axis=0).argmax(axis=1)] == table.kind
    assert right.mean() > 0.85
    assert "test sample 3" in (folder / "report.html").read_text()
    assert main(["predict", str(folder), "--image", "x.png"]) == 2
    assert "data are a table" in capsys.readouterr().err


def test_no_members_probabilities_come_to_the_client(tmp_path, monkeypatch):
    """Workers reduce what they keep of their own; in a later session they read the files."""
    gathered = []
    gather = Client.gather

    def noted(client, *arguments, **options):
        result = gather(client, *arguments, **options)
        values = [
            value for entry in result for value in getattr(entry, "__dict__", {"": entry}).values()
        ]
        gathered.extend(array.shape for array in values if isinstance(array, np.ndarray))
        return result

    def predictions(*arguments):  # pickled by its name
        raise AssertionError("the client reads them")

    folder = tmp_path / "run"
    reduce_and_answer = answer.answer

    def without_files(*arguments, **options):
        files = list(folder.glob("members/*.npz"))
        for file in files:
            file.rename(file.with_suffix(".away"))
        entries = reduce_and_answer(*arguments, **options)
        for file in files:
            file.with_suffix(".away").rename(file)
        return entries

    with monkeypatch.context() as client:
        client.setattr(Client, "gather", noted)
        client.setattr(MemberFiles, "predictions", predictions)
        options = ["--workers", "2", "--results", str(folder), "--quiet"]
        with monkeypatch.context() as first:
            first.setattr(answer, "answer", without_files)
            assert main([*SMALL["nn_bagging"], *options]) == 0
        assert (360, 10) in gathered  # the mean
        assert (3, 6, 10) in gathered  # of the samples that are drawn
        (folder / "member_probabilities.npz").unlink()
        assert main(["--resume", str(folder), "--quiet"]) == 0
        assert not [shape for shape in gathered if shape[:2] == (3, 360)]
    stored = np.stack([MemberFiles(folder).predictions(member)[0][0] for member in range(3)])
    np.testing.assert_array_equal(said_by_members(folder), stored)
    table = pd.read_parquet(folder / "test_predictions.parquet")
    np.testing.assert_array_equal(table["certainty"], reduce_members(stored).certainty)


def test_a_worker_that_dies_takes_no_member_with_it(tmp_path, monkeypatch):
    """Another reads the files of what it kept."""
    folder, schedulers = tmp_path / "run", list[Any]()
    compute = dask.compute

    def after_a_death(*things, scheduler):
        if not schedulers:
            rows = [row for task in tasks_of(folder) for row in task["rows"] if row["fold"] == -1]
            scheduler.run(os._exit, 1, workers=[rows[0]["worker"]], on_error="ignore")
        schedulers.append(scheduler)
        return compute(*things, scheduler=scheduler)

    monkeypatch.setattr("dask.compute", after_a_death)
    options = ["--workers", "2", "--results", str(folder), "--quiet"]
    assert main([*SMALL["nn_bagging"], *options]) == 0
    assert "threads" not in schedulers
    stored = np.stack([MemberFiles(folder).predictions(member)[0][0] for member in range(3)])
    np.testing.assert_array_equal(said_by_members(folder), stored)


@pytest.mark.slow
def test_members_are_reduced_here_where_a_worker_dies_of_it(tmp_path, monkeypatch):
    folder, schedulers = tmp_path / "a run", list[Any]()
    compute = dask.compute

    def dies(*things, scheduler):
        schedulers.append(scheduler)
        if scheduler != "threads":
            raise KilledWorker("predictions", None, 3)
        return compute(*things, scheduler=scheduler)

    monkeypatch.setattr("dask.compute", dies)
    options = ["--workers", "1", "--results", str(folder), "--quiet"]
    assert main([*SMALL["nn_bagging"], *options]) == 0
    assert [scheduler == "threads" for scheduler in schedulers] == [False, True, True]
    assert said_by_members(folder).shape == (3, 360, 10)


@pytest.mark.slow
def test_members_are_reduced_here_where_workers_do_not_see_the_folder(tmp_path, monkeypatch):
    folder, read = tmp_path / "run", list[int]()
    predictions = MemberFiles.predictions

    def noted(files, member):
        read.append(member)
        return predictions(files, member)

    monkeypatch.setattr(MemberFiles, "predictions", noted)
    # Of another machine: the path is there, the file another.
    monkeypatch.setattr("os.path.getmtime", lambda path: float(os.getpid()))
    options = ["--workers", "1", "--results", str(folder), "--quiet"]
    assert main([*SMALL["nn_bagging"], *options]) == 0
    assert sorted(set(read)) == [0, 1, 2]
    assert said_by_members(folder).shape == (3, 360, 10)
