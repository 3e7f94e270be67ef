"""Whether to approximate the kernel by landmarks, and how far that is from the exact kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cluster_setup.on_this_machine.devices import available_cores
from pipelines.data.dataset import CLASSIFICATION, Dataset
from pipelines.data.fits import Fit
from pipelines.data.placement import FoldedData, to_device
from pipelines.errors import InputError, opt
from pipelines.run.progress import time_text
from pipelines.search.shared.svm import SECONDS_OF_COST, SVCs, SVMParameters, SVRs
from pipelines.svm.backends.base import Backend, Work
from pipelines.svm.kernel import DEFINITE
from pipelines.svm.options import LANDMARKS, SVMOptions

# Rows that the comparison with the exact kernel fits on, and the most that it tests.
ROWS, MOST_TESTED = 5_000, 20_000
NORMAL_95 = 1.96  # half the width of a 95 % interval of the normal distribution


def choose_approximation(
    options: SVMOptions,
    dataset: Dataset,
    points: Sequence[Mapping[str, float]],
    n_splits: int,
    budget: float | None,
) -> tuple[str, str]:
    """Decide between the exact kernel and landmarks, where the options leave it open.

    Parameters
    ----------
    options : SVMOptions
    dataset : Dataset
    points : sequence of mapping
        C, gamma and, for a regression, epsilon of each candidate.
    n_splits : int
    budget : float or None
        Seconds of the time budget.

    Returns
    -------
    method : {"none", "nystroem"}
    line : str
        A line about the choice for the terminal, or an empty string.

    Raises
    ------
    InputError
        The kernel or the solver does not support landmarks.
    """
    method, n = options.approximate, len(dataset.y_train)
    if method == "none":
        if options.landmarks is not None:
            raise InputError(
                f"{opt('landmarks')} is for {opt('approximate')} nystroem or auto, got "
                f"{options.landmarks} without it; add it, or leave {opt('landmarks')} out"
            )
        return method, ""
    for name, allowed in (("kernel", DEFINITE), ("solver", ("auto", "path"))):
        if (value := getattr(options, name)) not in allowed:
            raise InputError(
                f"{opt(name)} must be one of {', '.join(allowed)} with "
                f"{opt('approximate', method)}, got {value!r}; leave one of them out"
            )
    reason = (
        ""
        if method == "nystroem"
        else _reason_to_approximate(options, dataset, points, n_splits, budget)
    )
    if method == "auto" and not reason:
        return "none", "approximate no: the exact kernel is within memory and time"
    of_splits = min(options.landmarks or LANDMARKS, n)
    line = f"{of_splits:,} landmarks of each split stand for its rows"
    return "nystroem", f"approximate {line}{reason and f': {reason}'}"


def _reason_to_approximate(
    options: SVMOptions,
    dataset: Dataset,
    points: Sequence[Mapping[str, float]],
    n_splits: int,
    budget: float | None,
) -> str:
    """Why the exact kernel exceeds this run's memory or time; empty if it does not."""
    exact, cores = options.settings(), available_cores()
    candidates = [SVMParameters(settings=exact, **point) for point in points]
    shared_fit = SVCs() if dataset.task == CLASSIFICATION else SVRs()
    slowdown, words = shared_fit.beyond_memory(candidates[0], dataset.y_train, cores)
    if words:
        return words.split(";")[0]
    n_rows, n_features = dataset.X_train.shape[0], dataset.X_train.shape[-1]
    cost = slowdown * n_splits * shared_fit.cost(candidates, n_rows, n_features)
    seconds = cost * SECONDS_OF_COST / cores
    if budget is not None and seconds > budget:
        return (
            f"exact fits may take {time_text(seconds)} on {cores} cores, of "
            f"{opt('time_budget')} {time_text(budget)}"
        )
    return ""


def distance_from_exact(
    data: FoldedData, best: SVMParameters, backend: Backend | None = None
) -> dict[str, float]:
    """Fit a candidate on some rows, exactly and on landmarks, and compare both on other rows.

    Parameters
    ----------
    data : FoldedData
    best : SVMParameters
        The candidate, with landmarks.
    backend : Backend or None
        For a classification; a regression is always fitted by the path solver on a CPU.

    Returns
    -------
    dict
        ``n_rows`` for the fits and ``n_tested`` others; ``exact`` and ``approximate``, the errors
        on the others or, for a regression, the mean squared errors as fractions of the targets'
        variance; their ``difference``, and ``low`` and ``high``, the ends of its 95 % interval.
    """
    n = len(data.y)
    n_rows = min(ROWS, 2 * n // 3)
    rows = np.random.default_rng(best.settings.seed).permutation(n)[: n_rows + MOST_TESTED]
    device = backend.device if backend else "cpu"
    X, y = data.scaled(device)[to_device(rows, device)], data.y[rows]
    losses = {}
    for name, n_landmarks in (("exact", 0), ("approximate", best.settings.n_landmarks)):
        candidate = replace(best, settings=replace(best.settings, n_landmarks=n_landmarks))
        predicted = _predictions(X, y, n_rows, candidate, backend)
        if best.epsilon is None:
            losses[name] = (predicted != y[n_rows:]).astype(np.float64)
        else:
            losses[name] = (predicted - y[n_rows:]) ** 2 / (np.var(y[n_rows:]) or 1.0)
    paired = losses["approximate"] - losses["exact"]
    mean = float(paired.mean())
    half = NORMAL_95 * float(paired.std()) / np.sqrt(len(paired))
    means = {name: float(values.mean()) for name, values in losses.items()}
    interval = {"difference": mean, "low": mean - half, "high": mean + half}
    return {"n_rows": n_rows, "n_tested": len(rows) - n_rows, **means, **interval}


def _predictions(
    X: Any, y: np.ndarray, n_rows: int, candidate: SVMParameters, backend: Backend | None
) -> Any:
    """Predict the other rows by a candidate fitted on the first ``n_rows``."""
    settings = candidate.settings
    if backend is None:
        svr = candidate.as_estimator().set_params(n_jobs=settings.n_threads)
        return svr.fit(X[:n_rows], y[:n_rows]).predict(X[n_rows:])
    split = np.arange(n_rows), np.arange(n_rows, len(y))
    arguments = [split], [0], [candidate.gamma], [candidate.C], settings
    (fit,) = (item for item in backend.fit_cells(Work(X, y, *arguments)) if isinstance(item, Fit))
    if fit.predict is None:
        raise RuntimeError(f"the comparison with exact fits failed: {fit.error}")
    return fit.predict("predict", "test")
