"""The work of an ensemble: a search for each member, the refit of its best candidate, and tables.

The command and the estimator share it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pipelines.bagging.members import prediction_key
from pipelines.bagging.record import CANDIDATE, BaggingRow
from pipelines.data.bootstrap import BootstrapSplits, bootstrap_generator, draw_bootstrap
from pipelines.data.dataset import take_rows
from pipelines.data.fits import Fit, Progress, importing
from pipelines.data.placement import Fold, FoldedData
from pipelines.data.preparation import Preparation
from pipelines.nn.batched_fit import NoRoomError, Refitted, generator_of, refit
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.space import OF_CONVOLUTION, PARAMETERS, SearchSpace
from pipelines.nn.stack import OK, StackPart, placed_rows
from pipelines.run.events import ProgressEvent
from pipelines.run.runners import Outcome, Runner
from pipelines.search.budget import Budget
from pipelines.search.candidates import Candidate
from pipelines.search.command import run_tasks
from pipelines.search.fitting import CandidateGroup, group_candidates
from pipelines.search.ranking import best_of_each, rank, reduce_scores, tabulate
from pipelines.search.scoring import NEG_LOG_LOSS, NEG_SQUARED_ERROR, CandidateScorer
from pipelines.search.shared.networks import NetworkCandidate, Networks, leaves_idle
from pipelines.search.spaces import Branch, Range
from pipelines.search.strategies.base import Strategy
from pipelines.search.strategies.grid import Grid
from pipelines.search.strategies.race import MARGIN, Race
from pipelines.search.strategies.tpe import TPE, CandidateSource
from pipelines.search.task_feed import StrategySearch, TaskFeed, scope_of
from pipelines.search.tasks import OUTER, CellKey, Problem, Row, Task, cell_row
from pipelines.search.tasks import run_task as run_search_task

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

OF_MEMBER = ("cv_loss", "training_error", "test_error", "cv_error", "out_of_bag_error")
OF_REGRESSION = ("cv_loss", "out_of_bag_loss", "test_rmse")
COLUMNS = ("member", "network", *PARAMETERS)  # of rows, besides those of any search
OF_REFIT = ("losses", "training_error")  # columns that only rows in the journal have
MEMBERS_TOGETHER = 8
# The time of a refit in units of a fold's: a fold is trained with others in one stack, a member
# alone and on more rows.
REFIT = 4.0
NOTHING: Mapping[Any, Any] = MappingProxyType({})
NO_BEST = "none of its candidates was trained on all its folds"

WHOLE = " refit"  # added to the stage of a search, it names the stage of the refit


@dataclass(frozen=True)
class Refits:
    """The task that trains members on their whole bootstrap samples.

    Attributes
    ----------
    stages : tuple of str
        The stages of the searches of members that are trained together.
    seeds : tuple of int
        Each member's seed.
    number : int
        The number of the candidate that they take.
    candidates : tuple of Candidate
        Each member's candidate.
    cost : float
        Relative, see ``Task``.
    """

    stages: tuple[str, ...]
    seeds: tuple[int, ...]
    number: int = 0
    candidates: tuple[Candidate, ...] = field(default=(), compare=False)
    cost: float = 1.0
    is_urgent: ClassVar[bool] = True  # the search is of no use without it

    @property
    def name(self) -> str:
        """The task's name on Dask's dashboard, which groups tasks by what precedes the dash."""
        to = f" to {self.stages[-1].rpartition('=')[2]}" if self.stages[1:] else ""
        return f"refit-{self.stages[0]}{to}"


class RaceByFolds(Race):
    """A race without a screen on a part of the rows, on which networks take too few steps."""

    @classmethod
    def fractions(cls, n_candidates: int, n_rows: int, n_splits: int) -> Sequence[float]:
        return ()


@dataclass(frozen=True, eq=False)
class Trainings:
    """All trainings of an ensemble, which depend only on the options and the seed.

    Attributes
    ----------
    inputs : Inputs
    training : TrainingSettings
    n_folds : int
        Folds of a member's search.
    seed : int
    candidates : sequence of sequences of NetworkCandidate
        Each member's candidates.
    seeds : sequence of int
        The seed of each member's refit.
    groups : sequence of sequences of int
        The numbers of the members that are refitted together.
    space : SearchSpace
        The space that candidates are drawn from.
    strategy : {"random", "race", "tpe"}
        With "tpe", candidates keep their seeds, but their hyper-parameters are drawn during the
        search.
    race_margin : float
        See ``Race``.
    searches : bool
        Whether members are the best of their candidates; otherwise each is its first.
    outer : (int, (training rows, test rows)), optional
        Number and rows of the outer fold that the ensemble is trained for; by default all rows.
    nested : sequence of Trainings
        Ensembles for outer folds, which are trained beside this one.
    """

    inputs: Inputs
    training: TrainingSettings
    n_folds: int
    seed: int
    candidates: Sequence[Sequence[NetworkCandidate]]
    seeds: Sequence[int]
    groups: Sequence[Sequence[int]]
    space: SearchSpace
    strategy: str = "random"
    race_margin: float = MARGIN
    searches: bool = True
    outer: tuple[int, Fold] | None = None
    nested: Sequence[Trainings] = ()

    @classmethod
    def draw(
        cls,
        y: np.ndarray,
        inputs: Inputs,
        space: SearchSpace,
        training: TrainingSettings,
        *,
        n_bootstrap: int,
        n_tuning: int,
        n_folds: int,
        seed: int,
        nested: Sequence[Fold] = (),
        strategy: str = "random",
        race_margin: float = MARGIN,
    ) -> Trainings:
        """Draw the candidates and seeds of all members.

        Each member has its own generator, so that more members change none of the earlier ones.
        More candidates come after the earlier ones, which stay the same.

        Parameters
        ----------
        y : array of shape (n_rows,)
            Class codes or numbers of the training rows.
        inputs : Inputs
        space : SearchSpace
        training : TrainingSettings
        n_bootstrap : int
            Members.
        n_tuning : int
            Candidates of each member.
        n_folds : int
            Folds of a search.
        seed : int
        nested : sequence of (training rows, test rows)
            Outer folds.
        strategy, race_margin
            As the attributes.

        Raises
        ------
        InputError
            The search space, or the folds, do not go with the data.
        """
        space = space.for_images(inputs.image_shape)

        def draw_ensemble(outer: tuple[int, Fold] | None = None) -> Trainings:
            key, rows = ((), slice(None)) if outer is None else ((outer[0],), outer[1][0])
            candidates, seeds = list[list[NetworkCandidate]](), list[int]()
            for member in range(n_bootstrap):
                generator = bootstrap_generator(seed, member, *key)
                draw_bootstrap(y[rows], n_folds, generator)  # advances it past the sample

                def draw_seed(generator: np.random.Generator = generator) -> int:
                    return int(generator.integers(0, 2**63))

                seeds.append(draw_seed())
                drawn = ((space.draw(generator), draw_seed()) for _ in range(n_tuning))
                networks = [NetworkCandidate(*pair, inputs.is_regression) for pair in drawn]
                candidates.append(networks)
            groups = [[member] for member in range(n_bootstrap)]
            plan = cls(inputs, training, n_folds, seed, candidates, seeds, groups, space)
            return replace(plan, strategy=strategy, race_margin=race_margin, outer=outer)

        return replace(
            draw_ensemble(), nested=[draw_ensemble(outer_fold) for outer_fold in enumerate(nested)]
        )

    @property
    def shared_fit(self) -> Networks:
        """How candidates share work: the networks of a group are trained in one stack."""
        return Networks(self.inputs, self.training)

    @property
    def stages(self) -> list[str]:
        """The stages of the run that are the members' searches, by name."""
        beside = "" if self.outer is None else f"outer={self.outer[0]} "
        return [f"{beside}member={member}" for member in range(len(self.seeds))]

    def on(self, device: str) -> Trainings:
        """The same trainings on a device, ``"cpu"`` or ``"gpu"``."""
        nested = [ensemble.on(device) for ensemble in self.nested]
        return replace(self, training=replace(self.training, device=device), nested=nested)

    def with_strategy(self, strategy: str) -> Trainings:
        """The same members, searched by another strategy."""
        nested = [ensemble.with_strategy(strategy) for ensemble in self.nested]
        return replace(self, strategy=strategy, nested=nested)

    def without_search(self) -> Trainings:
        """The same members, each of which takes its first candidate."""
        nested = [ensemble.without_search() for ensemble in self.nested]
        return replace(self, searches=False, nested=nested)

    def in_groups(self) -> Trainings:
        """The same members without a search, trained together where that saves time.

        It does for tables, where all members of a group take the candidate of the first, and for
        members of ``cnn`` on a GPU, which one of them leaves idle, if they differ only in learning
        rate and momentum. Groups are of nearly equal size and depend only on the number of members.
        """
        plan, n = self.without_search(), len(self.seeds)
        first_specs = [networks[0].spec for networks in self.candidates]
        is_table = first_specs[0].network == "table"
        alike = len({spec.architecture for spec in first_specs}) == 1
        if not is_table and not (alike and leaves_idle(self.training, first_specs[0])):
            return plan
        groups = np.array_split(np.arange(n), math.ceil(n / MEMBERS_TOGETHER))
        if is_table:
            of_first = [self.candidates[group[0]] for group in groups for _ in group]
            plan = replace(plan, candidates=of_first)
        nested = [ensemble.in_groups() for ensemble in self.nested]
        return replace(plan, groups=[group.tolist() for group in groups], nested=nested)

    @property
    def loss(self) -> str:
        """The scorer for the loss that networks are trained on, the default for selection."""
        return NEG_SQUARED_ERROR if self.inputs.is_regression else NEG_LOG_LOSS

    def problem(self, data: FoldedData, scoring: Sequence[str] = ()) -> Problem:
        """The problem of the run; each member's search is one of its parts."""
        on_gpu = self.training.device == "gpu" and find_spec("cupy") is not None
        # A table with a Preparation is placed once for each network, prepared on its own rows.
        if on_gpu and not isinstance(data.scaling, Preparation):
            make_arrays = partial(placed_rows, inputs=self.inputs, training=self.training)
            data = replace(data, place=make_arrays)
        scorer = CandidateScorer(tuple(dict.fromkeys([*scoring, self.loss])))
        search, parts = Problem(data, (), {}, scorer, (), COLUMNS), dict[str, Problem]()
        for plan in (self, *self.nested):
            key, rows, outer = tuple[int, ...](), None, dict[tuple[str, float], Sequence[Fold]]()
            if plan.outer is not None:
                key, rows = (plan.outer[0],), plan.outer[1][0]
                outer[OUTER, 1.0] = [plan.outer[1]]
            for member, (stage, networks) in enumerate(
                zip(plan.stages, plan.candidates, strict=True)
            ):
                networks = () if self.draws else networks  # else the strategy adds them
                of_member = (data, self.n_folds, self.seed, (member, *key), rows)
                splits = partial(BootstrapSplits, *of_member)
                groups = group_candidates(networks, scorer, shared_fits=[self.shared_fit])
                stage_splits = outer | {
                    (stage, 1.0): splits(),
                    (stage + WHOLE, 1.0): splits(whole=True),
                }
                parts[stage] = replace(
                    search,
                    candidates=tuple(candidate_of(member, network) for network in networks),
                    splits=stage_splits,
                    groups=tuple(groups) if self.searches else (),
                    search=stage if plan.outer is None else "",
                )
        return replace(search, parts=parts)

    def feed(
        self,
        problem: Problem,
        n_workers: int = 1,
        done: Mapping[CellKey, Row] = NOTHING,
        refitted: Mapping[str, int] = NOTHING,
        budget: Budget | None = None,
    ) -> MemberFeed:
        """The feed that hands out the searches and refits of all members, nested ones too.

        Parameters
        ----------
        problem : Problem
            From ``problem``.
        n_workers : int, default 1
        done : mapping of CellKey to row
            Rows of candidates from earlier sessions.
        refitted : mapping of str to int
            The number of the candidate that was refitted, by the stage of its search.
        budget : Budget, optional
            The time budget.
        """
        feed = MemberFeed(problem, (), n_workers, {}, budget)
        searches, refits = list[StrategySearch](), list[Refits]()
        for plan in (self, *self.nested):
            for member, stage in enumerate(plan.stages if self.searches else ()):
                searches.append(StrategySearch(stage, plan.strategy_of(member, feed)))
            for numbers in plan.groups:
                group = [
                    member
                    for member in numbers
                    if self.searches or plan.stages[member] not in refitted
                ]
                if not group:
                    continue
                stages = tuple(plan.stages[member] for member in group)
                candidates = [plan.candidates[member] for member in group]
                n = len(problem.data.y)
                cost = sum(
                    self.shared_fit.cost(networks, n, 1) / len(networks) for networks in candidates
                )
                seeds = tuple(plan.seeds[member] for member in group)
                first = tuple(candidate_of(member, plan.candidates[member][0]) for member in group)
                refits.append(Refits(stages, seeds, 0, first, cost))
        feed.searches, feed.refits, feed.refitted = searches, refits, refitted
        feed.tell(done.values())
        return feed

    def strategy_of(self, member: int, feed: MemberFeed) -> Strategy:
        """The strategy of a member's search."""
        stage, networks = self.stages[member], self.candidates[member]
        scope = scope_of(feed.problem, stage, self.n_folds, self.seeds[member])
        if self.strategy == "race":
            return RaceByFolds(scope, self.race_margin)
        if not self.draws:
            return Grid(scope)

        def add(parameters: Mapping[str, Any]) -> int:
            number = len(feed.problem.parts[stage].candidates)
            network = replace(networks[number], spec=self.space.spec(parameters))
            return feed.add(
                stage, candidate_of(member, network), CandidateGroup((), self.shared_fit)
            )

        return TPE(scope, [CandidateSource([branch_of(self.space)], add)], len(networks))

    @property
    def draws(self) -> bool:
        """Whether hyper-parameters are drawn during the search."""
        return self.searches and self.strategy == "tpe"


