"""Cross-validation of a grid, and single fits, on landmarks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Predictions, Progress
from pipelines.data.placement import to_device, to_host
from pipelines.svm.cpu.fit import FittedPath
from pipelines.svm.cpu.regression import FittedRegression
from pipelines.svm.landmarks.feature_map import (
    FeatureMap,
    choose_landmarks,
    empty_features,
    make_features,
)
from pipelines.svm.landmarks.primal_newton import (
    BLOCK_BYTES,
    MOST_STEPS,
    FeatureRows,
    Loss,
    Weights,
    descend,
)
from pipelines.svm.multiclass import codes_of
from pipelines.svm.search import Layout, PathProblem, check_size, class_factors, problems_of
from pipelines.svm.settings import Settings
from pipelines.svm.solutions import CONVERGED, ITERATION_LIMIT

# The objective may be above its minimum by this times the tolerance, 1 % by default: coming closer
# changes errors little compared with the approximation. The least is what single precision
# resolves.
OF_TOLERANCE, LEAST_TOL = 10.0, 1e-5
FEATURES, ASCENT = 0.3, 0.3  # fractions of the time, for the progress
C_TOGETHER = 6  # how many C coordinate ascent works on when it reads a row
GPU_BLOCK_BYTES = 1 << 31


@dataclass(frozen=True)
class Device:
    """Where fits are computed.

    Attributes
    ----------
    xp : module
        numpy or cupy.
    run : callable
        Like ``map``; on a CPU, the ``map`` of a pool.
    name : {"cpu", "gpu"}
    block_bytes : int
        Bytes of features that are worked on at once.
    """

    xp: Any
    run: Any
    name: str
    block_bytes: int


@contextmanager
def open_device(X: Any, n_threads: int | None) -> Iterator[Device]:
    """The device on which the rows lie: threads of this process, or the GPU."""
    if isinstance(X, np.ndarray):
        from pipelines.svm.cpu.solver_threads import open_pool

        with open_pool(n_threads) as pool:
            yield Device(np, pool.map, "cpu", BLOCK_BYTES)
    else:
        from pipelines.svm.cuda.gpu import array_module

        yield Device(array_module(None), map, "gpu", GPU_BLOCK_BYTES)


@dataclass(frozen=True)
class TrainingRows:
    """The training rows of a split, sorted by class, and their weights.

    Attributes
    ----------
    layout : Layout
        The layout of the training rows; its classes are the classes of all rows.
    counts, weights : float64 arrays of shape (n,)
        How often each row trains, and that times its sample weight.
    """

    layout: Layout
    counts: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray, train: np.ndarray, sample_weight: np.ndarray | None) -> TrainingRows:
        """Sort the training rows of a split; each counts as often as it appears."""
        classes, codes = np.unique(y, return_inverse=True)
        rows, counts = np.unique(train, return_counts=True)
        weights = counts.astype(np.float64)
        if sample_weight is not None:
            weights *= np.maximum(np.asarray(sample_weight, np.float64)[rows], 0)
        order = np.argsort(codes[rows], kind="stable")
        sorted_codes = codes[rows[order]]
        starts = np.searchsorted(sorted_codes, np.arange(len(classes) + 1))
        layout = Layout(rows[order].astype(np.int64), classes, sorted_codes, starts)
        return cls(layout, counts[order].astype(np.float64), weights[order])

    def runs(self, problem: PathProblem) -> list[tuple[int, int]]:
        """The rows of a problem as runs (first, end) of the sorted rows."""
        if problem.second is None:
            return [(0, len(self.layout.order))]
        of_classes = (self.layout.rows_of(code) for code in (problem.first, problem.second))
        return [(run.start, run.stop) for run in of_classes]

    def signs_and_bounds(
        self, problem: PathProblem, numbers: np.ndarray, class_weight: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """The sides of a problem's rows, 1 or -1, and the factor of C for each; both float32."""
        codes = self.layout.codes[numbers]
        factors = class_factors(self.layout, problem, self.counts, class_weight)
        signs = np.where(codes == problem.first, 1, -1).astype(np.float32)
        return signs, (self.weights[numbers] * factors[codes]).astype(np.float32)


