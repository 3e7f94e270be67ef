"""Tasks of a search: each fits a group of candidates on some splits and yields their rows."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pipelines.data.device_memory import free_unused
from pipelines.data.fits import Fit, Progress, importing
from pipelines.data.placement import FoldedData
from pipelines.errors import error_line
from pipelines.run_folder.names import DIVERGED, FAILED, NOT_CONVERGED, OK
from pipelines.search.candidates import Candidate
from pipelines.search.fitting import (
    PLAIN,
    CandidateGroup,
    FitOptions,
    fit_group,
    learns_apart,
    limited,
    with_jobs,
)
from pipelines.search.scoring import ACCURACY, CandidateScorer
from pipelines.search.shared.base import PlainFits, Split, SplitRows, renumbered
from pipelines.search.strategies.base import WHOLE, Request
from pipelines.search.substitutes import Substitute, substitute

SEARCH, INNER, OUTER, CURVE = "search", "inner", "outer", "curve"  # the stages of a run
# Fraction of the time for a group's splits that is spent on work they share. Measured on 12,000
# rows of MNIST: 1 to 16 %.
SHARED_BY_SPLITS = 0.07

Row = dict[str, Any]
CellKey = tuple[str, int, int, float]  # stage, candidate, split, fraction of the rows
Splits = Mapping[tuple[str, float], Sequence[Split]]


@dataclass(frozen=True, eq=False)
class Problem:
    """The data and settings that all tasks of a search share; sent to the workers once.

    Attributes
    ----------
    data : FoldedData
        The rows of the search; its ``scaling`` is a step of every candidate.
    candidates : tuple of Candidate
    splits : mapping of (str, float) to sequence of Split
        Splits by stage and fraction of the rows.
    scorer : CandidateScorer
    groups : tuple of CandidateGroup
        Candidates that are fitted together.
    columns : tuple of str
        Parameters that have a column of their own in the rows.
    device : {"cpu", "gpu"}
        Where workers compute.
    seed : int, str or None
        Determines, with the candidate and the split, what a fit draws from global generators; with
        None it draws from them as they are.
    parts : mapping of str to Problem
        Separate searches on the same rows, by stage.
    search : str
        The stage whose splits count as folds.
    """

    data: FoldedData
    candidates: tuple[Candidate, ...]
    splits: Splits
    scorer: CandidateScorer
    groups: tuple[CandidateGroup, ...]
    columns: tuple[str, ...] = ()
    device: str = "cpu"
    seed: int | str | None = 0
    parts: Mapping[str, Problem] = field(default_factory=dict)
    search: str = SEARCH

    def of(self, stage: str) -> Problem:
        """The search that a stage belongs to: one of the parts, or this one."""
        return self.parts.get(stage, self)

    def candidate(self, task: Task, member: int) -> Candidate:
        """The candidate with a number, from ``task.drawn`` or from ``candidates``."""
        return task.drawn[member] if member in task.drawn else self.candidates[member]

    def shared_by(self, task: Task) -> CandidateGroup:
        """The group of a task, restricted to the members of the task."""
        group = task.drawn_group or self.groups[task.group]
        return replace(group, members=task.members)

    def with_drawn(
        self, candidates: Sequence[Candidate], groups: Sequence[CandidateGroup]
    ) -> Problem:
        """The search with further candidates that were drawn while it ran."""
        candidates, groups = (*self.candidates, *candidates), (*self.groups, *groups)
        return replace(self, candidates=candidates, groups=groups)


@dataclass(frozen=True)
class Task:
    """A group of candidates on some splits: what one worker does at once, with shared work.

    Attributes
    ----------
    stage : str
        The search that it belongs to.
    group : int
        Index of the group in ``Problem.groups``.
    members : tuple of int
        Candidate numbers.
    splits : tuple of int
        Split numbers.
    fraction : float
        Fraction of the rows.
    label : str
        Name of the algorithm.
    about : str
        Values that identify its candidates within the group, such as gammas; may be empty.
    is_told : bool
        Whether ``about`` distinguishes it from all other tasks of the search.
    cost : float
        Predicted time, relative to other tasks.
    drawn : mapping of int to Candidate
        Candidates that were drawn after the search was sent to the workers, by candidate number.
    drawn_group : CandidateGroup, optional
        The group of the drawn candidates.
    until : float
        Time when it stops itself, in seconds since the epoch; rows of complete splits remain.
    """

    stage: str
    group: int
    members: tuple[int, ...]
    splits: tuple[int, ...]
    fraction: float
    label: str
    about: str = ""
    is_told: bool = False
    cost: float = 1.0
    drawn: Mapping[int, Candidate] = field(default_factory=dict, compare=False, repr=False)
    drawn_group: CandidateGroup | None = field(default=None, compare=False, repr=False)
    until: float = field(default=math.inf, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The task's name on the dashboard; Dask groups tasks by the part before the dash."""
        splits = f"{len(self.splits)} folds"
        if len(self.splits) == 1 or self.splits != tuple(range(len(self.splits))):
            splits = f"fold={','.join(map(str, self.splits))}"
        of_rows = "" if self.fraction == 1.0 else f" share={self.fraction:g}"
        stage = "" if self.stage == SEARCH and self.about else f"{self.stage} "
        members = "" if self.is_told else f"candidate={self.members[0]} "
        if len(self.members) > 1 and members:
            members = f"candidate={self.members[0]}..{self.members[-1]} ({len(self.members)}) "
        about = f"{self.about} " if self.about else ""
        return f"{self.label}-{about}{stage}{members}{splits}{of_rows}"

    @property
    def cell_keys(self) -> list[CellKey]:
        """The keys of its rows, split by split."""
        return [
            (self.stage, member, split, self.fraction)
            for split in self.splits
            for member in self.members
        ]

    def without(self, done: Collection[CellKey]) -> Task | None:
        """The task without finished candidates and splits; None if nothing remains."""
        remaining = [key for key in self.cell_keys if key not in done]
        if not remaining:
            return None
        members = tuple(
            m for m in self.members if any(m == member for _, member, _, _ in remaining)
        )
        splits = tuple(s for s in self.splits if any(s == split for _, _, split, _ in remaining))
        fraction = len(members) * len(splits) / (len(self.members) * len(self.splits))
        return replace(self, members=members, splits=splits, cost=self.cost * fraction)

    def part(self, splits: Iterable[int]) -> Task:
        """Some splits of the task as a task of their own."""
        part_splits = tuple(splits)
        return replace(
            self, splits=part_splits, cost=self.cost * len(part_splits) / len(self.splits)
        )

    @property
    def by_split(self) -> list[Task]:
        """A task for each split; work that the splits share is then repeated, and costs more."""
        repeated_cost = SHARED_BY_SPLITS * self.cost
        parts = [self.part([split]) for split in self.splits]
        return [
            replace(part, cost=part.cost + repeated_cost * (1 - 1 / len(parts))) for part in parts
        ]


