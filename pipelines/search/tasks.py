"""Tasks of a search: a group of candidates on some splits, and the rows that it gives."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pipelines.data.placement import FoldedData
from pipelines.run_folder.names import FAILED, NOT_CONVERGED, OK
from pipelines.search.candidates import Candidate
from pipelines.search.fitting import (
    PLAIN,
    CellResult,
    FitOptions,
    Group,
    OnResult,
    fit_group,
    ignore,
    limited,
    with_jobs,
)
from pipelines.search.scoring import ACCURACY, CandidateScorer
from pipelines.search.shared.base import Split
from pipelines.search.substitutes import Substitute, substitute

SEARCH, INNER, OUTER, CURVE = "search", "inner", "outer", "curve"  # the stages of a run
# Of the time of a group's splits together, measured on 12,000 rows of MNIST: 1 to 16 %.
SHARED_BY_SPLITS = 0.07

Row = dict[str, Any]
Place = tuple[str, int, int, float]  # stage, candidate, split, share of the training rows
Splits = Mapping[tuple[str, float], Sequence[Split]]


@dataclass(frozen=True, eq=False)
class Problem:
    """The data and settings that all tasks of a search share; scattered once.

    Attributes
    ----------
    data : FoldedData, the rows of the search; its ``scaling`` is a step of every candidate
    splits : for each stage, and share of the training rows, its splits
    scorer : CandidateScorer
    groups : tuple of Group, candidates that are fitted together
    columns : names of parameters that rows have as columns of their own
    device : "cpu" or "gpu", where workers compute
    """

    data: FoldedData
    candidates: tuple[Candidate, ...]
    splits: Splits
    scorer: CandidateScorer
    groups: tuple[Group, ...]
    columns: tuple[str, ...] = ()
    device: str = "cpu"

    def used(self, member: int) -> Substitute:
        """Return the estimator to fit for a candidate; call it where it is fitted."""
        estimator = self.candidates[member].estimator
        if not hasattr(estimator, "fit"):
            return Substitute(estimator, "", "")
        return substitute(estimator, self.device)


@dataclass(frozen=True)
class Task:
    """A group of candidates on some splits: the largest piece of a search that shares work.

    Attributes
    ----------
    group : int, place in ``Problem.groups``
    members : tuple of int, places of candidates
    splits : tuple of int
    share : float, of the training rows
    label : str, the algorithm
    about : str, what is known of its candidates, or nothing
    is_told : bool, whether that tells it from all other tasks of the search
    cost : float
        Predicted, relative to the other tasks.
    """

    stage: str
    group: int
    members: tuple[int, ...]
    splits: tuple[int, ...]
    share: float
    label: str
    about: str = ""
    is_told: bool = False
    cost: float = 1.0

    @property
    def name(self) -> str:
        """The task's name on the dashboard; Dask groups tasks by what precedes the dash."""
        splits = f"{len(self.splits)} folds" if len(self.splits) > 1 else f"fold={self.splits[0]}"
        share = "" if self.share == 1.0 else f" share={self.share:g}"
        stage = "" if self.stage == SEARCH and self.about else f"{self.stage} "
        members = "" if self.is_told else f"candidate={self.members[0]} "
        if len(self.members) > 1 and members:
            members = f"candidate={self.members[0]}..{self.members[-1]} ({len(self.members)}) "
        about = f"{self.about} " if self.about else ""
        return f"{self.label}-{about}{stage}{members}{splits}{share}"

    @property
    def places(self) -> list[Place]:
        """The identity of each of its rows, split by split."""
        return [
            (self.stage, member, split, self.share)
            for split in self.splits
            for member in self.members
        ]

    def without(self, done: Collection[Place]) -> Task | None:
        """Return the task without finished candidates and splits; None if nothing is left."""
        left = [place for place in self.places if place not in done]
        if not left:
            return None
        members = tuple(m for m in self.members if any(m == one for _, one, _, _ in left))
        splits = tuple(s for s in self.splits if any(s == one for _, _, one, _ in left))
        share = len(members) * len(splits) / (len(self.members) * len(self.splits))
        return replace(self, members=members, splits=splits, cost=self.cost * share)

    def part(self, splits: Iterable[int]) -> Task:
        """Return some splits of the task as a task by themselves."""
        some = tuple(splits)
        return replace(self, splits=some, cost=self.cost * len(some) / len(self.splits))

    @property
    def by_split(self) -> list[Task]:
        """Return a task for each split, at the price of doing shared work again."""
        anew = SHARED_BY_SPLITS * self.cost
        parts = [self.part([split]) for split in self.splits]
        return [replace(one, cost=one.cost + anew * (1 - 1 / len(parts))) for one in parts]


