"""The path solver's kernels on a real GPU, against the CPU's solver."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import StratifiedKFold

CS = np.logspace(-3, 6, 10)
GAMMAS = (1e-4, 1e-2)


def digits():
    X, y = load_digits(return_X_y=True)
    X = ((X - 8) / 4.6).astype(np.float32)
    return X, y, list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))


def agree(X, y, folds, **options):
    import cupy

    from pipelines.svm.cpu.path import cross_validate_path
    from pipelines.svm.cuda.path import cross_validate_path_cuda

    options = {"return_decisions": True, **options}
    Cs, launching = options.pop("Cs", CS), options.pop("launching", None)
    cpu = cross_validate_path(X, y, GAMMAS, Cs, folds, **options)
    gpu = cross_validate_path_cuda(
        cupy.asarray(X), y, GAMMAS, Cs, folds, launching=launching, **options
    )
    np.testing.assert_array_equal(gpu.status, cpu.status)
    np.testing.assert_allclose(gpu.objectives, cpu.objectives, rtol=1e-3, atol=1e-6)
    assert np.abs(gpu.n_errors - cpu.n_errors).max() <= 2
    return gpu


def test_one_vs_one_agrees_with_the_cpu():
    agree(*digits())


def test_one_vs_rest_agrees_with_the_cpu():
    agree(*digits(), decision="ovr")


def test_a_polynomial_agrees_with_the_cpu():
    """Of the kernels the one with most terms: each compiles for a minute."""
    from pipelines.svm.cuda.launches import Launching

    X, y = make_blobs(n_samples=[120, 150, 90], n_features=6, cluster_std=4.0, random_state=0)
    X = (X / 10).astype(np.float32)
    folds = list(StratifiedKFold(3).split(X, y))
    launching = replace(Launching.for_rows(512), hard_members=0)
    Cs = CS[:8]  # beyond, SMO stalls in single precision, and the CPU turns to Newton's method
    options = {"kernel": "poly", "coef0": 0.5, "class_weight": "balanced"}
    agree(X, y, folds, launching=launching, Cs=Cs, **options)


def test_the_same_input_gives_the_same_bits():
    first_run, other = agree(*digits()), agree(*digits())
    np.testing.assert_array_equal(first_run.n_errors, other.n_errors)
    np.testing.assert_array_equal(first_run.objectives, other.objectives)
    np.testing.assert_array_equal(first_run.n_iterations, other.n_iterations)


def test_short_launches_give_the_same_bits():
    """The GPU's clock ends them: many, each of a tenth of a millisecond."""
    from pipelines.svm.cuda import launches

    shares, share_done = [], launches._share_done

    def noted(*arguments):
        shares.append(share_done(*arguments))
        return shares[-1]

    X, y, folds = digits()
    short = replace(launches.Launching.for_rows(512), seconds=0.0001)
    with patch.object(launches, "_share_done", noted):
        whole = agree(X, y, folds)
        n_whole = len(shares)
        parts = agree(X, y, folds, launching=short)
    assert len(shares) - n_whole > 4 * n_whole
    np.testing.assert_array_equal(parts.objectives, whole.objectives)
    np.testing.assert_array_equal(parts.n_iterations, whole.n_iterations)


def test_little_memory_gives_the_same_errors():
    """Pair by pair, as 180,000 rows are solved, and MNIST on a card of 16 GB."""
    X, y, folds = digits()
    whole = agree(X, y, folds)
    parts = agree(X, y, folds, memory_bytes=24 << 20)
    assert np.abs(whole.n_errors - parts.n_errors).max() <= 1


def test_blocks_of_every_size_agree_with_the_cpu():
    """Two warps to sixteen; 40 members at most, far fewer than want to change at first.

    By SMO alone, whose kernel compiles in half the time; Newton's method is with the others. Those
    of 128 and 256 threads are the study's, and compiled once for all checks.
    """
    from pipelines.svm.cuda.launches import Launching

    X, y, folds = digits()
    for shape in ((64, 8), (128, 4, 40), (256, 2), (512, 2)):
        agree(X, y, folds, launching=Launching(*shape, hard_members=0))
    launching = Launching(256, 2, 200, hard_members=0)
    agree(X, y, folds, decision="ovr", launching=launching)


def test_memory_comes_from_a_pool_where_cupy_has_none():
    import cupy

    from pipelines.svm.cuda import path
    from pipelines.svm.cuda.gpu import _pool

    def noted(xp):
        taken.append(_pool(xp).total_bytes())

    X, y, folds = digits()
    taken = [0]
    cupy.cuda.set_allocator(None)  # plain cudaMalloc, as an import of RAPIDS leaves it
    try:
        with patch.object(path, "synchronise", noted):
            path.cross_validate_path_cuda(cupy.asarray(X), y, GAMMAS, CS, folds)
    finally:
        cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    assert max(taken) > 4 * len(X) ** 2


def test_a_fit_predicts_as_the_cpus():
    import cupy

    from pipelines.data.scaling import Scaling
    from pipelines.svm.backends import load_backend
    from pipelines.svm.kernel import RBF
    from pipelines.svm.kernel_machine import KernelMachine
    from pipelines.svm.settings import Settings

    X, y, _ = digits()
    ours, cpus = (
        KernelMachine(
            X[support],
            coefficients,
            intercepts,
            RBF,
            0.01,
            Scaling("none").fit(X),
            np.unique(y),
            "ovo",
        ).predict(X)
        for device, rows in (("gpu", cupy.asarray(X)), ("cpu", X))
        for support, coefficients, intercepts in [
            load_backend("path", device).fit_parts(rows, y, 10.0, 0.01, Settings())
        ]
    )
    assert np.mean(ours == cpus) > 0.998
