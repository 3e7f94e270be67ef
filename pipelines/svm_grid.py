"""The command ``pleasingly svm-grid``: grid search of a kernel SVM over C and gamma.

``pleasingly svm-grid predict RUN TABLE`` predicts with the model of a run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from cluster_setup.on_this_machine.devices import available_cores
from pipelines.data.dataset import CLASSIFICATION, REGRESSION, Dataset
from pipelines.data.placement import FoldedData
from pipelines.errors import InputError, opt
from pipelines.run import summary
from pipelines.run.cluster import Cluster
from pipelines.run.options import as_text, at_least, increasing_log10, number, option
from pipelines.run.predict import ModelAnswer, PredictOptions
from pipelines.run_folder import names
from pipelines.run_folder.ranking import UNFINISHED
from pipelines.search.candidates import grid_candidates
from pipelines.search.command import (
    CandidateSpace,
    DrawnCandidate,
    SearchJob,
    SearchPlan,
    SearchResult,
)
from pipelines.search.options import OF_STRATEGIES, SearchOptions
from pipelines.search.scoring import (
    CandidateScorer,
    expected_calibration_error,
    log_loss,
    make_scoring,
)
from pipelines.search.spaces import Branch, Point
from pipelines.search.strategies import DRAWING
from pipelines.search.strategies.base import WHOLE
from pipelines.search.tasks import SEARCH, Problem, Refit
from pipelines.svm.backends import resolve_backend
from pipelines.svm.cpu import first_use
from pipelines.svm.options import SVMOptions
from pipelines.svm_search.approximation import choose_approximation
from pipelines.svm_search.axes import (
    axes_of,
    check_values,
    draw_points,
    ranges_of,
    read_values,
    words_in_numbers,
)
from pipelines.svm_search.problem import is_brief, refit_and_test_svm, svm_problem, workers_for
from pipelines.svm_search.record import SvmAnswer, SvmRecord, SvmRow
from pipelines.svm_search.summary import of_grid

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.run.new_rows import NewRows
    from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor

OF_GRIDS = ("c", "n_c", "gamma", "n_gamma", "epsilon", "n_epsilon")  # options of a grid only
SHORT = 30_000  # predicted cost of fits that take one core about ten seconds


bounds_option = partial(option, parse=float, nargs=2, rule=increasing_log10, metavar=("FROM", "TO"))
values_option = partial(option, None, parse=read_values, metavar="VALUE,VALUE")


@dataclass(frozen=True)
class Options(SVMOptions, SearchOptions):
    """Options of ``svm_grid``."""

    group: ClassVar[str] = "grid"

    c: tuple[float, ...] | None = values_option(
        help="values of C, separated by commas, instead of --n-c and --log-c"
    )
    n_c: int | None = number(None, "number of C values (default: 8)", rule=at_least(1, 10_000))
    log_c: tuple[float, float] | None = bounds_option(
        None, "bounds of log10 C; by default -3 6 for images, -2 4 for tables"
    )
    gamma: tuple[float | str, ...] | None = values_option(
        help="values of gamma instead of --n-gamma and --log-gamma: numbers, or scikit-learn's "
        "scale and auto, from all training rows"
    )
    n_gamma: int | None = number(
        None, "number of gamma values (default: 8)", rule=at_least(1, 10_000)
    )
    log_gamma: tuple[float, float] | None = bounds_option(
        None,
        "bounds of log10 gamma; by default from a hundredth (for images a thousandth) to ten times "
        "1 / (features × variance)",
    )
    epsilon: tuple[float, ...] | None = values_option(
        help="values of epsilon instead of --n-epsilon and --log-epsilon (regression)"
    )
    n_epsilon: int | None = number(
        None, "number of epsilon values (regression; default: 3)", rule=at_least(1, 1_000)
    )
    log_epsilon: tuple[float, float] | None = bounds_option(
        None,
        "bounds of log10 epsilon, in standard deviations of the target (default: -2 0)",
    )
    scoring: str | None = option(
        None,
        "scorer that chooses the best candidate: any of scikit-learn's that needs predictions or "
        "decision values, such as balanced_accuracy, f1_macro or, for two classes, roc_auc "
        "(default: accuracy; r2 for regression)",
        metavar="NAME",
    )
    probability: bool = option(
        False, "calibrate class probabilities for the best candidate, on the same folds"
    )

    def check(self) -> None:
        """Refuse options that exclude each other or have no effect."""
        for name in ("c", "gamma", "epsilon"):
            if (values := getattr(self, name)) is None:
                continue
            check_values(name, values)
            for other in (f"n_{name}", f"log_{name}"):
                if (value := getattr(self, other)) is not None:
                    raise InputError(
                        f"{opt(name)} gives the values themselves and excludes {opt(other)}, got "
                        f"{as_text(value)}; leave one of them out"
                    )
        for name in OF_GRIDS if self.strategy in DRAWING else ():
            if (value := getattr(self, name)) is not None:
                raise InputError(
                    f"{opt(name)} is of a grid, and {opt('strategy', self.strategy)} draws between "
                    f"{opt('log_c')} and the like, got {as_text(value, ',')}; leave one of them out"
                )
        if self.gamma is not None and self.kernel == "linear":
            raise InputError(
                f"{opt('gamma')} is for kernels that have one, got {opt('kernel', 'linear')}; "
                "leave one of them out"
            )
        super().check()


@dataclass(frozen=True, eq=False, kw_only=True)
class GridPlan(SearchPlan[Options]):
    """Plan of a search over C, gamma and, in a regression, epsilon.

    Attributes
    ----------
    points : sequence of mapping
        Parameters of each candidate, on a grid or drawn.
    solver : str
        Option of the solver; a resumed run keeps that of its first session.
    approximation : str
        A line on the landmarks that approximate the kernel; empty without them.
    is_brief : bool
        Whether ``sklearn.svm.SVC`` finishes before the path solver would be loaded.
    """

    points: Sequence[Mapping[str, float]]
    solver: str
    approximation: str
    is_brief: bool = False

    @cached_property
    def rows(self) -> FoldedData:
        return FoldedData.of(self.dataset)

    @property
    def lines(self) -> list[str]:
        """Lines on the data, the folds and the axes of the grid."""
        data = self.dataset
        decision = self.options.decision if data.task == CLASSIFICATION else "epsilon-SVR"
        n_values = {name: len({point[name] for point in self.points}) for name in self.points[0]}
        shape, search_name = " x ".join(f"{n} {name}" for name, n in n_values.items()), "grid"
        if self.options.strategy in DRAWING:
            gamma_text = "" if self.draws else f" of {n_values['gamma']} gamma"
            shape, search_name = (
                f"{self.n_candidates} candidates{gamma_text}",
                self.options.strategy,
            )
        scoring = self.scoring[0]
        best_by = "" if scoring == "accuracy" else f", the best by {scoring}"
        return [
            *data.lines,
            summary.data_line(data, f"{data.X_train.shape[1]} features", self.options.limit),
            f"{search_name:10} {shape} x {self.fits_in_words}, {decision}{best_by}",
            *filter(None, [self.approximation]),
            *words_in_numbers(self.options.gamma or (), data, self.features is not None),
        ]

    def describe_backend(self, kind: str) -> str:
        """The solver, for a dry run; empty for clusters whose devices are not known yet."""
        if kind not in ("threads", "local", "cuda"):
            return ""
        device = "gpu" if kind == "cuda" else "cpu"
        return f"the solver {resolve_backend(self.options.solver, device)}"

    def n_workers(self, kind: str) -> int | None:
        """Number of workers: few if the solver uses several cores in each process."""
        fills_cores = kind in ("threads", "local") and self.solver in ("auto", "path")
        if self.options.workers is None and fills_cores:
            return workers_for("path", available_cores())
        return self.options.workers

    def too_small(self, n_bytes: int) -> str:
        """Why a GPU is too small for the path solver, with one C, gamma and fold; may be empty."""
        is_path = self.solver in ("auto", "path") and self.options.device != "cpu"
        if not is_path or self.dataset.task != CLASSIFICATION:
            return ""
        from pipelines.svm.cuda.memory import plan_memory

        _, sizes = np.unique(self.dataset.y_train, return_counts=True)
        n_features, ovo = self.dataset.X_train.shape[1], self.options.decision == "ovo"
        try:
            plan_memory(sizes, n_features, 1, 1, 1, ovo, n_bytes)
        except MemoryError as error:
            return str(error)
        return ""

    def runs_in_process(self) -> bool:
        """Whether the fits are so cheap that worker processes would start later than they end."""
        if self.solver not in ("auto", "path"):
            return False
        cost = sum(task.cost for task in self.tasks_for("threads", 1))
        return cost < SHORT * available_cores()

    def make_problem(self, device: str, n_threads: int) -> Problem:
        solver = resolve_backend(self.solver, device)
        context = {"n_threads": n_threads, "device": device, "seed": self.options.seed}
        settings = self.options.settings(**context)
        scorer = CandidateScorer(self.scoring, labels=self.labels)
        return svm_problem(
            self.rows, self.splits, self.points, solver, settings, scorer, self.is_brief
        )

    def sources(self, problem: Problem) -> Sequence[CandidateSpace]:
        """See ``SearchPlan``. There is one source, as there is one algorithm."""

        def make(point: Point) -> DrawnCandidate:
            return replace(stand_in, parameters=point, estimator=replace(svm, **point)), group

        (stand_in, *_), (group, *_) = problem.candidates, problem.groups
        svm = stand_in.estimator
        return [([Branch(ranges_of(self.options, self.dataset))], make)]

    def on(self, cluster: Cluster) -> Self:
        """See ``SearchPlan``. The entries also have the solver."""
        plan, solver = super().on(cluster), resolve_backend(self.solver, cluster.device)
        if self.is_brief and cluster.device == "cpu":
            # SVC makes these few fits; the path solver is compiled meanwhile, for later runs.
            first_use.compile_meanwhile()
            solver = "sklearn"
        return replace(plan, entries={**plan.entries, "solver": solver})


def _is_brief(plan: GridPlan) -> bool:
    """See ``GridPlan``; False for other machines and drawn candidates, where it is not known."""
    options, splits = plan.options, plan.splits[SEARCH, 1.0]
    return (
        plan.solver == "auto"
        and plan.dataset.task == CLASSIFICATION
        and options.strategy not in DRAWING
        and options.cluster in ("auto", "threads", "local")
        and is_brief(plan.points, options.settings(), splits, plan.dataset.X_train.shape[1])
    )


class SVMSearchJob(SearchJob[Options]):
    """Job of ``svm_grid``: every C and gamma on every fold; the best candidate is refitted.

    A regression is by epsilon-SVR, over C, gamma and epsilon.
    """

    command = "svm_grid"
    description = "Grid search of a kernel SVM over C and gamma, with cross-validation."
    options_class = Options
    row = SvmRow
    record = SvmRecord
    kind_of_answer = SvmAnswer
    page = "pipelines.pages.svm_grid:SvmReport"
    predict_options_class = PredictOptions
    model_files = (names.MODEL,)
    candidate_options = OF_STRATEGIES.union(
        OF_GRIDS, ("log_c", "log_gamma", "log_epsilon", "probability")
    )
    examples = (
        "--n-c 24 --n-gamma 24 --log-c -3 6 --log-gamma -6 -2",
        "--dataset mine.csv --target species --c 0.1,1,10,100 --gamma scale,0.01",
        "--resume results/svm_grid-20261120-130849",
    )

    @staticmethod
    def load_model(run: Path) -> KernelMachine | KernelRegressor:
        from pipelines.svm_search.predict import load_machine

        return load_machine(run)

    @staticmethod
    def predict_rows(rows: NewRows, options: PredictOptions) -> ModelAnswer:
        from pipelines.svm_search.predict import predict_with_machine

        return predict_with_machine(rows, options.run)

    def plan_candidates(
        self, options: Options, dataset: Dataset, fields: Mapping[str, Any]
    ) -> GridPlan:
        """The plan, with candidates around the scale of the features."""
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
        elif options.epsilon is not None:
            raise InputError(
                f"{opt('epsilon')} is for a target of numbers, and this one is classes, got "
                f"{as_text(options.epsilon, ',')}; leave it out, or say {opt('task', 'regression')}"
            )
        scorer_names = () if options.scoring is None else (options.scoring,)
        scoring = make_scoring(scorer_names, dataset, of_predictions=True)
        if options.strategy in DRAWING:
            points, chosen_options = draw_points(options, dataset)
        else:
            axes, chosen_options = axes_of(options, dataset)
            points = grid_candidates(axes)
        n_splits = len(fields["splits"][SEARCH, WHOLE])
        approximate, line = choose_approximation(
            options, dataset, points, n_splits, options.time_budget
        )
        chosen_options |= {"landmarks": None} if approximate == "none" else {}
        options = replace(options, scoring=scoring[0], approximate=approximate, **chosen_options)
        plan = GridPlan(
            approximation=line,
            **fields,
            dataset=dataset,
            options=options,
            scoring=scoring,
            points=points,
            solver=str(fields["record"].get("solver", options.solver)),
            n_candidates=len(points),
            labels=dataset.classes if dataset.task == CLASSIFICATION else None,
        )
        return replace(plan, is_brief=_is_brief(plan))

    def refitted_besides(self, options: Options) -> str:
        return " and of each fold, to calibrate it" if options.probability else ""

    def refit(self, plan: GridPlan, cluster: Cluster) -> Callable[[Problem, Refit], dict[str, Any]]:
        solver = resolve_backend(plan.solver, cluster.device)
        probability, brief = plan.options.probability, plan.is_brief
        return partial(refit_and_test_svm, solver=solver, probability=probability, brief=brief)

    def answer_of_best(
        self,
        plan: GridPlan,
        scored: SearchResult,
        path: Path,
        candidates: pd.DataFrame,
        tested: dict[str, Any],
    ) -> dict[str, Any]:
        """See ``SearchJob``. The model is stored, and probabilities if they are calibrated."""
        from pipelines.search.answer import number_scores, write_class_values, write_predictions

        data, machine = plan.dataset, tested.pop("machine")
        exactness = tested.pop("exactness", None)
        truth = data.y_test
        with names.replacing(path / names.MODEL) as file:
            machine.save(file)
        candidates = candidates.drop(columns="candidate")
        names.write_table(candidates, path / names.CANDIDATES)
        best = candidates.iloc[0].drop(["n_ok", "rank", *UNFINISHED], errors="ignore")
        best = best.dropna().astype(float)
        entries = {"best": best.to_dict(), "n_support": len(machine.support_vectors)}
        entries |= {} if exactness is None else {"exactness": exactness}
        if data.task == REGRESSION:
            write_predictions(path, data, tested["predicted"])
            return entries | {"test_scores": number_scores(truth, tested["predicted"])}
        probabilities, codes = tested.pop("probabilities", None), np.arange(len(data.classes))
        of_classes = "decision", codes, tested.pop("decision_values", None)
        entries |= write_predictions(path, data, **tested)
        if probabilities is not None:
            of_classes = "probability", codes, probabilities
            entries["test_log_loss"] = log_loss(probabilities, truth)
            entries["test_calibration_error"] = expected_calibration_error(probabilities, truth)
        write_class_values(path, data, of_classes)
        return entries

    def summary_lines(self, record: Mapping[str, Any], path: Path) -> list[str]:
        """Lines on the best candidate, its errors, the time and failed fits."""
        from pipelines.run_folder.reading import read_table

        candidates = read_table(path / names.CANDIDATES)
        assert candidates is not None
        return of_grid(record, candidates, path)


JOB = SVMSearchJob
main, run = JOB.main, JOB.run


def __dir__() -> list[str]:
    return ["main", "run"]


if __name__ == "__main__":
    sys.exit(main())
