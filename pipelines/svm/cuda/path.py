"""Cross-validation of a whole grid of C and gamma, and the fit of one model, on a GPU."""

import logging
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.data.fits import Fit, Progress
from pipelines.data.placement import to_host
from pipelines.svm.cpu.fit import FittedPath, model_of, path_to
from pipelines.svm.cuda.gpu import (
    Limits,
    array_module,
    free_bytes,
    in_own_memory,
    is_device_out_of_memory,
    limits,
    own_memory,
    synchronise,
)
from pipelines.svm.cuda.hard import ROWS, exact_source
from pipelines.svm.cuda.launches import Launching, solve_table, sorted_rows
from pipelines.svm.cuda.memory import MemoryPlan, plan_memory
from pipelines.svm.cuda.products import (
    affords_float64,
    device_cross_products,
    prepare_device_rows,
    products_for_solver,
    score_rows,
)
from pipelines.svm.grid_cells import PathResult, Scores, fits_of_fold
from pipelines.svm.search import PathSearch, as_arrays, search_all_rows, search_folds
from pipelines.svm.settings import Settings
from pipelines.svm.solutions import Solutions

# The free memory is divided by these: if an allocation fails the next one is tried.
_DIVISORS = 1, 2, 4


class GPUMemoryError(RuntimeError):
    """A GPU lacks the memory that was planned; another process may have taken it meanwhile."""


class _Clock:
    """Adds up wall time by phase, measured after the device has finished its work."""

    def __init__(self, xp: Any, phases: dict[str, float]) -> None:
        self._xp, self._phases = xp, phases
        self.resume()

    def resume(self) -> None:
        """Restart, so that the time since the last lap does not count."""
        self._last = time.perf_counter()

    def lap(self, phase: str) -> float:
        """Wait for the device, and add the seconds since the last lap to a phase."""
        synchronise(self._xp)
        now = time.perf_counter()
        lap_seconds, self._last = now - self._last, now
        self._phases[phase] = self._phases.get(phase, 0.0) + lap_seconds
        return lap_seconds


def cross_validate_path_cuda(
    X: Any, y: np.ndarray, gammas: Any, Cs: Any, folds: Any, **options: Any
) -> PathResult:
    """Cross-validate C-SVC on a GPU, and collect every cell in arrays.

    Parameters
    ----------
    X, y, gammas, Cs, folds, **options
        As for ``solve_path_cuda``.
    """
    fits = solve_path_cuda(X, y, gammas, Cs, folds, **options)
    return PathResult.of(fits, y, gammas, Cs, folds)


def solve_path_cuda(
    X: Any,
    y: np.ndarray,
    gammas: Sequence[float] | float,
    Cs: Sequence[float],
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    *,
    memory_bytes: int | None = None,
    launching: Launching | None = None,
    return_decisions: bool = False,
    xp: Any = None,
    phases: dict[str, float] | None = None,
    **form: Any,
) -> Iterator[Fit | Progress]:
    """Cross-validate C-SVC for every gamma and C on every fold, many gammas at once.

    Parameters
    ----------
    X : float array of shape (n, n_features)
        A numpy array or a device array.
    y, gammas, Cs, folds, return_decisions, **form
        As for ``solve_path``.
    memory_bytes : int, optional
        Bytes of device memory that may be used; None for all that is free. If an allocation fails
        nevertheless, the remaining gammas are planned with half of it, then with a quarter.
    launching : Launching, optional
        How the solver is launched; None for a configuration that suits the size of the problems.
    xp : module, optional
        None for cupy, or numpy under the simulator.
    phases : dict, optional
        Wall seconds of each phase are added to it.

    Yields
    ------
    Fit or Progress
        As for ``solve_path``; progress after each launch.

    Raises
    ------
    ValueError
        As ``solve_path``.
    MemoryError
        The device's memory is too small for the smallest plan, see ``plan_memory``.
    GPUMemoryError
        Allocations failed even with a quarter of the memory.
    """
    xp, limit = array_module(xp), limits()
    y, gamma_values, C_values, folds = as_arrays(to_host(X), y, gammas, Cs, folds)
    search, ascending = search_folds(
        y, C_values, folds, Settings(**form), with_values=return_decisions
    )
    n_done, refusal = 0, ""
    for divisor in _DIVISORS:
        with own_memory(xp):  # frees what a failed attempt has left
            memory = (free_bytes(xp) if memory_bytes is None else memory_bytes) // divisor
        n_before, n_left = n_done, gamma_values.size - n_done
        try:
            plan, planned = _plan(search, X.shape[1], n_left, memory, launching)
        except MemoryError as error:
            if not refusal:
                raise
            refusal += f"; {error}"
            break
        if refusal:
            logging.getLogger(__name__).warning(
                f"the GPU has less memory than was free ({refusal}): planned again with "
                f"{memory:,} bytes"
            )
        clock = _Clock(xp, {} if phases is None else phases)
        grid = _Grid(search, plan, planned, limit, xp, clock)
        try:
            for item in in_own_memory(xp, grid.run(X, gamma_values[n_before:])):
                if isinstance(item, Progress):
                    yield item.within(n_before / gamma_values.size, n_left / gamma_values.size)
                else:
                    solutions, scores, seconds = item
                    fits = [
                        fit
                        for fold, (score, score_seconds) in enumerate(
                            zip(scores, seconds, strict=True)
                        )
                        for fit in fits_of_fold(
                            n_done, fold, ascending, search, solutions, score, score_seconds
                        )
                    ]
                    clock.lap("collect")
                    n_done += 1
                    yield from fits
                clock.resume()
            return
        except Exception as error:
            if not is_device_out_of_memory(error):
                raise
            refusal = str(error)
    raise GPUMemoryError(f"out of memory: {refusal}")


