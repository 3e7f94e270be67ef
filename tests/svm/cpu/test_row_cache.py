"""Kernel rows within a given memory."""

import numpy as np

from pipelines.svm.cpu.beyond_memory import KernelRows
from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
from pipelines.svm.cpu.solver_threads import open_pool
from pipelines.svm.kernel import Kernel


def test_kernel_rows_are_kept_dropped_and_made_again():
    X = np.random.default_rng(0).normal(size=(200, 3))
    form = Kernel(gamma=0.3)
    kernel = kernel_values(shared_products(prepare_rows(X, form), form), form)
    with open_pool(2) as pool:
        source = KernelRows(prepare_rows(X, form), form, 64 * 4 * 200, pool)
        residual, rows = np.ones(200), np.arange(150)
        factors = np.linspace(-1, 1, 150)
        source.subtract(residual, rows, factors)
        np.testing.assert_allclose(residual, 1 - factors @ kernel[rows], atol=1e-6)
        source.subtract(residual, rows, -factors)
        np.testing.assert_allclose(residual, 1, atol=1e-12)
        computed = source.n_computed
        source.subtract(residual, rows[-20:], factors[-20:])
        assert (source.capacity, source.n_computed) == (64, computed)