@dataclass
class Solved:
    """The solutions of all problems of a split and gamma.

    Attributes
    ----------
    mapped : FeatureMap
    w : float64 array of shape (n_features, n_problems, n_C)
        Weights of the features.
    objectives, n_steps, converged : arrays of shape (n_problems, n_C)
    """

    mapped: FeatureMap
    w: np.ndarray
    objectives: np.ndarray
    n_steps: np.ndarray
    converged: np.ndarray

    def of_problem(self, number: int) -> Solved:
        """The solution of one problem, in the same form."""
        index = slice(number, number + 1)
        parts = self.objectives[index], self.n_steps[index], self.converged[index]
        return Solved(self.mapped, self.w[:, index], *parts)

    def values(self, X: Any, rows: np.ndarray, device: Device) -> np.ndarray:
        """Decision values of some rows, float32 of shape (n_rows, n_problems, n_C)."""
        n_features, *shape = self.w.shape
        w = device.xp.asarray(self.w.reshape(n_features, -1), np.float32)
        starts = range(0, len(rows), self.mapped.block)

        def multiply(start: int) -> np.ndarray:
            block = to_device(rows[start : start + self.mapped.block], device.name)
            product: np.ndarray = to_host(self.mapped(X[block]) @ w)
            return product

        pieces = [np.zeros((0, w.shape[1]), np.float32), *device.run(multiply, starts)]
        return np.concatenate(pieces).reshape(len(rows), *shape)

    def fits(self, seconds: float, score_seconds: float) -> Iterator[Fit]:
        """A fit for each C, without predictions; ``seconds`` are divided in proportion to steps."""
        n_steps = self.n_steps.sum(axis=0)
        fractions = (n_steps + 1) / (n_steps + 1).sum()
        for c, fraction in enumerate(fractions):
            fit = Fit(c, 0)
            fit.fit_seconds, fit.score_seconds = seconds * fraction, score_seconds / len(fractions)
            fit.n_support, fit.n_iterations = len(self.mapped.landmarks), int(n_steps[c])
            fit.converged = bool(self.converged[:, c].all())
            status = CONVERGED if fit.converged else ITERATION_LIMIT
            fit.details = {"objectives": self.objectives[:, c], "status": status}
            yield fit


def solve_split(
    X: Any,
    training: TrainingRows,
    losses: Sequence[tuple[list[tuple[int, int]], Loss]],
    gamma: float,
    settings: Settings,
    device: Device,
) -> Iterator[Progress | Solved]:
    """Solve some problems on the same rows for one gamma and all C.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), on the device
    training : TrainingRows
    losses : sequence of (runs, Loss)
        For each problem, as from ``classifier_losses``.
    gamma : float
    settings : Settings
    device : Device

    Yields
    ------
    Progress or Solved
        Progress, and finally the solutions.
    """
    xp, tol = device.xp, max(OF_TOLERANCE * settings.tol, LEAST_TOL)
    order = training.layout.order
    weighted_rows = order[training.weights > 0]  # no landmark is a row without weight
    landmarks = choose_landmarks(X, weighted_rows, settings.n_landmarks, settings.seed)
    mapped = FeatureMap.of(X, landmarks, settings.at(gamma), xp)
    features = empty_features((len(order), mapped.n_features), settings.memory_bytes, xp)
    for n_done in make_features(X, order, mapped, device.run, features):
        yield Progress(FEATURES * n_done / len(order))
    multipliers: list[Any] = [None] * len(losses)
    n_sweeps: list[np.ndarray] = []
    if device.name == "cpu":
        for fraction in _ascend_all(features, losses, settings, tol, device, multipliers, n_sweeps):
            yield Progress(FEATURES + ASCENT * fraction)
    most = MOST_STEPS if settings.max_iter < 0 else settings.max_iter
    solved: list[Weights] = []
    start = FEATURES + ASCENT
    for number, (runs, loss) in enumerate(losses):
        for item in descend(
            FeatureRows(features, runs),
            loss,
            multipliers[number],
            tol,
            most=most,
            run=device.run,
            xp=xp,
            block_bytes=device.block_bytes,
        ):
            if isinstance(item, Weights):
                item.n_steps += n_sweeps[number] if n_sweeps else 0
                solved.append(item)
            else:
                length = (1 - start) / len(losses)
                yield item.within(start + number * length, length)
        multipliers[number] = None
    yield Solved(
        mapped,
        np.stack([weights.w for weights in solved], axis=1),
        *(
            np.stack([getattr(weights, name) for weights in solved])
            for name in ("objectives", "n_steps", "converged")
        ),
    )


