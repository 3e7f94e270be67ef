"""Cross-validation of a whole grid of C and gamma."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from .kernels import Kernel, kernel_values, prepare_rows, shared_products
from .layout import Layout, first_validation_fold, fold_weights, problems_of, sort_rows
from .pairwise import solve_and_score_pairwise
from .score import Scores, score_pairs, score_rest
from .solve import Settings, Solutions, empty_solutions, solve_pairs, solve_rest
from .threads import open_pool

STATUS_WORDS = ("converged", "iteration limit", "stalled")


@dataclass
class PathResult:
    """Every cell of a grid.

    gammas : float64 (n_gammas,); Cs : float64 (n_C,), as given
    n_errors : int64 (n_gammas, n_C, n_folds)
    n_support, n_iterations : int64, the same shape; support vectors are counted
        once for all the binary problems of a cell
    status : int64, the same shape: the worst of the cell's problems, an index
        into ``STATUS_WORDS``
    fit_seconds, score_seconds : float64, the same shape; a fold's time is shared
        out over its C's, fitting in proportion to iterations
    objectives : float64 (n_gammas, n_C, n_folds, n_problems)
    n_train, n_validation : int64 (n_folds,)
    predictions : list (n_gammas) of lists (n_folds) of int64 (n_C, n_validation),
        class numbers, or None
    decisions : the same of float32 (n_C, n_validation, n_problems), or None
    phases : seconds of wall time of each phase
    """

    gammas: np.ndarray
    Cs: np.ndarray
    classes: np.ndarray
    n_errors: np.ndarray
    n_support: np.ndarray
    n_iterations: np.ndarray
    status: np.ndarray
    fit_seconds: np.ndarray
    score_seconds: np.ndarray
    objectives: np.ndarray
    n_train: np.ndarray
    n_validation: np.ndarray
    predictions: list | None = None
    decisions: list | None = None
    phases: dict[str, float] = field(default_factory=dict)


class _Clock:
    """Adds up wall time by phase."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> float:
        now = time.perf_counter()
        spent, self._last = now - self._last, now
        self.phases[phase] = self.phases.get(phase, 0.0) + spent
        return spent


def _check(X: np.ndarray, y: np.ndarray, gammas: np.ndarray, Cs: np.ndarray, folds: list) -> None:
    if X.ndim != 2 or len(X) != len(y):
        raise ValueError(f"X must have shape (n, n_features) with n = len(y), got {X.shape}")
    if not np.isfinite(X).all():
        raise ValueError("X must be finite, got NaN or infinity")
    for name, values in (("gammas", gammas), ("Cs", Cs)):
        if values.size == 0 or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"{name} must be finite and above 0, got {values.tolist()}")
    if not folds:
        raise ValueError("folds must hold at least 1 (train, validation) pair, got 0")


def fits_in_memory(n: int, memory_bytes: int) -> bool:
    """Whether shared products and one kernel of all rows may be held at once."""
    return 2 * 4 * n * n <= 0.8 * memory_bytes


def cross_validate_path(
    X: np.ndarray,
    y: np.ndarray,
    gammas: Sequence[float] | float,
    Cs: Sequence[float],
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    decision: str = "ovo",
    tol: float = 1e-3,
    max_iter: int = -1,
    n_threads: int | None = None,
    memory_bytes: int = 4 << 30,
    class_weight: dict | str | None = None,
    kernel: str = "rbf",
    degree: int = 3,
    coef0: float = 0.0,
    return_predictions: bool = False,
    return_decisions: bool = False,
    kept: dict[str, np.ndarray] | None = None,
) -> PathResult:
    """Validate C-SVC for every gamma and C on every fold.

    Parameters
    ----------
    X : float array of shape (n, n_features)
    y : array of shape (n,), at least two labels
    gammas : one or more, above 0 (not used by the linear kernel)
    Cs : one or more, above 0, in any order
    folds : (train, validation) index arrays of any scikit-learn splitter; an
        index that repeats in train counts as often
    decision : ``"ovo"`` as ``SVC``, or ``"ovr"`` as ``OneVsRestClassifier(SVC())``
    tol : LIBSVM's stopping tolerance
    max_iter : largest number of SMO iterations for one C of one binary problem;
        -1 for LIBSVM's limit
    n_threads : None for every core this process may use
    memory_bytes : beyond it the kernel is made block by block
    class_weight : None, ``"balanced"`` or a mapping of labels
    kept : what calls with the same X, y, folds and kernel share: an empty dict at the
        first of them; without it distances are made anew in each call

    Returns
    -------
    PathResult

    Raises
    ------
    ValueError
        With the name of the argument, the rule and what was given.
    """
    X, y = np.asarray(X), np.asarray(y)
    gamma_values = np.atleast_1d(np.asarray(gammas, dtype=np.float64))
    C_values = np.asarray(Cs, dtype=np.float64)
    folds = [(np.asarray(train), np.asarray(validation)) for train, validation in folds]
    _check(X, y, gamma_values, C_values, folds)
    clock = _Clock()
    layout = sort_rows(y, first_validation_fold(folds, len(y)))
    weights = fold_weights(folds, layout.order)
    place = np.empty_like(layout.order)
    place[layout.order] = np.arange(len(y))
    ascending = np.argsort(C_values, kind="stable")
    search = _Search(
        layout, problems_of(layout.n_classes, decision), weights,
        [place[validation] for _, validation in folds],
        Settings(np.ascontiguousarray(C_values[ascending]), tol, max_iter, class_weight),
        Kernel(kernel, degree, coef0), return_decisions, {} if kept is None else kept,
    )  # fmt: skip
    rows = prepare_rows(X, search.kernel)[layout.order]
    clock.lap("sort")
    result = _empty_result(gamma_values, C_values, search, folds, return_predictions)
    with open_pool(n_threads) as pool:
        for g, (solutions, scores, score_seconds) in enumerate(
            search.run(rows, gamma_values, pool, memory_bytes, clock)
        ):
            _fill(result, g, ascending, search, solutions, scores, score_seconds)
    result.phases = clock.phases
    return result


