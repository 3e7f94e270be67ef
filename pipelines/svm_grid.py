"""Grid search of a kernel SVM over C and gamma: ``pleasingly svm-grid``.

``pleasingly svm-grid predict RUN TABLE`` asks the model of a run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from cluster_setup.on_this_machine.devices import available_cores
from pipelines.data import Dataset
from pipelines.data.dataset import CLASSIFICATION, REGRESSION
from pipelines.data.placement import FoldedData
from pipelines.errors import InputError, opt
from pipelines.run import summary
from pipelines.run.cluster import Cluster
from pipelines.run.options import at_least, increasing_log10, number, option
from pipelines.run.predict import Predicted, PredictOptions
from pipelines.run_folder import names
from pipelines.search.command import Scored, SearchJob, SearchPlan
from pipelines.search.options import OF_STRATEGIES, SearchOptions
from pipelines.search.scoring import (
    CandidateScorer,
    expected_calibration_error,
    log_loss,
    make_scoring,
)
from pipelines.search.tasks import Problem, Refit
from pipelines.svm.backends import resolve_backend
from pipelines.svm.options import SVMOptions
from pipelines.svm_search.problem import grid_problem, refit_and_test, workers_for
from pipelines.svm_search.record import PROBABILITIES, SvmAnswer, SvmRecord, SvmRow
from pipelines.svm_search.summary import of_grid

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.run.new_rows import NewRows
    from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor

SHORT = 30_000  # predicted cost that a core is through with in about ten seconds


def default_bounds(
    variance: float, images: bool
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return bounds of log10 C and of log10 gamma where none were asked for.

    Gamma lies around the one that scikit-learn calls "scale", 1 / (features × variance); of
    images in whole decades, which for MNIST are those of the study.

    Parameters
    ----------
    variance : of all features together: their number, where they are standardised
    """
    scale = -math.log10(variance)
    if images:
        return (-3.0, 6.0), (round(scale) - 3.0, round(scale) + 1.0)
    return (-2.0, 4.0), (round(scale, 2) - 2, round(scale, 2) + 1)


def _axis(name: str, n: int, log_bounds: tuple[float, float]) -> tuple[float, ...]:
    """Return the values of an axis of the grid, at equal distances of their logarithms.

    Raises
    ------
    InputError
        Several values between equal bounds.
    """
    if n > 1 and log_bounds[0] == log_bounds[1]:
        raise InputError(
            f"{opt(f'n_{name}')} must be 1 where {opt(f'log_{name}')} is one value, got {n}; "
            f"make the bounds of {opt(f'log_{name}')} differ"
        )
    return tuple(np.logspace(*log_bounds, n).tolist())


bounds = partial(option, parse=float, nargs=2, rule=increasing_log10, metavar=("FROM", "TO"))


