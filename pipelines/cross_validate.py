"""The command ``pleasingly cross-validate``: cross-validation of any estimators.

``pleasingly cross-validate predict RUN TABLE`` predicts with the best candidate of a run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pipelines.console import echo
from pipelines.data.dataset import CLASSIFICATION
from pipelines.data.user_code import absolute_name, named_codes
from pipelines.nn.options import network_option, own_code_option
from pipelines.run.cluster import Cluster
from pipelines.run.options import at_least, list_option, option, real
from pipelines.run.predict import ModelAnswer, PredictOptions
from pipelines.run_folder import names
from pipelines.run_folder.ranking import have_all_folds
from pipelines.search.candidates import (
    USUAL_ESTIMATORS,
    Algorithm,
    Candidate,
    classes_of,
    code_of_grid,
    code_of_params,
    code_of_steps,
    listing,
    network_lines,
    pixel_scaling,
    read_grid,
    read_params,
    unscaled_rows,
    with_labels,
    with_network,
)
from pipelines.search.command import (
    CandidateSpace,
    DrawnCandidate,
    SearchJob,
    SearchPlan,
    SearchResult,
)
from pipelines.search.fitting import group_candidates
from pipelines.search.options import OF_STRATEGIES, SearchOptions
from pipelines.search.own_scorers import OwnScorer, own_scorer_names
from pipelines.search.ranking import best_of_each, compare_algorithms, ends_of_lists, with_algorithm
from pipelines.search.record import (
    COMPARISON,
    FITTED,
    SearchRow,
    ValidationAnswer,
    ValidationRecord,
)
from pipelines.search.scoring import CandidateScorer, make_scoring
from pipelines.search.spaces import N_ITER, Branch, Point, draw, refuse_distributions
from pipelines.search.strategies import DRAWING
from pipelines.search.summary import validation_lines
from pipelines.search.tasks import Problem, Refit

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.data.dataset import Dataset
    from pipelines.data.placement import FoldedData
    from pipelines.run.new_rows import NewRows
    from pipelines.search.model import FittedEstimator


@dataclass(frozen=True)
class CandidateOptions:
    """Options that choose the estimators and their parameter grids."""

    group: ClassVar[str] = "grid"

    estimator: tuple[str, ...] = list_option(
        (),
        "estimators to compare, by short name or import path",
        metavar="NAME",
        code=classes_of,
    )
    estimators: bool = option(
        False, "list the short names and exit", changes_results=False, python=False
    )
    param: tuple[str, ...] = list_option(
        (),
        "values of a parameter of the estimator named last, separated by commas; every combination "
        "is a candidate. To draw: '{log: [1e-2, 1e4]}', uniform, int, log_int, normal",
        metavar="NAME=VALUE,VALUE",
        code=code_of_params,
    )
    network: str | None = network_option(
        "cnn for images, else table", head="of --estimator network: "
    )
    grid: str | None = option(
        None,
        "YAML file of grids: estimator: {parameter: [value, ...]}, or a list of such {...}; a "
        "distribution in place of a list, such as {log: [1e-2, 1e4]}, is sampled",
        metavar="FILE.yaml",
        path="file",
        code=code_of_grid,
    )
    preprocess: str = option(
        "auto",
        "preprocessing, fitted within each training fold: auto (scaling where an estimator needs "
        "it, one-hot encoding, imputation), none, or a YAML file of steps",
        metavar="auto|none|FILE",
        path="file",
        code=code_of_steps,
    )
    scoring: tuple[str, ...] = list_option(
        (),
        "scorers of scikit-learn, or FILE.py:NAME of your own: a function of estimator, X and y, "
        "or one of make_scorer; the first chooses the best candidate (default: accuracy; r2 for "
        "regression)",
        metavar="NAME",
        parse=absolute_name,
        code=named_codes,
    )


@dataclass(frozen=True)
class Options(CandidateOptions, SearchOptions):
    """Options of ``cross_validate``."""

    group: ClassVar[str] = "validation"

    learning_curve: bool = option(
        False, "also fit the best candidate of each algorithm on fractions of the training rows"
    )
    rope: float = real(
        0.01,
        "score differences up to this count as equivalent",
        rule=at_least(0, 1_000_000),
        metavar="WIDTH",
    )


@dataclass(frozen=True)
class ValidationPredictOptions(PredictOptions):
    """Options of ``cross_validate predict``."""

    network: str | None = own_code_option("a network of your own")


@dataclass(frozen=True, eq=False, kw_only=True)
class ValidationPlan(SearchPlan[Options]):
    """Plan of a cross-validation: the candidates of all algorithms.

    Attributes
    ----------
    algorithms : sequence of Algorithm
    candidates : tuple of Candidate
        The candidates of all algorithms, one algorithm after the other.
    network_lines : sequence of str
        Lines for the terminal on networks among the candidates.
    """

    algorithms: Sequence[Algorithm]
    candidates: tuple[Candidate, ...]
    network_lines: Sequence[str] = ()

    @cached_property
    def rows(self) -> FoldedData:
        return unscaled_rows(self.dataset)

    @property
    def lines(self) -> list[str]:
        """Lines on the data, the task, the candidates and the folds."""
        data, cv = self.dataset, self.options.cv
        what = f"{len(data.classes)} classes" if data.task == CLASSIFICATION else "numbers"
        algorithms = ", ".join(dict.fromkeys(candidate.algorithm for candidate in self.candidates))
        return [
            *data.lines,
            f"data       {data.name}: {len(data.y_train):,} training rows, "
            f"{data.X_train.shape[1]} features; {len(data.y_test):,} test rows",
            f"task       {data.task}: {what}; "
            f"{'--cv ' + cv if cv != 'auto' else 'default folds'}, "
            f"scored by {', '.join(self.scoring)}",
            *self.network_lines,
            f"candidates {self.n_candidates:,} of {algorithms} x {self.fits_in_words}",
            *self._drawn,
        ]

    @property
    def _drawn(self) -> Iterator[str]:
        """A line on the number of draws, and on algorithms with fewer different candidates."""
        options = self.options
        if options.strategy != "random":
            return
        n, counts = (
            options.n_iter or N_ITER,
            Counter(candidate.algorithm for candidate in self.candidates),
        )
        few_names = [f"{name} has only {m}" for name, m in counts.items() if m < n]
        few_text = f"; {', '.join(few_names)} that differ" if few_names else ""
        yield f"drawn      {n} of each estimator, from seed {options.seed}{few_text}"

    @cached_property
    def scorer(self) -> CandidateScorer:
        own_names = own_scorer_names(self.options.scoring)
        labels = self.dataset.classes if self.dataset.task == CLASSIFICATION else None
        return CandidateScorer(self.scoring, own_scorers=own_names, own_labels=labels)

    @property
    def own_scorer(self) -> Any:
        """See ``SearchPlan``."""
        text = self.scorer.own_scorers.get(self.scoring[0])
        return None if text is None else OwnScorer(text, self.scorer.own_labels)

    def make_problem(self, device: str, n_threads: int) -> Problem:
        scorer = self.scorer
        groups = group_candidates([candidate.estimator for candidate in self.candidates], scorer)
        return Problem(
            self.rows,
            self.candidates,
            self.splits,
            scorer,
            tuple(groups),
            device=device,
            seed=self.options.seed,
        )

    def sources(self, problem: Problem) -> Sequence[CandidateSpace]:
        def make(algorithm: Algorithm, point: Point) -> DrawnCandidate:
            candidate = algorithm.candidate(point)
            (group,) = group_candidates([candidate.estimator], problem.scorer)
            return candidate, group

        return [(algorithm.branches, partial(make, algorithm)) for algorithm in self.algorithms]

    def on(self, cluster: Cluster) -> Self:
        """See ``SearchPlan``. The entries also have the number of candidates and the task."""
        plan, n_candidates = super().on(cluster), {"n_candidates": self.n_candidates}
        return replace(plan, entries={**plan.entries, **n_candidates, "task": self.dataset.task})


def points_of(algorithm: Algorithm, options: Options) -> list[Point]:
    """Parameters of the candidates of an algorithm: drawn at random, or every combination."""
    if options.strategy not in DRAWING:
        return algorithm.combinations()
    # The seed has the name of the algorithm: its draws do not depend on which others there are.
    seed = (options.seed, *algorithm.name.encode())
    return draw(algorithm.branches, options.n_iter or N_ITER, seed, options.sampler)


class CrossValidation(SearchJob[Options]):
    """Job of ``cross_validate``: every candidate of every algorithm on every fold."""

    command = "cross_validate"
    description = "Cross-validate estimators of any kind and compare them, on every worker."
    options_class = Options
    row = SearchRow
    record = ValidationRecord
    kind_of_answer = ValidationAnswer
    files = (FITTED,)
    page = "pipelines.pages.cross_validate:ValidationReport"
    predict_options_class = ValidationPredictOptions
    model_files = (FITTED,)
    candidate_options = OF_STRATEGIES | {
        "estimator",
        "param",
        "network",
        "grid",
        "learning_curve",
        "rope",
    }
    examples = (
        "--estimator knn --param n_neighbors=1,3,5,9 --estimator forest",
        "--dataset mine.csv --target species --nested 3",
        "--estimators",
    )

    @classmethod
    def main(cls, argv: Sequence[str] | None = None) -> int:
        """Run the command, or list the short names of estimators."""
        if "--estimators" not in (sys.argv if argv is None else argv):
            return super().main(argv)
        for line in listing():
            echo(line)
        return 0

    @staticmethod
    def argv(argv: Sequence[str]) -> list[str]:
        """Command-line arguments in which each ``--param`` names its ``--estimator``."""
        return with_labels(argv)

    def plan_candidates(
        self, options: Options, dataset: Dataset, fields: Mapping[str, Any]
    ) -> ValidationPlan:
        """The plan: candidates of all algorithms, and how they are scored."""
        grids = read_grid(options.grid) if options.grid else {}
        algorithm_names = (
            tuple(dict.fromkeys([*options.estimator, *grids])) or USUAL_ESTIMATORS[dataset.task]
        )
        for name, parameters in read_params(options.param, algorithm_names).items():
            branches = grids.get(name, [Branch({})])
            grids[name] = [branch.with_parameters(parameters) for branch in branches]
        if options.network is not None:
            grids = with_network(options.network, algorithm_names, grids)
        if options.strategy not in DRAWING:
            refuse_distributions(grids, options.strategy)
        algorithms = [
            Algorithm.of(
                name, grids.get(name, [Branch({})]), dataset, options.seed, options.preprocess
            )
            for name in algorithm_names
        ]
        candidates = [
            algorithm.candidate(point)
            for algorithm in algorithms
            for point in points_of(algorithm, options)
        ]
        return ValidationPlan(
            **fields,
            dataset=dataset,
            options=options,
            scoring=make_scoring(options.scoring, dataset),
            algorithms=algorithms,
            candidates=tuple(candidates),
            n_candidates=len(candidates),
            network_lines=network_lines(candidates, dataset, options.preprocess),
        )

    def refit(
        self, plan: ValidationPlan, cluster: Cluster
    ) -> Callable[[Problem, Refit], dict[str, Any]]:
        from pipelines.search.answer import refit_and_test

        data = plan.dataset
        return partial(
            refit_and_test,
            n_threads=cluster.threads,
            classes_=data.classes if data.task == CLASSIFICATION else None,
            n_features_in_=data.X_train.shape[1],
            scaling=pixel_scaling(data),
        )

    def answer_of_best(
        self,
        plan: ValidationPlan,
        scored: SearchResult,
        path: Path,
        candidates: pd.DataFrame,
        tested: dict[str, Any],
    ) -> dict[str, Any]:
        """See ``SearchJob``. The best candidates of all algorithms are compared."""
        from pipelines.search.answer import (
            candidate_entry,
            fit_counts,
            keep_model,
            write_class_values,
            write_predictions,
        )

        write_class_values(path, plan.dataset, tested["of_classes"])
        candidates = with_algorithm(candidates, scored.whole_cells, scored.problem.candidates)
        names.write_table(candidates, path / names.CANDIDATES)
        best = best_of_each(candidates)
        best_of_whole = best_of_each(candidates[have_all_folds(candidates)])
        comparison = compare_algorithms(
            scored.whole_cells, best_of_whole, plan.ratio, plan.options.rope
        )
        if len(comparison):
            names.write_table(comparison, path / COMPARISON)
        scores, folds = ("score_mean", "score_std"), ("error_mean", "error_std")
        by_candidate = candidates.set_index("candidate", drop=False)
        model = keep_model(path, tested)
        remarks = [] if plan.options.strategy in DRAWING else ends_of_lists(candidates)
        remarks += [f"the model is not kept: {why}" for why in model.values() if why]
        return {
            **model,
            **fit_counts(scored.rows.values()),
            **write_predictions(path, plan.dataset, tested["predicted"]),
            "scoring": list(plan.scoring),
            "best": candidate_entry(candidates.iloc[0], *scores, *folds),
            "algorithms": [
                candidate_entry(
                    by_candidate.loc[candidate], *scores, "fit_seconds", "score_seconds"
                )
                for candidate in best.values()
            ],
            "test_scores": tested["scores"],
            "remarks": remarks,
        }

    @staticmethod
    def load_model(run: Path, network: str | None = None) -> FittedEstimator:
        """See ``Job``; for ``network`` see ``load_estimator``."""
        from pipelines.search.model import load_estimator

        return load_estimator(run, network)

    @staticmethod
    def predict_rows(rows: NewRows, options: ValidationPredictOptions) -> ModelAnswer:
        from pipelines.search.model import predict_with_estimator

        return predict_with_estimator(rows, options.run, network=options.network)

    def summary_lines(self, record: Mapping[str, Any], path: Path) -> list[str]:
        """Lines on the best candidate, the other algorithms and shared fits."""
        return validation_lines(record)


JOB = CrossValidation
main, run = JOB.main, JOB.run


def __dir__() -> list[str]:
    return ["main", "run"]


if __name__ == "__main__":
    sys.exit(main())
