"""Device functions one by one, under the simulator."""

import numpy as np
import pytest
from numba import cuda, types

from pipelines.svm.cpu.kernels import kernel_values
from pipelines.svm.cpu.kernels import shared_products as cpu_products
from pipelines.svm.cuda.block import BlockRows, Parts, Products, WorkSpace
from pipelines.svm.cuda.gpu import launch
from pipelines.svm.cuda.kernel_values import falling_expm1
from pipelines.svm.cuda.passes import CHUNK, choose, most_eager, pack, row_subtractor, survey
from pipelines.svm.cuda.products import (
    device_cross_products,
    prepare_device_rows,
    symmetric_products,
)
from pipelines.svm.kernel import Kernel

THREADS = 4
subtract = row_subtractor("rbf")


def test_expm1_is_good_to_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = -np.concatenate([10.0 ** rng.uniform(-9, 2, 3000), rng.uniform(0, 2, 3000), [0, 1e30]])
    x = x.astype(np.float32)
    ours = np.array([falling_expm1(value) for value in x])
    exact = np.expm1(x.astype(np.float64))
    unit = np.spacing(np.abs(exact).astype(np.float32))
    assert ours.dtype == np.float32
    assert (np.abs(ours - exact) <= 2 * unit).all()


def test_products_are_symmetric_and_those_of_the_cpu():
    rows = np.random.default_rng(1).normal(size=(23, 4)) + 50
    rows[5] = rows[7]
    for form in (Kernel(), Kernel("linear")):
        ready = prepare_device_rows(rows, form, np, True)
        ours = symmetric_products(ready, form, np, block=5)
        np.testing.assert_array_equal(ours, ours.T)
        np.testing.assert_allclose(ours, cpu_products(ready, form), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            device_cross_products(ready[:3], ready, form, np), ours[:3], rtol=1e-5, atol=1e-5
        )
    assert (
        symmetric_products(prepare_device_rows(rows, Kernel(), np, True), Kernel(), np)[5, 7] == 0
    )


def test_what_rounding_leaves_off_makes_products_double():
    """To 48 bits, and as symmetric."""
    rows = np.random.default_rng(1).normal(size=(23, 4)) * [1, 10, 100, 1000]
    rows[5] = rows[7]
    for form in (Kernel(), Kernel("linear")):
        ready, rest = prepare_device_rows(rows, form, np, True), np.empty((23, 23), np.float32)
        both = symmetric_products(ready, form, np, 5, rest).astype(np.float64) + rest
        np.testing.assert_array_equal(both, both.T)
        true = ready @ ready.T
        if form.of_distances:
            true = ((ready[:, None] - ready) ** 2).sum(axis=2)
            assert both[5, 7] == 0
        np.testing.assert_allclose(both, true, rtol=1e-13, atol=1e-8)


@cuda.jit
def _between_solves(signed, columns, residual, beta, C, quota, shared, changes, members, result):
    """Cuts of both directions, the rows inside them, and the packed changes taken off."""
    t, n_threads = cuda.threadIdx.x, THREADS
    tops = cuda.shared.array(THREADS, types.float64)
    lows = cuda.shared.array(THREADS, types.float64)
    gains = cuda.shared.array(THREADS, types.float32)
    places = cuda.shared.array(THREADS, types.int32)
    partners = cuda.shared.array(THREADS, types.int32)
    facts = cuda.shared.array((2, THREADS), types.float64)
    counts = cuda.shared.array(THREADS, types.int32)
    chunk_factors = cuda.shared.array(CHUNK, types.float64)
    chunk_columns = cuda.shared.array(CHUNK, types.int32)
    parts = Parts(tops, lows, gains, places, partners, facts, counts, chunk_factors, chunk_columns)
    rows = BlockRows(signed, columns, residual, beta)
    top, i, low, j, level, _ = survey(t, n_threads, C, rows, parts)
    rise = most_eager(t, n_threads, C, rows, 1.0, level, top, quota, False, parts)
    fall = most_eager(t, n_threads, C, rows, -1.0, -level, -low, quota, False, parts)
    m = choose(t, n_threads, i, j, C, rows, rise, fall, parts, members)
    work = WorkSpace(changes[0], changes[1], members[:m], members[m:])
    n_changed = pack(t, n_threads, rows, m, work, parts)
    products = Products(shared, np.float32(0.5), np.float32(0), 1)
    subtract(t, n_threads, rows, 0, n_changed, work, products, parts)
    if t == 0:
        result[0], result[1], result[2], result[3] = m, i, j, n_changed


@pytest.mark.parametrize(("quota", "kinds"), [(1, 400), (9, 400), (9, 3), (60, 400), (400, 400)])
def test_the_worst_rows_are_taken_and_their_changes_taken_off(quota, kinds):
    """``kinds`` residuals that differ: of 3, more than a hundred rows tie at each cut."""
    rng, n, C = np.random.default_rng(3), 400, 2.0
    signed = rng.choice([-1.0, 1.0], n)
    beta = signed * rng.choice([0.0, 0.5, C], n)
    residual = rng.normal(size=kinds)[rng.integers(kinds, size=n)]
    rows = rng.normal(size=(500, 3))
    shared = symmetric_products(prepare_device_rows(rows, Kernel(), np, True), Kernel(), np)
    columns = rng.permutation(500)[:n].astype(np.int32)
    changes = np.zeros((2, n))
    changes[0] = rng.normal(size=n) * rng.integers(2, size=n)
    members, counts, after = np.zeros(2 * n, np.int32), np.zeros(4, np.int64), residual.copy()
    launch(
        _between_solves,
        1,
        THREADS,
        [signed, columns, after, beta, C, quota, shared, changes, members, counts],
    )
    m, i, j, n_changed = counts
    rise, fall = beta < np.maximum(C * signed, 0), beta > np.minimum(C * signed, 0)
    free = residual[rise & fall]
    assert residual[i] == residual[rise].max()
    assert residual[j] == residual[fall].min()
    inside = np.zeros(n, bool)
    inside[members[:m]] = True
    assert (np.diff(members[:m]) > 0).all()
    for may, key in ((rise, residual), (fall, -residual)):
        level = free.mean() * (1 if key is residual else -1)
        wanted = np.flatnonzero(may & (key >= level))
        best = np.sort(key[wanted])[::-1]
        # Of more than the quota, those before the last quarter of it are there.
        sure = best[: max(1, 3 * min(quota, best.size) // 4)]
        assert (key[may & inside] >= sure[-1]).sum() >= sure.size
    assert m <= 2 * quota + 2
    used = changes[0, :m]
    kernel = kernel_values(shared, Kernel(gamma=0.5))[columns][:, columns]
    assert n_changed == np.count_nonzero(used)
    np.testing.assert_allclose(
        after, residual - kernel[:, members[:m]].astype(np.float64) @ used, rtol=1e-5, atol=1e-5
    )


def test_distances_within_a_wide_column_keep_their_digits():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(120, 5)), 2e4 * (np.arange(120) % 2)])
    true = ((X[:, None] - X) ** 2).sum(axis=2)
    for offset in (0.0, 1e9):
        rows = prepare_device_rows(X + offset, Kernel(), np, False)
        np.testing.assert_allclose(symmetric_products(rows, Kernel(), np), true, rtol=1e-5)
        across = device_cross_products(rows[:50], rows, Kernel(), np)
        np.testing.assert_allclose(across, true[:50], rtol=1e-5)
