"""Launches that end before all is solved and go on in the next, and memory that another takes."""

from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import StratifiedKFold

from pipelines.data.fits import Fit, Progress
from pipelines.svm.backends import load_backend
from pipelines.svm.backends import path_cuda as wrapper
from pipelines.svm.backends.base import Work
from pipelines.svm.cuda import launches, newton, smo
from pipelines.svm.cuda import path as cuda_path
from pipelines.svm.cuda.hard import MOST_FEATURES
from pipelines.svm.cuda.launches import Launching
from pipelines.svm.cuda.memory import MemoryPlan
from pipelines.svm.cuda.path import (
    GPUMemoryError,
    cross_validate_path_cuda,
    fit_path_cuda,
    solve_path_cuda,
)
from pipelines.svm.settings import Settings

FIGURES = ("objectives", "n_errors", "n_support", "n_iterations", "status")
FOREVER = 1e9
FREE = 1 << 30
CUPYS = MemoryError("Out of memory allocating 1,234,432 bytes (allocated so far: 512 bytes).")
NUMBAS = RuntimeError("[CUresult.CUDA_ERROR_OUT_OF_MEMORY] Call to cuLaunchKernel failed")


@pytest.fixture
def small_slices(monkeypatch):
    """Each of a few iterations, a chunk of rows, a thread's own residuals, a Newton step."""
    monkeypatch.setattr(smo, "ITERATIONS_AT_ONCE", 7)
    for name in ("VALUES_AT_ONCE", "TERMS_AT_ONCE"):
        monkeypatch.setattr(smo, name, 1)
    monkeypatch.setattr(newton, "STEPS_AT_ONCE", 1)


@pytest.fixture
def launched_kernels(monkeypatch):
    """The launches, by their kernel."""
    launched, launch = [], launches.launch

    def noted(kernel, *arguments):
        launched.append(kernel)
        launch(kernel, *arguments)

    monkeypatch.setattr(launches, "launch", noted)
    return launched


def table(sizes, seed=0):
    """Classes that overlap: at a large C the problems are hard."""
    X, y = make_blobs(list(sizes), n_features=2, cluster_std=4.0, random_state=seed)
    return X, y, list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))


@pytest.mark.parametrize("hard_members", [0, None])
@pytest.mark.parametrize(("decision", "sizes"), [("ovo", (14, 12, 10)), ("ovr", (11, 12, 9))])
def test_wherever_launches_end_the_results_are_the_same(
    decision, sizes, hard_members, small_slices, launched_kernels
):
    X, y, folds = table(sizes)
    options = {"decision": decision, "return_decisions": True}
    results, numbers = [], []
    for seconds in (FOREVER, 0.0):
        launched_kernels.clear()
        launching = Launching(4, 2, capacity=12, hard_members=hard_members, seconds=seconds)
        results.append(
            cross_validate_path_cuda(
                X, y, [0.1, 1.0], [0.1, 10.0, 1e4], folds, launching=launching, **options
            )
        )
        numbers.append(len(launched_kernels))
    whole, cut = results
    for name in FIGURES:
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name))
    for g, fold in np.ndindex(2, 2):
        np.testing.assert_array_equal(cut.decisions[g][fold], whole.decisions[g][fold])
    assert numbers[0] == 2  # sums, and all that is solved
    assert numbers[1] > 100


@pytest.mark.parametrize("n_features", [2, MOST_FEATURES + 1])
def test_an_exact_kernel_and_newton_steps_are_cut_too(n_features, small_slices, launched_kernels):
    """A noisy table at a large C: residuals are made anew, and Newton's method takes many steps."""
    X = np.zeros((40, n_features))  # of many its products are kept in two halves
    X[:, :2] = np.random.default_rng(0).normal(size=(40, 2))
    y = np.random.default_rng(1).integers(2, size=40)
    folds = [(np.arange(40), np.arange(40))]
    whole, cut = (
        cross_validate_path_cuda(
            X, y, 1.0, [10.0, 1e3, 1e4], folds, launching=Launching(2, seconds=seconds)
        )
        for seconds in (FOREVER, 0.0)
    )
    assert whole.n_iterations.max() > 1000  # from so many on a problem is hard
    for name in FIGURES:
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name))
    assert len(launched_kernels) > 150


