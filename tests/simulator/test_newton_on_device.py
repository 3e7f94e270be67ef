"""Newton's method on the free multipliers, under the simulator: its parts, and hard tables."""

import numpy as np
import pytest
from numba import cuda, types
from sklearn.model_selection import StratifiedKFold

from pipelines.svm.cpu.path import cross_validate_path
from pipelines.svm.cuda import newton
from pipelines.svm.cuda.block import Free
from pipelines.svm.cuda.gpu import launch
from pipelines.svm.cuda.launches import Launching
from pipelines.svm.cuda.path import cross_validate_path_cuda
from pipelines.svm.kernel import Kernel

THREADS = 4
BOTH = Launching(block_size=THREADS)
ALONE = Launching(block_size=1, hard_members=0)  # one thread: the simulator's quickest block


def noisy(n, seed=0):
    """Two classes that overlap, in two dimensions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)


def agree(X, y, gamma, Cs, folds, launching=BOTH, rtol=1e-4, **options):
    """The CPU's result and ours, held against each other."""
    options["return_decisions"] = True
    cpu = cross_validate_path(X, y, gamma, Cs, folds, **options)
    gpu = cross_validate_path_cuda(X, y, gamma, Cs, folds, launching=launching, **options)
    assert not cpu.status.any()
    assert not gpu.status.any()
    np.testing.assert_allclose(gpu.objectives, cpu.objectives, rtol=rtol)
    for ours, theirs in zip(gpu.decisions[0], cpu.decisions[0], strict=True):
        # Scores are in single precision.
        scale = np.maximum(1.0, np.abs(theirs).max(axis=(1, 2)))
        assert (np.abs(ours - theirs).max(axis=(1, 2)) <= 1e-2 * scale).all()
    return cpu, gpu


def all_rows(n):
    return [(np.arange(n), np.arange(n))]


@cuda.jit
def _remove(factor, rows, spare, f, n_left):
    t, tile = cuda.threadIdx.x, cuda.shared.array(32, types.float64)
    free = Free(factor, rows, spare, None, None, None, None)
    newton._move_up(t, THREADS, f, n_left, free)
    newton._turn_columns(t, THREADS, n_left, f - n_left, free, tile)


@pytest.mark.parametrize(
    ("f", "removed"),
    [(9, [3]), (23, [0, 1, 2, 5, 9, 10, 22]), (30, [4, 6, 8, 29]), (5, [0, 1, 2, 3])],
)
def test_a_factor_without_some_rows_is_that_of_the_matrix_without_them(f, removed):
    noise = np.random.default_rng(f).normal(size=(f, f + 3))
    matrix, stay = noise @ noise.T + np.eye(f), np.setdiff1d(np.arange(f), removed)

    def stored(matrix):
        """A lower triangle, pivots as reciprocals; what lies above is never read."""
        lower = np.linalg.cholesky(matrix)
        factor = np.where(np.tri(len(matrix), dtype=bool), lower, np.nan)
        np.fill_diagonal(factor, 1 / lower.diagonal())
        return factor

    sides, m = np.random.default_rng(1).normal(size=(f, 2)), len(stay)
    factor = np.vstack([stored(matrix), np.linalg.solve(np.linalg.cholesky(matrix), sides).T])
    places = np.concatenate([stay, removed]).astype(np.int32)
    launch(_remove, 1, THREADS, [factor, np.zeros(f, np.int32), places, f, m])
    below = np.tri(m, dtype=bool)
    rest = matrix[np.ix_(stay, stay)]
    np.testing.assert_allclose(factor[:m, :m][below], stored(rest)[below], rtol=1e-9, atol=1e-12)
    true = np.linalg.solve(np.linalg.cholesky(rest), sides[stay]).T
    np.testing.assert_allclose(factor[m : m + 2, :m], true, rtol=1e-9, atol=1e-12)


def test_a_hard_table_takes_a_fraction_of_the_iterations():
    X, y = noisy(60)
    _, both = agree(X, y, 1.0, [10.0, 1e3, 1e4], all_rows(60), Launching(2))
    _, alone = agree(X, y, 1.0, [10.0, 1e3], all_rows(60), ALONE)
    # Until it is called hard, a thousand; then Newton's method.
    assert alone.n_iterations[0, 1, 0] > 4000
    assert 1000 <= both.n_iterations[0, 1, 0] < 1100
    assert both.n_iterations[0, 2, 0] < 150


