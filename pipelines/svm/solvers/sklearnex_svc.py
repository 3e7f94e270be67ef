"""``--solver sklearnex``: ``SVC`` of scikit-learn-intelex, one fit for each cell."""

from __future__ import annotations

from sklearnex.svm import SVC

from pipelines.svm.solvers.sklearn_svc import SklearnSolver


class SklearnexSolver(SklearnSolver):
    """As ``SklearnSolver``, with oneDAL doing the work."""

    def svc(self) -> type:
        """The class to fit with."""
        return SVC


SOLVER = SklearnexSolver()
