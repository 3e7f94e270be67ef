"""The CUDA solver, under the simulator, against the CPU's and against scikit-learn's SVC."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import ShuffleSplit, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from pipelines.svm.cpu.fit import fit_path
from pipelines.svm.cpu.path import cross_validate_path
from pipelines.svm.cuda import path as cuda_path
from pipelines.svm.cuda.gpu import Limits
from pipelines.svm.cuda.launches import Launching
from pipelines.svm.cuda.memory import MemoryPlan
from pipelines.svm.cuda.path import cross_validate_path_cuda, fit_path_cuda
from pipelines.svm.cuda.smo import MEMBER_BYTES, fixed_shared_bytes, members_width
from tests.svm.models import decision_values

BOTH = {"return_decisions": True}
SMALL = Launching(block_size=4)


def blobs(sizes, spread=4.0, seed=0, n_features=3):
    return make_blobs(
        n_samples=list(sizes), n_features=n_features, cluster_std=spread, random_state=seed
    )


def agree(X, y, gammas, Cs, folds, launching=SMALL, **options):
    """Every field that both solvers give, and decision values but for the tolerance."""
    cpu = cross_validate_path(X, y, gammas, Cs, folds, **options, **BOTH)
    gpu = cross_validate_path_cuda(X, y, gammas, Cs, folds, launching=launching, **options, **BOTH)
    np.testing.assert_array_equal(cpu.status, gpu.status)
    np.testing.assert_allclose(cpu.objectives, gpu.objectives, rtol=1e-3, atol=1e-9)
    for g in range(len(cpu.n_errors)):
        for f in range(len(folds)):
            a, b = cpu.decisions[g][f], gpu.decisions[g][f]
            assert a.shape == b.shape
            finite = np.isfinite(a)
            np.testing.assert_array_equal(finite, np.isfinite(b))
            scale = np.maximum(1, np.abs(np.where(finite, a, 0)).max(axis=(1, 2), keepdims=True))
            a, b = np.where(finite, a, -1e9), np.where(finite, b, -1e9)
            assert (np.abs(a - b) < 1e-2 * scale).all()
            if options.get("decision") == "ovr" and a.shape[2] > 1:
                top = np.sort(a, axis=2)
                tied = top[..., -1] - top[..., -2] < 1e-2 * scale[..., 0]
            else:
                tied = np.abs(a).min(axis=2) < 1e-2 * scale[..., 0]
            differ = cpu.predictions[g][f] != gpu.predictions[g][f]
            assert not (differ & ~tied).any()
            errors = np.abs(cpu.n_errors[g, :, f] - gpu.n_errors[g, :, f])
            assert (errors <= tied.sum(axis=1)).all()
    return cpu, gpu


def kkt_gap(X, y, model, C, gamma):
    """The largest violation of any problem, recomputed in float64, and its allowance."""
    codes = np.unique(y, return_inverse=True)[1]
    K, worst = rbf_kernel(X.astype(np.float64), gamma=gamma), -np.inf
    for p, problem in enumerate(model.problems):
        rows = np.ones(len(y), bool)
        if problem.second is not None:
            rows = np.isin(codes, (problem.first, problem.second))
        beta = np.zeros(len(y))
        beta[model.support] = model.dual_coef[p]
        assert not beta[~rows].any()
        sign = np.where(codes == problem.first, 1.0, -1.0)
        assert (sign * beta >= 0).all()
        assert (np.abs(beta) <= C * (1 + 1e-6)).all()
        assert abs(beta.sum()) <= 1e-6 * np.abs(beta).sum() + 1e-12
        residual = sign - K @ beta
        upper, lower = np.where(sign > 0, C, 0), np.where(sign > 0, 0, -C)
        rise, fall = rows & (beta < upper - 1e-6 * C), rows & (beta > lower + 1e-6 * C)
        gap = residual[rise].max(initial=-np.inf) - residual[fall].min(initial=np.inf)
        worst = max(worst, gap - 4e-7 * np.abs(beta).sum())
    return worst


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize("sizes", [(11, 14), (5, 18, 9), (4, 6, 5, 7, 5, 8)])
def test_agrees_with_the_cpu(sizes, decision):
    X, y = blobs(sizes)
    folds = list(ShuffleSplit(2, test_size=0.3, random_state=1).split(X))
    agree(X, y, [1e-2, 1.0], [1e-3, 1.0, 1e3], folds, decision=decision)


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_every_C_from_tiny_to_huge(decision):
    X, y = blobs((9, 8, 7), seed=2)
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    agree(X, y, 0.1, np.logspace(-3, 6, 7), folds, decision=decision)


@pytest.mark.parametrize("block_size", [1, 7, 32])
def test_block_sizes(block_size):
    X, y = blobs((12, 10), seed=3)
    folds = list(StratifiedKFold(2).split(X, y))
    agree(X, y, 0.1, [0.1, 10.0], folds, Launching(block_size=block_size))


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize("capacity", [2, 5, 10, None])
def test_more_rows_in_want_of_change_than_members(capacity, decision):
    """Of 36 rows nearly all want to change at first: of 2, 5 or 10 members the worst do."""
    X, y = blobs((12, 14, 10), seed=4)
    folds = [(np.arange(36), np.arange(36))]
    agree(X, y, 0.2, [0.1, 1.0, 100.0], folds, Launching(4, capacity=capacity), decision=decision)


@pytest.mark.parametrize("block_size", [32, 128, 256])
def test_large_blocks_with_members_beyond_capacity(block_size):
    X, y = blobs((14, 12), seed=15)
    folds = [(np.arange(26), np.arange(26))]
    agree(X, y, 0.2, [5.0], folds, Launching(block_size, capacity=12))


def test_rows_that_tie_are_taken_in_order():
    """Forty rows on four points tie at every cut; a row's copies share its fate."""
    X, y = np.repeat(np.eye(4, dtype=np.float32), 10, axis=0), np.arange(40) % 10 < 4
    folds = [(np.arange(40), np.arange(40))]
    agree(X, y.astype(int), 0.5, [0.01, 1.0, 10.0], folds, Launching(4, capacity=8))


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid"])
@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_other_kernels(kernel, decision):
    X, y = blobs((8, 9, 8), seed=5)
    folds = list(StratifiedKFold(2).split(X, y))
    # The sigmoid is not convex: from some C on another stationary point is as good.
    Cs = [0.1, 0.5] if kernel == "sigmoid" else [0.1, 1.0, 10.0]
    agree(X / 10, y, 0.3, Cs, folds, kernel=kernel, coef0=0.5, decision=decision, tol=1e-5)


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.2}])
def test_class_weights(class_weight, decision):
    X, y = blobs((5, 12, 20), seed=6)
    folds = list(StratifiedKFold(2).split(X, y))
    agree(X, y, 0.1, [0.3, 100.0], folds, class_weight=class_weight, decision=decision)


