"""cupy sees the device, and its arithmetic is right."""

import time

import numpy as np

from benchmarks.gpu.device import gpus
from benchmarks.gpu.figures import note


def test_cupy_sees_every_gpu():
    import cupy

    assert cupy.cuda.runtime.getDeviceCount() == len(gpus())


def test_a_product_in_single_precision_is_right():
    import cupy

    rng = np.random.default_rng(1)
    A, B = (rng.standard_normal(shape, dtype=np.float32) for shape in ((500, 784), (784, 300)))
    product = (cupy.asarray(A) @ cupy.asarray(B)).get()
    exact = A.astype(np.float64) @ B.astype(np.float64)
    assert product.dtype == np.float32
    # Far below what 10-bit mantissas (TF32) would give: about 0.03.
    assert np.abs(product - exact).max() < 1e-3


def test_a_large_product_takes_its_time():
    import cupy

    n, repeats = 8192, 5
    A = cupy.ones((n, n), dtype=cupy.float32)
    A @ A
    cupy.cuda.Device().synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        product = A @ A
    cupy.cuda.Device().synchronize()
    seconds = (time.perf_counter() - started) / repeats
    assert float(product[0, 0]) == n
    note(f"{2 * n**3 / seconds / 1e12:.0f} TFLOP/s in single precision")