@dataclass(eq=False)
class MemberFeed(TaskFeed):
    """Hands out the searches of members, and each member's refit as soon as its search is over.

    Attributes
    ----------
    refits : list of Refits
        Those that were not handed out yet.
    refitted : mapping of str to int
        The number of the candidate that was refitted before, by the stage of its search. If it is
        still the best, nothing is refitted.
    without_best : list of str
        Stages of searches none of whose candidates was trained on all folds.
    """

    refits: list[Refits] = field(default_factory=list)
    refitted: Mapping[str, int] = field(default_factory=dict)
    without_best: list[str] = field(default_factory=list)

    def __call__(self, n_left: int) -> list[Any]:
        """See ``TaskFeed``; refits come first, as each completes a member."""
        if self.budget is not None:
            self.budget.n_refits = math.ceil(len(self.refits) / self.n_workers)
        tasks, ready = super().__call__(n_left), list[Refits]()
        strategies = {search.stage: search.strategy for search in self.searches}
        for task in list(self.refits):
            stage = task.stages[0]
            if stage in strategies:
                is_over = strategies[stage].ask() is None
                if not is_over and not self._is_out_of_time(stage):
                    continue
                rows = [row for cell, row in self.rows.items() if cell[0] == stage]
                best = best_candidate(rows, stage, self.problem)
                if best is None and not is_over and (n_left or tasks or ready):
                    continue  # there may be time yet, once fewer refits need some
                # Rows that came later could make another candidate the best than the refitted one.
                self._queue = [waiting for waiting in self._queue if waiting.stage != stage]
                if best is None:
                    self.without_best.append(stage)
                elif best != self.refitted.get(stage):
                    candidate = self.problem.parts[stage].candidates[best]
                    ready.append(replace(task, number=best, candidates=(candidate,)))
            else:
                ready.append(task)
            self.refits.remove(task)
        return [*ready, *tasks]

    def _is_out_of_time(self, stage: str) -> bool:
        """Whether a search gets no more tasks, as its time is over."""
        if self.budget is None or any(task.stage == stage for task in self._begun_tasks.values()):
            return False
        return self.budget.seconds_left <= 0 or (self.budget.held_back and not self._begun_tasks)

    @property
    def waiting(self) -> Sequence[Any]:
        return [*super().waiting, *self.refits]


