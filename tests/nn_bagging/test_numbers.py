"""An ensemble on a target of numbers: its mean, its intervals, and what is deferred."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError

from pipelines import BaggedNets, BaggedNetsRegressor, Run
from pipelines.bagging.intervals import JackknifeIntervals
from pipelines.bagging.members import MemberFiles
from pipelines.data.load import load_dataset
from pipelines.errors import InputError
from pipelines.nn.member import Ensemble
from pipelines.nn.settings import TrainingSettings
from pipelines.nn_bagging import Bagging, Options, main
from pipelines.search.splits import splits_of
from tests.command_runs import cells, record, said_by, tasks_of

TINY = ["--folds", "2", "--max-epochs", "40", "--cluster", "threads"]
COUNTS = ["--n-bootstrap", "5", "--n-tuning", "2"]
N_TASKS = 5 * 2 + 5


def source_of(folder):
    return ["--dataset", str(folder.parent / "diabetes.csv"), "--target", "target"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on diabetes, and what it said."""
    folder = tmp_path_factory.mktemp("numbers")
    load_diabetes(as_frame=True, scaled=False).frame.to_csv(folder / "diabetes.csv", index=False)
    words = [*source_of(folder / "run"), *TINY, *COUNTS]
    return folder / "run", said_by("nn_bagging", *words, "--results", str(folder / "run"))


@pytest.fixture
def copy(run, tmp_path):
    return Path(shutil.copytree(run[0], tmp_path / "copy"))


def data_of(folder):
    return load_dataset(str(folder.parent / "diabetes.csv"), target="target", task=None)


def known_of(folder, y):
    """What members say of the test rows, and what is known of the out-of-bag rows."""
    files = MemberFiles(folder)
    of_test, out_of_bag = zip(*map(files.predictions, files.numbers()), strict=True)
    return np.stack([prediction.outputs[:, 0] for prediction in of_test]), JackknifeIntervals.of(
        out_of_bag, y
    )


def test_the_answer_is_the_mean_of_the_members_with_intervals(run):
    folder, output = run
    data, about = data_of(folder), record(folder)
    of_members, intervals = known_of(folder, data.y_train)
    table = pd.read_parquet(folder / "test_residuals.parquet")
    assert list(table) == ["row", "true", "predicted", "lower", "upper"]
    np.testing.assert_allclose(table["predicted"], of_members.mean(axis=0))
    np.testing.assert_array_equal(table["true"], data.y_test)
    lower, upper = intervals.bounds(of_members, 0.9, by_spread=True)
    np.testing.assert_allclose(table[["lower", "upper"]].T, [lower, upper])
    covered = (lower <= data.y_test) & (data.y_test <= upper)
    facts = about["intervals"]
    assert (facts["confidence"], facts["n_test"]) == (0.9, len(data.y_test))
    assert (facts["n_covered"], facts["coverage"]) == (covered.sum(), covered.mean())
    assert facts["mean_width"] == pytest.approx((upper - lower).mean())
    assert facts["n_rows"] + facts["n_drawn_by_all"] == len(data.y_train)
    assert 0.75 < facts["coverage"] <= 1
    scores = about["test_scores"]
    assert scores["r2"] == pytest.approx(metrics.r2_score(data.y_test, table["predicted"]))
    assert scores["r2"] > 0.3
    rmse = [metrics.root_mean_squared_error(data.y_test, outputs) for outputs in of_members]
    np.testing.assert_allclose(pd.read_csv(folder / "members.csv")["test_rmse"], rmse)
    assert about["members_mean_test_rmse"] == pytest.approx(np.mean(rmse))
    assert about["baseline"]["test_metric"] == pytest.approx(
        metrics.mean_absolute_error(data.y_test, np.full_like(data.y_test, data.y_train.mean()))
    )
    assert about["remarks"] == []
    sizes = pd.read_parquet(folder / "ensemble_sizes.parquet")
    assert sizes["rmse"].iloc[-1] == pytest.approx(-scores["neg_root_mean_squared_error"])
    assert f"intervals  {100 * covered.mean():.2f} % coverage of test samples" in output
    assert "baseline   always answering the mean" in output


