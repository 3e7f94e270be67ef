"""A ``PathSVC`` that another backend than the path solver on a CPU fits."""

from __future__ import annotations

from typing import Self

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
    fitted_ : the backend's own estimator; a ``KernelMachine`` in place of one that lives on a
        GPU, so that it can be used where there is none
    """

    backend: tuple[str, str] = ("path", "cpu")

    def with_backend(self, solver: str, device: str) -> Self:
        """Return this estimator set to fit by a backend; its clones are set so, too."""
        self.backend = solver, device
        return self

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on the rows of ``X``; see ``PathSVC.fit``."""
        assert sample_weight is None
        rows, y = self.validated(X, y)
        backend, gamma = load_backend(*self.backend), self.gamma_of(rows)
        settings = Settings(
            self.decision, self.tol, self.max_iter, self.solver_kernel, self.class_weight,
            n_threads=self.n_jobs or 1, memory_bytes=self.memory_bytes, device=self.backend[1],
        )  # fmt: skip
        rows = np.asarray(rows, np.float64)
        if backend.device == "gpu":
            rows = rows.astype(np.float32)
        on_device = to_device(rows, backend.device)
        fitted = None
        if isinstance(backend, OneByOne):
            fitted = backend.fit(on_device, y, self.C, gamma, settings)
            support, coefficients, intercepts = backend.parts(fitted)
        else:
            parts = backend.fit_parts(on_device, y, self.C, gamma, settings)
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
        self.fitted_ = self.machine_ if fitted is None or backend.device == "gpu" else fitted
        return self
