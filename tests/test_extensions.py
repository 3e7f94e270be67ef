"""Backends, shared fits and clusters of another package are found by their entry points."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from cluster_setup import ClusterError, open_cluster, resolve_kind
from pipelines import svm_grid
from pipelines.errors import InputError
from pipelines.search import shared
from pipelines.search.grid_search import GridSearch
from pipelines.svm.backends import load_backend, resolve_backend
from pipelines.testing import ClusterKindContract, SharedFitContract

MEANS = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from pipelines.search.shared.base import SharedEstimators


class Means(ClassifierMixin, BaseEstimator):
    # The class of the nearest mean, each drawn towards that of all rows.

    def __init__(self, shrinkage=0.0, scale=1.0):
        self.shrinkage, self.scale = shrinkage, scale

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self.shrink(X.mean(axis=0), [X[y == label].mean(axis=0) for label in self.classes_])

    def shrink(self, overall, means):
        self.means_ = overall + (1 - self.shrinkage) ** 9 * (np.array(means) - overall)
        return self

    def predict(self, X):
        distances = ((X[:, None] - self.means_) ** 2).sum(axis=2)
        return self.classes_[distances.argmin(axis=1)]


class OneMeans(SharedEstimators):
    name = "class means"
    types = (Means,)
    shared = ("shrinkage",)
    fits_each = False

    def fit(self, estimators, X, y, **weights):
        first = estimators[0].fit(X, y)
        means = [X[y == label].mean(axis=0) for label in first.classes_]
        for estimator in estimators[1:]:
            estimator.classes_ = first.classes_
            estimator.shrink(X.mean(axis=0), means)
        return list(estimators)
"""
BACKEND = """
from pipelines.svm.backends.sklearn import BACKEND


class Renamed(type(BACKEND)):
    pass
"""
CLUSTER = """
from cluster_setup.kinds import threads

OPTIONS = ("profile",)
open_client = threads.open_client
"""
MODELS = """
from sklearn.neighbors import KNeighborsClassifier

from pipelines.search.shared.neighbors import Neighbors


class Nearest(KNeighborsClassifier):
    pass


class OneQuery(Neighbors):
    name = "one query of the package"
    types = (Nearest,)
"""
SMALL = ["--limit", "200", "--n-c", "2", "--n-gamma", "2", "--folds", "2", "--quiet"]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A function that installs a package of one module with an entry point, as pip would."""
    shared._others_of.cache_clear()
    modules = []
    monkeypatch.syspath_prepend(tmp_path)

    def put(package, source, group, name, reference):
        (tmp_path / f"{package}.py").write_text(source)
        about = tmp_path / f"{package}-1.5.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {reference}\n")
        modules.append(package)

    yield put
    for module in modules:
        sys.modules.pop(module, None)
    shared._others_of.cache_clear()


def test_a_backend_fits_a_grid_and_its_version_is_recorded(install, tmp_path):
    install("others_svm", BACKEND, "pleasingly.backends", "renamed", "others_svm:Renamed")
    folders = {}
    for solver in ("renamed", "sklearn"):
        folders[solver] = tmp_path / solver
        argv = [*SMALL, "--cluster", "threads", "--solver", solver]
        assert svm_grid.main([*argv, "--results", str(folders[solver])]) == 0
    records = {
        solver: json.loads((folder / "run.json").read_text()) for solver, folder in folders.items()
    }
    assert records["renamed"]["solver"] == "renamed"
    assert records["renamed"]["identity"]["versions"]["others_svm"] == "1.5"
    assert "others_svm" not in records["sklearn"]["identity"]["versions"]
    assert records["renamed"]["best"]["score_mean"] == records["sklearn"]["best"]["score_mean"]


def test_a_backend_is_refused_on_another_device_and_a_name_that_is_none_at_all(install):
    install("others_cpu", BACKEND, "pleasingly.backends", "renamed_cpu", "others_cpu:Renamed")
    assert resolve_backend("renamed_cpu", "cpu") == "renamed_cpu"
    assert load_backend("renamed_cpu", "cpu") is load_backend("renamed_cpu", "cpu")
    with pytest.raises(InputError, match="computes on the CPU, the workers here on the GPU"):
        resolve_backend("renamed_cpu", "gpu")
    with pytest.raises(InputError, match=r"renamed_cpu, got 'renamed'; did you mean renamed_cpu"):
        resolve_backend("renamed", "cpu")


def test_what_is_no_backend_is_refused(install):
    install("others_wrong", "Renamed = 3", "pleasingly.backends", "wrong", "others_wrong:Renamed")
    words = r"^solver='wrong' must be a subclass of pipelines.svm.backends.base.Backend, got"
    with pytest.raises(InputError, match=words):
        resolve_backend("wrong", "cpu")


def test_shared_fits_of_a_package_serve_its_estimators(install):
    install(
        "others_models", MODELS, "pleasingly.shared_fits", "others_models", "others_models:OneQuery"
    )
    from others_models import Nearest

    X, y = load_digits(return_X_y=True)
    grid = {"n_neighbors": [1, 3, 5, 9]}
    search = GridSearch(Nearest(), grid, cv=3).fit(X[:300], y[:300])
    plain = GridSearch(KNeighborsClassifier(), grid, cv=3).fit(X[:300], y[:300])
    assert search.fits.n_made == 3
    assert np.array_equal(
        search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )
    assert shared.shared_fit_packages() == ("others_models",)


class TestSharedFit(SharedFitContract):
    """Of an estimator that is scikit-learn's in its methods alone, without rules of parameters."""

    @pytest.fixture(autouse=True)
    def package(self, install):
        reference = "others_means:OneMeans"
        install("others_means", MEANS, "pleasingly.shared_fits", "others_means", reference)

    @pytest.fixture
    def shared_fit(self, estimators):
        return shared.shared_fit_of(estimators[0])

    @pytest.fixture
    def estimators(self, package):
        from others_means import Means

        return [Means(0.0), Means(0.5), Means(0.9)]

    @pytest.fixture
    def other_estimators(self, package):
        from others_means import Means

        return [Means(0.5, scale=2.0)]

    def test_a_search_shares(self, estimators):
        X, y = load_digits(return_X_y=True)
        search = GridSearch(estimators[0], {"shrinkage": [0.0, 0.5, 0.9]}, cv=2)
        assert search.fit(X[:200], y[:200]).fits == (6, 2)