@dataclass(frozen=True)
class Refit:
    """The task after a search: the best candidate on all training rows, and its test."""

    member: int
    name: str = "refit"
    cost: float = 1.0


def make_tasks(
    problem: Problem,
    stage: str = SEARCH,
    requests: Sequence[Request] | None = None,
    *,
    n_workers: int = 1,
    n_scattered: int | None = None,
) -> list[Task]:
    """The tasks of some requests.

    Parameters
    ----------
    problem : Problem
    stage : str
        Name of the search.
    requests : sequence of Request, optional
        Candidates on splits; by default all candidates on every split of all rows.
    n_workers : int, default 1
        Groups are cut into tasks for this many workers.
    n_scattered : int, optional
        Number of candidates that the workers have; later ones travel with their task.

    Returns
    -------
    list of Task
    """
    problem = problem.of(stage)
    if requests is None:
        splits = tuple(range(len(problem.splits[stage, WHOLE])))
        requests = [Request(group.members, splits) for group in problem.groups]
    groups = {i: number for number, group in enumerate(problem.groups) for i in group.members}
    n_scattered = len(problem.candidates) if n_scattered is None else n_scattered
    tasks = [
        task
        for request in requests
        for number in dict.fromkeys(groups[i] for i in request.candidates)
        for task in _tasks_of_group(problem, stage, request, number, n_workers, n_scattered)
    ]
    counts = Counter((task.label, task.about, task.splits) for task in tasks)
    return [
        replace(task, is_told=True)
        if task.about and not task.drawn and counts[task.label, task.about, task.splits] == 1
        else task
        for task in tasks
    ]