def candidate_of(member: int, network: NetworkCandidate) -> Candidate:
    """A network as a candidate of a member's search."""
    parameters = {"member": member} | network.get_params()
    return Candidate(network.spec.network, parameters, network)


def branch_of(space: SearchSpace) -> Branch:
    """The ranges of networks in the form of a space of any search."""
    return Branch(
        {
            name: Range(*span.bounds, log=span.log10, whole=span.whole)
            for name, span in space.ranges.items()
        }
    )


def run_member_task(
    problem: Problem, task: Task | Refits, *, shared_fit: Networks, n_threads: int = 1
) -> Iterator[Row | tuple[Row, Refitted | None] | Progress]:
    """Run a task, of a search or of refits, on a worker.

    Parameters
    ----------
    problem : Problem
    task : Task or Refits
    shared_fit : Networks
        From ``Trainings.shared_fit``.
    n_threads : int, default 1
        Threads for the task of a search.

    Yields
    ------
    row, (row, Refitted or None) or Progress
        The rows of candidates; for refits the row of each member, with the network, or None where
        there was too little memory to train it.
    """
    if isinstance(task, Task):
        yield from run_search_task(problem, task, n_threads)
        return
    yield from importing(shared_fit.package)
    number, stages = task.number, [problem.parts[stage] for stage in task.stages]
    members = list(zip(task.stages, stages, task.candidates, strict=True))
    parts = list[StackPart]()
    for (name, stage, candidate), seed in zip(members, task.seeds, strict=True):
        drawn, left_out = stage.splits[name + WHOLE, 1.0][0]
        spec = candidate.estimator.spec
        parts.append(StackPart(drawn, generator_of(seed), out_of_bag=left_out, spec=spec))
    data, outer = problem.data, stages[0].splits.get((OUTER, 1.0))
    X_test = data.X_test if outer is None else take_rows(data.X, outer[0][1])
    waiting = iter(members)
    try:
        for item in refit(data, parts, shared_fit.inputs, shared_fit.training, X_test):
            if isinstance(item, Progress):
                yield item
                continue
            row = row_of_refit(*next(waiting), number, item)
            if item.test is not None:
                if outer is None and len(data.y_test):  # kept to be reduced here, where they lie
                    data.placement.get(
                        prediction_key(row), partial(tuple, (item.test, item.out_of_bag))
                    )
                item = replace(item, test=item.test.on_host())
            yield row, item
    except NoRoomError as error:
        for name, stage, candidate in waiting:
            yield row_of_refit(name, stage, candidate, number, str(error)), None


