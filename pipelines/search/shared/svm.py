"""Support vector machines: a backend fits all C of a gamma on the splits of a task.

Within the stopping tolerance the results are scikit-learn's. No fitted machine is made, only its
predictions for the rows to predict.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, Self

import numpy as np

from pipelines.data.fits import Fit, Predictions, Progress
from pipelines.search.shared.base import SharedFit, Split, SplitRows, is_repeatable
from pipelines.svm.backends import load_backend
from pipelines.svm.backends.base import Backend, Work
from pipelines.svm.backends.brief import BriefBackend
from pipelines.svm.cpu import first_use
from pipelines.svm.kernel import KERNELS, PRECOMPUTED, gamma_of
from pipelines.svm.settings import Settings

# The cost of a fit is quadratic in the rows, in units of this many rows. Measured: from 20,000 rows
# of MNIST to 60,000 the time grows 10 times, by a power of 2.1.
ROWS_OF_A_UNIT_OF_TIME = 1000
# Seconds of a core for a unit of cost, at most; on 60,000 rows of MNIST a quarter of it.
SECONDS_OF_COST = 3.3e-4
# Seconds of all C of a gamma go as n (n + this): measured from 1,000 to 60,000 rows of MNIST.
LINEAR_ROWS = 1800
ON_DEMAND = 7.0  # times slower than a kernel in memory, measured
FAR_BEYOND = 10  # times the memory: for such a kernel more memory is no advice

# Seconds on landmarks: of a multiplication, and of all steps of one C for a row and a landmark.
PRODUCT_SECONDS, STEPS_SECONDS = 7e-11, 4e-9

LANDMARKS = "landmarks"  # what rows and pages call the shared fit on landmarks
# On a fraction of the rows a candidate has that fraction of its landmarks, but at least this many.
LEAST_LANDMARKS = 50

# How many times faster than ``SVC`` the path solver is with one candidate a split, on several
# splits and on a single one, for which alone it then computes the kernel of all rows; measured.
SINGLE_GAIN, LONE_GAIN = 1.3, 0.6


@dataclass(frozen=True, eq=False)
class SVMParameters:
    """A candidate of ``svm_grid``, in the place of an unfitted ``SVC`` or ``SVR``.

    It needs no scikit-learn, whose import takes longer than a short search.

    Attributes
    ----------
    C, gamma : float
    settings : Settings
        What all candidates of the search have in common, such as the kernel.
    epsilon : float, optional
        Half the width of the tube of a regression; None for a classifier.
    """

    C: float
    gamma: float
    settings: Settings
    epsilon: float | None = None

    @property
    def kernel(self) -> str:
        """The name of the kernel, an attribute that estimators have as well."""
        return self.settings.kernel

    def as_estimator(self) -> Any:
        """An unfitted estimator with these parameters, for scorers that inspect one."""
        names = ("kernel", "degree", "coef0")
        options: dict[str, Any] = {name: getattr(self.settings, name) for name in names}
        options |= {"C": self.C, "gamma": self.gamma}
        if self.settings.n_landmarks:
            options |= {"approximation": "nystroem", "n_landmarks": self.settings.n_landmarks}
            options["random_state"] = self.settings.seed
        if self.epsilon is not None:
            from pipelines.svm.path_svr import PathSVR

            return PathSVR(**options, epsilon=self.epsilon, scale_target=True)
        from pipelines.svm.path_svc import PathSVC

        return PathSVC(**options, decision=self.settings.decision)


def backend_settings(estimator: Any, rows: SplitRows) -> Settings:
    """The backend's settings for an estimator, or for a candidate of ``svm_grid``.

    Parameters
    ----------
    estimator : estimator or SVMParameters
    rows : SplitRows
        Determines the number of threads for an estimator, or of landmarks for a candidate.
    """
    if isinstance(estimator, SVMParameters):
        settings, n = estimator.settings, estimator.settings.n_landmarks
        least = min(n, LEAST_LANDMARKS)
        return replace(settings, n_landmarks=max(least, math.ceil(rows.fraction * n)))
    n_threads = rows.n_threads or max([library.num_threads for library in _libraries()], default=1)
    return replace(Settings.of(estimator), n_threads=n_threads)


def landmarks_of(estimator: Any) -> int:
    """The number of landmarks of an estimator or candidate; 0 for an exact kernel."""
    if isinstance(estimator, SVMParameters):
        return estimator.settings.n_landmarks
    return estimator.n_landmarks if getattr(estimator, "approximation", None) else 0


def relative_fit_cost(C: float, gamma: float, n_features: int) -> float:
    """The time of one fit on scaled rows, relative to that of a cheap one.

    Fitted by eye to times on MNIST and digits: ten times as much where C * gamma is so small that
    nearly all rows are support vectors at their bound, and some more where gamma is so large that
    every row is far from all others.

    Parameters
    ----------
    C, gamma : float
    n_features : int
    """
    underfitted = 1.0 / (1.0 + math.sqrt(max(0.0, C * gamma) / 1e-4))
    overfitted = min(1.0, gamma * n_features / 8.0)
    return 1.0 + 9.0 * underfitted + 4.0 * overfitted


class KernelMachines(SharedFit):
    """The common part of the shared fits of support vector classifiers and regressors."""

    predictions_only = True
    most_seconds: float | None = SECONDS_OF_COST
    linear_rows: int | None = LINEAR_ROWS
    on_landmarks = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name that rows and pages show."""
        return LANDMARKS if self.on_landmarks else "the path solver"

    def with_landmarks(self) -> Self:
        """The same shared fit for candidates on landmarks, whose splits share nothing."""
        landmark_fit = copy(self)
        landmark_fit.on_landmarks, landmark_fit.linear_rows = True, None
        landmark_fit.unlike_few_rows = "few rows have few landmarks"
        return landmark_fit

    def group_key(self, estimator: Any) -> Hashable | None:
        """See ``SharedFit.group_key``; with landmarks the seed, which chooses them, counts."""
        key = super().group_key(estimator)
        if key is None or not landmarks_of(estimator):
            return key
        return (key, estimator.random_state) if is_repeatable(estimator) else None

    def accepts(self, estimator: Any) -> bool:
        """Whether the kernel has a name, C and gamma are in range, and iterations are not limited.

        Where ``max_iter`` ends a fit of scikit-learn's, the solution depends on the steps that its
        solver took, which are not ours.
        """
        own_steps = type(estimator).__module__.startswith("sklearn.") and estimator.max_iter != -1
        return (
            not own_steps
            and estimator.kernel in KERNELS
            and 0 < estimator.C < np.inf
            and (estimator.gamma in ("scale", "auto") or estimator.gamma > 0)
        )

    @property
    def splits_together(self) -> bool:  # type: ignore[override]
        return not self.on_landmarks

    def partition(self, estimators: Sequence[Any], n_workers: int) -> list[list[int]]:
        """See ``SharedFit.partition``; a task for each gamma, and one for the linear kernel."""
        by_gamma: dict[Any, list[int]] = defaultdict(list)
        for i, estimator in enumerate(estimators):
            by_gamma["none" if estimator.kernel == "linear" else estimator.gamma].append(i)
        return list(by_gamma.values())

    def draw(self, estimator: Any) -> None:
        """See ``SharedFit.draw``; scikit-learn always draws a seed for libsvm, needed or not."""
        if type(estimator).__module__.startswith("sklearn.") and estimator.random_state is None:
            np.random.randint(np.iinfo("i").max)  # noqa: NPY002

    def seconds_to_start(self) -> float:
        """See ``SharedFit``; numba is loaded, and our code is loaded, or compiled at first use."""
        return first_use.seconds_to_start()

    def make_ready(self) -> None:
        first_use.compile_meanwhile()

    def seconds_saved(
        self, estimators: Sequence[Any], n_rows: int, n_features: int, n_splits: int
    ) -> float:
        """See ``SharedFit``; compares the path solver with ``SVC``."""
        if landmarks_of(estimators[0]):
            return math.inf
        seconds_per_fit = first_use.svc_seconds(n_rows, n_features)
        n_paths = len(
            {
                (estimator.kernel, estimator.gamma, getattr(estimator, "epsilon", 0))
                for estimator in estimators
            }
        )
        # A path costs a fit of ``SVC`` divided by the gain, and serves all C.
        gain = SINGLE_GAIN if n_splits > 1 else LONE_GAIN
        return seconds_per_fit * n_splits * (len(estimators) - n_paths / gain)

    def describe(self, estimators: Sequence[Any]) -> str:
        """See ``SharedFit.describe``; such as ``gamma=0.01 and 2 more 8 C``."""
        gammas = list(dict.fromkeys(estimator.gamma for estimator in estimators))
        first = gammas[0] if isinstance(gammas[0], str) else f"{gammas[0]:.6g}"
        suffix = f" and {len(gammas) - 1} more" if len(gammas) > 1 else ""
        Cs = {estimator.C for estimator in estimators}
        return f"gamma={first}{suffix} " + (
            f"C={estimators[0].C:.6g}" if len(Cs) == 1 else f"{len(Cs)} C"
        )

    def cost(self, estimators: Sequence[Any], n_rows: int, n_features: int) -> float:
        """See ``SharedFit.cost``; linear in the rows on landmarks, else quadratic."""
        if n := landmarks_of(estimators[0]):
            gammas = {estimator.gamma for estimator in estimators}
            products = (
                len(gammas) * (n + n_features) * PRODUCT_SECONDS + len(estimators) * STEPS_SECONDS
            )
            return n_rows * n * products / SECONDS_OF_COST
        scale = (n_rows / ROWS_OF_A_UNIT_OF_TIME) ** 2
        return scale * sum(
            relative_fit_cost(
                float(estimator.C),
                # That is "auto", and "scale" on standardised rows.
                1 / max(n_features, 1)
                if isinstance(estimator.gamma, str)
                else float(estimator.gamma),
                n_features,
            )
            for estimator in estimators
        )

    def beyond_memory(self, estimator: Any, y: np.ndarray, n_threads: int) -> tuple[float, str]:
        """See ``SharedFit``; for the path solver on a CPU, which keeps the kernel in memory."""
        from pipelines.svm.cpu.class_products import memory_needed  # here, as it imports numba
        from pipelines.svm.cpu.solver_threads import fits_in_memory

        # Only ``svm_grid``, whose candidates have ``settings``, has an option for the memory.
        grid_settings = getattr(estimator, "settings", None)
        settings, n_rows = grid_settings or Settings.of(estimator), len(y)
        if (
            settings.n_landmarks
            or self.linear_rows is None
            or fits_in_memory(n_rows, settings.memory_bytes)
        ):
            return 1.0, ""
        n_bytes, memory = 4 * n_rows**2, settings.memory_bytes
        is_by_pairs = settings.decision == "ovo" and not isinstance(self, SVRs)
        min_bytes = math.inf
        method = "row by row, about seven times slower"
        if is_by_pairs:
            min_bytes = memory_needed(np.unique(y, return_counts=True)[1], n_threads)
            if min_bytes <= memory:
                return 1.0, ""
            method = "pair of classes by pair"
        limit = "--memory is" if grid_settings else "the solver holds at most"
        message = (
            f"the kernel of {n_rows:,} rows is {n_bytes / 1e9:,.0f} GB, {limit} "
            f"{memory / 2**30:.3g} GiB: it is computed anew in blocks, {method}"
        )
        if grid_settings and min_bytes < FAR_BEYOND * memory:
            message += (
                f"; with --memory {math.ceil(min_bytes / 2**30)}, where there is as much, the half "
                "that pairs need is kept"
            )
        if n_bytes > FAR_BEYOND * memory:
            message += "; --limit, --strategy race and --time-budget are the ways to less work"
        return 1.0 if is_by_pairs else ON_DEMAND, message


