"""Candidates of any estimator: its name, its parameter values, and the steps before it."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.dataset import CLASSIFICATION, REGRESSION, Dataset
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.data.user_code import absolute_name, code_in
from pipelines.data.user_files import USER_ERRORS, read_user_yaml
from pipelines.errors import InputError, error_line, nearest, opt
from pipelines.nn.settings import BY_HAND, need_torch
from pipelines.search.scoring import last_step
from pipelines.search.spaces import Branch, Choice, Distribution, Point, distribution_of

if TYPE_CHECKING:
    from pipelines.data.tables import Kinds

WORDS = {"none": None, "null": None, "true": True, "false": False}
# What ``cross_validate`` compares if no estimator is named.
USUAL_ESTIMATORS = {
    "classification": ("logistic", "knn", "forest", "boosting", "svm"),
    "regression": ("ridge", "knn", "forest", "boosting", "svm"),
}
# Import paths of a classifier and of a regressor by short name; None if there is none.
CATALOGUE: dict[str, tuple[str | None, str | None]] = {
    "bayes": ("sklearn.naive_bayes.GaussianNB", "sklearn.linear_model.BayesianRidge"),
    "discriminant": ("sklearn.discriminant_analysis.LinearDiscriminantAnalysis", None),
    "elastic-net": (None, "sklearn.linear_model.ElasticNet"),
    "lasso": (None, "sklearn.linear_model.Lasso"),
    "linear": (None, "sklearn.linear_model.LinearRegression"),
    "linear-svm": ("sklearn.svm.LinearSVC", "sklearn.svm.LinearSVR"),
    "logistic": ("sklearn.linear_model.LogisticRegression", None),
    "network": (
        "pipelines.nn.estimator.NetworkClassifier",
        "pipelines.nn.estimator.NetworkRegressor",
    ),
    "ridge": ("sklearn.linear_model.RidgeClassifier", "sklearn.linear_model.Ridge"),
    "svm": ("sklearn.svm.SVC", "pipelines.svm.path_svr.PathSVR"),
    "xgboost": ("xgboost.XGBClassifier", "xgboost.XGBRegressor"),
} | {
    name: (f"sklearn.{path}Classifier", f"sklearn.{path}Regressor")
    for name, path in {
        "bagging": "ensemble.Bagging",
        "boosting": "ensemble.HistGradientBoosting",
        "dummy": "dummy.Dummy",
        "extra-trees": "ensemble.ExtraTrees",
        "forest": "ensemble.RandomForest",
        "gaussian-process": "gaussian_process.GaussianProcess",
        "gradient-boosting": "ensemble.GradientBoosting",
        "knn": "neighbors.KNeighbors",
        "mlp": "neural_network.MLP",
        "sgd": "linear_model.SGD",
        "tree": "tree.DecisionTree",
    }.items()
}
# Packages of scikit-learn and others whose estimators need no standardised columns. Trees cut at
# thresholds and naive Bayes fits every column by itself. Networks standardise their features
# themselves, for all folds at once.
WITHOUT_SCALE = (
    "nn",
    "tree",
    "ensemble",
    "naive_bayes",
    "dummy",
    "xgboost",
    "lightgbm",
    "catboost",
)
NETWORK = "network"  # short name of an estimator, and the name of its parameter
FINAL_STEP = "model"  # the name of the last step
DISTRIBUTION = re.compile(r"\{\s*([a-z]\w*)\s*:\s*(\[.*\])\s*\}")  # {log: [1, 100]}
LABEL_SEPARATOR = ":"  # between the estimator and the name of a parameter

Grids = dict[str, list[Branch]]  # branches of the space of each estimator


@dataclass(frozen=True)
class Candidate:
    """One setting of the hyper-parameters of one algorithm.

    Attributes
    ----------
    algorithm : str
        Name of the estimator as the user gave it.
    parameters : dict
        Values by parameter name, without the prefix of a pipeline step.
    estimator : scikit-learn estimator
        Unfitted, with these parameters; a pipeline if its rows need first steps.
    """

    algorithm: str
    parameters: Mapping[str, Any]
    estimator: Any

    @property
    def final(self) -> Any:
        """The estimator without the pipeline around it; see ``last_step``."""
        return last_step(self.estimator)

    @property
    def text(self) -> str:
        """The parameters as JSON, the ``params`` of a row."""
        return json.dumps(dict(self.parameters), default=str)


def grid_candidates(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the values of a grid; the last parameter varies the fastest."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def with_labels(argv: Sequence[str]) -> list[str]:
    """Put the name of the preceding ``--estimator`` before the value of each ``--param``.

    argparse collects each option by itself, so that their order would be lost. A relative path in
    ``--cv`` becomes absolute.

    >>> with_labels(["--estimator", "knn", "--param", "n_neighbors=1,3"])
    ['--estimator', 'knn', '--param', 'knn:n_neighbors=1,3']
    """
    arguments, last, flag = [], "", ""
    for word in argv:
        head, value = "", word
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            head = flag + equals
        if head == flag:  # its values follow
            pass
        elif flag == "--estimator":
            last = value
        elif flag == "--param":
            has_label = LABEL_SEPARATOR in value.partition("=")[0]
            value = value if has_label or not last else f"{last}{LABEL_SEPARATOR}{value}"
        elif flag == "--cv":
            value = absolute_name(value)
        arguments.append(head + value)
    return arguments


def read_params(texts: Sequence[str], labels: Sequence[str]) -> dict[str, dict[str, Distribution]]:
    """Parse the ``--param`` options: the values of the parameters of each estimator.

    Raises
    ------
    InputError
        A text is not of the form ``LABEL:NAME=VALUE``, or its estimator is not among ``labels``.
    """
    grids: dict[str, dict[str, Distribution]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        label, colon, name = name.rpartition(LABEL_SEPARATOR)
        if not equals or not name or not values:
            raise InputError(
                f"{opt('param')} must be NAME=VALUE[,VALUE...], got {text!r}; for instance "
                f"n_estimators=100,300"
            )
        if not colon:
            raise InputError(
                f"{opt('param')} must follow the {opt('estimator')} it is of, got {text!r} before "
                f"any; change their order"
            )
        if label not in labels:
            raise InputError(
                f"{opt('param')} must be of an estimator of this run, got {text!r}; there are "
                f"{', '.join(labels)}"
            )
        parsed_values = [_value(word) for word in _split(values)]
        value = (
            parsed_values[0]
            if len(parsed_values) == 1 and isinstance(parsed_values[0], dict)
            else parsed_values
        )
        where = f"{opt('param')} {label}{LABEL_SEPARATOR}"
        grids.setdefault(label, {})[name] = distribution_of(name, value, where)
    return grids


def _split(text: str) -> list[str]:
    """Split a text at commas that are not inside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if match := DISTRIBUTION.fullmatch(text):
        distribution, numbers = match.groups()
        return {distribution: _value(numbers)}
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def read_grid(path: str) -> Grids:
    """Read the search spaces of a YAML file, ``estimator: {parameter: values}``.

    Values are one value, a list or a distribution; a list of such mappings is a list of branches.

    Raises
    ------
    InputError
        The file cannot be read, or has another form.
    """
    content = read_user_yaml(path, f"{opt('grid')} must be")
    form = "estimator: {parameter: [value, ...]}, or a list of such {...}"
    if not isinstance(content, dict) or not content:
        raise InputError(f"{opt('grid')} must hold {form}, got {path}; write it so")
    grids: Grids = {}
    for label, grid in content.items():
        branches = grid if isinstance(grid, list) and grid else [grid or {}]
        if not all(isinstance(branch, dict) for branch in branches):
            raise InputError(
                f"{opt('grid')} must hold {form}, got {grid!r} for {label} in {path}; write it so"
            )
        where = f"{opt('grid')} {path}: of {label} "
        grids[str(label)] = [Branch.of(branch, where) for branch in branches]
    return grids


