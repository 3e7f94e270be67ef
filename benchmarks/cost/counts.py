"""What the walks of a grid do: counts of each gamma and binary problem, from a replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.cost.walk import ITERATIONS, N_COUNTS, VISITED, replay
from pipelines.svm.cpu.binary import BinaryProblem
from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
from pipelines.svm.kernel import Kernel
from pipelines.svm.problems import Layout, Problem, fold_weights, problems_of, sort_rows
from pipelines.svm.search import Settings

if TYPE_CHECKING:
    from benchmarks.grid_search.lines import Problem as Grid

# Of a job.
COLUMNS = ("gamma", "problem", "n", "solved", "solves", "iterations", "visited", "taken_off")


def count_grid(
    grid: Grid,
    decision: str,
    capacity: int,
    share: float = 0.5,
    numbers: Sequence[int] | None = None,
    echo: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Replay every binary problem of a grid on its first fold.

    Parameters
    ----------
    grid : Problem
        A data set, its folds, C and gamma.
    decision : {"ovo", "ovr"}
    capacity, share : see ``replay``
    numbers : of the binary problems to replay; all of them by default

    Returns
    -------
    dict, every value of which can be written as JSON
        ``jobs``: for each gamma and problem their numbers, the rows, the different
        solutions, and the counts of ``benchmarks.cost.walk``; see ``COLUMNS``.
    """
    data, form = grid.data(), Kernel("rbf")
    layout = sort_rows(data.y)
    rows = prepare_rows(data.scaled("cpu"), form)[layout.order]
    weight = fold_weights(grid.folds[:1], layout.order)[0]
    settings = Settings(np.sort(np.array(grid.Cs)))
    jobs: list[list[int]] = []
    problems = problems_of(layout.n_classes, decision)
    rest = None if problems[0].second is not None else _training(rows, weight, layout, None, form)
    for number in range(len(problems)) if numbers is None else numbers:
        problem = problems[number]
        training = rest or _training(rows, weight, layout, problem, form)
        for g, gamma in enumerate(grid.gammas):
            counts = np.zeros(N_COUNTS, np.int64)
            kernel = kernel_values(training[0], form.at(gamma), _scratch(training[0].shape))
            given = _binary(kernel, training[1], problem)
            solved = replay(
                kernel, given, settings.Cs, settings.tol, settings.limit(len(kernel)), capacity,
                share, counts,
            )  # fmt: skip
            jobs.append([g, number, len(kernel), solved, *counts.tolist()])
            echo(
                f"{decision} problem {number} gamma {gamma:.3g}: {counts[ITERATIONS]:,} iterations "
                f"of {counts[VISITED] / max(1, counts[ITERATIONS]):.0f} members"
            )
    return {
        "dataset": grid.dataset.name,
        "n_train": len(data.y),
        "decision": decision,
        "n_folds": len(grid.folds),
        "n_classes": layout.n_classes,
        "n_features": int(rows.shape[1]),
        "n_C": len(grid.Cs),
        "class_rows": np.bincount(layout.codes).tolist(),
        "gammas": list(grid.gammas),
        "capacity": capacity,
        "share": share,
        "jobs": jobs,
    }


def _training(
    rows: np.ndarray, weight: np.ndarray, layout: Layout, problem: Problem | None, form: Kernel
) -> tuple[np.ndarray, np.ndarray]:
    """Shared products of a problem's training rows, and the class of each."""
    every = np.arange(len(rows)) if problem is None else problem.pair_rows(layout)
    some = every[weight[every] > 0]
    return shared_products(np.ascontiguousarray(rows[some]), form), layout.codes[some]


def _binary(kernel: np.ndarray, codes: np.ndarray, problem: Problem) -> BinaryProblem:
    own = codes == problem.first
    sides = np.stack([own, ~own], axis=1).astype(np.float32)
    pulls = (kernel @ sides).astype(np.float64)
    labels = np.where(own, 1.0, -1.0)
    return BinaryProblem(
        labels, labels, np.ones(len(codes)), pulls[:, 0].copy(), pulls[:, 1].copy()
    )


_room: list[np.ndarray] = []


def _scratch(shape: Sequence[int]) -> np.ndarray:
    """Work space that is kept between calls: fresh pages cost as much as filling them."""
    size = int(np.prod(shape))
    if not _room or _room[0].size < size:
        _room[:] = [np.empty(size, np.float32)]
    return _room[0][:size].reshape(shape)