def test_one_fit_is_the_same_in_many_launches(small_slices, launched_kernels):
    X, y, _ = table((9, 10, 8), seed=3)
    whole, cut = (
        fit_path_cuda(X, y, 100.0, 0.3, launching=Launching(2, seconds=seconds))
        for seconds in (FOREVER, 0.0)
    )
    np.testing.assert_array_equal(cut.dual_coef, whole.dual_coef)
    np.testing.assert_array_equal(cut.intercept, whole.intercept)
    assert len(launched_kernels) > 20


def test_a_block_that_pauses_goes_on_before_it_takes_the_next_problem(small_slices, monkeypatch):
    """Of two blocks for eight problems each holds one; no problem is taken twice, none left."""
    held, share_done = [], launches._share_done

    def noted(queue, paused, *numbers):
        held.append((int(queue[0]), *paused[:, smo.JOB].astype(int)))
        return share_done(queue, paused, *numbers)

    monkeypatch.setattr(launches, "_share_done", noted)
    X, y, folds = table((9, 10, 8))
    launching = Launching(2, most_blocks=2, seconds=0.0)
    items = list(solve_path_cuda(X, y, [0.3], [0.1, 10.0], folds, launching=launching))
    fractions = [item.fraction for item in items if isinstance(item, Progress)]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert len(fractions) > 10
    taken = [queue for queue, *_ in held]
    assert taken == sorted(taken)
    for before, after in pairwise(held):
        for earlier, other in zip(before[1:], after[1:], strict=True):
            # It goes on, has ended, or another was begun that nobody had taken before.
            assert other in (earlier, 0) or (earlier == 0 and other > before[0])
    assert held[-1][1:] == (0, 0)


def test_sums_that_paths_start_from_are_made_in_short_launches(monkeypatch, launched_kernels):
    X, y, folds = table((9, 10, 8))
    options = {"launching": Launching(2, seconds=FOREVER)}
    whole = cross_validate_path_cuda(X, y, [0.1, 1.0], [1.0], folds, **options)
    launched_kernels.clear()
    monkeypatch.setattr(launches, "_MOST_VALUES", 5 * 2 * 2 * len(X))  # of five rows
    parts = cross_validate_path_cuda(X, y, [0.1, 1.0], [1.0], folds, **options)
    np.testing.assert_array_equal(parts.objectives, whole.objectives)
    assert len(launched_kernels) == 6 + 1


def test_an_interrupt_between_launches_is_heard(monkeypatch):
    """Nothing is held back: the next launch is not made."""
    launched, launch = [], launches.launch

    def interrupted(kernel, *arguments):
        launched.append(kernel)
        if len(launched) == 3:
            raise KeyboardInterrupt
        launch(kernel, *arguments)

    monkeypatch.setattr(launches, "launch", interrupted)
    X, y, folds = table((9, 10, 8))
    with pytest.raises(KeyboardInterrupt):
        list(solve_path_cuda(X, y, 0.3, [10.0], folds, launching=Launching(2, seconds=0.0)))
    assert len(launched) == 3


class Arrays:
    """numpy as cupy: a device of ``FREE`` bytes; the state of some launches finds no memory."""

    def __init__(self, failing, error=CUPYS):
        self.failing, self.error, self.n_states, self.emptied = failing, error, 0, 0
        pool = SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=self.empty_pool, malloc=None)
        self.get_default_memory_pool = lambda: pool
        self.cuda = SimpleNamespace(
            Device=lambda: SimpleNamespace(mem_info=(FREE, FREE)),
            MemoryPool=lambda: pool,
            using_allocator=lambda allocator: nullcontext(),
            get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
        )

    def __getattr__(self, name):
        return getattr(np, name)

    def empty_pool(self):
        self.emptied += 1

    def empty(self, shape, *dtype):
        if len(shape) == 3 and shape[1] == 4:  # of a launch's blocks
            self.n_states += 1
            if self.n_states in self.failing:
                raise self.error
        return np.empty(shape, *dtype)


