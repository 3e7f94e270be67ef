"""Threads of a search: BLAS, which would take their cores, computes on one."""

from threadpoolctl import threadpool_info, threadpool_limits

from pipelines.svm.cpu.solver_threads import open_pool


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_within_a_pool_and_its_own_after_it():
    with threadpool_limits(1, user_api="openmp"), threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with open_pool(1):
            assert blas_threads() == {1}
        assert blas_threads() == before