class SVCs(KernelMachines):
    """``SVC``, ``PathSVC`` and ``BackendSVC``, fitted by a backend.

    Parameters
    ----------
    solver : str, default "path"
        Name of the backend's solver, as ``load_backend`` takes it.
    device : {"cpu", "gpu"}, default "cpu"
    may_be_brief : bool, default True
        Whether ``SVC`` itself may fit a group that would be done before the path solver has
        started.
    """

    shared = ("C", "gamma", "cache_size", "shrinking", "verbose", "n_jobs", "random_state")

    def __init__(
        self, solver: str = "path", device: str = "cpu", may_be_brief: bool = True
    ) -> None:
        self.solver, self.device, self.may_be_brief = solver, device, may_be_brief
        self.takes_weights = (solver, device) == ("path", "cpu")
        if not self.takes_weights:  # the seconds were measured for the path solver on a CPU
            self.most_seconds = self.linear_rows = None

    @property
    def types(self) -> Collection[type]:  # type: ignore[override]
        """See ``SharedFit``; a property, so that scikit-learn is imported only when needed."""
        from sklearn.svm import SVC

        from pipelines.svm.backend_svc import BackendSVC
        from pipelines.svm.path_svc import PathSVC

        return SVC, PathSVC, BackendSVC

    def knows(self, estimator: Any) -> bool:
        if type(estimator).__module__.startswith("sklearn."):  # by name: ``types`` imports numba
            return type(estimator).__name__ == "SVC"
        # An estimator that names another backend has a shared fit of its own.
        estimator_backend = getattr(estimator, "backend", (self.solver, self.device))
        return super().knows(estimator) and estimator_backend == (self.solver, self.device)

    @property
    def backend(self) -> Backend:
        """The backend that fits."""
        return load_backend(self.solver, self.device)

    @property
    def splits_together(self) -> bool:  # type: ignore[override]
        return self.backend.shares_C and not self.on_landmarks

    @property
    def one_launch(self) -> bool:  # type: ignore[override]
        """See ``SharedFit``; true for backends that fit several gammas at once."""
        return self.backend.shares_gammas and not self.on_landmarks

    def seconds_to_start(self) -> float:
        """See ``KernelMachines``; 0 for all but the path solver on a CPU."""
        return super().seconds_to_start() if self.takes_weights else 0.0

    def brief(self, estimators: Sequence[Any]) -> SharedFit:
        """See ``SharedFit``; ``SVC`` itself, where both solvers solve the same problem."""
        brief_fit = BriefSVCs(self.seconds_to_start())
        return brief_fit if self.may_be_brief and all(map(brief_fit.accepts, estimators)) else self

    def accepts(self, estimator: Any) -> bool:
        """See ``KernelMachines.accepts``; and a backend must make all predictions of ``SVC``."""
        is_plain = estimator.probability in (False, "deprecated") and not estimator.break_ties
        if estimator.decision_function_shape == "ovo" and self.solver != "path":
            return False  # only the path solver returns decision values of pairs of classes
        is_precomputed = type(estimator).__name__ == "PathSVC" and estimator.kernel == PRECOMPUTED
        return is_plain and (
            super().accepts(estimator) or (is_precomputed and 0 < estimator.C < np.inf)
        )

    def partition(self, estimators: Sequence[Any], n_workers: int) -> list[list[int]]:
        """See ``SharedFit.partition``.

        A backend that fits several gammas at once gets a task for each worker. Gammas are dealt
        out in turn, so that each task has small and large ones: a launch is done only when its
        slowest fit is.
        """
        backend = self.backend
        if not backend.shares_C:
            return [[i] for i in range(len(estimators))]
        by_gamma = super().partition(estimators, n_workers)
        if not backend.shares_gammas or self.on_landmarks:
            return by_gamma
        n_tasks = min(n_workers, len(by_gamma))
        return [[i for members in by_gamma[n::n_tasks] for i in members] for n in range(n_tasks)]

    def settings_of(self, estimator: Any, rows: SplitRows) -> Settings:
        """The settings of the backend; see ``backend_settings``."""
        return backend_settings(estimator, rows)

    def fit_splits(
        self, rows: SplitRows, estimators: Sequence[Any], methods: Collection[str]
    ) -> Iterator[Fit | Progress]:
        """See ``SharedFit.fit_splits``; the backend is called for each set of gammas and C.

        Raises
        ------
        ValueError
            The training rows of a split lack a class, or a class has no weight there.
        """
        backend = self.backend
        X, y, splits = rows.matrix(backend.device)
        if not isinstance(estimators[0], SVMParameters):
            from sklearn.utils.multiclass import check_classification_targets

            check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        codes, settings = codes.astype(np.int32), self.settings_of(estimators[0], rows)
        settings = replace(settings, device=self.device)
        decisions = "decision_function" in methods
        if not isinstance(estimators[0], SVMParameters):
            trained = [np.bincount(codes[splits[number][0]]) for number in rows.numbers]
            if decisions and any(np.count_nonzero(n) not in (1, len(classes)) for n in trained):
                # With fewer classes the decision values of that split have another shape.
                raise ValueError("the training rows of a split lack a class")
            _refuse_weightless(codes, rows, [splits[number][0] for number in rows.numbers])
            if isinstance(settings.class_weight, dict):  # a backend fits class codes
                from pipelines.svm.path_svc import factors_by_code

                factors = factors_by_code(settings.class_weight, classes)
                settings = replace(settings, class_weight=factors)
        n_done, n_fits = 0, len(estimators) * rows.n_splits
        positions = {number: position for position, number in enumerate(rows.numbers)}
        parts = [rows.part_slices(position) for position in range(rows.n_splits)]
        for gammas, Cs, numbers, members in _batches(estimators, X, splits, rows.numbers):
            n_cells = len(gammas) * len(Cs) * len(numbers)
            work = Work(
                X,
                codes,
                splits,
                numbers,
                gammas,
                Cs,
                settings,
                decisions,
                rows.weights(None),
                rows.data.placement,
                rows.key,
            )
            for outcome in backend.fit_cells(work):
                if isinstance(outcome, Progress):
                    yield outcome.within(n_done / n_fits, n_cells / n_fits)
                    continue
                g, c = divmod(outcome.candidate, len(Cs))
                # The path through all C counts as one fit, that of the first C. A backend that does
                # not share C, or fits by a substitute, makes a fit for each.
                is_new = c == 0 or not backend.shares_C or outcome.implementation != ""
                position = positions[outcome.split]
                if isinstance(outcome.predict, Predictions):
                    predictions = dict(outcome.predict.by_method)
                    predictions["predict"] = classes[predictions["predict"]]
                    outcome.predict = Predictions(predictions, parts[position])
                outcome.classes = classes
                yield from _members(
                    outcome, members[Cs[c], gammas[g], outcome.split], position, is_new
                )
            n_done += n_cells


