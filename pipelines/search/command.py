"""The base class of the model selection commands, which carries out every search."""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pipelines.console import Echo, phase
from pipelines.data.generators import watch
from pipelines.errors import InputError, flag_of, opt
from pipelines.nn.settings import OF_NETWORKS
from pipelines.run import job
from pipelines.run.chunking import split_for_workers
from pipelines.run.cluster import Cluster
from pipelines.run.errors import RunStopped
from pipelines.run.events import ProgressEvent
from pipelines.run.groups import Chosen, deciding_results, is_moved
from pipelines.run.lifecycle import Session
from pipelines.run.outcomes import Outcome, without_compilation
from pipelines.run_folder import names
from pipelines.run_folder.folder import RunFolder
from pipelines.search.features import Features
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
from pipelines.search.splits import make_splits
from pipelines.search.tasks import (
    CURVE,
    INNER,
    OUTER,
    SEARCH,
    Place,
    Problem,
    Refit,
    Row,
    Task,
    failed_rows,
    make_tasks,
    place_of,
    run_task,
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from pipelines.data import Dataset
    from pipelines.data.placement import FoldedData
    from pipelines.run.tasks import Runner
    from pipelines.search.options import SearchOptions
    from pipelines.search.shared.base import Split


def _identity(algorithm: str, params: str) -> tuple[Any, ...]:
    """Return what is equal for a candidate of two runs; a logarithmic axis carries rounding."""
    values = {
        name: f"{value:.8g}" if isinstance(value, float) else json.dumps(value)
        for name, value in json.loads(params).items()
    }
    return algorithm, *sorted(values.items())


# Distributions of the solvers that are others'.
OF_SOLVERS = {"sklearnex": ("scikit-learn-intelex",), "cuml": ("cuml-cu12", "cuml-cu13")}


class SearchJob(job.Job[Chosen]):
    """Candidates on splits: to tasks that share work, to rows, to the best of them.

    Attributes
    ----------
    candidate_columns : columns that name the best candidate so far
    candidate_options : options that choose the candidates, or what is done with the ranked ones
    refitted_besides : str, what is fitted beside the best candidate on all rows
    dataset, data : of the run, and its rows to search on; after ``plan``, as all that follows
    splits : for each stage and share of the training rows, its splits
    n_candidates : int
    scored_by : the scorer by which the best candidate is chosen
    labels : what scorers see in place of class codes; None for codes or numbers
    """

    candidate_columns: Sequence[str] = ("algorithm", "params")
    candidate_options: ClassVar[frozenset[str]]
    refitted_besides = ""
    dataset: Dataset
    data: FoldedData
    splits: dict[tuple[str, float], list[Split]]
    n_candidates: int
    scored_by: str
    labels: np.ndarray | None = None

    def packages(self) -> tuple[str, ...]:
        """See ``Job``; and what features are computed by."""
        options = cast("SearchOptions", self.options)
        packages, solver = super().packages(), getattr(options, "solver", "auto")
        packages += OF_SOLVERS.get(str(self.record.get("solver", solver)), ())
        if options.features is not None and options.feature_file is None:
            packages += ("scikit-image", *OF_NETWORKS)
        return packages

    def load(self, kind: str) -> Dataset:
        """Return the rows, by what the target is."""
        from pipelines.data import load_dataset

        options = cast("SearchOptions", self.options)
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

    def take(self, data: Dataset) -> Dataset:
        """Return the rows to plan with: features of a few images, where features are asked for."""
        options = cast("SearchOptions", self.options)
        self._fingerprint = data.fingerprint
        self.features = Features.of(options, data, self.record)
        self.dataset = data if self.features is None else self.features.planned()
        self.splits = make_splits(
            self.dataset,
            options.cv,
            options.folds,
            options.repeats,
            options.seed,
            options.nested,
            learning_curve=getattr(options, "learning_curve", False),
        )
        self.data = self.fold(self.dataset)
        return self.dataset

    @staticmethod
    @abstractmethod
    def fold(data: Dataset, /) -> FoldedData:
        """Return the rows of a data set to search on."""

    @abstractmethod
    def make_problem(self, device: str, n_threads: int) -> Problem:
        """Return the data and settings of the search for a kind of worker; after ``plan``."""

    def restore(self, session: Session) -> None:
        """Read the rows that were computed before; a failed fit gets another try."""

        self.path = session.path
        self.rows: dict[Place, Row] = {
            place_of(row): row
            for record in session.journal.records
            for row in record["rows"]
            if not row["status"].startswith(names.FAILED)
        }
        was = session.record.get("identity", self.identity)["inputs"]
        if session.record.get("accepted") or was != self.identity["inputs"]:
            self._drop_rows_of_others()
        self._extended = {}
        extend = cast("SearchOptions", self.options).extend
        if extend is not None and not session.folder.has_begun:
            self._extended = self._rows_to_extend(Path(extend), session.echo)
            self.rows |= self._extended

    def _drop_rows_of_others(self) -> None:
        """Keep rows of candidates and splits that are where they were before options changed."""
        candidates = self.make_problem("cpu", 1).candidates
        names_now = [_identity(candidate.algorithm, candidate.text) for candidate in candidates]
        self.rows = {
            place: row
            for place, row in self.rows.items()
            if row["candidate"] < len(candidates)
            and row["split"] < len(self.splits.get((row["stage"], row["share"]), ()))
            and _identity(row["algorithm"], row["params"]) == names_now[row["candidate"]]
        }

    def _rows_to_extend(self, path: Path, echo: Echo) -> dict[Place, Row]:
        """Return the rows of another run whose candidates are candidates of this one, too.

        Raises
        ------
        InputError
            It is no run of this command, or its rows or another option were not the same.
        """
        folder = RunFolder.open(path, self.command, "--extend")
        self.accept(f"--extend {path}", folder.record, echo, self.candidate_options)
        theirs, ours = folder.record["options"], deciding_results(self.options)
        about = {field.name: field.metadata for field in fields(self.options)}
        for name, value in json.loads(json.dumps(ours)).items():
            was = theirs.get(name)
            same_file = "identity" in folder.record and is_moved(about[name], was, value)
            if name not in self.candidate_options and was != value and not same_file:
                raise InputError(
                    f"{opt('extend')} must be a run with the same {opt(name)}, got {path}, which "
                    f"has {was} in place of {value}; run without {opt('extend')}"
                )
        if folder.record["dataset"]["fingerprint"] != self._fingerprint:
            raise InputError(
                f"{opt('extend')} must be a run of the same data, got {path}, whose rows are "
                f"others; run without {opt('extend')}"
            )
        extractor = None if self.features is None else self.features.extractor.describe()
        if folder.record.get("features") != extractor:
            raise InputError(
                f"{opt('extend')} must be a run of the same {opt('weights')}, got {path}, whose "
                f"features are of others; run without {opt('extend')}"
            )
        problem = self.make_problem("cpu", 1)
        places = {_identity(one.algorithm, one.text): i for i, one in enumerate(problem.candidates)}
        rows = {}
        with folder.journal(write=False) as journal:
            for row in (row for record in journal.records for row in record["rows"]):
                place = places.get(_identity(row["algorithm"], row["params"]))
                ok = not row["status"].startswith(names.FAILED)
                if ok and place is not None and row["stage"] in (SEARCH, INNER):
                    same = problem.candidates[place]
                    own = {name: same.parameters[name] for name in problem.columns}
                    row = row | {"candidate": place, "params": same.text} | own
                    rows[place_of(row)] = row
        return rows

    def n_fits(self) -> tuple[int, int]:
        """Return candidates on every split; those of learning curves and outer folds come later."""
        done = sum(row["stage"] in (SEARCH, INNER) for row in self.rows.values())
        n_splits = sum(len(self.splits[key]) for key in self._first_stages)
        return done, n_splits * self.n_candidates

    @property
    def ratio(self) -> float:
        """Validation rows for each training row, the mean over the splits."""
        splits = self.splits[SEARCH, 1.0]
        return sum(len(test) / len(train) for train, test in splits) / len(splits)

    @property
    def fits_in_words(self) -> str:
        """The fits of the search: ``5 folds = 320 fits``, and those within outer folds."""
        options, n_splits = cast("SearchOptions", self.options), len(self.splits[SEARCH, 1.0])
        words = f"{n_splits} folds = {self.n_candidates * n_splits:,} fits"
        if n_splits != options.folds:
            words = words.replace("folds", "splits", 1)
        if n_inner := len(self.splits.get((INNER, 1.0), ())):
            words += f" and {self.n_candidates * n_inner:,} in {options.nested} outer folds"
        return words

    @property
    def _first_stages(self) -> list[tuple[str, float]]:
        return [key for key in self.splits if key[0] in (SEARCH, INNER)]

    def tasks_for(self, kind: str, n_workers: int) -> Sequence[Task]:
        """Return the tasks of the search; those that need the best of it are not known before."""

        on_gpu = kind == "cuda" or self.options.device == "gpu"
        problem = self.make_problem("gpu" if on_gpu else "cpu", 1)
        return tasks_for_workers(problem, self._first_stages, n_workers)

    def configure(self, cluster: Cluster) -> dict[str, Any]:
        """Choose the groups of candidates and the backend; compute features that are missing."""
        n_splits = len(self.splits[SEARCH, 1.0])
        metadata: dict[str, Any] = {"n_splits": n_splits, "ratio": self.ratio}
        if self.features is not None:
            self.dataset = self.features.compute(cluster, self.options.quiet)
            self.data = self.fold(self.dataset)
            metadata["features"] = self.features.extractor.describe()
        self.problem = self.make_problem(cluster.device, cluster.threads)
        return metadata

    def execute(self, session: Session, cluster: Cluster) -> dict[str, Any]:
        """Score all candidates on all splits, then refit the best."""

        if self._extended:
            extend = cast("SearchOptions", self.options).extend
            session.echo(f"extended   {len(self._extended):,} fits are those of {extend}")
            session.journal.append(
                {
                    "task": f"of {extend}",
                    "worker": cluster.workers[0]["address"],
                    "started": time.time(),
                    "seconds": 0.0,
                    "rows": list(self._extended.values()),
                }
            )
        n_workers = cluster.runner.n_workers
        first = tasks_for_workers(self.problem, self._first_stages, n_workers)
        self._run(session, cluster, first)
        self.cells = tabulate(self.rows.values(), self.problem.columns)
        names.write_table(self.cells, session.path / names.CELLS)
        # Learning curves and outer folds are of what the rows so far say is best.
        more, n_splits = list[Task](), len(self.splits[SEARCH, 1.0])
        for stage, share in self.splits:
            only: dict[int, Any] = {}
            if stage == CURVE:
                best = best_of_each(rank(tabulate(self.rows.values()), n_splits)).values()
                only = {split: list(best) for split in range(n_splits)}
            elif stage == OUTER:
                only = {i: list(each.values()) for i, (each, _) in enumerate(self._chosen())}
            if only:
                more += make_tasks(self.problem, stage, share, only=only)
        if more:
            self._run(session, cluster, more)
        return failures(self.cells, (*(self.problem.columns or ("algorithm", "candidate")), "fold"))

    def _run(self, session: Session, cluster: Cluster, tasks: Sequence[Task]) -> None:

        todo = [left for task in tasks if (left := task.without(self.rows)) is not None]
        done = sum(place in self.rows for task in tasks for place in task.places)
        if done:
            session.echo(
                f"resumed    {done:,} fits were already finished, {len(todo):,} tasks remain"
            )
        best = BestSoFar(self.candidate_columns, self.scored_by)
        best.add(row for row in self.rows.values() if row["stage"] == SEARCH)
        with session.journal_writer(cluster, todo) as journal_writer:
            journal_writer.best(best.text)
            for event, rows in run_tasks(cluster.runner, self.problem, todo, cluster.threads):
                best.add(row for row in rows if row["stage"] == SEARCH)
                journal_writer.best(best.text)
                if isinstance(event, ProgressEvent):
                    journal_writer.update(event, rows)
                else:
                    journal_writer.record(event, rows)
                self.rows |= {place_of(row): row for row in rows}
        if watch.drawn and cluster.kind == "threads" and cluster.runner.n_workers > 1:
            session.echo(
                "warning    an estimator draws from numpy's or torch's global generator, which "
                "threads share: another run may give other scores; use --cluster local, "
                "--workers 1, or a random_state"
            )

    def _chosen(self) -> list[tuple[dict[str, int], int | None]]:
        """Return what the inner search of each outer fold chose."""

        n_outer = len(self.splits[OUTER, 1.0])
        n_inner = len(self.splits[INNER, 1.0]) // n_outer
        return chosen_in_folds(self.rows.values(), n_outer, n_inner)

    @abstractmethod
    def refit(self, cluster: Cluster) -> Callable[[Problem, Refit], dict[str, Any]]:
        """Return the work that fits the best candidate on all rows and asks it about the test rows.

        What it gives has ``predicted``, what the test rows are taken for, and whatever ``answer``
        makes of it.
        """

    @abstractmethod
    def answer(
        self, path: Path, candidates: pd.DataFrame, tested: dict[str, Any]
    ) -> dict[str, Any]:
        """Write the table of candidates, and the best one's predictions; entries for ``run.json``.

        Parameters
        ----------
        candidates : as ``reduce_scores`` gives them, with their place, ``candidate``
        tested : what the work of ``refit`` gave
        """

    def summarize(self, session: Session, cluster: Cluster | None) -> dict[str, Any]:
        """Rank the candidates, refit the best, test it once, and a baseline beside it."""
        from pipelines.data.baseline import baseline_of, remarks_on

        assert cluster is not None
        rows, path, splits = self.rows.values(), session.path, self.splits[SEARCH, 1.0]
        candidates = reduce_scores(
            self.cells, (*self.problem.columns, "candidate"), len(splits), cluster.runner.client
        )
        scores = candidates["score_mean"]
        if scores.isna().all():
            reason = self.cells["status"].iloc[0].removeprefix("failed: ")
            chosen = [n for n in ("estimator", "param", "grid") if getattr(self.options, n, None)]
            check = f"; check {' and '.join(map(flag_of, chosen))}" if chosen else ""
            raise RunStopped(f"every candidate failed: {reason}{check}")
        # Of many rows it takes long.
        n_rows = f"all {len(self.dataset.X_train):,} training rows{self.refitted_besides}"
        with phase(session.echo, f"refit      fitting the best candidate on {n_rows}"):
            task = Refit(int(candidates["candidate"].iloc[0]))
            (tested,) = cluster.runner.outcomes(self.refit(cluster), self.problem, [task])
        if tested.error is not None:
            raise RunStopped(f"the best candidate cannot be fitted on all rows: {tested.error}")
        metadata = self.answer(path, candidates, tested.result)
        with phase(session.echo, "baseline   scoring it"):
            baseline = baseline_of(self.dataset, splits, self.scored_by, labels=self.labels)
        remarks = remarks_on(self.dataset, baseline, scores.tolist(), metadata.get("test_error"))
        if (CURVE, 0.1) in self.splits:
            curve = tabulate(rows, self.problem.columns, CURVE)
            names.write_table(curve, path / names.LEARNING_CURVE)
        if (OUTER, 1.0) in self.splits:
            metadata["nested"] = nested_estimate(rows, self._chosen())
            nested = tabulate(rows, self.problem.columns, OUTER)
            names.write_table(nested, path / names.NESTED)
        remarks += metadata.get("remarks", [])
        return {**metadata, "baseline": baseline, "remarks": remarks}


def tasks_for_workers(
    problem: Problem, stages: Sequence[tuple[str, float]], n_workers: int
) -> list[Task]:
    """Return the tasks of some stages; the longest are cut into splits if workers would else
    idle at the end."""
    tasks = [task for stage in stages for task in make_tasks(problem, *stage, n_workers=n_workers)]
    if any(group.shared and group.shared.one_launch for group in problem.groups):
        return tasks  # what the splits of a launch share is not known
    return split_for_workers(tasks, n_workers, lambda task: task.by_split)


def run_tasks(
    runner: Runner, problem: Problem, tasks: Sequence[Task], n_threads: int = 1
) -> Iterator[tuple[Outcome[Task] | ProgressEvent, list[Row]]]:
    """Run tasks; give each outcome, or news of a task at work, with its rows, each row once.

    Rows that are told before their task is done are a part of it: their splits, as if these were
    a task of their own. A task that is begun anew, as its worker died, tells of the same rows
    again. One that failed gives rows whose status says why.
    """
    by_name = {task.name: task for task in tasks}
    given: set[Place] = set()
    until: dict[str, float] = {}  # when the rows of a task were last told
    for event in runner.outcomes_and_events(partial(run_task, n_threads=n_threads), problem, tasks):
        if isinstance(event, ProgressEvent):
            task, rows = by_name[event.task], event.rows
        else:
            task, failed = event.task, event.error is not None
            rows = failed_rows(problem, task, event.error or "") if failed else event.result
        left = task.without(given)
        new = [row | {"worker": event.worker} for row in rows if place_of(row) not in given]
        given.update(map(place_of, new))
        if isinstance(event, ProgressEvent):
            if new:
                until[task.name] = event.started + event.seconds
                part = task.part(dict.fromkeys(row["split"] for row in new))
                event = replace(event, part=part.name, cost=part.cost)
            yield event, new
            continue
        if len(new) < len(rows):
            began = max(event.started, until.get(task.name, 0.0))
            event = replace(
                event,
                part=left.name if left else "",
                cost=left.cost if left else 0.0,
                started=began,
                seconds=max(0.0, event.started + event.seconds - began),
                compile_seconds=0.0,  # it compiled before its first rows were ready
            )
        yield event, without_compilation(new, event.seconds, event.compile_seconds)
