"""Cross-validation of a whole grid of C and gamma on one GPU."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipelines.data.placement import to_host
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
)
from pipelines.svm.cuda.launches import Found, Launching, solve_table
from pipelines.svm.cuda.memory import Plan, plan_memory
from pipelines.svm.cuda.score import join_scores, score_rows, second_of
from pipelines.svm.cuda.table import make_table, sorted_rows
from pipelines.svm.path_result import PathResult, Scores, checked, empty_result, fill_fold
from pipelines.svm.search import Form, Search, search_folds
from pipelines.svm.solutions import Solutions


@dataclass
class Traffic:
    """The bytes that a search moved and held.

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
    """Adds up wall time by phase, read after the device has finished; watches its memory, too."""

    def __init__(self, xp: Any) -> None:
        self._xp, self.traffic, self._last = xp, Traffic(), time.perf_counter()

    def lap(self, phase: str) -> float:
        synchronise(self._xp)
        traffic, now = self.traffic, time.perf_counter()
        traffic.peak_bytes = max(traffic.peak_bytes, taken_bytes(self._xp))
        spent, self._last = now - self._last, now
        traffic.phases[phase] = traffic.phases.get(phase, 0.0) + spent
        return spent


def cross_validate_path_cuda(
    X: Any, y: np.ndarray, gammas: Any, Cs: Any, folds: Any, **options: Any
) -> PathResult:
    """Validate C-SVC for every gamma and C on every fold; see ``measure_path_cuda``."""
    return measure_path_cuda(X, y, gammas, Cs, folds, **options)[0]


def measure_path_cuda(
    X: Any,
    y: np.ndarray,
    gammas: Sequence[float] | float,
    Cs: Sequence[float],
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    memory_bytes: int | None = None,
    launching: Launching | None = None,
    return_predictions: bool = False,
    return_decisions: bool = False,
    xp: Any = None,
    **form: Any,
) -> tuple[PathResult, Traffic]:
    """Run ``cross_validate_path`` and also return its traffic and waiting times.

    Parameters
    ----------
    X : float array of shape (n, n_features), numpy or on the device
    memory_bytes : device memory that may be used; None for what is free
    launching : how the solver is launched
    xp : array module; None for cupy, or numpy under the simulator

    The others are as for ``cross_validate_path``.

    Raises
    ------
    ValueError, MemoryError
        With the name of the argument, the rule and what was given.
    """
    if launching is not None:
        check_block_size(launching.block_size)
    xp, limit = array_module(xp), limits()
    y, gamma_values, C_values, folds = checked(to_host(X), y, gammas, Cs, folds)
    with own_memory(xp):
        clock = _Clock(xp)
        search, ascending = search_folds(
            y, C_values, folds, Form(**form), with_values=return_decisions
        )
        launching = launching or Launching.for_rows(_largest_problem(search))
        plan = _plan(search, X.shape[1], gamma_values.size, memory_bytes, launching, limit, xp)
        launching = replace(
            launching, capacity=plan.members, most_blocks=plan.n_blocks,
            hard_members=plan.hard_members,
        )  # fmt: skip
        rows = prepare_rows(X, search.kernel, xp, limit.fast_float64)
        rows = rows[xp.asarray(search.layout.order)]
        clock.lap("sort")
        result = empty_result(gamma_values, C_values, search, folds, return_predictions)
        grid = _Grid(search, rows, plan, launching, limit, xp, clock)
        for g, (solutions, scores, seconds) in enumerate(grid.run(gamma_values)):
            for fold, (score, spent) in enumerate(zip(scores, seconds, strict=True)):
                fill_fold(result, (g, fold), ascending, search, solutions, score, spent)
            clock.lap("collect")
        del rows, grid  # before their pool is emptied
    return result, clock.traffic


def _largest_problem(search: Search) -> int:
    """Return rows of the binary problem that has the most, those to validate counted in."""
    sizes = np.sort(np.diff(search.layout.starts))
    return int((sizes[-2:] if search.one_vs_one else sizes).sum())


