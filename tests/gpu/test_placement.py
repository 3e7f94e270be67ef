"""A process puts the scaled rows on its GPU once, and keeps them there."""

import numpy as np

from benchmarks.gpu.figures import note
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling


def some_data(scaling, n_rows=1000):
    rng = np.random.default_rng(2)
    X = rng.integers(0, 256, (n_rows, 784), dtype=np.uint8)
    y = (np.arange(n_rows) % 2).astype(np.int32)
    rows = np.arange(n_rows, dtype=np.int32)
    return FoldedData(X, y, X[:0], y[:0], [(rows[10:], rows[:10])], scaling)


def test_rows_are_placed_at_the_first_call_only():
    import cupy

    data = some_data(Scaling("constants", 127.5, 73.61))
    placed = data.scaled("gpu")
    assert isinstance(placed, cupy.ndarray)
    assert placed.dtype == np.float32
    assert data.scaled("gpu") is placed
    assert data.scaled("gpu", rows=data.folds[0][0]) is placed
    note(f"{placed.nbytes / 2**20:.1f} MiB placed once")


def test_rows_on_the_gpu_equal_those_on_the_cpu():
    data = some_data(Scaling("constants", 127.5, 73.61))
    np.testing.assert_array_equal(data.scaled("gpu").get(), data.scaled("cpu"))


def test_a_standardisation_fitted_on_a_fold_is_the_cpus():
    data = some_data(Scaling("standardise"))
    rows = data.folds[0][0]
    on_cpu = data.scaled("cpu", rows=rows)
    np.testing.assert_array_equal(data.scaled("gpu", rows=rows).get(), on_cpu.astype(np.float32))


def test_rows_are_freed_with_their_data_set():
    import gc

    import cupy

    def used():
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()
        free, total = cupy.cuda.runtime.memGetInfo()
        return total - free

    n_rows = 40_000  # 120 MiB in single precision
    some_data(Scaling("none"), n_rows).scaled("gpu")
    before = used()
    for _ in range(3):
        some_data(Scaling("none"), n_rows).scaled("gpu")
    assert used() - before < 100 * 2**20