def with_network(network: str, chosen: Sequence[str], grids: Mapping[str, list[Branch]]) -> Grids:
    """Add the value of ``--network`` to the grid of the estimator ``network``.

    Raises
    ------
    InputError
        The estimator is not in the run, or its grid names a network already.
    """
    if NETWORK not in chosen:
        raise InputError(
            f"{opt('network')} is for {opt('estimator', NETWORK)}, got {network} beside "
            f"{', '.join(chosen)}; add {opt('estimator', NETWORK)}, or leave {opt('network')} out"
        )
    network_choice, branches = {NETWORK: Choice((network,))}, grids.get(NETWORK, [Branch({})])
    for branch in branches:
        if (values := branch.parameters.get(NETWORK)) is not None:
            shown = values.values if isinstance(values, Choice) else [values]
            raise InputError(
                f"{opt('network')} must not be given beside values of the parameter network, got "
                f"{network} beside {', '.join(map(str, shown))}; leave one of them out"
            )
    return {
        **grids,
        NETWORK: [Branch(network_choice).with_parameters(branch.parameters) for branch in branches],
    }


def classes_of(names: Sequence[str]) -> list[str]:
    """Import paths of estimators that are given by short name or by import path."""
    return [path for name in names for path in CATALOGUE.get(name, (name,)) if path and "." in path]