def _plan(
    search: PathSearch,
    n_features: int,
    n_gammas: int,
    memory_bytes: int,
    launching: Launching | None,
) -> tuple[MemoryPlan, Launching]:
    """Plan the device's memory, and configure launches that keep to the plan."""
    limit, largest, n = limits(), _largest_problem(search), len(search.layout.order)
    launching = launching or Launching.for_rows(largest)
    members = launching.members(limit, largest)
    hard_members = launching.hard_width(members, search.kernel)
    if exact_source(n_features) != ROWS and not affords_float64(n, n_features, limit.fast_float64):
        hard_members = 0
    plan = plan_memory(
        np.diff(search.layout.starts),
        n_features,
        search.Cs.size,
        n_gammas,
        len(search.weights),
        search.one_vs_one,
        memory_bytes,
        n_blocks=launching.n_blocks(limit, launching.most_blocks or 1 << 30),
        members=members,
        block_size=launching.block_size,
        hard_members=hard_members,
    )
    return plan, replace(
        launching,
        capacity=plan.members,
        most_blocks=plan.n_blocks,
        hard_members=plan.hard_members,
    )


def _largest_problem(search: PathSearch) -> int:
    """Rows of the largest binary problem, training and validation together."""
    sizes = np.sort(np.diff(search.layout.starts))
    return int((sizes[-2:] if search.one_vs_one else sizes).sum())