def test_duplicates_constant_features_and_repeated_rows():
    rng = np.random.default_rng(7)
    X, y = blobs((12, 13), seed=7)
    X[:, 0] = 1.0
    X[rng.integers(25, size=12)] = X[rng.integers(25, size=12)]
    train = rng.integers(25, size=25)  # a bootstrap: rows repeat, folds are no partition
    agree(X, y, 0.3, [0.1, 1.0, 1e3], [(train, np.arange(25)), (np.arange(20), np.arange(20, 25))])


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_a_class_missing_from_training(decision):
    X, y = blobs((8, 8, 8), seed=8)
    folds = [(np.flatnonzero(y != 1), np.arange(24))]
    _, gpu = agree(X, y, 0.1, [1.0, 10.0], folds, decision=decision)
    assert 1 not in gpu.predictions[0][0]


@pytest.mark.parametrize("plan", [MemoryPlan(False, 1, 7), MemoryPlan(True, 2, 5)])
def test_pairs_blocks_of_rows_and_several_launches(plan, monkeypatch):
    """What a short memory brings about gives what a long one gives."""
    monkeypatch.setattr(cuda_path, "plan_memory", lambda *_, **__: plan)
    X, y = blobs((12, 9, 11), n_features=2, seed=9)
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    agree(X, y, [0.1, 1.0, 3.0], [0.1, 10.0], folds, class_weight={0: 2.0})


