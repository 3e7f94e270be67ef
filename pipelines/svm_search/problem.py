"""The search of ``svm_grid`` as a problem for the engine, and the refit of its best candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipelines.data.dataset import take_rows
from pipelines.data.fits import Fit
from pipelines.data.placement import FoldedData
from pipelines.data.preparation import Preparation
from pipelines.search.candidates import Candidate
from pipelines.search.fitting import CandidateGroup
from pipelines.search.importance import AskedModel
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared.base import SharedFit
from pipelines.search.shared.svm import KernelMachines, SVCs, SVMParameters, SVRs
from pipelines.search.tasks import SEARCH, Problem, Refit, Splits
from pipelines.svm.backends import load_backend
from pipelines.svm.backends.base import PRODUCTS, Backend, Work
from pipelines.svm.backends.brief import BriefBackend
from pipelines.svm.cpu import first_use
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.multiclass import class_values, codes_of, margins
from pipelines.svm.probabilities import Calibration, fit_sigmoids
from pipelines.svm.settings import Settings
from pipelines.svm_search.approximation import distance_from_exact

CORES_PER_WORKER = 8  # for a backend that uses several cores in one process


def workers_for(solver: str, cores: int) -> int:
    """How many worker processes use the cores of a machine without a GPU.

    A backend whose fits share arrays needs fewer: each worker holds these once for several cores.
    """
    shares_C = load_backend(solver, "cpu").shares_C
    return max(1, cores // CORES_PER_WORKER) if shares_C else cores


def svm_problem(
    data: FoldedData,
    splits: Splits,
    points: Sequence[Mapping[str, float]],
    solver: str,
    settings: Settings,
    scorer: CandidateScorer,
    brief: bool = False,
) -> Problem:
    """The search over values of C, gamma and, for a regression, epsilon, for the engine.

    Parameters
    ----------
    data : FoldedData
    splits : Splits
        For each stage and fraction of the training rows.
    points : sequence of mapping
        C, gamma and, for a regression, epsilon of each candidate.
    solver : str
        A name in ``BACKENDS``; a regression is always fitted by the path solver on a CPU.
    settings : Settings
    scorer : CandidateScorer
    brief : bool, default False
        Whether ``SVC`` itself fits first, see ``is_brief``.
    """
    candidates = [
        Candidate("svm", point, SVMParameters(settings=settings, **point)) for point in points
    ]
    machines: KernelMachines = SVRs() if "epsilon" in points[0] else SVCs(solver, settings.device)
    if settings.n_landmarks:
        machines = machines.with_landmarks()
    shared_fit: SharedFit = machines
    if brief and settings.device == "cpu":
        shared_fit = machines.brief([candidate.estimator for candidate in candidates])
    is_prepared = isinstance(data.scaling, Preparation)  # then each split has rows of its own
    if load_backend(solver, settings.device).device == "gpu" and not is_prepared:
        data = replace(data, place=FoldedData.placed)
    groups = (CandidateGroup(tuple(range(len(candidates))), shared_fit),)
    return Problem(
        data, tuple(candidates), splits, scorer, groups, tuple(points[0]), settings.device
    )


def is_brief(
    points: Sequence[Mapping[str, float]],
    settings: Settings,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    n_features: int,
) -> bool:
    """Whether ``SVC`` would finish a search before the path solver is compiled.

    Parameters
    ----------
    points, settings : as for ``svm_problem``
    splits : sequence of (training rows, validation rows)
    n_features : int
    """
    if not first_use.may_wait() or first_use.is_compiled():
        return False
    estimators = [SVMParameters(settings=settings, **point) for point in points]
    n_rows, shared_fit = len(splits[0][0]), SVCs()
    saved = shared_fit.seconds_saved(estimators, n_rows, n_features, len(splits))
    return saved < shared_fit.seconds_to_start() and shared_fit.brief(estimators) is not shared_fit


def refit_and_test_svm(
    problem: Problem,
    refit: Refit,
    solver: str,
    probability: bool = False,
    brief: bool = False,
) -> dict[str, Any]:
    """Fit the best candidate on all training rows and predict the test rows, as a task.

    Parameters
    ----------
    problem : Problem
    refit : Refit
    solver : str
        As for ``svm_problem``.
    probability : bool, default False
        Whether to calibrate it on the splits of the search, which takes one fit per split.
    brief : bool, default False
        As for ``svm_problem``.

    Returns
    -------
    dict
        ``machine``
            KernelMachine or KernelRegressor.
        ``predicted``
            Class codes, int of shape (n_test,), not changed by calibration; for a regression,
            float64.
        ``margin``
            For a classification, float64 of shape (n_test,), see ``margins``.
        ``probabilities`` or ``decision_values``
            For a classification, float64 of shape (n_test, n_classes) with ``probability``;
            otherwise as from ``class_values``.
        ``exactness``
            With landmarks, see ``distance_from_exact``.
        ``fitted``
            The machine in the form that ``refit_with_importances`` needs.
    """
    data, best = problem.data, problem.candidates[refit.member].estimator
    settings, scaling = best.settings, data.scaling_for(None)
    if best.epsilon is not None:
        svr = best.as_estimator().set_params(
            tol=settings.tol,
            max_iter=settings.max_iter,
            n_jobs=settings.n_threads,
            memory_bytes=settings.memory_bytes,
        )
        svr.fit(data.scaled("cpu"), data.y)
        support = scaling.transform(take_rows(data.X, svr.support_))
        regressor = replace(svr.machine_, support_vectors=support, scaling=scaling)
        tested = {"machine": regressor, "predicted": regressor.predict(data.X_test)}
        tested["fitted"] = AskedModel(regressor.predict, work=support.size)
        if settings.n_landmarks:
            tested["exactness"] = distance_from_exact(data, best)
        return tested
    classes, backend = problem.scorer.labels, load_backend(solver, settings.device)
    if brief and settings.device == "cpu":
        backend = BriefBackend(first_use.seconds_to_start())
    assert classes is not None
    data.placement.drop(PRODUCTS)  # the fit needs the memory
    support, coefficients, intercepts = backend.fit_parts(
        data.scaled(backend.device), data.y, best.C, best.gamma, settings
    )
    machine = KernelMachine(
        scaling.transform(take_rows(data.X, support)),
        coefficients,
        intercepts,
        settings.at(),
        best.gamma,
        scaling,
        classes,
        settings.decision,
    )
    values, form = machine.decision_values(data.X_test), (len(classes), settings.decision)
    codes = codes_of(values, *form)
    tested = {"predicted": codes, "margin": margins(values, codes, *form)}
    if probability:
        machine = replace(machine, calibration=_calibrate(problem, best, backend))
        tested["probabilities"] = machine.predict_proba(data.X_test)
    else:
        tested["decision_values"] = class_values(values, *form)
    if settings.n_landmarks:
        tested["exactness"] = distance_from_exact(data, best, backend)
    fitted = AskedModel(
        machine.predict_codes,
        len(classes),
        machine.support_vectors.size,
        decision_function=machine.decision_function,
    )
    return {"machine": machine, "fitted": fitted, **tested}


def _calibrate(problem: Problem, best: SVMParameters, backend: Backend) -> Calibration:
    """Fit sigmoids to the decision values of the validation rows of each split.

    There is no ensemble: the one model is the same as without calibration, so that predictions and
    stored size do not change. The scaling is fitted within each split, so that nothing of its
    validation rows leaks into their decision values.
    """
    data, splits, decisions = problem.data, problem.splits[SEARCH, 1.0], list[np.ndarray]()
    # If the scaling is fitted to the rows, every split has scaled rows of its own.
    for batch in [[split] for split in splits] if data.scaling.learns else [splits]:
        X = data.scaled(backend.device, rows=batch[0][0] if data.scaling.learns else None)
        numbers, candidate_arguments = range(len(batch)), ([best.gamma], [best.C], best.settings)
        items = backend.fit_cells(
            Work(X, data.y, batch, numbers, *candidate_arguments, decisions=True)
        )
        fits = [item for item in items if isinstance(item, Fit)]  # in no special order
        for fit in sorted(fits, key=lambda fit: fit.split):
            if fit.predict is None:
                raise RuntimeError(f"split {len(decisions)} of the calibration failed: {fit.error}")
            decisions.append(fit.predict("decision_function", "test"))
    rows = np.concatenate([validation for _, validation in splits])
    return fit_sigmoids(np.concatenate(decisions), data.y[rows])