@dataclass
class _Grid:
    """The search of one call on the device."""

    search: PathSearch
    plan: MemoryPlan
    launching: Launching
    limit: Limits
    xp: Any
    clock: _Clock

    def run(
        self, X: Any, gammas: np.ndarray
    ) -> Generator[tuple[Solutions, list[Scores], np.ndarray] | Progress]:
        """Yield solutions, scores and seconds of each gamma, in order, and progress.

        As many gammas are solved at once as the plan allows.
        """
        search, xp = self.search, self.xp
        rows = prepare_device_rows(X, search.kernel, xp, self.limit.fast_float64)
        rows = rows[xp.asarray(search.layout.order)]
        self.clock.lap("sort")
        products = source = None  # the products of all rows, and ``hard``'s source, where they fit
        if self.plan.whole:
            products, source = self._products(rows)
        shape = (
            min(self.plan.n_gammas, len(gammas)),
            len(search.weights),
            search.layout.n_classes,
            search.Cs.size,
            len(rows),
        )
        coefficients = xp.empty(shape, np.float32)
        for at in range(0, len(gammas), shape[0]):
            batch = gammas[at : at + shape[0]]
            coefficients[...] = 0
            solutions = [search.empty_solutions() for _ in batch]
            solved = self._solve(
                rows, products, source, batch, coefficients[: len(batch)], solutions
            )
            for fraction in solved:
                yield Progress(fraction).within(at / len(gammas), len(batch) / len(gammas))
            scores, seconds = self._score(rows, products, batch, coefficients, solutions)
            for g, out in enumerate(solutions):
                for fold in range(len(search.weights)):
                    used = (coefficients[g, fold] != 0).any(axis=0)
                    out.support[fold] = to_host(xp.ascontiguousarray(used))
                yield out, scores[g], seconds[g]

    def _products(self, rows: Any) -> tuple[Any, Any]:
        """``products_for_solver`` of some rows, as planned."""
        plan = self.plan
        products = products_for_solver(
            rows, self.search.kernel, self.xp, bool(plan.hard_members), plan.product_rows
        )
        self.clock.lap("distances")
        return products

    def _solve(
        self,
        all_rows: Any,
        products: Any,
        source: Any,
        gammas: np.ndarray,
        coefficients: Any,
        out: list[Solutions],
    ) -> Iterator[float]:
        """Solve all problems for some gammas, at once or pair by pair; yield the fraction done."""
        search, layout, seconds = self.search, self.search.layout, 0.0
        numbers = list(range(len(search.problems)))
        groups: list[Any] = [(range(layout.n_classes), numbers)]
        if products is None:
            groups = [((p.first, p.second), [i]) for i, p in enumerate(search.problems)]
        for n_done, (classes, problem_numbers) in enumerate(groups):
            shared, exact = products, source
            if shared is None:
                rows = all_rows[self.xp.asarray(sorted_rows(layout, classes))]
                shared, exact = self._products(rows)
            for fraction in solve_table(
                search,
                problem_numbers,
                classes,
                shared,
                exact,
                gammas,
                coefficients,
                out,
                self.xp,
                self.launching,
                self.limit,
            ):
                seconds += self.clock.lap("solve")
                yield (n_done + fraction) / len(groups)
            seconds += self.clock.lap("solve")
        # A problem's share of the time is its share of the iterations.
        effort = np.stack([solutions.iterations.sum(axis=2) for solutions in out]) + 1.0
        effort *= seconds / effort.sum()
        for solutions, problem_seconds in zip(out, effort, strict=True):
            solutions.seconds = problem_seconds

    def _score(self, all_rows, products, gammas, coefficients, solutions: list[Solutions]):
        """The scores of every gamma and fold, and their seconds."""
        xp, search = self.xp, self.search
        n_C, n_problems = search.Cs.size, len(search.problems)
        scores = [
            [
                Scores(
                    np.empty((len(rows), n_C), np.int64),
                    np.empty((len(rows), n_problems, n_C), np.float32)
                    if search.with_values
                    else None,
                )
                for rows in search.validation
            ]
            for _ in gammas
        ]
        seconds = np.zeros((len(gammas), len(search.validation)))
        step = len(all_rows) if self.plan.whole else self.plan.score_rows
        for first in range(0, len(all_rows), step):
            shared = products
            if shared is None:
                block = all_rows[first : first + step]
                shared = device_cross_products(block, all_rows, search.kernel, xp)
                self.clock.lap("distances")
            for fold, validation in enumerate(search.validation):
                at = np.flatnonzero((validation >= first) & (validation < first + len(shared)))
                for begin in range(0, at.size, self.plan.score_rows):
                    batch = at[begin : begin + self.plan.score_rows]
                    rows = xp.asarray((validation[batch] - first).astype(np.int32))
                    for g, gamma in enumerate(gammas):
                        # The largest C's may share one solution, which is scored once.
                        different = int(solutions[g].solved[fold].max())
                        repeated = np.minimum(np.arange(n_C), different - 1)
                        codes, values = score_rows(
                            shared,
                            rows,
                            coefficients[g, fold][:, :different],
                            xp.asarray(solutions[g].intercepts[fold][:, :different]),
                            search.layout,
                            search.problems,
                            search.kernel,
                            gamma,
                            xp,
                            min(256, self.launching.block_size),
                        )
                        score = scores[g][fold]
                        score.codes[batch] = to_host(codes)[:, repeated]
                        if score.values is not None:
                            score.values[batch] = to_host(values).transpose(1, 0, 2)[..., repeated]
                        seconds[g, fold] += self.clock.lap("score")
        return scores, seconds


def fit_path_cuda(
    X: Any,
    y: np.ndarray,
    C: float = 1.0,
    gamma: float = 1.0,
    *,
    launching: Launching | None = None,
    xp: Any = None,
    **form: Any,
) -> FittedPath:
    """Fit C-SVC for one C and gamma on all rows, like ``pipelines.svm.cpu.fit.fit_path``.

    The pairwise products of all rows must fit in device memory: 4 n² bytes, and twice that for
    Newton's method on rows with many features.

    Parameters
    ----------
    X : float array of shape (n, n_features), a numpy array or a device array
    y : array of shape (n,)
    C, gamma : float
        Above 0.
    launching, xp, **form
        As for ``solve_path_cuda``.

    Returns
    -------
    FittedPath
    """
    xp, limit = array_module(xp), limits()
    search = search_all_rows(y, path_to(C), gamma, Settings(**form))
    layout, kernel, out = search.layout, search.kernel, search.empty_solutions()
    with own_memory(xp):
        plan, launching = _plan(search, X.shape[1], 1, free_bytes(xp), launching)
        exact = bool(plan.hard_members) and (plan.whole or exact_source(X.shape[1]) == ROWS)
        rows = prepare_device_rows(X, kernel, xp, limit.fast_float64)[xp.asarray(layout.order)]
        shape = (1, 1, layout.n_classes, search.Cs.size, len(rows))
        coefficients = xp.zeros(shape, np.float32)
        for _ in solve_table(
            search,
            range(len(search.problems)),
            range(layout.n_classes),
            *products_for_solver(rows, kernel, xp, exact, plan.product_rows),
            np.array([gamma]),
            coefficients,
            [out],
            xp,
            launching,
            limit,
        ):
            pass  # an interrupt is noticed between launches
        # Element p of a row is its multiplier against class p, or in problem p.
        last = np.ascontiguousarray(to_host(coefficients[0, 0, :, -1]).T)
        del rows, coefficients  # before their pool is emptied
    out.support[0, -1] = (last != 0).any(axis=1)
    return model_of(layout, search.problems, out, last)