def test_in_double_precision_up_to_a_million():
    """Where the CPU is in double precision, too, both find the same optimum."""
    X, y = noisy(60)
    Cs = [1.0, 1e4, 1e5, 1e6]
    cpu, gpu = agree(X, y, 0.5, Cs, all_rows(60), Launching(1))
    np.testing.assert_allclose(gpu.objectives[0, 2:], cpu.objectives[0, 2:], rtol=1e-8)
    np.testing.assert_array_equal(gpu.n_support[0, 2:], cpu.n_support[0, 2:])
    assert gpu.n_iterations[0, 2:].max() < 500


def test_what_does_not_fit_is_left_to_smo():
    """Some thirty rows are free at C = 1,000 and 10,000: among 8 members there is no room."""
    X, y = noisy(60)
    _, gpu = agree(X, y, 1.0, [10.0, 1e3], all_rows(60), Launching(1, hard_members=8))
    assert gpu.n_iterations[0, 1, 0] > 4000


def test_newton_comes_back_where_fewer_are_free():
    """Of 44 members a quarter is for those that violate: enough at C = 10,000 alone."""
    X, y = noisy(60)
    launching = Launching(1, hard_members=44)
    _, gpu = agree(X, y, 1.0, [10.0, 1e3, 1e4], all_rows(60), launching)
    assert gpu.n_iterations[0, 1, 0] > 4000
    assert gpu.n_iterations[0, 2, 0] < 100


def test_fewer_members_than_rows():
    """Of 60 rows 48 are worked on at once: the free ones, and those that violate most."""
    X, y = noisy(60)
    launching = Launching(2, hard_members=48)
    _, gpu = agree(X, y, 1.0, [10.0, 1e3], all_rows(60), launching)
    assert gpu.n_iterations[0, 1, 0] < 1100


@pytest.mark.parametrize(
    ("kernel", "Cs"), [("linear", [1.0, 1e3, 1e4]), ("poly", [1.0, 1e3]), ("rbf", [1.0, 1e3])]
)
def test_every_definite_kernel_with_folds_and_weights(kernel, Cs):
    X, y = noisy(60, seed=3)
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    # Each is within tol of the optimum, which at the largest C is 2e-4 of it for the usual 1e-3.
    options = {"kernel": kernel, "coef0": 1.0, "class_weight": {0: 2.0}, "tol": 1e-4}
    agree(X, y, 0.5, Cs, folds, **options)


def test_one_against_the_rest():
    X, _ = noisy(60, seed=4)
    y = np.random.default_rng(5).integers(3, size=60)
    agree(X, y, 0.5, [1.0, 300.0], all_rows(60), decision="ovr")


def test_rows_that_repeat_leave_the_free_block_singular():
    X, y = noisy(40, seed=6)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    y[::10] = 1 - y[::10]
    agree(X, y, 1.0, [10.0, 1e3, 1e4], all_rows(80))


def many_features(X, n_features=300):
    """The same rows, and so the same distances, turned into a space of many dimensions."""
    axes, _ = np.linalg.qr(np.random.default_rng(7).normal(size=(n_features, X.shape[1])))
    return X @ axes.T


@pytest.mark.parametrize(
    ("kernel", "Cs"), [("linear", [1.0, 1e3, 1e4]), ("poly", [1.0, 1e3]), ("rbf", [1.0, 1e3, 1e4])]
)
def test_rows_of_many_features_are_finished_as_those_of_few(kernel, Cs):
    X, y = noisy(60)
    options = {"kernel": kernel, "coef0": 1.0, "tol": 1e-4}
    _, gpu = agree(many_features(X), y, 0.5, Cs, all_rows(60), **options)
    few = cross_validate_path_cuda(
        X, y, 0.5, Cs, all_rows(60), launching=BOTH, return_decisions=True, **options
    )
    np.testing.assert_allclose(gpu.objectives, few.objectives, rtol=1e-6)
    if kernel == "rbf":
        assert gpu.n_iterations[0, 1, 0] < 1100
        assert gpu.n_iterations[0, 2, 0] < 150


def test_many_features_against_the_rest_up_to_a_million():
    X, _ = noisy(60, seed=4)
    X = many_features(X, 784)
    y = np.random.default_rng(5).integers(3, size=60)
    _, gpu = agree(X, y, 0.5, [1e3, 1e6], all_rows(60), Launching(2), decision="ovr")
    assert gpu.n_iterations[0, 1].max() < 1000


def test_where_newton_is_not_compiled():
    launching = Launching(128)
    assert launching.hard_width(3840, Kernel()) == 2560
    assert launching.hard_width(300, Kernel()) == 384
    assert launching.hard_width(1920, Kernel("sigmoid")) == 0