def _plan(search, n_features, n_gammas, memory_bytes, launching, limit: Limits, xp) -> Plan:
    sizes = np.sort(np.diff(search.layout.starts))
    largest = _largest_problem(search)
    members = launching.members(limit, largest)
    return plan_memory(
        int(sizes.sum()), n_features, search.layout.n_classes, search.settings.Cs.size, n_gammas,
        len(search.weights), "ovo" if search.one_vs_one else "ovr",
        free_bytes(xp) if memory_bytes is None else memory_bytes,
        largest_problem=largest, largest_pair=int(sizes[-2:].sum()),
        largest_class=int(sizes[-1]),
        n_blocks=launching.n_blocks(limit, launching.most_blocks or 1 << 30),
        members=members, block_size=launching.block_size,
        hard_members=launching.hard_width(members, n_features, search.kernel),
    )  # fmt: skip


class _Grid:
    """The search of one call on the device."""

    def __init__(self, search: Search, rows: Any, plan: Plan, launching: Launching,
                 limit: Limits, xp: Any, clock: _Clock) -> None:  # fmt: skip
        self.search, self.rows, self.plan = search, rows, plan
        self.launching, self.limit, self.xp, self.clock = launching, limit, xp, clock
        # (products of all rows, the problems solved from them); None where they do not fit
        self.whole: Any = None

    def run(self, gammas: np.ndarray) -> Iterator[tuple[Solutions, list[Scores], np.ndarray]]:
        """Yield solutions and scores of each gamma, in order; as many at once as memory holds."""
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
        """Solve all problems for some gammas; entries are folds x problems."""
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
        scores, score_seconds = self._score(gammas, coefficients, found)
        # A problem's part of the launch: what its iterations read.
        effort = found.visited + 1.0
        effort *= seconds / effort.sum()
        for g in range(len(gammas)):
            out = self.search.empty_solutions()
            out.intercepts, out.objectives = found.intercepts[g], found.objectives[g]
            out.iterations, out.status = found.iterations[g], found.status[g]
            out.solved, out.seconds = found.solved[g], effort[g]
            for fold in range(len(self.search.weights)):
                used = (coefficients[g, fold] != 0).any(axis=0)
                out.support[fold] = to_host(xp.ascontiguousarray(used))
            yield out, scores[g], score_seconds[g]

    def _score(self, gammas, coefficients, found: Found):
        """Return scores of every gamma and fold, and their seconds."""
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
        """Return scores of a fold in the order of its validation rows."""
        n_C = self.search.settings.Cs.size
        if not pieces:
            n_problems = len(self.search.problems)
            values = np.empty((0, n_problems, n_C), np.float32)
            return Scores(np.empty((0, n_C), np.int64), values if self.search.with_values else None)
        found = join_scores(pieces, self.search.with_values, n_C, different)
        return Scores.of([found], np.argsort(np.concatenate(order)))

    def _row_blocks(self) -> Iterator[tuple[Any, int]]:
        """Yield the shared products of blocks of rows with all rows, and each block's first row."""
        if self.plan.whole:
            yield self.whole, 0
            return
        for at in range(0, len(self.rows), self.plan.score_rows):
            some = self.rows[at : at + self.plan.score_rows]
            shared = cross_products(some, self.rows, self.search.kernel, self.xp)
            self.clock.lap("distances")
            yield shared, at


def _join_found(parts: list[Found], n_folds: int) -> Found:
    """Join launches for different problems; fields become n_gammas x n_folds x n_problems."""

    def join(name: str) -> np.ndarray:
        fields = [getattr(part, name) for part in parts]
        split = [f.reshape(f.shape[0], n_folds, -1, *f.shape[2:]) for f in fields]
        return np.concatenate(split, axis=2)

    return Found(*(join(name) for name in Found.__dataclass_fields__))