@dataclass(frozen=True)
class Refit:
    """The task after a search: the best candidate on all training rows, and its test."""

    member: int
    name: str = "refit"
    cost: float = 1.0


def make_tasks(
    problem: Problem,
    stage: str = SEARCH,
    share: float = 1.0,
    *,
    only: Mapping[int, Collection[int]] | None = None,
    n_workers: int = 1,
) -> list[Task]:
    """Return the tasks of a stage, for so many workers.

    Parameters
    ----------
    only : of a split, the candidates that are wanted; by default all of every split
    """
    n_splits = len(problem.splits[stage, share])
    X = problem.data.X
    shape = X.shape if hasattr(X, "shape") else (len(X), 1)
    tasks = []
    for number, group in enumerate(problem.groups):
        estimators = [problem.candidates[i].final for i in group.members]
        parts, together = [list(range(len(group.members)))], False
        if group.shared is not None:
            parts = group.shared.partition(estimators, n_workers)
            together = group.shared.splits_together and not group.most
        together = together and not problem.data.scaling.learns and only is None
        for part in parts:
            for splits in [tuple(range(n_splits))] if together else [(i,) for i in range(n_splits)]:
                members = tuple(
                    group.members[i]
                    for i in part
                    if only is None or group.members[i] in only.get(splits[0], ())
                )
                if not members:
                    continue
                about, cost = "", float(len(members))
                if group.shared is not None:
                    some = [problem.candidates[member].final for member in members]
                    about = group.shared.describe(some)
                    cost = group.shared.cost(some, shape[0], shape[-1])
                label = problem.candidates[members[0]].algorithm
                cost *= len(splits)
                tasks.append(Task(stage, number, members, splits, share, label, about, cost=cost))
    known = Counter((task.label, task.about, task.splits) for task in tasks)
    return [
        replace(task, is_told=bool(task.about) and known[task.label, task.about, task.splits] == 1)
        for task in tasks
    ]


def fit_task(
    problem: Problem,
    task: Task,
    n_threads: int | None = None,
    on_result: OnResult = ignore,
    report: Callable[[float], None] = ignore,
    alone: bool = True,
    fit_options: FitOptions | None = None,
) -> None:
    """Fit and score the candidates of a task; see ``fit_group``.

    Parameters
    ----------
    n_threads : that every fit may use; None for as many as its estimator and BLAS say
    alone : whether no other task is in this process, which then keeps to so many threads
    """
    used = [problem.used(member) for member in task.members]
    group = problem.groups[task.group]
    # What is not scikit-learn's shares nothing.
    shared = None if any(one.replaced for one in used) else group.shared
    group = Group(task.members, shared, group.most if shared else ())
    estimators = [one.estimator for one in used]
    limits: AbstractContextManager[None] = nullcontext()  # a backend counts its threads itself
    if hasattr(estimators[0], "fit"):
        from sklearn.base import clone

        estimators = [clone(one) for one in estimators]
        if alone and n_threads is not None:
            estimators = [with_jobs(one, n_threads) for one in estimators]
            limits = limited(n_threads)
    fit = partial(
        fit_group,
        data=problem.data,
        splits=problem.splits[task.stage, task.share],
        scorer=problem.scorer,
        name=(task.stage, task.share),
        n_threads=n_threads,
    )

    def keep(at: int, i: int, result: CellResult) -> None:
        taken = used[i]
        if taken.replaced and (error := result.scores["fit_error"]):
            plain = problem.candidates[task.members[i]].estimator
            own = clone(plain) if n_threads is None else with_jobs(clone(plain), n_threads)
            ((result,),) = fit(Group((task.members[i],)), [own], only=[task.splits[at]])
            reason = f"{taken.implementation} failed: {error.strip().splitlines()[-1]}"
            taken = replace(substitute(plain, "cpu"), reason=reason)
        result.implementation, result.reason = taken.implementation, taken.reason
        on_result(at, i, result)

    with limits:
        fit(
            group,
            estimators,
            only=task.splits,
            on_result=keep,
            report=report,
            fit_options=fit_options,
        )


