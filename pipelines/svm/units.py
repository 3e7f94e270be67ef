"""Units of an SVM grid search: what one task fits, and the rows it gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.data.placement import FoldedData
from pipelines.svm.solvers import Settings, load_solver
from pipelines.svm.solvers.base import Cell, Cells, Solver, Watch

Row = dict[str, Any]
Place = tuple[float, float, int]  # C, gamma, fold

ROWS_OF_A_UNIT_OF_TIME = 1000
# Of the time of a gamma's folds together, measured on 12,000 rows of MNIST: 1 to 16 %.
SHARED_BY_FOLDS = 0.07


@dataclass(frozen=True)
class Unit(Cells):
    """The largest piece of a grid that shares work.

    Attributes
    ----------
    cost : float
        Predicted, relative to the other units.
    """

    cost: float = 1.0

    @property
    def name(self) -> str:
        """As the dashboard shows it; Dask takes what stands before the dash for its group."""
        Cs = f"C={self.Cs[0]:.6g}" if len(self.Cs) == 1 else f"{len(self.Cs)} C"
        folds = f"fold={self.folds[0]}" if len(self.folds) == 1 else f"{len(self.folds)} folds"
        more = f" and {len(self.gammas) - 1} more" if len(self.gammas) > 1 else ""
        return f"svm-gamma={self.gammas[0]:.6g}{more} {folds} {Cs}"

    @property
    def cells(self) -> list[Place]:
        """(C, gamma, fold) of every cell: gamma by gamma, fold by fold."""
        return [(C, gamma, fold) for gamma in self.gammas for fold in self.folds for C in self.Cs]

    def without(self, done: Container[Place]) -> Unit | None:
        """The unit less the gammas and folds whose cells are all done; None: nothing is left."""
        left = [place for place in self.cells if place not in done]
        if not left:
            return None
        gammas = tuple(gamma for gamma in self.gammas if any(gamma == one for _, one, _ in left))
        folds = tuple(fold for fold in self.folds if any(fold == one for _, _, one in left))
        share = len(gammas) * len(folds) / (len(self.gammas) * len(self.folds))
        return replace(self, gammas=gammas, folds=folds, cost=self.cost * share)

    def part(self, fold: int) -> Unit:
        """One fold of it, as a unit by itself."""
        return replace(self, folds=(fold,), cost=self.cost / len(self.folds))

    @property
    def by_fold(self) -> list[Unit]:
        """Its folds, each as a task of its own, which makes anew what all of them would share."""
        anew = SHARED_BY_FOLDS * self.cost
        parts = [self.part(fold) for fold in self.folds]
        return [replace(one, cost=one.cost + anew * (1 - 1 / len(parts))) for one in parts]


def cut_units(
    cells: Cells,
    solver: Solver,
    n_features: int,
    *,
    n_rows: int = ROWS_OF_A_UNIT_OF_TIME,
    n_workers: int = 1,
    folds_apart: bool = False,
) -> list[Unit]:
    """The units of some cells.

    A solver that shares work between all C, or all folds, of a gamma gets them in
    one unit; otherwise each cell is a unit of its own, so that none waits for another.
    One that fits several gammas at once gets them dealt out to as many units as there are
    workers, each with small and large ones: one launch has one tail.

    folds_apart : whether folds share no arrays
    """
    n_groups = len(cells.gammas)
    if solver.shares_gammas:
        n_groups = min(n_workers, n_groups)
    parts_of_gamma = [cells.gammas[group::n_groups] for group in range(n_groups)]
    parts_of_c = [tuple(sorted(cells.Cs))] if solver.shares_c else [(C,) for C in cells.Cs]
    together = solver.shares_folds and not folds_apart
    parts_of_folds = [cells.folds] if together else [(fold,) for fold in cells.folds]
    # Measured: 20,000 rows of MNIST to 60,000 is 10 times the time, 2.1 of the power.
    scale = (n_rows / ROWS_OF_A_UNIT_OF_TIME) ** 2
    return [
        Unit(some, part, folds, scale * len(folds) * _cost(some, part, n_features))
        for some in parts_of_gamma
        for part in parts_of_c
        for folds in parts_of_folds
    ]


def _cost(gammas: Sequence[float], Cs: Sequence[float], n_features: int) -> float:
    return sum(predicted_cost(C, gamma, n_features) for gamma in gammas for C in Cs)


def predicted_cost(C: float, gamma: float, n_features: int) -> float:
    """Relative time of one fit of scaled rows.

    Fitted by eye to times on MNIST and digits: ten times as much where C * gamma is
    so small that nearly all rows are support vectors at their bound, and some more
    where gamma is so large that every row is far from all others.
    """
    underfitted = 1.0 / (1.0 + math.sqrt(C * gamma / 1e-4))
    overfitted = min(1.0, gamma * n_features / 8.0)
    return 1.0 + 9.0 * underfitted + 4.0 * overfitted


def fit_unit(
    data: FoldedData,
    unit: Unit,
    solver: str,
    settings: Settings,
    tell: Callable[..., None] = lambda share, rows=(): None,
) -> list[Row]:
    """Fit and score the cells of one unit; the task of the grid search.

    Parameters
    ----------
    tell : function of the share of the unit that is done, and of rows that are ready: those
        of every fold but the last, as soon as it is done for all gammas

    Returns
    -------
    list of dict
        One row for each of ``unit.cells``; the caller adds ``worker``.
    """
    found = load_solver(solver, settings.device)
    # Standardisation is fitted on the training rows, so such folds share no arrays.
    learns = data.scaling.learns and len(unit.folds) == 1
    alone = data.folds[unit.folds[0]] if learns else None
    X = data.scaled(found.device, rows=alone and alone[0])
    news = _News(data, unit, tell)
    watch = Watch(news.told, news.on_fold)
    if alone:
        cells = found.fit_cells(X, data.y, [alone], replace(unit, folds=(0,)), settings, watch)
    else:
        cells = found.fit_cells(X, data.y, data.folds, unit, settings, watch)
    return [_row(data, *place, cell) for place, cell in zip(unit.cells, cells, strict=True)]


class _News:
    """Tells of a unit's folds, of each when it is done for all gammas."""

    def __init__(self, data: FoldedData, unit: Unit, tell: Callable[..., None]) -> None:
        self._data, self._unit, self._tell = data, unit, tell
        self._share = 0.0
        self._cells: dict[int, dict[int, list[Cell]]] = {}
        self._left = len(unit.folds) - 1  # the last is done with the unit

    def told(self, share: float) -> None:
        self._share = share
        self._tell(share)

    def on_fold(self, g: int, fold: int, cells: list[Cell]) -> None:
        of_fold = self._cells.setdefault(fold, {})
        of_fold[g] = cells
        if len(of_fold) < len(self._unit.gammas) or self._left == 0:
            return
        self._left -= 1
        rows = [
            _row(self._data, C, gamma, fold, cell)
            for number, gamma in enumerate(self._unit.gammas)
            for C, cell in zip(self._unit.Cs, of_fold[number], strict=True)
        ]
        self._tell(self._share, rows)


def failed_rows(data: FoldedData, unit: Unit, reason: str) -> list[Row]:
    """The rows of a unit whose task gave none."""
    return [_row(data, *place, Cell(status=f"failed: {reason}")) for place in unit.cells]


def _row(data: FoldedData, C: float, gamma: float, fold: int, cell: Cell) -> Row:
    train, validation = data.folds[fold]
    n_rows, n_errors = len(validation), cell.n_errors
    accuracy = None if n_errors is None else (n_rows - n_errors) / n_rows
    return {
        "C": C,
        "gamma": gamma,
        "fold": fold,
        "n_train": len(train),
        "n_validation": n_rows,
        "n_errors": n_errors,
        "error": None if n_errors is None else n_errors / n_rows,
        "score": accuracy if cell.score is None else cell.score,
        "n_support": cell.n_support,
        "n_iterations": cell.n_iterations,
        "fit_seconds": cell.fit_seconds,
        "score_seconds": cell.score_seconds,
        "status": cell.status,
    }