class BriefSVCs(SVCs):
    """``SVC`` itself, for as long as the path solver would need to start; then the path solver."""

    name = "SVC, as the path solver takes longer to begin"

    def __init__(self, seconds: float) -> None:
        super().__init__("sklearn")
        self._backend = BriefBackend(seconds)

    @property
    def backend(self) -> Backend:
        return self._backend

    def accepts(self, estimator: Any) -> bool:
        """See ``SVCs.accepts``; and both solvers must solve the same problem."""
        settings = getattr(estimator, "settings", estimator)
        return (
            estimator.kernel in KERNELS
            and settings.max_iter == -1
            and not landmarks_of(estimator)
            and not isinstance(settings.class_weight, dict)
            and (not hasattr(estimator, "probability") or super().accepts(estimator))
        )

    def settings_of(self, estimator: Any, rows: SplitRows) -> Settings:
        """See ``SVCs``; by default one thread, as asking BLAS takes longer than some fits."""
        return super().settings_of(estimator, replace(rows, n_threads=rows.n_threads or 1))


def _refuse_weightless(codes: np.ndarray, rows: SplitRows, trains: Sequence[np.ndarray]) -> None:
    """Refuse a class whose training rows all weigh nothing, as ``SVC`` would not know it.

    Raises
    ------
    ValueError
        A split has such a class.
    """
    weights = rows.weights(None)
    if weights is None:
        return
    for train in trains:
        if np.setdiff1d(codes[train], codes[train][weights[train] > 0]).size:
            raise ValueError("the training rows of a class weigh nothing")


