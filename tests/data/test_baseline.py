"""The baseline of a result, and what is remarked of one that is no better, or too good."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import KFold, cross_val_score

from pipelines.data.baseline import baseline_of, remarks_on
from pipelines.data.dataset import CLASSIFICATION, REGRESSION
from pipelines.data.load import load_dataset

RNG = np.random.default_rng(0)
N = 400


def load(folder, task=CLASSIFICATION, **columns):
    frame = pd.DataFrame({"noise": RNG.normal(size=N), "more": RNG.normal(size=N), **columns})
    frame.to_csv(folder / "table.csv", index=False)
    return load_dataset(
        str(folder / "table.csv"), target="target", test_size=0.25, seed=0, task=task
    )


def splits_of(data):
    return list(KFold(4).split(data.y_train))


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc"])
def test_the_baseline_of_classes_is_scikit_learns_dummy(tmp_path, scoring):
    data = load(tmp_path, target=np.where(RNG.random(N) < 0.7, "no", "yes"))
    baseline = baseline_of(data, splits_of(data), scoring, data.classes)
    dummy, labels = DummyClassifier(strategy="prior"), data.classes[data.y_train]
    scores = cross_val_score(dummy, data.X_train, labels, cv=splits_of(data), scoring=scoring)
    assert baseline["score_mean"] == pytest.approx(scores.mean())
    assert baseline["answer"] == "no"
    assert baseline["n_test_errors"] == int(np.sum(data.classes[data.y_test] == "yes"))
    assert baseline["share"] == pytest.approx(np.mean(labels == "no"))


def test_the_baseline_of_numbers_is_their_mean(tmp_path):
    data = load(tmp_path, REGRESSION, target=RNG.normal(3.0, size=N))
    baseline = baseline_of(data, splits_of(data), "r2")
    scores = cross_val_score(
        DummyRegressor(), data.X_train, data.y_train, cv=splits_of(data), scoring="r2"
    )
    assert baseline["score_mean"] == pytest.approx(scores.mean())
    assert baseline["words"] == f"always answering the mean, {data.y_train.mean():.4g}"


def test_a_scorer_that_a_dummy_cannot_have_is_none(tmp_path):
    data = load(tmp_path, target=np.where(RNG.random(N) < 0.5, "no", "yes"))
    assert baseline_of(data, splits_of(data), "f1", data.classes)["score_mean"] is None


def test_a_search_that_beats_nothing_is_named(tmp_path):
    data = load(tmp_path, target=np.where(RNG.random(N) < 0.6, "no", "yes"))
    baseline = baseline_of(data, splits_of(data), "accuracy", data.classes)
    mean = baseline["score_mean"]
    (first, second) = remarks_on(data, baseline, [mean, mean], baseline["test_error"])
    assert first.startswith(f"no candidate beats always answering 'no' (accuracy {mean:.4f})")
    assert second.startswith("all 2 candidates have the same score")
    assert remarks_on(data, baseline, [mean, mean + 0.01], baseline["test_error"] - 0.01) == []
    (only,) = remarks_on(data, baseline, [mean, mean + 0.01], baseline["test_error"])
    assert only.startswith("on the test rows the best is no better than always answering 'no'")


def test_imbalance_is_named_where_accuracy_chooses(tmp_path):
    data = load(tmp_path, target=np.where(RNG.random(N) < 0.92, "no", "yes"))
    (remark,) = remarks_on(data, baseline_of(data, splits_of(data), "accuracy", data.classes))
    assert remark.endswith("are 'no': accuracy misleads: try --scoring balanced_accuracy")
    assert remarks_on(data, baseline_of(data, splits_of(data), "balanced_accuracy")) == []


@pytest.mark.parametrize("kind", ["classes", "category", "numbers"])
def test_a_column_that_tells_the_target_is_named(tmp_path, kind):
    target = RNG.normal(size=N) if kind == "numbers" else RNG.integers(0, 3, N)
    cost = 2 * target + 1
    data = load(
        tmp_path,
        REGRESSION if kind == "numbers" else CLASSIFICATION,
        cost=[f"cost{value}" for value in cost] if kind == "category" else cost,
        target=target if kind == "numbers" else [f"class{value}" for value in target],
    )
    (remark,) = remarks_on(data, baseline_of(data))
    assert remark.startswith("column cost alone predicts the target")
    assert remark.endswith("--leave-out cost")


def test_ids_tell_nothing(tmp_path):
    """A tree could learn a column of ids by heart, and know none that it has not seen."""
    data = load(tmp_path, code=RNG.permutation(N) + 0.5, target=RNG.integers(0, 2, N).astype(str))
    assert remarks_on(data, baseline_of(data)) == []
