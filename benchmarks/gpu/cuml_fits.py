"""Seconds of one fit: ``cuml.svm.SVC`` a cell at a time against scikit-learn on one core."""

from __future__ import annotations

import os
import statistics
from functools import partial

from benchmarks.gpu.compiling import warming_up
from benchmarks.gpu.figures import note
from benchmarks.grid_search.lines import Errors, Problem, compare, make_problem
from benchmarks.timing import Timed, in_turn, ratios
from pipelines.search.tasks import make_tasks, task_rows
from pipelines.svm.settings import Settings

ROWS = 5_000
CS = (1.0, 100.0)
GAMMAS = (1e-3, 1e-2)
FOLD = 0
REPEATS = 3


def compare_fits(repeats: int = REPEATS) -> None:
    """Time a pass over a few cells on both, in turn, after a pass on the GPU to warm up.

    Raises
    ------
    RuntimeError
        A fit failed.
    """
    problem = small_problem(os.environ.get("PLEASINGLY_DATA_DIR"))
    with warming_up():
        fit_cells(problem, "cuml")
    passes = {solver: partial(fit_cells, problem, solver) for solver in ("cuml", "sklearn")}
    cuml, sklearn = in_turn(passes, repeats)
    note(sentence(problem, cuml, sklearn))


def small_problem(data_dir: str | None) -> Problem:
    """MNIST from ``data_dir``, or the digits where there is none."""
    name, where = ("mnist", data_dir) if data_dir else ("digits", "data")
    return make_problem(name, Cs=CS, gammas=GAMMAS, n_folds=5, limit=ROWS, data_dir=where)


def fit_cells(problem: Problem, solver: str) -> Errors:
    """Fit and score every cell of one fold, one after another, from data just loaded."""
    settings = Settings(device="gpu" if solver == "cuml" else "cpu")
    search = problem.search(solver, settings)
    rows = [
        row
        for task in make_tasks(search)
        if task.splits == (FOLD,)
        for row in task_rows(search, task)
    ]
    failed = [row["status"] for row in rows if row["n_errors"] is None]
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(rows)} fits failed: {failed[0]}")
    return {(row["C"], row["gamma"], row["fold"]): row["n_errors"] for row in rows}


def sentence(problem: Problem, cuml: Timed[Errors], sklearn: Timed[Errors]) -> str:
    """What was found, in one line of a table."""
    n_cells = len(problem.Cs) * len(problem.gammas)
    ratio, least, most = ratios(sklearn, cuml)
    differ = compare(cuml.result, sklearn.result)["largest_difference_rows"]
    gpu, other = (statistics.median(line.seconds) / n_cells for line in (cuml, sklearn))
    return (
        f"{problem.dataset.name}, {len(problem.folds[FOLD][0])} rows: a fit takes cuml {gpu:.3g} s "
        f"and sklearn on one core {other:.3g} s, {ratio:.1f} × ({least:.1f} to {most:.1f}) as "
        f"long; errors differ by at most {differ} rows"
    )