def _tasks_of_group(
    problem: Problem, stage: str, request: Request, number: int, n_workers: int, n_scattered: int
) -> Iterator[Task]:
    """Yield the tasks of those candidates of a request that belong to one group."""
    X, fraction, group = problem.data.X, request.fraction, problem.groups[number]
    shape = X.shape if hasattr(X, "shape") else (len(X), 1)
    requested_candidates = set(request.candidates)
    members = [member for member in group.members if member in requested_candidates]
    shared_fit = group.shared or PlainFits()
    splits_together = shared_fit.splits_together and not learns_apart(group, problem.data)
    finals = {member: problem.candidates[member].final for member in members}
    for indices in shared_fit.partition(list(finals.values()), n_workers):
        part = tuple(members[i] for i in indices)
        part_finals = [finals[member] for member in part]
        label, about = problem.candidates[part[0]].algorithm, shared_fit.describe(part_finals)
        cost = shared_fit.cost(part_finals, round(fraction * shape[0]), shape[-1])
        drawn = {member: problem.candidates[member] for member in part if member >= n_scattered}
        for splits in (
            [request.splits] if splits_together else [(split,) for split in request.splits]
        ):
            task = Task(
                stage, number, part, splits, fraction, label, about, cost=cost * len(splits)
            )
            yield replace(task, drawn=drawn, drawn_group=group) if drawn else task


def fit_task(
    problem: Problem,
    task: Task,
    n_threads: int | None = None,
    alone: bool = True,
    fit_options: FitOptions | None = None,
) -> Iterator[Fit | Progress]:
    """Fit and score the candidates of a task; see ``fit_group``.

    Parameters
    ----------
    problem : Problem
    task : Task
    n_threads : int, optional
        Threads of a fit; by default as many as its estimator and BLAS use.
    alone : bool, default True
        Whether no other task runs in this process: then its thread pools are limited.
    fit_options : callable, optional
        See ``fit_group``.

    Yields
    ------
    Fit or Progress
        As ``fit_group`` does; a fit also says which implementation was fitted.
    """
    problem = problem.of(task.stage)
    candidates = [problem.candidate(task, member).estimator for member in task.members]
    substitutes = [substitute(candidate, problem.device) for candidate in candidates]
    try:
        yield from _fits(problem, task, candidates, substitutes, n_threads, alone, fit_options)
    finally:
        if any(replacement.implementation == "cuml" for replacement in substitutes):
            free_unused()


