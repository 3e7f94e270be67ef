"""The base class of the model selection commands: plans a search, runs its tasks, answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from pipelines.console import phase
from pipelines.data.generators import watch
from pipelines.data.image_files import ImageFormat
from pipelines.errors import flag_of
from pipelines.nn.settings import OF_NETWORKS
from pipelines.run import job
from pipelines.run.cluster import Cluster, Workers
from pipelines.run.errors import RunStopped
from pipelines.run.events import ProgressEvent
from pipelines.run.lifecycle import Session
from pipelines.run.outcomes import Outcome, Work, without_compilation
from pipelines.run.progress import time_text
from pipelines.run.runners import FurtherTasks, no_further_tasks
from pipelines.run_folder import names
from pipelines.run_folder.digests import digests_of
from pipelines.run_folder.record import Answer
from pipelines.search.budget import Budget
from pipelines.search.candidates import Candidate
from pipelines.search.extension import identity_of_candidate, record_extended, rows_to_extend
from pipelines.search.fitting import CandidateGroup
from pipelines.search.forecast import Pace, Rates, WorkType, forecast
from pipelines.search.image_features import Features
from pipelines.search.importance import (
    ColumnImportances,
    parameter_importances,
    refit_with_importances,
    write_importances,
)
from pipelines.search.options import SearchOptions
from pipelines.search.ranking import (
    BestSoFar,
    best_of_each,
    chosen_in_folds,
    failures,
    nested_estimate,
    rank,
    reduce_scores,
    tabulate,
)
from pipelines.search.record import LEARNING_CURVE, NESTED
from pipelines.search.shared import shared_fit_packages
from pipelines.search.spaces import N_ITER, Branch, Point
from pipelines.search.splits import make_splits
from pipelines.search.strategies import strategy_class, strategy_packages
from pipelines.search.strategies.base import WHOLE, Request, Stop
from pipelines.search.strategies.grid import Grid
from pipelines.search.summary import fraction_in_words, untried_in_words
from pipelines.search.task_feed import StrategySearch, TaskFeed, cut_for_workers, scope_of
from pipelines.search.tasks import (
    CURVE,
    INNER,
    OUTER,
    SEARCH,
    CellKey,
    Problem,
    Refit,
    Row,
    Splits,
    Task,
    cell_key_of,
    failed_rows,
    make_tasks,
    run_task,
)
from pipelines.search.unfinished import strategy_entries, with_unfinished
from pipelines.svm.backends import solver_packages

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from pipelines.data.dataset import Dataset
    from pipelines.data.placement import FoldedData
    from pipelines.run.runners import Runner


Chosen = TypeVar("Chosen", bound=SearchOptions)
DrawnCandidate = tuple[Candidate, CandidateGroup]  # a candidate, and the group of its shared work
CandidateSpace = tuple[Sequence[Branch], Callable[[Point], DrawnCandidate]]


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchPlan(job.Plan[Chosen]):
    """The plan of a search: its rows, its splits, its candidates and their scorers.

    Attributes
    ----------
    dataset : Dataset
        The rows as they were loaded, or with features in place of images. Until there are workers
        the features of a few images stand for all.
    features : Features, optional
        Computes features of images; None if the search uses the rows as they are.
    splits : mapping of (stage, fraction of the training rows) to sequence of splits
    scoring : tuple of str
        Names of scorers; the first decides which candidate is best.
    n_candidates : int
    labels : array of shape (n_classes,), optional
        Labels that scorers see in place of class codes; None for codes or a regression.
    rates : mapping of WorkType to Rates
        Seconds per unit of cost, as probes measured them; empty if nothing was probed.
    """

    dataset: Dataset
    features: Features | None
    splits: Splits
    scoring: tuple[str, ...]
    n_candidates: int
    labels: np.ndarray | None = None
    rates: Mapping[WorkType, Rates] = field(default_factory=dict)

    @property
    def own_scorer(self) -> Any:
        """The user's own scorer if it chooses the best candidate, else None."""
        return None

    @property
    @abstractmethod
    def rows(self) -> FoldedData:
        """The rows of the data set as candidates take them."""

    @abstractmethod
    def make_problem(self, device: str, n_threads: int) -> Problem:
        """Build the data and settings that all tasks share.

        Parameters
        ----------
        device : {"cpu", "gpu"}
            Where workers compute.
        n_threads : int
            Threads of a task.
        """

    @property
    def ratio(self) -> float:
        """Number of validation rows per training row, the mean over the splits."""
        splits = self.splits[SEARCH, 1.0]
        return sum(len(test) / len(train) for train, test in splits) / len(splits)

    @property
    def splits_in_words(self) -> str:
        """The number of splits in words: ``5 folds``."""
        n_splits = len(self.splits[SEARCH, 1.0])
        return f"{n_splits} {'folds' if n_splits == self.options.folds else 'splits'}"

    @property
    def fits_in_words(self) -> str:
        """The number of fits in words: ``5 folds = 320 fits``, and those within outer folds."""
        options, n_splits = self.options, len(self.splits[SEARCH, 1.0])
        words = f"{self.splits_in_words} = {self.n_candidates * n_splits:,} fits"
        if n_inner := len(self.splits.get((INNER, 1.0), ())):
            words += f" and {self.n_candidates * n_inner:,} in {options.nested} outer folds"
        return words

    @property
    def fractions(self) -> Sequence[float]:
        """Fractions of the rows, below 1, that the strategy may ask for."""
        strategy, n_splits = strategy_class(self.options.strategy), len(self.splits[SEARCH, 1.0])
        return strategy.fractions(self.n_candidates, len(self.dataset.y_train), n_splits)

    @property
    def first_stages(self) -> list[tuple[str, float]]:
        """Keys of the splits with which the search begins: the others depend on its result."""
        return [key for key in self.splits if key[0] in (SEARCH, INNER) and key[1] == 1.0]

    @property
    def draws(self) -> bool:
        """Whether candidates are drawn during the search; those of the plan only stand for them."""
        return strategy_class(self.options.strategy).draws

    @abstractmethod
    def sources(self, problem: Problem) -> Sequence[CandidateSpace]:
        """For each algorithm its search space, and a function from a point of it to a candidate."""

    def drawing(self, feed: TaskFeed, problem: Problem) -> StrategySearch:
        """The search of a strategy that draws candidates and adds them to the feed."""
        from pipelines.search.strategies.tpe import TPE, CandidateSource

        def add(make: Callable[[Point], DrawnCandidate], point: Mapping[str, Any]) -> int:
            return feed.add(SEARCH, *make(dict(point)))

        n_splits = len(self.splits[SEARCH, WHOLE])
        scope = scope_of(feed.problem, SEARCH, n_splits, self.options.seed)
        sources = [
            CandidateSource(branches, partial(add, make))
            for branches, make in self.sources(problem)
        ]
        return StrategySearch(SEARCH, TPE(scope, sources, self.options.n_iter or N_ITER))

    def searches(self, problem: Problem) -> list[StrategySearch]:
        """The searches of the run: on all rows, and within outer folds.

        If the strategy decides by scores, every algorithm has a search of its own, as the best of
        each are compared, and so has every outer fold.
        """
        searches, seed = list[StrategySearch](), self.options.seed
        strategy = strategy_class(self.options.strategy)
        if self.draws:
            stand_in = scope_of(problem, SEARCH, len(self.splits[SEARCH, WHOLE]), seed)
            return [StrategySearch(SEARCH, Grid(stand_in))]
        algorithms: dict[str, list[int]] = {}
        for index, candidate in enumerate(problem.candidates):
            algorithms.setdefault(candidate.algorithm if strategy.decides else "", []).append(index)
        for stage, fraction in self.first_stages:
            n_outer = len(self.splits[OUTER, 1.0]) if strategy.decides and stage == INNER else 1
            n_splits = len(self.splits[stage, fraction]) // n_outer
            searches += [
                StrategySearch(stage, strategy.of(scope, self.options), outer * n_splits)
                for indices in algorithms.values()
                for scope in [scope_of(problem, stage, n_splits, seed, indices)]
                for outer in range(n_outer)
            ]
        return searches

    def tasks_for(self, kind: str, n_workers: int) -> Sequence[Task]:
        """The first tasks of the search, for ``--dry-run``; later tasks depend on their rows."""
        on_gpu = kind == "cuda" or self.options.device == "gpu"
        problem = self.make_problem("gpu" if on_gpu else "cpu", 1)
        return TaskFeed(problem, self.searches(problem), n_workers, {})(0)

    def timed(self, workers: Workers, done: job.Done) -> tuple[Self, Sequence[str]]:
        """See ``Plan``; the forecast is for all candidates, even if the strategy may drop some."""
        budget = self.options.time_budget
        if self.options.quiet and budget is None:
            return self, ()
        if self.features is not None and not self.entries:
            return self, ["forecast   none before the features are computed"]
        problem = self.make_problem(workers.device, workers.threads)
        tasks = [task for stage, _ in self.first_stages for task in make_tasks(problem, stage)]
        tasks = cut_for_workers(problem, tasks, workers.n)
        known_rows = getattr(done, "rows", {})
        tasks = [remaining for task in tasks if (remaining := task.without(known_rows)) is not None]
        decides = strategy_class(self.options.strategy).decides
        ahead = forecast(problem, tasks, workers, at_most=decides, budget=budget)
        return replace(self, rates=ahead.rates), ahead.lines

    def on(self, cluster: Cluster) -> Self:
        """The plan with the features of all images, computed on the workers.

        Its ``entries`` say how images of the user's own are to be converted for the model.
        """
        form = ImageFormat.of(self.dataset.pictures or self.dataset)
        entries: dict[str, Any] = {"n_splits": len(self.splits[SEARCH, 1.0]), "ratio": self.ratio}
        entries["image_form"] = form and asdict(form)
        if self.features is None:
            return replace(self, entries=entries)
        entries["features"] = self.features.extractor.describe()
        dataset = self.features.compute(cluster, self.options.quiet)
        return replace(self, dataset=dataset, entries=entries)


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchDone(job.Done):
    """Rows of earlier sessions.

    Attributes
    ----------
    rows : mapping of CellKey to row
    extended : mapping of CellKey to row
        The rows in ``rows`` that come from another run, by ``--extend``.
    """

    rows: Mapping[CellKey, Row]
    extended: Mapping[CellKey, Row]


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search computed, before the answer.

    Attributes
    ----------
    problem : Problem
        The search, with the candidates that were drawn.
    rows : mapping of CellKey to row
        Rows of all stages.
    cells : DataFrame
        Rows of the search stage, fits on fractions of the rows included.
    chosen : sequence
        Candidates that the inner search of each outer fold chose; see ``chosen_in_folds``.
    stopped : mapping of int to Stop
        Says when candidates were given up, by candidate number.
    remarks : sequence of str
        Remarks about what there was no time for.
    n_undrawn : int
        Candidates that would have been drawn if there had been time.
    """

    problem: Problem
    rows: Mapping[CellKey, Row]
    cells: pd.DataFrame
    chosen: Sequence[tuple[dict[str, int], int | None]]
    stopped: Mapping[int, Stop]
    remarks: Sequence[str] = ()
    n_undrawn: int = 0

    @property
    def whole_cells(self) -> pd.DataFrame:
        """Cells on all rows; if time ended before any, those on the largest fraction of them."""
        fraction = self.cells["share"].max()
        return self.cells[self.cells["share"] == fraction].reset_index(drop=True)


class SearchJob(job.Job[Chosen]):
    """A model selection command: fits candidates on splits, ranks them and tests the best.

    Attributes
    ----------
    kind_of_answer : type of Answer
        Schema of what ``answer`` returns.
    candidate_options : frozenset of str
        Options that choose the candidates, or what is done with the ranked ones: a run that
        ``--extend`` names may have other values.
    """

    kind_of_answer: ClassVar[type[Answer]]
    candidate_options: ClassVar[frozenset[str]]

    def packages(self, options: Chosen, record: Mapping[str, Any]) -> tuple[str, ...]:
        """See ``Job``; with the packages of the solver, the strategy and the features."""
        packages, solver = job.PACKAGES, getattr(options, "solver", "auto")
        packages += solver_packages(str(record.get("solver", solver)))
        packages += strategy_packages(options.strategy) + shared_fit_packages()
        if options.features is not None and options.feature_file is None:
            packages += ("scikit-image", *OF_NETWORKS)
        return packages

    def load(self, options: Chosen, kind: str) -> Dataset:
        """Read the data set."""
        from pipelines.data.load import load_dataset

        return load_dataset(
            options.dataset,
            task=options.task_asked,
            n_folds=options.folds,
            test_size=options.test_size,
            seed=options.seed,
            groups=options.groups,
            in_order=options.cv == "time",
            features=options.feature_file,
            **options.as_read(),
        )

    def plan(self, options: Chosen, data: Dataset, record: Mapping[str, Any]) -> SearchPlan[Chosen]:
        """Plan the splits of the rows and the candidates; see ``Job``.

        If features are asked for, those of a few images stand for all.
        """
        features = Features.of(options, data, record)
        dataset = data if features is None else features.planned()
        splits = make_splits(
            dataset,
            options.cv,
            options.folds,
            options.repeats,
            options.seed,
            options.nested,
            learning_curve=getattr(options, "learning_curve", False),
        )
        fields = {"data": data, "record": record, "features": features, "splits": splits}
        return self.plan_candidates(options, dataset, fields)

    @abstractmethod
    def plan_candidates(
        self, options: Chosen, dataset: Dataset, fields: Mapping[str, Any]
    ) -> SearchPlan[Chosen]:
        """Complete the plan with the candidates.

        Parameters
        ----------
        options : SearchOptions
        dataset : Dataset
            The rows, perhaps with features in place of images.
        fields : dict
            Fields of ``SearchPlan`` that follow from the rows and splits.
        """

    def restore(self, plan: SearchPlan[Chosen], session: Session) -> SearchDone:
        """The rows of earlier sessions and of ``--extend``; failed fits are tried again."""
        rows: dict[CellKey, Row] = {
            cell_key_of(row): row
            for record in session.journal.records
            for row in record["rows"]
            if not row["status"].startswith(names.FAILED)
        }
        was = session.record.get("identity", session.identity)["inputs"]
        if session.record.get("accepted") or was != session.identity["inputs"]:
            rows = rows_of_same_candidates(plan, rows)
        extended, accepted = dict[CellKey, Row](), list[dict[str, Any]]()
        if plan.options.extend is not None and not session.folder.has_begun:
            features = None if plan.features is None else plan.features.extractor.describe()
            problem = plan.make_problem("cpu", 1)
            extended, accepted = rows_to_extend(
                self, plan, problem, session, features, {WHOLE, *plan.fractions}
            )
            rows |= extended
        of_search = [row["share"] for row in rows.values() if row["stage"] in (SEARCH, INNER)]
        n_fits = sum(len(plan.splits[key]) for key in plan.first_stages) * plan.n_candidates
        n_fits += len(of_search) - of_search.count(WHOLE)  # fits on a fraction come on top
        return SearchDone(
            n_fits=(len(of_search), n_fits),
            ended_early=untried_in_words(session.record) != "",
            at_most=strategy_class(plan.options.strategy).decides,
            accepted=accepted,
            rows=rows,
            extended=extended,
        )

    def execute(
        self, plan: SearchPlan[Chosen], done: SearchDone, session: Session, cluster: Cluster
    ) -> SearchResult:
        """Score the candidates on the splits, then the best on curve and outer splits."""
        record_extended(done.extended, plan.options, session, cluster)
        problem = plan.make_problem(cluster.device, cluster.threads)
        budget = None
        if plan.options.time_budget is not None:
            pace = Pace(problem, plan.rates)
            budget = Budget(plan.options.time_budget, session.began, pace)
        n_workers = cluster.runner.n_workers
        stand_in = problem
        if plan.draws:
            problem = replace(problem, candidates=(), groups=())
        feed = TaskFeed(problem, (), n_workers, {}, budget)
        feed.searches = [plan.drawing(feed, stand_in)] if plan.draws else plan.searches(problem)
        feed.tell(done.rows.values())
        score_tasks(problem, feed(0), feed.done, session, cluster, feed)
        # Fits that idle workers made ahead, and that the strategy did not ask for, are left out:
        # the result must not depend on the number of workers.
        rows = {key: row for key, row in feed.done.items() if key[0] not in (SEARCH, INNER)}
        problem, rows = feed.problem, rows | feed.rows
        cells = tabulate(rows.values(), problem.columns, schema=self.row)
        names.write_table(cells, session.path / names.CELLS)
        # Learning curves and outer folds are computed for the best candidates alone.
        further_tasks, n_splits = list[Task](), len(plan.splits[SEARCH, 1.0])
        no_time, remarks = budget is not None and budget.seconds_left <= 0, list[str]()
        stages = {"nested": OUTER, "learning_curve": CURVE}
        planned_stages = {stage for stage, _ in plan.splits}
        flags = [flag_of(name) for name, stage in stages.items() if stage in planned_stages]
        if no_time and flags:
            remarks.append(f"no time was left for {' and '.join(flags)}")
        elif any(search.stage == INNER and search.is_unfinished for search in feed.searches):
            flag = flag_of("nested")
            remarks.append(f"{flag} is of searches that ended early, as the time of the run did")
        chosen = list[tuple[dict[str, int], int | None]]()
        for stage, fraction in plan.splits:
            requests = list[Request]()
            if no_time and stage in (CURVE, OUTER):
                continue
            if stage == CURVE:
                ranked = rank(tabulate(rows.values(), fraction=WHOLE), n_splits)
                best = tuple(best_of_each(ranked).values())
                requests = [Request(best, (split,), fraction) for split in range(n_splits)]
            elif stage == OUTER:
                n_outer = len(plan.splits[OUTER, 1.0])
                n_inner = len(plan.splits[INNER, 1.0]) // n_outer
                chosen = chosen_in_folds(rows.values(), n_outer, n_inner)
                requests = [
                    Request(tuple(best.values()), (i,)) for i, (best, _) in enumerate(chosen)
                ]
            further_tasks += make_tasks(problem, stage, requests)
        if further_tasks:
            rows |= score_tasks(problem, further_tasks, rows, session, cluster)
        n_undrawn = 0
        if plan.draws and budget is not None and budget.held_back:
            n_undrawn = plan.n_candidates - len(problem.candidates)
        return SearchResult(problem, rows, cells, chosen, feed.stopped(SEARCH), remarks, n_undrawn)

    def refitted_besides(self, options: Chosen) -> str:
        """Words about what else is fitted with the best candidate; appended to a line of output."""
        return ""

    @abstractmethod
    def refit(self, plan: Any, cluster: Cluster) -> Callable[[Problem, Refit], dict[str, Any]]:
        """The work of the refit: fit the best candidate on all rows and predict the test rows.

        Returns
        -------
        callable
            Function of the problem and a ``Refit`` that returns a dict: ``predicted``, the
            predictions of the test rows, and whatever ``answer_of_best`` needs.
        """

    @abstractmethod
    def answer_of_best(
        self,
        plan: Any,
        scored: SearchResult,
        path: Path,
        candidates: pd.DataFrame,
        tested: dict[str, Any],
    ) -> dict[str, Any]:
        """Write the table of candidates and the predictions of the best one.

        Parameters
        ----------
        plan : SearchPlan
        scored : SearchResult
        path : Path
            The run folder.
        candidates : DataFrame
            Best first, as ``reduce_scores`` returns them; ``candidate`` is the candidate number.
        tested : dict
            Result of the work of ``refit``.

        Returns
        -------
        dict
            Entries for ``run.json``.
        """

    def answer(
        self,
        plan: SearchPlan[Chosen],
        computed: SearchResult,
        session: Session,
        cluster: Cluster | None,
    ) -> Answer:
        """Rank the candidates, refit the best one, and test it once beside a baseline.

        Raises
        ------
        RunStopped
            No fit ended in time, every candidate failed, or the refit failed.
        """
        from pipelines.data.baseline import baseline_of, remarks_on

        assert cluster is not None
        options, data, path = plan.options, plan.dataset, session.path
        problem, rows, cells = computed.problem, computed.rows.values(), computed.whole_cells
        splits, columns = plan.splits[SEARCH, 1.0], problem.columns
        n_splits, early = len(splits), list[str]()
        if (seconds := options.time_budget) is not None:
            if cells.empty:
                raise RunStopped(
                    f"no fit ended within {flag_of('time_budget')} of {time_text(seconds)}; "
                    f"raise it, or take fewer rows with {flag_of('limit')}"
                )
            n_scored = int(cells.groupby("candidate")["score"].count().max())
            n_splits = min(n_splits, n_scored or n_splits)
            if n_splits < len(splits) or cells["share"].max() < WHOLE:
                fraction = cells["share"].max()
                of_rows = (
                    f", on {fraction_in_words(fraction)} of the rows" if fraction < WHOLE else ""
                )
                early.append(
                    f"no candidate was tried on all {plan.splits_in_words} in "
                    f"{time_text(seconds)}: the best is by {n_splits} of them{of_rows}"
                )
        candidates = reduce_scores(cells, (*columns, "candidate"), n_splits, cluster.runner.client)
        scores = candidates["score_mean"]
        if scores.isna().all():
            reason = cells["status"].iloc[0].removeprefix("failed: ")
            chosen_options = [
                n for n in ("estimator", "param", "grid") if getattr(options, n, None)
            ]
            check = (
                f"; check {' and '.join(map(flag_of, chosen_options))}" if chosen_options else ""
            )
            raise RunStopped(f"every candidate failed: {reason}{check}")
        strategy, stopped = dict[str, Any](), computed.stopped
        if "strategy" in session.record:  # written by an earlier session, which ran out of time
            strategy["strategy"] = None
        tried_candidates = with_unfinished(
            candidates, computed.cells, problem, stopped, plan.splits_in_words
        )
        if options.strategy != "grid" or (tried_candidates["stopped"] != "").any():
            candidates, records = tried_candidates, session.journal.records
            strategy = strategy_entries(
                options.strategy, tried_candidates, computed.cells, problem, records
            )
            if n := computed.n_undrawn:
                strategy_entry = strategy["strategy"]
                strategy_entry["grid_fits"] += n * len(splits)
                strategy_entry |= {
                    name: strategy_entry[name] + n for name in ("n_candidates", "n_not_tried")
                }
        # On many rows the refit takes long, so it is announced.
        n_rows = f"all {len(data.X_train):,} training rows{self.refitted_besides(options)}"
        with phase(session.echo, f"refit      fitting the best candidate on {n_rows}"):
            task = Refit(int(candidates["candidate"].iloc[0]))
            column_importances = ColumnImportances.of(data, options.seed, options.time_budget)
            fit = self.refit(plan, cluster)
            threads = cluster.threads
            work = partial(
                refit_with_importances,
                fit=fit,
                column_importances=column_importances,
                n_threads=threads,
            )
            (refit_outcome,) = cluster.runner.outcomes(work, problem, [task])
        if refit_outcome.error is not None:
            raise RunStopped(
                f"the best candidate cannot be fitted on all rows: {refit_outcome.error}"
            )
        ranked = zip(candidates["candidate"], candidates["score_mean"], strict=True)
        tried_points = [(problem.candidates[int(index)], score) for index, score in ranked]
        of_parameters = parameter_importances(
            [
                (candidate.algorithm, candidate.parameters, score)
                for candidate, score in tried_points
            ],
            options.seed,
        )
        write_importances(path, refit_outcome.result.pop("importances"), of_parameters)
        early += [remark] if (remark := refit_outcome.result.pop("remark")) else []
        entries = failures(cells, (*(columns or ("algorithm", "candidate")), "fold"))
        entries |= strategy | self.answer_of_best(
            plan, computed, path, candidates, refit_outcome.result
        )
        if n_splits < len(splits):
            entries["best"]["n_splits"] = n_splits
        if (fraction := float(cells["share"].max())) < WHOLE:
            entries["best"]["share"] = fraction
        with phase(session.echo, "baseline   scoring it"):
            baseline = baseline_of(
                data, splits, plan.scoring[0], labels=plan.labels, scorer=plan.own_scorer
            )
        remarks = remarks_on(data, baseline, scores.tolist(), entries.get("test_error"))
        if (CURVE, 0.1) in plan.splits:
            names.write_table(tabulate(rows, columns, CURVE, self.row), path / LEARNING_CURVE)
        if (OUTER, 1.0) in plan.splits:
            entries["nested"] = nested_estimate(rows, computed.chosen)
            names.write_table(tabulate(rows, columns, OUTER, self.row), path / NESTED)
        remarks += [*early, *computed.remarks, *entries.get("remarks", [])]
        return self.kind_of_answer.of({**entries, "baseline": baseline, "remarks": remarks})


def rows_of_same_candidates(
    plan: SearchPlan[Any], rows: Mapping[CellKey, Row]
) -> dict[CellKey, Row]:
    """Rows whose candidate and split have the same numbers as before options changed."""
    candidates = plan.make_problem("cpu", 1).candidates
    names_now = [
        identity_of_candidate(candidate.algorithm, candidate.text) for candidate in candidates
    ]
    return {
        key: row
        for key, row in rows.items()
        if row["candidate"] < len(candidates)
        and row["split"] < len(plan.splits.get((row["stage"], stage_fraction(row)), ()))
        and identity_of_candidate(row["algorithm"], row["params"]) == names_now[row["candidate"]]
    }


def stage_fraction(row: Row) -> float:
    """The fraction by which ``SearchPlan.splits`` has a row's splits.

    A search has as many splits of a fraction of the rows as of all rows, and only these are there.
    """
    return WHOLE if row["stage"] in (SEARCH, INNER) else float(row["share"])


def score_tasks(
    problem: Problem,
    tasks: Sequence[Task],
    done: Mapping[CellKey, Row],
    session: Session,
    cluster: Cluster,
    feed: TaskFeed | None = None,
) -> dict[CellKey, Row]:
    """Run the remaining part of some tasks and journal each row as it arrives.

    Parameters
    ----------
    problem : Problem
    tasks : sequence of Task
    done : mapping of CellKey to row
        Rows of earlier sessions, whose cells are not fitted again.
    session : Session
    cluster : Cluster
    feed : TaskFeed, optional
        Source of further tasks, which is told the new rows; ``tasks`` are its first ones.

    Returns
    -------
    dict of CellKey to row
        The new rows.
    """
    todo = [remaining for task in tasks if (remaining := task.without(done)) is not None]
    n_done = (
        len(feed.rows) if feed else sum(key in done for task in tasks for key in task.cell_keys)
    )
    if n_done:
        session.echo(
            f"resumed    {n_done:,} fits were already finished, {len(todo):,} tasks remain"
        )
    columns = problem.columns or ("algorithm", "params")
    best = BestSoFar(columns, problem.scorer.names[0], (*problem.columns, "candidate"))
    run = partial(run_tasks, n_threads=cluster.threads)
    new_rows = journal_tasks(run, problem, todo, done, best, session, cluster, feed=feed)
    if watch.drawn and cluster.kind == "threads" and cluster.runner.n_workers > 1:
        session.echo(
            "warning    an estimator draws from numpy's or torch's global generator, which "
            "threads share: another run may give other scores; use --cluster local, "
            "--workers 1, or a random_state"
        )
    return new_rows


def journal_tasks(
    run: Callable[..., Iterator[tuple[Outcome[Any] | ProgressEvent, list[Row]]]],
    problem: Problem,
    todo: Sequence[Any],
    done: Mapping[CellKey, Row],
    best: BestSoFar,
    session: Session,
    cluster: Cluster,
    keep: Callable[[Outcome[Any]], Iterable[Path]] = lambda outcome: (),
    feed: TaskFeed | None = None,
) -> dict[CellKey, Row]:
    """Run tasks and journal each row as it arrives.

    Parameters
    ----------
    run : callable
        ``run_tasks``, perhaps with other work.
    problem : Problem
        What all tasks share.
    todo : sequence
        The first tasks.
    done : mapping of CellKey to row
        Earlier rows; they count for the best candidate so far.
    best : BestSoFar
        Shown beside the progress bar.
    session : Session
    cluster : Cluster
    keep : callable, optional
        Function of an outcome that writes files and returns their paths.
    feed : TaskFeed, optional
        Source of further tasks, which is told the new rows.

    Returns
    -------
    dict of CellKey to row
        The new rows.
    """
    new_rows = dict[CellKey, Row]()
    best.add(row for row in done.values() if row["fold"] >= 0)
    with session.journal_writer(cluster, todo) as journal_writer:
        journal_writer.best(best.text)
        if feed is not None and (feed.waiting or feed.is_open):
            journal_writer.add((), feed.waiting, feed.seconds_left, at_least=feed.is_open)

        def further_tasks(n_left: int) -> Sequence[Any]:
            if feed is None:
                return ()
            tasks = feed(n_left)
            if tasks:
                journal_writer.add(tasks, feed.waiting, feed.seconds_left, at_least=feed.is_open)
            return tasks

        for event, rows in run(cluster.runner, problem, todo, further_tasks=further_tasks):
            best.add(row for row in rows if row["fold"] >= 0)
            journal_writer.best(best.text)
            if isinstance(event, ProgressEvent):
                journal_writer.update(event, rows)
            else:  # files first: a task that the journal calls done must have them on disk
                files = digests_of(session.path, list(keep(event)))
                journal_writer.record(event, rows, files)
            new_rows |= {cell_key_of(row): row for row in rows}
            if feed and (rows or isinstance(event, Outcome)):
                feed.tell(rows, event)
    return new_rows


def run_tasks(
    runner: Runner,
    problem: Problem,
    tasks: Sequence[Any],
    n_threads: int = 1,
    work: Work = run_task,
    further_tasks: FurtherTasks = no_further_tasks,
) -> Iterator[tuple[Outcome[Any] | ProgressEvent, list[Row]]]:
    """Run tasks and yield each outcome and progress event with its new rows, each row once.

    Rows that arrive before their task is done count as a task of their own, with the splits that
    are complete. A task that starts again, because its worker died, reports the same rows again:
    these are left out. A task that failed gives rows whose status says why.

    Parameters
    ----------
    runner : Runner
    problem : Problem
        What all tasks share.
    tasks : sequence
        Tasks of a search, or others whose result is a sequence of pairs of a row and an object.
    n_threads : int, default 1
        Threads of a task.
    work : callable, default ``run_task``
        Function of problem, task and ``n_threads`` that carries out a task.
    further_tasks : callable, optional
        Function of the number of unfinished tasks that returns further ones; see
        ``outcomes_and_events``.

    Yields
    ------
    event : Outcome or ProgressEvent
    rows : list of dict
    """
    by_name = {task.name: task for task in tasks}
    yielded_keys: set[CellKey] = set()
    last_told: dict[str, float] = {}  # when a task's latest rows arrived
    work = partial(work, n_threads=n_threads)

    def add_tasks(n_left: int) -> Sequence[Any]:
        new_tasks = further_tasks(n_left)
        by_name.update((task.name, task) for task in new_tasks)
        return new_tasks

    for event in runner.outcomes_and_events(work, problem, tasks, add_tasks):
        task = by_name[event.task] if isinstance(event, ProgressEvent) else event.task
        if not isinstance(task, Task):
            pairs = event.result if isinstance(event, Outcome) else ()
            yield event, [row | {"worker": event.worker} for row, _ in pairs or ()]
            continue
        if isinstance(event, ProgressEvent):
            rows = event.rows
        else:
            failed = event.error is not None
            rows = failed_rows(problem, task, event.error or "") if failed else event.result
        remaining = task.without(yielded_keys)
        new_rows = [
            row | {"worker": event.worker} for row in rows if cell_key_of(row) not in yielded_keys
        ]
        yielded_keys.update(map(cell_key_of, new_rows))
        if isinstance(event, ProgressEvent):
            if new_rows:
                last_told[task.name] = event.started + event.seconds
                part = task.part(dict.fromkeys(row["split"] for row in new_rows))
                event = replace(event, part=part.name, cost=part.cost)
            yield event, new_rows
            continue
        if len(new_rows) < len(rows):
            began = max(event.started, last_told.get(task.name, 0.0))
            event = replace(
                event,
                part=remaining.name if remaining else "",
                cost=remaining.cost if remaining else 0.0,
                started=began,
                seconds=max(0.0, event.started + event.seconds - began),
                compile_seconds=0.0,  # it compiled before its first rows were ready
            )
        yield event, without_compilation(new_rows, event.seconds, event.compile_seconds)