def test_a_shared_fit_that_cannot_be_imported_is_said_and_left_out(install):
    reference = "others_gone:Missing"
    install("others_gone", MODELS, "pleasingly.shared_fits", "others_gone", reference)
    from others_gone import Nearest

    X, y = load_digits(return_X_y=True)
    words = "others_gone of pleasingly.shared_fits must be .* cannot be imported"
    with pytest.warns(RuntimeWarning, match=words):
        search = GridSearch(Nearest(), {"n_neighbors": [1, 3]}, cv=2).fit(X[:99], y[:99])
    assert search.fits.n_made == 4


def test_a_cluster_of_a_package_carries_out_a_command(install, tmp_path):
    install("others_farm", CLUSTER, "pleasingly.clusters", "farm", "others_farm")
    argv = [*SMALL, "--cluster", "farm", "--workers", "2", "--results", str(tmp_path / "run")]
    assert svm_grid.main(argv) == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["cluster"]["kind"] == "farm"
    assert record["cluster"]["n_workers"] == 2


def test_a_cluster_takes_the_options_that_its_module_names(install):
    install("others_takes", CLUSTER, "pleasingly.clusters", "takes", "others_takes")
    assert resolve_kind("takes") == "takes"
    with open_cluster("takes", 1, profile="any") as client:
        assert client.submit(sum, [1, 2]).result() == 3
    with (
        pytest.raises(ClusterError, match=r"^--adaptive is for .*, got --cluster takes; leave"),
        open_cluster("takes", adaptive=(1, 2)),
    ):
        pass
    with pytest.raises(ClusterError, match=r"takes or a .* got 'takse'; did you mean takes\?$"):
        resolve_kind("takse")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "^--cluster bad must be a module with open_client, got others_bad; mend or uninst"),
        ("import nowhere", r"cannot be imported \(ModuleNotFoundError: .*\); mend or uninstall"),
    ],
)
def test_what_is_no_cluster_is_refused(install, source, words):
    install("others_bad", source, "pleasingly.clusters", "bad", "others_bad")
    with pytest.raises(ClusterError, match=words), open_cluster("bad"):
        pass


class TestContract(ClusterKindContract):
    @pytest.fixture
    def options(self, install):
        from cluster_setup import ClusterOptions

        install("others_contract", CLUSTER, "pleasingly.clusters", "farm", "others_contract")
        return ClusterOptions("farm", 2, dashboard="off")