def _fits(
    problem: Problem,
    task: Task,
    candidates: Sequence[Any],
    substitutes: Sequence[Substitute],
    n_threads: int | None,
    alone: bool,
    fit_options: FitOptions | None,
) -> Iterator[Fit | Progress]:
    group = problem.shared_by(task)
    # Shared fits follow scikit-learn's estimators, so a replaced one shares nothing.
    is_replaced = group.shared is not None and any(
        replacement.replaced for replacement in substitutes
    )
    shared = None if is_replaced else group.shared
    group = CandidateGroup(task.members, shared, group.step_widths if shared else ())
    estimators = [replacement.estimator for replacement in substitutes]
    limits: AbstractContextManager[None] = (
        nullcontext()
    )  # SVM backends limit their threads themselves
    if hasattr(estimators[0], "fit"):
        from sklearn.base import clone

        estimators = [clone(estimator) for estimator in estimators]
        if alone and n_threads is not None:
            estimators = [with_jobs(estimator, n_threads) for estimator in estimators]
            limits = limited(n_threads)
    scorer, (data, splits) = problem.scorer, rows_of_fraction(problem, task)
    rows = SplitRows(
        data,
        splits,
        task.splits,
        (task.stage, task.fraction),
        n_threads,
        estimators[0],
        scorer.parts,
        scorer.fit_params,
        seed=problem.seed,
        fraction=task.fraction,
    )
    with limits:
        for item in fit_group(group, estimators, rows, scorer, fit_options):
            if isinstance(item, Fit):
                used_substitute, plain_estimator = (
                    substitutes[item.candidate],
                    candidates[item.candidate],
                )
                if not item.implementation:  # else a solver has filled it in
                    item.implementation, item.reason = (
                        used_substitute.implementation,
                        used_substitute.reason,
                    )
                if used_substitute.replaced and (error := item.scores["fit_error"]):
                    estimator, number = clone(plain_estimator), task.splits[item.split]
                    if n_threads is not None:
                        estimator = with_jobs(estimator, n_threads)
                    group = CandidateGroup((task.members[item.candidate],))
                    retry_rows = replace(rows, numbers=[number], estimator=estimator)
                    items = fit_group(group, [estimator], retry_rows, scorer)
                    item = replace(
                        next(fit for fit in items if isinstance(fit, Fit)),
                        candidate=item.candidate,
                        split=item.split,
                        implementation=substitute(plain_estimator, "cpu").implementation,
                        reason=f"{used_substitute.implementation} failed: {error_line(error)}",
                    )
                if is_replaced and not item.apart:
                    item.apart = f"{used_substitute.implementation} shares nothing"
            yield item


def rows_of_fraction(problem: Problem, task: Task) -> tuple[FoldedData, Sequence[Split]]:
    """The rows and splits of a task on a fraction of the rows, restricted to these rows.

    Else a kernel matrix of all rows would be computed. The copy is made once per process.

    Returns
    -------
    data : FoldedData
    splits : sequence of Split
    """
    data, splits = problem.data, problem.splits[task.stage, task.fraction]
    metadata = problem.scorer.fit_params or problem.scorer.score_params  # for all rows
    X, y = data.X, data.y
    is_kernel = isinstance(X, np.ndarray) and X.shape[0] == X.shape[-1]  # X may be a kernel matrix
    is_table = isinstance(X, np.ndarray) or hasattr(X, "iloc")
    if task.fraction == WHOLE or task.stage == CURVE or metadata or is_kernel or not is_table:
        return data, splits
    if not isinstance(y, np.ndarray):
        return data, splits

    def restrict() -> tuple[FoldedData, Sequence[Split]]:
        rows = np.unique(np.concatenate([part for split in splits for part in split]))
        return data.taking(rows), renumbered(splits, rows, len(y))

    fraction_rows: tuple[FoldedData, Sequence[Split]]
    fraction_rows = data.placement.get(("rows", task.stage, task.fraction), restrict)
    return fraction_rows


def run_task(problem: Problem, task: Task, n_threads: int = 1) -> Iterator[Row | Progress]:
    """Fit and score the candidates of a task; yield the rows of a split as soon as it is done.

    Parameters
    ----------
    problem : Problem
    task : Task
    n_threads : int, default 1

    Yields
    ------
    dict or Progress
        A row for each of ``task.cell_keys``, without ``worker``, and the progress of the task,
        which also follows the rows of every split but the last.

    Raises
    ------
    RuntimeError
        Fits of a split are missing.
    """
    problem = problem.of(task.stage)
    group = problem.shared_by(task)
    family = group.name
    yield from importing(group.shared.package if group.shared else "")
    rows_by_split: list[dict[int, Row]] = [{} for _ in task.splits]
    n_splits, fraction = len(task.splits), 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for item in fit_task(problem, task, n_threads):
            if isinstance(item, Progress):
                fraction = item.fraction
            else:
                split, member = task.splits[item.split], task.members[item.candidate]
                rows, candidate = rows_by_split[item.split], problem.candidate(task, member)
                key = task.stage, member, split, task.fraction
                rows[item.candidate] = cell_row(problem, candidate, key, item, family)
                if len(rows) < len(task.members):
                    continue
                yield from (rows[i] for i in range(len(rows)))
                n_splits -= 1
            if n_splits:
                yield Progress(fraction)
                if time.time() > task.until:
                    return
    if n_splits:  # else candidates would silently be ranked by fewer splits
        raise RuntimeError(f"{n_splits} of {len(task.splits)} splits of {task.name} lack fits")


