"""ROC, precision and recall, and calibration: as scikit-learn has them, and drawn in few bytes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve

from pipelines.report import write_report
from pipelines.report.curves import (
    MOST_CURVES,
    MOST_KNOTS,
    ClassValues,
    Curves,
    calibration,
    curves_section,
)
from pipelines.report.parts import Chart, every_part
from tests.report.page_reader import Page, figures_in


def values_of(n_classes, n=3000, probabilities=True):
    """Softmax of noise, higher at the true class."""
    rng = np.random.default_rng(n_classes)
    truth = rng.integers(n_classes, size=n)
    logits = rng.normal(size=(n, n_classes)) + 2 * (truth[:, None] == np.arange(n_classes))
    if probabilities:
        logits = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    names = [f"class {i}" for i in range(n_classes)]
    return ClassValues(truth, logits, np.arange(n_classes), names, probabilities)


def chart_of(values, **how):
    (chart,) = (
        part for part in every_part(curves_section(values, **how).parts) if isinstance(part, Chart)
    )
    return chart


def test_curves_and_areas_are_scikit_learns():
    values = values_of(2)
    ((name, is_of_class, column),) = values.sides
    curves = Curves.of(name, is_of_class, column)
    assert name == "class 1"
    assert curves.auc == pytest.approx(metrics.roc_auc_score(values.truth, values.values[:, 1]))
    assert curves.ap == metrics.average_precision_score(values.truth, values.values[:, 1])
    roc, precision_recall, _ = chart_of(values).draw().axes
    false, true, _ = metrics.roc_curve(values.truth, column)
    line = roc.get_lines()[0]
    assert line.get_label() == f"class 1: AUC {curves.auc:.3f}, AP {curves.ap:.3f}"
    x, y = line.get_xdata(), line.get_ydata()
    assert len(x) <= MOST_KNOTS + 2 < len(false)
    assert {*zip(x, y, strict=True)} <= {*zip(false, true, strict=True)}
    assert metrics.auc(x, y) == pytest.approx(curves.auc, abs=2e-3)
    precision, recall, _ = metrics.precision_recall_curve(values.truth, column)
    line, level = precision_recall.get_lines()
    drawn = {*zip(line.get_xdata(), line.get_ydata(), strict=True)}
    assert drawn <= {*zip(recall, precision, strict=True)}
    assert level.get_ydata()[0] == values.truth.mean()  # what guessing has


def test_several_classes_have_a_curve_each_and_their_mean():
    values = values_of(4)
    roc, precision_recall, _ = chart_of(values).draw().axes
    for axes in (roc, precision_recall):
        labels = [line.get_label() for line in axes.get_lines()]
        assert len(labels) == 6  # and what guessing has
        assert labels[0].startswith("mean of all classes: AUC ")
    mean = metrics.roc_auc_score(values.truth, values.values, multi_class="ovr")
    assert f"AUC {mean:.3f}" in roc.get_lines()[0].get_label()
    line = roc.get_lines()[0]
    assert metrics.auc(line.get_xdata(), line.get_ydata()) == pytest.approx(mean, abs=2e-3)


def test_of_many_classes_the_mean_alone_is_drawn():
    values = values_of(MOST_CURVES + 1)
    roc, *_ = chart_of(values).draw().axes
    assert len(roc.get_lines()) == 2
    listed = [part for part in every_part(curves_section(values).parts) if hasattr(part, "frame")]
    assert len(listed[0].frame) == MOST_CURVES + 1


def test_calibration_is_scikit_learns_with_an_interval():
    values = values_of(3)
    bins = calibration(values.sides)
    is_of_class = np.concatenate([side[1] for side in values.sides])
    probability = np.concatenate([side[2] for side in values.sides])
    observed, predicted = calibration_curve(is_of_class, probability, n_bins=10)
    np.testing.assert_array_equal(bins["observed"], observed)
    np.testing.assert_array_equal(bins["predicted"], predicted)
    assert bins["n"].sum() == 3 * len(values.truth)
    assert (bins["low"] <= observed).all()
    assert (observed <= bins["high"]).all()


@pytest.mark.parametrize("probabilities", [True, False])
def test_decision_values_have_no_calibration(probabilities):
    values = values_of(3, probabilities=probabilities)
    assert len(chart_of(values).draw().axes) == 2 + probabilities
    assert len(chart_of(values, has_calibration=True).draw().axes) == 2
    assert ("calibration" in curves_section(values).title) is probabilities


def test_a_class_without_samples_has_no_curve():
    values = values_of(3)
    mask = values.truth != 2
    few = ClassValues(values.truth[mask], values.values[mask], values.classes, values.names, True)
    assert [name for name, *_ in few.sides] == ["class 0", "class 1"]
    nobody = ClassValues(
        np.zeros(5, int), values.values[:5, :2], np.arange(2), values.names[:2], True
    )
    assert not curves_section(nobody).is_shown
    assert not curves_section(None).is_shown


def write_values(folder, kind):
    names = [f"{kind}_{name}" for name in ("0", "1", "2")]
    truth = np.array([0, 1, 2, 0, 1, 2])
    values = np.eye(3)[[0, 1, 2, 0, 2, 1]] * 0.7 + 0.1
    table = pd.DataFrame({"row": np.arange(6), "true": truth}).join(
        pd.DataFrame(values, columns=names)
    )
    file = "test_probabilities" if kind == "probability" else "test_decision_values"
    table.to_parquet(folder / f"{file}.parquet")


def test_a_page_has_the_curves_of_what_the_run_wrote(make_run, edit_run):
    old = make_run(name="old")
    page = Page(write_report(old))
    assert "class_curves" not in figures_in(old)
    assert "ROC" not in page.text
    for kind in ("probability", "decision"):
        run = make_run(name=kind)
        dataset = {"name": "made", "n_test": 6, "classes": ["0", "1", "2"]}
        edit_run(run, dataset=dataset)
        write_values(run, kind)
        page = Page(write_report(run))
        assert "class_curves" in figures_in(run)
        assert ("and calibration" in page.text) is (kind == "probability")
