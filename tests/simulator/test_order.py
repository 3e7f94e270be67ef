"""The order of the queue, held against iterations that were counted."""

import heapq

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

from pipelines.svm.cpu import path as cpu_path
from pipelines.svm.cuda.launches import class_distances, class_starts, make_table, order_jobs
from pipelines.svm.cuda.products import prepare_device_rows, symmetric_products
from pipelines.svm.kernel import Kernel
from pipelines.svm.search import search_folds
from pipelines.svm.settings import Settings

GAMMAS, CS = np.geomspace(1e-6, 1e-1, 8), np.logspace(-3, 6, 10)
RBF = Kernel("rbf")


def digits():
    X, y = load_digits(return_X_y=True)
    return (X - 8) / 4.6, y, list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))


def iterations_of(X, y, folds, decision, monkeypatch):
    """What the CPU's solver takes for each gamma and entry of the table."""
    counts = []
    fits_of_fold, solved = cpu_path.fits_of_fold, []

    def count(g, fold, ascending, search, solutions, *rest):
        solved.append((g, fold))
        if len(solved) % len(folds) == 0:  # the last fold of a gamma
            counts.append(solutions.iterations.sum(axis=2).ravel())
        return fits_of_fold(g, fold, ascending, search, solutions, *rest)

    monkeypatch.setattr(cpu_path, "fits_of_fold", count)
    cpu_path.cross_validate_path(X, y, GAMMAS, CS, folds, decision=decision)
    return np.stack(counts).astype(float)


def table_of(X, y, folds, decision):
    search, _ = search_folds(y, CS, folds, Settings(decision))
    layout, classes = search.layout, range(search.layout.n_classes)
    rows = prepare_device_rows(X, RBF, np, True)[layout.order]
    distances = class_distances(
        symmetric_products(rows, RBF, np), class_starts(layout, classes), RBF, np
    )
    return make_table(search, range(len(search.problems)), classes), distances


def slack(costs, n_blocks):
    """How much longer blocks that take jobs in an order need than is possible at best."""
    ends = [0.0] * n_blocks
    for cost in costs:
        heapq.heapreplace(ends, ends[0] + cost)
    return max(ends) / max(max(costs), sum(costs) / n_blocks) - 1


def by_rows(table):
    """Most rows first, as the queue once was."""
    g, e = np.divmod(np.arange(len(GAMMAS) * len(table.entries)), len(table.entries))
    order = np.lexsort((e, GAMMAS[g], -table.entries[e, 1]))
    return np.stack([g, e], axis=1)[order]


@pytest.mark.parametrize("n_blocks", [132, 264])
def test_hard_pairs_first_leave_blocks_less_to_wait_for(n_blocks, monkeypatch):
    X, y, folds = digits()
    cost = iterations_of(X, y, folds, "ovo", monkeypatch)
    table, distances = table_of(X, y, folds, "ovo")
    ours, old = (
        slack(cost[tuple(jobs.T)], n_blocks)
        for jobs in (order_jobs(table, GAMMAS, distances), by_rows(table))
    )
    assert ours < 0.6 * old


def test_one_vs_rest_starts_what_lasts_longest_at_once(monkeypatch):
    X, y, folds = digits()
    cost = iterations_of(X, y, folds, "ovr", monkeypatch)
    table, distances = table_of(X, y, folds, "ovr")
    jobs = order_jobs(table, GAMMAS, distances)
    assert sorted(map(tuple, jobs)) == [(g, e) for g in range(len(GAMMAS)) for e in range(50)]
    # The order was fitted to SMO; Newton's method leaves paths shorter, and their ends apart.
    assert slack(cost[tuple(jobs.T)], 132) < 0.15


def test_distances_between_classes_are_the_rows_own():
    rng = np.random.default_rng(0)
    X, starts = rng.normal(size=(9, 3)), np.array([0, 4, 9])
    squared = ((X[:, None] - X) ** 2).sum(axis=2)
    means = [
        [squared[a, b].mean() for b in (slice(4), slice(4, 9))] for a in (slice(4), slice(4, 9))
    ]
    for kernel in ("rbf", "linear"):
        form = Kernel(kernel)
        shared = symmetric_products(prepare_device_rows(X, form, np, True), form, np)
        np.testing.assert_allclose(class_distances(shared, starts, form, np), means, rtol=1e-5)