def task_rows(problem: Problem, task: Task, n_threads: int = 1) -> list[Row]:
    """All rows of a task; see ``run_task``."""
    return [item for item in run_task(problem, task, n_threads) if not isinstance(item, Progress)]


def failed_rows(problem: Problem, task: Task, reason: str) -> list[Row]:
    """The rows of a task that failed as a whole, with the reason as their status."""
    scores: dict[str, Any] = dict.fromkeys(("fit_time", "score_time"))
    scores |= {"test_scores": {}, "fit_error": reason}
    problem, fit = problem.of(task.stage), Fit(0, 0, scores=scores, n_fits=0)
    family = problem.shared_by(task).name
    return [
        cell_row(problem, problem.candidate(task, key[1]), key, fit, family)
        for key in task.cell_keys
    ]


def cell_row(problem: Problem, candidate: Candidate, key: CellKey, fit: Fit, family: str) -> Row:
    """The row of a scored fit.

    Parameters
    ----------
    problem : Problem
    candidate : Candidate
    key : CellKey
    fit : Fit
        Scored.
    family : str
        Name of the work that the fit shares.

    Returns
    -------
    dict
        As ``SearchRow`` describes it, without ``worker``.
    """
    stage, member, split, fraction = key
    train, test = problem.splits[stage, fraction][split]
    names = problem.scorer.names
    by_name = fit.scores["test_scores"]
    by_name = by_name if isinstance(by_name, dict) else dict.fromkeys(names, by_name)
    scores = {name: finite(by_name.get(name)) for name in names}
    status = OK if fit.converged else NOT_CONVERGED
    if fit.scores["fit_error"]:
        why = error_line(fit.scores["fit_error"])
        status = DIVERGED if why == DIVERGED else f"{FAILED}: {why}"
    elif scores[names[0]] is None:
        reason = by_name.get(names[0])
        status = f"{FAILED}: scoring {names[0]}: " + (
            error_line(reason) if isinstance(reason, str) else f"it gives {reason}"
        )
    failed = status.startswith((FAILED, DIVERGED))
    n_errors = None if failed else fit.n_errors
    error = n_errors / len(test) if n_errors is not None and len(test) else None
    if error is None and not failed and (accuracy := scores.get(ACCURACY)) is not None:
        error = 1.0 - accuracy
    row = {
        **{name: candidate.parameters[name] for name in problem.columns},
        "algorithm": candidate.algorithm,
        "candidate": member,
        "params": candidate.text,
        "stage": stage,
        "split": split,
        "fold": split if stage == problem.search and fraction == WHOLE else -1,
        "share": fraction,
        "n_train": len(train),
        "n_validation": len(test),
        "n_errors": n_errors,
        "error": error,
        "score": None if failed else scores[names[0]],
        **({} if fit.loss is None else {"loss": None if failed else finite(fit.loss)}),
        **{f"score_{name}": scores[name] for name in names[1:]},
        "n_support": None if failed else fit.n_support,
        "n_iterations": None if failed else fit.n_iterations,
        "status": status,
        "implementation": fit.implementation,
        "reason": fit.reason,
        "family": f"{PLAIN} ({fit.apart})" if fit.apart else family,
        "n_fits": fit.n_fits,
        "n_steps": fit.n_steps,
        "n_steps_made": fit.n_steps_made,
        "fit_seconds": fit.scores["fit_time"],
        "score_seconds": fit.scores["score_time"],
    }
    # Some shared fits count in numpy's numbers, which a progress event cannot carry.
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in row.items()
    }


def finite(score: Any) -> float | None:
    """A score as a float; None if it is not a finite number."""
    if score is None or isinstance(score, str):
        return None
    value = float(score)
    return value if math.isfinite(value) else None


def cell_key_of(row: Mapping[str, Any]) -> CellKey:
    """The key of a row among all rows of a run."""
    return row["stage"], row["candidate"], row["split"], row["share"]
