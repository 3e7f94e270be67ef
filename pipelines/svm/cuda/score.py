"""Predictions of every C of a fold from matrix products on the device."""

from typing import Any

import numpy as np

from pipelines.svm.cuda.gpu import launch
from pipelines.svm.cuda.kernel_values import fill_kernel
from pipelines.svm.kernel import Kernel
from pipelines.svm.problems import Layout, Problem


def pair_values(sums: Any, intercepts: Any, problems: list[Problem], xp: Any) -> Any:
    """Return decision values of pairs; float32 (n_pairs, n_rows, n_C).

    sums : float32 (n_classes, n_rows, n_classes, n_C): what a class's support
        vectors add to the pair of it and each other class
    intercepts : float64 (n_pairs, n_C)
    """
    first = xp.asarray([problem.first for problem in problems])
    second = xp.asarray([problem.second for problem in problems])
    values = sums[first, :, second].astype(np.float64)
    values += sums[second, :, first]
    values += intercepts[:, None]
    return values.astype(np.float32)


def count_votes(values: Any, problems: list[Problem], n_classes: int, xp: Any) -> Any:
    """Return class numbers as LIBSVM votes, the lowest of a tie; int64 (n_rows, n_C)."""
    # A class's votes: the pairs it wins as the first, and those it does not lose as the second.
    share, without_wins = np.zeros((n_classes, len(problems)), np.float32), np.zeros(n_classes)
    for p, problem in enumerate(problems):
        share[problem.first, p], share[problem.second, p] = 1, -1
        without_wins[problem.second] += 1
    wins = (values > 0).astype(np.float32).reshape(len(problems), -1)
    votes = xp.asarray(share) @ wins + xp.asarray(without_wins, dtype=np.float32)[:, None]
    return votes.argmax(axis=0).reshape(values.shape[1:])


def score_rows(
    shared: Any, rows: Any, coefficients: Any, intercepts: Any, layout: Layout,
    problems: list[Problem], kernel: Kernel, gamma: float, xp: Any, block_size: int,
) -> tuple[Any, Any]:  # fmt: skip
    """Return predicted class numbers and decision values of some rows for every C.

    Few array operations for all pairs at once: each is a launch, and memory to be found.

    shared : float32 (m, n), shared products with all sorted rows
    rows : int32 (n_rows,), those to score
    coefficients : float32 (n_classes, n_C, n); intercepts : float64 (n_problems, n_C)

    Returns int64 (n_rows, n_C) and float32 (n_problems, n_rows, n_C)
    """
    n_places, n_C, _ = coefficients.shape
    one_vs_one = problems[0].second is not None
    shape = (layout.n_classes if one_vs_one else 1, len(rows), n_places, n_C)
    sums = xp.zeros(shape, np.float32)
    for code in range(layout.n_classes):
        columns = layout.rows_of(code)
        values = xp.empty((len(rows), columns.stop - columns.start), np.float32)
        if values.size:
            launch(
                fill_kernel(kernel.name), len(rows), block_size,
                [shared, rows, columns.start, np.float32(gamma), np.float32(kernel.coef0),
                 kernel.degree, values],
            )  # fmt: skip
        factors = coefficients[:, :, columns].reshape(n_places * n_C, -1)
        sums[code if one_vs_one else 0] += (values @ factors.T).reshape(shape[1:])
    if one_vs_one:
        decided = pair_values(sums, intercepts, problems, xp)
        return count_votes(decided, problems, layout.n_classes, xp), decided
    decided = (sums[0] + intercepts).astype(np.float32).transpose(1, 0, 2)
    return decided.argmax(axis=0), decided