def best_candidate(rows: Sequence[Row], stage: str, problem: Problem) -> int | None:
    """The number of the candidate with the best mean score, by default the smallest loss.

    Among equals it is the first; None if none was trained on all folds.
    """
    cells = tabulate(rows, stage=stage, schema=BaggingRow)
    n_folds = len(problem.of(stage).splits[stage, 1.0])
    return next(iter(best_of_each(rank(cells, n_folds)).values()), None) if len(cells) else None


def row_of_refit(
    name: str, stage: Problem, candidate: Candidate, number: int, refitted: Refitted | str
) -> Row:
    """The row of a refit, with errors and loss on its out-of-bag rows.

    Parameters
    ----------
    name, stage : str, Problem
        The name and problem of the member's search.
    candidate, number : Candidate, int
        The candidate that was refitted, and its number.
    refitted : Refitted or str
        The network, or why it could not be trained.
    """
    stage = replace(stage, scorer=CandidateScorer((NEG_LOG_LOSS,)))
    fit = Fit(number, 0, n_fits=0)
    refit_columns: dict[str, Any] = dict.fromkeys(OF_REFIT)
    fit.scores = dict.fromkeys(("fit_time", "score_time")) | {"test_scores": {}}
    if isinstance(refitted, Refitted):
        trained, score = refitted.trained, refitted.trained.result
        fit.n_fits, fit.n_iterations = 1, len(trained.losses)
        fit.loss, fit.n_errors = score.loss, score.n_errors
        fit.scores = {"fit_time": trained.seconds, "score_time": score.seconds}
        fit.scores |= {"test_scores": {NEG_LOG_LOSS: -score.loss}}
        losses = [round(loss, 6) for loss in trained.losses if math.isfinite(loss)]
        refit_columns = dict(
            zip(OF_REFIT, (json.dumps(losses), refitted.training_error), strict=True)
        )
        refitted = "" if trained.status == OK else trained.status
    fit.scores["fit_error"] = refitted
    cell = (name + WHOLE, number, 0, 1.0)
    return cell_row(stage, candidate, cell, fit, Networks.name) | refit_columns