def code_of_grid(path: str) -> list[str]:
    """Import paths in a file of grids; none for a malformed one, which ``read_grid`` refuses."""
    try:
        grids = read_grid(path)
    except InputError:
        return []
    values = [
        list(distribution.values)
        for branches in grids.values()
        for branch in branches
        for distribution in branch.parameters.values()
        if isinstance(distribution, Choice)
    ]
    return [*classes_of(list(grids)), *code_in(values)]


def code_of_params(texts: Sequence[str]) -> list[str]:
    """Import paths among values as they are typed, ``NAME=VALUE,VALUE``."""
    values = [_value(word) for text in texts for word in _split(text.partition("=")[2])]
    return list(code_in(values))


def code_of_steps(preprocess: str) -> list[str]:
    """Import paths in a file of pipeline steps."""
    if preprocess in ("auto", "none"):
        return []
    try:
        content = read_user_yaml(preprocess, opt("preprocess"))
        return [str(about["class"]) for step in content for about in step.values()]
    except (InputError, AttributeError, KeyError, TypeError):
        return [f"{preprocess}:steps"]  # a damaged file: which code it names is unknown


def listing() -> list[str]:
    """A line for each short name, with its import paths."""
    width = max(map(len, CATALOGUE))
    return [
        f"{name:{width}}  " + ", ".join(filter(None, CATALOGUE[name])) for name in sorted(CATALOGUE)
    ]


def estimator_of(name: str, task: str, seed: int) -> Any:
    """Create an unfitted estimator by its short name or import path, with the seed of the run.

    Raises
    ------
    InputError
        It cannot be imported or created, or it is for the other task.
    """
    from sklearn.base import is_classifier, is_regressor

    other_task = REGRESSION if task == CLASSIFICATION else CLASSIFICATION
    of_other_task = InputError(
        f"{opt('estimator')} must be one for {task}, got {name}, which is none; choose "
        f"another, or say {opt('task', other_task)}"
    )
    path = CATALOGUE[name][task == REGRESSION] if name in CATALOGUE else name
    if path is None:
        raise of_other_task
    estimator_class = _import_class(name, path)
    try:
        estimator = estimator_class()
    except TypeError as error:
        raise InputError(
            f"{opt('estimator')} must be a class whose arguments all have defaults, got {name}: "
            f"{error}; "
            f"write a subclass that sets them"
        ) from None
    except USER_ERRORS as error:
        raise InputError(
            f"{opt('estimator')} must be a class that can be made without arguments, got {name} "
            f"({error_line(error)}); correct it"
        ) from None
    try:
        parameters = estimator.get_params()
    except USER_ERRORS as error:
        raise InputError(
            f"{opt('estimator')} must be a class whose get_params gives its parameters, got {name} "
            f"({error_line(error)}); correct it"
        ) from None
    is_other = is_regressor if task == CLASSIFICATION else is_classifier
    if is_other(estimator) or not hasattr(estimator, "predict"):
        raise of_other_task
    if name == "svm" and task == REGRESSION:
        # The useful range of C and epsilon depends on the scale of the target.
        estimator.set_params(scale_target=True)
    return estimator.set_params(random_state=seed) if "random_state" in parameters else estimator