@pytest.fixture
def planned(monkeypatch):
    """Plans of one gamma at a time: for how many gammas, and of how much memory."""
    planned = []

    def plan(sizes, n_features, n_C, n_gammas, n_folds, one_vs_one, free_bytes, **blocks):
        planned.append((n_gammas, free_bytes))
        return MemoryPlan(True, 1, 5)

    monkeypatch.setattr(cuda_path, "plan_memory", plan)
    return planned


def cells(X, y, folds, xp):
    """Every fit of three gammas, with the predictions."""
    launching = Launching(2, hard_members=0)
    items = solve_path_cuda(X, y, [0.1, 0.3, 1.0], [0.1, 10.0], folds, launching=launching, xp=xp)
    fits = [item for item in items if isinstance(item, Fit)]
    return [(fit.candidate, fit.split, *fit.predict("predict")) for fit in fits]


@pytest.mark.parametrize("error", [CUPYS, NUMBAS])
@pytest.mark.parametrize("n_failures", [1, 2])
def test_less_memory_is_planned_for_and_no_cell_made_twice(error, n_failures, planned, caplog):
    """The first gamma's cells stay as they are."""
    X, y, folds = table((9, 10, 8))
    whole = cells(X, y, folds, Arrays(()))
    planned.clear()
    arrays = Arrays(range(2, 2 + n_failures), error)
    assert cells(X, y, folds, arrays) == whole
    tried = [(3, FREE), (2, FREE // 2), (2, FREE // 4)][: 1 + n_failures]
    assert planned == tried
    assert [line for line in caplog.messages if "planned" in line] == [
        f"the GPU has less memory than was free ({error}): planned again with {n_bytes:,} bytes"
        for _, n_bytes in tried[1:]
    ]
    assert arrays.emptied > 2 * n_failures


def test_a_third_failure_says_what_was_asked_for_and_leaves_the_rest_to_another_worker(
    planned, monkeypatch
):
    """The error is the task's, which Dask tries again; cells that were made stay made."""
    X, y, folds = table((9, 10, 8))
    xp = Arrays((2, 3, 4))
    options = {"launching": Launching(2, hard_members=0), "xp": xp}
    monkeypatch.setattr(
        wrapper, "solve_path_cuda", lambda *a, **o: solve_path_cuda(*a, **o, **options)
    )
    work = Work(X, y, folds, range(2), (0.1, 0.3), (0.1, 10.0), Settings())
    items, taken = load_backend("path", "gpu").fit_cells(work), []
    with pytest.raises(GPUMemoryError, match="out of memory: Out of memory allocating 1,234,432"):
        taken.extend(items)
    assert [fit.error for fit in taken if isinstance(fit, Fit)] == [None] * 4
    assert len(planned) == 3


def test_what_never_fits_is_said_at_once(monkeypatch):
    """As before: another worker has no more."""
    X, y, folds = table((9, 10, 8))
    work = Work(X, y, folds, range(2), (0.1,), (1.0,), Settings())
    monkeypatch.setattr(
        wrapper, "solve_path_cuda", lambda *a, **o: solve_path_cuda(*a, **o | {"memory_bytes": 100})
    )
    fits = list(load_backend("path", "gpu").fit_cells(work))
    assert len(fits) == 2
    for fit in fits:
        assert fit.error.startswith("out of memory: decision='ovo' needs ")


def test_another_error_is_not_taken_for_a_lack_of_memory(planned):
    X, y, folds = table((9, 10, 8))
    with pytest.raises(RuntimeError, match="CUDA_ERROR_LAUNCH_FAILED"):
        cells(X, y, folds, Arrays({1}, RuntimeError("CUDA_ERROR_LAUNCH_FAILED")))
    assert len(planned) == 1
