"""Grid search of a kernel SVM over C and gamma: ``python -m pipelines.svm_grid``.

``python -m pipelines.svm_grid predict RUN TABLE`` asks the model of a run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from cluster_setup.on_this_machine.devices import available_cores
from pipelines.data import Dataset, load_dataset, make_folds
from pipelines.data.placement import FoldedData
from pipelines.run import job, summary
from pipelines.run.cluster import Cluster
from pipelines.run.groups import FoldOptions, RunOptions, TableOptions, TestOptions
from pipelines.run.lifecycle import Session
from pipelines.run.news import News
from pipelines.run.options import at_least, increasing_log10, number, option
from pipelines.run_folder import columns, names
from pipelines.select.best import BestSoFar
from pipelines.select.scores import failures, scored_rows
from pipelines.select.scoring import resolve_scoring
from pipelines.svm.answer import answer, candidates_in
from pipelines.svm.grid import (
    Grid,
    axis,
    default_bounds,
    rows_by_cell,
    search,
    tabulate,
    workers_for,
)
from pipelines.svm.options import SVMOptions
from pipelines.svm.solvers import resolve_solver
from pipelines.svm.summary import of_grid, of_run
from pipelines.svm.units import Unit

SHORT = 30_000  # predicted cost that a core is through with in about ten seconds
ROWS_OF_A_LONG_REFIT = 10_000  # from which it is announced, as it may take minutes

bounds = partial(option, parse=float, nargs=2, check=increasing_log10, metavar=("FROM", "TO"))


@dataclass(frozen=True)
class Options(SVMOptions, FoldOptions, RunOptions, TestOptions, TableOptions):
    """Options of ``svm_grid``."""

    group: ClassVar[str] = "grid"

    n_c: int = number(8, "number of C", check=at_least(1, 10_000))
    n_gamma: int = number(8, "number of gamma", check=at_least(1, 10_000))
    log_c: tuple[float, float] | None = bounds(
        None, "bounds of log10 C; by default -3 6 for images, -2 4 for tables"
    )
    log_gamma: tuple[float, float] | None = bounds(
        None,
        "bounds of log10 gamma; by default -6 -2 for images, and for tables from a hundredth "
        "to ten times 1 / (features × variance)",
    )
    scoring: str = option(
        "accuracy",
        "what the best candidate is chosen by: any scorer of scikit-learn that needs predictions "
        "or decision values, such as balanced_accuracy, f1_macro or, of two classes, roc_auc",
        metavar="NAME",
    )
    probability: bool = option(
        False, "calibrate class probabilities for the best candidate, on the same folds"
    )


class Search(job.Job[Options]):
    """Every C and gamma of a grid on every fold; the best candidate is fitted and tested."""

    command = "svm_grid"
    description = (
        "Find C and gamma of a kernel SVM by cross-validation on a grid, on every worker. To ask "
        "the model of a run: python -m pipelines.svm_grid predict --help."
    )
    kind_of_options = Options
    examples = (
        "--n-c 24 --n-gamma 24 --log-c -3 6 --log-gamma -6 -2",
        "--dataset mine.csv --target species --scoring f1_macro",
        "--resume results/svm_grid-20261120-130849",
    )

    @staticmethod
    def predict(argv: Sequence[str]) -> int:
        """Ask the model of a run."""
        from pipelines.svm import predict

        return predict.main(argv)

    def load(self, kind: str) -> Dataset:
        """The rows, and how they are scored."""
        scoring, options = resolve_scoring(self.options.scoring), self.options
        on_gpu = kind == "cuda" and options.device != "cpu"
        dataset = load_dataset(
            options.dataset, test_size=options.test_size, seed=options.seed,
            device="gpu" if on_gpu else "cpu", n_folds=options.folds, **options.table(),
        )  # fmt: skip
        self.scoring = scoring.on(dataset.classes) if scoring else None
        return dataset

    def plan(self, data: Dataset) -> list[str]:
        """Folds and the two axes of the grid."""
        log_c, log_gamma = default_bounds(data.variance, data.image_shape is not None)
        self.options = replace(
            self.options,
            log_c=self.options.log_c or log_c,
            log_gamma=self.options.log_gamma or log_gamma,
            # A linear kernel has no gamma.
            n_gamma=1 if self.options.kernel == "linear" else self.options.n_gamma,
        )
        options, self.dataset = self.options, data
        assert options.log_c is not None
        assert options.log_gamma is not None
        folds = make_folds(data.y_train, options.folds, options.seed, data.classes)
        self.folded = FoldedData.of(data, folds)
        self.axes = (
            axis("c", options.n_c, options.log_c),
            axis("gamma", options.n_gamma, options.log_gamma),
        )
        return [
            *data.lines,
            summary.of_data(data, f"{data.X_train.shape[1]} features", options.limit),
            of_grid(options.n_c, options.n_gamma, options.folds, options.decision, options.scoring),
        ]

    def would_use(self, kind: str) -> str:
        """The solver; what the workers of a site have is not known here."""
        if kind not in ("threads", "local", "cuda"):
            return ""
        device = "gpu" if kind == "cuda" else "cpu"
        return f"the solver {resolve_solver(self.options.solver, device)}"

    @property
    def solver(self) -> str:
        """A resumed run keeps the solver it began with."""
        return str(self.record.get("solver", self.options.solver))

    def n_workers(self, kind: str) -> int | None:
        """Few, where the solver fills several cores from one process."""
        fills_cores = kind in ("threads", "local") and self.solver in ("auto", "path")
        if self.options.workers is None and fills_cores:
            return workers_for("path", available_cores())
        return self.options.workers

    def recall(self, session: Session) -> None:
        """Rows of cells; a failed fit gets another try."""
        self.path = session.path
        self.rows = rows_by_cell(scored_rows(session.journal.records))

    def n_fits(self) -> tuple[int, int]:
        """Cells: every C and gamma on every fold."""
        Cs, gammas = self.axes
        return len(self.rows), len(Cs) * len(gammas) * len(self.folded.folds)

    def is_short(self) -> bool:
        """By predicted costs; of the solver that fills the cores from one process."""
        if self.solver not in ("auto", "path"):
            return False
        cost = sum(unit.cost for unit in self.units_for("threads", 1))
        return cost < SHORT * available_cores()

    def units_for(self, kind: str, n_workers: int) -> Sequence[Unit]:
        """The units of the grid."""
        on_gpu = kind == "cuda" or self.options.device == "gpu"
        grid = self._grid("gpu" if on_gpu else "cpu", 1)
        return grid.units(self.folded, n_workers)

    def settle(self, cluster: Cluster) -> dict[str, Any]:
        """The solver, and with it the units."""
        self.grid = self._grid(cluster.device, cluster.threads)
        return {"solver": self.grid.solver}

    def _grid(self, device: str, n_threads: int) -> Grid:
        solver = resolve_solver(self.solver, device)
        settings = self.options.settings(n_threads=n_threads, device=device, scoring=self.scoring)
        return Grid(*self.axes, solver, settings)

    def work(self, session: Session, cluster: Cluster) -> dict[str, Any]:
        """Fit the cells that are left."""
        runner, rows = cluster.runner, self.rows
        units = self.grid.units(self.folded, runner.n_workers)
        todo = [left for unit in units if (left := unit.without(rows)) is not None]
        if rows:
            session.say(
                f"resumed    {len(rows):,} fits were done before, {len(todo)} units are left"
            )
        best = BestSoFar(("C", "gamma"), self.options.scoring)
        best.add(rows.values())
        with session.books(cluster, todo) as books:
            books.best(best.text)
            for came, new_rows in search(runner, self.folded, self.grid, todo):
                best.add(new_rows)
                books.best(best.text)
                if isinstance(came, News):
                    books.follow(came, new_rows)
                else:
                    books.enter(came, new_rows)
                rows |= rows_by_cell(new_rows)
        results = tabulate(list(rows.values()))
        results.to_parquet(session.path / names.CELLS)
        return failures(results, columns.SVM_CELL)

    def answer(self, session: Session, cluster: Cluster | None) -> dict[str, Any]:
        """Rank the candidates, refit the best, test it once."""
        assert cluster is not None
        if (n_rows := len(self.dataset.X_train)) >= ROWS_OF_A_LONG_REFIT:
            session.say(f"refit      the best candidate on all {n_rows:,} rows")
        return answer(
            cluster.runner, self.folded, self.grid, session.path, self.dataset,
            self.options.probability,
        )  # fmt: skip

    def lines(self, record: Mapping[str, Any]) -> list[str]:
        """The best candidate, its errors, the time, and what failed."""
        return of_run(record, candidates_in(self.path))


main, run, check = Search.main, Search.run, Search.check

if __name__ == "__main__":
    sys.exit(main())