@dataclass(frozen=True)
class _Search:
    """One call's problems, prepared."""

    layout: Layout
    problems: list
    weights: np.ndarray
    validation: list[np.ndarray]
    settings: Settings
    kernel: Kernel
    with_values: bool
    kept: dict[str, np.ndarray]

    def run(
        self, rows: np.ndarray, gammas: np.ndarray, pool: Executor, memory_bytes: int, clock: _Clock
    ) -> Iterator[tuple[Solutions, list[Scores], np.ndarray]]:
        """Solutions and scores of each gamma, in order."""
        if fits_in_memory(len(rows), memory_bytes):
            yield from self._run_in_memory(rows, gammas, pool, clock)
        elif self.problems[0].second is not None:
            yield from solve_and_score_pairwise(self, rows, gammas, pool, memory_bytes, clock)
        else:
            raise MemoryError(
                f"decision='ovr' needs {8 * len(rows) ** 2 / 0.8:.3g} bytes for {len(rows)} rows, "
                f"got memory_bytes={memory_bytes}; raise it, or use decision='ovo'"
            )

    def _run_in_memory(self, rows, gammas, pool, clock):
        if not self.kept:
            self.kept["products"] = shared_products(rows, self.kernel, pool)
            self.kept["values"] = np.empty_like(self.kept["products"])
        shared, values = self.kept["products"], self.kept["values"]
        clock.lap("distances")
        for gamma in gammas:
            kernel_values(shared, self.kernel, gamma, values, pool)
            clock.lap("kernel")
            solutions = empty_solutions(
                len(self.weights), len(self.problems), self.settings.Cs.size, len(rows)
            )
            one_vs_one = self.problems[0].second is not None
            solve = solve_pairs if one_vs_one else solve_rest
            solve(values, self.layout, self.problems, self.weights, self.settings, solutions, pool)
            clock.lap("solve")

            score = partial(self._score_fold, values, solutions)
            scores, seconds = zip(*pool.map(score, range(len(self.weights))), strict=True)
            clock.lap("score")
            yield solutions, list(scores), np.array(seconds)

    def _score_fold(
        self, values: np.ndarray, solutions: Solutions, fold: int
    ) -> tuple[Scores, float]:
        """Scores of a fold from the kernel of all rows, and the seconds they took."""
        began, rows = time.perf_counter(), self.validation[fold]
        if self.problems[0].second is None:
            found = score_rest(rows, fold, solutions, self.with_values)
        else:
            found = score_pairs(values, rows, fold, solutions, self.layout, self.with_values)
        return found, time.perf_counter() - began


def _empty_result(gammas, Cs, search: _Search, folds, return_predictions: bool) -> PathResult:
    shape = (gammas.size, Cs.size, len(folds))
    integers = [np.zeros(shape, np.int64) for _ in range(4)]
    return PathResult(
        gammas, Cs, search.layout.classes, *integers, np.zeros(shape), np.zeros(shape),
        np.zeros((*shape, len(search.problems))),
        np.array([len(train) for train, _ in folds]),
        np.array([len(validation) for _, validation in folds]),
        [None] * gammas.size if return_predictions else None,
        [None] * gammas.size if search.with_values else None,
    )  # fmt: skip


def _fill(
    result: PathResult,
    g: int,
    ascending: np.ndarray,
    search: _Search,
    solutions: Solutions,
    scores: list[Scores],
    score_seconds: np.ndarray,
) -> None:
    """Write one gamma's cells, C's back in the caller's order."""
    iterations = solutions.iterations.sum(axis=1)
    effort = iterations + 1.0
    effort *= solutions.seconds.sum(axis=1)[:, None] / effort.sum(axis=1, keepdims=True)
    result.n_iterations[g, ascending] = iterations.T
    result.n_support[g, ascending] = solutions.support.sum(axis=2).T
    result.status[g, ascending] = solutions.status.max(axis=1).T
    result.objectives[g, ascending] = solutions.objectives.transpose(2, 0, 1)
    result.fit_seconds[g, ascending] = effort.T
    result.score_seconds[g] = score_seconds / ascending.size
    for fold, score in enumerate(scores):
        truth = search.layout.codes[search.validation[fold]]
        result.n_errors[g, ascending, fold] = (score.codes != truth[:, None]).sum(axis=0)
    back = np.argsort(ascending)
    if result.predictions is not None:
        result.predictions[g] = [score.codes.T[back] for score in scores]
    if result.decisions is not None:
        result.decisions[g] = [score.values.transpose(2, 0, 1)[back] for score in scores]
