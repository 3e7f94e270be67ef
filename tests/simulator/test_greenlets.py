"""Threads of the simulator that are greenlets: what kernels may rely on, and what tests find."""

import threading

import numpy as np
import pytest
from numba import cuda, float64

THREADS = 8


def reverse(with_barrier):
    @cuda.jit
    def kernel(values):
        shared = cuda.shared.array(THREADS, float64)
        thread = cuda.threadIdx.x
        for _ in range(3):
            shared[thread] = values[cuda.blockIdx.x, thread]
            if with_barrier:
                cuda.syncthreads()
            values[cuda.blockIdx.x, thread] = shared[THREADS - 1 - thread]
            cuda.syncthreads()

    values = np.arange(2.0 * THREADS).reshape(2, THREADS)
    kernel[2, THREADS](values)
    return values


def test_threads_of_each_block_meet_at_a_barrier():
    expected = np.arange(2.0 * THREADS).reshape(2, THREADS)[:, ::-1]
    np.testing.assert_array_equal(reverse(with_barrier=True), expected)


def test_a_barrier_that_is_missing_is_noticed():
    expected = np.arange(2.0 * THREADS).reshape(2, THREADS)[:, ::-1]
    assert (reverse(with_barrier=False) != expected).any()


def test_an_error_of_one_ends_all():
    ended = []

    @cuda.jit
    def kernel(values):
        try:
            if cuda.threadIdx.x == 3:
                raise ValueError("the third")
            cuda.syncthreads()
        finally:
            ended.append(cuda.threadIdx.x)

    with pytest.raises(ValueError, match="the third"):
        kernel[1, THREADS](np.zeros(1))
    assert sorted(ended) == list(range(4))  # the others had not begun
    assert threading.current_thread() is threading.main_thread()
