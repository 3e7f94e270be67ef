"""One network as a scikit-learn estimator, to be searched beside others: classes or numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from pipelines.data.fits import Progress
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import FittedScaling, Scaling
from pipelines.errors import InputError
from pipelines.nn.batched_fit import ScoreRows, fit_networks, generator_of
from pipelines.nn.inputs import Inputs, NotNamed
from pipelines.nn.member import Member
from pipelines.nn.settings import OPTIMIZERS, PRECISIONS, SCHEDULES, TrainingSettings, need_torch
from pipelines.nn.space import LIMITS, NetworkSpec
from pipelines.nn.stack import DIVERGED, OK, StackPart, Tensors, fit_target_scaling, numbers_of
from pipelines.sklearn_private import Interval, StrOptions

AT_LEAST_1 = Interval(Integral, 1, None, closed="left")
# The fraction of the training rows that is held out where they end the training: as much as
# ``validation_fraction`` of scikit-learn's ``MLPClassifier``.
HELD_OUT = 0.1
# Default learning rates: of Adam (table), of plain stochastic gradient descent (conv, mlp), and the
# highest of a one-cycle schedule (cnn).
RATES = {"table": 0.03, "cnn": 0.08, "conv": 0.02, "mlp": 0.02}
FLOATS = (np.float64, np.float32)  # dtypes of rows
FITTED_HERE = "_is_fitted_here"
OF_OTHERS = {"sgd": 0.03, "adamw": 0.003}  # of any other network, by optimiser


class NetworkEstimator(BaseEstimator):
    """A neural network on standardised features; pixels are taken as they are.

    Parameters
    ----------
    network : str, default "auto"
        ``"table"``, ``"mlp"``, ``"conv"``, ``"cnn"``, a name of ``torchvision.models`` or
        ``"FILE.py:Class"``, see ``BaggedNets``; "auto" takes ``cnn`` for images, else ``table``.
    n_hidden_layer : int, default 64
        Units of the hidden layer of ``table``, ``mlp`` and ``conv``.
    n_conv_layer : int, default 16
        Channels of the first convolution of ``conv`` and ``cnn``.
    kernel_size : int, default 3
        Pixels on a side of the convolution of ``conv``.
    learning_rate : float, optional
        By default 0.03 for ``table``, 0.08 for ``cnn``, 0.02 for ``conv`` and ``mlp``; for any
        other network 0.03, or 0.003 with ``"adamw"``.
    momentum : float, default 0.9
        For stochastic gradient descent; for Adam, its first beta. In [0, 1).
    batch_size, max_epochs, optimizer, schedule, weight_decay, patience
        See ``BaggedNets``. With ``patience``, and always for ``table``, a tenth of the rows is held
        out, and their loss ends the training.
    label_smoothing : float, optional
        See ``BaggedNets``; for classifiers only.
    augment, precision : str
        See ``BaggedNets``.
    image_shape : (height, width) or (channels, height, width), optional
        The shape of the image in each row; by default rows are a table.
    device : {"cpu", "gpu"}, default "cpu"
    random_state : int, default 0

    Attributes
    ----------
    weights_ : dict of str to arrays
    scaling_ : FittedScaling
        The scaling of the features.
    target_ : FittedScaling, optional
        For a regression, the scaling of the targets.

    Notes
    -----
    A network that was read from a file, or came from another process, does not import the user's
    code that its ``network`` names: it predicts where it was fitted, or after ``name_again``.
    """

    target_: FittedScaling | None = None

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        "network": [str],
        **{name: [AT_LEAST_1] for name in ("n_hidden_layer", "n_conv_layer", "kernel_size")},
        "learning_rate": [Interval(Real, *LIMITS["learning_rate"], closed="both"), None],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        **{name: [AT_LEAST_1, None] for name in ("batch_size", "max_epochs", "patience")},
        "optimizer": [StrOptions(set(OPTIMIZERS)), None],
        "schedule": [StrOptions(set(SCHEDULES)), None],
        "label_smoothing": [Interval(Real, 0, 1, closed="left"), None],
        "weight_decay": [Interval(Real, 0, None, closed="left"), None],
        "augment": [str],
        "precision": [StrOptions(set(PRECISIONS))],
        "image_shape": [tuple, list, None],
        "device": [StrOptions({"cpu", "gpu"})],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        network: str = "auto",
        n_hidden_layer: int = 64,
        n_conv_layer: int = 16,
        kernel_size: int = 3,
        learning_rate: float | None = None,
        momentum: float = 0.9,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        optimizer: str | None = None,
        schedule: str | None = None,
        label_smoothing: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        augment: str = "none",
        precision: str = "fp32",
        image_shape: tuple[int, ...] | None = None,
        device: str = "cpu",
        random_state: int = 0,
    ) -> None:
        self.network = network
        self.n_hidden_layer = n_hidden_layer
        self.n_conv_layer = n_conv_layer
        self.kernel_size = kernel_size
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.optimizer = optimizer
        self.schedule = schedule
        self.label_smoothing = label_smoothing
        self.weight_decay = weight_decay
        self.patience = patience
        self.augment = augment
        self.precision = precision
        self.image_shape = image_shape
        self.device = device
        self.random_state = random_state

    @property
    def spec(self) -> NetworkSpec:
        """The kind of network and its hyper-parameters, with defaults filled in."""
        auto = "table" if self.image_shape is None else "cnn"
        network = auto if self.network == "auto" else self.network
        rate = RATES.get(network, OF_OTHERS.get(self.optimizer or "sgd", 0.03))
        return NetworkSpec(
            network,
            self.n_hidden_layer if network in ("table", "mlp", "conv") else 0,
            rate if self.learning_rate is None else self.learning_rate,
            self.momentum,
            self.n_conv_layer if network in ("conv", "cnn") else 0,
            self.kernel_size if network == "conv" else 0,
        )

    def inputs(self, n_features: int, n_classes: int) -> Inputs:
        """The shapes of the network's inputs and outputs."""
        return Inputs(n_features, n_classes, self.image_shape and tuple(self.image_shape))

    def training(self, n_rows: int) -> TrainingSettings:
        """The settings for training on ``n_rows`` rows.

        Raises
        ------
        ValueError
            A parameter is invalid.
        """
        self._validate_params()
        choices = {
            name: getattr(self, name) for name in (*TrainingSettings.choices, "augment", "device")
        }
        if (is_regression := is_regressor(self)) and self.label_smoothing is not None:
            raise InputError(
                f"label_smoothing is for classes, and {type(self).__name__} predicts numbers, got "
                f"{self.label_smoothing}; leave it out"
            )
        return TrainingSettings.of(
            self.spec.network, n_rows, is_regression=is_regression, **choices
        )

    @property
    def scaling(self) -> Scaling:
        """How rows are scaled: features are standardised, pixels are not scaled."""
        return Scaling("standardise" if self.image_shape is None else "none")

    def part(self, rows: np.ndarray) -> StackPart:
        """The network as a part of a stack: rows to train on, and those held out to end it."""
        generator = generator_of(self.random_state)
        left_out = rows[:0]
        if self.patience is not None or self.spec.network == "table":
            n = max(1, round(HELD_OUT * len(rows)))
            order = np.random.default_rng(generator.integers(0, 2**63)).permutation(len(rows))
            rows, left_out = rows[np.sort(order[n:])], rows[np.sort(order[:n])]
        return StackPart(rows, generator, out_of_bag=left_out, spec=self.spec)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels; for a regression, numbers.

        Raises
        ------
        ValueError
            The rows cannot be used, or the training diverges.
        """
        need_torch()
        rows, y = validate_data(self, X, y, dtype=FLOATS, y_numeric=is_regressor(self))
        targets = self.learn_targets(np.asarray(y))
        data = FoldedData(rows, targets, rows[:0], targets[:0], (), self.scaling)
        inputs = self.inputs(rows.shape[1], len(getattr(self, "classes_", ())))
        part = self.part(np.arange(len(rows)))
        training = self.training(len(part.rows))

        def copy_weights(
            number: int, weights: Tensors, score: ScoreRows
        ) -> tuple[float, dict[str, np.ndarray]]:
            floats = {
                name: weight for name, weight in weights.items() if weight.is_floating_point()
            }
            arrays = {name: np.array(weight.cpu().numpy()) for name, weight in floats.items()}
            return score(np.unique(part.rows)).loss, arrays

        for item in fit_networks(data, [part], inputs, training, copy_weights):
            if isinstance(item, Progress):
                continue
            loss, self.weights_ = item.result
            if item.status != OK or not math.isfinite(loss):
                raise ValueError(f"the network's loss {DIVERGED}; use a smaller learning_rate")
            self.scaling_ = data.scaling_for(part.rows)
            self.target_ = fit_target_scaling(data.y, part.rows) if inputs.is_regression else None
        self._is_fitted_here = True
        return self

    # That it was fitted here is not stored: elsewhere ``network`` may name code of somebody else's.
    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in super().__getstate__().items() if name != FITTED_HERE
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: value for name, value in state.items() if name != FITTED_HERE})

    def name_again(self, network: str) -> None:
        """Name the user's own network again after loading; its code is imported only then."""
        self.network, self._is_fitted_here = network, True

    def learn_targets(self, y: np.ndarray) -> np.ndarray:
        """Class codes, after ``classes_`` is set; for a regression, the targets as float64.

        Raises
        ------
        ValueError
            Nothing can be learned from such targets.
        """
        raise NotImplementedError

    def _ask(self, X: ArrayLike) -> np.ndarray:
        """The network's outputs for rows, (n_samples, n_outputs); see ``Prediction``."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=FLOATS)
        inputs = self.inputs(self.n_features_in_, len(getattr(self, "classes_", ())))
        if ":" in self.network and not getattr(self, FITTED_HERE, False):
            inputs = replace(inputs, module=NotNamed)
        member = Member(self.spec, inputs, self.weights_, self.scaling_, target=self.target_)
        return member.predict_proba(X, TrainingSettings(device=self.device))


class NetworkClassifier(ClassifierMixin, NetworkEstimator):
    """A neural network for classification.

    Its parameters and attributes are those of ``NetworkEstimator``.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pipelines.nn.estimator import NetworkClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> NetworkClassifier().fit(X, y).predict_proba(X[:5]).shape
    (5, 3)
    """

    def learn_targets(self, y: np.ndarray) -> np.ndarray:
        """See ``NetworkEstimator``."""
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least two classes, got 1 class: {self.classes_[0]}")
        return codes.astype(np.int32)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Softmax probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        float32 array of shape (n_samples, n_classes)
        """
        return self._ask(X)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
            Labels.
        """
        codes = self.predict_proba(X).argmax(axis=1)
        labels: np.ndarray = self.classes_[codes]
        return labels


class NetworkRegressor(RegressorMixin, NetworkEstimator):
    """A neural network for regression, trained on half the squared error of standardised targets.

    Its parameters and attributes are those of ``NetworkEstimator``. Targets are standardised on
    the rows that the network is trained on; predictions are in the targets' units.

    Attributes
    ----------
    target_ : FittedScaling
        The scaling of the targets.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pipelines.nn.estimator import NetworkRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> NetworkRegressor().fit(X, y).predict(X[:5]).shape
    (5,)
    """

    def learn_targets(self, y: np.ndarray) -> np.ndarray:
        """See ``NetworkEstimator``."""
        return numbers_of(y)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The predicted targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        float64 array of shape (n_samples,)
        """
        return self._ask(X)[:, 0]
