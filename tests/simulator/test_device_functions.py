"""Device functions one by one, under the simulator."""

import numpy as np

from pipelines.svm.cpu.kernels import kernel_values
from pipelines.svm.cpu.kernels import shared_products as cpu_products
from pipelines.svm.cuda.distances import cross_products, prepare_rows, symmetric_products
from pipelines.svm.cuda.gpu import launch
from pipelines.svm.cuda.kernel_values import falling_expm1, fill_kernel, pulls_kernel
from pipelines.svm.kernel import Kernel


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
        ready = prepare_rows(rows, form, np, True)
        ours = symmetric_products(ready, form, np, block=5)
        np.testing.assert_array_equal(ours, ours.T)
        np.testing.assert_allclose(ours, cpu_products(ready, form), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            cross_products(ready[:3], ready, form, np), ours[:3], rtol=1e-5, atol=1e-5
        )
    assert symmetric_products(prepare_rows(rows, Kernel(), np, True), Kernel(), np)[5, 7] == 0


def test_kernel_blocks_and_class_sums():
    rng = np.random.default_rng(2)
    shared = rng.uniform(0, 3, size=(7, 7)).astype(np.float32)
    shared = shared + shared.T
    starts, weights = np.array([0, 3, 7]), rng.integers(0, 3, size=(2, 7)).astype(np.float64)
    for form in (Kernel(), Kernel("linear"), Kernel("poly", 2, 1.0), Kernel("sigmoid", 3, 0.5)):
        expected = kernel_values(shared, form, 0.3)
        rows, out = np.array([4, 0], np.int32), np.empty((2, 4), np.float32)
        constants = [np.float32(0.3), np.float32(form.coef0), form.degree]
        launch(fill_kernel(form.name), 2, 3, [shared, rows, 2, *constants, out])
        np.testing.assert_allclose(out, expected[[4, 0], 2:6], rtol=1e-5)
        pulls = np.empty((1, 2, 2, 7))
        launch(
            pulls_kernel(form.name), (7, 1), 2,
            [shared, starts, weights, np.array([0.3], np.float32), *constants[1:], pulls],
        )  # fmt: skip
        sums = [[expected[:, a:b] @ w[a:b] for a, b in ((0, 3), (3, 7))] for w in weights]
        np.testing.assert_allclose(pulls[0], sums, rtol=1e-5, atol=1e-6)
