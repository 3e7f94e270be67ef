"""The solver against scikit-learn's SVC (LIBSVM), and against the KKT conditions."""

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import ShuffleSplit, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from pipelines.svm.cpu.fit import fit_path
from pipelines.svm.cpu.kernels import kernel_values, prepare_rows, shared_products
from pipelines.svm.cpu.path import cross_validate_path
from pipelines.svm.kernel import Kernel
from pipelines.svm.multiclass import codes_of
from tests.svm.models import decision_values

TOL = 1e-3


def full_multipliers(model, n):
    beta = np.zeros((len(model.problems), n))
    beta[:, model.support] = model.dual_coef
    return beta


def members(model, problem, codes):
    if problem.second is None:
        return np.ones(codes.size, bool)
    return (codes == problem.first) | (codes == problem.second)


def check_kkt(X, y, model, C, gamma, weight=None):
    """Recomputed from scratch in float64; the kernel was solved in float32."""
    codes = np.unique(y, return_inverse=True)[1]
    K = rbf_kernel(X.astype(np.float64), gamma=gamma)
    weight = np.ones(len(y)) if weight is None else weight
    for p, problem in enumerate(model.problems):
        rows = members(model, problem, codes)
        beta = full_multipliers(model, len(y))[p]
        assert not beta[~rows].any()
        sign = np.where(codes == problem.first, 1.0, -1.0)
        bound = C * weight
        assert (sign * beta >= 0).all()
        assert (np.abs(beta) <= bound * (1 + 1e-6)).all()
        scale = np.abs(beta).sum()
        assert abs(beta.sum()) <= 1e-6 * scale + 1e-12
        residual = sign - K @ beta
        upper, lower = np.where(sign > 0, bound, 0), np.where(sign > 0, 0, -bound)
        near = 1e-6 * bound
        rise, fall = rows & (beta < upper - near), rows & (beta > lower + near)
        gap = residual[rise].max(initial=-np.inf) - residual[fall].min(initial=np.inf)
        assert gap < TOL + 4e-7 * scale


def svc_objectives(X, y, C, gamma):
    """Dual objective of each pair: SVC in float64, on the kernel the solver is given.

    With a kernel of its own LIBSVM rounds exp(-x) to float32, and its gap then
    misses the tolerance at a large C and a small gamma.
    """
    values = []
    classes = np.unique(y)
    form = Kernel(gamma=gamma)
    shared = shared_products(prepare_rows(X, form), form)
    kernel = kernel_values(shared, form).astype(np.float64)
    for a in range(len(classes)):
        for b in range(a + 1, len(classes)):
            rows = np.flatnonzero((y == classes[a]) | (y == classes[b]))
            K = kernel[np.ix_(rows, rows)]
            svc = SVC(C=C, kernel="precomputed", tol=TOL).fit(K, y[rows])
            support, beta = svc.support_, svc.dual_coef_[0]
            K = K[np.ix_(support, support)]
            values.append(0.5 * beta @ K @ beta - np.abs(beta).sum())
    return np.array(values)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_classes = draw(st.integers(2, 20))
    sizes = [draw(st.integers(3, 30 if n_classes < 7 else 8)) for _ in range(n_classes)]
    d = draw(st.integers(1, 8))
    y = np.repeat(np.arange(n_classes), sizes)
    X = rng.normal(size=(y.size, d)) + draw(st.sampled_from([0.0, 1.0, 4.0])) * (y % 3)[:, None]
    if draw(st.booleans()):
        X[:, 0] = 1.0  # a constant feature
    if draw(st.booleans()):  # duplicated rows, some with contradicting labels
        X[rng.integers(y.size, size=y.size // 3)] = X[rng.integers(y.size, size=y.size // 3)]
    shuffled = rng.permutation(y.size)
    return X[shuffled].astype(np.float32), y[shuffled]


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck))
@hypothesis.given(problems(), st.floats(-3, 6), st.floats(-6, 3), st.sampled_from(["ovo", "ovr"]))
def test_random_problems_meet_kkt(data, log_C, log_gamma, decision):
    X, y = data
    C, gamma = 10**log_C, 10**log_gamma
    model = fit_path(X, y, C, gamma, decision=decision, n_threads=1)
    assert (model.status == 0).all()
    check_kkt(X, y, model, C, gamma)


