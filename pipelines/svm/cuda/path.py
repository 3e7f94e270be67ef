"""Cross-validation of a whole grid of C and gamma on one GPU."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipelines.svm.cuda.distances import cross_products, prepare_rows, symmetric_products
from pipelines.svm.cuda.gpu import (
    Limits,
    array_module,
    check_block_size,
    free_bytes,
    limits,
    own_memory,
    synchronise,
    taken_bytes,
    to_host,
)
from pipelines.svm.cuda.launches import Found, Launching, solve_table
from pipelines.svm.cuda.memory import Plan, plan_memory
from pipelines.svm.cuda.score import join_scores, score_rows, second_of
from pipelines.svm.cuda.table import make_table, sorted_rows
from pipelines.svm.kernel import Kernel
from pipelines.svm.path_result import PathResult, Scores, check_input, empty_result, fill_cells
from pipelines.svm.problems import (
    ClassWeight,
    first_validation_fold,
    fold_weights,
    problems_of,
    sort_rows,
)
from pipelines.svm.search import Search, Settings
from pipelines.svm.solutions import Solutions, empty_solutions


@dataclass
class Traffic:
    """What a search moved and held.

    phases : wall seconds of each phase, the device waited for
    smo_bytes : of kernel rows and shared products that SMO read: 4 for a value, and the whole
        sector of 32 where few values of one are wanted. What a cache answered is counted, too
    peak_bytes : the most device memory taken for our arrays (0: simulator)
    n_launches : of the solver
    """

    phases: dict[str, float] = field(default_factory=dict)
    smo_bytes: int = 0
    peak_bytes: int = 0
    n_launches: int = 0


class _Clock:
    """Adds up wall time by phase, after the device is done, and watches its memory."""

    def __init__(self, xp: Any) -> None:
        self.traffic = Traffic()
        self._xp, self._last = xp, time.perf_counter()

    def lap(self, phase: str) -> float:
        synchronise(self._xp)
        now = time.perf_counter()
        spent, self._last = now - self._last, now
        self.traffic.phases[phase] = self.traffic.phases.get(phase, 0.0) + spent
        self.traffic.peak_bytes = max(self.traffic.peak_bytes, taken_bytes(self._xp))
        return spent


def cross_validate_path_cuda(
    X: Any,
    y: np.ndarray,
    gammas: Sequence[float] | float,
    Cs: Sequence[float],
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    decision: str = "ovo",
    tol: float = 1e-3,
    max_iter: int = -1,
    class_weight: ClassWeight = None,
    kernel: str = "rbf",
    degree: int = 3,
    coef0: float = 0.0,
    memory_bytes: int | None = None,
    block_size: int | None = None,
    launching: Launching | None = None,
    return_predictions: bool = False,
    return_decisions: bool = False,
    xp: Any = None,
) -> PathResult:
    """Validate C-SVC for every gamma and C on every fold; as ``cross_validate_path``.

    Parameters
    ----------
    X : float array of shape (n, n_features), numpy or on the device
    memory_bytes : device memory that may be used; None for what is free
    block_size : threads of a block, in place of ``launching``'s
    launching : how the solver is launched
    xp : array module; None for cupy, or numpy under the simulator

    The others are as for ``cross_validate_path``.

    Returns
    -------
    PathResult

    Raises
    ------
    ValueError, MemoryError
        With the name of the argument, the rule and what was given.
    """
    xp = array_module(xp)
    with own_memory(xp):
        return _cross_validate(
            X, y, gammas, Cs, folds, decision, Settings(np.empty(0), tol, max_iter, class_weight),
            Kernel(kernel, degree, coef0), memory_bytes, _launching(launching, block_size),
            return_predictions, return_decisions, xp,
        )[0]  # fmt: skip


def measure_path_cuda(
    X: Any, y: np.ndarray, gammas: Any, Cs: Any, folds: Any, **options: Any
) -> tuple[PathResult, Traffic]:
    """``cross_validate_path_cuda``, and what it moved, held and waited for."""
    xp = array_module(options.pop("xp", None))
    settings = Settings(
        np.empty(0), options.pop("tol", 1e-3), options.pop("max_iter", -1),
        options.pop("class_weight", None),
    )  # fmt: skip
    form = Kernel(options.pop("kernel", "rbf"), options.pop("degree", 3), options.pop("coef0", 0.0))
    launching = _launching(options.pop("launching", None), options.pop("block_size", None))
    with own_memory(xp):
        return _cross_validate(
            X, y, gammas, Cs, folds, options.pop("decision", "ovo"), settings, form,
            options.pop("memory_bytes", None), launching,
            options.pop("return_predictions", False), options.pop("return_decisions", False),
            xp, **options,
        )  # fmt: skip


def _launching(launching: Launching | None, block_size: int | None) -> Launching | None:
    if block_size is not None:
        launching = replace(launching or Launching(), block_size=block_size)
    if launching is not None:
        check_block_size(launching.block_size)
    return launching


def _cross_validate(
    X, y, gammas, Cs, folds, decision, settings, form, memory_bytes, launching,
    return_predictions, return_decisions, xp,
):  # fmt: skip
    y = np.asarray(y)
    gamma_values = np.atleast_1d(np.asarray(gammas, dtype=np.float64))
    C_values = np.asarray(Cs, dtype=np.float64)
    folds = [(np.asarray(train), np.asarray(validation)) for train, validation in folds]
    check_input(to_host(X), y, gamma_values, C_values, folds)
    clock = _Clock(xp)
    layout = sort_rows(y, first_validation_fold(folds, len(y)))
    place = np.empty_like(layout.order)
    place[layout.order] = np.arange(len(y))
    ascending = np.argsort(C_values, kind="stable")
    search = Search(
        layout, problems_of(layout.n_classes, decision), fold_weights(folds, layout.order),
        [place[validation] for _, validation in folds],
        Settings(np.ascontiguousarray(C_values[ascending]), settings.tol, settings.max_iter,
                 settings.class_weight),
        form, return_decisions,
    )  # fmt: skip
    limit = limits()
    largest = _largest_problem(search)
    launching = launching or Launching.for_rows(largest)
    plan = _plan(search, X.shape[1], gamma_values.size, memory_bytes, launching, limit, xp)
    launching = replace(
        launching, capacity=plan.members, most_blocks=plan.n_blocks, hard_members=plan.hard_members
    )  # fmt: skip
    rows = prepare_rows(X, form, xp, limit.fast_float64)[xp.asarray(layout.order)]
    clock.lap("sort")
    result = empty_result(gamma_values, C_values, search, folds, return_predictions)
    grid = _Grid(search, rows, plan, launching, limit, xp, clock)
    for g, (solutions, scores, seconds) in enumerate(grid.run(gamma_values)):
        fill_cells(result, g, ascending, search, solutions, scores, seconds)
        clock.lap("collect")
    result.phases = clock.traffic.phases
    return result, clock.traffic


def _largest_problem(search: Search) -> int:
    """Rows of the binary problem that has the most, those to validate counted in."""
    sizes = np.sort(np.diff(search.layout.starts))
    return int((sizes[-2:] if search.problems[0].second is not None else sizes).sum())


def _plan(search, n_features, n_gammas, memory_bytes, launching, limit: Limits, xp) -> Plan:
    sizes = np.sort(np.diff(search.layout.starts))
    one_vs_one, largest = search.problems[0].second is not None, _largest_problem(search)
    members = launching.members(limit, largest)
    return plan_memory(
        int(sizes.sum()), n_features, search.layout.n_classes, search.settings.Cs.size, n_gammas,
        len(search.weights), "ovo" if one_vs_one else "ovr",
        free_bytes(xp) if memory_bytes is None else memory_bytes,
        largest_problem=largest, largest_pair=int(sizes[-2:].sum()),
        largest_class=int(sizes[-1]),
        n_blocks=launching.n_blocks(limit, launching.most_blocks or 1 << 30),
        members=members, block_size=launching.block_size,
        hard_members=launching.hard_width(members, n_features, search.kernel),
    )  # fmt: skip


class _Grid:
    """One call's search on the device."""

    def __init__(self, search: Search, rows: Any, plan: Plan, launching: Launching,
                 limit: Limits, xp: Any, clock: _Clock) -> None:  # fmt: skip
        self.search, self.rows, self.plan = search, rows, plan
        self.launching, self.limit, self.xp, self.clock = launching, limit, xp, clock
        # (products of all rows, the problems solved from them); None where they do not fit
        self.whole: Any = None

    def run(self, gammas: np.ndarray) -> Iterator[tuple[Solutions, list[Scores], np.ndarray]]:
        """Solutions and scores of each gamma, in order; as many at once as memory holds."""
        search, xp, clock = self.search, self.xp, self.clock
        if self.plan.whole:
            self.whole = symmetric_products(self.rows, search.kernel, xp, self.plan.product_rows)
            clock.lap("distances")
        shape = (
            min(self.plan.n_gammas, len(gammas)), len(search.weights), search.layout.n_classes,
            search.settings.Cs.size, len(self.rows),
        )  # fmt: skip
        coefficients = xp.empty(shape, np.float32)
        for at in range(0, len(gammas), shape[0]):
            some = gammas[at : at + shape[0]]
            coefficients[...] = 0
            found, seconds = self._solve(some, coefficients[: len(some)])
            yield from self._collect(some, coefficients, found, seconds)

    def _solve(self, gammas: np.ndarray, coefficients: Any) -> tuple[Found, float]:
        """All problems for some gammas; entries are folds x problems."""
        search, layout = self.search, self.search.layout
        if self.plan.whole:
            groups = [(list(range(layout.n_classes)), search.problems)]
        else:
            pairs = sorted(search.problems, key=lambda p: (p.first, p.second))
            groups = [([p.first, second_of(p)], [p]) for p in pairs]
        parts, seconds = [], 0.0
        for classes, problems in groups:
            table = make_table(
                layout, problems, search.weights, search.settings.class_weight, classes
            )
            inside = sorted_rows(layout, classes)
            shared, rows = self.whole, self.rows
            if shared is None:
                rows = rows[self.xp.asarray(inside)]
                shared = symmetric_products(rows, search.kernel, self.xp, self.plan.product_rows)
                self.clock.lap("distances")
            part = solve_table(
                table, shared, rows, layout, list(classes), search.weights[:, inside], gammas,
                search.settings, search.kernel, coefficients, self.xp, self.launching, self.limit,
            )  # fmt: skip
            seconds += self.clock.lap("solve")
            self.clock.traffic.smo_bytes += 4 * int(part.visited.sum())
            self.clock.traffic.n_launches += 1
            parts.append(part)
        return _join_found(parts, len(search.weights)), seconds

    def _collect(
        self, gammas: np.ndarray, coefficients: Any, found: Found, seconds: float
    ) -> Iterator[tuple[Solutions, list[Scores], np.ndarray]]:
        xp = self.xp
        n_folds, n_problems, n_C = found.iterations.shape[1:]
        scores, score_seconds = self._score(gammas, coefficients, found)
        # A problem's part of the launch: what its iterations read.
        effort = found.visited + 1.0
        effort *= seconds / effort.sum()
        for g in range(len(gammas)):
            out = empty_solutions(n_folds, n_problems, n_C, len(self.rows))
            out.intercepts, out.objectives = found.intercepts[g], found.objectives[g]
            out.iterations, out.status = found.iterations[g], found.status[g]
            out.solved, out.seconds = found.solved[g], effort[g]
            for fold in range(n_folds):
                used = (coefficients[g, fold] != 0).any(axis=0)
                out.support[fold] = to_host(xp.ascontiguousarray(used))
            yield out, scores[g], score_seconds[g]

    def _score(self, gammas, coefficients, found: Found):
        """Scores of every gamma and fold, and their seconds."""
        xp, search = self.xp, self.search
        n_folds = len(search.weights)
        pieces: list = [[[] for _ in range(n_folds)] for _ in gammas]
        order: list = [[[] for _ in range(n_folds)] for _ in gammas]
        seconds = np.zeros((len(gammas), n_folds))
        for shared, first in self._row_blocks():
            for fold, validation in enumerate(search.validation):
                inside = (validation >= first) & (validation < first + len(shared))
                at = np.flatnonzero(inside)
                for begin in range(0, at.size, self.plan.score_rows):
                    some = at[begin : begin + self.plan.score_rows]
                    rows = xp.asarray((validation[some] - first).astype(np.int32))
                    for g, gamma in enumerate(gammas):
                        different = int(found.solved[g, fold].max())
                        intercepts = xp.asarray(found.intercepts[g, fold][:, :different])
                        codes, values = score_rows(
                            shared, rows, coefficients[g, fold][:, :different], intercepts,
                            search.layout, search.problems, search.kernel, gamma, xp,
                            min(256, self.launching.block_size),
                        )  # fmt: skip
                        kept = to_host(values) if search.with_values else values[:, :0]
                        pieces[g][fold].append((to_host(codes), kept))
                        order[g][fold].append(some)
                        seconds[g, fold] += self.clock.lap("score")
        return [
            [self._join(pieces[g][f], order[g][f], int(found.solved[g, f].max()))
             for f in range(n_folds)] for g in range(len(gammas))
        ], seconds  # fmt: skip

    def _join(self, pieces: list, order: list, different: int) -> Scores:
        """Scores of a fold in the order of its validation rows."""
        n_C = self.search.settings.Cs.size
        if not pieces:
            n_problems = len(self.search.problems)
            values = np.empty((0, n_problems, n_C), np.float32)
            return Scores(np.empty((0, n_C), np.int64), values if self.search.with_values else None)
        found = join_scores(pieces, self.search.with_values, n_C, different)
        back = np.argsort(np.concatenate(order))
        return Scores(found.codes[back], None if found.values is None else found.values[back])

    def _row_blocks(self) -> Iterator[tuple[Any, int]]:
        """Shared products with all rows, of all rows or of blocks of them, and the first row."""
        if self.plan.whole:
            yield self.whole, 0
            return
        for at in range(0, len(self.rows), self.plan.score_rows):
            some = self.rows[at : at + self.plan.score_rows]
            shared = cross_products(some, self.rows, self.search.kernel, self.xp)
            self.clock.lap("distances")
            yield shared, at


def _join_found(parts: list[Found], n_folds: int) -> Found:
    """Launches for different problems joined; fields become n_gammas x n_folds x n_problems."""

    def join(name: str) -> np.ndarray:
        fields = [getattr(part, name) for part in parts]
        split = [f.reshape(f.shape[0], n_folds, -1, *f.shape[2:]) for f in fields]
        return np.concatenate(split, axis=2)

    return Found(*(join(name) for name in Found.__dataclass_fields__))
