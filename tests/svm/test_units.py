from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pipelines.data import make_folds
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.search.scoring import resolve_scoring
from pipelines.svm.backends import Settings
from pipelines.svm.backends.base import Cells
from pipelines.svm.units import (
    Unit,
    cut_units,
    failed_rows,
    fit_unit,
    predicted_cost,
)

X, y = load_wine(return_X_y=True)
y = y.astype(np.int32)
DATA = FoldedData(
    X[::2], y[::2], X[1::2], y[1::2], make_folds(y[::2], 3, 0), Scaling("standardise")
)


def sharing(shares_c: bool = False, shares_folds: bool = False) -> Any:
    return SimpleNamespace(shares_c=shares_c, shares_folds=shares_folds, shares_gammas=False)


@pytest.mark.parametrize(
    ("shares_c", "shares_folds", "n_units"),
    [(False, False, 24), (True, False, 8), (False, True, 6), (True, True, 2)],
)
def test_units_cover_the_grid_once(shares_c: bool, shares_folds: bool, n_units: int) -> None:
    cells = Cells((0.1, 0.2), (10.0, 0.1, 1.0), tuple(range(4)))
    units = cut_units(cells, sharing(shares_c, shares_folds), 64)
    assert len(units) == n_units
    assert len({unit.name for unit in units}) == n_units
    assert sorted(cell for unit in units for cell in unit.cells) == sorted(
        (C, gamma, fold) for C in (0.1, 1.0, 10.0) for gamma in (0.1, 0.2) for fold in range(4)
    )


def test_neighbours_on_a_fine_grid_have_names_of_their_own() -> None:
    Cs = np.logspace(-3, 6, 500).tolist()
    units = cut_units(Cells((0.1,), tuple(Cs), (0,)), sharing(), 64)
    assert len({unit.name for unit in units}) == 500


def test_costs_follow_what_was_measured() -> None:
    """Underfitted cells take about ten times as long as well fitted ones (MNIST, 5,000 rows)."""
    assert predicted_cost(1e-3, 1e-6, 784) > 5 * predicted_cost(1e3, 1e-4, 784)
    assert predicted_cost(1e3, 1e-2, 784) > 3 * predicted_cost(1e3, 1e-4, 784)


def test_tables_are_standardised_on_the_training_rows_of_each_fold() -> None:
    for fold, (train, validation) in enumerate(DATA.folds):
        pipeline = make_pipeline(StandardScaler(), SVC(C=1.0, gamma=0.1))
        pipeline.fit(DATA.X[train], DATA.y[train])
        n_errors = int(np.sum(pipeline.predict(DATA.X[validation]) != DATA.y[validation]))
        (row,) = fit_unit(DATA, Unit((0.1,), (1.0,), (fold,)), "sklearn", Settings())
        assert row["n_errors"] == n_errors
        assert row["n_support"] == len(pipeline[-1].support_)
        assert (row["n_train"], row["n_validation"]) == (len(train), len(validation))


def test_a_failed_unit_has_a_row_for_each_cell() -> None:
    rows = failed_rows(DATA, Unit((0.1,), (1.0, 2.0), (0, 1)), "out of memory")
    assert [(row["C"], row["fold"]) for row in rows] == [(1.0, 0), (2.0, 0), (1.0, 1), (2.0, 1)]
    assert {row["status"] for row in rows} == {"failed: out of memory"}
    assert all(row["error"] is row["n_errors"] is row["score"] is None for row in rows)


def test_the_score_of_a_row_is_accuracy_unless_another_is_asked_for() -> None:
    unit = Unit((0.1,), (1.0,), (0,))
    (row,) = fit_unit(DATA, unit, "sklearn", Settings())
    assert row["score"] == pytest.approx(1 - row["error"])
    scoring = resolve_scoring("matthews_corrcoef")
    assert scoring is not None
    (other,) = fit_unit(DATA, unit, "sklearn", Settings(scoring=scoring.on(np.arange(3))))
    assert other["error"] == row["error"]
    assert other["score"] < row["score"]


def test_a_gamma_by_fold_has_every_cell_once_and_does_some_of_it_again() -> None:
    (whole,) = cut_units(Cells((0.1,), (0.1, 1.0), tuple(range(4))), sharing(True, True), 64)
    parts = whole.by_fold
    assert sorted(cell for part in parts for cell in part.cells) == sorted(whole.cells)
    assert whole.cost < sum(part.cost for part in parts) < 1.5 * whole.cost
    assert parts[0].by_fold == [parts[0]]
