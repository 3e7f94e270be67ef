"""What the command prints and leaves behind."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score

from pipelines.cross_validate import main
from tests.command_runs import record

HERE = ["--cluster", "threads", "--quiet"]


def table(folder, n_rows=150):
    """A file with numbers, text and missing cells; the target is a number."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n_rows), "b": rng.normal(5, 20, n_rows)})
    frame["price"] = 3 * frame["a"] + 0.1 * frame["b"] + rng.normal(0, 0.2, n_rows)
    frame["colour"] = np.where(rng.random(n_rows) > 0.5, "red", "blue")
    frame.loc[frame["colour"] == "red", "price"] += 4
    frame["patient"] = [f"p{i // 10}" for i in range(n_rows)]
    frame.loc[::17, "a"] = np.nan
    frame.to_csv(folder / "mine.csv", index=False)
    return str(folder / "mine.csv")


def test_the_terminal_shows_the_answer(finished):
    folder, output = finished
    best = record(folder)["best"]
    assert "task       classification: 10 classes; default folds, scored by accuracy" in output
    assert "candidates 7 of knn, forest x 3 folds = 21 fits" in output
    assert f"best       {best['algorithm']}: " in output
    assert f"cv error   {100 * (1 - best['score_mean']):.2f} % ±" in output
    assert "fits       9 computed for 21 requested" in output
    assert f"report     {folder / 'report.html'}" in output


def test_the_folder_holds_the_run(finished):
    folder, _ = finished
    about = record(folder)
    cells = pd.read_parquet(folder / "cv_results.parquet")
    assert len(cells) == 21
    assert set(cells["status"]) == {"ok"}
    assert cells["n_fits"].sum() == about["fits_made"] == 9
    assert {"one query of neighbors", "prefixes of one forest"} == set(cells["family"])
    assert set(cells["implementation"]) == {"scikit-learn"}
    means = cells.groupby("candidate")["score"].mean()
    assert about["best"]["score_mean"] == pytest.approx(means.max())
    compared = pd.read_parquet(folder / "comparison.parquet")
    assert len(compared) == 1
    assert compared[["p_first", "p_same", "p_second"]].sum(axis=1).iloc[0] == pytest.approx(1)
    page = (folder / "report.html").read_text()
    for words in ("Comparison of algorithms", "Shared work", "prefixes of one forest", "Holm"):
        assert words in page
    for name in ("algorithms", "validation_curves", "confusion_matrix"):
        drawn = (folder / f"{name}.svg").read_text()
        assert len(drawn) > 1000
        assert "mathdefault" not in drawn  # matplotlib's own label of a logarithmic axis
    assert json.loads(cells["params"].iloc[0]) == {"n_neighbors": 1}
    assert np.load(folder / "test_errors.npz")["X"].max() > 10, "pixels as they came"


@pytest.mark.figures
@pytest.mark.slow
def test_numbers_text_and_gaps(tmp_path):
    folder = tmp_path / "run"
    data = ["--dataset", table(tmp_path), "--target", "price", "--folds", "3"]
    what = ["--estimator", "ridge", "--param", "alpha=0.1,1,10", "--estimator", "knn"]
    scoring = ["--scoring", "r2", "neg_mean_absolute_error"]
    assert main([*data, *what, *scoring, *HERE, "--results", str(folder)]) == 0
    about = record(folder)
    assert about["task"] == "regression"
    assert about["best"]["algorithm"] == "ridge"
    assert about["best"]["score_mean"] > 0.9
    assert about["steps_asked"] == 12
    assert about["steps_made"] < 12
    cells = pd.read_parquet(folder / "cv_results.parquet")
    assert (cells["score_neg_mean_absolute_error"] < 0).all()
    assert cells["error"].isna().all()
    assert (folder / "residuals.svg").exists()
    assert "cv mean absolute error" in (folder / "report.html").read_text()


def test_groups_stay_together_and_are_no_feature(tmp_path):
    folder = tmp_path / "run"
    data = ["--dataset", table(tmp_path), "--target", "colour", "--groups", "patient"]
    how = ["--cv", "group", "--folds", "3", "--estimator", "tree"]
    assert main([*data, *how, *HERE, "--results", str(folder)]) == 0
    about = record(folder)
    assert about["dataset"]["n_test"] % 10 == 0
    assert "patient" not in about["dataset"]["table"]["categories"]
    cells = pd.read_parquet(folder / "cv_results.parquet")
    assert (cells["n_validation"] % 10 == 0).all()


def test_time_a_grid_of_a_file_and_steps_of_a_file(tmp_path):
    folder = tmp_path / "run"
    (tmp_path / "grid.yaml").write_text("ridge: {alpha: [1, 10], scale__with_mean: [true, false]}")
    (tmp_path / "steps.yaml").write_text(
        "- scale: {class: sklearn.preprocessing.StandardScaler}\n"
        "- pca: {class: sklearn.decomposition.PCA, n_components: 2, svd_solver: full}\n"
    )
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(90, 4)), columns=list("abcd"))
    frame["y"] = frame.sum(axis=1)
    frame.to_csv(tmp_path / "plain.csv", index=False)
    data = ["--dataset", str(tmp_path / "plain.csv"), "--target", "y", "--cv", "time"]
    files = ["--grid", str(tmp_path / "grid.yaml"), "--preprocess", str(tmp_path / "steps.yaml")]
    options = ["--folds", "4", "--task", "regression"]
    assert main([*data, *files, *options, *HERE, "--results", str(folder)]) == 0
    cells = pd.read_parquet(folder / "cv_results.parquet")
    assert len(cells) == 16
    assert cells.groupby("fold")["n_train"].first().is_monotonic_increasing
    assert json.loads(cells["params"].iloc[-1]) == {"alpha": 10, "scale__with_mean": False}


