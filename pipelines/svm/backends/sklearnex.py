"""``--solver sklearnex``: ``SVC`` of scikit-learn-intelex, one fit for each cell."""

from __future__ import annotations

import warnings

import daal4py
from sklearnex.svm import SVC

from pipelines.svm.backends.sklearn import SklearnBackend

# Tasks share the cores among them; threads within one would only be in their way.
daal4py.daalinit(1)
# Said at every fit off the main thread, which is where tasks run.
warnings.filterwarnings("ignore", "'Threading' parallel backend is not supported", UserWarning)


class SklearnexBackend(SklearnBackend):
    """``SklearnBackend`` with oneDAL as its solver."""

    @property
    def svc(self) -> type:
        return SVC


BACKEND = SklearnexBackend()
