"""Searches whose scores are known, for tests of strategies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipelines.search.strategies.base import Cell, Scope

N_ROWS = 1000  # validation rows of a split
Score = Callable[[int, int, float], float | None]


def accuracies(means, n_splits, seed=0):
    """Accuracies about a mean, which all candidates have alike on an easy split."""
    generator = np.random.default_rng(seed)
    splits = generator.normal(0, 0.01, n_splits)
    cell_noise = generator.normal(0, 0.002, (len(means), n_splits))

    def score(candidate, split, share):
        value = means[candidate] + splits[split] + cell_noise[candidate, split] - 0.05 * (1 - share)
        return round(N_ROWS * min(1.0, value)) / N_ROWS

    return score


def row_of(cell, score):
    """The row of a cell, with as many errors as its accuracy says."""
    candidate, split, share = cell
    value = score(candidate, split, share)
    row = {"candidate": candidate, "split": split, "share": share, "score": value}
    return row | {"error": None if value is None else 1 - value, "n_validation": N_ROWS}


def in_order(cells):
    """The cells as they are."""
    return cells


def play(
    strategy,
    score,
    arrange=in_order,
    known_cells=(),
):
    """Run a strategy to its end; the cells that it asked for, in that order.

    Parameters
    ----------
    arrange : puts the cells of a round in the order in which their rows come
    known_cells : cells whose rows are there before it asks
    """
    strategy.tell([row_of(cell, score) for cell in known_cells])
    requested_cells, waiting = list[Cell](), list[Cell]()
    while True:
        requests = strategy.ask()
        if requests is None:
            return requested_cells
        cells = [cell for request in requests for cell in request.cells]
        requested_cells += cells
        waiting = arrange(waiting + [cell for cell in cells if cell not in strategy.rows])
        if waiting:
            strategy.tell([row_of(waiting.pop(0), score)])


def scope(n_candidates, n_splits, size=1, **fields):
    """Candidates in groups of equal size."""
    groups = np.arange(n_candidates).reshape(-1, size).tolist()
    parameters = [{"group": i // size, "member": i % size} for i in range(n_candidates)]
    return Scope(groups, n_splits, **{"n_rows": 5000, "parameters": parameters} | fields)