def _import_class(name: str, path: str) -> type:
    if "." not in path:
        hint = nearest(name.lower(), CATALOGUE, f"{opt('estimators')} lists the short names")
        raise InputError(
            f"{opt('estimator')} must be a short name or the import path of a class, got "
            f"{name!r}; {hint}"
        )
    module_name, _, class_name = path.rpartition(".")
    try:
        module = import_module(module_name)
    except USER_ERRORS as error:
        raise InputError(
            f"{opt('estimator')} must be a class that can be imported, got {name} ({error}); "
            f"install the package or check the spelling"
        ) from None
    estimator_class = getattr(module, class_name, None)
    if estimator_class is None:
        near_names = get_close_matches(class_name, dir(module), n=1)
        hint = (
            f"did you mean {module_name}.{near_names[0]}?" if near_names else "check the spelling"
        )
        raise InputError(
            f"{opt('estimator')} must be a class that can be imported, but {module_name} has no "
            f"{class_name}; {hint}"
        )
    if not inspect.isclass(estimator_class) or not all(
        hasattr(estimator_class, m) for m in ("fit", "get_params")
    ):
        raise InputError(
            f"{opt('estimator')} must be a class with fit and get_params, as scikit-learn's, got "
            f"{name}, which has none; name another"
        )
    return estimator_class


def refuse_unknown_parameter(estimator: Any, name: str, label: str) -> None:
    """Refuse a parameter name that an estimator does not have.

    Raises
    ------
    InputError
        It has no such parameter; the message suggests similar names.
    """
    parameters = estimator.get_params(deep=True)
    if name in parameters:
        return
    near_names = get_close_matches(name, parameters, n=3)
    shown = [parameter for parameter in parameters if "__" not in parameter]
    examples = ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "")
    hint = f"did you mean {' or '.join(near_names)}?" if near_names else f"it has {examples}"
    raise InputError(f"{opt('param')} must name a parameter of {label}, got {name!r}; {hint}")


def pixel_scaling(data: Dataset) -> Any:
    """The fitted scaling of pixels, which is no step of an estimator; None for other rows."""
    return None if data.image_shape is None else data.scaling.fit(data.X_train)


def unscaled_rows(data: Dataset) -> FoldedData:
    """The rows as estimators take them: pixels are scaled, columns of tables are left as read."""
    rows = [data.X_train, data.X_test]
    if (fitted := pixel_scaling(data)) is not None:
        rows = [np.asarray(fitted.transform(X), np.float64) for X in rows]
    return FoldedData(rows[0], data.y_train, rows[1], data.y_test, (), Scaling("none"))


@dataclass(frozen=True)
class Algorithm:
    """An estimator and its search space.

    Attributes
    ----------
    name : str
        Name of the estimator as the user gave it.
    pipeline : scikit-learn estimator
        Unfitted, behind the first steps that its rows need.
    branches : sequence of Branch
        Branches of the search space.
    full_names : dict
        For each parameter of the space, its name in ``pipeline``.
    """

    name: str
    pipeline: Any
    branches: Sequence[Branch]
    full_names: Mapping[str, str]

    @classmethod
    def of(
        cls, name: str, branches: Sequence[Branch], data: Dataset, seed: int, preprocess: str
    ) -> Algorithm:
        """Create the estimator of that name and check the parameters of its space.

        Parameters
        ----------
        name : str
            See ``estimator_of``.
        branches : sequence of Branch
        data : Dataset
        seed : int
            Becomes the ``random_state`` of the estimator.
        preprocess : str
            See ``pipeline_of``.

        Raises
        ------
        InputError
            There is no such estimator, or it lacks a parameter.
        """
        estimator = estimator_of(name, data.task, seed)
        if "image_shape" in estimator.get_params():
            estimator.set_params(image_shape=data.image_shape)
        pipeline = pipeline_of(estimator, data, preprocess)
        full_names = dict[str, str]()
        first_steps = [step for step, _ in pipeline.steps[:-1]] if pipeline is not estimator else []
        for parameter in (parameter for branch in branches for parameter in branch.parameters):
            # A parameter belongs to the last step unless its prefix names another.
            is_last = pipeline is not estimator and parameter.split("__")[0] not in first_steps
            refuse_unknown_parameter(estimator if is_last else pipeline, parameter, name)
            full_names[parameter] = f"{FINAL_STEP}__{parameter}" if is_last else parameter
        return cls(name, pipeline, branches, full_names)

    def combinations(self) -> list[Point]:
        """Every combination of the lists of values, branch by branch."""
        return [point for branch in self.branches for point in branch.combinations()]

    def candidate(self, point: Point) -> Candidate:
        """The candidate with the parameters of a point of the search space."""
        from sklearn.base import clone

        parameters = {self.full_names[name]: value for name, value in point.items()}
        return Candidate(self.name, point, clone(self.pipeline).set_params(**parameters))


