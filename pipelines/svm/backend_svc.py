"""A ``PathSVC`` fitted by a backend other than the path solver on a CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from pipelines.data.placement import SharedData, scatter, to_device
from pipelines.run.client_parameter import ClientMixin
from pipelines.svm.backends import load_backend
from pipelines.svm.cpu.fit import FittedPath
from pipelines.svm.path_svc import PathSVC
from pipelines.svm.settings import Settings


class BackendSVC(ClientMixin, PathSVC):
    """A ``PathSVC`` that any backend fits; ``n_iter_`` and ``fit_status_`` are -1 for unknown.

    Attributes
    ----------
    backend : (str, {"cpu", "gpu"})
        A name in ``BACKENDS``, and the device.
    client : distributed.Client or None
        Fits are made on one of its workers, so that this process does not take hold of a GPU that
        a worker uses; None to fit in this process. The client is not pickled.
    """

    backend: tuple[str, str] = ("path", "cpu")

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        clone.backend = self.backend
        return clone

    def _solve(
        self, X: np.ndarray, y: np.ndarray, gamma: float, settings: Settings, weights: Any
    ) -> FittedPath:
        assert weights is None
        device = self.backend[1]
        X = np.asarray(X, np.float64 if device == "cpu" else np.float32)
        settings = replace(settings, n_threads=settings.n_threads or 1, device=device)
        arguments: list[Any] = [self.backend, X, y, self.C, gamma, settings]
        if self.client is None:
            support, coefficients, intercepts = fit_parts(*arguments)
        else:
            arguments[1] = scatter(self.client, SharedData(X))
            future = self.client.submit(fit_parts, *arguments, pure=False)
            support, coefficients, intercepts = future.result()
        by_class = np.argsort(y[support], kind="stable")
        unknown = np.full(len(intercepts), -1)
        return FittedPath(
            np.unique(y),
            [],
            support[by_class],
            np.bincount(y[support], minlength=y.max() + 1),
            coefficients[by_class].T,
            intercepts,
            unknown,
            unknown,
            unknown,
        )


def fit_parts(
    name: tuple[str, str],
    X: np.ndarray | SharedData,
    y: np.ndarray,
    C: float,
    gamma: float,
    settings: Settings,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit rows on the host by a backend, as a task.

    Parameters
    ----------
    name : (str, {"cpu", "gpu"})
        A name in ``BACKENDS``, and the device.
    X : array of shape (n_samples, n_features), or SharedData of it
    y : int array of shape (n_samples,)
        Class codes.
    C, gamma : float
    settings : Settings

    Returns
    -------
    support, coefficients, intercepts : arrays, see ``Backend.fit_parts``
    """
    backend, X = load_backend(*name), X.shared if isinstance(X, SharedData) else X
    return backend.fit_parts(to_device(X, backend.device), y, C, gamma, settings)
