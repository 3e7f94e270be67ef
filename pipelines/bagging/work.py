"""The tasks of a bagging run, a candidate's folds and a member from the best, and their tables.

Shared by the command and the estimator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.bagging.record import CELL, BaggingRow
from pipelines.data.placement import FoldedData
from pipelines.data.preparation import Preparation
from pipelines.nn.fit import Refitted, cross_validate_candidate, failed_rows, refit
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.space import OF_CONVOLUTION, PARAMETERS, Candidate, SearchSpace
from pipelines.nn.stack import ProgressCallback, place_rows
from pipelines.nn.tasks import CandidateTask, Row, split_tasks
from pipelines.run.events import ProgressEvent
from pipelines.run.tasks import Outcome, Runner
from pipelines.run_folder.ranking import candidates_of
from pipelines.search.ranking import reduce_scores, results_frame

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

PLACE = list(CELL)
OF_MEMBER = ("cv_loss", "training_error", "test_error", "cv_error", "out_of_bag_error")
MEMBERS_TOGETHER = 8
CANDIDATES_TOGETHER = 4  # each of as many networks as there are folds
Rows = Mapping[str, list[Row]]


@dataclass(frozen=True)
class MemberTask:
    """The refit of one bootstrap: it needs the rows of its own candidates, and no others.

    Attributes
    ----------
    refitted : int
        Number of the candidate that was refitted before, -1 for none; if it still is the
        best there is nothing to do.
    searches : bool
        Whether it waits for its candidates; else it takes the first.
    others : tuple of MemberTask
        Members trained together with this one; those of a table take its candidate.
    """

    member: int
    candidates: tuple[CandidateTask, ...]
    refit_seed: int
    refitted: int = -1
    searches: bool = True
    others: tuple[MemberTask, ...] = ()

    @property
    def name(self) -> str:
        """The task's name on the dashboard; Dask groups tasks by what precedes the dash."""
        if self.others:
            return f"refit-members={self.member} to {self.others[-1].member}"
        return f"refit-member={self.member}"

    @property
    def each(self) -> tuple[MemberTask, ...]:
        """The members alone, which rows, files and the journal know."""
        return replace(self, others=()), *self.others

    @property
    def needs(self) -> tuple[str, ...]:
        """The tasks whose rows decide which candidate is the best."""
        return tuple(task.name for task in self.candidates if self.searches)

    @property
    def cost(self) -> float:
        """Predicted, of a refit of a typical one of the candidates."""
        each = [one for task in self.candidates for one in task.each]
        own = float(np.mean([one.cost / (one.n_folds - 1) for one in each]))
        return own + sum(other.cost for other in self.others)


BaggingTask = CandidateTask | MemberTask


@dataclass(frozen=True)
class Trainings:
    """All trainings of an ensemble, which depend on the options and the seed alone.

    Attributes
    ----------
    candidates : list of CandidateTask, member by member
    members : list of MemberTask
    """

    inputs: Inputs
    training: Training
    candidates: list[CandidateTask] = field(default_factory=list)
    members: list[MemberTask] = field(default_factory=list)

    @classmethod
    def draw(
        cls,
        y: np.ndarray,
        inputs: Inputs,
        space: SearchSpace,
        training: Training,
        *,
        n_bootstrap: int,
        n_tuning: int,
        n_folds: int,
        seed: int,
    ) -> Trainings:
        """Draw bootstraps and candidates.

        Raises
        ------
        InputError
            The space does not fit the data, or the folds do not.
        """
        counts = {"n_bootstrap": n_bootstrap, "n_candidates": n_tuning, "n_folds": n_folds}
        tasks, seeds = split_tasks(y, inputs, space, seed=seed, training=training, **counts)
        members = [
            MemberTask(member, tuple(task for task in tasks if task.member == member), refit_seed)
            for member, refit_seed in enumerate(seeds)
        ]
        return cls(inputs, training, tasks, members)

    def without_search(self) -> Trainings:
        """Return the same members, each of which takes its first candidate."""
        members = [replace(member, searches=False) for member in self.members]
        return replace(self, candidates=[], members=members)

    def in_groups(self) -> Trainings:
        """Return the same members without a search, trained together where that pays.

        That is for tables, and on a GPU, which one network of ``cnn`` leaves idle, for these where
        they differ in rate and momentum alone. The members' number alone decides on the groups,
        of nearly equal size.
        """
        plan = self.without_search()
        first = [member.candidates[0].candidate for member in plan.members]
        alike = len({one.architecture for one in first}) == 1
        if first[0].network != "table" and not (alike and leaves_idle(self.training, first[0])):
            return plan
        n_groups = math.ceil(len(plan.members) / MEMBERS_TOGETHER)
        groups = [
            replace(plan.members[first], others=tuple(plan.members[number] for number in others))
            for first, *others in np.array_split(np.arange(len(plan.members)), n_groups)
        ]
        return replace(plan, members=groups)


