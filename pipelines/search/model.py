"""The fitted best candidate of a search: its model file, which runs no code, and predictions."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from pipelines.data.dataset import by_name
from pipelines.data.model_file import DAMAGE, DAMAGE_OF_SKOPS, load_skops, skops_io
from pipelines.data.scaling import FittedScaling
from pipelines.errors import InputError, error_line
from pipelines.nn.estimator import NetworkEstimator
from pipelines.nn.member import refuse_network
from pipelines.run.new_rows import NewRows, class_columns
from pipelines.run.predict import ModelAnswer, load_model, refuse_width
from pipelines.run_folder.record import read_record
from pipelines.search.image_features import features_of_rows
from pipelines.search.record import FITTED, ValidationRecord
from pipelines.search.scoring import last_step, predictions_as

# Types and functions beyond those that skops trusts by default; only this program's, numpy's and
# scikit-learn's. Each was reviewed: created from a file, it calls nothing that the file names.
_TRUSTED = {
    "pipelines.data.scaling": "FittedScaling",
    "pipelines.data.tables.kinds": "Kinds",
    "pipelines.data.tables.preprocess": "TablePreprocessor",
    "pipelines.nn.estimator": "NetworkClassifier NetworkRegressor",
    "pipelines.svm.probabilities": "Calibration",
    "pipelines.svm.kernel": "Kernel",
    "pipelines.svm.kernel_machine": "KernelMachine KernelRegressor",
    "pipelines.svm.path_svc": "PathSVC",
    "pipelines.svm.path_svr": "PathSVR",
    "numpy": "dtype",
    "sklearn._loss._loss": "CyHalfMultinomialLoss",
    "sklearn._loss.link": "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit",
    "sklearn._loss.loss": "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss "
    "HalfMultinomialLoss HalfPoissonLoss HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity "
    "HuberLoss PinballLoss",
    "sklearn.calibration": "_CalibratedClassifier _SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.feature_selection._mutual_info": "mutual_info_classif mutual_info_regression",
    "sklearn.feature_selection._univariate_selection": "chi2 f_classif f_regression r_regression",
    "sklearn.gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels": "CompoundKernel ConstantKernel DotProduct ExpSineSquared "
    "Exponentiation Matern Product RBF RationalQuadratic Sum WhiteKernel",
    "sklearn.metrics._dist_metrics": "BrayCurtisDistance64 CanberraDistance64 ChebyshevDistance64 "
    "EuclideanDistance64 HammingDistance64 HaversineDistance64 MahalanobisDistance64 "
    "ManhattanDistance64 MinkowskiDistance64 SEuclideanDistance64",
    "sklearn.neighbors._ball_tree": "BallTree",
    "sklearn.neighbors._kd_tree": "KDTree",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.tree._tree": "Tree",
    "sklearn.utils._bunch": "Bunch",
}
_PACKAGES = {
    "_loss",  # as scikit-learn 1.7 names the module of its compiled losses
    "builtins",
    "collections",
    "functools",
    "numpy",
    "pandas",
    "pipelines",
    "scipy",
    "sklearn",
}
TRUSTED = [f"{module}.{name}" for module, listed in _TRUSTED.items() for name in listed.split()]


@dataclass(frozen=True, eq=False)
class FittedEstimator:
    """The best candidate of ``cross_validate``, fitted on all training rows.

    Attributes
    ----------
    estimator : scikit-learn estimator
        Fitted on class codes or numbers.
    classes_ : array of shape (n_classes,) or None
        Labels of the class codes; None for a regression.
    n_features_in_ : int
    scaling : FittedScaling, optional
        Scaling of pixels; None for features and tables.
    columns : tuple of str
        Feature names of a table, by which the columns of a DataFrame are found.
    """

    estimator: Any
    classes_: np.ndarray | None
    n_features_in_: int
    scaling: FittedScaling | None = None
    columns: tuple[str, ...] = ()

    def predict(self, X: Any) -> np.ndarray:
        """Predict labels, or the numbers of a regression.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or DataFrame
            Rows in the form in which the run read them: pixels, or features of images; a DataFrame
            for a table with categories or missing cells.

        Returns
        -------
        array of shape (n_samples,)
        """
        codes = self.predict_codes(X)
        return codes if self.classes_ is None else self.classes_[codes]

    def predict_codes(self, X: Any) -> np.ndarray:
        """Predict class codes, indices into ``classes_``; numbers for a regression."""
        dtype = np.dtype(np.float64 if self.classes_ is None else np.int32)
        return predictions_as(dtype, self.estimator.predict(self._scaled(X)))

    @available_if(lambda model: hasattr(model.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, of shape (n_samples, n_classes)."""
        return np.asarray(self.estimator.predict_proba(self._scaled(X)))

    @available_if(lambda model: hasattr(model.estimator, "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values: of shape (n_samples,) for two classes, else a column for each."""
        return np.asarray(self.estimator.decision_function(self._scaled(X)))

    def _scaled(self, X: Any) -> Any:
        X = by_name(X, self.columns)
        steps = getattr(self.estimator, "steps", [("", self.estimator)])
        # A ``TablePreprocessor`` finds its columns by name; all else takes an array.
        if type(steps[0][1]).__name__ != "TablePreprocessor":
            X = np.asarray(X)
        if self.scaling is None:
            return X
        if isinstance(self.scaling.center, float):
            # As in training, bytes of pixels are scaled in single precision, whatever type they
            # have now: a tree's threshold may coincide with a pixel's value.
            X = (X.astype(np.float32) - self.scaling.center) / self.scaling.scale
        else:
            X = self.scaling.transform(X)
        return np.asarray(X, np.float64)


def dump_model(model: FittedEstimator) -> tuple[bytes | None, str]:
    """The content of a model file, or None and the reason why there is none.

    A model is not stored if reading its file might run code.
    """
    # Types are checked first: skops creates an object of each type to look at it, and for some
    # compiled types that ends the process.
    if not (foreign_types := _foreign_types(model.estimator, set())):
        io = skops_io()
        parts = {field.name: getattr(model, field.name) for field in fields(model)}
        del parts["columns"]  # run.json has them
        try:
            content = io.dumps(parts, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
        except DAMAGE_OF_SKOPS as error:
            return None, f"skops cannot store it ({error_line(error)})"
        if not (foreign_types := {*io.get_untrusted_types(data=content)} - {*TRUSTED}):
            return content, ""
    names = ", ".join(sorted(foreign_types))
    return None, f"its file would hold {names}, which might run code when it is read"


def _foreign_types(value: Any, seen_ids: set[int]) -> set[str]:
    """Names of the types within an object that belong to none of the reviewed packages."""
    value_type = type(value)
    if value_type.__module__.partition(".")[0] not in _PACKAGES:
        return {f"{value_type.__module__}.{value_type.__qualname__}"}
    if id(value) in seen_ids:
        return set()
    seen_ids.add(id(value))
    parts: Iterable[Any] = vars(value).values() if hasattr(value, "__dict__") else ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple | set):
        parts = value
    elif isinstance(value, np.ndarray):
        parts = value.flat if value.dtype == object else ()
    elif isinstance(value, type | FunctionType | ModuleType):
        parts = ()
    return {name for part in parts for name in _foreign_types(part, seen_ids)}


def load_estimator(run: Path, network: str | None = None) -> FittedEstimator:
    """Load the model of a run, which takes rows as the run read them; runs no code of the file.

    Parameters
    ----------
    run : Path
        The run folder.
    network : str, optional
        ``FILE.py:Class`` or ``module:Class`` of the user's own network, which replaces the name in
        the file: what a file names is not imported.

    Returns
    -------
    FittedEstimator

    Raises
    ------
    InputError
        The run kept no model; the file is damaged, or contains types that are not trusted; or
        ``network`` is given for a model without a network of the user's own.
    """
    path, (_, record) = run / FITTED, read_record(run, ValidationRecord)
    reason = record.not_kept
    if reason or not path.is_file():
        why = reason or f"there is no {FITTED}: it has not ended, or is of an older version"
        way_out = "fit it yourself, with the parameters in run.json" if reason else "run it anew"
        raise InputError(f"RUN must hold a model, got {run}, which has none, as {why}; {way_out}")
    try:
        parts = load_skops(path.read_bytes(), TRUSTED)
        model = FittedEstimator(**parts, columns=record.dataset.columns)
        if not hasattr(model.estimator, "predict") or not isinstance(model.n_features_in_, int):
            raise TypeError("its parts are not those of a model")
    except DAMAGE as error:
        raise InputError(
            f"{path} must be a model that this program saved: {error_line(error)}; resume the run "
            "to write it again"
        ) from error
    if network is not None:
        final = last_step(model.estimator)
        is_network = isinstance(final, NetworkEstimator)
        refuse_network(network, path, final.network if is_network else type(final).__name__)
        final.name_again(network)
    return model


def predict_with_estimator(rows: NewRows, run: Path, **code: Any) -> ModelAnswer:
    """Predict new rows with the model of a run; with probabilities or decision values if it can.

    Parameters
    ----------
    rows : NewRows
    run : Path
        The run folder.
    **code
        The user's own code, as ``load_estimator`` takes it.

    Returns
    -------
    Predicted
    """
    model, X = load_model(run, **code), features_of_rows(rows, run)
    refuse_width(run / FITTED, model.n_features_in_, X.shape[1])
    predicted, classes = model.predict_codes(X), model.classes_
    if classes is None:
        return ModelAnswer(None, predicted.astype(float))
    values = values_of_classes(model.estimator, X, model)
    if isinstance(values, str):
        remarks = [f"note       {values}: not in the table"] if values else []
        return ModelAnswer(classes, predicted, remarks=remarks)
    value_type, codes, array = values
    return ModelAnswer(classes, predicted, class_columns(value_type, classes[codes], array))


def values_of_classes(
    estimator: Any, X: Any, wrapper: Any = None
) -> tuple[str, np.ndarray, np.ndarray] | str:
    """Class probabilities of rows, or decision values if the estimator has no probabilities.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Fitted on class codes.
    X : array or DataFrame
    wrapper : optional
        Called in place of the estimator; brings rows into the form that the estimator takes.

    Returns
    -------
    tuple or str
        ``"probability"`` or ``"decision"``, the class codes, and an array of shape (n_rows,
        n_classes), or (n_rows,) for decision values of two classes. A string if there are none:
        the reason, or "" if it need not be mentioned.
    """
    wrapper = estimator if wrapper is None else wrapper
    codes = getattr(estimator, "classes_", None)
    if codes is None:  # the classes of its columns are unknown
        return ""
    shapes = [
        value
        for name, value in estimator.get_params().items()
        if name.endswith("decision_function_shape")
    ]
    for value_type, method in (("probability", "predict_proba"), ("decision", "decision_function")):
        if not hasattr(wrapper, method):
            continue
        if value_type == "decision" and len(codes) > 2 and "ovo" in shapes:
            return "decision values are of pairs of classes"
        return value_type, codes, np.asarray(getattr(wrapper, method)(X))
    return ""