def run_task(
    problem: Problem,
    task: Task,
    n_threads: int = 1,
    report: Callable[..., None] = ignore,
) -> list[Row]:
    """Fit and score the candidates of a task.

    Parameters
    ----------
    report : function of the fraction of the task that is done, and of rows that are ready: those
        of every split but the last, as soon as all candidates are done on it

    Returns
    -------
    list of dict, one for each of ``task.places``; the caller adds ``worker``
    """
    done = [dict[int, CellResult]() for _ in task.splits]

    def rows_of(at: int) -> list[Row]:
        return [
            _row_of(problem, task, task.splits[at], member, done[at][i])
            for i, member in enumerate(task.members)
        ]

    def on_result(at: int, i: int, result: CellResult) -> None:
        done[at][i] = result
        n_done = sum(len(one) == len(task.members) for one in done)
        if len(done[at]) == len(task.members) and n_done < len(done):
            report(0.0, rows_of(at))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_task(problem, task, n_threads, on_result, report)
    return [row for at in range(len(done)) for row in rows_of(at)]


def failed_rows(problem: Problem, task: Task, reason: str) -> list[Row]:
    """Return the rows of a task that gave none."""
    nothing: dict[str, Any] = dict.fromkeys(("fit_time", "score_time"))
    nothing |= {"test_scores": {}, "fit_error": reason}
    result = CellResult(nothing, n_fits=0)
    return [_row_of(problem, task, split, member, result) for _, member, split, _ in task.places]


def _row_of(problem: Problem, task: Task, split: int, member: int, result: CellResult) -> Row:
    train, test = problem.splits[task.stage, task.share][split]
    candidate, names = problem.candidates[member], problem.scorer.names
    given = result.scores["test_scores"]
    given = given if isinstance(given, dict) else dict.fromkeys(names, given)
    scores = {name: finite(given.get(name)) for name in names}
    status = OK if result.converged else NOT_CONVERGED
    if result.scores["fit_error"]:
        status = f"{FAILED}: {result.scores['fit_error'].strip().splitlines()[-1]}"
    elif scores[names[0]] is None:
        reason = given.get(names[0])
        status = f"{FAILED}: scoring {names[0]}: " + (
            reason if isinstance(reason, str) else f"it gives {reason}"
        )
    failed = status.startswith(FAILED)
    n_errors = None if failed else result.n_errors
    error = None if n_errors is None else n_errors / len(test)
    if error is None and not failed and (accuracy := scores.get(ACCURACY)) is not None:
        error = 1.0 - accuracy
    return {
        **{name: candidate.parameters[name] for name in problem.columns},
        "algorithm": candidate.algorithm,
        "candidate": member,
        "params": candidate.text,
        "stage": task.stage,
        "split": split,
        "fold": split if task.stage == SEARCH else -1,
        "share": task.share,
        "n_train": len(train),
        "n_validation": len(test),
        "n_errors": n_errors,
        "error": error,
        "score": None if failed else scores[names[0]],
        **{f"score_{name}": scores[name] for name in names[1:]},
        "n_support": None if failed else result.n_support,
        "n_iterations": None if failed else result.n_iterations,
        "status": status,
        "implementation": result.implementation,
        "reason": result.reason,
        "family": f"{PLAIN} ({result.apart})" if result.apart else problem.groups[task.group].name,
        "n_fits": result.n_fits,
        "n_steps": result.n_steps,
        "n_steps_made": result.n_steps_made,
        "fit_seconds": result.scores["fit_time"],
        "score_seconds": result.scores["score_time"],
    }


def finite(score: Any) -> float | None:
    """Return a number, or None where it is none."""
    if score is None or isinstance(score, str):
        return None
    value = float(score)
    return value if math.isfinite(value) else None


def place_of(row: Mapping[str, Any]) -> Place:
    """Return the identity of a row."""
    return row["stage"], row["candidate"], row["split"], row["share"]