def leaves_idle(training: Training, candidate: Candidate) -> bool:
    """Return whether one network of a candidate leaves its device idle most of the time."""
    return training.device == "gpu" and candidate.network == "cnn"


def search_together(plan: Trainings, left: Sequence[BaggingTask]) -> list[BaggingTask]:
    """Return the tasks that are left of a plan, some candidates together where that pays.

    That is on a GPU, for candidates of a member and of one architecture. Those done before are
    missing in their groups, and move no other to another one. A member waits for the groups
    that its candidates are in.
    """
    if not plan.candidates or not leaves_idle(plan.training, plan.candidates[0].candidate):
        return list(left)
    alike: dict[Any, list[CandidateTask]] = {}
    for task in plan.candidates:
        alike.setdefault((task.member, task.candidate.architecture), []).append(task)
    names = {task.name for task in left}
    together: dict[str, CandidateTask] = {}
    for some in alike.values():
        n_groups = math.ceil(len(some) / CANDIDATES_TOGETHER)
        for numbers in np.array_split(np.arange(len(some)), n_groups):
            group = [some[number] for number in numbers if some[number].name in names]
            for one in group:
                together[one.name] = replace(group[0], others=tuple(group[1:]))
    members = [
        replace(
            task, candidates=tuple(dict.fromkeys(together.get(c.name, c) for c in task.candidates))
        )
        for task in left
        if isinstance(task, MemberTask)
    ]
    return [*dict.fromkeys(together.values()), *members]


def best_candidate(
    candidates: Sequence[CandidateTask], rows: Sequence[Sequence[Row] | None]
) -> CandidateTask | None:
    """Return the candidate of the smallest mean validation loss; among equals the first.

    Parameters
    ----------
    rows : the rows of each, None where its task failed

    Returns
    -------
    CandidateTask, or None where not one was trained on all its folds
    """
    import pandas as pd

    cells = pd.DataFrame([row for own in rows for row in own or ()], columns=["candidate", "loss"])
    if cells.empty:
        return None
    cells = cells.assign(error=0.0, score=-cells["loss"].astype(float))
    best = candidates_of(cells, ["candidate"], candidates[0].n_folds).iloc[:1]
    best = best[best["score_mean"].notna()]
    each = (one for task in candidates for one in task.each)
    return next((one for one in each if one.number in best["candidate"].values), None)


def run_task(
    data: FoldedData,
    task: BaggingTask,
    needed: Sequence[list[Row] | None] = (),
    *,
    inputs: Inputs,
    training: Training,
    report: ProgressCallback = lambda share: None,
) -> list[Row] | list[Refitted] | list[None]:
    """Run a task of any kind; ``report`` is called with the share of it that is done.

    Returns
    -------
    The rows of a candidate, one for each fold; what the refits of a member and the others gave,
    or None where the candidate to refit is the one that was refitted before.

    Raises
    ------
    RuntimeError
        No candidate of a member was trained on all its folds.
    """
    if isinstance(task, CandidateTask):
        return cross_validate_candidate(data, task, inputs, training, report)
    best = best_candidate(task.candidates, needed) if task.searches else task.candidates[0]
    if best is None:
        raise RuntimeError("none of its candidates was trained on all its folds")
    if best.number == task.refitted:
        return [None]
    has_own = bool(task.others) and best.candidate.network != "table"
    refits = [
        replace(one.candidates[0] if has_own else best, member=one.member, seed=one.refit_seed)
        for one in (task, *task.others)
    ]
    return refit(data, refits, inputs, training, report)


def tasks_left(plan: Trainings, done: Rows, refitted: Mapping[int, int]) -> list[BaggingTask]:
    """Return the tasks of a plan that are still to be run.

    Parameters
    ----------
    done : rows of candidates, by the names of their tasks
    refitted : number of the candidate that was refitted, by member

    Returns
    -------
    list of tasks; a member that was refitted is among them if a candidate of it is, as that
    may turn out to be better
    """
    candidates = [task for task in plan.candidates if task.name not in done]
    open_members = {task.member for task in candidates}
    members = []
    for task in plan.members:
        left = [
            one for one in task.each if one.member in open_members or one.member not in refitted
        ]
        if left:
            made = -1 if left[1:] else refitted.get(left[0].member, -1)
            members.append(replace(left[0], others=tuple(left[1:]), refitted=made))
    return [*candidates, *members]


