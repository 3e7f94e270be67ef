"""Counts of a large data set from those of its subsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.cost.counts import COLUMNS
from benchmarks.cost.seconds import Walks

GAMMA, PROBLEM, ROWS, SOLVED, SOLVES, ITERATIONS, VISITED, TAKEN_OFF = range(len(COLUMNS))
GROW = (SOLVES, ITERATIONS, VISITED, TAKEN_OFF)


def jobs_of(record: Mapping[str, Any]) -> np.ndarray:
    """The jobs of a record of ``count_grid``, gamma itself in place of its number."""
    jobs = np.array(record["jobs"], dtype=np.float64)
    jobs[:, GAMMA] = np.log10(np.array(record["gammas"])[jobs[:, GAMMA].astype(int)])
    return jobs


def exponents(small: Mapping[str, Any], large: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """How counts grow with the rows: ``count ~ rows ** exponent``, gamma by gamma.

    From the problems and gammas that both records have.

    Returns
    -------
    log10 of gamma, float64 (n_gammas,), and exponents, float64 (n_gammas, len(GROW))
    """
    before, after = jobs_of(small), jobs_of(large)
    ratio = np.log(large["n_train"] / small["n_train"])
    gammas, found = [], []
    for gamma in np.unique(after[:, GAMMA]):
        new = after[after[:, GAMMA] == gamma]
        old = before[np.isclose(before[:, GAMMA], gamma, rtol=0, atol=1e-9)]
        old = old[np.isin(old[:, PROBLEM], new[:, PROBLEM])]
        if len(old) == len(new):
            sums = [np.maximum(1, one[:, GROW].sum(axis=0)) for one in (new, old)]
            gammas.append(gamma)
            found.append(np.log(sums[0] / sums[1]) / ratio)
    return np.array(gammas), np.array(found)


def grown(records: Sequence[Mapping[str, Any]], n_train: int) -> np.ndarray:
    """Jobs of the first record as they would be with ``n_train`` rows.

    Parameters
    ----------
    records : in ascending order of rows; the first with every problem and gamma, the others
        with some. From one to the next counts grow as both have it; beyond the last, and
        between gammas that were not replayed, as the nearest do.
    """
    jobs = jobs_of(records[0])
    sizes = [record["n_train"] for record in records] + [n_train]
    for at, (low, high) in enumerate(pairwise(sizes)):
        if at + 1 < len(records):
            gammas, powers = exponents(records[at], records[at + 1])
        for number, column in enumerate(GROW):
            power = np.interp(jobs[:, GAMMA], gammas, powers[:, number])
            jobs[:, column] *= (high / low) ** power
        jobs[:, ROWS] *= high / low
    return jobs


def walks_of(jobs: np.ndarray, n_folds: int, order: str = "rows", most: float = np.inf) -> Walks:
    """A launch over all folds, each as the one that was replayed.

    order : {"rows", "iterations"}
        What leaves the queue first: most rows, then the smallest gamma, as the solver has
        began; or most iterations times members, the best a guide can do.
    most : members that an inner solve is given, in the mean of a job; its iterations are
        taken to be the same.
    """
    every = np.tile(jobs, (n_folds, 1))
    keys = {
        "rows": (every[:, GAMMA], -every[:, ROWS]),
        "iterations": (-(every[:, ITERATIONS] * (600 + every[:, VISITED] / np.maximum(
            1, every[:, ITERATIONS]))),),
    }  # fmt: skip
    iterations = every[:, ITERATIONS]
    members = np.minimum(most, every[:, VISITED] / np.maximum(1, iterations))
    return Walks(
        every[:, ROWS], iterations, members,
        every[:, SOLVES], every[:, TAKEN_OFF], np.lexsort(keys[order]),
    )  # fmt: skip