def network_lines(candidates: Sequence[Candidate], data: Dataset, preprocess: str) -> list[str]:
    """Lines about the size of each torch network among the candidates.

    Each network is built once here, so that an error in its module or its name shows before the
    run. Steps of a file may change the shape of the rows: networks behind them are not built.

    Raises
    ------
    InputError
        A network cannot be built, or does not accept these rows.
    """
    from pipelines.nn.estimator import NetworkEstimator

    finals = [
        candidate.final for candidate in candidates if isinstance(candidate.final, NetworkEstimator)
    ]
    if not finals or preprocess not in ("auto", "none"):
        return []
    need_torch()
    from pipelines.nn import networks

    for final in finals:
        try:
            final.training(len(data.y_train))
        except InputError:
            raise
        except ValueError as error:  # scikit-learn's message on a parameter
            raise InputError(f"{opt('param')}: {error} Choose another value") from None
    lines = list[str]()
    for spec, final in {final.spec.architecture: final for final in finals}.items():
        about = networks.describe_network(spec, final.inputs(data.n_inputs, data.n_classes))
        lines += about if spec.network not in BY_HAND else []
    return lines


def pipeline_of(estimator: Any, data: Dataset, preprocess: str) -> Any:
    """Put an estimator behind the preprocessing steps that its rows need.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Unfitted.
    data : Dataset
    preprocess : str
        "auto", "none", or the path of a YAML file of steps, which follow the automatic ones.

    Returns
    -------
    estimator or Pipeline
        A pipeline if there are steps.

    Raises
    ------
    InputError
        The file cannot be read, or "none" was asked for a table that no estimator could take.
    """
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    # The kinds of the columns of a table with categories or missing cells; an array has none.
    kinds: Kinds | None = getattr(data.scaling, "kinds", None)
    package = type(estimator).__module__.split(".")[:2]
    scale = preprocess == "auto" and not set(package) & set(WITHOUT_SCALE)
    steps: list[tuple[str, Any]] = []
    if kinds is not None:
        from pipelines.data.tables.preprocess import TablePreprocessor

        if preprocess == "none":
            raise InputError(
                f"{opt('preprocess')} must not be none for a table with text or missing cells "
                "such as "
                f"{data.name}; use auto"
            )
        steps = [("table", TablePreprocessor(kinds, scale=scale))]
    elif scale and data.image_shape is None:
        steps = [("scale", StandardScaler())]
    if preprocess not in ("auto", "none"):
        steps += _of_file(preprocess)
    return Pipeline([*steps, (FINAL_STEP, estimator)]) if steps else estimator


def _of_file(path: str) -> list[tuple[str, Any]]:
    """Read steps from a YAML file, a list of ``{name: {class: import path, parameter: value}}``."""
    form = "a list of steps, each {name: {class: sklearn.decomposition.PCA, parameter: value}}"
    content = read_user_yaml(path, f"{opt('preprocess')} must be auto, none or")
    if not isinstance(content, list) or not content:
        raise InputError(f"{opt('preprocess')} must hold {form}, got {path}; write it so")
    steps = []
    for step in content:
        try:
            ((name, parameters),) = step.items()
            module, _, class_name = parameters.pop("class").rpartition(".")
            transformer_class = getattr(import_module(module), class_name)
            # Checked before the call: else a file could call any function with any arguments.
            if not inspect.isclass(transformer_class) or not (
                hasattr(transformer_class, "fit") and hasattr(transformer_class, "transform")
            ):
                raise TypeError("it is no class with fit and transform")
            transformer = transformer_class(**parameters)
        except USER_ERRORS as error:
            raise InputError(
                f"{opt('preprocess')} must hold {form} whose classes are transformers that can be "
                f"made, got {step!r} ({type(error).__name__}: {error}); mend {path}"
            ) from None
        steps.append((str(name), transformer))
    return steps
