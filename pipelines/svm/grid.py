"""The SVM grid search, from folded data to rows: what the command and the class share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.placement import FoldedData
from pipelines.errors import InputError, opt
from pipelines.run.news import News
from pipelines.run.outcomes import without_compilation
from pipelines.run.pace import cut_for
from pipelines.run.tasks import Outcome, Runner
from pipelines.run_folder import columns
from pipelines.select.scores import result_of, results_frame, with_worker
from pipelines.svm.parts import Parts
from pipelines.svm.refit import Refit
from pipelines.svm.solvers import Settings, load_solver
from pipelines.svm.solvers.base import Cells
from pipelines.svm.units import Place, Row, Unit, cut_units, failed_rows, fit_unit

if TYPE_CHECKING:
    import pandas as pd

CORES_PER_WORKER = 8  # for a solver that fills several cores from one process


def workers_for(solver: str, cores: int) -> int:
    """Worker processes that fill the cores of one machine without a GPU.

    A solver that shares arrays between fits holds them once for several cores.
    """
    shares = load_solver(solver, "cpu").shares_c
    return max(1, cores // CORES_PER_WORKER) if shares else cores


def default_bounds(
    variance: float, images: bool
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Bounds of log10 C and of log10 gamma where none were asked for.

    Images: those of the study of MNIST. Tables: C as textbooks have it, and gamma around the one
    that scikit-learn calls "scale", 1 / (features × variance).

    Parameters
    ----------
    variance : of all features together: their number, where they are standardised
    """
    if images:
        return (-3.0, 6.0), (-6.0, -2.0)
    scale = round(-math.log10(variance), 2)
    return (-2.0, 4.0), (scale - 2, scale + 1)


def axis(name: str, n: int, log_bounds: tuple[float, float]) -> tuple[float, ...]:
    """Values of an axis, ``"c"`` or ``"gamma"``, at equal distances of their logarithms.

    Raises
    ------
    InputError
        Several values between equal bounds.
    """
    if n > 1 and log_bounds[0] == log_bounds[1]:
        raise InputError(
            f"{opt(f'n_{name}')} must be 1 where {opt(f'log_{name}')} is one value, got {n}; "
            f"make the bounds of {opt(f'log_{name}')} differ"
        )
    return tuple(np.logspace(*log_bounds, n).tolist())


@dataclass(frozen=True)
class Grid:
    """What is searched, and how a cell is fitted.

    Attributes
    ----------
    Cs, gammas : sequences of float
    solver : str
        A name in ``SOLVERS``.
    """

    Cs: Sequence[float]
    gammas: Sequence[float]
    solver: str
    settings: Settings

    def units(self, data: FoldedData, n_workers: int = 1) -> list[Unit]:
        """The units of this grid on these data, for so many workers.

        The longest are cut into their folds where workers would else idle at the end.
        """
        solver = load_solver(self.solver, self.settings.device)
        cells = Cells(tuple(self.gammas), tuple(self.Cs), tuple(range(len(data.folds))))
        n_rows, n_features = data.X.shape
        units = cut_units(
            cells, solver, n_features, n_rows=n_rows, n_workers=n_workers,
            folds_apart=data.scaling.learns,
        )  # fmt: skip
        if solver.shares_gammas:  # then what the folds of a launch share is not known
            return units
        return cut_for(units, n_workers, lambda unit: unit.by_fold)


def search(
    runner: Runner, data: FoldedData, grid: Grid, units: Sequence[Unit]
) -> Iterator[tuple[Outcome[Unit] | News, list[Row]]]:
    """Fit units; give each outcome with its rows, as it arrives, and each row once.

    Yields
    ------
    came : Outcome, or News of a unit at work
    rows : list of dict, the columns of ``columns.OF_SVM``; a unit that failed gives
        rows whose status says why
    """
    work = partial(fit_unit, solver=grid.solver, settings=grid.settings)
    parts = Parts(units)
    for came in runner.outcomes_and_news(work, data, units):
        if isinstance(came, News):
            for news, rows in parts.of(came):
                yield news, with_worker(rows, news.worker)
        else:
            failed = came.error is not None
            rows = failed_rows(data, came.unit, came.error or "") if failed else came.result
            outcome, rest = parts.rest(came, rows)
            rest = without_compilation(rest, outcome.seconds, outcome.compile_seconds)
            yield outcome, with_worker(rest, outcome.worker)


def rows_by_cell(rows: Iterable[Row]) -> dict[Place, Row]:
    """Rows by what names their cell."""
    return {(row["C"], row["gamma"], row["fold"]): row for row in rows}


def tabulate(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as the table ``cv_results``, sorted by gamma, C and fold."""
    return results_frame(rows, columns.OF_SVM, ("gamma", "C", "fold"))


def refit(
    runner: Runner, data: FoldedData, grid: Grid, unit: Refit, work: Callable[..., Any]
) -> Any:
    """Run ``work`` (``refit_estimator`` or ``refit_and_test``) for the best candidate.

    Raises
    ------
    RunStopped
        The fit failed.
    """
    bound = partial(work, solver=grid.solver, settings=grid.settings)
    what = f"the refit of C={unit.C:.3g} gamma={unit.gamma:.3g} failed"
    return result_of(runner, bound, data, unit, what)