def _members(fit: Fit, members: Sequence[int], split: int, is_new: bool) -> Iterator[Fit]:
    """The fit of a cell for each of the estimators that have these parameters.

    Parameters
    ----------
    fit : Fit
        As the backend yielded it; it is changed.
    members : sequence of int
        Positions of the estimators. Only the first of them counts iterations and the fit.
    split : int
        Position of the split in the task.
    is_new : bool
        Whether the fit counts as one that was made, not as a by-product of another.
    """
    fit.split, fit.n_fits = split, int(is_new)
    copies = [replace(fit, candidate=member, n_iterations=0, n_fits=0) for member in members[1:]]
    if members:
        fit.candidate = members[0]
        yield fit
    yield from copies


def _batches(
    estimators: Sequence[Any], X: Any, splits: Sequence[Split], numbers: Sequence[int]
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """The calls of a backend: gammas that have the same C on the same splits go together.

    Parameters
    ----------
    estimators : sequence of estimators or candidates
    X : array of shape (n_samples, n_features)
        Determines the values of the gammas "scale" and "auto".
    splits : sequence of (training rows, rows to predict)
    numbers : sequence of int
        The splits to fit on.

    Yields
    ------
    gammas : tuple of float
    Cs : tuple of float, ascending
    numbers : tuple of int, ascending
    members : dict
        For (C, gamma, split number), the positions of the estimators that ask for it.
    """
    members: dict[tuple[float, float, int], list[int]] = defaultdict(list)
    split_numbers, Cs = defaultdict(set), defaultdict(set)
    for number in numbers:
        gammas: dict[Any, float] = {}
        for i, estimator in enumerate(estimators):
            if estimator.gamma not in gammas:
                gammas[estimator.gamma] = 1.0  # for a kernel without gamma, where it has no effect
                if estimator.kernel not in ("linear", PRECOMPUTED):
                    gamma_rows = X[splits[number][0]] if estimator.gamma == "scale" else X
                    gammas[estimator.gamma] = gamma_of(estimator.gamma, gamma_rows)
            gamma, C = gammas[estimator.gamma], float(estimator.C)
            members[C, gamma, number].append(i)
            split_numbers[gamma].add(number)
            Cs[gamma].add(C)
    gammas_by_grid = defaultdict(list)
    for gamma in split_numbers:
        gammas_by_grid[tuple(sorted(Cs[gamma])), tuple(sorted(split_numbers[gamma]))].append(gamma)
    for (own_Cs, own_splits), grid_gammas in gammas_by_grid.items():
        yield tuple(grid_gammas), own_Cs, own_splits, members


class SVRs(KernelMachines):
    """``SVR`` and ``PathSVR``: for each gamma and epsilon, one path through all C."""

    shared = ("C", "gamma", "epsilon", "cache_size", "shrinking", "verbose", "n_jobs")

    def knows(self, estimator: Any) -> bool:
        if type(estimator).__module__.startswith("sklearn."):  # by name: ``types`` imports numba
            return type(estimator).__name__ == "SVR"
        return super().knows(estimator)

    @property
    def types(self) -> Collection[type]:  # type: ignore[override]
        from sklearn.svm import SVR

        from pipelines.svm.path_svr import PathSVR

        return SVR, PathSVR

    def accepts(self, estimator: Any) -> bool:
        return super().accepts(estimator) and estimator.epsilon >= 0

    def fit_splits(
        self, rows: SplitRows, estimators: Sequence[Any], methods: Collection[str]
    ) -> Iterator[Fit | Progress]:
        """See ``SharedFit.fit_splits``; a solver is called for each gamma."""
        from pipelines.svm.cpu.regression import solve_regression
        from pipelines.svm.landmarks.landmark_search import solve_landmarks_regression
        from pipelines.svm.path_svr import target_moments

        X, y, splits = rows.matrix("cpu")
        y, first = np.asarray(y, np.float64), estimators[0]
        settings = backend_settings(first, rows)
        scales = isinstance(first, SVMParameters) or getattr(first, "scale_target", False)
        # Targets are scaled by the training rows: each split then has its own, and its own call.
        groups = [[number] for number in rows.numbers] if scales else [rows.numbers]
        paths = [
            (gamma, Cs, numbers, members)
            for group in groups
            for gammas, Cs, numbers, members in _batches(estimators, X, splits, group)
            for gamma in gammas
        ]
        n_done, n_fits = 0, len(estimators) * rows.n_splits
        for gamma, Cs, numbers, members in paths:
            mean, scale = target_moments(y[splits[numbers[0]][0]]) if scales else (0.0, 1.0)
            members_by_cell: dict[tuple[int, float, float], list[int]] = defaultdict(list)
            for number, C in product(numbers, Cs):
                for i in members[C, gamma, number]:
                    members_by_cell[number, float(estimators[i].epsilon), C].append(i)
            epsilons = sorted({epsilon for _, epsilon, _ in members_by_cell})
            n_cells = sum(map(len, members_by_cell.values()))
            solve: Callable[..., Any] = partial(solve_regression, **vars(settings))
            if settings.n_landmarks:
                solve = partial(solve_landmarks_regression, settings=settings)
            own_splits, scaled_targets = [splits[number] for number in numbers], (y - mean) / scale
            weights = rows.weights(None)
            for outcome in solve(
                X, scaled_targets, gamma, Cs, epsilons, own_splits, sample_weight=weights
            ):
                if isinstance(outcome, Progress):
                    yield outcome.within(n_done / n_fits, n_cells / n_fits)
                    continue
                e, c = divmod(outcome.candidate, len(Cs))
                outcome.split = numbers[outcome.split]
                assert isinstance(outcome.predict, Predictions)
                values = outcome.predict.by_method["predict"] * scale + mean
                position = rows.numbers.index(outcome.split)
                outcome.predict = Predictions({"predict": values}, rows.part_slices(position))
                yield from _members(
                    outcome, members_by_cell[outcome.split, epsilons[e], Cs[c]], position, c == 0
                )
            n_done += n_cells


@cache
def _libraries() -> list[Any]:
    """The loaded libraries with threads, cached, as the look-up takes longer than some fits."""
    from threadpoolctl import ThreadpoolController

    libraries: list[Any] = ThreadpoolController().lib_controllers
    return libraries


SHARED_FITS = (SVCs(), SVRs())
