"""``BaggedNets``: the ensemble as a scikit-learn estimator, and its base shared with regression."""

from __future__ import annotations

import math
import warnings
from contextlib import closing
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, is_regressor
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cluster_setup.installation import install_line
from cluster_setup.on_this_machine.devices import available_cores
from cluster_setup.workers import describe_workers
from pipelines.bagging.calibration import UNSCALED
from pipelines.bagging.members import READ, MemberFiles
from pipelines.bagging.record import BaggingRecord
from pipelines.bagging.reductions import EnsemblePrediction, ask_on_workers, reduce_members
from pipelines.bagging.selective_prediction import (
    CONFIDENCE,
    Assessment,
    SelectivePrediction,
    stored_selective_prediction,
)
from pipelines.bagging.work import (
    NO_BEST,
    Trainings,
    reduce_candidates,
    refitted_of,
    run_trainings,
    tabulate_cells,
)
from pipelines.data.dataset import by_name
from pipelines.data.placement import FoldedData, to_host
from pipelines.data.scaling import Scaling
from pipelines.errors import InputError
from pipelines.nn.augment import choose_augmentation
from pipelines.nn.inputs import Inputs
from pipelines.nn.member import Ensemble, OutOfBagPrediction, Prediction
from pipelines.nn.settings import OPTIMIZERS, PRECISIONS, SCHEDULES, TrainingSettings
from pipelines.nn.space import SearchSpace
from pipelines.run.client_parameter import ClientMixin
from pipelines.run.new_rows import record_of
from pipelines.run.runners import InProcess, OnCluster, Runner
from pipelines.run_folder.digests import refuse_changed
from pipelines.sklearn_private import Interval, StrOptions, check_sample_weight

if TYPE_CHECKING:
    from distributed import Client


AT_LEAST_1 = Interval(Integral, 1, None, closed="left")


