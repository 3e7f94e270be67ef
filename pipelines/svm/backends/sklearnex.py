"""``--solver sklearnex``: ``SVC`` of scikit-learn-intelex, one fit for each cell."""

from __future__ import annotations

import warnings

import daal4py
from sklearnex.svm import SVC

from pipelines.svm.backends.sklearn import SklearnBackend

# The tasks fill the cores; threads within each would only compete with the other tasks.
daal4py.daalinit(1)
# Tasks run off the main thread, where it would warn at every fit.
warnings.filterwarnings("ignore", "'Threading' parallel backend is not supported", UserWarning)


class SklearnexBackend(SklearnBackend):
    """``SklearnBackend`` with oneDAL as its solver."""

    @property
    def svc(self) -> type:
        return SVC


BACKEND = SklearnexBackend()