@settings(suppress_health_check=list(HealthCheck))
@hypothesis.given(problems(), st.floats(-3, 6), st.floats(-6, 3))
def test_objective_is_libsvms(data, log_C, log_gamma):
    X, y = data
    C, gamma = 10**log_C, 10**log_gamma
    model = fit_path(X, y, C, gamma, n_threads=1)
    expected = svc_objectives(X, y, C, gamma)
    np.testing.assert_allclose(model.objective, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize("gamma", [pytest.param(1e-6, marks=pytest.mark.slow), 1e-3, 1e-1])
def test_cells_of_a_grid(decision, gamma):
    X, y = load_digits(return_X_y=True)
    X, y = (X[:600] / 4).astype(np.float32), y[:600]
    folds = list(ShuffleSplit(2, test_size=0.3, random_state=0).split(X))
    Cs = np.logspace(-3, 6, 7)
    result = cross_validate_path(X, y, gamma, Cs, folds, decision=decision, return_decisions=True)
    assert not result.status.any()
    for c, C in enumerate(Cs):
        for f, (train, validation) in enumerate(folds):
            # LIBSVM's float32 cache of exp(-x) itself misses its tolerance at this
            # gamma and C; of exp(-x) - 1, the same problem, it does not.
            K = rbf_kernel(X.astype(np.float64), X[train].astype(np.float64), gamma=gamma) - 1
            svc = SVC(C=C, kernel="precomputed", decision_function_shape="ovo")
            peer = svc if decision == "ovo" else OneVsRestClassifier(svc)
            values = peer.fit(K[train], y[train]).decision_function(K[validation])
            ours = result.decisions[0][f][c]
            assert np.abs(values - ours).max() < 1e-2 * max(1, np.abs(values).max())
            differ = peer.predict(K[validation]) != result.classes[result.predictions[0][f][c]]
            if decision == "ovo":
                tied = np.abs(values).min(axis=1) < 1e-2
            else:
                top = np.sort(values, axis=1)
                tied = top[:, -1] - top[:, -2] < 1e-2
            assert not (differ & ~tied).any()
            errors = (result.classes[result.predictions[0][f][c]] != y[validation]).sum()
            assert errors == result.n_errors[0, c, f]


@pytest.mark.parametrize("n_classes", [2, 3, 20])
def test_many_classes_unbalanced(n_classes):
    sizes = np.linspace(4, 40, n_classes).astype(int)
    X, y = make_blobs(n_samples=sizes, n_features=5, cluster_std=3.0, random_state=0)
    for decision in ("ovo", "ovr"):
        model = fit_path(X, y, 10.0, 0.05, decision=decision)
        check_kkt(X, y, model, 10.0, 0.05)
    peer = SVC(C=10.0, gamma=0.05).fit(X, y)
    model = fit_path(X, y, 10.0, 0.05)
    codes = codes_of(decision_values(model, X, X, 0.05), n_classes, "ovo")
    assert (model.classes[codes] == peer.predict(X)).mean() > 0.99


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 2: 0.2}])
def test_class_weight(class_weight):
    X, y = make_blobs(n_samples=[20, 60, 120], n_features=3, cluster_std=4.0, random_state=1)
    folds = list(StratifiedKFold(3).split(X, y))
    Cs = [0.3, 1.0, 100.0]  # below, all are at their bounds and no intercept is distinguished
    result = cross_validate_path(
        X, y, 0.1, Cs, folds, class_weight=class_weight, return_decisions=True
    )
    for c, C in enumerate(Cs):
        for f, (train, validation) in enumerate(folds):
            peer = SVC(C=C, gamma=0.1, class_weight=class_weight, decision_function_shape="ovo")
            values = peer.fit(X[train], y[train]).decision_function(X[validation])
            np.testing.assert_allclose(result.decisions[0][f][c], values, atol=1e-2)


def test_sample_weight_and_repeated_rows_agree():
    X, y = make_blobs(n_samples=[30, 40], n_features=3, cluster_std=5.0, random_state=3)
    rng = np.random.default_rng(0)
    train = rng.integers(70, size=70)
    folds = [(train, np.arange(70))]
    result = cross_validate_path(X, y, 0.1, [1.0], folds, return_decisions=True)
    peer = SVC(C=1.0, gamma=0.1).fit(X[train], y[train])
    np.testing.assert_allclose(
        -result.decisions[0][0][0][:, 0], peer.decision_function(X), atol=1e-2
    )


# Memory for the block of a pair, and for some of its rows.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("decision", "memory_bytes"),
    [("ovo", 3_000_000), ("ovo", 900_000), ("ovo", 60_000), ("ovr", 200_000)],
)
def test_blocks_give_what_memory_gives(decision, memory_bytes):
    X, y = load_digits(return_X_y=True)
    X, y = (X[:800] / 4).astype(np.float32), y[:800]
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    Cs, gammas = np.logspace(-2, 3, 5), [1e-3, 1e-2]
    options = {"return_decisions": True, "decision": decision}
    whole = cross_validate_path(X, y, gammas, Cs, folds, **options)
    parts = cross_validate_path(X, y, gammas, Cs, folds, memory_bytes=memory_bytes, **options)
    assert (parts.fit_seconds > 0).all()
    for g in range(2):
        for f in range(3):
            np.testing.assert_allclose(whole.decisions[g][f], parts.decisions[g][f], atol=3e-3)
    np.testing.assert_allclose(whole.objectives, parts.objectives, rtol=1e-3, atol=1e-9)


def test_order_of_C_and_threads_do_not_matter():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 4, y[:300]
    folds = list(StratifiedKFold(3).split(X, y))
    Cs = np.array([10.0, 0.1, 1000.0, 1.0])
    single = cross_validate_path(X, y, [1e-2], Cs, folds, n_threads=1)
    two = cross_validate_path(X, y, [1e-2], np.sort(Cs), folds, n_threads=3)
    back = np.argsort(Cs)
    np.testing.assert_array_equal(single.n_errors[:, back], two.n_errors)
    np.testing.assert_array_equal(single.objectives[:, back], two.objectives)