def test_iteration_limit_is_reported():
    X, y = blobs((20, 20), spread=8.0, seed=10)
    folds = list(StratifiedKFold(2).split(X, y))
    result = cross_validate_path_cuda(X, y, 0.1, [1e-2, 1e3], folds, max_iter=5, launching=SMALL)
    assert (result.status[0, 1] == 1).all()
    assert (result.n_iterations[0] <= 5).all()


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_agrees_with_libsvm(decision):
    X, y = blobs((12, 10, 14), seed=11)
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    Cs = [0.1, 1.0, 100.0]
    result = cross_validate_path_cuda(
        X, y, 0.1, Cs, folds, decision=decision, launching=SMALL, **BOTH
    )
    for c, C in enumerate(Cs):
        for f, (train, validation) in enumerate(folds):
            svc = SVC(C=C, gamma=0.1, decision_function_shape="ovo")
            peer = svc if decision == "ovo" else OneVsRestClassifier(svc)
            values = peer.fit(X[train], y[train]).decision_function(X[validation])
            ours = result.decisions[0][f][c]
            assert np.abs(values - ours).max() < 1e-2 * max(1, np.abs(values).max())


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize("log_C", [-3, 0, 6])
@pytest.mark.parametrize("gamma", [1e-4, 1.0])
def test_one_fit_meets_kkt(log_C, gamma, decision):
    X, y = blobs((14, 8, 6), spread=3.0, seed=12)
    model = fit_path_cuda(X, y, 10.0**log_C, gamma, decision=decision, launching=SMALL)
    assert not model.status.any()
    assert kkt_gap(X, y, model, 10.0**log_C, gamma) < 1e-3
    peer = fit_path(X, y, 10.0**log_C, gamma, decision=decision)
    np.testing.assert_allclose(model.objective, peer.objective, rtol=1e-3)
    ours, theirs = (decision_values(machine, X, X, gamma) for machine in (model, peer))
    np.testing.assert_allclose(ours, theirs, atol=1e-2 * max(1, np.abs(theirs).max()))


def test_random_small_problems_meet_kkt():
    rng = np.random.default_rng(13)
    for _ in range(12):
        n = int(rng.integers(6, 30))
        X, y = rng.normal(size=(n, 2)).astype(np.float32), np.arange(n) % int(rng.integers(2, 4))
        C, gamma = 10 ** rng.uniform(-3, 6), 10 ** rng.uniform(-5, 2)
        model = fit_path_cuda(X, y, C, gamma, launching=SMALL)
        assert not model.status.any()
        assert kkt_gap(X, y, model, C, gamma) < 1e-3


def test_order_of_C_does_not_matter():
    X, y = blobs((10, 10), seed=14)
    folds = list(StratifiedKFold(2).split(X, y))
    Cs = np.array([10.0, 0.1, 1000.0])
    ordered = cross_validate_path_cuda(X, y, 0.1, Cs, folds, launching=SMALL, **BOTH)
    two = cross_validate_path_cuda(X, y, 0.1, np.sort(Cs), folds, launching=SMALL, **BOTH)
    order = np.argsort(Cs)
    np.testing.assert_array_equal(ordered.objectives[:, order], two.objectives)
    np.testing.assert_array_equal(ordered.decisions[0][0][order], two.decisions[0][0])


def test_blocks_suit_the_size_of_the_problems():
    """On an H100: every launch is resident at once, and large problems get more members."""
    h100 = Limits(132, 227 << 10, 228 << 10, 1 << 16, True)
    members = []
    for largest in (300, 10_000, 50_000):
        launching = Launching.for_rows(largest)
        threads = launching.block_size * launching.blocks_per_multiprocessor
        assert launching.registers(h100) * threads <= h100.registers
        members.append(launching.members(h100, largest))
        used = members_width(members[-1], launching.block_size) * MEMBER_BYTES
        used += fixed_shared_bytes(launching.block_size) + 1024
        assert used * launching.blocks_per_multiprocessor <= h100.shared_multiprocessor
    assert members == [300, 1920, 3840]
