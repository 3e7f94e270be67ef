"""A search of scikit-learn's as the engine has it: from the calls of its fits, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from pipelines.data.fits import Fit
from pipelines.data.generators import state_of_generators
from pipelines.data.placement import FoldedData, to_device
from pipelines.data.scaling import Scaling
from pipelines.search.calls import FitCalls
from pipelines.search.candidates import Candidate
from pipelines.search.fitting import PLAIN, CandidateGroup, group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared.base import SharedFit
from pipelines.search.shared.narrowing import fitted_inside, is_exact_by_shape, is_seed
from pipelines.search.shared.pipeline_steps import decompose
from pipelines.search.strategies.base import WHOLE, Request
from pipelines.search.tasks import SEARCH, CellKey, Problem, Task, fit_task, make_tasks

AS_WIDE = StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler  # change no number of columns
# With fewer, or where its splits go to several processes, those of one candidate gain nothing.
ROWS_OF_ONE = 1000
MOST_DENSE = 2**29  # bytes of a sparse matrix as an array; a larger one shares nothing


@dataclass(frozen=True, eq=False)
class SearchData(FoldedData):
    """Rows of any form that scikit-learn takes, as an array where a kind of sharing needs one."""

    def scaled(self, device: str, rows: np.ndarray | None = None) -> Any:
        """All rows as a float64 array on a device, made once.

        Raises
        ------
        ValueError
            They have no two dimensions, are complex, or too large a sparse matrix for an array.
        """
        return self.placement.get((device, "dense"), lambda: to_device(self._dense(), device))

    def placed(self) -> dict[str, Any]:
        """Make that array on a GPU; none of rows that cannot be it, as tasks find out and say."""
        try:
            return {"dense": to_device(self._dense(), "gpu")}
        except ValueError:
            return {}

    def _dense(self) -> np.ndarray:
        is_sparse = hasattr(self.X, "toarray")
        if is_sparse and 8 * np.prod(self.X.shape, dtype=float) > MOST_DENSE:
            raise ValueError(f"X is sparse, and as an array has over {MOST_DENSE:,} bytes")
        X = np.asarray(self.X.toarray() if is_sparse else self.X)
        if X.dtype.kind == "c":
            raise ValueError("X is complex")
        X = np.asarray(X, np.float64)
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, got {X.ndim}")
        return X


def problem_of(
    calls: FitCalls, shared_fits: Sequence[SharedFit] = (), as_called: bool = False
) -> Problem:
    """The search that calls of ``_fit_and_score`` make together.

    Parameters
    ----------
    calls : every candidate on every split
    kinds : ways of sharing that go before the usual ones
    as_called : whether fits meet the global generators of random numbers as the calls would
    """
    first = calls.first
    scorer = CandidateScorer(
        (),
        first["scorer"],
        error_score=first.get("error_score", np.nan),
        train_scores=first.get("return_train_score", False),
        fit_params=first["fit_params"],
        score_params=first["score_params"],
    )
    candidates, splits = dict[int, Candidate](), dict[int, tuple[np.ndarray, np.ndarray]]()
    n_rows = n_rows_of(first["X"])
    for (candidate, split), call in zip(calls.cells, calls.arguments, strict=True):
        if candidate not in candidates:
            parameters = call["parameters"] or {}
            estimator = clone(call["estimator"]).set_params(**clone(parameters, safe=False))
            candidates[candidate] = Candidate("search", parameters, estimator)
        if split not in splits:
            rows = call["train"], call["test"]
            splits[split] = _numbers(rows[0], n_rows), _numbers(rows[1], n_rows)
    on_gpu = any(getattr(shared_fit, "device", "cpu") == "gpu" for shared_fit in shared_fits)
    place_rows = SearchData.placed if on_gpu else None
    nothing: Any = None  # a search tests no rows at its end
    data = SearchData(
        first["X"], first["y"], nothing, nothing, (), Scaling("none"), place=place_rows
    )
    estimators = [candidate.estimator for candidate in candidates.values()]
    return Problem(
        data,
        tuple(candidates.values()),
        {(SEARCH, WHOLE): list(splits.values())},
        scorer,
        tuple(group_candidates(estimators, scorer, shared_fits=shared_fits)),
        # As their draws would have done, those of this search depend on the state that it meets.
        seed=None if as_called else state_of_generators(),
    )


def n_rows_of(X: Any) -> int:
    """The number of rows of an array, a table or a list."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _numbers(rows: Any, n_rows: int) -> np.ndarray:
    """The numbers of rows, which may be a mask.

    Raises
    ------
    ValueError
        A mask is of another number of rows.
    """
    rows = np.asarray(rows)
    if rows.dtype == np.bool_ and len(rows) != n_rows:
        raise ValueError(f"a mask of {len(rows)} rows is for {n_rows}")
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows


def results_of(
    problem: Problem, fits: Mapping[CellKey, Fit], fraction: float = WHOLE
) -> list[dict[str, Any]]:
    """The results of all fits of a search in scikit-learn's form, those of a candidate together.

    One that was not made has NaN for its scores and its times.

    Parameters
    ----------
    fits : by their places
    share : of the rows, by which fits are taken
    """
    results = list[dict[str, Any]]()
    scored = [fit.scores for fit in fits.values()]
    # Of scorers that are a function, only a fit that did not fail has the names.
    scored.sort(key=lambda scores: scores["fit_error"] is not None)
    for candidate in range(len(problem.candidates)):
        for split, (_, test) in enumerate(problem.splits[SEARCH, fraction]):
            fit = fits.get((SEARCH, candidate, split, fraction))
            results.append(missing_result(scored[0], len(test)) if fit is None else fit.scores)
    return results


def missing_result(example: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """The result of a fit that was not made, in the form of one that was.

    Where even that has failed, all did: then scikit-learn raises an error.
    """
    nan = float("nan")
    result = dict(example) | {"fit_time": nan, "score_time": nan}
    for name in ("test_scores", "train_scores"):
        if name in example:
            several = isinstance(example[name], dict)
            result[name] = dict.fromkeys(example[name], nan) if several else nan
    return result | {"n_test_samples": n_rows}


def shared_tasks(
    problem: Problem, calls: FitCalls, numbers: Sequence[int], seconds_missed: dict[str, float]
) -> dict[int, Task]:
    """The tasks of those calls whose fits share work, by the numbers of the calls."""
    task_by_cell = {
        key[1:3]: task
        for task in group_tasks(problem, calls, numbers, sharing_groups(problem, seconds_missed))
        for key in task.cell_keys
    }
    return {
        number: task_by_cell[calls.cells[number]]
        for number in numbers
        if calls.cells[number] in task_by_cell
    }


def group_tasks(
    problem: Problem,
    calls: FitCalls,
    numbers: Sequence[int],
    groups: Sequence[CandidateGroup],
    n_workers: int = 1,
) -> list[Task]:
    """The tasks of groups, without the cells that have a result.

    Parameters
    ----------
    numbers : of the calls that have none
    n_workers : whom they are cut for
    """
    splits = tuple(range(len(problem.splits[SEARCH, WHOLE])))
    requests = [Request(group.members, splits) for group in groups]
    tasks = make_tasks(problem, requests=requests, n_workers=n_workers)
    if n_workers > 1:
        from pipelines.search.task_feed import cut_for_workers

        tasks = cut_for_workers(problem, tasks, n_workers)
    missing_cells = {calls.cells[number] for number in numbers}
    done_keys = {key for task in tasks for key in task.cell_keys if key[1:3] not in missing_cells}
    return [remaining for task in tasks if (remaining := task.without(done_keys)) is not None]


def sharing_groups(
    problem: Problem, seconds_missed: dict[str, float] | None = None
) -> list[CandidateGroup]:
    """The groups whose fits have something in common: with each other, or their first steps.

    Parameters
    ----------
    saved_not : seconds that this process might have saved had it loaded what kinds need, by the
        names of these; a kind is loaded when as much would have been saved as loading takes, so
        that no script takes much longer than it might have. None where workers fit.
    """
    sizes = [len(train) for train, _ in problem.splits[SEARCH, WHOLE]]
    n_rows, n_most, in_turn = min(sizes), max(sizes), problem.seed is None
    groups = [
        (group, group.shared)
        for group in problem.groups
        if group.shared is not None and not (in_turn and draws_in_steps(problem, group, n_rows))
    ]
    first_steps = {
        member: steps[0].key
        for group, _ in groups
        for member in group.members
        if (steps := (decompose(problem.candidates[member].estimator) or ([],))[0])
    }
    n_alike = Counter(first_steps.values())
    later_names = set[str]()
    if seconds_missed is not None:
        later_names = work_to_load_later(problem, [group for group, _ in groups], seconds_missed)
        for group, shared in groups:
            if group.name in later_names:
                shared.make_ready()
    return [
        group
        for group, shared in groups
        if group.name not in later_names
        and (
            (group.name != PLAIN and len(group.members) > 1)
            or (in_turn and n_most >= ROWS_OF_ONE and shared.splits_together)
            or n_alike[first_steps.get(group.members[0])] > 1
        )
    ]


def work_to_load_later(
    problem: Problem, groups: Sequence[CandidateGroup], seconds_missed: dict[str, float]
) -> set[str]:
    """The names of kinds that would save less than it takes to load them; see above."""
    starts, splits = dict[str, float](), problem.splits[SEARCH, WHOLE]
    n_rows = round(sum(len(train) for train, _ in splits) / len(splits))
    X = problem.data.X
    n_features = X.shape[1] if hasattr(X, "shape") and len(X.shape) > 1 else 1
    for group in groups:
        shared = group.shared
        assert shared is not None
        if start := shared.seconds_to_start():
            finals = [problem.candidates[member].final for member in group.members]
            seconds_saved = shared.seconds_saved(finals, n_rows, n_features, len(splits))
            starts[shared.name] = start
            seconds_missed[shared.name] = seconds_missed.get(shared.name, 0.0) + seconds_saved
    return {name for name, start in starts.items() if seconds_missed[name] < start}


def draws_in_steps(problem: Problem, group: CandidateGroup, n_rows: int) -> bool:
    """Whether a first step of a group may draw from the global generators, as each fit would.

    Parameters
    ----------
    n_rows : of the smallest split's training rows
    """
    steps, _ = decompose(problem.candidates[group.members[0]].estimator) or ((), None)
    X, n_features = problem.data.X, None
    if not hasattr(X, "tocsr") and np.ndim(X) == 2:
        n_features = np.shape(X)[1]
    for transformer in (step.transformer for step in steps):
        for analysis in fitted_inside(transformer):
            is_exact = n_features is not None and is_exact_by_shape(n_rows, n_features)
            is_known = analysis is transformer and is_exact
            is_settled = is_known or is_seed(analysis.random_state)
            if analysis.svd_solver == "auto" and not is_settled:
                return True
        if not isinstance(transformer, AS_WIDE):
            n_features = None  # not known before it is fitted
    return False


def names_of(problem: Problem, tasks: Collection[Task]) -> set[str]:
    """The names of the work that the fits of tasks share."""
    names = {problem.groups[task.group].name for task in tasks}
    return {"equal first steps" if name == PLAIN else name for name in names}


def scored_fits(problem: Problem, task: Task) -> Generator[Fit]:
    """Yield the fits of a task, scored, with the numbers of their candidates and splits."""
    for item in fit_task(problem, task, alone=False):
        if isinstance(item, Fit):
            item.candidate, item.split = task.members[item.candidate], task.splits[item.split]
            yield item


def fits_of_batch(problem: Problem, tasks: Sequence[Task]) -> list[tuple[int, Fit]]:
    """The fits of tasks that one process makes, each with the number of its group.

    Pipelines share their first steps there.
    """
    return [(task.group, fit) for task in tasks for fit in scored_fits(problem, task)]