@dataclass(frozen=True)
class Options(SVMOptions, SearchOptions):
    """Options of ``svm_grid``."""

    group: ClassVar[str] = "grid"

    n_c: int = number(8, "number of C", rule=at_least(1, 10_000))
    n_gamma: int = number(8, "number of gamma", rule=at_least(1, 10_000))
    log_c: tuple[float, float] | None = bounds(
        None, "bounds of log10 C; by default -3 6 for images, -2 4 for tables"
    )
    log_gamma: tuple[float, float] | None = bounds(
        None,
        "bounds of log10 gamma; by default from a hundredth (of images a thousandth) to ten times "
        "1 / (features × variance)",
    )
    n_epsilon: int = number(3, "number of epsilon, of a target of numbers", rule=at_least(1, 1_000))
    log_epsilon: tuple[float, float] = bounds(
        (-2.0, 0.0),
        "bounds of log10 epsilon, half the width of the tube about the targets within which an "
        "error costs nothing, in their standard deviations",
    )
    scoring: str | None = option(
        None,
        "what the best candidate is chosen by: any scorer of scikit-learn that needs predictions "
        "or decision values, such as balanced_accuracy, f1_macro or, of two classes, roc_auc "
        "(default: accuracy, or r2 of numbers)",
        metavar="NAME",
    )
    probability: bool = option(
        False, "calibrate class probabilities for the best candidate, on the same folds"
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class GridPlan(SearchPlan[Options]):
    """Every combination of ``axes``: values of C, of gamma and, of a regression, of epsilon.

    A resumed run keeps the ``solver`` it began with.
    """

    axes: Mapping[str, Sequence[float]]
    solver: str

    @cached_property
    def rows(self) -> FoldedData:
        """See ``SearchPlan``."""
        return FoldedData.of(self.dataset)

    @property
    def lines(self) -> list[str]:
        """Folds and the axes of the grid."""
        data = self.dataset
        decision = self.options.decision if data.task == CLASSIFICATION else "epsilon-SVR"
        shape = " x ".join(f"{len(values)} {name}" for name, values in self.axes.items())
        scoring = self.scoring[0]
        best_by = "" if scoring == "accuracy" else f", the best by {scoring}"
        return [
            *data.lines,
            summary.of_data(data, f"{data.X_train.shape[1]} features", self.options.limit),
            f"grid       {shape} x {self.fits_in_words}, {decision}{best_by}",
        ]

    def describe_backend(self, kind: str) -> str:
        """Return the solver; the devices of a site's workers are not known here."""
        if kind not in ("threads", "local", "cuda"):
            return ""
        device = "gpu" if kind == "cuda" else "cpu"
        return f"the solver {resolve_backend(self.options.solver, device)}"

    def n_workers(self, kind: str) -> int | None:
        """Return few, where the solver fills several cores from one process."""
        fills_cores = kind in ("threads", "local") and self.solver in ("auto", "path")
        if self.options.workers is None and fills_cores:
            return workers_for("path", available_cores())
        return self.options.workers

    def runs_in_process(self) -> bool:
        """Return whether the fits are cheap, or the solver fills the cores from one process."""
        if self.solver not in ("auto", "path"):
            return False
        cost = sum(task.cost for task in self.tasks_for("threads", 1))
        return cost < SHORT * available_cores()

    def make_problem(self, device: str, n_threads: int) -> Problem:
        """See ``SearchPlan``."""
        solver = resolve_backend(self.solver, device)
        settings = self.options.settings(n_threads=n_threads, device=device)
        scorer = CandidateScorer(self.scoring, labels=self.labels)
        return grid_problem(self.rows, self.splits, self.axes, solver, settings, scorer)

    def on(self, cluster: Cluster) -> Self:
        """See ``SearchPlan``; with the solver, too."""
        plan, solver = super().on(cluster), resolve_backend(self.solver, cluster.device)
        return replace(plan, entries={**plan.entries, "solver": solver})


class Search(SearchJob[Options]):
    """Every C and gamma of a grid on every fold; the best candidate is fitted and tested.

    A target of numbers is fitted by epsilon-SVR, on C × gamma × epsilon.
    """

    command = "svm_grid"
    description = "Grid search of a kernel SVM over C and gamma, with cross-validation."
    kind_of_options = Options
    row = SvmRow
    record = SvmRecord
    kind_of_answer = SvmAnswer
    page = "pipelines.pages.svm_grid:SvmReport"
    kind_of_predict = PredictOptions
    model_files = (names.MODEL,)
    candidate_options = OF_STRATEGIES | {
        "n_c",
        "n_gamma",
        "n_epsilon",
        "log_c",
        "log_gamma",
        "log_epsilon",
        "probability",
    }
    examples = (
        "--n-c 24 --n-gamma 24 --log-c -3 6 --log-gamma -6 -2",
        "--dataset mine.csv --target species --scoring f1_macro",
        "--resume results/svm_grid-20261120-130849",
    )

    @staticmethod
    def load_model(run: Path) -> KernelMachine | KernelRegressor:
        """See ``Job``."""
        from pipelines.svm_search.predict import load_machine

        return load_machine(run)

    @staticmethod
    def predict_rows(rows: NewRows, options: PredictOptions) -> Predicted:
        """See ``Job``."""
        from pipelines.svm_search.predict import predict_rows

        return predict_rows(rows, options.run)

    def plan_candidates(
        self, options: Options, dataset: Dataset, fields: Mapping[str, Any]
    ) -> GridPlan:
        """Return the folds and the axes of the grid, which lie about the scale of the features."""
        if dataset.task == REGRESSION:
            if options.solver not in ("auto", "path"):
                raise InputError(
                    f"{opt('solver')} must be auto or path for a target of numbers, got "
                    f"{options.solver!r}; leave it out"
                )
            for name in ("class_weight", "probability"):
                if (value := getattr(options, name)) not in ("none", False):
                    raise InputError(
                        f"{opt(name)} is for classes, and the target is numbers, got {value!r}; "
                        f"leave it out, or say {opt('task', 'classification')}"
                    )
        named = () if options.scoring is None else (options.scoring,)
        scoring = make_scoring(named, dataset, of_predictions=True)
        log_c, log_gamma = default_bounds(dataset.variance, dataset.image_shape is not None)
        log_c, log_gamma = options.log_c or log_c, options.log_gamma or log_gamma
        # A linear kernel has no gamma.
        n_gamma = 1 if options.kernel == "linear" else options.n_gamma
        options = replace(
            options, scoring=scoring[0], log_c=log_c, log_gamma=log_gamma, n_gamma=n_gamma
        )
        axes = {"C": _axis("c", options.n_c, log_c), "gamma": _axis("gamma", n_gamma, log_gamma)}
        if dataset.task == REGRESSION:
            axes["epsilon"] = _axis("epsilon", options.n_epsilon, options.log_epsilon)
        return GridPlan(
            **fields,
            dataset=dataset,
            options=options,
            scoring=scoring,
            axes=axes,
            solver=str(fields["record"].get("solver", options.solver)),
            n_candidates=math.prod(map(len, axes.values())),
            labels=dataset.classes if dataset.task == CLASSIFICATION else None,
        )

    def refitted_besides(self, options: Options) -> str:
        """See ``SearchJob``."""
        return " and of each fold, to calibrate it" if options.probability else ""

    def refit(self, plan: GridPlan, cluster: Cluster) -> Callable[[Problem, Refit], dict[str, Any]]:
        """See ``SearchJob``."""
        solver = resolve_backend(plan.solver, cluster.device)
        return partial(refit_and_test, solver=solver, probability=plan.options.probability)

    def answer_of_best(
        self,
        plan: GridPlan,
        scored: Scored,
        path: Path,
        candidates: pd.DataFrame,
        tested: dict[str, Any],
    ) -> dict[str, Any]:
        """See ``SearchJob``; store the model, and probabilities where they are calibrated."""
        from pipelines.search.answer import number_scores, write_predictions

        data, machine = plan.dataset, tested.pop("machine")
        truth = data.y_test
        with names.replacing(path / names.MODEL) as file:
            machine.save(file)
        candidates = candidates.drop(columns="candidate")
        names.write_table(candidates, path / names.CANDIDATES)
        best = candidates.iloc[0].drop(["n_ok", "rank"]).dropna().astype(float)
        entries = {"best": best.to_dict(), "n_support": len(machine.support_vectors)}
        if data.task == REGRESSION:
            write_predictions(path, data, tested["predicted"])
            return entries | {"test_scores": number_scores(truth, tested["predicted"])}
        probabilities = tested.pop("probabilities", None)
        entries |= write_predictions(path, data, **tested)
        if probabilities is not None:
            import pandas as pd

            from pipelines.run.new_rows import class_columns

            table = {"row": np.arange(len(truth)), "true": truth}
            table |= class_columns("probability", data.classes, probabilities)
            names.write_table(pd.DataFrame(table), path / PROBABILITIES)
            entries["test_log_loss"] = log_loss(probabilities, truth)
            entries["test_calibration_error"] = expected_calibration_error(probabilities, truth)
        return entries

    def summary_lines(self, record: Mapping[str, Any], path: Path) -> list[str]:
        """Return the best candidate, its errors, the time, and what failed."""
        from pipelines.run_folder.reading import read_table

        candidates = read_table(path / names.CANDIDATES)
        assert candidates is not None
        return of_grid(record, candidates, path)


JOB = Search
main, run = JOB.main, JOB.run

if __name__ == "__main__":
    sys.exit(main())
