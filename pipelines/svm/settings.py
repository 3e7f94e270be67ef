"""The settings that all fits of a run share: all but C and gamma."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.svm.kernel import PRECOMPUTED, Kernel

ClassWeight = Mapping[Any, float] | str | None
DECISIONS = ("ovo", "ovr")


@dataclass(frozen=True)
class Settings:
    """The settings of a solver and its model, the same for all fits of a run.

    Attributes
    ----------
    decision : {"ovo", "ovr"}
        One-vs-one as ``SVC``, or one-vs-rest as ``OneVsRestClassifier(SVC())``.
    tol : float
        LIBSVM's tolerance of the stopping criterion.
    max_iter : int
        Most iterations of one binary problem at one C; -1 for LIBSVM's limit with the
        path solver, for no limit with the others.
    class_weight : None, "balanced" or dict of class to factor of C
    kernel, degree, coef0 : as for ``Kernel``
    n_threads : int, optional
        Threads a backend may use on a CPU worker; None for every core this process may use.
    memory_bytes : int
        Bytes of kernel matrices that a backend may hold; beyond that it works in blocks.
    device : {"cpu", "gpu"}
        Where a worker computes.
    pair_values : bool
        Whether decision values for several classes are given for each pair, not for each class.
    n_landmarks : int
        Landmarks of the approximate kernel; 0 for the exact kernel.
    seed : int
        Seed for the choice of landmarks.
    """

    decision: str = "ovo"
    tol: float = 1e-3
    max_iter: int = -1
    class_weight: ClassWeight = None
    kernel: str = "rbf"
    degree: int = 3
    coef0: float = 0.0
    n_threads: int | None = None
    memory_bytes: int = 4 << 30
    device: str = "cpu"
    pair_values: bool = False
    n_landmarks: int = 0
    seed: int = 0

    @classmethod
    def of(cls, estimator: Any) -> Settings:
        """The settings of an ``SVC``, an ``SVR`` or one of our estimators."""
        names = ("decision", "tol", "max_iter", "class_weight", "memory_bytes")
        n_jobs = getattr(estimator, "n_jobs", None)
        return cls(
            **{name: getattr(estimator, name) for name in names if hasattr(estimator, name)},
            kernel=PRECOMPUTED if callable(estimator.kernel) else estimator.kernel,
            degree=int(estimator.degree),
            coef0=float(estimator.coef0),
            n_threads=None if n_jobs == -1 else n_jobs,
            pair_values=getattr(estimator, "decision_function_shape", "ovr") == "ovo",
            n_landmarks=_landmarks_of(estimator),
            seed=_seed_of(estimator),
        )

    @property
    def svc(self) -> dict[str, Any]:
        """Keyword arguments of a class like ``sklearn.svm.SVC``, all but C and gamma."""
        names = ("kernel", "degree", "coef0", "class_weight", "tol", "max_iter")
        return {name: getattr(self, name) for name in names}

    def at(self, gamma: float = 1.0) -> Kernel:
        """The kernel at this gamma."""
        return Kernel(self.kernel, self.degree, self.coef0, gamma)

    def limit(self, n: int) -> int:
        """The most iterations for one C of a problem of n rows: ``max_iter``, or LIBSVM's limit."""
        return max(10_000_000, 100 * n) if self.max_iter < 0 else self.max_iter


def _landmarks_of(estimator: Any) -> int:
    """The number of landmarks of one of our estimators; 0 for exact or other estimators."""
    is_exact = getattr(estimator, "approximation", None) is None
    return 0 if is_exact else int(estimator.n_landmarks)


def _seed_of(estimator: Any) -> int:
    """The seed of an estimator's landmarks; 0 where it has none."""
    seed = (getattr(estimator, "random_state", None) if _landmarks_of(estimator) else None) or 0
    return int(seed.randint(2**31 - 1) if hasattr(seed, "randint") else seed)
