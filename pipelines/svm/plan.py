"""Which fits a search of ``SVMGridSearch`` makes: what shares work together, the rest alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sklearn.base import clone

from pipelines.data.placement import FoldedData
from pipelines.svm.judged import Alone, Judge, Result, judge_alone, judge_unit
from pipelines.svm.kernel import PRECOMPUTED
from pipelines.svm.means import Means
from pipelines.svm.parameters import factors_by_code, refuse_a_hard_margin
from pipelines.svm.path_svc import PathSVC
from pipelines.svm.solvers import Settings, load_solver
from pipelines.svm.solvers.base import Cells, Solver
from pipelines.svm.units import Unit, cut_units

# What candidates may differ in and still share work, or be fitted by any solver.
SHARED = {"C", "gamma", "kernel", "degree", "coef0", "decision", "class_weight", "tol", "max_iter"}

Place = tuple[int, int]  # candidate, fold
Cell = tuple[float, float, int]  # C, gamma, fold


@dataclass
class _Group:
    """Candidates that differ in C and gamma alone; which of them a cell stands for."""

    settings: Settings
    members: dict[Cell, list[int]] = field(default_factory=lambda: defaultdict(list))

    def units(self, n_features: int, solver: Solver) -> list[Unit]:
        """Units of its cells: gammas with the same C on the same folds go together."""
        folds, Cs = defaultdict(set), defaultdict(set)
        for C, gamma, fold in self.members:
            folds[gamma].add(fold)
            Cs[gamma].add(C)
        alike = defaultdict(list)
        for gamma in folds:
            alike[tuple(sorted(Cs[gamma])), tuple(sorted(folds[gamma]))].append(gamma)
        return [
            unit
            for (Cs_of, on), gammas in alike.items()
            for unit in cut_units(Cells(tuple(gammas), Cs_of, on), solver, n_features)
        ]


class Plan:
    """The fits of a search, and their results as they come.

    Parameters
    ----------
    candidates : parameters of ``PathSVC``, each as a dict
    template : PathSVC with those that all have in common
    data, judge, means : on what, how, and by what they are fitted
    calibrated : whether every fit needs probabilities

    Attributes
    ----------
    estimators : list of PathSVC, unfitted, one for each candidate
    out : dict of (candidate, fold) to Result
    n_iterations : int, of all fits that share work

    Raises
    ------
    ValueError
        A parameter is not one of ``PathSVC``, or not one that the solver has.
    """

    def __init__(
        self,
        candidates: Sequence[dict[str, Any]],
        template: PathSVC,
        data: FoldedData,
        judge: Judge,
        means: Means,
        calibrated: bool,
    ) -> None:
        self.candidates, self.data, self.judge, self.means = candidates, data, judge, means
        self.estimators: list[PathSVC] = []
        self.out: dict[Place, Result] = {}
        self.n_iterations = 0
        self._groups: dict[str, _Group] = {}
        self._alone: list[Alone] = []
        self._scales: dict[int, float] = {}
        for number, params in enumerate(candidates):
            one = clone(template).set_params(**clone(params, safe=False))
            one.set_params(n_threads=means.n_threads)
            self.estimators.append(one.set_params(probability=True) if calibrated else one)
            _refuse_another_form(one, template)
            self._add(number, self.estimators[-1], params)
        solver = load_solver(means.solver, means.device)
        self._units = [
            (group, group.units(data.X.shape[1], solver)) for group in self._groups.values()
        ]

    @property
    def units(self) -> list[Unit | Alone]:
        """All units, in no order."""
        return [*(unit for _, units in self._units for unit in units), *self._alone]

    def _add(self, number: int, one: PathSVC, params: dict[str, Any]) -> None:
        folds = range(len(self.data.folds))
        try:
            refuse_a_hard_margin(one.C)
            one._validate_params()
        except ValueError as error:
            for fold in folds:
                n_rows = len(self.data.folds[fold][1])
                self.out[number, fold] = self.judge.failed(str(error), n_rows)
            return
        settings, differs = self.settings_of(one), not params.keys() <= SHARED
        shares_only = load_solver(self.means.solver, self.means.device).shares_c
        if one.probability or differs or (shares_only and not self.judge.asks_answers_only):
            self._add_alone(number, one, sorted(params.keys() - SHARED))
            return
        group = self._groups.setdefault(repr(settings), _Group(settings))
        for fold in folds:
            group.members[float(one.C), self._gamma_of(one, fold), fold].append(number)

    def _add_alone(self, number: int, one: PathSVC, differs: list[str]) -> None:
        if not self.means.is_path_svc:
            what = f"param_grid with {differs[0]}" if differs else "this scoring"
            raise ValueError(
                f"solver must be 'path' on a CPU for {what}, got {self.means.solver!r} on a "
                f"{self.means.device.upper()}"
            )
        if callable(one.kernel):  # the rows are its values already
            one = clone(one).set_params(kernel=PRECOMPUTED)
        self._alone += [Alone(number, fold, one) for fold in range(len(self.data.folds))]

    def _gamma_of(self, one: PathSVC, fold: int) -> float:
        """The number that stands for gamma on a fold; one for all where the kernel has none."""
        if one.kernel == "linear":
            return 1.0
        if one.gamma != "scale" or one.solver_kernel.is_given:
            return one.gamma_of(self.data.X)
        if fold not in self._scales:
            self._scales[fold] = one.gamma_of(self.data.X[self.data.folds[fold][0]])
        return self._scales[fold]

    def settings_of(self, one: PathSVC) -> Settings:
        """A candidate's parameters as solvers take them.

        Raises
        ------
        ValueError
            The solver has no such class weights.
        """
        weight, classes = one.class_weight, self.judge.classes
        if isinstance(weight, dict):
            if one.decision == "ovr" and len(classes) > 2 and self.means.solver != "path":
                raise ValueError(
                    "class_weight must be None or 'balanced' for decision='ovr' with "
                    f"solver={self.means.solver!r}, got {weight!r}; use solver='path'"
                )
            weight = factors_by_code(weight, classes)
        return Settings(
            one.decision, one.tol, one.max_iter, one.solver_kernel, weight,
            n_threads=self.means.n_threads, memory_bytes=one.memory_bytes,
            device=self.means.device,
        )  # fmt: skip

    def carry_out(self) -> Iterator[tuple[Unit | Alone, list[Place]]]:
        """Make the fits; give each unit with the places whose results it gave."""
        runner, judge = self.means.runner, self.judge
        for group, units in self._units:
            work = partial(
                judge_unit, solver=self.means.solver, settings=group.settings, judge=judge
            )
            for outcome in runner.outcomes(work, self.data, units):
                unit = outcome.unit
                results = self._results(outcome, [fold for _, _, fold in unit.cells])
                filled = []
                for cell, result in zip(unit.cells, results, strict=True):
                    self.n_iterations += result["n_iterations"]
                    filled += self._fill(group.members[cell], cell[2], result)
                yield unit, filled
        alone = partial(judge_alone, judge=judge)
        for of_one in runner.outcomes(alone, self.data, self._alone):
            one = of_one.unit
            (result,) = self._results(of_one, [one.fold])
            yield one, self._fill([one.number], one.fold, result)

    def _results(self, outcome: Any, folds: Sequence[int]) -> list[Result]:
        if outcome.error is None:
            results: list[Result] = outcome.result
            return results
        return [self.judge.failed(outcome.error, len(self.data.folds[fold][1])) for fold in folds]

    def _fill(self, numbers: Sequence[int], fold: int, result: Result) -> list[Place]:
        for number in numbers:
            self.out[number, fold] = result
        return [(number, fold) for number in numbers]

    def line(self, place: Place, verbose: int) -> str:
        """What became of a fit, as ``GridSearchCV`` prints it."""
        candidate, fold = place
        params, result = self.candidates[candidate], self.out[place]
        where = f" {fold + 1}/{len(self.data.folds)}" if verbose > 2 else ""
        if verbose > 9:
            where += f"; {candidate + 1}/{len(self.candidates)}"
        said = ", ".join(f"{name}={params[name]}" for name in sorted(params)) + ";"
        scores = result["test_scores"]
        if verbose > 2:
            trained = result.get("train_scores")
            if isinstance(scores, dict):
                for name in sorted(scores):
                    also = "" if trained is None else f"train={trained[name]:.3f}, "
                    said += f" {name}: ({also}test={scores[name]:.3f})"
            elif trained is None:
                said += f", score={scores:.3f}"
            else:
                said += f", score=(train={trained:.3f}, test={scores:.3f})"
        said += f" total time={result['fit_time'] + result['score_time']:6.1f}s"
        begin = f"[CV{where}] END "
        return begin + "." * (80 - len(begin) - len(said)) + said


def _refuse_another_form(one: PathSVC, template: PathSVC) -> None:
    given = callable(one.kernel) or one.kernel == PRECOMPUTED
    if given and one.kernel is not template.kernel and one.kernel != template.kernel:
        raise ValueError(
            f"param_grid must hold kernels that have a name, got {one.kernel!r}; "
            "give it as kernel instead"
        )
