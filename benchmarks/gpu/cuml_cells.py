"""Cells of a grid fitted by ``cuml.svm.SVC``, each ended after its time.

A fit cannot be interrupted from within, and importing cuml replaces cupy's pool of
memory in the whole process: so it is another process that fits, and is ended where a
cell takes too long.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from benchmarks.grid_search.lines import Problem
    from pipelines.data.placement import FoldedData

START_SECONDS = 300.0  # for importing cuml, moving the data and a first fit


class Cell(NamedTuple):
    """A candidate on a fold; the names keep C and gamma from being taken for each other."""

    C: float
    gamma: float
    fold: int


@dataclass(frozen=True)
class TimedCell:
    """What became of a cell.

    Attributes
    ----------
    cell : Cell
    seconds : float
        Of fitting and predicting; the limit where it was ended.
    n_errors : int or None
        None where it was ended.
    """

    cell: Cell
    seconds: float
    n_errors: int | None


def is_installed() -> bool:
    """Whether there is a cuml to compare with."""
    return importlib.util.find_spec("cuml") is not None


def sample_cells(problem: Problem, count: int) -> list[Cell]:
    """At most ``count`` cells spread evenly over a grid, from its first to its last."""
    cells = [
        Cell(C, gamma, fold)
        for gamma in problem.gammas
        for C in problem.Cs
        for fold in range(len(problem.folds))
    ]
    return [cells[at] for at in np.unique(np.linspace(0, len(cells) - 1, count).astype(int))]


def time_cells(
    data: FoldedData, cells: Sequence[Cell], decision: str, limit: float
) -> Iterator[TimedCell]:
    """Fit and score cells one after another; each within ``limit`` seconds.

    A process begins with a fit of 500 rows that is not counted.

    Raises
    ------
    RuntimeError
        The process failed or did not begin in time; its own account is on stderr.
    """
    worker: _Worker | None = None
    try:
        for cell in cells:
            worker = worker or _Worker(data, decision)
            answer = worker.ask(cell, limit)
            if answer is None:
                worker.end()
                worker = None
            yield TimedCell(cell, *(answer or (limit, None)))
    finally:
        if worker is not None:
            worker.end()


class _Worker:
    """The process that fits, from its start to its end."""

    def __init__(self, data: FoldedData, decision: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(
            target=_serve,
            args=(other, data.scaled("cpu"), data.y, list(data.folds), decision),
            daemon=True,
        )
        self._process.start()
        other.close()
        if self._receive(START_SECONDS) is None:
            self.end()
            raise RuntimeError(f"cuml did not begin within {START_SECONDS:.0f} s")

    def ask(self, cell: Cell, limit: float) -> tuple[float, int] | None:
        """Seconds and wrong rows of a cell; None where it takes longer than ``limit``."""
        self._connection.send(cell)
        answer: tuple[float, int] | None = self._receive(limit)
        return answer

    def _receive(self, seconds: float) -> Any:
        if not self._connection.poll(seconds):
            return None
        try:
            return self._connection.recv()
        except EOFError:
            self._process.join()
            status = self._process.exitcode
            raise RuntimeError(f"cuml's process ended with status {status}") from None

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()


def _serve(
    connection: Connection, X: np.ndarray, y: np.ndarray, folds: Sequence[Any], decision: str
) -> None:
    """Fit what is asked for, until nobody asks."""
    train, validation = folds[0]
    fit_cell(X, y, (train[:500], validation[:10]), Cell(1.0, 1e-3, 0), decision)
    connection.send("ready")
    while True:
        try:
            cell = connection.recv()
        except EOFError:
            return
        started = time.perf_counter()
        n_errors = fit_cell(X, y, folds[cell.fold], cell, decision)
        connection.send((time.perf_counter() - started, n_errors))


def fit_cell(
    X: np.ndarray, y: np.ndarray, fold: tuple[np.ndarray, np.ndarray], cell: Cell, decision: str
) -> int:
    """Wrong validation rows of cuml's own multi-class SVC."""
    from cuml.svm import SVC

    train, validation = fold
    svc = SVC(C=cell.C, gamma=cell.gamma, decision_function_shape=decision, output_type="numpy")
    predicted = svc.fit(X[train], y[train]).predict(X[validation])
    return int(np.sum(np.asarray(predicted).reshape(-1) != y[validation]))
