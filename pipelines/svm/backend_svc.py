"""A ``PathSVC`` that another backend than the path solver on a CPU fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pipelines.data.placement import to_device
from pipelines.data.scaling import FittedScaling
from pipelines.svm.backends import Settings, load_backend
from pipelines.svm.backends.base import OneByOne
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm.path_svc import PathSVC


class BackendSVC(PathSVC):
    """The parameters of ``PathSVC``, fitted by any backend.

    Attributes
    ----------
    backend : a name in ``BACKENDS``, and ``"cpu"`` or ``"gpu"``
    elsewhere : calls a function with arguments on a worker, for a process that is to keep its
        hands off the GPUs of workers; None: fits are made here. It does not travel.
    fitted_ : the backend's own estimator; a ``KernelMachine`` in place of one that lives on a
        GPU, so that it can be used where there is none
    """

    backend: tuple[str, str] = ("path", "cpu")
    elsewhere: Callable[..., Any] | None = None

    def with_backend(
        self, solver: str, device: str, elsewhere: Callable[..., Any] | None = None
    ) -> Self:
        """Return this estimator set to fit by a backend; its clones are set so, too."""
        self.backend, self.elsewhere = (solver, device), elsewhere
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: one for name, one in super().__getstate__().items() if name != "elsewhere"}

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on the rows of ``X``; see ``PathSVC.fit``."""
        assert sample_weight is None
        rows, y = self.validated(X, y)
        gamma = self.gamma_of(rows)
        settings = Settings(
            self.decision, self.tol, self.max_iter, self.solver_kernel, self.class_weight,
            n_threads=self.n_jobs or 1, memory_bytes=self.memory_bytes, device=self.backend[1],
        )  # fmt: skip
        rows = np.asarray(rows, np.float64 if self.backend[1] == "cpu" else np.float32)
        what = self.backend, rows, y, self.C, gamma, settings
        fitted, parts = self.elsewhere(fit_by, *what) if self.elsewhere else fit_by(*what)
        support, coefficients, intercepts = parts
        self.classes_ = np.unique(y)
        self.machine_ = KernelMachine(
            support_vectors=rows[support],
            coefficients=coefficients,
            intercepts=intercepts,
            kernel=self.solver_kernel,
            gamma=gamma,
            scaling=FittedScaling(np.zeros(1), np.ones(1)),
            classes_=self.classes_,
            decision=self.decision,
        )
        self.fitted_ = self.machine_ if fitted is None else fitted
        return self


def fit_by(
    name: tuple[str, str], X: np.ndarray, y: np.ndarray, C: float, gamma: float, settings: Settings
) -> tuple[Any, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Fit rows on the host by a backend; a task.

    Returns
    -------
    The backend's own estimator, None where it has none or it lives on a GPU; and the model as
    numbers, see ``Backend.fit_parts``.
    """
    backend = load_backend(*name)
    on_device = to_device(X, backend.device)
    if not isinstance(backend, OneByOne):
        return None, backend.fit_parts(on_device, y, C, gamma, settings)
    fitted = backend.fit(on_device, y, C, gamma, settings)
    return fitted if backend.device == "cpu" else None, backend.parts(fitted)