class BaggedNetworks(ClientMixin, BaseEstimator):
    """The base of ``BaggedNets`` and ``BaggedNetsRegressor``: parameters, training, prediction."""

    ensemble_: Ensemble

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        "n_estimators": [AT_LEAST_1],
        **{name: [AT_LEAST_1, None] for name in ("n_iter", "batch_size", "max_epochs", "patience")},
        "augment": [str],
        "optimizer": [StrOptions(set(OPTIMIZERS)), None],
        "schedule": [StrOptions(set(SCHEDULES)), None],
        "weight_decay": [Interval(Real, 0, None, closed="left"), None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "space": [str, dict],
        "standardize": ["boolean"],
        "precision": [StrOptions(set(PRECISIONS))],
        "device": [StrOptions({"auto", "cpu", "gpu"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_estimators: int = 24,
        n_iter: int | None = None,
        *,
        cv: int = 5,
        space: Any = "auto",
        network: Any = None,
        augment: str = "none",
        image_shape: tuple[int, ...] | None = None,
        standardize: bool = True,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        optimizer: str | None = None,
        schedule: str | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        precision: str = "fp32",
        device: str = "auto",
        random_state: Any = None,
        client: Client | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.n_iter = n_iter
        self.cv = cv
        self.space = space
        self.network = network
        self.augment = augment
        self.image_shape = image_shape
        self.standardize = standardize
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.optimizer = optimizer
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.patience = patience
        self.precision = precision
        self.device = device
        self.random_state = random_state
        self.client = client

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Search and train every member.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or an array or tensor of shape (n_samples, channels, height, width).
        y : array-like of shape (n_samples,)
            Class labels; in a regression, numbers.
        sample_weight : array-like of shape (n_samples,), optional
            At least 0, and not all 0. Rows are drawn in proportion to it, as in scikit-learn's
            ``BaggingClassifier``, and out-of-bag rows count by it where they end the training of a
            network for tables.

        Raises
        ------
        ImportError
            torch is not installed.
        ValueError
            Parameters or data are invalid, or no member could be trained.
        """
        if find_spec("torch") is None:
            raise ImportError(
                f"{type(self).__name__} needs torch, which is not installed; run "
                f"{install_line('nn')}"
            )
        self._warn_without_client(stacklevel=3)
        shape, X = _flat(X)
        self._image_shape = self.image_shape and tuple(self.image_shape) if shape is None else shape
        dtype = np.float64, np.float32
        rows, y = validate_data(self, X, y, dtype=dtype, y_numeric=is_regressor(self))
        self._validate_params()
        codes, n_classes = self._targets(np.asarray(y))
        scaling = Scaling("standardise" if self.standardize else "none")
        if self.standardize and shape is not None:
            scaling = Scaling("constants", float(rows.mean()), float(rows.std()) or 1.0)
        weights = None
        if sample_weight is not None:
            weights = check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
            if not weights.any():  # scikit-learn refuses these from 1.9 on
                raise ValueError("Sample weights must contain at least one non-zero number.")
        data = FoldedData(rows, codes, rows[:0], codes[:0], (), scaling, weights)
        space = self._space()
        device = self.device
        if device == "auto" and self.client is not None:
            have_gpus = all(worker["gpu"] for worker in describe_workers(self.client))
            device = "gpu" if have_gpus else "cpu"
        elif device == "auto":
            import torch

            device = "gpu" if torch.cuda.is_available() else "cpu"
        shape, n_features = self._image_shape, rows.shape[1]
        choices: dict[str, Any] = {
            name: getattr(self, name, None) for name in TrainingSettings.choices
        }
        choices["augment"] = choose_augmentation(
            self.augment, shape is not None, len(shape or ()) == 2
        )
        self._training = TrainingSettings.of(
            space.network, len(rows), device=device, is_regression=is_regressor(self), **choices
        )
        needs_search = space.network in ("conv", "mlp")
        n_iter = self.n_iter or (12 if needs_search else 1)
        seed = int(check_random_state(self.random_state).randint(2**31))
        if shape is not None and (len(shape) not in (2, 3) or math.prod(shape) != n_features):
            raise ValueError(
                "image_shape must be (height, width) or (channels, height, width) of "
                f"{n_features} pixels, got {shape}"
            )
        module = None if isinstance(self.network, str) else self.network
        inputs = Inputs(n_features, n_classes, shape, module)
        try:
            plan = Trainings.draw(
                codes,
                inputs,
                space,
                self._training,
                n_bootstrap=self.n_estimators,
                n_tuning=n_iter,
                n_folds=self.cv,
                seed=seed,
            )
        except InputError as error:
            raise error.renamed(folds="cv") from None
        if n_iter == 1 and not needs_search:
            plan = plan.in_groups()
        if self.client is not None:
            self._train(OnCluster(self.client), data, plan)
        else:
            self._train(InProcess(1 if device == "gpu" else available_cores()), data, plan)
        return self

    def _space(self) -> SearchSpace:
        network = self.network
        if network is not None and not isinstance(network, str):
            network_class = network if hasattr(network, "__qualname__") else type(network)
            network = f"{network_class.__module__}:{network_class.__qualname__}"
        if not isinstance(self.space, str):
            network_entry = {} if network is None else {"network": network}
            return SearchSpace.from_mapping({**network_entry, **self.space}, "space")
        if self.space == "auto" and network is None:
            network = "table" if self._image_shape is None else "conv"
        return SearchSpace.load(self.space, network, self.optimizer or "sgd")

    def _train(self, runner: Runner, data: FoldedData, plan: Trainings) -> None:
        rows, reason = [], ""
        members, out_of_bag = dict[int, Any](), dict[int, Any]()
        with closing(runner):
            problem = plan.problem(data)
            feed = plan.feed(problem, runner.n_workers)
            for event, new_rows in run_trainings(plan.shared_fit, runner, problem, feed):
                reason = getattr(event, "error", None) or reason
                for row, refitted in refitted_of(event):
                    if refitted is None or refitted.member is None:
                        reason = row["status"]
                        continue
                    members[row["member"]] = refitted.member
                    out_of_bag[row["member"]] = refitted.out_of_bag
                # Without a search the table is of the refits.
                rows += [row for row in new_rows if row["fold"] >= 0 or not plan.searches]
            reason = reason or (NO_BEST if feed.without_best else "")
        if not members:
            raise ValueError(f"no member could be trained: {reason}")
        self.cv_results_ = tabulate_cells(rows)
        n_folds = self.cv if plan.searches else 1
        self.candidates_ = reduce_candidates(self.cv_results_, n_folds, self.client)
        if len(members) < self.n_estimators:
            n_lost = self.n_estimators - len(members)
            warnings.warn(
                f"{n_lost} of {self.n_estimators} members could not be trained: {reason}",
                FitFailedWarning,
                stacklevel=3,
            )
        numbers = sorted(members)
        self.estimators_ = [members[number] for number in numbers]
        self._learn_from([out_of_bag[number] for number in numbers], data)

    @classmethod
    def of_run(cls, run: Path, network: Any = None) -> Self:
        """Load the ensemble of a finished run of ``nn_bagging``, to predict with it.

        Parameters
        ----------
        run : Path
            The run's folder.
        network : str, torch.nn.Module or a class of one, optional
            The run's network where it is your own: code that a folder names is not run.

        Raises
        ------
        InputError
            The folder has no such ensemble, or one of its files has changed.
        """
        record = record_of(run, "nn_bagging", BaggingRecord)
        refuse_changed(run, record.files, *READ)
        files = MemberFiles(run)
        ensembles = [Ensemble.load(files.weights(number), network) for number in files.numbers()]
        if not ensembles:
            raise InputError(f"{run} has no trained member; resume the run first")
        nets, first = cls(n_estimators=len(ensembles)), ensembles[0].members[0]
        if first.inputs.is_regression != is_regressor(nets):
            targets, other_class = "classes", "BaggedNets"
            if first.inputs.is_regression:
                targets, other_class = "numbers", "BaggedNetsRegressor"
            raise InputError(
                f"{cls.__name__} cannot take the ensemble of {run}, which predicts {targets}; use "
                f"{other_class}.of_run"
            )
        nets._training, nets._image_shape = TrainingSettings(), first.inputs.image_shape
        nets.n_features_in_ = len(getattr(first.scaling, "layout", ())) or first.inputs.n_features
        nets.estimators_ = [ensemble.members[0] for ensemble in ensembles]
        nets.ensemble_ = Ensemble(nets.estimators_, ensembles[0].classes_)
        nets._columns = record.dataset.columns
        nets._recall(run)
        return nets

    def _recall(self, run: Path) -> None:
        """Load what a run stored beside its members, after these."""
        raise NotImplementedError

    def _targets(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        """The targets for ``FoldedData``, codes or numbers, and the number of classes or 0."""
        raise NotImplementedError

    def _learn_from(self, out_of_bag: list[OutOfBagPrediction], data: FoldedData) -> None:
        """Set the attributes that depend on the members and their out-of-bag predictions."""
        raise NotImplementedError

    def _ask(self, X: ArrayLike) -> Prediction:
        """The predictions of all members; with a client they are lazy, computed by its workers."""
        check_is_fitted(self)
        X = by_name(X, getattr(self, "_columns", ()))  # the columns of a run have names
        rows = validate_data(self, _flat(X)[1], reset=False, dtype=(np.float64, np.float32))
        if self.client is None:
            return self.ensemble_.predict(rows, self._training)
        members = self.ensemble_.members
        return ask_on_workers(self.client, members, rows, self._training)

    def _compute(self, answer: Any) -> Any:
        """The value of an answer of ``_ask``, or of a reduction of one."""
        if self.client is None:
            return answer
        import dask

        return dask.compute(answer, scheduler=self.client)[0]


class BaggedNets(ClassifierMixin, BaggedNetworks):
    """Neural networks on bootstrap samples, each the best of a random search, that vote.

    This is bagging [1]_ with a search for every member. For each member rows are drawn with
    replacement within folds, so that no row is in two folds; the candidates of a random search are
    scored by cross-validation on these folds, and the one of the smallest loss is trained on the
    whole sample.

    Members for tables need no search: they are trained together, each until its loss on its
    out-of-bag rows, the third or so that its sample left out, no longer falls. Modules such as
    ``cnn`` are not searched either unless ``n_iter`` says so.

    Parameters
    ----------
    n_estimators : int, default 12
        Members; at least 1.
    n_iter : int, optional
        Candidates of each member's search; at least 1. By default 12, but 1 for ``table`` and for
        modules, for which 1 means no search. Up to eight members of ``table`` are then trained
        together, with the same hyper-parameters. On a GPU, members of ``cnn`` are also trained
        together, each with its own.
    cv : int, default 5
        Folds of a search, within which rows are drawn; at least 2.
    space : str or mapping, default "auto"
        The search space: ``"small"``, ``"study"``, ``"mlp"``, ``"table"``, ``"cnn"``, the path of a
        YAML file, or its content. ``"auto"`` depends on ``network``; without one it is ``small``
        for images and ``table`` for tables.
    network : str, torch.nn.Module or a class of one, optional
        ``"conv"``, ``"mlp"``, ``"table"``, ``"cnn"``, a name of ``torchvision.models``,
        or ``"module:Class"``; by default that of ``space``. A class is called with those of
        ``in_channels``, ``image_shape``, ``n_features`` and ``n_classes`` that it takes. For a
        module, each member gets a copy with newly drawn first weights.
    augment : str, default "none"
        ``"light"``, ``"randaugment"``, ``"trivialaugment"``, ``"augmix"`` or
        ``"module:function"``: how training images are changed at random, see
        ``pipelines.nn.augment``. ``"light"`` takes coloured images for photographs and grey ones
        for digits.
    image_shape : (height, width) or (channels, height, width), optional
        The shape of the image in each row of ``X``; None for a table, and for ``X`` of shape
        (n, channels, height, width), which has it.
    standardize : bool, default True
        Whether to standardise features on the rows that a network is trained on, with one mean and
        one standard deviation for all pixels of images of four dimensions; otherwise ``X`` is taken
        as it is.
    batch_size : int, optional
        Rows of a training step; at least 1. By default 64, but 10 for ``conv`` and ``mlp`` and 256
        for ``table``.
    max_epochs : int, optional
        The most epochs of a network; at least 1. By default as many as make 1,500 steps, within 12
        to 60; 20 for ``conv`` and ``mlp``; for ``table`` as many as make 200 steps, within 20 to
        200.
    optimizer : {"sgd", "adamw"}, optional
        The optimiser of a module; by default "sgd". ``conv``, ``mlp`` and ``table`` are trained as
        modules, not by their own rule, if an optimizer, a schedule, an ``augment`` or bf16 is
        given; ``conv`` and ``mlp`` also with a smoothing, decay or patience.
    schedule : {"onecycle", "cosine", "none"}, optional
        The course of a module's learning rate; by default "onecycle".
    label_smoothing : float, optional
        The fraction of a label that is spread over all classes; in [0, 1). By default 0.05 for a
        module and 0.02 for ``table``.
    weight_decay : float, optional
        The decay of all weights except biases and norms; at least 0. By default 0.0005 for a
        module, 0.05 with "adamw", and 0.1 for ``table``.
    patience : int, optional
        Epochs without a smaller out-of-bag loss after which a network ends; at least 1. By default
        networks are trained to the last epoch, but 20 for ``table``.
    precision : {"fp32", "tf32", "bf16"}, default "fp32"
        The precision of products on a GPU; bf16, for modules, also on recent CPUs.
    device : {"auto", "cpu", "gpu"}, default "auto"
        Where networks are trained; auto takes a GPU if there is one.
    random_state : int, RandomState or None, default None
        An int gives the same members on any number of workers.
    defer_error : float, optional
        The largest fraction of wrong answers among those that ``assess`` keeps, between 0 and 1.
        The certainty that an answer needs is set on out-of-bag rows.
    confidence : float, default 0.95
        For ``defer_error``, and for the prediction sets of ``assess``; between 0 and 1.
    client : distributed.Client, optional
        Where to compute; by default on threads of this process, which opens no port. Clones and
        copies share the client, pickles do not: an unpickled ensemble has None, and warns when it
        is fitted without.

    Attributes
    ----------
    estimators_ : list of Member
        The trained networks.
    ensemble_ : Ensemble
        The same networks together; its ``save`` and ``load`` run no code.
    classes_ : array of shape (n_classes,)
    selective_prediction_ : SelectivePrediction
        The rules of ``assess``; its ``risk_control`` says what was proved.
    calibration_ : TemperatureScaling
        What ``predict_proba`` applies, fitted on out-of-bag rows; its ``line`` gives their log loss
        before and after.
    temperature_ : float
        1 where fewer than ten out-of-bag rows are wrong, or right.
    candidates_ : DataFrame
        Mean loss and error of every candidate of every member.
    cv_results_ : DataFrame
        A row for each candidate and fold. Without a search a row for each member, with ``fold`` -1,
        scored on its out-of-bag rows. As these end the training of ``table``, their loss is a
        little smaller than that of new rows.
    n_features_in_ : int

    References
    ----------
    .. [1] Breiman, Bagging predictors, Machine Learning 24 (1996).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> nets = BaggedNets(n_estimators=3, n_iter=1, cv=2, random_state=0).fit(X, y)
    >>> nets.member_proba(X[:5]).shape
    (3, 5, 3)
    """

    _parameter_constraints = {  # noqa: RUF012  as scikit-learn has it
        **BaggedNetworks._parameter_constraints,
        "label_smoothing": [Interval(Real, 0, 1, closed="left"), None],
        "defer_error": [Interval(Real, 0, 1, closed="neither"), None],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        n_estimators: int = 12,
        n_iter: int | None = None,
        *,
        cv: int = 5,
        space: Any = "auto",
        network: Any = None,
        augment: str = "none",
        image_shape: tuple[int, ...] | None = None,
        standardize: bool = True,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        optimizer: str | None = None,
        schedule: str | None = None,
        label_smoothing: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        precision: str = "fp32",
        device: str = "auto",
        random_state: Any = None,
        defer_error: float | None = None,
        confidence: float = CONFIDENCE,
        client: Client | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.n_iter = n_iter
        self.cv = cv
        self.space = space
        self.network = network
        self.augment = augment
        self.image_shape = image_shape
        self.standardize = standardize
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.optimizer = optimizer
        self.schedule = schedule
        self.label_smoothing = label_smoothing
        self.weight_decay = weight_decay
        self.patience = patience
        self.precision = precision
        self.device = device
        self.random_state = random_state
        self.defer_error = defer_error
        self.confidence = confidence
        self.client = client

    def _recall(self, run: Path) -> None:
        self.classes_, self.calibration_ = self.ensemble_.classes_, UNSCALED
        if (selective := stored_selective_prediction(run)) is not None:
            self._judge(selective)

    @property
    def temperature_(self) -> float:
        """The temperature of ``predict_proba``; 1 where there are too few rows to fit it."""
        return self.calibration_.temperature

    def _judge(self, selective: SelectivePrediction) -> None:
        self.selective_prediction_, self.calibration_ = selective, selective.calibration

    def _targets(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have at least two classes, got 1 class: {self.classes_[0]}")
        return codes.astype(np.int32), len(self.classes_)

    def _learn_from(self, out_of_bag: list[OutOfBagPrediction], data: FoldedData) -> None:
        self.ensemble_ = Ensemble(self.estimators_, self.classes_)
        selective = SelectivePrediction.of(
            out_of_bag,
            data.y,
            len(self.classes_),
            error=self.defer_error,
            confidence=self.confidence,
            weights=data.weights,
        )
        self._judge(selective)

    def member_proba(self, X: ArrayLike) -> np.ndarray:
        """The probabilities of every member.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or, for images, (n_samples, channels, height, width).

        Returns
        -------
        float32 array of shape (n_members, n_samples, n_classes)
        """
        outputs: Any = self._ask(X).outputs
        on_host = to_host(outputs) if self.client is None else outputs.map_blocks(to_host)
        probabilities: np.ndarray = self._compute(on_host)
        return probabilities

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The classes that the members vote for.

        A tie goes to the larger mean probability, then to the smaller class. The vote may differ
        from the class of the largest ``predict_proba``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or, for images, (n_samples, channels, height, width).

        Returns
        -------
        array of shape (n_samples,)
            Labels.
        """
        vote = self.predict_ensemble(X).vote
        labels: np.ndarray = self.classes_[vote]
        return labels

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Calibrated probabilities of the classes.

        They are the mean of the members' probabilities, scaled by ``calibration_``, which keeps the
        order of a row's classes. ``predict_ensemble`` gives the unscaled mean, by which ``assess``
        judges.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or, for images, (n_samples, channels, height, width).

        Returns
        -------
        float64 array of shape (n_samples, n_classes)
        """
        mean = self.predict_ensemble(X).mean
        return self.calibration_.scaled(mean)

    def predict_ensemble(self, X: ArrayLike) -> EnsemblePrediction:
        """The members' votes, disagreement and certainty, and which rows to defer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or, for images, (n_samples, channels, height, width).

        Returns
        -------
        EnsemblePrediction
        """
        answers: EnsemblePrediction = self._compute(reduce_members(self._ask(X).outputs))
        return answers

    def assess(self, X: ArrayLike) -> Assessment:
        """How far to trust each prediction: deferral, prediction sets and novelty.

        Novel samples are found among all rows of ``X`` together, see ``select_novel``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or, for images, (n_samples, channels, height, width).

        Returns
        -------
        Assessment
        """
        prediction = self._ask(X)
        answers, distance = self._compute((reduce_members(prediction.outputs), prediction.distance))
        return self.selective_prediction_.assess(answers, distance)


def _flat(X: Any) -> tuple[tuple[int, ...] | None, Any]:
    """The image shape of an X of four dimensions, and its images as rows; any other X as it is."""
    if getattr(X, "ndim", 2) != 4:
        return None, X
    images = np.asarray(X)
    images = images.reshape(len(images), -1).astype(np.float32, copy=False)
    return tuple(X.shape[1 + (X.shape[1] == 1) :]), images