@pytest.mark.figures
@pytest.mark.slow
def test_nested_folds_and_a_learning_curve(tmp_path):
    folder = tmp_path / "run"
    rows = ["--limit", "200", "--folds", "2", "--nested", "3", "--learning-curve"]
    what = ["--estimator", "knn", "--param", "n_neighbors=1,9", "--estimator", "bayes"]
    assert main([*rows, *what, *HERE, "--results", str(folder)]) == 0
    about = record(folder)
    assert about["nested"]["n_outer"] == len(about["nested"]["chosen"]) == 3
    nested = pd.read_parquet(folder / "nested.parquet")
    assert len(nested) == 6, "the best of each algorithm on each outer fold"
    curve = pd.read_parquet(folder / "learning_curve.parquet")
    assert set(curve["share"]) == {0.1, 0.2, 0.4, 0.6, 0.8}
    by_share = curve.groupby("share")["n_train"].mean()
    assert by_share.is_monotonic_increasing
    best = [
        nested[(nested["split"] == split) & (nested["candidate"] == candidate)]["score"].item()
        for split, candidate in enumerate(about["nested"]["chosen"])
    ]
    assert about["nested"]["score_mean"] == pytest.approx(np.mean(best))
    assert (folder / "learning_curve.svg").exists()
    before = (folder / "journal.jsonl").read_bytes()
    (folder / "run.json").write_text(json.dumps(about | {"status": "running"}))
    assert main(["--resume", str(folder), "--quiet"]) == 0
    assert (folder / "journal.jsonl").read_bytes() == before


def test_a_candidate_that_fails_is_a_row(tmp_path, capsys):
    folder = tmp_path / "run"
    what = ["--estimator", "knn", "--param", "n_neighbors=1,99999", "--estimator", "tree"]
    rows = ["--limit", "100", "--folds", "2", "--cluster", "threads"]
    assert main([*rows, *what, "--param", "max_depth=2,-3", "--results", str(folder)]) == 0
    cells = pd.read_parquet(folder / "cv_results.parquet")
    failed = cells["status"].str.startswith("failed").tolist()
    assert failed == [False, False, True, True] * 2
    output = capsys.readouterr().out
    assert "warning    2 of 8 fits failed" in output
    assert "max_depth" in output


def test_where_every_candidate_fails_the_line_names_the_options(tmp_path, capsys):
    argv = ["--estimator", "tree", "--param", "max_depth=three", "--limit", "100", "--folds", "2"]
    assert main([*argv, "--cluster", "threads", "--results", str(tmp_path / "run")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cross-validate: every candidate failed: sklearn.utils._param")
    assert "Got 'three' instead.; check --estimator and --param; nothing has finished" in line


def test_scores_are_those_of_scikit_learn(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc"))
    frame["y"] = frame["a"] - 2 * frame["b"] + rng.normal(0, 0.5, 80)
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "mine.py").write_text(
        "from sklearn.model_selection import KFold\ndef folds(X, y, groups):\n    return KFold(4)\n"
    )
    folder = tmp_path / "run"
    data = [
        "--dataset",
        str(tmp_path / "t.csv"),
        "--target",
        "y",
        "--cv",
        f"{tmp_path / 'mine.py'}:folds",
        "--preprocess",
        "none",
    ]
    what = ["--estimator", "sklearn.linear_model.Ridge", "--param", "alpha=0.5"]
    assert main([*data, *what, *HERE, "--results", str(folder)]) == 0
    order = np.random.default_rng(0).permutation(80)[16:]
    rows = frame.iloc[order]
    expected = cross_val_score(Ridge(alpha=0.5), rows[list("abc")], rows["y"], cv=4)
    cells = pd.read_parquet(folder / "cv_results.parquet")
    assert cells["score"].to_numpy() == pytest.approx(expected, rel=1e-12)


def test_short_names_are_listed(capsys):
    assert main(["--estimators"]) == 0
    output = capsys.readouterr().out
    for name in ("logistic", "forest", "boosting", "knn", "ridge", "svm", "mlp"):
        assert f"\n{name} " in f"\n{output}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ensemble.RandomForestClassifier", "svm.NuSVC"])
def test_estimators_of_intel_fit_what_a_process_was_sent(name, tmp_path):
    """They refuse arrays that begin anywhere; all rows, for the refit, are no copy."""
    pytest.importorskip("sklearnex", reason="scikit-learn-intelex comes with the extra intel")
    options = ["--limit", "300", "--folds", "3", "--cluster", "local", "--workers", "2"]
    estimator = ["--estimator", f"sklearnex.{name}"]
    assert main([*options, *estimator, "--results", str(tmp_path / "run"), "--quiet"]) == 0
    assert record(tmp_path / "run")["test_scores"]["accuracy"] > 0.8
    assert set(pd.read_parquet(tmp_path / "run" / "cv_results.parquet")["status"]) == {"ok"}