def run_trainings(
    shared_fit: Networks, runner: Runner, problem: Problem, feed: MemberFeed
) -> Iterator[tuple[Outcome[Any] | ProgressEvent, list[Row]]]:
    """Run the searches and refits of all members.

    Parameters
    ----------
    shared_fit : Networks
        From ``Trainings.shared_fit``.
    runner : Runner
    problem : Problem
    feed : MemberFeed
        From ``Trainings.feed``; it is told every row.

    Yields
    ------
    (Outcome or ProgressEvent, list of rows)
        As ``run_tasks``.
    """
    for event, rows in run_tasks(
        runner,
        problem,
        (),
        work=partial(run_member_task, shared_fit=shared_fit),
        further_tasks=feed,
    ):
        feed.tell(rows)
        yield event, rows


def refitted_of(event: Outcome[Any] | ProgressEvent) -> list[tuple[Row, Refitted | None]]:
    """The row and network of each member, if the event is the outcome of refits."""
    if not isinstance(event, Outcome) or not isinstance(event.task, Refits):
        return []
    return event.result or []


def tabulate_cells(rows: Iterable[Row]) -> pd.DataFrame:
    """The table ``cv_results`` of rows, sorted by member, candidate and fold."""
    cells = [
        {"loss": None} | {name: row[name] for name in row if name not in OF_REFIT} for row in rows
    ]
    return tabulate(cells, ("member",), None, BaggingRow)


