"""Newton's method on the free multipliers, under the simulator: its parts, and hard tables."""

import numpy as np
import pytest
from numba import cuda, types
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold

from pipelines.svm.cpu.path import cross_validate_path
from pipelines.svm.cuda.block import Free, Near, Parts
from pipelines.svm.cuda.gpu import launch
from pipelines.svm.cuda.inner import mark_of
from pipelines.svm.cuda.launches import Launching
from pipelines.svm.cuda.newton import EXTRA_ROWS, directions, extend, solve_active
from pipelines.svm.cuda.passes import CHUNK
from pipelines.svm.cuda.path import cross_validate_path_cuda
from pipelines.svm.kernel import Kernel
from pipelines.svm.solutions import CONVERGED

THREADS = 4
BOTH = Launching(block_size=THREADS)
ALONE = Launching(block_size=1, hard_members=0)  # one thread: the simulator's quickest block


def noisy(n, seed=0):
    """Two classes that overlap, in two dimensions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)


def members(n, C, gamma, seed=0):
    """A problem as an inner solve has it: kernel, residual, beta, bounds; some are free."""
    rng = np.random.default_rng(seed)
    X, y = noisy(n, seed)
    matrix = np.zeros((n + 1, n))
    matrix[:n] = rbf_kernel(X, gamma=gamma) - 1
    label = np.where(y == 1, 1.0, -1.0)
    beta = np.zeros(n)
    few = min(np.count_nonzero(label > 0), np.count_nonzero(label < 0)) // 2
    for sign in (1.0, -1.0):
        beta[rng.permutation(np.flatnonzero(label == sign))[:few]] = sign * 0.3 * C
    return matrix, label - matrix[:n] @ beta, beta, C * label


@cuda.jit
def _on_members(matrix, vectors, marks, space, lists, work, first, finest, found, solves):
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
    near = Near(vectors[0], vectors[1], vectors[2], marks)
    most = space.shape[1]
    free = Free(
        space, lists[0], lists[1], space[most + 2], space[most + 3], space[most + 4],
        space[most + 5],
    )  # fmt: skip
    if solves:
        steps, status = solve_active(
            t, n_threads, marks.size, near, matrix, 1.0, 1e-3, finest, 1000, free, work[0],
            work[1], parts,
        )  # fmt: skip
        found[0], found[1] = steps, status
    else:
        f = int(found[0])
        extend(t, n_threads, first, f, near, matrix, 1.0, 1e-6, free, parts.chunk_factors)
        level, wished = directions(t, n_threads, f, free, parts)
        found[1], found[2] = level, wished


def on_members(matrix, residual, beta, bounds, most, rows=(), first=0, finest=1e-3, solves=True):
    n = residual.size
    vectors = np.stack([residual, beta, bounds])
    marks = np.array([mark_of(b, bound) for b, bound in zip(beta, bounds, strict=True)], np.int32)
    space, lists = np.zeros((most + EXTRA_ROWS, most)), np.zeros((2, n + 4), np.int32)
    lists[0, : len(rows)] = rows
    found = np.array([float(len(rows)), 0.0, 0.0])
    launch(
        _on_members, 1, THREADS,
        [matrix, vectors, marks, space, lists, np.zeros((2, n)), first, finest, found, solves],
    )  # fmt: skip
    return found, vectors, space


@pytest.mark.parametrize("f", [2, 4, 7, 13])
def test_directions_solve_the_bordered_system(f):
    matrix, residual, beta, bounds = members(20, 1.0, 0.5)
    rows = np.random.default_rng(1).permutation(20)[:f]
    found, _, space = on_members(matrix, residual, beta, bounds, 16, rows, solves=False)
    K = matrix[rows][:, rows] + 1 + 1e-6 * np.eye(f)
    border = np.block([[K, np.ones((f, 1))], [np.ones((1, f)), np.zeros((1, 1))]])
    expected = np.linalg.solve(border, np.append(residual[rows], 0.0))
    d, v = space[18, :f], space[19, :f]
    scale = np.abs(expected[:f]).max()
    np.testing.assert_allclose(d, expected[:f], atol=1e-8 * scale)
    np.testing.assert_allclose(v, np.linalg.solve(K, np.ones(f)), atol=1e-8 * np.abs(v).max())
    assert found[1] == pytest.approx(expected[f])
    assert found[2] == pytest.approx(d @ K @ d)
    factor = np.tril(space[:f, :f], -1) + np.diag(1 / np.diagonal(space[:f, :f]))
    np.testing.assert_allclose(factor, np.linalg.cholesky(K), atol=1e-7)


@pytest.mark.parametrize("C", [1.0, 1e4, 1e6])
def test_members_are_solved(C):
    n = 40
    matrix, residual, beta, bounds = members(n, C, 0.3, seed=2)
    before = 0.5 * beta @ matrix[:n] @ beta - np.sign(bounds) @ beta
    found, (after, solved, _), _ = on_members(matrix, residual, beta, bounds, n)
    K = matrix[:n]
    np.testing.assert_allclose(after, np.sign(bounds) - K @ solved, atol=1e-9 * C)
    assert abs(solved.sum()) <= 1e-12 * np.abs(solved).sum()
    assert ((solved * np.sign(bounds) >= 0) & (np.abs(solved) <= C)).all()
    assert found[1] == CONVERGED
    assert found[0] < 40
    rise, fall = solved < np.maximum(bounds, 0), solved > np.minimum(bounds, 0)
    assert after[rise].max() - after[fall].min() < 1e-3
    assert 0.5 * solved @ K @ solved - np.sign(bounds) @ solved < before


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


def test_where_newton_is_not_compiled():
    launching = Launching(128)
    assert launching.hard_width(1920, 57, Kernel()) == 1024
    assert launching.hard_width(300, 57, Kernel()) == 384
    assert launching.hard_width(1920, 784, Kernel()) == 0  # images
    assert launching.hard_width(1920, 57, Kernel("sigmoid")) == 0