def test_targets_are_standardised_on_the_rows_of_each_member(run):
    folder, y = run[0], data_of(run[0]).y_train
    files, targets = MemberFiles(folder), []
    for number in files.numbers():
        target = Ensemble.load(files.weights(number)).members[0].target
        assert target is not None
        left_out = files.predictions(number)[1].rows
        drawn = y[np.setdiff1d(np.arange(len(y)), left_out)]
        assert target.center == pytest.approx(drawn.mean(), rel=0.1)
        assert target.scale == pytest.approx(drawn.std(), rel=0.2)
        targets.append(float(target.center))
    assert len(set(targets)) == 5


def test_networks_train_as_long_as_those_of_the_estimator(run):
    data = data_of(run[0])
    training = Bagging().plan(Options(n_bootstrap=1), data, {}).trainings.training
    assert training == TrainingSettings.of("table", len(data.y_train), is_regression=True)


def test_the_page_shows_intervals(run):
    folder = run[0]
    page = (folder / "report.html").read_text()
    for words in (
        "Bagging of neural networks for regression",
        "The mean of 5 members is off by",
        "coverage of intervals",
        "Intervals of 90 % by the jackknife+-after-bootstrap",
        "by the mean of the members",
        "always answering the mean",
    ):
        assert words in page
    for figure in ("intervals", "selective_prediction", "ensemble_size", "residuals"):
        assert (folder / f"{figure}.svg").is_file()


def test_predict_writes_bounds_beside_the_prediction(run, tmp_path, capsys):
    folder = run[0]
    frame = pd.read_csv(folder.parent / "diabetes.csv").head(40)
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(folder), str(tmp_path / "new.csv")]) == 0
    output = capsys.readouterr().out
    answers = pd.read_csv(tmp_path / "new-predictions.csv")
    assert list(answers) == ["row", "predicted", "lower", "upper"]
    nets, X = Run(folder).model, frame.drop(columns="target").to_numpy()
    np.testing.assert_allclose(answers["predicted"], nets.predict(X))
    bounds = nets.predict_interval(X, by_spread=True)
    np.testing.assert_allclose(answers[["lower", "upper"]].T, bounds)
    held = frame["target"].between(answers["lower"], answers["upper"])
    assert f"coverage   {100 * held.mean():.2f} % ({held.sum()} of 40; target 90 %)" in output


def test_a_run_is_resumed_with_a_width_to_defer_by(copy, run, tmp_path, capsys):
    table = pd.read_parquet(copy / "test_residuals.parquet")
    width = float((table["upper"] - table["lower"]).median())
    output = said_by("nn_bagging", "--resume", str(copy), "--defer-width", str(width))
    assert len(tasks_of(copy)) == N_TASKS
    kept = (table["upper"] - table["lower"]) <= width
    again, rule = pd.read_parquet(copy / "test_residuals.parquet"), record(copy)["deferral"]
    pd.testing.assert_frame_equal(again, table.assign(kept=kept))
    off = (table["true"] - table["predicted"]).abs()
    assert (rule["width"], rule["n_kept"]) == (width, kept.sum())
    assert rule["mean_absolute_error"] == pytest.approx(off[kept].mean())
    remark = "widths of intervals do not tell hard samples from easy ones here"
    assert (remark in output) == (off[kept].mean() >= off.mean())
    assert f"deferral   {(~kept).sum()} of {len(table)} test samples are deferred" in output
    assert "deferred to a human" in (copy / "report.html").read_text()
    source = run[0].parent / "diabetes.csv"
    assert main(["predict", str(copy), str(source), "--output", str(tmp_path / "a.csv")]) == 0
    answers = pd.read_csv(tmp_path / "a.csv")
    narrow = answers["upper"] - answers["lower"] <= width
    assert (answers["kept"] == narrow).all()
    assert f"{(~narrow).sum()} rows: defer to a human" in capsys.readouterr().out


def test_a_member_that_is_gone_is_trained_again(copy):
    written = "members.csv", "test_residuals.parquet", "ensemble_sizes.parquet"
    before = {name: (copy / name).read_bytes() for name in written}
    MemberFiles(copy).weights(3).unlink()
    said_by("nn_bagging", "--resume", str(copy))
    assert [task["task"] for task in tasks_of(copy)[N_TASKS:]] == ["refit-member=3"]
    assert before == {name: (copy / name).read_bytes() for name in written}


def test_more_members_take_the_fits_of_a_run(run, tmp_path):
    counts = ["--n-tuning", "2", "--n-bootstrap", "6"]
    words = [*source_of(run[0]), *TINY, *counts, "--extend", str(run[0])]
    output = said_by("nn_bagging", *words, "--results", str(tmp_path / "more"))
    assert "extended   20 fits are those of" in output
    table = cells(tmp_path / "more")
    pd.testing.assert_frame_equal(table[table["member"] < 5], cells(run[0]))