def reduce_candidates(
    results: pd.DataFrame, n_folds: int, client: Client | None = None
) -> pd.DataFrame:
    """Reduce ``cv_results`` to a line for each candidate.

    Parameters
    ----------
    results : DataFrame
    n_folds : int
        Folds that a candidate must have for its means.
    client : distributed.Client, optional
        Whose workers compute the means.

    Returns
    -------
    DataFrame
        The best candidate of each member first, with member, candidate, hyper-parameters,
        error_mean, error_std, score_mean, score_std, n_ok, loss_mean, loss_std, rank (1 is the best
        of its member by score, by default the loss) and is_best. A candidate that lacks a fold has
        no means.
    """
    columns = list(CANDIDATE)
    if "stage" not in results:  # of an older run, which selected by loss
        results = results.assign(score=-results["loss"])
    means = reduce_scores(results, columns, n_folds, client)
    losses = results.groupby(columns)["loss"]
    means = means.join(losses.mean().rename("loss_mean"), on=columns)
    means = means.join(losses.std(ddof=0).rename("loss_std"), on=columns)
    means.loc[means["score_mean"].isna(), ["loss_mean", "loss_std"]] = math.nan
    means = means.sort_values(["member", "rank"], ignore_index=True)
    means["rank"] = means.groupby("member").cumcount() + 1
    means["is_best"] = (means["rank"] == 1) & means["score_mean"].notna()
    parameters = results.groupby(columns, as_index=False)[["network", *PARAMETERS]].first()
    table = parameters.merge(means, on=columns)
    return table.sort_values(["member", "rank"], ignore_index=True)


def tabulate_members(
    candidates: pd.DataFrame,
    refits: Mapping[int, Mapping[str, Any]],
    test_errors: Mapping[int, float],
    is_regression: bool = False,
) -> pd.DataFrame:
    """The table of the members: the hyper-parameters of each, and its errors.

    Parameters
    ----------
    candidates : DataFrame
        From ``reduce_candidates``.
    refits : mapping of int to row
        The row of each member's refit, with ``training_error``.
    test_errors : mapping of int to float
        Each member's error rate on the test samples; in a regression, its root mean squared error.
    is_regression : bool, default False
        Whether to list out-of-bag losses in place of error rates.
    """
    import pandas as pd

    best = candidates[candidates["is_best"]].set_index("member")
    names = [name for name in PARAMETERS if name not in OF_CONVOLUTION or best[name].any()]
    rows = []
    for member, test_error in sorted(test_errors.items()):
        best_candidate, refitted = best.loc[member], refits[member]
        numbers = (
            best_candidate["loss_mean"],
            refitted["training_error"],
            test_error,
            best_candidate["error_mean"],
            refitted["error"],
        )
        quality = dict(zip(OF_MEMBER, numbers, strict=True))
        if is_regression:
            of_regression = (best_candidate["loss_mean"], refitted["loss"], test_error)
            quality = dict(zip(OF_REGRESSION, of_regression, strict=True))
        rows.append({"member": member} | {name: best_candidate[name] for name in names} | quality)
    return pd.DataFrame(rows)
