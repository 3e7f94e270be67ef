"""The scripts, by where they are published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Repository:
    """A public repository.

    Attributes
    ----------
    name : str
        ``owner/name`` at GitHub.
    revision : str
        The tag or commit of the scripts.
    """

    name: str
    revision: str

    @property
    def folder(self) -> str:
        """The folder of its checkout."""
        return self.name.split("/")[1]


@dataclass(frozen=True)
class Script:
    """A script, or cells of a notebook.

    Attributes
    ----------
    repository : Repository
    path : str
        In the repository.
    cells : tuple of int or None
        Code cells of a notebook, counted from 0; None: all.
    addresses : mapping of str to str
        Addresses that the script reads tables from, each with the copy in a checkout.
    imports : tuple of str
        Folders below that of the checkouts, besides the script's own, that it imports from.
    """

    repository: Repository
    path: str
    cells: tuple[int, ...] | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()

    @property
    def checkout_path(self) -> str:
        """Its path below the folder of the checkouts."""
        return f"{self.repository.folder}/{self.path}"

    @property
    def name(self) -> str:
        """Its place, with the cells of a notebook."""
        if self.cells is None:
            return self.checkout_path
        return f"{self.checkout_path} [{_ranges(self.cells)}]"


def clone_line(repository: Repository) -> str:
    """The command that brings a checkout into the folder where it is called."""
    address = f"https://github.com/{repository.name}"
    return f"git clone {address} && git -C {repository.folder} checkout -q {repository.revision}"


def _ranges(cells: tuple[int, ...]) -> str:
    """``0, 2-4`` for 0, 2, 3, 4."""
    runs: list[list[int]] = []
    for cell in cells:
        if runs and runs[-1][-1] == cell - 1:
            runs[-1].append(cell)
        else:
            runs.append([cell])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


_SKLEARN = Repository("scikit-learn/scikit-learn", "1.9.1")
_RASCHKA = Repository("rasbt/machine-learning-book", "35ab3774e8e249c43a98209d8efd94c060102003")
_MUELLER = Repository(
    "amueller/introduction_to_ml_with_python", "ea60cf6cf791553b6cca7cf31802c68cb3798ebb"
)
_GERON = Repository("ageron/handson-ml3", "e3f3f9e66d58cfa1d068a498433063a1d3fba9ef")
_SCIPY = Repository("amueller/scipy-2018-sklearn", "77704111a423c073db83db4648afe27b409aa24f")
_VIDEOS = Repository("justmarkham/scikit-learn-videos", "8545c74961398def7724501648fd504dbf061b41")
_MOOC = Repository("lucavh/scikit-learn-mooc", "14596835c6b7b71a138403ab313b36e201bafb7e")
_NOTES = Repository("taicaile/study_notes", "0d8f6bddebd26bd8dafe4e3b16afd846795abedb")
_STUDY = Repository("JohnnyUnknown/ML-study", "e48b030bca9193c0b031fdf9a7244f81e4dcccc3")
_COURSE = Repository("Sanje04/AdvancedML", "02112215d86799f3a6f1602ca51b140e13d666be")
_WDBC = {
    "https://archive.ics.uci.edu/ml/machine-learning-databases/breast-cancer-wisconsin/"
    "wdbc.data": "machine-learning-book/ch06/wdbc.data"
}
_TUNING = "06 Model evaluation and hyperparameter tuning"
_TUTORIAL = "005_Tutorial(ZhouMoFan)/01_sklearn"

# Of scikit-learn's gallery: what needs no network and spends a fifth of its time or more in
# searches.
_GALLERY = (
    "compose/plot_compare_reduction",
    "compose/plot_digits_pipe",
    "ensemble/plot_gradient_boosting_quantile",
    "model_selection/plot_grid_search_digits",
    "model_selection/plot_grid_search_refit_callable",
    "model_selection/plot_grid_search_stats",
    "model_selection/plot_learning_curve",
    "model_selection/plot_multi_metric_evaluation",
    "model_selection/plot_nested_cross_validation_iris",
    "model_selection/plot_successive_halving_heatmap",
    "model_selection/plot_train_error_vs_test_error",
    "svm/plot_rbf_parameters",
    "svm/plot_svm_anova",
)

SCRIPTS: tuple[Script, ...] = (
    *(Script(_SKLEARN, f"examples/{name}.py") for name in _GALLERY),
    Script(
        _MUELLER,
        "05-model-evaluation-and-improvement.ipynb",
        (1, 3, 4, *range(10, 15), 16, 18, *range(25, 32), 35, 36, 38, 41, 71),
    ),
    Script(
        _MUELLER,
        "06-algorithm-chains-and-pipelines.ipynb",
        (*range(1, 4), *range(5, 10), 17, 19, *range(21, 27), *range(34, 37)),
    ),
    Script(_GERON, "05_support_vector_machines.ipynb", (7, 14, *range(36, 50))),
    Script(_GERON, "06_decision_trees.ipynb", (4, *range(48, 53))),
    Script(_SCIPY, "notebooks/14.Model_Complexity_and_GridSearchCV.ipynb", tuple(range(17))),
    Script(_SCIPY, "notebooks/solutions/17A_logreg_grid.py"),
    Script(_VIDEOS, "08_grid_search.ipynb"),
    Script(
        _MOOC,
        "notebooks/M2 Selecting Best Model - C2 Validation & Learning Curves - S3 ex M2.01.ipynb",
    ),
    Script(
        _MOOC,
        "notebooks/M7 Evaluating Model Performance - C3 Nested Cross-Validation - S1 Nested "
        "cross-validation.ipynb",
    ),
    Script(_NOTES, f"{_TUTORIAL}/06_cross_validation_LearningCurve.py"),
    Script(_NOTES, f"{_TUTORIAL}/07_cross_validation_ValidationCurve.py"),
    Script(_STUDY, f"{_TUNING}/nested_cross_val.py", addresses=_WDBC),
    Script(_STUDY, f"{_TUNING}/randomized_search.py", addresses=_WDBC),
    Script(_COURSE, "day2_ex.py"),
)

_NETWORK = "its data come from the network"
_OUTSIDE = "less than a fifth of its time is spent in searches"
_OLD = "it fails with current scikit-learn, matplotlib or pandas, without us too"

LEFT_OUT: dict[str, str] = {
    "gallery: model_selection/plot_cost_sensitive_learning, plot_grid_search_text_feature_"
    "extraction, plot_tuned_decision_threshold; applications/*; compose/plot_column_transformer_"
    "mixed_types; ensemble/plot_forest_hist_grad_boosting_comparison, plot_gradient_boosting_"
    "categorical, plot_hgbt_regression; impute/*; inspection/*; multiclass/*; preprocessing/plot_"
    "target_encoder": _NETWORK,
    "gallery: model_selection/plot_cv_predict, plot_likelihood_ratios, plot_precision_recall; "
    "cluster/plot_feature_agglomeration_vs_univariate_selection; covariance/plot_covariance_"
    "estimation": _OUTSIDE,
    "gallery: model_selection/plot_randomized_search, callbacks/plot_scoring_monitor": "about a "
    "minute and three minutes",
    "PythonDataScienceHandbook 05.03 and 05.13, sklearn_tutorial 05, python-machine-learning-book-"
    "3rd-edition ch06 and ch07, machine-learning-book ch06, scikit-learn-videos 07, "
    "scipy-2018-sklearn 16 and 18, ISLP_labs Ch06 and Ch09": _OLD,
    "ISLP_labs Ch08": _OUTSIDE,
    "scipy-2018-sklearn 18_gbc_grid": "its grid takes more than three minutes",
    "handson-ml3 02, 03 and 10": _NETWORK,
}