def _ascend_all(
    features: np.ndarray,
    losses: Sequence[tuple[list[tuple[int, int]], Loss]],
    settings: Settings,
    tol: float,
    device: Device,
    multipliers: list[Any],
    n_sweeps: list[np.ndarray],
) -> Iterator[float]:
    """Fill ``multipliers`` and ``n_sweeps`` by coordinate ascent; yield the fraction done.

    The threads each work on a group of C's of a problem.
    """
    from pipelines.svm.landmarks.ascent import ascend, squared_norms

    norms = squared_norms(features)
    tasks = []
    for number, (runs, loss) in enumerate(losses):
        n_groups = -(-len(loss.Cs) // C_TOGETHER)  # each has small and large C, to take as long
        numbers = FeatureRows(features, runs).numbers
        tasks += [(number, numbers, loss, slice(k, None, n_groups)) for k in range(n_groups)]

    def solve(task: Any) -> Any:
        number, numbers, loss, group = task
        n_sides = len(loss.sides)
        rows, bounds = np.tile(numbers, n_sides), np.tile(loss.bounds, n_sides)
        signs, targets = (np.concatenate(parts) for parts in zip(*loss.sides, strict=True))
        Cs, form = loss.Cs[group].astype(np.float32), (settings.seed, settings.max_iter)
        problem = features, norms, rows, signs, targets, bounds, Cs
        return number, group, ascend(*problem, tol, *form)

    for n_done, (number, group, (alpha, swept)) in enumerate(device.run(solve, tasks), 1):
        if multipliers[number] is None:
            n_C = len(losses[number][1].Cs)
            multipliers[number] = np.empty((len(alpha), n_C), np.float32)
            n_sweeps.append(np.zeros(n_C, np.int64))
        multipliers[number][:, group] = alpha
        n_sweeps[number][group] = swept
        yield n_done / len(tasks)


def solve_landmarks(
    X: Any,
    y: np.ndarray,
    gammas: Sequence[float],
    Cs: Sequence[float],
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    settings: Settings,
    *,
    only: Sequence[int] | None = None,
    sample_weight: np.ndarray | None = None,
    return_decisions: bool = False,
) -> Iterator[Fit | Progress]:
    """Cross-validate every gamma and C on every split, as ``solve_path`` does, on landmarks.

    The landmarks are training rows of each split. The objective may be above its minimum by a
    fraction of ten times ``settings.tol`` or of 1e-5, whichever is larger.

    Parameters
    ----------
    X : float array of shape (n_samples, n_features), numpy or cupy
    y : array of shape (n_samples,)
        Class codes.
    gammas : sequence of float
    Cs : sequence of float
        Ascending.
    splits : sequence of (training rows, rows to predict)
    settings : Settings
    only : sequence of int, optional
        Numbers of the splits to work on, by default all.
    sample_weight : float array of shape (n_samples,), optional
        Factors of C.
    return_decisions : bool, default False
        Whether fits also have the decision values of the binary problems.

    Yields
    ------
    Fit or Progress
        Candidates are numbered gamma by gamma, and C by C within a gamma.

    Raises
    ------
    ValueError
        Values of ``X``, or gammas, are too large for single precision.
    MemoryError
        Features fit neither in memory nor on disk.
    """
    check_size(X, gammas)
    numbers, classes = range(len(splits)) if only is None else only, np.unique(y)
    problems = problems_of(len(classes), settings.decision)
    n_parts = len(gammas) * len(numbers)
    with open_device(X, settings.n_threads) as device:
        for part, (number, g) in enumerate((n, g) for n in numbers for g in range(len(gammas))):
            train, validation = splits[number]
            started = time.perf_counter()
            training = TrainingRows.of(y, train, sample_weight)
            losses = classifier_losses(training, problems, Cs, settings, device)
            for item in solve_split(X, training, losses, gammas[g], settings, device):
                if isinstance(item, Progress):
                    yield item.within(part / n_parts, 1 / n_parts)
            solved, fit_end = item, time.perf_counter()
            assert isinstance(solved, Solved)
            values = solved.values(X, validation, device)
            ended = time.perf_counter()
            for c, fit in enumerate(solved.fits(fit_end - started, ended - fit_end)):
                codes = codes_of(values[:, :, c], len(classes), settings.decision)
                predictions = {"predict": classes[codes]}
                if return_decisions:
                    predictions["problem_values"] = values[:, :, c]
                yield replace(
                    fit,
                    candidate=g * len(Cs) + c,
                    split=number,
                    predict=Predictions(predictions),
                )


def classifier_losses(
    training: TrainingRows,
    problems: Sequence[PathProblem],
    Cs: Sequence[float],
    settings: Settings,
    device: Device,
) -> list[tuple[list[tuple[int, int]], Loss]]:
    """The runs of rows and the loss of each binary problem.

    Parameters
    ----------
    training : TrainingRows
    problems : sequence of PathProblem
    Cs : sequence of float
    settings : Settings
        For its ``class_weight``.
    device : Device
    """
    losses = []
    for problem in problems:
        runs = training.runs(problem)
        numbers = np.concatenate([np.arange(*run) for run in runs])
        signs, bounds = training.signs_and_bounds(problem, numbers, settings.class_weight)
        signs, bounds = device.xp.asarray(signs), device.xp.asarray(bounds)
        losses.append((runs, Loss([(signs, signs)], bounds, np.asarray(Cs, np.float64))))
    return losses


def solve_landmarks_regression(
    X: np.ndarray,
    y: np.ndarray,
    gamma: float,
    Cs: Sequence[float],
    epsilons: Sequence[float],
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    settings: Settings,
    *,
    sample_weight: np.ndarray | None = None,
) -> Iterator[Fit | Progress]:
    """Cross-validate epsilon-SVR on landmarks, like ``solve_regression``.

    Parameters
    ----------
    X : float array of shape (n_samples, n_features)
    y : float array of shape (n_samples,)
        The targets.
    gamma : float
    Cs, epsilons : sequence of float
    splits : sequence of (training rows, rows to predict)
    settings : Settings
    sample_weight : float array of shape (n_samples,), optional
        Factors of C.

    Yields
    ------
    Fit or Progress
        Candidates are numbered epsilon by epsilon, and C by C within an epsilon.
    """
    check_size(X, gamma)
    with open_device(X, settings.n_threads) as device:
        for number, (train, validation) in enumerate(splits):
            started = time.perf_counter()
            training = TrainingRows.of(np.zeros(len(y)), train, sample_weight)
            losses = regression_losses(training, y, Cs, epsilons, device)
            for item in solve_split(X, training, losses, gamma, settings, device):
                if isinstance(item, Progress):
                    yield item.within(number / len(splits), 1 / len(splits))
            solved, fit_end = item, time.perf_counter()
            assert isinstance(solved, Solved)
            values = solved.values(X, validation, device)
            seconds = fit_end - started, time.perf_counter() - fit_end
            for e in range(len(epsilons)):
                of_epsilon = solved.of_problem(e)
                for c, fit in enumerate(
                    of_epsilon.fits(*(part / len(epsilons) for part in seconds))
                ):
                    predicted = Predictions({"predict": values[:, e, c].astype(np.float64)})
                    yield replace(fit, candidate=e * len(Cs) + c, split=number, predict=predicted)


def regression_losses(
    training: TrainingRows,
    y: np.ndarray,
    Cs: Sequence[float],
    epsilons: Sequence[float],
    device: Device,
) -> list[tuple[list[tuple[int, int]], Loss]]:
    """The runs, which cover all rows, and the loss, for each epsilon."""
    xp, targets = device.xp, np.asarray(y, np.float64)[training.layout.order]
    bounds, losses = xp.asarray(training.weights, np.float32), []
    up, down = xp.ones(len(targets), np.float32), -xp.ones(len(targets), np.float32)
    for epsilon in epsilons:
        edges = [xp.asarray(targets + sign * epsilon, np.float32) for sign in (-1, 1)]
        sides = [(up, edges[0]), (down, edges[1])]
        losses.append(([(0, len(targets))], Loss(sides, bounds, np.asarray(Cs, np.float64))))
    return losses


@dataclass(frozen=True)
class Fitted:
    """A fitted machine on landmarks.

    Attributes
    ----------
    support : int64 array of shape (n_landmarks,)
        The landmarks, as rows of X.
    coefficients : float64 array of shape (n_landmarks, n_problems)
    intercepts, objectives : float64 arrays of shape (n_problems,)
    n_iterations, status : int64 arrays of shape (n_problems,)
    """

    support: np.ndarray
    coefficients: np.ndarray
    intercepts: np.ndarray
    objectives: np.ndarray
    n_iterations: np.ndarray
    status: np.ndarray


def fit_landmarks(
    X: Any,
    y: np.ndarray,
    C: float,
    gamma: float,
    settings: Settings,
    *,
    epsilon: float | None = None,
    sample_weight: np.ndarray | None = None,
) -> Fitted:
    """Fit one machine on all rows: a classifier, or with ``epsilon`` a regression.

    Parameters
    ----------
    X : float array of shape (n_samples, n_features), numpy or cupy
    y : array of shape (n_samples,)
        Class codes, or targets.
    C, gamma : float
        Above 0.
    settings : Settings
    epsilon : float, optional
        Half the width of the tube, in units of ``y``.
    sample_weight : float array of shape (n_samples,), optional
        Factors of C.

    Raises
    ------
    ValueError
        Values of ``X``, or gamma, are too large for single precision.
    MemoryError
        Features fit neither in memory nor on disk.
    """
    check_size(X, gamma)
    with open_device(X, settings.n_threads) as device:
        targets = y if epsilon is None else np.zeros(len(y))
        training = TrainingRows.of(targets, np.arange(len(y)), sample_weight)
        if epsilon is None:
            problems = problems_of(training.layout.n_classes, settings.decision)
            losses = classifier_losses(training, problems, [C], settings, device)
        else:
            losses = regression_losses(training, y, [C], [epsilon], device)
        *_, solved = solve_split(X, training, losses, gamma, settings, device)
    assert isinstance(solved, Solved)
    status = np.where(solved.converged[:, 0], CONVERGED, ITERATION_LIMIT)
    return Fitted(
        solved.mapped.landmarks,
        *solved.mapped.coefficients(solved.w[:, :, 0]),
        solved.objectives[:, 0],
        solved.n_steps[:, 0],
        status,
    )


def fit_classifier(
    X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings, sample_weight: Any = None
) -> FittedPath:
    """Fit a classifier, in the form of ``fit_path``; its support vectors are the landmarks."""
    machine = fit_landmarks(X, y, C, gamma, settings, sample_weight=sample_weight)
    classes, codes = np.unique(y, return_inverse=True)
    support_codes = codes[machine.support]
    by_class = np.argsort(support_codes, kind="stable")
    return FittedPath(
        classes,
        problems_of(len(classes), settings.decision),
        machine.support[by_class],
        np.bincount(support_codes, minlength=len(classes)),
        machine.coefficients[by_class].T,
        machine.intercepts,
        machine.objectives,
        machine.n_iterations,
        machine.status,
    )


def fit_regressor(
    X: Any,
    y: np.ndarray,
    C: float,
    gamma: float,
    epsilon: float,
    settings: Settings,
    sample_weight: Any = None,
) -> FittedRegression:
    """Fit epsilon-SVR, in the form of ``fit_regression``."""
    about = {"epsilon": epsilon, "sample_weight": sample_weight}
    machine = fit_landmarks(X, y, C, gamma, settings, **about)
    return FittedRegression(
        machine.support,
        machine.coefficients[:, 0],
        float(machine.intercepts[0]),
        float(machine.objectives[0]),
        int(machine.n_iterations[0]),
        int(machine.status[0]),
    )
