"""Cross-validation of any estimators: ``python -m pipelines.cross_validate``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.run import job
from pipelines.run.cluster import Cluster
from pipelines.run.groups import FoldOptions, RunOptions, TableOptions, TestOptions
from pipelines.run.lifecycle import Session
from pipelines.run_folder import columns, names
from pipelines.say import aloud
from pipelines.validation.grids import read_grid, read_params, with_labels
from pipelines.validation.options import CandidateOptions, TaskOptions, ValidationOptions

if TYPE_CHECKING:
    from pipelines.validation.data import Learning
    from pipelines.validation.units import Unit


@dataclass(frozen=True)
class Options(
    CandidateOptions,
    ValidationOptions,
    FoldOptions,
    RunOptions,
    TestOptions,
    TaskOptions,
    TableOptions,
):
    """Options of ``cross_validate``."""

    group: ClassVar[str] = "validation"


class CrossValidation(job.Job[Options]):
    """Every candidate of every algorithm on every fold; algorithms are compared."""

    command = "cross_validate"
    description = "Cross-validate estimators of any kind and compare them, on every worker."
    kind_of_options = Options
    examples = (
        "--estimator knn --param n_neighbors=1,3,5,9 --estimator forest",
        "--dataset mine.csv --target species --nested 3",
        "--estimators",
    )

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> int:
        """Run the command, or list the estimators."""
        if "--estimators" not in (sys.argv if argv is None else argv):
            return super().main(argv)
        from pipelines.validation.catalogue import listing

        for line in listing():
            aloud(line)
        return 0

    @staticmethod
    def words(argv: Sequence[str]) -> list[str]:
        """``--param`` then say which ``--estimator`` they are of."""
        return with_labels(argv)

    def load(self, kind: str) -> Learning:
        """The rows, by what the target is."""
        from pipelines.validation.data import load_learning  # --help waits for no scikit-learn

        options = self.options
        return load_learning(
            options.dataset, task=None if options.task == "auto" else options.task,
            n_folds=options.folds, test_size=options.test_size, seed=options.seed,
            groups=options.groups, in_order=options.cv == "time", **options.table(),
        )  # fmt: skip

    def plan(self, data: Learning) -> list[str]:
        """Candidates, scores and folds."""
        from pipelines.validation import plan, summary

        options, self.data = self.options, data
        grids = read_grid(options.grid) if options.grid else {}
        chosen = tuple(dict.fromkeys([*options.estimator, *grids])) or plan.USUAL[data.task]
        for name, grid in read_params(options.param, chosen).items():
            grids[name] = {**grids.get(name, {}), **grid}
        self.candidates = plan.make_candidates(
            chosen, grids, data, options.seed, options.preprocess
        )
        self.scoring = plan.make_scoring(options.scoring, data)
        self.splits = plan.make_splits(
            data, options.cv, options.folds, options.repeats, options.seed, options.nested,
            options.learning_curve,
        )  # fmt: skip
        n_splits = len(self.splits["search", 1.0])
        return summary.of_plan(data, self.candidates, self.scoring, n_splits, options.cv)

    def recall(self, session: Session) -> None:
        """Rows that were computed before."""
        from pipelines.validation.search import rows_by_place

        self.rows = rows_by_place(session.journal.records)

    def n_fits(self) -> tuple[int, int]:
        """Candidates on every split; those of learning curves and outer folds come later."""
        stages = [key for key in self.splits if key[0] in ("search", "inner")]
        done = sum(row["stage"] in ("search", "inner") for row in self.rows.values())
        return done, sum(len(self.splits[key]) for key in stages) * len(self.candidates)

    def settle(self, cluster: Cluster) -> dict[str, Any]:
        """What is fitted together, and where."""
        from pipelines.validation.units import Problem, group_candidates

        data, groups = self.data, group_candidates(self.candidates, self.scoring)
        self.problem = Problem(
            data.X_train, data.y_train, tuple(self.candidates), self.splits, self.scoring,
            tuple(groups), data.fingerprint, cluster.device, self.options.intel,
            data.X_test, data.y_test,
        )  # fmt: skip
        return {"n_candidates": len(self.candidates), "task": data.task}

    def work(self, session: Session, cluster: Cluster) -> dict[str, Any]:
        """All candidates on all folds; then what needs the best of them."""
        from pipelines.select.scores import failures
        from pipelines.validation.search import tabulate
        from pipelines.validation.units import SEARCH, units_of

        stages = [key for key in self.splits if key[0] in ("search", "inner")]
        first = [unit for stage in stages for unit in units_of(self.problem, *stage)]
        self._carry_out(session, cluster, first)
        cells = tabulate(self.rows.values(), SEARCH)
        cells.to_parquet(session.path / names.CELLS)
        if more := self._of_the_best():
            self._carry_out(session, cluster, more)
        return failures(cells, columns.VALIDATION_CELL)

    def _carry_out(self, session: Session, cluster: Cluster, units: Sequence[Unit]) -> None:
        from pipelines.select.best import BestSoFar
        from pipelines.validation.search import carry_out_units, place_of
        from pipelines.validation.units import SEARCH

        todo = [left for unit in units if (left := unit.without(self.rows)) is not None]
        if len(todo) < len(units):
            session.say(
                f"resumed    {len(units) - len(todo)} units were done, {len(todo)} are left"
            )
        best = BestSoFar(("algorithm", "params"), self.scoring[0])
        best.add(row for row in self.rows.values() if row["stage"] == SEARCH)
        with session.books(cluster, todo) as books:
            books.best(best.text)
            for outcome, rows in carry_out_units(
                cluster.runner, self.problem, todo, cluster.threads, self.options.inner_jobs
            ):
                best.add(row for row in rows if row["stage"] == SEARCH)
                books.best(best.text)
                books.enter(outcome, rows)
                self.rows |= {place_of(row): row for row in rows}

    def _of_the_best(self) -> list[Unit]:
        """Units of learning curves and outer folds, of what the rows so far say is best."""
        from pipelines.validation.answer import chosen_in_folds
        from pipelines.validation.search import best_of_each, rank, tabulate
        from pipelines.validation.units import units_of

        rows, units = list(self.rows.values()), list[Any]()
        n_splits = len(self.splits["search", 1.0])
        for stage, share in self.splits:
            if stage == "curve":
                best = best_of_each(rank(tabulate(rows), n_splits)).values()
                only: dict[int, Any] = {split: list(best) for split in range(n_splits)}
            elif stage == "outer":
                n_outer = len(self.splits[stage, share])
                chosen = chosen_in_folds(rows, n_outer, len(self.splits["inner", 1.0]) // n_outer)
                only = {outer: list(each.values()) for outer, (each, _) in enumerate(chosen)}
            else:
                continue
            units += units_of(self.problem, stage, share, only)
        return units

    def answer(self, session: Session, cluster: Cluster | None) -> dict[str, Any]:
        """Rank, compare, refit the best, test it once."""
        from pipelines.validation.answer import answer

        assert cluster is not None
        return answer(
            session.path, cluster.runner, self.problem, self.data, list(self.rows.values()),
            self.options.rope, cluster.threads,
        )  # fmt: skip

    def lines(self, record: Mapping[str, Any]) -> list[str]:
        """The best, how it compares, what was shared."""
        from pipelines.validation.summary import of_run

        return of_run(record)


main, run, check = CrossValidation.main, CrossValidation.run, CrossValidation.check

if __name__ == "__main__":
    sys.exit(main())