def bag(
    runner: Runner,
    data: FoldedData,
    plan: Trainings,
    done: Rows,
    refitted: Mapping[int, int],
    on_event: Callable[[ProgressEvent], None] = lambda event: None,
) -> Iterator[tuple[Outcome[BaggingTask], list[Row], Refitted | None]]:
    """Search and refit every member; a refit begins when its own search is done.

    ``on_event`` is called with what tasks at work tell of themselves.

    Yields
    ------
    outcome : Outcome
    rows : list of dict
        Of a candidate, one for each fold; of a refit one whose fold is -1, or none where it
        failed or had nothing to do.
    made : Refitted or None
        Of a refit that gave a member.
    """
    tasks = search_together(plan, tasks_left(plan, done, refitted))
    needed = {name for task in tasks if isinstance(task, MemberTask) for name in task.needs}
    together = {task.name: [one.name for one in task.each] for task in tasks}
    known = {name: rows for name, rows in done.items() if name in needed}
    settings: dict[str, Any] = {"inputs": plan.inputs, "training": plan.training}
    work = partial(run_task, **settings)
    if not isinstance(data.scaling, Preparation):
        data = replace(data, place=partial(place_rows, **settings))
    for outcome in runner.outcomes_and_events(work, data, tasks, known):
        if isinstance(outcome, ProgressEvent):
            for name in together[outcome.task]:
                on_event(replace(outcome, task=name))
            continue
        task, of_each = outcome.task, one_by_one(outcome)
        if isinstance(task, CandidateTask):
            rows = failed_rows(data, task, outcome.error) if outcome.error else outcome.result
            for own, one in zip(of_each, task.each, strict=True):
                of_one = [row for row in rows if row["candidate"] == one.number]
                own = replace(own, result=None if outcome.error else of_one)
                yield own, [row | {"worker": outcome.worker} for row in of_one], None
            continue
        results = outcome.result or [None] * len(task.each)
        for own, result in zip(of_each, results, strict=True):
            rows = [] if result is None else [result.row | {"worker": outcome.worker}]
            made = result if result is not None and result.member is not None else None
            yield replace(own, result=result), rows, made


def one_by_one(outcome: Outcome[BaggingTask]) -> list[Outcome[BaggingTask]]:
    """Return an outcome for each that was trained together, as if one after the other."""
    each: tuple[BaggingTask, ...] = outcome.task.each
    seconds, compile_seconds = outcome.seconds / len(each), outcome.compile_seconds / len(each)
    outcome = replace(outcome, seconds=seconds, compile_seconds=compile_seconds)
    return [
        replace(outcome, task=task, started=outcome.started + number * seconds)
        for number, task in enumerate(each)
    ]


def tabulate(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as the table ``cv_results``, sorted by member, candidate and fold."""
    return results_frame(rows, BaggingRow.dtypes(), PLACE)


def reduce_candidates(
    results: pd.DataFrame, n_folds: int, client: Client | None = None
) -> pd.DataFrame:
    """Reduce the rows to a line for each candidate: parameters, mean loss and error.

    Parameters
    ----------
    client : distributed.Client, optional
        See ``reduce_scores``.

    Returns
    -------
    table with member, candidate, the hyper-parameters, loss_mean, loss_std, error_mean,
    error_std, n_ok, rank (1 has the smallest loss of its member) and is_best; a candidate
    that lacks a fold has no means. Best first within each member.
    """
    scored = results.assign(score=-results["loss"])
    means = reduce_scores(scored, PLACE[:2], n_folds, client)
    means["loss_mean"], means["loss_std"] = -means.pop("score_mean"), means.pop("score_std")
    means = means.sort_values(["member", "rank"], ignore_index=True)
    means["rank"] = means.groupby("member").cumcount() + 1
    means["is_best"] = (means["rank"] == 1) & means["loss_mean"].notna()
    parameters = results.groupby(PLACE[:2], as_index=False)[["network", *PARAMETERS]].first()
    table = parameters.merge(means, on=PLACE[:2])
    return table.sort_values(["member", "rank"], ignore_index=True)


def tabulate_members(
    candidates: pd.DataFrame,
    refits: Mapping[int, Mapping[str, Any]],
    test_errors: Mapping[int, float],
) -> pd.DataFrame:
    """Return the table of the members: what was chosen for each, and how good it turned out.

    Parameters
    ----------
    candidates : what ``reduce_candidates`` gave
    refits : row of the refit of every member, with ``training_error``
    test_errors : fraction of the test samples that a member gets wrong, by member
    """
    import pandas as pd

    best = candidates[candidates["is_best"]].set_index("member")
    names = [name for name in PARAMETERS if name not in OF_CONVOLUTION or best[name].any()]
    rows = []
    for member, test_error in sorted(test_errors.items()):
        chosen, refitted = best.loc[member], refits[member]
        numbers = (
            chosen["loss_mean"],
            refitted["training_error"],
            test_error,
            chosen["error_mean"],
            refitted["error"],
        )
        rows.append(
            {"member": member}
            | {name: chosen[name] for name in names}
            | dict(zip(OF_MEMBER, numbers, strict=True))
        )
    return pd.DataFrame(rows)
