"""Translates a scikit-learn search for the engine: from the calls of its fits, and back."""

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

AS_WIDE = (
    StandardScaler,
    MinMaxScaler,
    MaxAbsScaler,
    RobustScaler,
)  # leave the number of columns as it is
# With fewer training rows the splits of a single candidate gain nothing by being fitted together.
ROWS_OF_ONE = 1000
MOST_DENSE = 2**29  # bytes; a sparse matrix that would be a larger array shares nothing


@dataclass(frozen=True, eq=False)
class SearchData(FoldedData):
    """Rows in any form that scikit-learn takes; an array of them is made where a fit needs one."""

    def scaled(self, device: str, rows: np.ndarray | None = None) -> Any:
        """All rows as a float64 array on a device, converted once.

        Raises
        ------
        ValueError
            The rows are not two-dimensional, are complex, or are a sparse matrix too large for an
            array.
        """
        return self.placement.get((device, "dense"), lambda: to_device(self._dense(), device))

    def placed(self) -> dict[str, Any]:
        """The array on a GPU; empty for rows that cannot be one, which the tasks then report."""
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
    calls : FitCalls
        Every candidate on every split.
    shared_fits : sequence of SharedFit
        Ways of sharing that are tried before the usual ones.
    as_called : bool, default False
        Whether fits draw from the global random generators as they are, as the calls would; else
        each fit is seeded.

    Returns
    -------
    Problem
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
        # The state of the global generators is the seed: a script that seeds numpy gets the same
        # results again.
        seed=None if as_called else state_of_generators(),
    )


def n_rows_of(X: Any) -> int:
    """Number of rows of an array, a table or a list."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _numbers(rows: Any, n_rows: int) -> np.ndarray:
    """Row numbers, from row numbers or a boolean mask.

    Raises
    ------
    ValueError
        The mask and the rows differ in length.
    """
    rows = np.asarray(rows)
    if rows.dtype == np.bool_ and len(rows) != n_rows:
        raise ValueError(f"a mask of {len(rows)} rows is for {n_rows}")
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows


def results_of(
    problem: Problem, fits: Mapping[CellKey, Fit], fraction: float = WHOLE
) -> list[dict[str, Any]]:
    """The results of all fits of a search in scikit-learn's form, candidate by candidate.

    A fit that was not made has NaN for its scores and times.

    Parameters
    ----------
    problem : Problem
    fits : mapping of CellKey to Fit
    fraction : float, default 1
        Fraction of the rows; fits on other fractions are left out.
    """
    results = list[dict[str, Any]]()
    scored = [fit.scores for fit in fits.values()]
    # If the scorer is a function, only a successful fit knows the names of the scores.
    scored.sort(key=lambda scores: scores["fit_error"] is not None)
    for candidate in range(len(problem.candidates)):
        for split, (_, test) in enumerate(problem.splits[SEARCH, fraction]):
            fit = fits.get((SEARCH, candidate, split, fraction))
            results.append(missing_result(scored[0], len(test)) if fit is None else fit.scores)
    return results


def missing_result(example: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """The result of a fit that was not made, in the form of the given example.

    The example failed only if all fits did, and then scikit-learn raises an error.
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
    """The tasks of the calls whose fits share work, by call number.

    Parameters
    ----------
    problem : Problem
    calls : FitCalls
    numbers : sequence of int
        Numbers of the calls that have no result yet.
    seconds_missed : dict
        See ``sharing_groups``.

    Returns
    -------
    dict of int to Task
    """
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
    """The tasks of some groups, without the cells that have a result.

    Parameters
    ----------
    problem : Problem
    calls : FitCalls
    numbers : sequence of int
        Numbers of the calls that have no result yet.
    groups : sequence of CandidateGroup
    n_workers : int, default 1
        Long tasks are cut so that this many workers are busy.

    Returns
    -------
    list of Task
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
    """The groups whose fits share work, or whose first steps do.

    Parameters
    ----------
    problem : Problem
    seconds_missed : dict of str to float, optional
        Seconds that searches of this process could have saved if the code of each kind of shared
        work had been loaded; updated in place. The code is loaded once this sum exceeds the time
        of loading it, so that no script takes much longer than without sharing. None if workers
        fit, which load it anyway.

    Returns
    -------
    list of CandidateGroup
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
    """Names of shared work that has saved less so far than its code takes to load."""
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
    """Whether a first step of a group may draw from the global random generators.

    Then it cannot be shared: each separate fit would draw its own numbers.

    Parameters
    ----------
    problem : Problem
    group : CandidateGroup
    n_rows : int
        Training rows of the smallest split. Whether ``svd_solver="auto"`` draws depends on it.
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
            n_features = None  # the width behind this step is unknown before it is fitted
    return False


def names_of(problem: Problem, tasks: Collection[Task]) -> set[str]:
    """Names of the kinds of work that the fits of some tasks share."""
    names = {problem.groups[task.group].name for task in tasks}
    return {"equal first steps" if name == PLAIN else name for name in names}


def scored_fits(problem: Problem, task: Task) -> Generator[Fit]:
    """Make the fits of a task; yield each, scored, with its candidate and split numbers."""
    for item in fit_task(problem, task, alone=False):
        if isinstance(item, Fit):
            item.candidate, item.split = task.members[item.candidate], task.splits[item.split]
            yield item


def fits_of_batch(problem: Problem, tasks: Sequence[Task]) -> list[tuple[int, Fit]]:
    """Make the fits of several tasks in one process, where pipelines share their first steps.

    Returns
    -------
    list of (int, Fit)
        Number of the candidate's group, and the scored fit.
    """
    return [(task.group, fit) for task in tasks for fit in scored_fits(problem, task)]