def test_nested_ensembles_are_tested_on_rows_they_have_not_seen(run, tmp_path):
    folder = tmp_path / "nested"
    counts = ["--n-bootstrap", "2", "--n-tuning", "2"]
    words = [*source_of(run[0]), *TINY, *counts, "--nested", "2"]
    scorers = ["--scoring", "neg_mean_absolute_error", "r2"]
    output = said_by("nn_bagging", *words, *scorers, "--results", str(folder))
    data = data_of(run[0])
    outer = splits_of("auto", 2, 1, 1, data.X_train, data.y_train, None, data.task, data.classes)
    scores = []
    for number, (_, test) in enumerate(outer):
        files = MemberFiles(folder, f"nested-outer={number}")
        members = [Ensemble.load(files.weights(member)).members[0] for member in files.numbers()]
        mean = np.mean([member.predict_proba(data.X_train[test]) for member in members], axis=0)
        scores.append(metrics.r2_score(data.y_train[test], mean))
    assert record(folder)["nested"]["score_mean"] == pytest.approx(np.mean(scores))
    assert f"nested     r2 {np.mean(scores):.4f}" in output
    table, candidates = cells(folder), pd.read_parquet(folder / "candidates.parquet")
    best = candidates[candidates["is_best"]].set_index("member")["candidate"]
    means = table.groupby(["member", "candidate"])["score"].mean()
    assert all(candidate == means.loc[member].idxmax() for member, candidate in best.items())
    assert table["score"].max() < -10  # mean absolute errors, in units of the target


def test_a_table_of_several_kinds_without_a_search(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(100, 30, 120), "town": rng.choice(["A", "B"], 120)})
    frame["price"] = 3 * frame["size"] + 90 * (frame["town"] == "A") + rng.normal(0, 10, 120)
    frame.loc[::9, "size"] = np.nan
    frame.to_csv(tmp_path / "houses.csv", index=False)
    source = ["--dataset", str(tmp_path / "houses.csv"), "--target", "price"]
    counts = ["--n-bootstrap", "3", "--n-tuning", "0", "--confidence", "0.8"]
    said_by("nn_bagging", *source, *TINY, *counts, "--results", str(tmp_path / "run"))
    about = record(tmp_path / "run")
    assert about["intervals"]["confidence"] == 0.8
    assert about["test_scores"]["r2"] > 0.4
    members = pd.read_csv(tmp_path / "run" / "members.csv")
    assert list(members)[-3:] == ["cv_loss", "out_of_bag_loss", "test_rmse"]
    assert members["cv_loss"].tolist() == pytest.approx(members["out_of_bag_loss"].tolist())


def test_a_model_of_the_other_kind_is_refused(run):
    with pytest.raises(InputError, match=r"predicts numbers; use BaggedNetsRegressor\.of_run"):
        BaggedNets.of_run(run[0])
    assert Run(run[0]).test_error is None


def test_a_run_without_its_intervals_predicts_without(copy, run, tmp_path, capsys):
    source, output = str(run[0].parent / "diabetes.csv"), str(tmp_path / "a.csv")
    (copy / "intervals.safetensors").write_bytes(b"garbage")
    assert main(["predict", str(copy), source, "--output", output]) == 2
    assert (
        "intervals.safetensors of a run must hold what the run left there"
        in capsys.readouterr().err
    )
    (copy / "intervals.safetensors").unlink()
    text = (copy / "run.json").read_text()
    (copy / "run.json").write_text(text.replace('"intervals.safetensors"', '"gone.safetensors"'))
    assert main(["predict", str(copy), source, "--output", output]) == 0
    assert "warning    the run ended before it set intervals" in capsys.readouterr().out
    assert list(pd.read_csv(output)) == ["row", "predicted"]
    nets = BaggedNetsRegressor.of_run(copy)
    X = pd.read_csv(source).drop(columns="target").to_numpy()
    assert np.isfinite(nets.predict(X)).all()
    with pytest.raises(NotFittedError, match="resume the run, which ended before"):
        nets.predict_interval(X)


def test_a_finished_run_has_its_intervals(copy, capsys):
    text = (copy / "run.json").read_text()
    (copy / "run.json").write_text(text.replace('"intervals"', '"intervals_gone"'))
    assert main(["--resume", str(copy)]) == 2
    assert "intervals" in capsys.readouterr().err