def test_iteration_limit_is_reported():
    X, y = make_blobs(n_samples=[60, 60], n_features=2, cluster_std=8.0, random_state=4)
    folds = list(StratifiedKFold(2).split(X, y))
    result = cross_validate_path(X, y, 0.1, [1e-2, 1e3], folds, max_iter=5)
    assert (result.status[0, 1] == 1).all()
    assert (result.n_iterations[0] <= 5).all()


def test_a_class_missing_from_training_is_never_predicted():
    X, y = make_blobs(n_samples=[20, 20, 20], n_features=2, random_state=5)
    train = np.flatnonzero(y != 1)
    for decision in ("ovo", "ovr"):
        result = cross_validate_path(X, y, 0.1, [1.0], [(train, np.arange(60))], decision=decision)
        assert 1 not in result.predictions[0][0]


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_decision_values_away_from_the_boundary(kernel, decision):
    X, y = load_digits(return_X_y=True)
    X, y = X[:500] / 16, y[:500]
    train, validation = np.arange(350), np.arange(350, 500)
    gamma = 1 / 64 if kernel == "sigmoid" else 0.1
    options = {"kernel": kernel, "gamma": gamma, "coef0": -1.0 if kernel == "sigmoid" else 0.5}
    Cs = [0.1, 10.0]
    result = cross_validate_path(
        X,
        y,
        gamma,
        Cs,
        [(train, validation)],
        decision=decision,
        kernel=kernel,
        coef0=options["coef0"],
        return_decisions=True,
    )
    for c, C in enumerate(Cs):
        svc = SVC(C=C, decision_function_shape="ovo", **options)
        peer = svc if decision == "ovo" else OneVsRestClassifier(svc)
        values = peer.fit(X[train], y[train]).decision_function(X[validation])
        away = np.abs(values) > 0.1
        np.testing.assert_allclose(result.decisions[0][0][c][away], values[away], atol=1e-2)


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
@pytest.mark.parametrize("gamma", [1e-4, 1e-2])
def test_a_tiny_C_is_solved_as_exactly_as_its_decision_values_need(decision, gamma):
    X, y = load_digits(return_X_y=True)
    X, y = (X[:500] / 4).astype(np.float32), y[:500]
    train, validation = np.arange(350), np.arange(350, 500)
    Cs = [1e-3, 1e-2]
    result = cross_validate_path(X, y, gamma, Cs, [(train, validation)], decision=decision)
    K = rbf_kernel(X.astype(np.float64), X[train].astype(np.float64), gamma=gamma) - 1
    for c, C in enumerate(Cs):
        svc = SVC(C=C, kernel="precomputed", tol=1e-8)
        peer = svc if decision == "ovo" else OneVsRestClassifier(svc)
        expected = peer.fit(K[train], y[train]).predict(K[validation])
        assert (expected != result.predictions[0][0][c]).sum() <= 2


def test_sample_weight():
    X, y = make_blobs(n_samples=[30, 40, 50], n_features=3, cluster_std=5.0, random_state=7)
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], size=len(y))
    for decision in ("ovo", "ovr"):
        model = fit_path(X, y, 2.0, 0.1, decision=decision, sample_weight=weight)
        values = decision_values(model, X, X, 0.1)
        for p, problem in enumerate(model.problems):
            rows = (
                np.ones(len(y), bool)
                if problem.second is None
                else ((y == problem.first) | (y == problem.second))
            )
            peer = SVC(C=2.0, gamma=0.1)
            peer.fit(X[rows], y[rows] == problem.first, sample_weight=weight[rows])
            np.testing.assert_allclose(values[:, p], peer.decision_function(X), atol=1e-2)


@pytest.mark.parametrize(
    "kernel", ["rbf", *(pytest.param(name, marks=pytest.mark.slow) for name in ("linear", "poly"))]
)
@pytest.mark.parametrize("memory_bytes", [60_000, 300_000])
@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_a_fit_in_little_memory_is_the_same_fit(decision, memory_bytes, kernel):
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    options = {"decision": decision, "kernel": kernel}
    whole = fit_path(X, y, 10.0, 0.1, **options)
    parts = fit_path(X, y, 10.0, 0.1, memory_bytes=memory_bytes, **options)
    np.testing.assert_allclose(parts.objective, whole.objective, rtol=1e-4)
    np.testing.assert_allclose(parts.intercept, whole.intercept, atol=2e-3)
    assert not parts.status.any()


def test_two_classes_in_little_memory():
    X, y = load_digits(return_X_y=True)
    X, y = X[:500] / 16, y[:500] < 5
    whole = fit_path(X, y, 100.0, 0.1)
    parts = fit_path(X, y, 100.0, 0.1, memory_bytes=100_000)
    np.testing.assert_allclose(parts.objective, whole.objective, rtol=1e-4)
    check_kkt(X, y, parts, 100.0, 0.1)
